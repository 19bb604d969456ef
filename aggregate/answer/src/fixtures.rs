//! Builders for the tests of this crate. Unspecified fields have the simplest valid value.

use std::sync::Arc;
use std::time::Duration;

use imbl::OrdSet;
pub(crate) use tributary_fixtures::{
    mk_egress, mk_host, mk_key, mk_ns, mk_policy, mk_port, mk_rule, mk_shard, mk_sidecar, mk_token_rule,
    mk_topology,
};
use tributary_model::*;

pub(crate) fn mk_declaration(name: &str) -> Declaration {
    Declaration::new(Source::new(ObjectId::new("ServiceEntry", "shop", name)))
}

pub(crate) fn mk_address(ip: &str) -> Address {
    Address::new(AddressRef::Ip(ip.parse().unwrap()), Arc::default())
}
pub(crate) fn mk_address_at(ip: &str, topology: Arc<Topology>) -> Address {
    Address::new(AddressRef::Ip(ip.parse().unwrap()), topology)
}

/// A group with this name table whose addresses all have port 8080.
pub(crate) fn mk_group(name: &str, names: &[&str], addresses: Vec<Address>) -> Arc<EndpointGroup> {
    let port = GroupPort { name: PortName::new("http").unwrap(), number: Some(mk_port(8080)) };
    let names = names.iter().map(|n| Arc::from(*n)).collect();
    let source = Source::new(ObjectId::new("Slice", "shop", name));
    Arc::new(EndpointGroup::new(source, vec![Arc::from([port])], names, addresses))
}
/// A group with one address of `net` per weight.
pub(crate) fn mk_weighted(net: &str, weights: &[u32], unit: u32) -> Arc<EndpointGroup> {
    let address =
        |(at, weight): (usize, &u32)| Address { weight: *weight, ..mk_address(&format!("{net}{at}")) };
    let group = mk_group("weighted", &[], (1..).zip(weights).map(address).collect());
    Arc::new(EndpointGroup::clone(&group).in_unit(WeightUnit::new(unit)))
}
pub(crate) fn mk_source(registry: &str, group: Arc<EndpointGroup>) -> EndpointSource {
    EndpointSource {
        shard: mk_shard(registry),
        priority: ShardPriority::Normal,
        declaration: Arc::new(mk_declaration("pay")),
        visibility: Visibility::Public,
        group,
        ports: Arc::from([Some(0)]),
        held: Arc::from([]),
        plain: Arc::from([]),
        federation: None,
    }
}
pub(crate) fn mk_facts(sources: Vec<EndpointSource>) -> EndpointInputs {
    EndpointInputs {
        service: mk_key("pay.shop", "shop"),
        port: mk_port(80),
        resolution: Resolution::ClientSide,
        traffic: TrafficDistribution::Any,
        sources: sources.into(),
        gated: Arc::from([]),
        automatic_tls: false,
        locality: None,
        policy: None,
    }
}
/// Returns networks with gateways: name, then cluster and address of each gateway; of no cluster with an empty name. All have port 15443.
pub(crate) fn mk_gated(all: &[(&str, &[(&str, &str)])]) -> Arc<[Arc<GatedNetwork>]> {
    let socket = |(cluster, address): &(&str, &str)| GatewaySocket {
        cluster: ClusterId::new(cluster).ok(),
        address: address.parse().unwrap(),
        port: mk_port(15443),
        name: None,
    };
    let network = |(id, gateways): &(&str, &[(&str, &str)])| {
        let gateways = gateways.iter().map(socket).collect();
        Arc::new(GatedNetwork { id: NetworkId::new(id).unwrap(), gateways })
    };
    all.iter().map(network).collect()
}
pub(crate) fn mk_one(addresses: Vec<Address>) -> EndpointInputs {
    mk_facts(vec![mk_source("east", mk_group("a", &[], addresses))])
}
pub(crate) fn mk_cluster(resolution: Resolution, inline: Option<EndpointInputs>) -> ClusterInputs {
    ClusterInputs {
        service: mk_key("pay.shop", "shop"),
        port: mk_port(80),
        protocol: Protocol::Http,
        resolution,
        target: None,
        attributes: Arc::default(),
        identities: Arc::default(),
        automatic_tls: false,
        all_meshed: false,
        connect_timeout: Duration::from_secs(10),
        locality: None,
        inline: inline.map(|facts| Shared::new(ResourceInputs::new(facts, ClientDimensions::NONE))),
        policy: None,
    }
}

/// Returns a service of one port, whose clients have the rule with this key.
pub(crate) fn mk_ruled_view(host: &str, rule: PolicyKey, protocol: Protocol) -> Arc<ServiceView> {
    let policy = ClusterPolicy { from: [rule].into(), ..ClusterPolicy::default() };
    let port = mk_port_view(mk_one(vec![mk_address("10.0.0.1")]));
    let cluster = ClusterInputs {
        policy: Some(Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))),
        ..port.cluster.inputs.clone()
    };
    let cluster = Shared::new(ResourceInputs::new(cluster, ClientDimensions::NONE));
    let view = ServiceView::clone(&mk_view(host, "shop", &[Visibility::Public]));
    Arc::new(ServiceView { ports: [PortView { protocol, cluster, ..port }].into(), ..view })
}

/// A service of port 443, to which a DestinationRule sets this TLS.
pub(crate) fn mk_key_server(
    host: &str,
    visibility: Visibility,
    resolution: Resolution,
    tls: Option<ClientTls>,
) -> Arc<ServiceView> {
    let inputs = EndpointInputs {
        service: mk_key(host, "shop"),
        port: mk_port(443),
        resolution,
        ..mk_one(vec![mk_address("10.0.0.1")])
    };
    let port = mk_port_view(inputs);
    let whole = TrafficPolicy { tls: tls.map(Arc::new), ..TrafficPolicy::default() };
    let policy = Some(Arc::new(ClusterPolicy { whole, ..ClusterPolicy::default() }));
    let policy = Some(Arc::new(ByNamespace::new(policy, [])));
    let cluster = ClusterInputs { policy, ..port.cluster.inputs.clone() };
    let cluster = Shared::new(ResourceInputs::new(cluster, ClientDimensions::NONE));
    let view = ServiceView::clone(&mk_view(host, "shop", &[visibility]));
    Arc::new(ServiceView { ports: [PortView { cluster, ..port }].into(), ..view })
}

/// A service without ports, declared once per visibility.
pub(crate) fn mk_view(host: &str, namespace: &str, visibilities: &[Visibility]) -> Arc<ServiceView> {
    let declarations = visibilities.iter().enumerate().map(|(i, visibility)| DeclarationView {
        shard: mk_shard("east"),
        declaration: Arc::new(mk_declaration(&format!("d{i}"))),
        precedence: Precedence::default(),
        visibility: visibility.clone(),
        federated: false,
    });
    Arc::new(ServiceView {
        key: mk_key(host, namespace),
        declarations: declarations.collect(),
        ports: Arc::from([]),
        conditions: Arc::from([]),
        aliases: Arc::from([]),
        addresses: 0,
        audiences: Arc::from([]),
    })
}
pub(crate) fn mk_catalog(views: Vec<Arc<ServiceView>>) -> Catalog {
    let mut hosts: std::collections::BTreeMap<Hostname, Vec<Arc<ServiceView>>> = Default::default();
    let mut scoped: std::collections::BTreeMap<Namespace, OrdSet<Hostname>> = Default::default();
    for view in views {
        scoped.entry(view.key.namespace.clone()).or_default().insert(view.key.host.clone());
        hosts.entry(view.key.host.clone()).or_default().push(view);
    }
    let entries = hosts.into_iter().map(|(h, c)| {
        (h, Shared::new(HostEntry { claimants: c.into(), led_by: Arc::default(), routes: None }))
    });
    let scoped = scoped.into_iter().map(|(namespace, hosts)| (namespace, Shared::new(hosts)));
    Catalog { hosts: entries.collect(), scoped: scoped.collect(), ..Catalog::default() }
}
pub(crate) fn mk_projection(kind: ClientKind) -> Projection {
    Projection { kind: Some(kind), ..Projection::default() }
}
/// Formats the endpoints of an assignment as `priority destination weight`.
pub(crate) fn shown(assignment: &crate::Assignment<'_>) -> Vec<String> {
    let all = assignment.localities.iter();
    all.flat_map(|l| l.endpoints.iter().map(|e| format!("{} {} {}", l.priority, e.target, e.weight)))
        .collect()
}
/// An alias of `target`.
pub(crate) fn mk_alias(host: &str, target: &str) -> Arc<ServiceView> {
    let resolution = Resolution::Alias(mk_host(target));
    let declaration = Declaration { resolution, ..mk_declaration("alias") };
    let declaration = DeclarationView {
        shard: mk_shard("east"),
        declaration: declaration.into(),
        precedence: Precedence::default(),
        visibility: Visibility::Public,
        federated: false,
    };
    let view = mk_view(host, "shop", &[]);
    let aliases = view.aliases.clone();
    let declarations = Arc::from([declaration]);
    let (ports, conditions) = (view.ports.clone(), view.conditions.clone());
    let audiences = Arc::from([]);
    let key = view.key.clone();
    Arc::new(ServiceView { key, declarations, ports, conditions, aliases, addresses: 0, audiences })
}
/// HTTP port 80 with these endpoints.
pub(crate) fn mk_port_view(facts: EndpointInputs) -> PortView {
    let (service, port) = (facts.service.clone(), facts.port);
    let protocol = Protocol::Http;
    let resolution = facts.resolution.clone();
    let cluster = ClusterInputs { service: service.clone(), ..mk_cluster(resolution.clone(), None) };
    let listener = ListenerInputs {
        service: service.clone(),
        port,
        protocol,
        resolution: resolution.clone(),
        addresses: Arc::from([]),
        endpoints: None,
        policy: None,
        virtual_services: Arc::default(),
        destinations: Arc::default(),
    };
    let route = RouteInputs {
        service,
        port,
        protocol,
        resolution,
        addresses: Arc::from([]),
        headless: false,
        retries: None,
        hash: None,
        virtual_services: Arc::default(),
        destinations: Arc::default(),
        has_service: true,
    };
    PortView {
        number: port,
        name: PortName::new("http").unwrap(),
        protocol,
        cluster: Shared::new(ResourceInputs::new(cluster, ClientDimensions::KIND)),
        endpoints: Shared::new(ResourceInputs::new(
            facts,
            ClientDimensions::KIND | ClientDimensions::NAMESPACE | ClientDimensions::NETWORK,
        )),
        listener: Shared::new(ResourceInputs::new(listener, ClientDimensions::KIND)),
        route: Shared::new(ResourceInputs::new(route, ClientDimensions::KIND)),
    }
}

/// Inputs of port 80 of `shop/pay.shop` with these virtual addresses and lengths of prefixes.
/// Returns a service of one port with this protocol, at virtual addresses or ranges: `10.9.0.1`, `10.9.0.0/16`.
pub(crate) fn mk_addressed(
    host: &str,
    facts: EndpointInputs,
    (protocol, addresses): (Protocol, &[&str]),
) -> Arc<ServiceView> {
    let address = |text: &&str| {
        let (ip, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let (ip, prefix) = (ip.parse().unwrap(), prefix.parse().unwrap());
        ServiceAddress { cluster: None, ip, prefix, allocated: false }
    };
    let addresses: Arc<[ServiceAddress]> = addresses.iter().map(address).collect();
    let port = mk_port_view(EndpointInputs { service: mk_key(host, "shop"), ..facts });
    let listener = ListenerInputs { protocol, addresses: addresses.clone(), ..port.listener.inputs.clone() };
    let route = RouteInputs { protocol, addresses, ..port.route.inputs.clone() };
    let port = PortView {
        protocol,
        listener: Shared::new(ResourceInputs::new(listener, ClientDimensions::KIND)),
        route: Shared::new(ResourceInputs::new(route, ClientDimensions::KIND)),
        ..port
    };
    let view = Arc::into_inner(mk_view(host, "shop", &[Visibility::Public])).unwrap();
    Arc::new(ServiceView { ports: [port].into(), ..view })
}

pub(crate) fn mk_facts_of(protocol: Protocol, addresses: &[(&str, u8)]) -> ListenerInputs {
    let address = |&(ip, prefix): &(&str, u8)| ServiceAddress {
        cluster: None,
        ip: ip.parse().unwrap(),
        prefix,
        allocated: false,
    };
    ListenerInputs {
        service: mk_key("pay.shop", "shop"),
        port: mk_port(80),
        protocol,
        resolution: Resolution::ClientSide,
        addresses: addresses.iter().map(address).collect(),
        endpoints: None,
        policy: None,
        virtual_services: Arc::default(),
        destinations: Arc::default(),
    }
}

/// A VirtualService `shop/v` of the host `pay.shop` with these routes of connections.
pub(crate) fn mk_l4_candidate(routes: L4Routes) -> L4Candidate {
    let key = PolicyKey { kind: PolicyKind::VirtualService, namespace: mk_ns("shop"), name: "v".into() };
    let host = HostPattern::new("pay.shop").unwrap();
    let (visibility, hosts) = (Visibility::Public, [host.clone()].into());
    let of = Arc::new(RouteOwner { key, visibility, hosts, delegates: Arc::default() });
    RouteCandidate { of, host, routes }
}

/// A registry about which nothing is known.
pub(crate) fn mk_registry_view(name: &str) -> RegistryView {
    RegistryView {
        id: mk_shard(name).registry.clone(),
        generation: Generation(1),
        collections: Arc::from([]),
        unread: Arc::from([]),
        priority: ShardPriority::Normal,
        conditions: Arc::from([]),
        excluded: Arc::from([]),
    }
}

/// Adds a registry that could never read a collection of the scope that declares the services.
pub(crate) fn add_unread(catalog: &mut Catalog, kind: CollectionKind) {
    let shard = mk_shard("east");
    let collection = Collection { scope: shard.scope.clone(), kind };
    let registry = RegistryView { unread: [collection].into(), ..mk_registry_view("east") };
    catalog.registries.insert(shard.registry.name.clone(), Shared::new(registry));
}
