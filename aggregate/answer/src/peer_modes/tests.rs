//! Modes of workloads over small catalogs.

use tributary_model::MtlsMode::{Disable, Permissive, Strict};
use tributary_model::{
    Code, DeclaredPolicy, MtlsMode, PeerModes, Policy, PolicyView, Settings, Shared, Timestamp,
};

use super::*;
use crate::fixtures::*;
use crate::policy_conditions::{Beside, policy_conditions};

/// A policy as `namespace/name`, its creation time, the value of the label `app` that it selects, its mode and those of its
/// ports.
type Row<'a> = (&'a str, i64, &'a str, Option<MtlsMode>, Ports<'a>);
type Ports<'a> = &'a [(u32, Option<MtlsMode>)];

fn mk_peers(rows: &[Row<'_>]) -> Catalog {
    let policy = |(at, created, app, mode, ports): &Row<'_>| {
        let (namespace, name) = at.split_once('/').unwrap();
        let selector = Some(("app", *app)).filter(|(_, app)| !app.is_empty());
        let ports = ports.iter().map(|(port, mode)| (mk_port(*port), *mode)).collect();
        let selector = selector.into_iter().collect();
        let policy = PeerAuthentication { selector, mode: *mode, ports, ..PeerAuthentication::default() };
        let (key, view) = mk_policy(namespace, name, Policy::PeerAuthentication(policy));
        let created = Timestamp::from_second(*created).ok();
        let declared = DeclaredPolicy { created, ..(*view.declared).clone() };
        (key, Shared::new(PolicyView { declared: declared.into(), ..(*view).clone() }))
    };
    Catalog { complete: true, policies: rows.iter().map(policy).collect(), ..Catalog::default() }
}

/// Returns the modes of a workload of `shop` with the label `app=pay`: the usual one, and those of ports 80 and 81.
fn modes(catalog: &Catalog) -> [MtlsMode; 3] {
    let labels = [("app", "pay"), ("version", "1")].into_iter().collect();
    let modes = peer_policies(catalog, Some(&mk_ns("shop")), &labels).modes();
    [modes.usual(), modes.of(mk_port(80)), modes.of(mk_port(81))]
}

#[test]
fn narrowest_scope_with_a_mode_decides() {
    const UNSET: Ports<'_> = &[(80, None)];
    const DISABLE: Ports<'_> = &[(80, Some(Disable))];
    const PERMISSIVE: Ports<'_> = &[(80, Some(Permissive))];
    const STRICT: Ports<'_> = &[(80, Some(Strict))];
    let mesh = |mode| -> Row<'_> { ("istio-system/m", 1, "", mode, &[]) };
    let namespace = |mode| -> Row<'_> { ("shop/n", 1, "", mode, &[]) };
    let workload = |mode, ports| -> Row<'_> { ("shop/w", 1, "pay", mode, ports) };
    let cases: &[(&[Row<'_>], [MtlsMode; 3])] = &[
        (&[], [Permissive; 3]),
        (&[mesh(None)], [Permissive; 3]),
        (&[mesh(Some(Strict))], [Strict; 3]),
        (&[mesh(Some(Strict)), namespace(None)], [Strict; 3]),
        (&[mesh(Some(Strict)), namespace(Some(Disable))], [Disable; 3]),
        (&[mesh(Some(Strict)), namespace(Some(Disable)), workload(None, &[])], [Disable; 3]),
        (&[mesh(Some(Disable)), namespace(None), workload(Some(Strict), &[])], [Strict; 3]),
        (&[workload(Some(Strict), PERMISSIVE)], [Strict, Permissive, Strict]),
        (&[workload(Some(Strict), UNSET)], [Strict; 3]),
        (&[namespace(Some(Strict)), workload(None, DISABLE)], [Strict, Disable, Strict]),
        (&[mesh(Some(Strict)), workload(None, UNSET)], [Strict; 3]),
        (&[workload(None, STRICT)], [Permissive, Strict, Permissive]),
    ];
    for (rows, expected) in cases {
        assert_eq!(modes(&mk_peers(rows)), *expected, "{rows:?}");
    }
}

#[test]
fn policies_of_other_namespaces_and_workloads_do_not_count() {
    let others: &[Row<'_>] = &[
        ("web/n", 1, "", Some(Strict), &[]),
        ("shop/w", 1, "till", Some(Strict), &[(80, Some(Strict))]),
        ("shoppers/n", 1, "", Some(Strict), &[]),
        // Istio applies no policy of the root namespace that has a selector
        ("istio-system/w", 1, "pay", Some(Strict), &[(80, Some(Strict))]),
    ];
    assert_eq!(modes(&mk_peers(others)), [Permissive; 3]);
}

#[test]
fn oldest_policy_of_a_scope_counts_alone() {
    let catalog = mk_peers(&[
        ("istio-system/a", 5, "", Some(Strict), &[]),
        ("istio-system/b", 4, "", None, &[]),
        ("shop/a", 9, "", Some(Strict), &[]),
        ("shop/b", 3, "", Some(Disable), &[]),
        ("shop/c", 3, "", Some(Strict), &[]),
        ("shop/w1", 7, "pay", Some(Strict), &[(80, Some(Strict))]),
        ("shop/w2", 6, "pay", None, &[(81, Some(Permissive))]),
    ]);
    assert_eq!(modes(&catalog), [Disable, Disable, Permissive], "of equal age, the first by name");
    let labels = [("app", "pay")].into_iter().collect();
    let policies = peer_policies(&catalog, Some(&mk_ns("shop")), &labels);
    let keys: Vec<String> =
        policies.iter().map(|peer| format!("{}/{}", peer.key.namespace, peer.key.name)).collect();
    assert_eq!(keys, ["shop/w2", "shop/b", "istio-system/b"]);
}

#[test]
fn workloads_of_the_root_namespace_have_the_mode_of_the_mesh() {
    let rows: [Row<'_>; 2] = [
        ("config/m", 2, "", Some(Strict), &[]),
        ("config/w", 1, "pay", Some(Disable), &[(80, Some(Disable))]),
    ];
    let settings = Settings { root_namespace: Some(mk_ns("config")), ..Settings::default() };
    let catalog = Catalog { settings: Shared::new(settings), ..mk_peers(&rows) };
    let labels = [("app", "pay")].into_iter().collect();
    for namespace in [Some("config"), Some("shop"), None] {
        let modes = peer_policies(&catalog, namespace.map(mk_ns).as_ref(), &labels).modes();
        assert_eq!((modes.usual(), modes.others().count()), (Strict, 0), "{namespace:?}");
    }
}

#[test]
fn modes_are_equal_if_every_port_has_the_same() {
    let ports: Ports<'_> = &[(80, Some(Strict)), (81, None), (82, Some(Permissive))];
    let labels = [("app", "pay")].into_iter().collect();
    let of = |rows: &[Row<'_>]| peer_policies(&mk_peers(rows), Some(&mk_ns("shop")), &labels).modes();
    let one = of(&[("shop/w", 1, "pay", Some(Strict), ports)]);
    let same = of(&[("istio-system/m", 1, "", Some(Strict), &[]), ("shop/x", 1, "pay", None, &ports[1..])]);
    assert_eq!(one, same);
    assert_eq!(one.others().collect::<Vec<_>>(), [(mk_port(82), Permissive)]);
    assert_ne!(one, of(&[("shop/w", 1, "pay", Some(Strict), &ports[..2])]));
    assert_eq!(of(&[]), PeerModes::default());
}

#[test]
fn selecting_policy_of_the_root_namespace_is_named() {
    let catalog = mk_peers(&[
        ("istio-system/w", 1, "pay", Some(Strict), &[]),
        ("istio-system/m", 1, "", Some(Strict), &[]),
        ("shop/w", 1, "pay", Some(Strict), &[]),
    ]);
    let elsewhere = Some(&[][..]);
    let found = policy_conditions(&catalog, Beside { clients: &[], elsewhere }, &|_| true);
    let names: Vec<&str> = found.keys().map(|key| &*key.name).collect();
    assert_eq!(
        (names.len(), found.values().next().map(|all| all[0].code)),
        (1, Some(Code::POLICY_FIELD_IGNORED))
    );
    assert_eq!(found.keys().next().map(|key| key.namespace.as_str()), Some("istio-system"));
}
