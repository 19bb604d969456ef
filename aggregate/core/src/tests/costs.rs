//! Cost is proportional to the change (law 7), measured by counts, never by times.

use super::fixtures::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use tributary_model::{Declaration, Fact, PortView};

fn services(n: usize) -> Vec<Fact> {
    let service = |i: usize| {
        let (name, host) = (format!("s{i}"), format!("shop/s{i}.shop"));
        [
            mk_service(&host, mk_decl(&name, "80 http, 81 admin")),
            mk_group(&host, &name, "a", &format!("10.0.{i}.1:http=80+admin=81")),
            mk_group(&host, &name, "b", &format!("10.0.{i}.2:http=80")),
        ]
    };
    (0..n).flat_map(service).collect()
}
fn same<T>(a: &Arc<T>, b: &Arc<T>) -> bool {
    Arc::ptr_eq(a, b)
}
fn kept(a: &PortView, b: &PortView) -> [bool; 4] {
    [
        same(&a.cluster.0, &b.cluster.0),
        same(&a.endpoints.0, &b.endpoints.0),
        same(&a.listener.0, &b.listener.0),
        same(&a.route.0, &b.route.0),
    ]
}

#[test]
fn changed_group_builds_one_view_and_one_resource_input() {
    let mut world = World::of_files();
    world.put("file", services(20));
    let (before, old) = (world.core.counters(), world.view("shop/s3.shop").unwrap());
    let outcome = world.put("file", [mk_group("shop/s3.shop", "s3", "b", "10.0.3.9:http=80")]);
    let (after, new) = (world.core.counters(), world.view("shop/s3.shop").unwrap());
    assert_eq!((after.views - before.views, after.resource_inputs - before.resource_inputs), (1, 1));
    assert_eq!(kept(&old.ports[0], &new.ports[0]), [true, false, true, true]);
    assert_eq!(kept(&old.ports[1], &new.ports[1]), [true; 4], "the group does not have this port");
    assert_eq!(outcome.changed.hosts.len(), 1);
    assert!(outcome.urgent, "an address was removed");
}

#[test]
fn unchanged_list_publishes_nothing() {
    let mut world = World::of_files();
    world.list("file", services(20));
    let (before, catalog) = (world.core.counters(), world.catalog());
    let outcome = world.list("file", services(20));
    let after = world.core.counters();
    assert!(
        outcome.changed.is_empty() && fact_records(&outcome).is_empty() && !outcome.urgent,
        "{:?}",
        outcome.changed
    );
    assert_eq!((after.views, after.resource_inputs), (before.views, before.resource_inputs));
    assert_eq!(after.unchanged - before.unchanged, 60);
    assert!(Arc::ptr_eq(&catalog, &world.catalog()));
}

#[test]
fn equal_declaration_of_a_new_version_changes_nothing() {
    let mut world = World::of_files();
    world.put("file", services(1));
    let mut decl = mk_decl("s0", "80 http, 81 admin");
    decl.source.version = tributary_model::ObjectVersion("2".into());
    assert!(world.put("file", [mk_service("shop/s0.shop", decl)]).changed.is_empty());
}

/// A change of identities builds the xDS clusters of its service and nothing else; endpoints that keep theirs build none.
#[test]
fn changed_identity_builds_the_xds_clusters_of_its_service() {
    let mut world = World::of_files();
    world.put("file", services(20));
    let group = |endpoint: &str| mk_group("shop/s3.shop", "s3", "b", endpoint);
    world.put("file", [group("10.0.3.2@a:http=80")]);
    let (before, old) = (world.core.counters(), world.view("shop/s3.shop").unwrap());
    let outcome = world.put("file", [group("10.0.3.2@b:http=80")]);
    let (after, new) = (world.core.counters(), world.view("shop/s3.shop").unwrap());
    assert_eq!((after.views - before.views, after.resource_inputs - before.resource_inputs), (1, 3));
    assert_eq!(kept(&old.ports[0], &new.ports[0]), [false, false, true, true], "the endpoint itself changed");
    assert_eq!(kept(&old.ports[1], &new.ports[1]), [false, true, true, true], "its port has other endpoints");
    assert_eq!(outcome.changed.hosts.len(), 1);
    let moved = world.put("file", [group("10.0.3.9@b:http=80")]);
    let same = world.view("shop/s3.shop").unwrap();
    assert_eq!(kept(&new.ports[0], &same.ports[0]), [true, false, true, true], "the identities are the same");
    assert_eq!(moved.changed.hosts.len(), 1);
}

/// Services with equal identities share one set, and so what is encoded from it.
#[test]
fn services_with_equal_identities_share_one_set() {
    let mut world = World::of_files();
    let service = |i: usize, account: &str| {
        let (name, host) = (format!("s{i}"), format!("shop/s{i}.shop"));
        let endpoint = format!("10.0.{i}.1@{account}:http=80");
        [mk_service(&host, mk_decl(&name, "80 http, 81 admin")), mk_group(&host, &name, "a", &endpoint)]
    };
    world.put("file", (0..20).flat_map(|i| service(i, if i < 10 { "a" } else { "b" })));
    let sets = |world: &mut World| -> BTreeSet<usize> {
        let catalog = world.catalog();
        let ports = catalog.services().flat_map(|view| view.ports.iter());
        ports.map(|port| Arc::as_ptr(&port.cluster.inputs.identities) as usize).collect()
    };
    assert_eq!(sets(&mut world).len(), 2);
    world.put("file", service(3, "b"));
    assert_eq!(sets(&mut world).len(), 2, "the set of the others");
}

#[test]
fn losses_are_urgent_and_additions_are_not() {
    let mut world = World::of_files();
    let group = |endpoints: &str| mk_group("shop/s0.shop", "s0", "b", endpoints);
    world.put("file", services(1));
    assert!(!world.put("file", [group("10.0.0.2:http=80 10.0.0.3:http=80")]).urgent, "an addition");
    assert!(world.put("file", [group("10.0.0.2:http=80! 10.0.0.3:http=80")]).urgent, "one became unhealthy");
    assert!(world.put("file", [group("10.0.0.2:http=80 10.0.0.3:http=80")]).urgent, "one became healthy");
    assert!(world.put("file", [group("10.0.0.3:http=80")]).urgent, "one was removed");
    assert!(world.report("file", [mk_deleted(&group(""))]).urgent);
    assert!(
        world.put("file", [mk_service("shop/s0.shop", mk_decl("s0", "80 http"))]).urgent,
        "a port was removed"
    );
}

#[test]
fn catalog_shares_unchanged_parts() {
    let mut world = World::of_files();
    world.put("file", services(20));
    let old = world.catalog();
    world.put("file", [mk_group("shop/s3.shop", "s3", "b", "10.0.3.9:http=80")]);
    let new = world.catalog();
    assert_eq!((new.generation, old.hosts.diff(&new.hosts).count()), (old.generation + 1, 1));
    assert!(old.service(&mk_key("shop/s3.shop")).is_some(), "the old catalog is unchanged");
    assert_eq!(served(old.service(&mk_key("shop/s3.shop")).unwrap(), 80), ["10.0.3.1:80", "10.0.3.2:80"]);
}

#[test]
fn changed_workload_checks_one_selector_and_builds_one_bucket() {
    let mut world = World::of_files();
    let selecting = |i: usize| {
        let decl = Declaration {
            selector: Some(mk_selector(&format!("app=a{i}"))),
            ..mk_decl(&format!("s{i}"), "80 http")
        };
        mk_service(&format!("shop/s{i}.shop"), decl)
    };
    let workload = |i: usize, app: usize| {
        mk_workload(&format!("w{i}"), &format!("10.1.{}.{}", i / 250, i % 250), &format!("app=a{app},tier=x"))
    };
    world.put("file", (0..50).map(selecting).chain((0..1000).map(|i| workload(i, 7))));
    assert_eq!(world.served("shop/s7.shop", 80).len(), 1000);
    let before = world.core.counters();
    let mut changed = mk_workload_value("w3", "10.9.9.9", "app=a7,tier=x");
    changed.weight = 5;
    world.put("file", [Fact::Workload(mk_workload_key("w3"), Arc::new(changed))]);
    let after = world.core.counters();
    assert_eq!(after.selector_checks - before.selector_checks, 1);
    assert_eq!((after.buckets - before.buckets, after.views - before.views), (1, 1));
    let facts = world.view("shop/s7.shop").unwrap().ports[0].endpoints.clone();
    let largest = facts.inputs.sources.iter().map(|s| s.group.addresses.len()).max().unwrap();
    assert!(largest <= 512 && facts.inputs.sources.len() > 4, "{largest}");
}

#[test]
fn full_passes_are_counted_by_cause() {
    let mut world = World::of_files();
    world.list("file", services(2));
    let shadow = world.shadow("file");
    world.report_in("file", shadow, mk_list(services(2)));
    assert_eq!(world.core.counters().full_passes.adoption, 1);
    world.core.remove_registry(&mk_name("file"), &tributary_model::Evidence::Operator);
    assert_eq!(world.core.counters().full_passes.departure, 1);
}
