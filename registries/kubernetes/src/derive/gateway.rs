//! Gateways into networks: from Services, from Gateways of gateway-api, from mesh networks (docs/reference/kubernetes.md).
//!
//! Everything is derived from the current objects, node addresses included; no result is kept beside its object. So no
//! gateway remains when a node loses an address, an object loses its label, or the networks are read again.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Fact, Gateway, GatewayAddress, GatewayKey, Labels, NetworkId, PortNumber, Source};

use super::derived::Derived;
use crate::kind::{Kind, Name};
use crate::mesh::{GatewayTarget, address_of};
use crate::network;
use crate::project::Service;
use crate::state::ClusterObjects;

/// Label that sets the port of a gateway.
const PORT_LABEL: &str = "networking.istio.io/gatewayPort";
const PORT: u32 = 15443;
const HBONE_PORT: u32 = 15008;
/// Class of a Gateway that represents a gateway of another cluster.
const REMOTE_CLASS: &str = "istio-remote";
/// Largest number of gateways of one object.
const MOST: usize = 4096;

/// Ports of a gateway at one address: mTLS and HBONE.
type Ports = (Option<PortNumber>, Option<PortNumber>);

/// Derives the gateways of a Service: into the network that its label names, and into every network of this registry
/// that names the Service.
#[must_use]
pub fn of_service(objects: &ClusterObjects, name: &Name) -> Derived {
    let Some(service) = objects.services.get(name).filter(|_| objects.selected(&name.namespace)) else {
        return Derived::default();
    };
    let mut out = Gateways::new(objects, service.meta.source(Kind::Service));
    let labels = &service.meta.labels;
    if let Some(network) = network::label(labels) {
        let hbone = PortNumber::new(HBONE_PORT).ok();
        add_service(&mut out, service, &network, (passing_port(labels), hbone));
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

/// Adds the addresses of a Service with the ports that it exposes; without any port it is not a gateway.
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
    for address in addresses {
        out.add(network, address, ports);
    }
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
/// does not apply to it, as in Istio; a listener without TLS cannot route by SNI.
#[must_use]
pub fn of_gateway(objects: &ClusterObjects, name: &Name) -> Derived {
    let Some(gateway) = objects.gateways.get(name) else { return Derived::default() };
    let Some(network) = network::label(&gateway.meta.labels) else { return Derived::default() };
    let elsewhere = &*gateway.class == REMOTE_CLASS && !objects.options.is_config;
    if gateway.is_waypoint() || elsewhere {
        return Derived::default();
    }
    let usual = passing_port(&gateway.meta.labels);
    let ports = |is: &dyn Fn(&crate::project::gateway::Listener) -> bool| {
        gateway.listeners.iter().filter(|l| is(l)).map(|l| l.port).collect::<BTreeSet<_>>().into_iter()
    };
    let mut passing = ports(&|l| !l.hbone && l.tls && (l.passes || Some(l.port) == usual));
    let mut hbone = ports(&|l| l.hbone);
    let mut out = Gateways::new(objects, gateway.meta.source(Kind::Gateway));
    loop {
        let pair = (passing.next(), hbone.next());
        if pair == (None, None) {
            return out.finish();
        }
        for address in &gateway.addresses {
            out.add(&network, address.clone(), pair);
        }
    }
}

/// Derives the gateways that mesh networks name by address. They belong to no cluster; their facts carry the cluster that
/// names them.
#[must_use]
pub fn of_mesh(objects: &ClusterObjects) -> Derived {
    let Some(config) = objects.mesh_config().filter(|_| objects.options.is_config) else {
        return Derived::default();
    };
    let mut out = Gateways::new(objects, config.meta.source(Kind::MeshConfig));
    for network in config.mesh.networks.iter() {
        for gateway in network.gateways.iter() {
            if let GatewayTarget::Address(address) = &gateway.at {
                out.add(&network.id, address.clone(), (Some(gateway.port), None));
            }
        }
    }
    out.finish()
}

/// Gateways of one object, sorted, so that equal inputs produce equal indexes.
struct Gateways<'a> {
    objects: &'a ClusterObjects,
    source: Source,
    all: BTreeSet<(NetworkId, GatewayAddress, Ports)>,
}

impl<'a> Gateways<'a> {
    const fn new(objects: &'a ClusterObjects, source: Source) -> Self {
        Self { objects, source, all: BTreeSet::new() }
    }
    fn add(&mut self, network: &NetworkId, address: GatewayAddress, ports: Ports) {
        if ports != (None, None) && self.all.len() < MOST {
            self.all.insert((network.clone(), address, ports));
        }
    }
    fn finish(self) -> Derived {
        let Self { objects, source, all } = self;
        let fact = |(index, (network, address, (mtls_port, hbone_port)))| {
            let key = GatewayKey {
                network,
                cluster: objects.options.cluster.clone(),
                object: source.object.clone(),
                index,
            };
            Fact::Gateway(key, Arc::new(Gateway { source: source.clone(), address, mtls_port, hbone_port }))
        };
        Derived { facts: (0..).zip(all).map(fact).collect(), ..Derived::default() }
    }
}

#[cfg(test)]
mod tests;
