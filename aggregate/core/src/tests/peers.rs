//! PeerAuthentications whose mode is DISABLE: endpoints that they concern accept no mesh TLS.

use std::sync::Arc;

use tributary_model::{CatalogChanges, DeclaredPolicy, Fact, Labels, MtlsMode, Policy, PortNumber};

use super::fixtures::*;

/// Returns a PeerAuthentication with this mode, and with modes of ports.
fn mk_mode(name: &str, labels: &str, mode: Option<MtlsMode>, ports: &[(u32, MtlsMode)]) -> Fact {
    let Fact::Policy(key, declared) = mk_peer(name, labels, Some(1)) else { panic!("not a policy") };
    let Policy::PeerAuthentication(mut policy) = declared.policy.clone() else { panic!("another kind") };
    policy.mode = mode;
    policy.ports = ports.iter().map(|(port, mode)| (PortNumber::new(*port).unwrap(), Some(*mode))).collect();
    let policy = Policy::PeerAuthentication(policy);
    Fact::Policy(key, Arc::new(DeclaredPolicy { policy, ..(*declared).clone() }))
}

/// Returns the group of a service with two meshed addresses and one that is not, with the label `app=pay`.
fn mk_meshed(service: &str) -> Fact {
    let Fact::Group(key, group) =
        mk_group(service, "d", "s", "10.0.0.1@a:http=8080 10.0.0.2@a:http=9090 10.0.0.3:http=8080")
    else {
        panic!("not a group")
    };
    let labels: Labels = [("app", "pay")].into_iter().collect();
    let mut group = (*group).clone();
    group.addresses = group
        .addresses
        .iter()
        .map(|address| tributary_model::Address { labels: labels.clone(), ..address.clone() })
        .collect();
    Fact::Group(key, Arc::new(group))
}

fn plain(world: &mut World, service: &str) -> Vec<u32> {
    let view = world.view(service).unwrap();
    view.ports[0].endpoints.inputs.sources.iter().flat_map(|source| source.plain.to_vec()).collect()
}

#[test]
fn disabled_ports_accept_no_mesh_tls() {
    use MtlsMode::{Disable, Permissive, Strict};
    let service = "shop/pay.shop";
    let world_of = || {
        let mut world = World::of_files();
        world.list("file", [mk_service(service, mk_decl("d", "80 http")), mk_meshed(service)]);
        world
    };
    let root = "istio-system/mesh";
    let cases: [(&str, Vec<Fact>, &[u32]); 9] = [
        ("no policy", vec![], &[]),
        ("mesh", vec![mk_mode(root, "", Some(Disable), &[])], &[0, 1]),
        (
            "namespace before mesh",
            vec![mk_mode(root, "", Some(Disable), &[]), mk_mode("shop/n", "", Some(Strict), &[])],
            &[],
        ),
        ("another namespace", vec![mk_mode("web/n", "", Some(Disable), &[])], &[]),
        ("workload", vec![mk_mode("shop/w", "app=pay", Some(Disable), &[])], &[0, 1]),
        ("another workload", vec![mk_mode("shop/w", "app=cart", Some(Disable), &[])], &[]),
        (
            "workload before namespace",
            vec![
                mk_mode("shop/n", "", Some(Disable), &[]),
                mk_mode("shop/w", "app=pay", Some(Permissive), &[]),
            ],
            &[],
        ),
        ("port", vec![mk_mode("shop/w", "app=pay", None, &[(8080, Disable)])], &[0]),
        ("port before workload", vec![mk_mode("shop/w", "app=pay", Some(Disable), &[(8080, Strict)])], &[1]),
    ];
    for (what, policies, want) in cases {
        let mut world = world_of();
        world.put("file", policies.clone());
        assert_eq!(plain(&mut world, service), want, "{what}");
        for policy in &policies {
            world.report("file", [mk_deleted(policy)]);
        }
        assert!(plain(&mut world, service).is_empty(), "{what}: taken back");
    }
}

#[test]
fn only_services_whose_modes_change_are_published() {
    let mut world = World::of_files();
    let (pay, cart) = ("shop/pay.shop", "web/cart.web");
    let mut facts = Vec::new();
    for service in [pay, cart] {
        facts.extend([mk_service(service, mk_decl("d", "80 http")), mk_meshed(service)]);
    }
    world.list("file", facts);
    let names =
        |changed: CatalogChanges| -> Vec<String> { changed.hosts.iter().map(ToString::to_string).collect() };
    let strict = mk_mode("shop/n", "", Some(MtlsMode::Strict), &[]);
    assert!(names(world.put("file", [strict]).changed).is_empty(), "endpoints accept mesh TLS as before");
    let disable = mk_mode("shop/n", "", Some(MtlsMode::Disable), &[]);
    assert_eq!(names(world.put("file", [disable.clone()]).changed), ["pay.shop"]);
    assert_eq!(names(world.report("file", [mk_deleted(&disable)]).changed), ["pay.shop"]);
}

/// A policy without the mode takes endpoints back from one of the mesh that was there before.
#[test]
fn later_policy_of_a_namespace_precedes_the_one_of_the_mesh() {
    let (mut world, pay) = (World::of_files(), "shop/pay.shop");
    world.list("file", [mk_service(pay, mk_decl("d", "80 http")), mk_meshed(pay)]);
    world.put("file", [mk_mode("istio-system/mesh", "", Some(MtlsMode::Disable), &[])]);
    assert_eq!(plain(&mut world, pay), [0, 1]);
    let strict = mk_mode("shop/n", "", Some(MtlsMode::Strict), &[]);
    world.put("file", [strict.clone()]);
    assert!(plain(&mut world, pay).is_empty());
    world.report("file", [mk_deleted(&strict)]);
    assert_eq!(plain(&mut world, pay), [0, 1]);
}
