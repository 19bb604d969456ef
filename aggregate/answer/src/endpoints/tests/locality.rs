//! Priorities and shares that rules set, as recorded from Istio's control plane (`tests/suites/facts/dr_locality.txt`).

use std::sync::Arc;

use super::*;
use crate::key::key;

/// The endpoints of every recorded service: locality and `tier`.
const ENDPOINTS: [(&str, &str); 7] = [
    ("r1/z1/s1", "a"),
    ("r1/z1/s2", "a"),
    ("r1/z2/s1", "b"),
    ("r2/z3", "b"),
    ("r3/z4", "c"),
    ("", ""),
    ("r1/z1/s1", "c"),
];
/// Clients: locality and `tier`.
const CLIENTS: [(&str, &str); 4] = [("r1/z1/s1", "a"), ("r1/z2", ""), ("r2/z3", "b"), ("", "")];

fn mk_endpoints(weights: [u32; 7]) -> EndpointInputs {
    let address = |(n, (at, tier)): (u8, (&str, &str))| {
        let labels = [("tier", tier)].into_iter().filter(|(_, tier)| !tier.is_empty()).collect();
        let weight = weights[usize::from(n)];
        let ip = format!("10.0.0.{n}");
        Address { labels, weight, ..mk_address_at(&ip, mk_topology("", at, "")) }
    };
    mk_one((0..).zip(ENDPOINTS).map(address).collect())
}
fn mk_ruled(
    facts: EndpointInputs,
    order: EndpointUse,
    subsets: &[(&str, &str, EndpointUse)],
) -> EndpointInputs {
    let subset = |(name, tier, order): &(&str, &str, EndpointUse)| {
        (Subset::new(name).unwrap(), [("tier", *tier)].into_iter().collect(), order.clone())
    };
    let policy = EndpointPolicy { whole: order, subsets: subsets.iter().map(subset).collect() };
    EndpointInputs { policy: Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))), ..facts }
}
fn mk_failover(regions: &[(&str, &str)], labels: &[&str]) -> EndpointUse {
    let label = |text: &&str| match text.split_once('=') {
        Some((key, value)) => FailoverLabel { key: key.into(), value: Some(value.into()) },
        None => FailoverLabel { key: (*text).into(), value: None },
    };
    let regions = regions.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect();
    let labels = labels.iter().map(label).collect();
    EndpointUse {
        locality: Some(LocalityBalancing::Failover { regions, labels }),
        ejects: true,
        mesh_tls: None,
        passes: false,
    }
}
fn mk_shares(entries: &[(&str, &[(&str, u32)])]) -> EndpointUse {
    let entry = |(from, to): &(&str, &[(&str, u32)])| Distribution {
        from: (*from).into(),
        to: to.iter().map(|(place, share)| ((*place).into(), *share)).collect(),
    };
    let shares = entries.iter().map(entry).collect();
    EndpointUse {
        locality: Some(LocalityBalancing::Distribute(shares)),
        ejects: false,
        mesh_tls: None,
        passes: false,
    }
}
fn mk_client((at, tier): (&str, &str)) -> crate::ClientClass {
    let place = Locality::parse(at);
    let labels = [
        ("tier", tier),
        (labels::REGION, &place.region),
        (labels::ZONE, &place.zone),
        (labels::SUBZONE, &place.subzone),
        (labels::NETWORK, ""),
    ];
    let labels = labels.into_iter().collect();
    crate::ClientClass { locality: place.clone(), labels, ..crate::ClientClass::new(ClientKind::Sidecar) }
}
fn dims() -> ClientDimensions {
    ClientDimensions::LOCALITY | ClientDimensions::LABELS
}
fn keyed(facts: &EndpointInputs, client: (&str, &str)) -> Projection {
    key(&ResourceInputs::new(facts.clone(), dims()), &mk_client(client))
}
/// Returns the priority of each endpoint; `-` for one that is not sent. The key gives the same answer.
fn priorities(facts: &EndpointInputs, client: (&str, &str)) -> String {
    let whole = endpoints(facts, &mk_client(client).project(dims()), &mut ());
    assert_eq!(endpoints(facts, &keyed(facts, client), &mut ()), whole, "key of {client:?}");
    let priority = |n: usize| {
        let target = Destination::Ip([10, 0, 0, u8::try_from(n).unwrap()].into(), 8080);
        let is_in = |l: &&LocalityEndpoints<'_>| l.endpoints.iter().any(|e| e.target == target);
        whole.localities.iter().find(is_in).map_or_else(|| "-".to_owned(), |l| l.priority.to_string())
    };
    (0..ENDPOINTS.len()).map(priority).collect()
}

#[test]
fn failover_orders_endpoints_as_recorded() {
    let (region, zone) = (labels::REGION, labels::ZONE);
    let full = [labels::NETWORK, region, zone, labels::SUBZONE];
    let alone = EndpointUse { locality: None, ejects: true, mesh_tls: None, passes: false };
    let cases = [
        ("none", EndpointUse::default(), ["0000000"; 4]),
        ("outlier", alone, ["0123330", "1102221", "1110111", "1111101"]),
        ("empty setting", mk_failover(&[], &[]), ["0123330", "1102221", "1110111", "1111101"]),
        (
            "failover",
            mk_failover(&[("r1", "r3"), ("r2", "r1")], &[]),
            ["0124340", "1103231", "1110221", "1111101"],
        ),
        ("priority", mk_failover(&[], &[region, zone]), ["0012220", "1102221", "1110111", "1111101"]),
        ("priority-label", mk_failover(&[], &["tier", "app"]), ["0011111", "1111101", "1100111", "1111101"]),
        (
            "priority-value",
            mk_failover(&[], &["tier=b", region]),
            ["2201222", "2201222", "2210222", "1100111"],
        ),
        ("priority-full", mk_failover(&[], &full), ["0123330", "1102221", "1110111", "1111101"]),
        (
            "priority-failover",
            mk_failover(&[("r1", "r3")], &["tier"]),
            ["0135452", "2214302", "2210222", "1111101"],
        ),
    ];
    for (name, order, want) in cases {
        let facts = mk_ruled(mk_endpoints([1; 7]), order, &[]);
        assert_eq!(CLIENTS.map(|client| priorities(&facts, client)), want, "{name}");
    }
}

#[test]
fn rule_replaces_the_traffic_distribution() {
    let near = || EndpointInputs { traffic: TrafficDistribution::SameZone, ..mk_endpoints([1; 7]) };
    let off =
        EndpointUse { locality: Some(LocalityBalancing::Off), ejects: true, mesh_tls: None, passes: false };
    let no_ejection = |order: EndpointUse| EndpointUse { ejects: false, ..order };
    let here = |order| priorities(&mk_ruled(near(), order, &[]), CLIENTS[0]);
    let dims = ClientDimensions::LOCALITY | ClientDimensions::NETWORK;
    let zone = shown(&endpoints(&near(), &mk_client(CLIENTS[0]).project(dims), &mut ()));
    assert_eq!(zone.iter().filter(|line| line.starts_with('0')).count(), 3, "{zone:?}");
    assert_eq!(here(EndpointUse { locality: None, ejects: true, mesh_tls: None, passes: false }), "0012220");
    assert_eq!(here(off), "0000000");
    assert_eq!(here(no_ejection(mk_failover(&[], &["tier"]))), "0000000");
    assert_eq!(here(mk_failover(&[], &[])), "0123330");
}

#[test]
fn labels_after_a_different_network_still_count() {
    let at = |n: u8, network, place| mk_address_at(&format!("10.0.0.{n}"), mk_topology(network, place, ""));
    let facts = mk_one(vec![at(0, "n1", "r1"), at(1, "n1", "r2"), at(2, "n2", "r1"), at(3, "n2", "r2")]);
    let order = mk_failover(&[], &[labels::NETWORK, labels::REGION]);
    let facts = mk_ruled(facts, order, &[]);
    let priorities = |network: &str, region: &str| {
        let labels = [(labels::NETWORK, network), (labels::REGION, region)].into_iter().collect();
        let class = crate::ClientClass { labels, ..crate::ClientClass::new(ClientKind::Sidecar) };
        let key = key(&ResourceInputs::new(facts.clone(), dims()), &class);
        let of = |client: &Projection| shown(&endpoints(&facts, client, &mut ()));
        assert_eq!(of(&key), of(&class.project(dims())));
        of(&key).iter().map(|line| line.replace(".0.0.", "")[..5].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(priorities("n1", "r1"), ["0 100", "1 101", "2 102", "3 103"]);
    assert_eq!(priorities("n2", "r2"), ["0 103", "1 102", "2 101", "3 100"]);
    assert_eq!(priorities("n3", "r2"), ["0 101", "0 103", "1 100", "1 102"]);
}

/// Formats the localities: weight, and how many endpoints each has.
fn shares(facts: &EndpointInputs, client: (&str, &str)) -> String {
    let whole = endpoints(facts, &mk_client(client).project(dims()), &mut ());
    assert_eq!(endpoints(facts, &keyed(facts, client), &mut ()), whole, "key of {client:?}");
    let one = |l: &LocalityEndpoints<'_>| {
        format!("{}{}={}({})", "+".repeat(l.priority as usize), l.locality, l.weight, l.endpoints.len())
    };
    whole.localities.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn localities_are_distributed_as_recorded() {
    let usual = "=1(1) r1/z1/s1=2(2) r1/z1/s2=1(1) r1/z2/s1=1(1) r2/z3=1(1) r3/z4=1(1)";
    let to: &[(&str, u32)] = &[("r1/z1/*", 70), ("r1/z2/*", 20), ("r2/*", 10)];
    let order = mk_shares(&[("r1/z1/*", to), ("r2/*", &[("r2/*", 100)])]);
    let facts = mk_ruled(mk_endpoints([1; 7]), order, &[]);
    let want = [
        "=1(0) r1/z1/s1=47(2) r1/z1/s2=24(1) r1/z2/s1=20(1) r2/z3=10(1) r3/z4=1(0)",
        usual,
        "=1(0) r1/z1/s1=2(0) r1/z1/s2=1(0) r1/z2/s1=1(0) r2/z3=100(1) r3/z4=1(0)",
        usual,
    ];
    assert_eq!(CLIENTS.map(|client| shares(&facts, client)), want);
    let to: &[(&str, u32)] = &[("r1/z1/s1", 50), ("r1/z1/s2", 30), ("r3/z4", 20)];
    let facts = mk_ruled(mk_endpoints([1, 2, 3, 4, 5, 6, 1]), mk_shares(&[("r1/*", to)]), &[]);
    let want = "=6(0) r1/z1/s1=50(2) r1/z1/s2=30(1) r1/z2/s1=3(0) r2/z3=4(0) r3/z4=20(1)";
    assert_eq!([0, 1].map(|at| shares(&facts, CLIENTS[at])), [want; 2]);
    let facts = mk_ruled(mk_endpoints([1; 7]), mk_shares(&[("*", &[("r1/*", 40), ("r3/*", 60)])]), &[]);
    let want = "=1(0) r1/z1/s1=20(2) r1/z1/s2=10(1) r1/z2/s1=10(1) r2/z3=1(0) r3/z4=60(1)";
    assert_eq!(CLIENTS.map(|client| shares(&facts, client)), [want; 4]);
}

#[test]
fn shares_are_of_each_priority() {
    let demoted = EndpointSource {
        priority: ShardPriority::Demoted,
        ..mk_source("west", mk_group("b", &[], vec![mk_address_at("10.1.0.1", mk_topology("", "r1/z1", ""))]))
    };
    let mut facts = mk_one(vec![
        mk_address_at("10.0.0.1", mk_topology("", "r1/z1", "")),
        mk_address_at("10.0.0.2", mk_topology("", "r1/z2", "")),
    ]);
    facts.sources = facts.sources.iter().cloned().chain([demoted]).collect();
    let facts = mk_ruled(facts, mk_shares(&[("*", &[("r1/*", 100)])]), &[]);
    assert_eq!(shares(&facts, CLIENTS[0]), "r1/z1=50(1) r1/z2=50(1) +r1/z1=100(1)");
}

#[test]
fn subsets_have_their_own_order() {
    let subsets = [
        ("c", "c", EndpointUse { locality: None, ejects: true, mesh_tls: None, passes: false }),
        ("b", "b", mk_shares(&[("*", &[("r1/*", 10), ("r2/*", 90)])])),
        (
            "off",
            "c",
            EndpointUse {
                locality: Some(LocalityBalancing::Off),
                ejects: true,
                mesh_tls: None,
                passes: false,
            },
        ),
    ];
    let facts = mk_ruled(mk_endpoints([1; 7]), EndpointUse::default(), &subsets);
    let of = |name: &str| {
        let subset = Subset::new(name).unwrap();
        let assignment = endpoints_of(&facts, Some(&subset), &keyed(&facts, CLIENTS[0]), &mut ()).unwrap();
        let one = |l: &LocalityEndpoints<'_>| format!("{} {} {}", l.priority, l.locality, l.weight);
        assignment.localities.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(of("c"), ["0 r1/z1/s1 1", "1 r3/z4 1"]);
    assert_eq!(of("b"), ["0 r1/z2/s1 10", "0 r2/z3 90"]);
    assert_eq!(of("off"), ["0 r1/z1/s1 1", "0 r3/z4 1"]);
}

#[test]
fn key_keeps_what_the_orders_of_all_subsets_compare() {
    let near = EndpointInputs { traffic: TrafficDistribution::SameZone, ..mk_endpoints([1; 7]) };
    let subsets = [("a", "a", mk_failover(&[], &[])), ("c", "c", mk_failover(&[("r9", "r3")], &[]))];
    let facts = mk_ruled(near, EndpointUse::default(), &subsets);
    let dims = dims() | ClientDimensions::NETWORK;
    let of = |client: (&str, &str), subset: Option<&str>| {
        let class = mk_client(client);
        let subset = subset.and_then(Subset::new);
        let part =
            |client: &Projection| shown(&endpoints_of(&facts, subset.as_ref(), client, &mut ()).unwrap());
        let of_key = part(&key(&ResourceInputs::new(facts.clone(), dims), &class));
        assert_eq!(of_key, part(&class.project(dims)), "key of {client:?}");
        of_key
    };
    assert_eq!(of(CLIENTS[0], Some("a")), ["0 10.0.0.0:8080 1", "1 10.0.0.1:8080 1"]);
    assert_eq!(of(("r9", ""), Some("c")), ["0 10.0.0.4:8080 1", "1 10.0.0.6:8080 1"]);
    assert_eq!(of(("r9", ""), None).iter().filter(|line| line.starts_with('0')).count(), 7);
}

#[test]
fn only_endpoint_of_an_xds_cluster_needs_no_share() {
    let name = |at| Address::new(AddressRef::Name(0), mk_topology("", at, ""));
    let group = mk_group("a", &["db.example.com"], vec![name("r2/z3")]);
    let facts = mk_facts(vec![mk_source("east", group)]);
    let facts = mk_ruled(facts, mk_shares(&[("*", &[("r1/*", 100)])]), &[]);
    let count = |resolution| {
        let facts = EndpointInputs { resolution, ..facts.clone() };
        let assignment = inline(&facts, &keyed(&facts, CLIENTS[0]), &mut ());
        (assignment.localities.len(), assignment.endpoints().count())
    };
    assert_eq!(count(Resolution::DnsStrict), (1, 0));
    assert_eq!(count(Resolution::DnsLogical), (1, 1));
}

#[test]
fn endpoint_without_a_share_has_a_reason() {
    let facts = mk_ruled(mk_endpoints([1; 7]), mk_shares(&[("r1/*", &[("r1/*", 100)])]), &[]);
    let dropped = codes(&facts, &mk_client(CLIENTS[0]).project(dims()));
    let numbers: Vec<u16> = dropped.iter().map(|(.., code, _)| *code).collect();
    assert_eq!(numbers, [546; 3]);
}

/// Clients whose values neither endpoints nor rules name share one key.
#[test]
fn values_that_nothing_names_share_a_key() {
    let keys = |facts: &EndpointInputs, clients: &[(String, String)]| {
        let keys = clients.iter().map(|(at, tier)| keyed(facts, (at, tier)));
        keys.collect::<std::collections::HashSet<_>>().len()
    };
    let clients: Vec<(String, String)> = (0..100).map(|n| (format!("x{n}/z{n}"), format!("t{n}"))).collect();
    let orders = [
        mk_failover(&[], &[]),
        mk_failover(&[("r1", "r3")], &["tier"]),
        mk_failover(&[], &["tier", "app", labels::REGION]),
        mk_shares(&[("r1/z1/*", &[("r1/*", 100)])]),
    ];
    for order in orders {
        let facts = mk_ruled(mk_endpoints([1; 7]), order.clone(), &[]);
        assert_eq!(keys(&facts, &clients), 1, "{order:?}");
    }
    // what follows the first mismatch does not count
    let tiers =
        |of: usize| (0..100).map(|n| (format!("r1/z{n}"), format!("t{}", n % of))).collect::<Vec<_>>();
    let facts = mk_ruled(mk_endpoints([1; 7]), mk_failover(&[], &["tier", labels::ZONE]), &[]);
    assert_eq!(keys(&facts, &tiers(7)), 1);
    // every client matches a pattern that leaves all open
    let facts = mk_ruled(mk_endpoints([1; 7]), mk_shares(&[("*", &[("r1/*", 100)])]), &[]);
    assert_eq!(keys(&facts, &tiers(7)), 1);
}
