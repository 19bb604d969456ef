//! Properties of the encoders: any inputs give bytes that decode to the plan.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3 as pb;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use proptest::prelude::*;
use prost::Message;
use tributary_answer::vip::ListenAddress;
use tributary_answer::{
    Assignment, ClusterName, InboundPort, InboundSecurity, Listener, Match, Routes, Serves, VirtualHostPlan,
    cluster as cluster_plan, endpoints, inline,
};
use tributary_model::*;

use super::defaults::{Defaults, Handling};
use super::route::{Unclaimed, append_host, table_head, table_tail};
use super::{assignment, cluster, listener, route};

/// Texts that a source may contain, with unusual ones as frequent as usual ones.
fn some_text() -> impl Strategy<Value = String> {
    let odd = ["", "a", "eu-west-1", "\u{e9}\u{0}\n;", "\u{10ffff}"].map(str::to_owned);
    let long = [127, 128, 16_384].map(|n| "x".repeat(n));
    prop::sample::select([&odd[..], &long[..]].concat())
}
fn some_domain() -> impl Strategy<Value = String> {
    some_text().prop_map(|text| format!("{text}.shop"))
}
fn some_ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}
fn some_place() -> impl Strategy<Value = Arc<Topology>> {
    (some_text(), some_text(), some_text()).prop_map(|(region, zone, subzone)| {
        Arc::new(Topology { locality: Locality::new(&region, &zone, &subzone), ..Topology::default() })
    })
}
fn some_health() -> impl Strategy<Value = Health> {
    use Health::{Draining, Healthy, Terminating, Unhealthy};
    prop_oneof![4 => Just(Healthy), 1 => Just(Unhealthy), 1 => Just(Draining), 1 => Just(Terminating)]
}
prop_compose! {
    fn some_address()(
        at in prop_oneof![
            4 => some_ip().prop_map(AddressRef::Ip),
            1 => (0u16..3).prop_map(AddressRef::Name),
            1 => (0u16..3).prop_map(AddressRef::Unix)
        ],
        (port_set, health, mtls, weight) in (0u16..2, some_health(), any::<bool>(), any::<u32>()),
        topology in some_place(),
        labels in prop::collection::vec((some_text(), some_text()), 0..3),
        workload in prop::option::of(some_text()),
    ) -> Address {
        let origin = workload.map(|workload: String| {
            Arc::new(Origin { object: ObjectId::new("Pod", "shop", "x"), workload: workload.as_str().into() })
        });
        let labels = labels.iter().map(|(k, v): &(String, String)| (k.as_str(), v.as_str())).collect();
        Address { at, port_set, health, mtls, weight, topology, labels, identity: None, origin }
    }
}
fn some_resolution() -> impl Strategy<Value = Resolution> {
    prop_oneof![
        Just(Resolution::ClientSide),
        Just(Resolution::DnsStrict),
        Just(Resolution::DnsLogical),
        Just(Resolution::Passthrough),
        Just(Resolution::Dynamic)
    ]
}
prop_compose! {
    fn some_facts()(
        addresses in prop::collection::vec(some_address(), 0..6),
        names in prop::collection::vec(some_text(), 3),
        ports in prop::collection::vec(prop::option::of(1u32..65_536), 1..3),
        resolution in some_resolution(),
        port in 1u32..65_536,
        host in prop_oneof![Just("pay.shop"), Just("*.shop"), Just("pay.shop.svc.cluster.local")],
    ) -> EndpointInputs {
        let named = |n: &Option<u32>| GroupPort {
            name: PortName::new("p").unwrap(),
            number: n.and_then(|n| PortNumber::new(n).ok()),
        };
        let port_sets = ports.iter().map(|p| Arc::from([named(p)])).collect();
        let names = names.iter().map(|n: &String| n.as_str().into()).collect();
        let source = Source::new(ObjectId::new("Slice", "shop", "s"));
        let group = EndpointGroup::new(source, port_sets, names, addresses);
        mk_facts(host, port, resolution, group)
    }
}
fn mk_facts(host: &str, port: u32, resolution: Resolution, group: EndpointGroup) -> EndpointInputs {
    let service =
        ServiceKey { host: Hostname::new(host).unwrap(), namespace: Namespace::new("shop").unwrap() };
    let id = RegistryId {
        name: RegistryName::new("east").unwrap(),
        provider: ProviderId::MEMORY,
        cluster: ClusterId::new("east").unwrap(),
    };
    let declaration = Declaration {
        resolution: resolution.clone(),
        attributes: Attributes { persistent_sessions: true, ..Attributes::default() },
        ..Declaration::new(Source::new(ObjectId::new("ServiceEntry", "shop", "s")))
    };
    let source = EndpointSource {
        shard: Arc::new(ShardRef { registry: Arc::new(id), scope: Scope::new("all").unwrap() }),
        priority: ShardPriority::Normal,
        declaration: Arc::new(declaration),
        visibility: Visibility::Public,
        ports: group.port_sets.iter().map(|_| Some(0)).collect(),
        group: Arc::new(group),
        held: Arc::from([]),
        plain: Arc::from([]),
        federation: None,
    };
    EndpointInputs {
        service,
        port: PortNumber::new(port).unwrap(),
        resolution,
        traffic: TrafficDistribution::Any,
        sources: [source].into(),
        gated: Arc::from([]),
        automatic_tls: false,
        locality: None,
        policy: None,
    }
}
fn mk_cluster_facts(facts: EndpointInputs, protocol: Protocol) -> ClusterInputs {
    ClusterInputs {
        target: None,
        service: facts.service.clone(),
        port: facts.port,
        protocol,
        resolution: facts.resolution.clone(),
        attributes: Arc::default(),
        identities: Arc::default(),
        automatic_tls: false,
        all_meshed: false,
        connect_timeout: Duration::MAX,
        locality: None,
        inline: Some(Shared::new(ResourceInputs::new(facts, ClientDimensions::KIND))),
        policy: None,
    }
}
fn some_kind() -> impl Strategy<Value = ClientKind> {
    prop_oneof![Just(ClientKind::Envoy), Just(ClientKind::Sidecar), Just(ClientKind::Grpc)]
}
/// Checks that localities, endpoints and weights are those of the plan.
fn agrees(plan: &Assignment<'_>, body: &ClusterLoadAssignment) -> Result<(), TestCaseError> {
    prop_assert_eq!(plan.localities.len(), body.endpoints.len());
    for (group, shown) in plan.localities.iter().zip(&body.endpoints) {
        let locality = shown.locality.as_ref();
        prop_assert_eq!(locality.map(|l| l.sub_zone.as_str()), Some(&*group.locality.subzone));
        prop_assert_eq!(
            (group.priority, group.weight),
            (shown.priority, shown.load_balancing_weight.map_or(0, |w| w.value))
        );
        let weights = shown.lb_endpoints.iter().map(|e| e.load_balancing_weight.map_or(0, |w| w.value));
        prop_assert!(group.endpoints.iter().map(|e| e.weight).eq(weights));
        prop_assert!(group.endpoints.iter().all(|e| e.weight >= 1), "Envoy rejects a weight of 0");
    }
    Ok(())
}
fn some_match() -> impl Strategy<Value = Match> {
    let range = prop::option::of((some_ip(), any::<u8>()));
    (range, prop::option::of(some_text()), any::<bool>()).prop_map(|(range, sni, http)| Match {
        range,
        sni,
        http,
    })
}
fn some_cluster() -> impl Strategy<Value = ClusterName> {
    let host = prop_oneof![Just("pay.shop"), Just("*.shop")].prop_map(|host| Hostname::new(host).unwrap());
    let subset = prop::option::of("[a-zA-Z0-9]{1,63}").prop_map(|text| Subset::new(&text?));
    (1u32..65_536, subset, host).prop_map(|(port, subset, host)| ClusterName {
        subset,
        ..ClusterName::new(PortNumber::new(port).unwrap(), &host)
    })
}
fn some_serves() -> impl Strategy<Value = Serves> {
    prop_oneof![
        Just(Serves::Routes),
        some_cluster().prop_map(|cluster| Serves::Http(cluster, None)),
        some_cluster().prop_map(|cluster| Serves::Cluster(cluster, None)),
        prop::collection::vec((some_cluster(), 1u32..=u32::MAX), 1..4)
            .prop_map(|all| Serves::Weighted(all.into(), None))
    ]
}
fn some_unclaimed() -> impl Strategy<Value = Unclaimed> {
    let proxy = Unclaimed::To("outbound|8080||out.shop".parse().unwrap());
    prop_oneof![Just(Unclaimed::Pass), Just(Unclaimed::Block), Just(proxy)]
}
#[test]
fn range_where_http_is_detected_has_a_chain_for_the_rest() {
    let range = Some((IpAddr::from([10, 1, 0, 0]), 16));
    let part = |http, serves| (Match { range, http, ..Match::default() }, serves);
    let cluster: ClusterName = "outbound|80||pay.shop".parse().unwrap();
    let parts =
        [part(true, Serves::Http(cluster.clone(), None)), part(false, Serves::Cluster(cluster, None))];
    let bind = ListenAddress::only(IpAddr::from([0; 4]));
    let mut plan = Listener { name: "l".into(), bind, port: 80, binds: false, parts: parts.into() };
    let transports = |plan: &Listener| -> Vec<String> {
        let body = listener::listener(plan, &Default::default(), &Defaults::new(Unclaimed::Pass));
        let chains = pb::Listener::decode(&body[..]).unwrap().filter_chains;
        let tcp = chains.into_iter().filter_map(|chain| chain.filter_chain_match);
        tcp.filter(|m| m.application_protocols.is_empty()).map(|m| m.transport_protocol).collect()
    };
    assert_eq!(transports(&plan), ["", "raw_buffer"]);
    plan.parts.remove(0);
    assert_eq!(transports(&plan), [""]);
}

#[test]
fn http_chains_have_the_filters_that_routes_configure() {
    let forwarded = Match { http: true, ..Match::default() };
    let bind = ListenAddress::only(IpAddr::from([0; 4]));
    let parts = vec![(forwarded.clone(), Serves::Routes)];
    let plan = Listener { name: "l".into(), bind, port: 80, binds: false, parts };
    let filters = |forwards: &BTreeSet<Match>| -> Vec<String> {
        let body = listener::listener(&plan, forwards, &Defaults::new(Unclaimed::Pass));
        let chain = pb::Listener::decode(&body[..]).unwrap().filter_chains.remove(0);
        let Some(pb::filter::ConfigType::TypedConfig(config)) = &chain.filters[0].config_type else {
            panic!()
        };
        let manager = HttpConnectionManager::decode(&config.value[..]).unwrap();
        let short = |name: String| name.trim_start_matches("envoy.filters.http.").to_owned();
        manager.http_filters.into_iter().map(|filter| short(filter.name)).collect()
    };
    assert_eq!(filters(&BTreeSet::new()), ["fault", "cors", "router"]);
    assert_eq!(filters(&BTreeSet::from([forwarded])), ["fault", "cors", "dynamic_forward_proxy", "router"]);
}

#[test]
fn connections_are_shared_by_weight() {
    use tcp_proxy::ClusterSpecifier;
    let bind = ListenAddress::only(IpAddr::from([0; 4]));
    let cluster = |name: &str| -> ClusterName { name.parse().unwrap() };
    let shares = |weights: [u32; 2]| {
        let all =
            [(cluster("outbound|80||a.shop"), weights[0]), (cluster("outbound|80||b.shop"), weights[1])];
        let parts = vec![(Match::default(), Serves::Weighted(all.into(), None))];
        let plan = Listener { name: "l".into(), bind, port: 80, binds: true, parts };
        let body = listener::listener(&plan, &BTreeSet::new(), &Defaults::new(Unclaimed::Pass));
        let chain = pb::Listener::decode(&body[..]).unwrap().filter_chains.remove(0);
        let Some(pb::filter::ConfigType::TypedConfig(config)) = &chain.filters[0].config_type else {
            panic!()
        };
        match TcpProxy::decode(&config.value[..]).unwrap().cluster_specifier {
            Some(ClusterSpecifier::WeightedClusters(all)) => {
                all.clusters.into_iter().map(|to| (to.name, u64::from(to.weight))).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let want = [("outbound|80||a.shop", 20), ("outbound|80||b.shop", 80)];
    assert_eq!(shares([20, 80]), want.map(|(name, weight)| (name.to_owned(), weight)));
    let whole: u64 = shares([u32::MAX, u32::MAX]).iter().map(|(_, weight)| *weight).sum();
    assert!(whole <= u64::from(u32::MAX), "{whole}");
}

fn many(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_iters: 4_096, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many(10_000))]

    #[test]
    fn assignments_and_clusters_of_any_facts_decode(
        facts in some_facts(),
        kind in some_kind(),
        protocol in prop_oneof![Just(Protocol::Grpc), Just(Protocol::Tcp)],
    ) {
        let client = Projection { kind: Some(kind), ..Projection::default() };
        for plan in [endpoints(&facts, &client, &mut ()), inline(&facts, &client, &mut ())] {
            let body = assignment::assignment("outbound|80||pay.shop", &plan);
            let message = ClusterLoadAssignment::decode(&body[..]);
            prop_assert!(message.is_ok(), "{message:?}");
            agrees(&plan, &message.unwrap())?;
        }
        let facts = mk_cluster_facts(facts, protocol);
        if let Some(plan) = cluster_plan(&facts, None, &client, &mut ()) {
            let message = Cluster::decode(&cluster::cluster(&plan)[..]);
            prop_assert_eq!(message.map(|m| m.name), Ok(plan.name.to_string()));
        }
    }
}

proptest! {
    #![proptest_config(many(2_000))]

    #[test]
    fn listeners_of_any_parts_have_a_chain_for_each(
        (bind, port, binds) in (some_ip(), any::<u16>(), any::<bool>()),
        parts in prop::collection::btree_map(some_match(), some_serves(), 1..5),
        (forward, unclaimed) in (any::<bool>(), some_unclaimed()),
    ) {
        let forwards = parts.keys().filter(|_| forward).cloned().collect();
        let bind = ListenAddress { ip: bind, additional: binds.then_some(Ipv6Addr::UNSPECIFIED) };
        let plan = Listener { name: "l".into(), bind, port, binds, parts: parts.into_iter().collect() };
        let message = pb::Listener::decode(&listener::listener(&plan, &forwards, &Defaults::new(unclaimed))[..]).unwrap();
        let chains = message.filter_chains.len() + usize::from(message.default_filter_chain.is_some());
        let ranges = |chain: &pb::FilterChain| chain.filter_chain_match.as_ref().map_or(0, |m| m.prefix_ranges.len());
        let shared: usize = message.filter_chains.iter().map(|chain| ranges(chain).saturating_sub(1)).sum();
        prop_assert!(chains + shared >= plan.parts.len() && !message.filter_chains.is_empty());
        let unmatched = message.filter_chains.iter().filter(|c| c.filter_chain_match.is_none()).count();
        prop_assert!(unmatched == 0 || chains == 1, "Envoy rejects a chain that hides the others");
    }

    #[test]
    fn inbound_listeners_of_any_ports_decode(ports in prop::collection::btree_set(1u32..65_536, 0..5)) {
        let port = |n: &u32| InboundPort {
            target: PortNumber::new(*n).unwrap(),
            service: PortNumber::new(80).unwrap(),
            protocol: match n % 3 {
                0 => Protocol::Http,
                1 => Protocol::Tcp,
                _ => Protocol::Unspecified,
            },
            mode: MtlsMode::Disable,
        };
        let ports: Vec<InboundPort> = ports.iter().map(port).collect();
        let security = InboundSecurity { modes: Arc::new(PeerModes::default().settled(MtlsMode::Disable)), tls: None, authorization: None, tokens: None };
        let body = listener::virtual_inbound(ListenAddress::only(IpAddr::from([0; 4])), &ports, &security, &Handling::default());
        let message = pb::Listener::decode(&body[..]).unwrap();
        let detected = ports.iter().filter(|port| port.protocol == Protocol::Unspecified);
        let own = ports.iter().chain(detected).filter(|port| port.target.get() != 15_006).count();
        prop_assert_eq!(message.filter_chains.len(), own + 3, "the guard, and HTTP and the rest of other ports");
        let matches: std::collections::HashSet<_> =
            message.filter_chains.iter().map(|chain| format!("{:?}", chain.filter_chain_match)).collect();
        prop_assert_eq!(matches.len(), own + 3, "Envoy rejects two chains of one match");
    }

    #[test]
    fn route_tables_of_any_hosts_decode(
        hosts in prop::collection::vec((some_text(), prop::collection::vec(some_domain(), 0..4), some_text()), 0..5),
        unclaimed in some_unclaimed(),
    ) {
        let mut table = table_head("80");
        for (name, domains, cluster) in &hosts {
            let plan = VirtualHostPlan {
                addresses: Vec::new(),
                name: name.clone(), domains: domains.clone(), cluster: cluster.clone(), dynamic: false, retries: None, hash: None, routes: Routes::Default, rule: None,
            };
            append_host(&mut table, &route::virtual_host(&plan));
            let grpc = RouteConfiguration::decode(&route::grpc_table("t", &plan)[..]).unwrap();
            prop_assert_eq!(&grpc.virtual_hosts[0].domains, domains);
        }
        table.extend(table_tail(&unclaimed));
        let message = RouteConfiguration::decode(&table[..]).unwrap();
        prop_assert_eq!(message.virtual_hosts.len(), hosts.len() + 1);
        let named = message.virtual_hosts.iter().zip(&hosts).all(|(host, (name, domains, _))| {
            (&host.name, &host.domains) == (name, domains)
        });
        prop_assert!(named);
    }
}
