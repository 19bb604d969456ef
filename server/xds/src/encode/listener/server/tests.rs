//! Listeners of gRPC servers, decoded: address, socket, filters in order, and routes.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
use envoy_types::pb::envoy::config::rbac::v3::{principal::Identifier, rbac::Action as Decision};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    DownstreamTlsContext, common_tls_context::ValidationContextType,
};
use tributary_answer::{AppliedAuthorization, AuthorizationChain, InboundAuthorization};
use tributary_fixtures::mk_ns;
use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationRule, PolicyKey, PolicyKind, ValueMatch,
};

use super::*;

const NAME: &str = "xds.istio.io/grpc/lds/inbound/[::]:50051";

fn mk_server(is_meshed: bool, actions: &[AuthorizationAction]) -> GrpcServer {
    let domains: Arc<[Arc<str>]> = ["mesh".into(), "old".into()].into();
    let policy = |action: &AuthorizationAction| AppliedAuthorization {
        key: PolicyKey { kind: PolicyKind::AuthorizationPolicy, namespace: mk_ns("shop"), name: "a".into() },
        action: action.clone(),
        is_dry_run: false,
        rules: [AuthorizationRule::default()].into(),
    };
    let policies: Arc<[_]> = actions.iter().map(policy).collect();
    let authorization = (!policies.is_empty()).then(|| InboundAuthorization {
        policies: Arc::new(AuthorizationChain { policies }),
        domains: Arc::clone(&domains),
    });
    GrpcServer {
        name: NAME.into(),
        at: "[::]:50051".parse().unwrap(),
        is_meshed,
        authorization,
        domains,
        refuses: false,
    }
}
fn decoded(server: &GrpcServer) -> (pb::Listener, hcm::HttpConnectionManager) {
    let listener = pb::Listener::decode(&grpc_server(server)[..]).unwrap();
    let [chain] = &*listener.filter_chains else { panic!("one chain: {listener:?}") };
    assert!(chain.filter_chain_match.is_none(), "it takes every connection");
    let Some(pb::filter::ConfigType::TypedConfig(any)) = &chain.filters[0].config_type else { panic!() };
    let manager = hcm::HttpConnectionManager::decode(&any.value[..]).unwrap();
    (listener, manager)
}
fn rbac(filter: &hcm::HttpFilter) -> Rbac {
    let Some(hcm::http_filter::ConfigType::TypedConfig(any)) = &filter.config_type else { panic!() };
    Rbac::decode(&any.value[..]).unwrap()
}

#[test]
fn listener_repeats_name_and_address_and_answers_every_request() {
    let (listener, manager) = decoded(&mk_server(false, &[]));
    assert_eq!((&*listener.name, listener.address), (NAME, Some(socket([0; 16].into(), 50051))));
    assert!(listener.filter_chains[0].transport_socket.is_none());
    let Some(RouteSpecifier::RouteConfig(routes)) = manager.route_specifier else { panic!("no routes") };
    let host = &routes.virtual_hosts[0];
    let path = host.routes[0].r#match.as_ref().and_then(|found| found.path_specifier.clone());
    assert_eq!((&*host.domains, path), (&["*".to_owned()][..], Some(PathSpecifier::Prefix(String::new()))));
    assert!(matches!(host.routes[0].action, Some(Action::NonForwardingAction(_))));
    assert_eq!(manager.http_filters, [router()]);
}

#[test]
#[allow(deprecated, reason = "the field that gRPC reads")]
fn mesh_tls_requires_a_certificate_and_an_identity_of_the_mesh() {
    let (listener, manager) = decoded(&mk_server(true, &[]));
    let Some(ConfigType::TypedConfig(any)) =
        listener.filter_chains[0].transport_socket.clone().unwrap().config_type
    else {
        panic!("no configuration")
    };
    let context = DownstreamTlsContext::decode(&any.value[..]).unwrap();
    assert!(context.require_client_certificate.unwrap().value);
    let common = context.common_tls_context.unwrap();
    assert_eq!(common.tls_certificate_provider_instance.unwrap().instance_name, "default");
    let Some(ValidationContextType::ValidationContext(verified)) = common.validation_context_type else {
        panic!("no authorities")
    };
    assert_eq!(verified.ca_certificate_provider_instance.unwrap().instance_name, "default");
    assert!(verified.match_subject_alt_names.is_empty(), "a gRPC server rejects names");
    let rules = rbac(&manager.http_filters[0]).rules.unwrap();
    assert_eq!(rules.action(), Decision::Deny);
    let principals = &rules.policies["trust-domains"].principals;
    let Some(Identifier::NotId(within)) = &principals[0].identifier else { panic!("{principals:?}") };
    let Some(Identifier::OrIds(all)) = &within.identifier else { panic!("{within:?}") };
    let shown = format!("{:?}", all.ids);
    assert!(shown.contains("spiffe://mesh/") && shown.contains("spiffe://old/"), "{shown}");
    assert_eq!(manager.http_filters.len(), 2);
}

#[test]
fn filters_have_names_of_their_own_and_the_order_of_envoy() {
    use AuthorizationAction::{Allow, Audit, Custom, Deny};
    let all = [Allow, Deny, Audit, Custom("opa".into())];
    let (_, manager) = decoded(&mk_server(true, &all));
    let names: Vec<&str> = manager.http_filters.iter().map(|filter| &*filter.name).collect();
    assert_eq!(
        names,
        ["trust-domains", "rbac-custom", "rbac-deny", "rbac-allow", "envoy.filters.http.router"]
    );
}

#[test]
fn listener_that_refuses_needs_no_certificates() {
    for server in [GrpcServer::refusing(NAME).unwrap(), GrpcServer { refuses: true, ..mk_server(false, &[]) }]
    {
        let (listener, manager) = decoded(&server);
        assert!(listener.filter_chains[0].transport_socket.is_none());
        let rules = rbac(&manager.http_filters[0]).rules.unwrap();
        assert_eq!((rules.action(), manager.http_filters.len()), (Decision::Deny, 2));
        assert!(matches!(rules.policies["refuse"].principals[0].identifier, Some(Identifier::Any(true))));
    }
    assert_eq!(GrpcServer::refusing("pay.shop:80"), None);
}

#[test]
fn listener_that_is_too_large_for_a_message_refuses() {
    let value = ValueMatch::Exact("x".repeat(4_000).into());
    let from = AttributeMatch { of: Attribute::Path, values: vec![value; 300].into(), not: Arc::default() };
    let rule = AuthorizationRule { to: [[from].into()].into(), ..AuthorizationRule::default() };
    let mut server = mk_server(true, &[AuthorizationAction::Deny]);
    assert!(!is_too_large(&server));
    let policies = server.authorization.as_ref().unwrap().policies.policies.iter().cloned();
    let policies =
        policies.map(|policy| AppliedAuthorization { rules: [rule.clone()].into(), ..policy }).collect();
    server.authorization.as_mut().unwrap().policies = Arc::new(AuthorizationChain { policies });
    assert!(is_too_large(&server));
    let (listener, manager) = decoded(&server);
    assert!(listener.encoded_len() < 4_096);
    assert!(listener.filter_chains[0].transport_socket.is_some(), "it takes mesh TLS as before");
    assert!(rbac(&manager.http_filters[0]).rules.unwrap().policies.contains_key("refuse"));
}
