//! Generates facts that make an answer depend on the client: flags, networks behind gateways, unix paths,
//! audiences, virtual addresses.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Result;
use proptest::prelude::*;
use tributary_core::{Core, CoreConfig, RunOrder};
use tributary_model::*;

/// Variable attributes of one declaration and its group.
#[derive(Debug, Clone)]
pub(crate) struct Generated {
    flags: [bool; 5],
    traffic: TrafficDistribution,
    resolution: Resolution,
    protocol: Protocol,
    export: Visibility,
    addresses: Vec<ServiceAddress>,
    endpoints: Vec<(AddressRef, Topology, &'static str)>,
}

/// DestinationRule of a namespace for the service: order of all endpoints and of a subset.
pub(crate) type GeneratedRule = (&'static str, TrafficPolicy, TrafficPolicy);

fn traffic() -> impl Strategy<Value = TrafficDistribution> {
    use TrafficDistribution::{Any, SameNode, SameZone};
    prop_oneof![Just(Any), Just(SameZone), Just(SameNode)]
}

fn resolution() -> impl Strategy<Value = Resolution> {
    use Resolution::{ClientSide, DnsLogical, DnsStrict, Dynamic, Passthrough};
    prop_oneof![
        3 => Just(ClientSide),
        2 => Just(Passthrough),
        1 => Just(DnsStrict),
        1 => Just(DnsLogical),
        1 => Just(Dynamic)
    ]
}

fn export() -> impl Strategy<Value = Visibility> {
    let web = Visibility::Namespaces(Namespace::new("web").into_iter().collect());
    prop_oneof![2 => Just(Visibility::Public), 1 => Just(Visibility::Own), 1 => Just(web)]
}

fn virtual_address() -> impl Strategy<Value = ServiceAddress> {
    let v6 = IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 9_u16]);
    let ip = prop_oneof![Just(IpAddr::from([10, 9, 0, 1])), Just(v6), Just(IpAddr::from([127, 0, 9, 1]))];
    let cluster = prop_oneof![Just(""), Just("east"), Just("west")];
    (ip, cluster, any::<bool>()).prop_map(|(ip, cluster, allocated)| {
        let prefix = if ip.is_ipv4() { 32 } else { 128 };
        ServiceAddress { cluster: ClusterId::new(cluster).ok(), ip, prefix, allocated }
    })
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    let label = |key: &str| FailoverLabel { key: key.into(), value: None };
    let failover = |regions: &[(&str, &str)], keys: &[&str]| LocalityBalancing::Failover {
        regions: regions.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect(),
        labels: keys.iter().map(|key| label(key)).collect(),
    };
    let to: Arc<[(Arc<str>, u32)]> = [("eu/*".into(), 60), ("us/2a".into(), 40)].into();
    let locality = prop_oneof![
        Just(None),
        Just(Some(LocalityBalancing::Off)),
        Just(Some(failover(&[], &[]))),
        Just(Some(failover(&[("eu", "us")], &["tier"]))),
        Just(Some(failover(&[], &["tier", labels::REGION]))),
        Just(Some(LocalityBalancing::Distribute([Distribution { from: "eu/*".into(), to }].into()))),
    ];
    (locality, any::<bool>()).prop_map(|(locality, ejects)| TrafficPolicy {
        balancer: Some(Arc::new(LoadBalancer { locality, ..LoadBalancer::default() })),
        outliers: ejects.then(Arc::default),
        ..TrafficPolicy::default()
    })
}

fn endpoint() -> impl Strategy<Value = (AddressRef, Topology, &'static str)> {
    let at = prop_oneof![
        4 => (1..5_u8).prop_map(|n| AddressRef::Ip([10, 0, 0, n].into())),
        1 => Just(AddressRef::Name(0)),
        1 => Just(AddressRef::Unix(1)),
    ];
    let network = prop_oneof![Just(""), Just("net1"), Just("net2")];
    let cluster = prop_oneof![Just(""), Just("east"), Just("west")];
    let locality = prop_oneof![Just(""), Just("eu/1b"), Just("us/2a")];
    let node = prop_oneof![Just(""), Just("n1"), Just("n2")];
    let tier = prop_oneof![Just(""), Just("a"), Just("b")];
    (at, network, cluster, locality, node, tier).prop_map(|(at, network, cluster, locality, node, tier)| {
        let place = Topology {
            cluster: ClusterId::new(cluster).ok(),
            network: NetworkId::new(network).ok(),
            locality: Locality::parse(locality),
            node: NodeName::new(node).ok(),
        };
        (at, place, tier)
    })
}

fn generated() -> impl Strategy<Value = Generated> {
    let protocol = prop_oneof![Just(Protocol::Http), Just(Protocol::Tcp), Just(Protocol::Tls)];
    let addresses = prop::collection::vec(virtual_address(), 0..3);
    let endpoints = prop::collection::vec(endpoint(), 0..5);
    (any::<[bool; 5]>(), traffic(), resolution(), protocol, export(), addresses, endpoints).prop_map(
        |(flags, traffic, resolution, protocol, export, addresses, endpoints)| Generated {
            flags,
            traffic,
            resolution,
            protocol,
            export,
            addresses,
            endpoints,
        },
    )
}

/// Returns up to two declarations of one service, whether `net2` has a gateway, and rules for the service.
pub(crate) fn any_facts() -> impl Strategy<Value = (Vec<Generated>, bool, Vec<GeneratedRule>)> {
    let rule = (prop_oneof![Just("shop"), Just("web")], policy(), policy());
    (prop::collection::vec(generated(), 1..3), any::<bool>(), prop::collection::vec(rule, 0..3))
}

/// Returns the catalog that the core publishes for these facts.
pub(crate) fn publish(
    (all, gated, rules): (Vec<Generated>, bool, Vec<GeneratedRule>),
) -> Result<Arc<Catalog>> {
    let mut core = Core::new(CoreConfig::default());
    let name = RegistryName::new("memory")?;
    let cluster = ClusterId::new("east")?;
    let id = RegistryId { name: name.clone(), provider: ProviderId::MEMORY, cluster: cluster.clone() };
    let spec = RegistrySpec::new(Arc::new(id), 0);
    core.add_registry(&spec)?;
    core.serve(Mono(0), &RunOrder::first(spec))?;
    let mut facts: Vec<Fact> = Vec::new();
    for (at, generated) in all.into_iter().enumerate() {
        facts.extend(facts_of(at, generated)?);
    }
    if gated {
        facts.push(gateway(cluster)?);
    }
    facts.push(Fact::Settings(Arc::new(Settings { auto_mtls: Some(true), ..Settings::default() })));
    for (at, rule) in rules.into_iter().enumerate() {
        facts.push(rule_of(at, rule)?);
    }
    let scope = Scope::new("all")?;
    let put = |fact| RegistryUpdate::Put(scope.clone(), fact, Basis::Authoritative);
    let stamp = |value| Stamped { registry: name.clone(), generation: Generation(1), at: Mono(1), value };
    core.apply(Mono(1), facts.into_iter().map(put).map(stamp).collect());
    Ok(core.publish())
}

fn rule_of(at: usize, (namespace, whole, subset): GeneratedRule) -> Result<Fact> {
    let policies = |all| PortPolicies { all, ..PortPolicies::default() };
    let name = Subset::new("v1").into_iter();
    let subsets = name.map(|name| SubsetRule {
        name,
        labels: [("tier", "a")].into_iter().collect(),
        policies: policies(subset.clone()),
    });
    let rule = DestinationRule {
        host: Hostname::new("pay.shop")?.into(),
        export: ExportTo::Default,
        selector: Labels::default(),
        policies: policies(whole),
        subsets: subsets.collect(),
        ignored: Arc::from([]),
    };
    let name = format!("r{at}");
    let declared = DeclaredPolicy {
        source: Source::new(ObjectId::new("DestinationRule", namespace, &*name)),
        created: None,
        policy: Policy::DestinationRule(rule),
    };
    let namespace = Namespace::new(namespace)?;
    let key = PolicyKey { kind: PolicyKind::DestinationRule, namespace, name: name.into() };
    Ok(Fact::Policy(key, Arc::new(declared)))
}

fn gateway(cluster: ClusterId) -> Result<Fact> {
    let object = ObjectId::new("Gateway", "istio-system", "east-west");
    let key = GatewayKey { network: NetworkId::new("net2")?, cluster, object: object.clone(), index: 0 };
    let address = Some(GatewayAddress::Ip([192, 0, 2, 1].into()));
    let mtls_port = Some(PortNumber::new(15443)?);
    let gateway = Gateway { source: Source::new(object), address, mtls_port, hbone_port: None };
    Ok(Fact::Gateway(key, Arc::new(gateway)))
}

fn facts_of(at: usize, generated: Generated) -> Result<[Fact; 2]> {
    let object = ObjectId::new("Service", "shop", format!("s{at}"));
    let service = ServiceKey { host: Hostname::new("pay.shop")?, namespace: Namespace::new("shop")? };
    let [node_local, cluster_local, own_cluster_only, persistent_sessions, headless] = generated.flags;
    let attributes = Attributes {
        node_local,
        cluster_local,
        own_cluster_only,
        persistent_sessions,
        headless,
        traffic: generated.traffic,
        ..Attributes::default()
    };
    let port = PortNumber::new(80)?;
    let port_name = PortName::new("main")?;
    let mut addresses = generated.addresses;
    addresses.sort();
    addresses.dedup();
    let declaration = Declaration {
        source: Source::new(object.clone()),
        created: None,
        ports: [ServicePort {
            number: port,
            name: port_name.clone(),
            protocol: generated.protocol,
            target: Target::Same,
        }]
        .into(),
        addresses: addresses.into(),
        resolution: generated.resolution,
        selector: None,
        export: ExportTo::Set(generated.export),
        attributes,
        merge_name: None,
    };
    let set: PortSet = [GroupPort { name: port_name, number: Some(port) }].into();
    let names = vec!["db.example.com".into(), "/run/pay.sock".into()];
    let listed = generated.endpoints.into_iter().map(|(at, place, tier)| {
        let labels = [("tier", tier)].into_iter().filter(|(_, tier)| !tier.is_empty()).collect();
        Address { labels, mtls: true, ..Address::new(at, Arc::new(place)) }
    });
    let group = EndpointGroup::new(Source::new(object.clone()), vec![set], names, listed.collect());
    let decl = DeclKey { service: service.clone(), object: object.clone() };
    let key = EndpointGroupKey { service, declaration: object.clone(), object, bucket: 0 };
    Ok([Fact::Service(decl, Arc::new(declaration)), Fact::Group(key, Arc::new(group))])
}
