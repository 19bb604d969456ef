//! Conditions of RequestAuthentications whose keys sidecars cannot fetch.

use std::sync::Arc;

use tributary_model::{
    ByNamespace, ClusterInputs, ClusterPolicy, EndpointInputs, Labels, Policy, PolicyKind, PortView,
    ResourceInputs, ServiceView, Shared, Sidecar, TlsSettings, TrafficPolicy, Visibility,
};

use super::*;
use crate::fixtures::*;
use crate::policy_conditions::{Beside, policy_conditions};

/// A service of port 443 with this resolution, to which clients connect with TLS or not.
fn mk_service(host: &str, visibility: Visibility, resolution: Resolution, is_tls: bool) -> Arc<ServiceView> {
    let inputs = EndpointInputs {
        service: mk_key(host, "shop"),
        port: mk_port(443),
        resolution,
        ..mk_one(vec![mk_address("10.0.0.1")])
    };
    let port = mk_port_view(inputs);
    let tls = is_tls.then(|| Arc::new(ClientTls::Simple(TlsSettings::default())));
    let whole = TrafficPolicy { tls, ..TrafficPolicy::default() };
    let policy = Arc::new(ClusterPolicy { whole, ..ClusterPolicy::default() });
    let policy = Some(Arc::new(ByNamespace::new(Some(policy), [])));
    let cluster = ClusterInputs { policy, ..port.cluster.inputs.clone() };
    let cluster = Shared::new(ResourceInputs::new(cluster, tributary_model::ClientDimensions::NONE));
    let view = ServiceView::clone(&mk_view(host, "shop", &[visibility]));
    Arc::new(ServiceView { ports: [PortView { cluster, ..port }].into(), ..view })
}

fn mk_catalog_with_keys() -> Catalog {
    let public = || Visibility::Public;
    let client_side = || Resolution::ClientSide;
    let mut catalog = mk_catalog(vec![
        mk_service("tls.test", public(), client_side(), true),
        mk_service("plain.test", public(), client_side(), false),
        mk_service("hidden.test", Visibility::Namespaces([mk_ns("shop")].into()), client_side(), true),
        mk_service("any.test", public(), Resolution::Passthrough, true),
    ]);
    catalog.complete = true;
    catalog
}

fn mk_fetched(uri: &str, host: &str, port: u32) -> TokenKeys {
    let is_tls = uri.starts_with("https");
    TokenKeys::Fetched(KeysUri { uri: uri.into(), is_tls, host: mk_host(host), port: mk_port(port) })
}

/// Returns the conditions of a policy of namespace `web` with these keys.
fn shown(catalog: &Catalog, clients: &[Selectable], keys: &[TokenKeys]) -> Vec<String> {
    let rules = keys.iter().map(|keys| mk_token_rule("iss", keys.clone())).collect();
    let policy = RequestAuthentication { rules, ..RequestAuthentication::default() };
    let (key, view) = mk_policy("web", "a", Policy::RequestAuthentication(policy));
    let mut catalog = catalog.clone();
    catalog.policies.insert(key.clone(), view);
    let beside = Beside { clients, ..Beside::default() };
    let all = policy_conditions(&catalog, beside, &|key| key.kind == PolicyKind::RequestAuthentication);
    all.get(&key).into_iter().flatten().map(|one| format!("{} {}", one.code, one.message)).collect()
}

#[test]
fn keys_that_sidecars_cannot_fetch_are_named() {
    let catalog = mk_catalog_with_keys();
    let none: [&str; 0] = [];
    assert_eq!(shown(&catalog, &[], &[TokenKeys::Inline("".into())]), none);
    assert_eq!(shown(&catalog, &[], &[mk_fetched("https://tls.test", "tls.test", 443)]), none);
    assert_eq!(shown(&catalog, &[], &[mk_fetched("http://plain.test:443", "plain.test", 443)]), none);
    let cases = [
        ("none.test", 443, "no service of this host is visible to namespace web"),
        ("hidden.test", 443, "no service of this host is visible to namespace web"),
        ("tls.test", 80, "the service has no such port"),
        ("any.test", 443, "its service has no endpoints of its own"),
    ];
    for (host, port, why) in cases {
        let want = format!("TRB0477 jwtRules[0]: keys of {host}:{port}: {why}; its tokens are refused");
        assert_eq!(shown(&catalog, &[], &[mk_fetched("http://x", host, port)]), [want]);
    }
    let plain = "TRB0478 jwtRules[1]: keys of plain.test:443 are fetched in plain text; what answers there decides which tokens are valid";
    let undeclared = "TRB0479 jwtRules[0]: it has neither jwks nor jwksUri; its tokens are refused";
    let keys = [TokenKeys::Undeclared, mk_fetched("https://plain.test", "plain.test", 443)];
    assert_eq!(shown(&catalog, &[], &keys), [plain, undeclared]);
}

#[test]
fn sidecars_of_connected_clients_must_import_the_host_of_keys() {
    let mut catalog = mk_catalog_with_keys();
    let sidecar = Sidecar { egress: mk_egress(&[(None, &["./*"])]), ..Sidecar::default() };
    let (key, view) = mk_sidecar("web", "narrow", sidecar);
    catalog.policies.insert(key, view);
    let keys = [mk_fetched("https://tls.test", "tls.test", 443)];
    let client = |namespace: &str, kind| Selectable {
        kind,
        namespace: mk_ns(namespace),
        labels: Labels::default(),
        is_known: true,
    };
    let why = "TRB0477 jwtRules[0]: keys of tls.test:443: no egress listener of the Sidecar imports it (Sidecar web/narrow); its tokens are refused";
    assert_eq!(shown(&catalog, &[client("web", ClientKind::Sidecar)], &keys), [why]);
    assert_eq!(shown(&catalog, &[client("shop", ClientKind::Sidecar)], &keys), [""; 0]);
    assert_eq!(shown(&catalog, &[client("web", ClientKind::Grpc)], &keys), [""; 0]);
}
