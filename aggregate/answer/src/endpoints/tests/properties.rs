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
    let locality = prop_oneof![Just(""), Just("r1/z1/s1"), Just("r1/z1/s2"), Just("r1/z2"), Just("r2")];
    let node = prop_oneof![Just(""), Just("n1"), Just("n2")];
    let labels = some_labels(&["", "a", "b"]);
    (at, health, weight, network, locality, node, 0..2_u16, labels).prop_map(
        |(at, health, weight, network, locality, node, port_set, labels)| Address {
            health,
            weight,
            port_set,
            labels,
            mtls: port_set == 0,
            ..Address::new(at, mk_topology(network, locality, node))
        },
    )
}

/// Labels that orders compare; an empty text stands for an absent one.
fn some_labels(values: &'static [&'static str]) -> impl Strategy<Value = Labels> {
    prop::collection::vec(prop::sample::select(values), 2)
        .prop_map(|values| ["tier", "app"].into_iter().zip(values).collect())
}

fn an_order() -> impl Strategy<Value = EndpointUse> {
    let regions = prop::collection::vec((region(), region()), 0..2);
    let keys = vec!["tier", "app", "tier=b", "app=a", labels::NETWORK, labels::REGION, labels::ZONE];
    let label = prop::sample::select(keys).prop_map(FailoverLabel::read);
    let failover = (regions, prop::collection::vec(label, 0..4)).prop_map(|(regions, labels)| {
        LocalityBalancing::Failover { regions: regions.into(), labels: labels.into() }
    });
    let place = || prop::sample::select(vec!["*", "r1/*", "r1/z1/*", "r1/z1/s1", "r2", "r9/z9/*"]);
    let to = prop::collection::vec((place().prop_map(Arc::from), 1..100_u32), 1..3);
    let entry = (place(), to).prop_map(|(from, to)| Distribution { from: from.into(), to: to.into() });
    let shares = prop::collection::vec(entry, 1..3).prop_map(|all| LocalityBalancing::Distribute(all.into()));
    let locality = prop_oneof![
        3 => Just(None),
        1 => Just(Some(LocalityBalancing::Off)),
        3 => failover.prop_map(Some),
        2 => shares.prop_map(Some),
    ];
    (locality, prop::bool::weighted(0.8)).prop_map(|(locality, ejects)| EndpointUse {
        locality,
        ejects,
        mesh_tls: None,
        passes: false,
    })
}

fn region() -> impl Strategy<Value = Arc<str>> {
    prop::sample::select(vec!["r1", "r2", "r8"]).prop_map(Arc::from)
}

/// Rules of all clients, and others for those of one namespace.
fn some_rules() -> impl Strategy<Value = ByNamespace<Option<Arc<EndpointPolicy>>>> {
    let policy = || {
        let of_all = Just(Labels::default());
        let subset = (an_order(), prop_oneof![2 => of_all, 1 => some_labels(&["", "a"])]);
        (an_order(), prop::option::weighted(0.8, subset)).prop_map(|(whole, subset)| {
            let subset = subset.map(|(order, labels)| (Subset::new("v1").unwrap(), labels, order));
            EndpointPolicy { whole, subsets: subset.into_iter().collect() }
        })
    };
    let some = || prop::option::of(policy().prop_map(Arc::new));
    (some(), some()).prop_map(|(usual, web)| ByNamespace::new(usual, [(mk_ns("web"), web)]))
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
    let rules = prop::option::of(some_rules().prop_map(Arc::new));
    let mesh = an_order().prop_map(|order| order.locality.map(Arc::new));
    (prop::collection::vec(a_source(), 0..5), traffic, resolution, any::<bool>(), (rules, mesh)).prop_map(
        |(sources, traffic, resolution, gate, (policy, locality))| {
            let own: &[_] = &[("c1", "192.0.2.1"), ("c1", "192.0.2.2"), ("c2", "192.0.2.3"), ("", "fd00::9")];
            let gated = if gate { mk_gated(&[("net2", own)]) } else { Arc::default() };
            let automatic_tls = gate;
            EndpointInputs {
                traffic,
                resolution,
                gated,
                automatic_tls,
                locality,
                policy,
                ..mk_facts(sources)
            }
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
    let labels = some_labels(&["", "a", "b", "z"]);
    (kind, locality, network, node, cluster, namespace, labels).prop_map(
        |(kind, locality, network, node, cluster, namespace, own)| {
            let class = crate::ClientClass {
                locality: Locality::parse(locality),
                network: NetworkId::new(network).ok(),
                node: NodeName::new(node).ok(),
                cluster: ClusterId::new(cluster).ok(),
                namespace: Namespace::new(namespace).ok(),
                certificates: if node == "n9" { CertificateSource::None } else { CertificateSource::Files },
                ..crate::ClientClass::new(kind)
            };
            let keys = ["tier", "app", labels::NETWORK, labels::REGION, labels::ZONE];
            let catalog = Catalog { compared_labels: keys.map(Arc::from).into(), ..Catalog::default() };
            crate::ClientClass { labels: class.compared(&catalog, &own), ..class }
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
        | ClientDimensions::LABELS
        | ClientDimensions::CERTIFICATES
}

fn assert_strict(assignment: &Assignment<'_>, names: bool, kind: ClientKind, distributed: bool) {
    let mut targets = BTreeSet::new();
    let mut localities = BTreeSet::new();
    let mut priorities = BTreeSet::new();
    let mut sums = std::collections::BTreeMap::<u32, u64>::new();
    for locality in &assignment.localities {
        assert!(localities.insert((locality.priority, &locality.locality)), "duplicate locality");
        assert!(distributed || !locality.endpoints.is_empty(), "an empty locality");
        priorities.insert(locality.priority);
        let sum: u64 = locality.endpoints.iter().map(|e| u64::from(e.weight)).sum();
        assert!(distributed || u64::from(locality.weight) == sum, "{locality:?}");
        assert!(locality.weight >= 1);
        *sums.entry(locality.priority).or_default() += u64::from(locality.weight);
        assert!(locality.endpoints.is_sorted_by(|a, b| (a.is_gateway, a.target) < (b.is_gateway, b.target)));
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
        let distributed = facts.preferences().any(|order| matches!(order, Preference::Distribute(_)));
        assert_strict(&endpoints(&facts, &client, &mut ()), false, class.kind, distributed);
        let within = inline(&facts, &client, &mut ());
        assert_strict(&within, true, class.kind, distributed);
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
        let subset = Subset::new("v1").unwrap();
        let part = |client: &Projection| endpoints_of(&node.inputs, Some(&subset), client, &mut ());
        prop_assert_eq!(part(&key(&node, &class)), part(&whole), "the key misses what a subset compares");
    }

    #[test]
    fn values_that_are_not_mentioned_change_no_key(facts in some_facts(), class in a_class()) {
        let node = ResourceInputs::new(facts, everything());
        let mut mentioned = Vec::new();
        key::Outcomes::mentions(&node, &mut |attr| mentioned.push(attr));
        let base = key::base(&class, |_| false);
        // a kept value is one of a base; the others are those that overlays leave to it
        let kept = key::base(&class, |attr| mentioned.contains(attr));
        prop_assert_eq!(key(&node, &class), key(&node, &kept));
        if key::attrs(&class).iter().all(|attr| !mentioned.contains(attr)) {
            prop_assert_eq!(key(&node, &class), key(&node, &base));
        }
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
        let assignment = endpoints(&facts, &client, &mut trace);
        let of = |code: Option<Code>, verdict| {
            let is = |step: &&TraceStep| code.is_none_or(|code| step.code == code) && step.verdict == verdict;
            trace.steps.iter().filter(is).filter(|step| !step.endpoint.is_empty()).count()
        };
        let all: usize = facts.sources.iter().map(|s| s.group.addresses.len()).sum();
        if !facts.resolution.is_dns() {
            let (gateways, direct): (Vec<_>, Vec<_>) = assignment.endpoints().partition(|one| one.is_gateway);
            let weighed = of(Some(Code::WEIGHT), Verdict::Pass);
            prop_assert_eq!(weighed + of(None, Verdict::Drop), all);
            prop_assert_eq!(weighed > direct.len(), !gateways.is_empty(), "gateways stand in for the others");
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
