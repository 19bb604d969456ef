//! Chains of inbound listeners, by mode and protocol of a port.

use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, common_tls_context::ValidationContextType,
};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use hcm::http_connection_manager::PathWithEscapedSlashesAction;
use tributary_answer::{AppliedAuthorization, AuthorizationChain, InboundAuthorization, TokenChecks};
use tributary_fixtures::mk_port;
use tributary_model::{
    AuthorizationAction, AuthorizationRule, CertificateSource, PathNormalization, PeerAuthentication,
    PeerModes, PeerScopes, PolicyKey, PolicyKind,
};

use super::*;

const ALL: &str = "istio-http/1.0,istio-http/1.1,istio-h2,istio,istio-peer-exchange";
const HTTP_ONLY: &str = "istio-http/1.0,istio-http/1.1,istio-h2";
const ANY: &str = "istio,istio-peer-exchange";

fn mk_modes(usual: MtlsMode, ports: &[(u32, MtlsMode)]) -> Arc<PeerModes> {
    let ports = ports.iter().map(|(port, mode)| (mk_port(*port), Some(*mode))).collect();
    let peers = PeerAuthentication { mode: Some(usual), ports, ..PeerAuthentication::default() };
    let scopes = PeerScopes { mesh: None, namespace: None, workload: Some(Arc::new(peers)) };
    Arc::new(scopes.modes())
}
fn mk_security(rest: MtlsMode) -> InboundSecurity {
    let certificates = CertificateSource::Sds(CertificateSource::AGENT.into());
    let tls = InboundTls { certificates, domains: ["mesh".into(), "old".into()].into() };
    InboundSecurity { modes: mk_modes(rest, &[]), tls: Some(tls), authorization: None, tokens: None }
}
fn mk_inbound(port: u32, protocol: Protocol, mode: MtlsMode) -> InboundPort {
    InboundPort { target: mk_port(port), service: mk_port(80), protocol, mode }
}
fn context(chain: &pb::FilterChain) -> Option<DownstreamTlsContext> {
    let socket = chain.transport_socket.as_ref()?;
    let Some(ConfigType::TypedConfig(any)) = &socket.config_type else { panic!("no configuration") };
    Some(DownstreamTlsContext::decode(&any.value[..]).unwrap())
}
/// `PORT TRANSPORT PROTOCOLS: mesh http` of a chain; `*` where it matches any.
fn shown(chain: &pb::FilterChain) -> String {
    let found = chain.filter_chain_match.clone().unwrap_or_default();
    let port = found.destination_port.map_or_else(|| "*".to_owned(), |port| port.value.to_string());
    let or_any = |text: &str| if text.is_empty() { "*".to_owned() } else { text.to_owned() };
    let transport = or_any(&found.transport_protocol);
    let protocols = or_any(&found.application_protocols.join(","));
    let security = if chain.transport_socket.is_some() { "mesh" } else { "plain" };
    let filter = chain.filters[0].name.rsplit('.').next().unwrap().replace("http_connection_manager", "http");
    format!("{port} {transport} {protocols}: {security} {}", filter.replace("tcp_proxy", "tcp"))
}
fn bound(protocol: Protocol, mode: MtlsMode) -> (Vec<String>, Vec<String>) {
    let security = mk_security(mode);
    let at = ListenAddress::only([127, 0, 0, 1].into());
    let body = inbound(at, &mk_inbound(9080, protocol, mode), &security, &Handling::default());
    let message = pb::Listener::decode(&body[..]).unwrap();
    let filters = message.listener_filters.iter().map(|f| f.name.rsplit('.').next().unwrap().to_owned());
    (message.filter_chains.iter().map(shown).collect(), filters.collect())
}

#[test]
fn paths_are_normalized_by_the_settings() {
    let of = |paths| {
        let (security, handling) =
            (mk_security(MtlsMode::Disable), Handling { paths, ..Handling::default() });
        let at = ListenAddress::only([127, 0, 0, 1].into());
        let body = inbound(at, &mk_inbound(9080, Protocol::Http, MtlsMode::Disable), &security, &handling);
        let chains = pb::Listener::decode(&body[..]).unwrap().filter_chains;
        let filters = chains.iter().flat_map(|chain| &chain.filters);
        let mut managers = filters.filter_map(|filter| match &filter.config_type {
            Some(pb::filter::ConfigType::TypedConfig(any)) => {
                hcm::HttpConnectionManager::decode(&any.value[..]).ok()
            }
            _ => None,
        });
        let manager = managers.next().unwrap();
        let is_unescaped =
            manager.path_with_escaped_slashes_action() == PathWithEscapedSlashesAction::UnescapeAndForward;
        (manager.normalize_path.unwrap().value, manager.merge_slashes, is_unescaped)
    };
    assert_eq!(of(PathNormalization::None), (false, false, false));
    assert_eq!(of(PathNormalization::default()), (true, false, false));
    assert_eq!(of(PathNormalization::MergeSlashes), (true, true, false));
    assert_eq!(of(PathNormalization::DecodeAndMergeSlashes), (true, true, true));
}

#[test]
fn chains_follow_mode_and_protocol() {
    use MtlsMode::{Disable, Permissive, Strict};
    let (inspects, detects) = ("tls_inspector", "http_inspector");
    let line = |what: &str| format!("9080 {what}");
    let http = "raw_buffer http/1.1,h2c: plain http";
    let both_alpn = |of: &str| (format!("tls {of}: mesh http"), format!("tls {of}: mesh tcp"));
    let (all_http, all_tcp) = both_alpn(ALL);
    let (only_http, any_tcp) = (both_alpn(HTTP_ONLY).0, both_alpn(ANY).1);
    let cases: [(Protocol, MtlsMode, Vec<&str>, Vec<&str>); 9] = [
        (Protocol::Http, Disable, vec!["* *: plain http"], vec![]),
        (Protocol::Http, Permissive, vec![&all_http, "raw_buffer *: plain http"], vec![inspects]),
        (Protocol::Http, Strict, vec!["* *: mesh http"], vec![]),
        (Protocol::Tcp, Disable, vec!["* *: plain tcp"], vec![]),
        (
            Protocol::Tcp,
            Permissive,
            vec![&all_tcp, "raw_buffer *: plain tcp", "tls *: plain tcp"],
            vec![inspects],
        ),
        (Protocol::Tcp, Strict, vec!["* *: mesh tcp"], vec![]),
        (Protocol::Unspecified, Disable, vec![http, "raw_buffer *: plain tcp"], vec![detects]),
        (
            Protocol::Unspecified,
            Permissive,
            vec![&only_http, &any_tcp, http, "raw_buffer *: plain tcp", "tls *: plain tcp"],
            vec![inspects, detects],
        ),
        (Protocol::Unspecified, Strict, vec![&only_http, "tls *: mesh tcp"], vec![inspects, detects]),
    ];
    for (protocol, mode, chains, filters) in cases {
        let want: Vec<String> = chains.into_iter().map(line).collect();
        assert_eq!(
            bound(protocol, mode),
            (want, filters.iter().map(|f| (*f).to_owned()).collect()),
            "{mode}"
        );
    }
}

#[test]
fn clients_prove_an_identity_of_a_trust_domain() {
    let (security, handling) = (mk_security(MtlsMode::Strict), Handling::default());
    let chain = Chains::new(&security, &handling);
    let chains = chain.of_port(&mk_inbound(9080, Protocol::Http, MtlsMode::Strict));
    let context = context(&chains[0]).unwrap();
    assert_eq!(context.require_client_certificate, Some(BoolValue { value: true }));
    let common: CommonTlsContext = context.common_tls_context.unwrap();
    assert_eq!(common.alpn_protocols, ["h2", "http/1.1"]);
    assert_eq!(common.tls_certificate_sds_secret_configs[0].name, "default");
    let Some(ValidationContextType::CombinedValidationContext(combined)) = common.validation_context_type
    else {
        panic!("no authorities")
    };
    assert_eq!(combined.validation_context_sds_secret_config.unwrap().name, "ROOTCA");
    let names = combined.default_validation_context.unwrap().match_typed_subject_alt_names;
    let prefixes = names.into_iter().map(|name| name.matcher.unwrap().match_pattern.unwrap());
    let want = ["spiffe://mesh/", "spiffe://old/"].map(|domain| MatchPattern::Prefix(domain.into()));
    assert_eq!(prefixes.collect::<Vec<_>>(), want);
}

#[test]
fn application_gets_the_identity_of_a_client_of_mesh_tls_alone() {
    let (security, handling) = (mk_security(MtlsMode::Permissive), Handling::default());
    let chain = Chains::new(&security, &handling);
    let forwards = |chain: &pb::FilterChain| {
        let Some(pb::filter::ConfigType::TypedConfig(any)) = &chain.filters[0].config_type else {
            panic!("no configuration")
        };
        let manager = hcm::HttpConnectionManager::decode(&any.value[..]).unwrap();
        (manager.forward_client_cert_details(), manager.set_current_client_cert_details.is_some())
    };
    let chains = chain.of_port(&mk_inbound(9080, Protocol::Http, MtlsMode::Permissive));
    let modes: Vec<_> = chains.iter().map(forwards).collect();
    assert_eq!(
        modes,
        [(ForwardClientCertDetails::AppendForward, true), (ForwardClientCertDetails::Sanitize, false)]
    );
}

/// Envoy takes a default chain for connections to a known port that no chain of it takes.
#[test]
fn strict_port_beside_others_has_no_other_chain() {
    let ports = [
        mk_inbound(9080, Protocol::Unspecified, MtlsMode::Strict),
        mk_inbound(9090, Protocol::Tcp, MtlsMode::Disable),
    ];
    let (security, at) = (mk_security(MtlsMode::Permissive), ListenAddress::only([0, 0, 0, 0].into()));
    let body = virtual_inbound(at, &ports, &security, &Handling::default());
    let message = pb::Listener::decode(&body[..]).unwrap();
    assert_eq!(message.default_filter_chain, None);
    let (only_http, any_tcp) = (format!("tls {HTTP_ONLY}: mesh http"), format!("tls {ANY}: mesh tcp"));
    let want = [
        "15006 * *: plain tcp".to_owned(),
        format!("9080 {only_http}"),
        "9080 tls *: mesh tcp".to_owned(),
        "9090 * *: plain tcp".to_owned(),
        format!("* {only_http}"),
        format!("* {any_tcp}"),
        "* raw_buffer http/1.1,h2c: plain http".to_owned(),
        "* raw_buffer *: plain tcp".to_owned(),
        "* tls *: plain tcp".to_owned(),
    ];
    assert_eq!(message.filter_chains.iter().map(shown).collect::<Vec<_>>(), want);
    let filters: Vec<&str> =
        message.listener_filters.iter().map(|f| f.name.rsplit('.').next().unwrap()).collect();
    assert_eq!(filters, ["original_dst", "tls_inspector", "http_inspector"]);
}

#[test]
fn strict_port_without_certificates_refuses_every_connection() {
    let ports = [
        mk_inbound(9080, Protocol::Http, MtlsMode::Strict),
        mk_inbound(9090, Protocol::Tcp, MtlsMode::Permissive),
    ];
    let (security, at) = (
        InboundSecurity {
            modes: mk_modes(MtlsMode::Strict, &[]),
            tls: None,
            authorization: None,
            tokens: None,
        },
        ListenAddress::only([0, 0, 0, 0].into()),
    );
    let body = virtual_inbound(at, &ports, &security, &Handling::default());
    let message = pb::Listener::decode(&body[..]).unwrap();
    let leads = |chain: &pb::FilterChain| {
        let Some(pb::filter::ConfigType::TypedConfig(any)) = &chain.filters[0].config_type else {
            panic!("no configuration")
        };
        match TcpProxy::decode(&any.value[..]).unwrap().cluster_specifier {
            Some(tcp_proxy::ClusterSpecifier::Cluster(name)) => name,
            other => panic!("{other:?}"),
        }
    };
    let got: Vec<String> =
        message.filter_chains.iter().map(|c| format!("{}: {}", shown(c), leads(c))).collect();
    let want = [
        "15006 * *: plain tcp: BlackHoleCluster",
        "9080 * *: plain tcp: BlackHoleCluster",
        "9090 * *: plain tcp: inbound|9090||",
        "* * *: plain tcp: BlackHoleCluster",
    ];
    assert_eq!(got, want);
}

/// A chain without them would be a way around the policies.
#[test]
fn policies_decide_first_in_every_chain_that_leads_to_the_workload() {
    let policy = AppliedAuthorization {
        key: PolicyKey {
            kind: PolicyKind::AuthorizationPolicy,
            namespace: tributary_fixtures::mk_ns("shop"),
            name: "deny".into(),
        },
        action: AuthorizationAction::Deny,
        is_dry_run: false,
        rules: [AuthorizationRule::default()].into(),
    };
    let authorization = InboundAuthorization {
        policies: Arc::new(AuthorizationChain { policies: [policy].into() }),
        domains: ["mesh".into()].into(),
    };
    let protocols = [Protocol::Http, Protocol::Tcp, Protocol::Tls, Protocol::Unspecified];
    for mode in [MtlsMode::Disable, MtlsMode::Permissive, MtlsMode::Strict] {
        let security = InboundSecurity { authorization: Some(authorization.clone()), ..mk_security(mode) };
        let ports: Vec<_> =
            (9080..).zip(protocols).map(|(port, protocol)| mk_inbound(port, protocol, mode)).collect();
        let at = ListenAddress::only([0, 0, 0, 0].into());
        let body = virtual_inbound(at, &ports, &security, &Handling::default());
        let message = pb::Listener::decode(&body[..]).unwrap();
        assert!(message.filter_chains.len() > ports.len());
        // the first one keeps connections from looping
        for chain in &message.filter_chains[1..] {
            assert_eq!(first(chain), "envoy.filters.rbac", "{mode}: {}", shown(chain));
        }
    }
}

/// Tokens are checked before policies compare them, and only where requests are read.
#[test]
fn tokens_are_checked_first_in_every_chain_with_requests() {
    let rule = tributary_fixtures::mk_token_rule("iss", tributary_model::TokenKeys::Undeclared);
    let tokens = TokenChecks { rules: [rule].into(), refusing: Arc::default() };
    let mode = MtlsMode::Permissive;
    let security = InboundSecurity { tokens: Some(Arc::new(tokens)), ..mk_security(mode) };
    let at = ListenAddress::only([0, 0, 0, 0].into());
    let firsts = |protocol| {
        let body = inbound(at, &mk_inbound(9080, protocol, mode), &security, &Handling::default());
        let message = pb::Listener::decode(&body[..]).unwrap();
        message.filter_chains.iter().map(first).collect::<Vec<_>>()
    };
    assert_eq!(firsts(Protocol::Http), ["envoy.filters.jwt_authn"; 2]);
    assert!(firsts(Protocol::Tcp).iter().all(|name| name == "envoy.filters.tcp_proxy"));
}

/// Returns the name of the filter that decides first: the first of connections, or the first of requests.
fn first(chain: &pb::FilterChain) -> String {
    let filter = &chain.filters[0];
    let Some(pb::filter::ConfigType::TypedConfig(any)) = &filter.config_type else {
        panic!("no configuration")
    };
    let name = match &*filter.name {
        "envoy.filters.network.http_connection_manager" => {
            hcm::HttpConnectionManager::decode(&any.value[..]).unwrap().http_filters[0].name.clone()
        }
        other => other.to_owned(),
    };
    name.replace(".http.", ".").replace(".network.", ".")
}

#[test]
fn ports_of_no_service_have_the_modes_that_policies_set() {
    use MtlsMode::{Disable, Permissive, Strict};
    let modes = mk_modes(Disable, &[(80, Strict), (9080, Strict), (9999, Permissive), (15006, Strict)]);
    let security = InboundSecurity { modes, ..mk_security(Disable) };
    let ports = [mk_inbound(80, Protocol::Tcp, Strict)];
    let at = ListenAddress::only([0, 0, 0, 0].into());
    let body = virtual_inbound(at, &ports, &security, &Handling::default());
    let listener = pb::Listener::decode(&body[..]).unwrap();
    let all: Vec<String> = listener.filter_chains.iter().map(shown).collect();
    let of = |port: &str| all.iter().filter(|chain| chain.starts_with(port)).cloned().collect::<Vec<_>>();
    assert_eq!(of("9080 "), [&format!("9080 tls {HTTP_ONLY}: mesh http"), "9080 tls *: mesh tcp"]);
    assert!(of("9999 ").iter().any(|chain| chain.contains("plain")), "{all:?}");
    assert!(of("9999 ").iter().any(|chain| chain.contains("mesh")), "{all:?}");
    assert!(of("* ").iter().all(|chain| chain.contains("plain")), "{all:?}");
    assert_eq!((of("80 ").len(), of("15006 ").len()), (1, 1), "{all:?}");
}
