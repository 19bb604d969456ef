//! Properties for any inputs: results in the strict set, independent of irrelevant order.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::key;

/// Few values each, so that duplicates, shared localities and clashes are common.
fn an_address() -> impl Strategy<Value = Address> {
    let at = prop_oneof![
        4 => (1..6_u8).prop_map(|i| AddressRef::Ip([10, 0, 0, i].into())),
        1 => Just(AddressRef::Ip(std::net::Ipv6Addr::LOCALHOST.into())),
        1 => (0..2_u16).prop_map(AddressRef::Name),
        1 => (2..4_u16).prop_map(AddressRef::Unix),
    ];
    let health = prop_oneof![
        Just(Health::Healthy),
        Just(Health::Draining),
        Just(Health::Unhealthy),
        Just(Health::Terminating)
    ];
    let weight = prop_oneof![Just(0), Just(1), Just(5), Just(u32::MAX), Just(u32::MAX - 1)];
    let network = prop_oneof![Just(""), Just("net1"), Just("net2")];
    let locality = prop_oneof![Just(""), Just("r1/z1/s1"), Just("r1/z2"), Just("r2")];
    let node = prop_oneof![Just(""), Just("n1"), Just("n2")];
    (at, health, weight, network, locality, node, 0..2_u16).prop_map(
        |(at, health, weight, network, locality, node, port_set)| Address {
            health,
            weight,
            port_set,
            ..Address::new(at, mk_topology(network, locality, node))
        },
    )
}

fn a_source() -> impl Strategy<Value = EndpointSource> {
    let addresses = prop::collection::vec(an_address(), 0..8);
    (addresses, 0..3_usize, 0..4_u8, any::<[bool; 5]>()).prop_map(|(addresses, registry, name, flags)| {
        let port = |n| GroupPort { name: PortName::new("http").unwrap(), number: PortNumber::new(n).ok() };
        let names = ["a.example.com", "b.example.com", "/run/a", "/run/b"].map(Arc::from).to_vec();
        let object = ObjectId::new("Slice", "shop", format!("s{name}"));
        let sets = vec![Arc::from([port(8080)]), Arc::from([port(9), port(8081)])];
        let group = EndpointGroup::new(Source::new(object), sets, names, addresses)
            .in_unit(WeightUnit::new(u32::from(name) * 3));
        let [demoted, hidden, node_local, cluster_local, persistent_sessions] = flags;
        let attributes =
            Attributes { node_local, cluster_local, persistent_sessions, ..Attributes::default() };
        EndpointSource {
            priority: if demoted { ShardPriority::Demoted } else { ShardPriority::Normal },
            visibility: if hidden { Visibility::Own } else { Visibility::Public },
            declaration: Declaration { attributes, ..mk_declaration("pay") }.into(),
            ports: [Some(0), Some(1)].into(),
            ..mk_source(["east", "west", "north"][registry], group.into())
        }
    })
}

fn some_facts() -> impl Strategy<Value = EndpointInputs> {
    let traffic = prop_oneof![
        Just(TrafficDistribution::Any),
        Just(TrafficDistribution::SameZone),
        Just(TrafficDistribution::SameNode)
    ];
    let resolution = prop_oneof![
        4 => Just(Resolution::ClientSide),
        1 => Just(Resolution::Passthrough),
        1 => Just(Resolution::DnsStrict),
        1 => Just(Resolution::DnsLogical)
    ];
    (prop::collection::vec(a_source(), 0..5), traffic, resolution, any::<bool>()).prop_map(
        |(sources, traffic, resolution, gate)| {
            let gated = if gate { vec![NetworkId::new("net2").unwrap()] } else { vec![] };
            EndpointInputs { traffic, resolution, gated: gated.into(), ..mk_facts(sources) }
        },
    )
}

fn a_class() -> impl Strategy<Value = crate::ClientClass> {
    let kind = prop_oneof![Just(ClientKind::Envoy), Just(ClientKind::Sidecar), Just(ClientKind::Grpc)];
    let locality = prop::sample::select(vec!["", "r1/z1/s1", "r1/z1/s9", "r1/z9", "r2", "r9", "/z9"]);
    let network = prop::sample::select(vec!["", "net1", "net2", "net9"]);
    let node = prop::sample::select(vec!["", "n1", "n2", "n9"]);
    let cluster = prop::sample::select(vec!["", "c1", "c9"]);
    let namespace = prop::sample::select(vec!["", "shop", "web"]);
    (kind, locality, network, node, cluster, namespace).prop_map(
        |(kind, locality, network, node, cluster, namespace)| crate::ClientClass {
            locality: Locality::parse(locality),
            network: NetworkId::new(network).ok(),
            node: NodeName::new(node).ok(),
            cluster: ClusterId::new(cluster).ok(),
            namespace: Namespace::new(namespace).ok(),
            ..crate::ClientClass::new(kind)
        },
    )
}

fn everything() -> ClientDimensions {
    ClientDimensions::KIND
        | ClientDimensions::NETWORK
        | ClientDimensions::CLUSTER
        | ClientDimensions::LOCALITY
        | ClientDimensions::NODE
        | ClientDimensions::NAMESPACE
}

fn assert_strict(assignment: &Assignment<'_>, names: bool, kind: ClientKind) {
    let mut targets = BTreeSet::new();
    let mut localities = BTreeSet::new();
    let mut priorities = BTreeSet::new();
    let mut sums = std::collections::BTreeMap::<u32, u64>::new();
    for locality in &assignment.localities {
        assert!(localities.insert((locality.priority, &locality.locality)), "duplicate locality");
        assert!(!locality.endpoints.is_empty(), "an empty locality");
        priorities.insert(locality.priority);
        let sum: u64 = locality.endpoints.iter().map(|e| u64::from(e.weight)).sum();
        assert_eq!(u64::from(locality.weight), sum);
        *sums.entry(locality.priority).or_default() += sum;
        assert!(locality.endpoints.is_sorted_by(|a, b| a.target < b.target));
        for endpoint in &locality.endpoints {
            assert!(targets.insert(endpoint.target), "{} stands twice", endpoint.target);
            assert!(endpoint.weight >= 1);
            assert_ne!(endpoint.health, Health::Terminating);
            assert!(names || !matches!(endpoint.target, Destination::Name(..)), "a name in EDS");
            assert!(
                kind != ClientKind::Grpc || !matches!(endpoint.target, Destination::Pipe(_)),
                "a pipe for gRPC"
            );
        }
    }
    let order: Vec<_> = assignment.localities.iter().map(|l| (l.priority, &l.locality)).collect();
    assert!(order.is_sorted(), "localities are not in order");
    assert!(priorities.iter().copied().eq(0..priorities.len() as u32), "a gap: {priorities:?}");
    assert!(sums.values().all(|&sum| sum <= u64::from(u32::MAX)), "weights overflow: {sums:?}");
}

proptest! {
    #[test]
    fn every_client_accepts_the_assignment(facts in some_facts(), class in a_class()) {
        let client = class.project(everything());
        assert_strict(&endpoints(&facts, &client, &mut ()), false, class.kind);
        let within = inline(&facts, &client, &mut ());
        assert_strict(&within, true, class.kind);
        if facts.resolution == Resolution::DnsLogical {
            assert!(within.endpoints().count() <= 1);
        }
    }

    #[test]
    fn equal_projections_get_equal_answers(facts in some_facts(), a in a_class(), b in a_class()) {
        for dims in [ClientDimensions::NONE, ClientDimensions::KIND, ClientDimensions::LOCALITY | ClientDimensions::NETWORK, ClientDimensions::NAMESPACE, everything()] {
            let (a, b) = (a.project(dims), b.project(dims));
            if a == b {
                assert_eq!(endpoints(&facts, &a, &mut ()), endpoints(&facts, &b, &mut ()));
            }
        }
    }

    #[test]
    fn key_gives_the_answer_of_the_whole_client(facts in some_facts(), class in a_class()) {
        let dims = everything() | ClientDimensions::CLUSTER;
        let whole = class.project(dims);
        let node = ResourceInputs::new(facts, dims);
        let (mut of_key, mut of_client) = (Trace::default(), Trace::default());
        let got = endpoints(&node.inputs, &key(&node, &class), &mut of_key);
        prop_assert_eq!(got, endpoints(&node.inputs, &whole, &mut of_client));
        prop_assert_eq!(of_key.steps, of_client.steps, "explain shows a different decision");
        let named = |client: &Projection| inline(&node.inputs, client, &mut ());
        prop_assert_eq!(named(&key(&node, &class)), named(&whole));
    }

    #[test]
    fn order_of_sources_in_a_shard_is_irrelevant(
        facts in some_facts(), class in a_class(), seed in any::<u64>()
    ) {
        let mut sources: Vec<EndpointSource> = facts.sources.to_vec();
        sources.sort_by_key(|s| s.shard.registry.name.clone());
        // Two groups of one object differ in their order only.
        sources.dedup_by(|a, b| a.shard == b.shard && a.group.source == b.group.source);
        let mut shuffled = sources.clone();
        for run in shuffled.chunk_by_mut(|a, b| a.shard == b.shard) {
            let by = usize::try_from(seed % 7).unwrap() % run.len();
            run.rotate_left(by);
        }
        let with = |sources: Vec<EndpointSource>| EndpointInputs { sources: sources.into(), ..facts.clone() };
        let client = class.project(everything());
        let (sources, shuffled) = (with(sources), with(shuffled));
        let (one, other) = (endpoints(&sources, &client, &mut ()), endpoints(&shuffled, &client, &mut ()));
        // Either of two equal sources may be named; the sent endpoints must be equal.
        prop_assert_eq!(sent(&one), sent(&other));
    }

    #[test]
    fn every_address_is_sent_or_removed_with_a_reason(facts in some_facts(), class in a_class()) {
        let mut trace = Trace::default();
        let client = class.project(everything());
        let count = endpoints(&facts, &client, &mut trace).endpoints().count();
        let refused = trace.steps.iter().filter(|s| s.verdict == Verdict::Drop && !s.endpoint.is_empty()).count();
        let all: usize = facts.sources.iter().map(|s| s.group.addresses.len()).sum();
        if !facts.resolution.is_dns() {
            prop_assert_eq!(count + refused, all);
        }
        let with_trace = endpoints(&facts, &client, &mut trace);
        prop_assert_eq!(with_trace, endpoints(&facts, &client, &mut ()), "a recorder changed the answer");
    }
}

fn sent(assignment: &Assignment<'_>) -> Vec<String> {
    let all = assignment.localities.iter().flat_map(|l| {
        let at = format!("{} {} {}", l.priority, l.locality, l.weight);
        l.endpoints.iter().map(move |e| format!("{at}: {} {:?} {}", e.target, e.health, e.weight))
    });
    all.collect()
}
