//! Gateways into networks: from Services, from Gateways of gateway-api, from mesh networks (docs/reference/kubernetes.md).
//!
//! Everything is derived from the current objects, node addresses included; no result is kept beside its object. So no
//! gateway remains when a node loses an address, an object loses its label, or the networks are read again.
//!
//! A gateway that is declared and cannot be used, such as one whose load balancer has no address, is a gateway without an address: its
//! network stays one that is entered through gateways. Its problem belongs to a part of the object and withholds nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Code, Fact, Gateway, GatewayAddress, GatewayKey, Labels, NetworkId, PortNumber, Problem, Source,
};

use super::derived::Derived;
use crate::kind::{Kind, Name};
use crate::mesh::{GatewayTarget, address_of};
use crate::network;
use crate::project::Service;
use crate::state::ClusterObjects;
use crate::state::objects::within;

/// Label that sets the port of a gateway.
const PORT_LABEL: &str = "networking.istio.io/gatewayPort";
const PORT: u32 = 15443;
const HBONE_PORT: u32 = 15008;
/// Class of a Gateway that represents a gateway of another cluster.
const REMOTE_CLASS: &str = "istio-remote";
/// Largest number of gateways of one object.
const MOST: usize = 4096;
/// Largest number of networks in a problem.
const MOST_NAMED: usize = 8;

/// How to complete a gateway of one kind of object: its address, and its port for mesh TLS.
type Fixes = (&'static str, &'static str);

const SERVICE_PORT: &str = "expose port 15443, or the port that its label networking.istio.io/gatewayPort or the mesh networks name; one of \
                            a node needs a nodePort too";
const OF_SERVICE: Fixes = ("wait for its load balancer, or set spec.externalIPs", SERVICE_PORT);
const OF_NODES: Fixes = (
    "correct its annotation traffic.istio.io/nodeSelector, or give a selected node an ExternalIP",
    SERVICE_PORT,
);
const OF_GATEWAY: Fixes = (
    "add an IP address to spec.addresses",
    "add a listener with option gateway.istio.io/listener-protocol: auto-passthrough",
);
const OF_MESH: Fixes = ("name an IP address", "name a port");

/// Ports of a gateway at one address: mTLS and HBONE.
type Ports = (Option<PortNumber>, Option<PortNumber>);

/// Derives the gateways of a Service: into the network that its label names, and into every network of this registry
/// that names the Service.
#[must_use]
pub fn of_service(objects: &ClusterObjects, name: &Name) -> Derived {
    let Some(service) = objects.services.get(name).filter(|_| objects.selected(&name.namespace)) else {
        return Derived::default();
    };
    let fixes = if service.node_selector.is_some() { OF_NODES } else { OF_SERVICE };
    let mut out = Gateways::new(objects, service.meta.source(Kind::Service), fixes);
    let labels = &service.meta.labels;
    let labelled = (passing_port(labels), PortNumber::new(HBONE_PORT).ok());
    let is_exposed = |port: Option<PortNumber>| port.is_some_and(|port| exposed(service, port).is_some());
    if let Some(network) = network::label(labels).filter(|_| is_exposed(labelled.0) || is_exposed(labelled.1))
    {
        add_service(&mut out, service, &network, labelled);
    }
    for (network, port) in named(objects, name) {
        add_service(&mut out, service, &network, (Some(port), None));
    }
    out.finish()
}

/// Returns the networks that name this Service as their gateway, with the port.
fn named(objects: &ClusterObjects, name: &Name) -> Vec<(NetworkId, PortNumber)> {
    let networks = objects.mesh().networks.iter().filter(|n| n.claims(objects.options.cluster.as_str()));
    let mut gateways = networks.flat_map(|n| n.gateways.iter().map(move |gateway| (n, gateway))).peekable();
    if gateways.peek().is_none() {
        return Vec::new();
    }
    let Ok(host) = objects.host(name) else { return Vec::new() };
    let ours = gateways
        .filter(|(_, gateway)| matches!(&gateway.at, GatewayTarget::Service(named) if *named == host));
    ours.map(|(network, gateway)| (network.id.clone(), gateway.port)).collect()
}

/// Adds the addresses of a Service with the ports that it exposes.
fn add_service(out: &mut Gateways<'_>, service: &Service, network: &NetworkId, (passing, hbone): Ports) {
    let (addresses, ports) = match &service.node_selector {
        Some(selector) => {
            let on_nodes = |port: Option<PortNumber>| port.and_then(|port| exposed(service, port)?.node);
            (node_addresses(out.objects, selector), (on_nodes(passing), on_nodes(hbone)))
        }
        None => {
            let own = |port: Option<PortNumber>| port.filter(|port| exposed(service, *port).is_some());
            let addresses = service.external.iter().filter_map(|text| address_of(text).ok());
            (addresses.collect(), (own(passing), own(hbone)))
        }
    };
    out.add(network, addresses, ports);
}

fn exposed(service: &Service, port: PortNumber) -> Option<&crate::project::service::Port> {
    service.ports.iter().find(|exposed| exposed.service.number == port)
}

/// Returns the labelled port; the default for an invalid value.
fn passing_port(labels: &Labels) -> Option<PortNumber> {
    let labelled = labels.get(PORT_LABEL).and_then(|text| text.parse().ok());
    labelled.and_then(|number| PortNumber::new(number).ok()).or_else(|| PortNumber::new(PORT).ok())
}

/// Returns the current external addresses of the nodes with these labels.
fn node_addresses(objects: &ClusterObjects, selector: &Labels) -> BTreeSet<GatewayAddress> {
    let nodes = objects.nodes.values().filter(|node| selector.is_subset_of(&node.meta.labels));
    nodes.flat_map(|node| node.external.iter().copied().map(GatewayAddress::Ip)).take(MOST).collect()
}

/// Derives the gateways of a Gateway object: each of its addresses with each of its listeners. Namespace selection
/// does not apply to it, as in Istio; a listener without TLS cannot route by SNI. One without addresses that a Service of the same
/// network implements is that Service.
#[must_use]
pub fn of_gateway(objects: &ClusterObjects, name: &Name) -> Derived {
    let Some(gateway) = objects.gateways.get(name) else { return Derived::default() };
    let Some(network) = network::label(&gateway.meta.labels) else { return Derived::default() };
    let elsewhere = &*gateway.class == REMOTE_CLASS && !objects.options.is_config;
    let is_service = || gateway.addresses.is_empty() && is_implemented(objects, name, &network);
    if gateway.is_waypoint() || elsewhere || is_service() {
        return Derived::default();
    }
    let usual = passing_port(&gateway.meta.labels);
    let ports = |is: &dyn Fn(&crate::project::gateway::Listener) -> bool| {
        gateway.listeners.iter().filter(|l| is(l)).map(|l| l.port).collect::<BTreeSet<_>>().into_iter()
    };
    let mut passing = ports(&|l| !l.hbone && l.tls && (l.passes || Some(l.port) == usual));
    let mut hbone = ports(&|l| l.hbone);
    let mut out = Gateways::new(objects, gateway.meta.source(Kind::Gateway), OF_GATEWAY);
    loop {
        let pair = (passing.next(), hbone.next());
        if pair == (None, None) {
            return out.finish();
        }
        out.add(&network, gateway.addresses.iter().cloned(), pair);
    }
}

/// Whether a Service implements a Gateway and leads into the same network.
fn is_implemented(objects: &ClusterObjects, gateway: &Name, network: &NetworkId) -> bool {
    let mut services = within(&objects.services, &gateway.namespace);
    objects.selected(&gateway.namespace)
        && services.any(|(_, service)| {
            service.gateway().as_ref() == Some(gateway)
                && network::label(&service.meta.labels).as_ref() == Some(network)
        })
}

/// Derives the gateways that mesh networks name. They belong to no cluster; their facts carry the cluster that names them. One that
/// is a Service has its addresses from there, and separates its network also without the Service.
#[must_use]
pub fn of_mesh(objects: &ClusterObjects) -> Derived {
    let Some(config) = objects.mesh_config().filter(|_| objects.options.is_config) else {
        return Derived::default();
    };
    let mut out = Gateways::new(objects, config.meta.source(Kind::MeshConfig), OF_MESH);
    for network in config.mesh.networks.iter() {
        for gateway in network.gateways.iter() {
            let address = match &gateway.at {
                GatewayTarget::Address(address) => Some(address.clone()),
                GatewayTarget::Service(_) => None,
            };
            out.add(&network.id, address, (Some(gateway.port), None));
        }
    }
    out.finish()
}

/// Gateways of one object, sorted, so that equal inputs produce equal indexes.
struct Gateways<'a> {
    objects: &'a ClusterObjects,
    source: Source,
    fixes: Fixes,
    all: BTreeSet<(NetworkId, Option<GatewayAddress>, Ports)>,
}

impl<'a> Gateways<'a> {
    const fn new(objects: &'a ClusterObjects, source: Source, fixes: Fixes) -> Self {
        Self { objects, source, fixes, all: BTreeSet::new() }
    }
    /// Adds a declared gateway: at each of its addresses, or without one.
    fn add(
        &mut self,
        network: &NetworkId,
        addresses: impl IntoIterator<Item = GatewayAddress>,
        ports: Ports,
    ) {
        let mut addresses = addresses.into_iter().map(Some).peekable();
        let none = addresses.peek().is_none().then_some(None);
        for address in addresses.chain(none) {
            if self.all.len() < MOST {
                self.all.insert((network.clone(), address, ports));
            }
        }
    }
    fn finish(self) -> Derived {
        let Self { objects, source, fixes, all } = self;
        let gateways: Vec<(NetworkId, Gateway)> = all
            .into_iter()
            .map(|(network, address, (mtls_port, hbone_port))| {
                (network, Gateway { source: source.clone(), address, mtls_port, hbone_port })
            })
            .collect();
        let problem = problem(&gateways, fixes);
        let fact = |(index, (network, gateway))| {
            let (cluster, object) = (objects.options.cluster.clone(), source.object.clone());
            Fact::Gateway(GatewayKey { network, cluster, object, index }, Arc::new(gateway))
        };
        Derived { facts: (0..).zip(gateways).map(fact).collect(), problem, ..Derived::default() }
    }
}

/// Returns the problem of networks into which no gateway of the object leads. Gateways that mesh networks name by Service are problems of
/// the Service.
fn problem(gateways: &[(NetworkId, Gateway)], fixes: Fixes) -> Option<Problem> {
    let judged = gateways.iter().filter(|(_, gateway)| fixes != OF_MESH || gateway.address.is_some());
    let mut lacks: BTreeMap<&NetworkId, Option<String>> = BTreeMap::new();
    for (network, gateway) in judged {
        let lack = gateway.lack().map(|lack| format!("{lack}: {}", fix(gateway, fixes)));
        let known = lacks.entry(network).or_insert_with(|| lack.clone());
        *known = known.take().and(lack);
    }
    let lines = lacks.into_iter().filter_map(|(network, lack)| {
        Some(format!("clients of other networks do not use it to enter network {network}: {}", lack?))
    });
    let lines: Vec<String> = lines.take(MOST_NAMED).collect();
    (!lines.is_empty()).then(|| Problem { code: Code::GATEWAY_UNUSABLE, message: lines.join("; ").into() })
}

/// Returns how to complete a gateway.
fn fix(gateway: &Gateway, (address, port): Fixes) -> &'static str {
    match gateway.address {
        None => address,
        Some(_) => port,
    }
}

#[cfg(test)]
mod tests;
