//! Conditions of RequestAuthentications whose keys sidecars cannot fetch.

use tributary_model::{ClientTls, HostPattern, Labels, Policy, PolicyKind, Sidecar, TlsSettings, Visibility};

use super::*;
use crate::fixtures::*;
use crate::policy_conditions::{Beside, policy_conditions};

fn mk_catalog_with_keys() -> Catalog {
    let public = || Visibility::Public;
    let client_side = || Resolution::ClientSide;
    let tls = || Some(ClientTls::Simple(TlsSettings::default()));
    let of_shop = Visibility::Namespaces([mk_ns("shop")].into());
    let mut catalog = mk_catalog(vec![
        mk_key_server("tls.test", public(), client_side(), tls()),
        mk_key_server("plain.test", public(), client_side(), None),
        mk_key_server("hidden.test", of_shop, client_side(), tls()),
        mk_key_server("any.test", public(), Resolution::Passthrough, tls()),
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
    let plain =
        "TRB0478 jwtRules[1]: keys of plain.test:443 would be fetched in plain text; its tokens are refused";
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
        is_grpc_server: false,
        namespace: mk_ns(namespace),
        labels: Labels::default(),
        is_known: true,
    };
    let why = "TRB0477 jwtRules[0]: keys of tls.test:443: no egress listener of the Sidecar imports it (Sidecar web/narrow); its tokens are refused";
    assert_eq!(shown(&catalog, &[client("web", ClientKind::Sidecar)], &keys), [why]);
    assert_eq!(shown(&catalog, &[client("shop", ClientKind::Sidecar)], &keys), [""; 0]);
    assert_eq!(shown(&catalog, &[client("web", ClientKind::Grpc)], &keys), [""; 0]);
}

#[test]
fn keys_of_files_alone_are_looked_for_where_hosts_are_known() {
    let mut catalog = mk_catalog_with_keys();
    let rules = [
        mk_fetched("https://none.test", "none.test", 443),
        mk_fetched("https://a.svc.cluster.local", "a.svc.cluster.local", 443),
        mk_fetched("https://plain.test", "plain.test", 443),
    ];
    let rules = rules.map(|keys| mk_token_rule("iss", keys)).into();
    let policy = RequestAuthentication { rules, ..RequestAuthentication::default() };
    let (key, view) = mk_policy("web", "a", Policy::RequestAuthentication(policy));
    catalog.policies.insert(key.clone(), view);
    let elsewhere = [HostPattern::new("*.svc.cluster.local").unwrap()];
    let beside = Beside { elsewhere: Some(&elsewhere), ..Beside::default() };
    let all = policy_conditions(&catalog, beside, &|_| true);
    let shown: Vec<String> = all[&key].iter().map(|one| one.message.to_string()).collect();
    assert_eq!(
        shown,
        [
            "jwtRules[0]: keys of none.test:443: no service of this host is visible to namespace web; its tokens are refused",
            "jwtRules[2]: keys of plain.test:443 would be fetched in plain text; its tokens are refused",
        ]
    );
}

#[test]
fn keys_of_a_policy_of_the_root_namespace_are_looked_for_where_its_workloads_are() {
    let of = |clients: &[&str]| {
        let mut catalog = mk_catalog_with_keys();
        let keys = mk_fetched("https://hidden.test", "hidden.test", 443);
        let rules = [mk_token_rule("iss", keys)].into();
        let policy = RequestAuthentication { rules, ..RequestAuthentication::default() };
        let (key, view) = mk_policy("istio-system", "a", Policy::RequestAuthentication(policy));
        catalog.policies.insert(key.clone(), view);
        let client = |namespace: &&str| Selectable {
            kind: ClientKind::Sidecar,
            is_grpc_server: false,
            namespace: mk_ns(namespace),
            labels: Labels::default(),
            is_known: true,
        };
        let clients: Vec<Selectable> = clients.iter().map(client).collect();
        let all = policy_conditions(&catalog, Beside { clients: &clients, ..Beside::default() }, &|_| true);
        all.get(&key).map(|found| found[0].message.to_string()).unwrap_or_default()
    };
    assert_eq!(of(&["shop"]), "");
    assert!(of(&["shop", "web"]).contains("no service of this host is visible to namespace web"));
    assert!(of(&[]).contains("is visible to namespace istio-system"), "no workload is known");
}
