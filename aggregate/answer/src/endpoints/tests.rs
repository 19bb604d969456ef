//! Tables for each rule, and properties that hold for any inputs.

use tributary_model::*;

use super::*;
use crate::fixtures::*;

mod federation;
mod gateways;
mod locality;
mod properties;

fn assign_all(facts: &EndpointInputs) -> Vec<String> {
    shown(&endpoints(facts, &Projection::default(), &mut ()))
}
fn codes(facts: &EndpointInputs, client: &Projection) -> Vec<(Stage, Verdict, u16, String)> {
    let mut trace = Trace::default();
    endpoints(facts, client, &mut trace);
    let drops = trace.steps.into_iter().filter(|s| s.verdict == Verdict::Drop);
    drops.map(|s| (s.stage, s.verdict, s.code.number(), s.endpoint)).collect()
}
fn with_health(ip: &str, health: Health) -> Address {
    Address { health, ..mk_address(ip) }
}

#[test]
fn endpoints_are_sorted_and_weight_zero_counts_as_one() {
    let facts = mk_one(vec![
        Address { weight: 0, ..mk_address("10.0.0.2") },
        Address { weight: 7, ..mk_address("10.0.0.1") },
    ]);
    assert_eq!(assign_all(&facts), ["0 10.0.0.1:8080 7", "0 10.0.0.2:8080 1"]);
    let assignment = endpoints(&facts, &Projection::default(), &mut ());
    assert_eq!(assignment.localities[0].weight, 8);
}

#[test]
fn weights_with_a_sum_over_32_bits_are_scaled_together() {
    let heavy = |ip| Address { weight: u32::MAX, ..mk_address(ip) };
    let facts = mk_one(vec![heavy("10.0.0.1"), heavy("10.0.0.2"), mk_address("10.0.0.3")]);
    let assignment = endpoints(&facts, &Projection::default(), &mut ());
    let weights: Vec<u32> = assignment.endpoints().map(|e| e.weight).collect();
    assert_eq!(weights[0], weights[1]);
    assert!(weights[0] > 1_000_000_000 - 1, "{weights:?}");
    assert_eq!(weights[2], 1);
    assert_eq!(
        u64::from(assignment.localities[0].weight),
        weights.iter().map(|&w| u64::from(w)).sum::<u64>()
    );
}

#[test]
fn names_are_allowed_only_inside_an_xds_cluster() {
    let name = Address::new(AddressRef::Name(0), Default::default());
    let group = mk_group("a", &["db.example.com"], vec![name]);
    let mut facts = mk_facts(vec![mk_source("east", group)]);
    assert_eq!(
        codes(&facts, &Projection::default()),
        [(Stage::Merge, Verdict::Drop, 516, "db.example.com:8080".into())]
    );
    facts.resolution = Resolution::DnsStrict;
    assert_eq!(shown(&inline(&facts, &Projection::default(), &mut ())), ["0 db.example.com:8080 1"]);
    assert!(endpoints(&facts, &Projection::default(), &mut ()).is_empty(), "EDS must not carry it too");
}

#[test]
fn unix_paths_are_sent_to_envoy_only() {
    let path = Address::new(AddressRef::Unix(0), Default::default());
    let facts = mk_facts(vec![mk_source("east", mk_group("a", &["/run/pay.sock"], vec![path]))]);
    let to = |kind| shown(&endpoints(&facts, &mk_projection(kind), &mut ()));
    assert_eq!(to(ClientKind::Envoy), ["0 unix:/run/pay.sock 1"]);
    assert_eq!(to(ClientKind::Grpc), [""; 0]);
    assert_eq!(codes(&facts, &mk_projection(ClientKind::Grpc))[0].2, 517);
}

#[test]
fn health_decides_which_endpoints_are_sent() {
    let facts = mk_one(vec![
        with_health("10.0.0.1", Health::Healthy),
        with_health("10.0.0.2", Health::Unhealthy),
        with_health("10.0.0.3", Health::Draining),
        with_health("10.0.0.4", Health::Terminating),
    ]);
    let sent: Vec<(String, Health)> = endpoints(&facts, &Projection::default(), &mut ())
        .endpoints()
        .map(|e| (e.target.to_string(), e.health))
        .collect();
    let want = [("10.0.0.1:8080", Health::Healthy), ("10.0.0.2:8080", Health::Unhealthy)];
    assert_eq!(sent, want.map(|(t, h)| (t.to_owned(), h)));
    let dropped = codes(&facts, &Projection::default());
    assert_eq!(dropped.iter().map(|d| d.2).collect::<Vec<_>>(), [514, 513]);
}

#[test]
fn draining_endpoints_stay_for_bound_sessions() {
    let mut source = mk_source("east", mk_group("a", &[], vec![with_health("10.0.0.3", Health::Draining)]));
    let attributes = Attributes { persistent_sessions: true, ..Attributes::default() };
    source.declaration = Declaration { attributes, ..mk_declaration("pay") }.into();
    let facts = mk_facts(vec![source]);
    let assignment = endpoints(&facts, &Projection::default(), &mut ());
    assert_eq!(assignment.endpoints().map(|e| e.health).collect::<Vec<_>>(), [Health::Draining]);
}

#[test]
fn draining_label_never_improves_health() {
    let labelled = |ip, health| Address {
        labels: [(labels::DRAINING, "true")].into_iter().collect(),
        ..with_health(ip, health)
    };
    let mut source = mk_source(
        "east",
        mk_group(
            "a",
            &[],
            vec![labelled("10.0.0.1", Health::Healthy), labelled("10.0.0.2", Health::Unhealthy)],
        ),
    );
    let attributes = Attributes { persistent_sessions: true, ..Attributes::default() };
    source.declaration = Declaration { attributes, ..mk_declaration("pay") }.into();
    let facts = mk_facts(vec![source]);
    let assignment = endpoints(&facts, &Projection::default(), &mut ());
    let health: Vec<Health> = assignment.endpoints().map(|e| e.health).collect();
    assert_eq!(health, [Health::Draining, Health::Unhealthy]);
}

#[test]
fn duplicate_has_best_health_in_shard_worst_across_shards() {
    let listed = |registry, name, health| {
        mk_source(registry, mk_group(name, &[], vec![with_health("10.0.0.1", health)]))
    };
    let one_shard =
        mk_facts(vec![listed("east", "a", Health::Terminating), listed("east", "b", Health::Healthy)]);
    let health = |facts: &EndpointInputs| {
        let assignment = endpoints(facts, &Projection::default(), &mut ());
        assignment.endpoints().map(|e| e.health).collect::<Vec<_>>()
    };
    assert_eq!(health(&one_shard), [Health::Healthy]);
    let two_shards = mk_facts(vec![
        listed("east", "a", Health::Healthy),
        listed("west", "b", Health::Terminating),
        listed("west", "c", Health::Unhealthy),
    ]);
    assert_eq!(health(&two_shards), [Health::Unhealthy]);
}

#[test]
fn first_shard_owns_an_address_of_two_shards() {
    let weighed = |registry, weight| {
        mk_source(registry, mk_group("a", &[], vec![Address { weight, ..mk_address("10.0.0.1") }]))
    };
    let facts = mk_facts(vec![weighed("west", 3), weighed("east", 5)]);
    assert_eq!(assign_all(&facts), ["0 10.0.0.1:8080 3"]);
    assert_eq!(codes(&facts, &Projection::default())[0].2, 518);
}

#[test]
fn address_of_two_networks_resolves_to_the_clients_own() {
    let at = |registry, network, weight| {
        let address = Address { weight, ..mk_address_at("10.0.0.1", mk_topology(network, "", "")) };
        mk_source(registry, mk_group("a", &[], vec![address]))
    };
    let mut facts = mk_facts(vec![at("east", "net1", 1), at("west", "net2", 2)]);
    let sent = |facts: &EndpointInputs, network: &str| {
        let network = Some(NetworkId::new(network).ok());
        shown(&endpoints(facts, &Projection { network, ..Projection::default() }, &mut ()))
    };
    assert_eq!(sent(&facts, "net2"), ["0 10.0.0.1:8080 1"], "networks that reach each other are one");
    facts.gated = mk_gated(&[("net2", &[])]);
    let of = |network: &str| sent(&facts, network);
    assert_eq!(of("net1"), ["0 10.0.0.1:8080 1"]);
    assert_eq!(of("net2"), ["0 10.0.0.1:8080 2"]);
    assert_eq!(of(""), ["0 10.0.0.1:8080 1"]);
}

#[test]
fn gated_network_is_removed_unless_it_is_the_clients_own() {
    let mut facts = mk_one(vec![
        mk_address_at("10.0.0.1", mk_topology("net1", "", "")),
        mk_address_at("10.0.0.2", mk_topology("net2", "", "")),
        mk_address("10.0.0.3"),
    ]);
    facts.gated = mk_gated(&[("net1", &[])]);
    let of = |network: &str| {
        let network = Some(NetworkId::new(network).ok());
        endpoints(&facts, &Projection { network, ..Projection::default() }, &mut ()).endpoints().count()
    };
    assert_eq!((of("net1"), of("net2"), of("")), (3, 2, 2));
    let drops = codes(&facts, &Projection::default());
    assert_eq!(drops, [(Stage::Network, Verdict::Drop, 510, "10.0.0.1:8080".into())]);
}

#[test]
fn visibility_rules_remove_endpoints_of_other_clients() {
    let node_local = Attributes { node_local: true, ..Attributes::default() };
    let cluster_local = Attributes { cluster_local: true, ..Attributes::default() };
    let own_only = Attributes { own_cluster_only: true, ..Attributes::default() };
    let c1 = || ClusterId::new("c1").ok();
    let topology = Topology { cluster: c1(), node: NodeName::new("n1").ok(), ..Topology::default() };
    let count = |attributes: &Attributes, client: Projection| {
        let address = mk_address_at("10.0.0.1", topology.clone().into());
        let mut source = mk_source("east", mk_group("a", &[], vec![address]));
        source.declaration = Declaration { attributes: attributes.clone(), ..mk_declaration("pay") }.into();
        endpoints(&mk_facts(vec![source]), &client, &mut ()).endpoints().count()
    };
    let node = |n: &str| Projection { node: Some(NodeName::new(n).ok()), ..Projection::default() };
    let cluster = |c: &str| Projection { cluster: Some(ClusterId::new(c).ok()), ..Projection::default() };
    assert_eq!((count(&node_local, node("n1")), count(&node_local, node("n2"))), (1, 0));
    assert_eq!(count(&node_local, node("")), 0, "a client on an unknown node matches no node");
    assert_eq!((count(&cluster_local, cluster("c1")), count(&cluster_local, cluster("c2"))), (1, 0));
    assert_eq!(count(&cluster_local, cluster("")), 0);
    assert_eq!((count(&own_only, cluster("c1")), count(&own_only, cluster("c2"))), (1, 0));
    assert_eq!(count(&own_only, cluster("")), 1, "an unknown cluster counts as the same cluster");
}

#[test]
fn endpoints_of_an_invisible_declaration_are_removed() {
    let hidden = EndpointSource {
        visibility: Visibility::Namespaces([mk_ns("web")].into()),
        ..mk_source("east", mk_group("b", &[], vec![mk_address("10.0.0.2")]))
    };
    let facts = mk_facts(vec![mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")])), hidden]);
    let of = |ns: Option<&str>| {
        let namespace = Some(ns.map(mk_ns));
        endpoints(&facts, &Projection { namespace, ..Projection::default() }, &mut ()).endpoints().count()
    };
    assert_eq!((of(Some("web")), of(Some("cart")), of(None)), (2, 1, 1));
}

#[test]
fn demoted_shard_is_one_priority_lower_without_gaps() {
    let demoted = |registry, ip| EndpointSource {
        priority: ShardPriority::Demoted,
        ..mk_source(registry, mk_group("a", &[], vec![mk_address(ip)]))
    };
    let fresh = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
    let both = mk_facts(vec![fresh, demoted("west", "10.0.0.2")]);
    assert_eq!(assign_all(&both), ["0 10.0.0.1:8080 1", "1 10.0.0.2:8080 1"]);
    assert_eq!(assign_all(&mk_facts(vec![demoted("west", "10.0.0.2")])), ["0 10.0.0.2:8080 1"]);
}

#[test]
fn address_without_the_port_is_removed_with_a_reason() {
    let mut source = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
    source.ports = [None].into();
    assert_eq!(codes(&mk_facts(vec![source]), &Projection::default())[0].2, 405);
}

/// Golden vectors of priorities: a client in net1, r1/z1/s1 on n1.
#[test]
fn near_endpoints_have_the_first_priorities() {
    let locations = [
        ("net1", "r1/z1/s1", "n1"),
        ("net1", "r1/z1/s1", "n2"),
        ("net1", "r1/z1/s2", "n3"),
        ("net1", "r1/z2", "n4"),
        ("net1", "r2", "n5"),
        ("net2", "r1/z1/s1", "n6"),
        ("net2", "r2", "n7"),
    ];
    let addresses = locations.iter().enumerate().map(|(i, (network, locality, node))| {
        mk_address_at(&format!("10.0.0.{i}"), mk_topology(network, locality, node))
    });
    let mut facts = mk_one(addresses.collect());
    let client = Projection {
        network: Some(NetworkId::new("net1").ok()),
        locality: Some(Locality::parse("r1/z1/s1")),
        node: Some(NodeName::new("n1").ok()),
        ..Projection::default()
    };
    let cases = [
        (TrafficDistribution::Any, [0, 0, 0, 0, 0, 0, 0]),
        // raw 0 0 0 1 2 3 5, then without gaps
        (TrafficDistribution::SameZone, [0, 0, 0, 1, 2, 3, 4]),
        // raw 0 1 2 3 4 6 9
        (TrafficDistribution::SameNode, [0, 1, 2, 3, 4, 5, 6]),
    ];
    for (traffic, want) in cases {
        facts.traffic = traffic;
        let assignment = endpoints(&facts, &client, &mut ());
        let mut got: Vec<(String, u32)> = Vec::new();
        for locality in &assignment.localities {
            got.extend(locality.endpoints.iter().map(|e| (e.target.to_string(), locality.priority)));
        }
        got.sort();
        assert_eq!(got.into_iter().map(|(_, p)| p).collect::<Vec<_>>(), want, "{traffic:?}");
    }
}

#[test]
fn client_without_location_has_no_nearer_endpoints() {
    let mut facts =
        mk_one(vec![mk_address_at("10.0.0.1", mk_topology("", "r1/z1", "")), mk_address("10.0.0.2")]);
    facts.traffic = TrafficDistribution::SameZone;
    let priorities: Vec<u32> =
        endpoints(&facts, &Projection::default(), &mut ()).localities.iter().map(|l| l.priority).collect();
    assert_eq!(priorities, [0, 0]);
}

#[test]
fn known_node_alone_makes_no_zone_nearer() {
    let mut facts = mk_one(vec![
        mk_address_at("10.0.0.1", mk_topology("", "r1/z1", "n1")),
        mk_address_at("10.0.0.2", mk_topology("", "", "n2")),
    ]);
    let client = Projection { node: Some(NodeName::new("n1").ok()), ..Projection::default() };
    let priorities = |facts: &EndpointInputs| {
        let assignment = endpoints(facts, &client, &mut ());
        assignment.localities.iter().map(|l| l.priority).collect::<Vec<_>>()
    };
    facts.traffic = TrafficDistribution::SameZone;
    assert_eq!(priorities(&facts), [0, 0]);
    let on = |ip, node| mk_address_at(ip, mk_topology("", "", node));
    facts = mk_one(vec![on("10.0.0.1", "n2"), on("10.0.0.2", "n1")]);
    facts.traffic = TrafficDistribution::SameNode;
    let assignment = endpoints(&facts, &client, &mut ());
    assert_eq!(shown(&assignment), ["0 10.0.0.2:8080 1", "1 10.0.0.1:8080 1"]);
}

#[test]
fn logical_dns_and_grpc_get_the_first_endpoint_only() {
    let name = |i| Address::new(AddressRef::Name(i), Default::default());
    let group = mk_group("a", &["b.example.com", "a.example.com"], vec![name(0), name(1)]);
    let mut facts = mk_facts(vec![mk_source("east", group)]);
    facts.resolution = Resolution::DnsLogical;
    let first = ["0 b.example.com:8080 1"];
    assert_eq!(shown(&inline(&facts, &Projection::default(), &mut ())), first);
    facts.resolution = Resolution::DnsStrict;
    assert_eq!(inline(&facts, &Projection::default(), &mut ()).endpoints().count(), 2);
    assert_eq!(shown(&inline(&facts, &mk_projection(ClientKind::Grpc), &mut ())), first);
}

#[test]
fn single_endpoint_is_the_first_healthy_one() {
    let name = |i, health| Address { health, ..Address::new(AddressRef::Name(i), Default::default()) };
    let chosen = |first, second| {
        let group = mk_group("a", &["b.example.com", "a.example.com"], vec![name(0, first), name(1, second)]);
        let facts =
            EndpointInputs { resolution: Resolution::DnsLogical, ..mk_facts(vec![mk_source("east", group)]) };
        shown(&inline(&facts, &Projection::default(), &mut ()))
    };
    assert_eq!(chosen(Health::Unhealthy, Health::Healthy), ["0 a.example.com:8080 1"]);
    assert_eq!(chosen(Health::Healthy, Health::Unhealthy), ["0 b.example.com:8080 1"]);
    assert_eq!(
        chosen(Health::Unhealthy, Health::Unhealthy),
        ["0 b.example.com:8080 1"],
        "an unhealthy endpoint is better than an empty assignment"
    );
}

#[test]
fn single_endpoint_is_first_by_name_and_demoted_last() {
    let selected = |host: &str, workload: &str, standing| {
        let object = ObjectId::new("WorkloadEntry", "shop", workload);
        let origin = Origin { object, workload: workload.into() };
        let at =
            Address { origin: Some(origin.into()), ..Address::new(AddressRef::Name(0), Default::default()) };
        EndpointSource { priority: standing, ..mk_source("east", mk_group("pay", &[host], vec![at])) }
    };
    let chosen = |sources| {
        let facts = EndpointInputs { resolution: Resolution::DnsLogical, ..mk_facts(sources) };
        shown(&inline(&facts, &Projection::default(), &mut ()))
    };
    let (vm1, vm2) = (
        selected("z.example.com", "vm1", ShardPriority::Normal),
        selected("y.example.com", "vm2", ShardPriority::Normal),
    );
    assert_eq!(chosen(vec![vm2.clone(), vm1]), ["0 z.example.com:8080 1"], "independent of its bucket");
    let away = selected("z.example.com", "vm1", ShardPriority::Demoted);
    assert_eq!(chosen(vec![away, vm2]), ["0 y.example.com:8080 1"]);
}

#[test]
fn workload_text_matches_istio() {
    let origin = Origin { object: ObjectId::new("Pod", "shop", "pay-1"), workload: "pay".into() };
    let named = |revision: &str| Address {
        origin: Some(origin.clone().into()),
        labels: [(labels::CANONICAL_NAME, "pay"), (labels::CANONICAL_REVISION, revision)]
            .into_iter()
            .collect(),
        ..mk_address("10.0.0.1")
    };
    let text = |address: Address| {
        let facts = mk_one(vec![address]);
        let assignment = endpoints(&facts, &Projection::default(), &mut ());
        assignment.endpoints().next().and_then(Endpoint::workload)
    };
    assert_eq!(text(named("v2")).as_deref(), Some("pay;shop;pay;v2"));
    assert_eq!(text(named("latest")).as_deref(), Some("pay;shop;pay"));
    assert_eq!(text(mk_address("10.0.0.1")), None);
}

#[test]
fn label_of_a_network_that_is_not_used_is_explained() {
    let mut address = mk_address("10.0.0.1");
    address.labels = [(tributary_model::labels::NETWORK, "n1")].into_iter().collect();
    let mut trace = Trace::default();
    endpoints(&mk_one(vec![address]), &Projection::default(), &mut trace);
    let network = trace.steps.iter().find(|step| step.stage == Stage::Network).unwrap();
    assert_eq!(
        &*network.detail,
        "reached directly (no network: its object sets none, and its label topology.istio.io/network n1 is for selectors only)"
    );
}

#[test]
fn weights_of_groups_meet_in_a_common_unit() {
    let groups = |sources: &[(&str, &[u32], u32)]| {
        let source =
            |(net, weights, unit): &(&str, &[u32], u32)| mk_source(net, mk_weighted(net, weights, *unit));
        assign_all(&mk_facts(sources.iter().map(source).collect()))
    };
    let vms: (&str, &[u32], u32) = ("10.0.1.", &[10, 1], 10);
    assert_eq!(groups(&[vms]), ["0 10.0.1.1:8080 10", "0 10.0.1.2:8080 1"], "alone, the weights stay");
    let beside = groups(&[("10.0.0.", &[1], 1), vms]);
    assert_eq!(beside, ["0 10.0.0.1:8080 10", "0 10.0.1.1:8080 10", "0 10.0.1.2:8080 1"]);
    let three = groups(&[("10.0.0.", &[1], 1), vms, ("10.0.2.", &[2, 3], 4)]);
    let want = ["0 10.0.0.1:8080 20", "0 10.0.1.1:8080 20", "0 10.0.1.2:8080 2"];
    assert_eq!(three, [&want[..], &["0 10.0.2.1:8080 10", "0 10.0.2.2:8080 15"]].concat());
}

#[test]
fn explain_shows_the_unit_of_a_weight() {
    let of = |unit| {
        let facts = mk_facts(vec![mk_source("vms", mk_weighted("10.0.1.", &[1], unit))]);
        let mut trace = Trace::default();
        endpoints(&facts, &Projection::default(), &mut trace);
        trace.steps.into_iter().rfind(|step| step.stage == Stage::Weight).unwrap().detail
    };
    assert_eq!(of(1), "weight 1, priority 0, no locality");
    assert_eq!(of(10), "weight 1 (an ordinary endpoint has 10), priority 0, no locality");
}
