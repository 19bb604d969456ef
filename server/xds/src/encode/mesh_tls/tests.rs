//! xDS clusters with mesh TLS, decoded: sockets, server name, protocols, names and secrets.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket::ConfigType};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use tributary_answer::cluster as plan;
use tributary_fixtures::{mk_key, mk_port};
use tributary_model::{
    ByNamespace, ClientKind, ClientTls, ClusterInputs, ClusterPolicy, Identity, IdentitySet, Projection,
    Protocol, Resolution, TlsSettings, TrafficPolicy,
};

use super::*;
use crate::encode::cluster::cluster;

fn mk_identities(accounts: &[&str]) -> Arc<IdentitySet> {
    let identity = |account: &&str| Identity::new(format!("spiffe://mesh/ns/shop/sa/{account}")).unwrap();
    Arc::new(accounts.iter().map(identity).collect())
}
fn mk_inputs(host: &str, protocol: Protocol, identities: &Arc<IdentitySet>) -> ClusterInputs {
    ClusterInputs {
        service: mk_key(host, "shop"),
        port: mk_port(80),
        protocol,
        resolution: Resolution::ClientSide,
        target: None,
        attributes: Arc::default(),
        identities: Arc::clone(identities),
        automatic_tls: true,
        all_meshed: false,
        connect_timeout: Duration::from_secs(10),
        locality: None,
        inline: None,
        policy: None,
    }
}
fn mutual(names: &[&str], sni: Option<&str>) -> ClientTls {
    let names = names.iter().map(|name| Arc::from(*name)).collect();
    ClientTls::IstioMutual(TlsSettings { names, sni: sni.map(Into::into), ..TlsSettings::default() })
}
fn ruled(inputs: ClusterInputs, tls: ClientTls) -> ClusterInputs {
    let whole = TrafficPolicy { tls: Some(Arc::new(tls)), ..TrafficPolicy::default() };
    let policy = ClusterPolicy { whole, ..ClusterPolicy::default() };
    ClusterInputs { policy: Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))), ..inputs }
}
fn agent() -> CertificateSource {
    CertificateSource::Sds(CertificateSource::AGENT.into())
}
fn encoded(inputs: &ClusterInputs, kind: ClientKind, certificates: CertificateSource) -> Cluster {
    let client = Projection { kind: Some(kind), certificates: Some(certificates), ..Projection::default() };
    let plan = plan(inputs, None, &client, &mut ()).unwrap();
    Cluster::decode(&cluster(&plan)[..]).unwrap()
}
fn context(socket: Option<&TransportSocket>) -> pb::UpstreamTlsContext {
    let socket = socket.unwrap();
    assert_eq!(socket.name, "envoy.transport_sockets.tls");
    let Some(ConfigType::TypedConfig(any)) = &socket.config_type else { panic!("no configuration") };
    assert_eq!(any.type_url, pb::UpstreamTlsContext::type_url());
    pb::UpstreamTlsContext::decode(&any.value[..]).unwrap()
}
/// Returns the names that are verified, without the part that all have in common, and the secrets.
#[allow(deprecated, reason = "the field is sent")]
fn verified(context: &pb::CommonTlsContext) -> (Vec<String>, Vec<String>) {
    let Some(ValidationContextType::CombinedValidationContext(combined)) = &context.validation_context_type
    else {
        panic!("{context:?}")
    };
    let name = |matcher: &StringMatcher| match &matcher.match_pattern {
        Some(MatchPattern::Exact(name)) => name.replace("spiffe://mesh/ns/shop/sa/", ""),
        other => panic!("{other:?}"),
    };
    let names = combined.default_validation_context.iter().flat_map(|own| &own.match_subject_alt_names);
    let roots = combined.validation_context_sds_secret_config.iter();
    let secrets = context.tls_certificate_sds_secret_configs.iter().chain(roots);
    (names.map(name).collect(), secrets.map(|secret| secret.name.clone()).collect())
}
fn source(context: &pb::CommonTlsContext) -> String {
    let config = context.tls_certificate_sds_secret_configs[0].sds_config.as_ref().unwrap();
    assert_eq!(config.initial_fetch_timeout.as_ref().map(|time| time.seconds), Some(0));
    match &config.config_source_specifier {
        Some(ConfigSourceSpecifier::Ads(_)) => "ads".into(),
        Some(ConfigSourceSpecifier::ApiConfigSource(api)) => match &api.grpc_services[0].target_specifier {
            Some(TargetSpecifier::EnvoyGrpc(to)) => to.cluster_name.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn automatic_tls_has_two_sockets_and_the_metadata_of_an_endpoint_chooses() {
    let inputs = mk_inputs("pay.shop", Protocol::Http, &mk_identities(&["b", "a"]));
    let found = encoded(&inputs, ClientKind::Sidecar, agent());
    assert!(found.transport_socket.is_none());
    let [tls, plain] = &found.transport_socket_matches[..] else { panic!("{found:?}") };
    let fields = |of: &Option<envoy_types::pb::google::protobuf::Struct>| {
        of.as_ref().unwrap().fields.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!((tls.name.as_str(), fields(&tls.r#match)), ("tlsMode-istio", vec!["tlsMode".to_owned()]));
    assert_eq!((plain.name.as_str(), fields(&plain.r#match)), ("tlsMode-disabled", vec![]));
    assert_eq!(plain.transport_socket.as_ref().unwrap().name, "envoy.transport_sockets.raw_buffer");
    let context = context(tls.transport_socket.as_ref());
    assert_eq!(context.sni, "outbound_.80_._.pay.shop");
    let common = context.common_tls_context.unwrap();
    assert_eq!(common.alpn_protocols, ["istio"], "other protocols promise data that no filter removes");
    let (names, secrets) = verified(&common);
    assert_eq!(names, ["a", "b"]);
    assert_eq!(secrets, ["default", "ROOTCA"]);
    assert_eq!(source(&common), "sds-grpc");
}

#[test]
fn http2_certificates_and_rules_decide_the_socket() {
    let identities = mk_identities(&["a"]);
    let inputs = |protocol| mk_inputs("pay.shop", protocol, &identities);
    let always = encoded(
        &ruled(inputs(Protocol::Grpc), mutual(&[], None)),
        ClientKind::Envoy,
        CertificateSource::Files,
    );
    assert!(always.transport_socket_matches.is_empty(), "the rule is for all endpoints");
    let own = context(always.transport_socket.as_ref());
    assert_eq!(own.sni, "outbound_.80_._.pay.shop");
    let common = own.common_tls_context.unwrap();
    assert_eq!(
        (source(&common).as_str(), &common.alpn_protocols[..]),
        ("ads", &["istio", "h2"].map(str::to_owned)[..])
    );
    let named = ruled(inputs(Protocol::Http), mutual(&["x/y"], Some("front")));
    let own = context(encoded(&named, ClientKind::Sidecar, agent()).transport_socket.as_ref());
    assert_eq!(
        (own.sni.as_str(), verified(&own.common_tls_context.unwrap()).0),
        ("front", vec!["x/y".to_owned()])
    );
    let plain = encoded(&inputs(Protocol::Http), ClientKind::Sidecar, CertificateSource::None);
    assert!(plain.transport_socket.is_none() && plain.transport_socket_matches.is_empty());
}

#[test]
#[allow(deprecated, reason = "the field is sent")]
fn grpc_names_its_certificate_provider() {
    let inputs = ruled(mk_inputs("pay.shop", Protocol::Grpc, &mk_identities(&["a"])), mutual(&[], None));
    let found = encoded(&inputs, ClientKind::Grpc, CertificateSource::None);
    let own = context(found.transport_socket.as_ref());
    let common = own.common_tls_context.unwrap();
    assert!(own.sni.is_empty() && common.alpn_protocols.is_empty() && common.tls_params.is_none());
    let provider = common.tls_certificate_provider_instance.unwrap();
    assert_eq!((&*provider.instance_name, &*provider.certificate_name), ("default", "default"));
    let Some(ValidationContextType::ValidationContext(own)) = common.validation_context_type else {
        panic!()
    };
    let authorities = own.ca_certificate_provider_instance.unwrap();
    assert_eq!((&*authorities.instance_name, &*authorities.certificate_name), ("default", "ROOTCA"));
    assert_eq!(own.match_subject_alt_names.len(), 1);
}

/// Services, ports and subsets with one set of identities share what names them.
#[test]
fn what_names_identities_is_encoded_once_per_set() {
    let (one, other) = (mk_identities(&["a"]), mk_identities(&["a", "b"]));
    for n in 0..20 {
        for protocol in [Protocol::Http, Protocol::Grpc] {
            let set = if n % 2 == 0 { &one } else { &other };
            encoded(&mk_inputs(&format!("s{n}.shop"), protocol, set), ClientKind::Sidecar, agent());
        }
    }
    assert_eq!((one.encoded_parts(), other.encoded_parts()), (2, 2), "one for HTTP/1.1 and one for HTTP/2");
    encoded(&mk_inputs("more.shop", Protocol::Http, &one), ClientKind::Envoy, CertificateSource::Files);
    assert_eq!(one.encoded_parts(), 3, "and one for each source of certificates");
}
