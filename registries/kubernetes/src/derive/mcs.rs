//! Multi-cluster services (docs/reference/kubernetes.md): what this cluster offers and what it imports.
//!
//! Two declarations form a host of `clusterset.local`: every cluster that exports the Service offers its ports and
//! endpoints, and every cluster that imports it declares the addresses for its own clients. The core serves the host
//! while both exist.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Attributes, DeclKey, Declaration, DeclarationRole, EndpointGroup, EndpointGroupKey, ExportTo, Fact,
    Hostname, PortName, Protocol, Resolution, ServiceAddress, ServiceKey, ServicePort, Target,
};

use super::derived::Derived;
use crate::interner::Interner;
use crate::kind::{Kind, Name};
use crate::project::mcs::Import;
use crate::state::ClusterObjects;

/// Domain of services of the cluster set.
const DOMAIN: &str = "clusterset.local";

/// Whether a Service's own host is visible in its own cluster only.
#[must_use]
pub fn own_cluster_only(objects: &ClusterObjects, service: &Name) -> bool {
    objects.options.mcs.limits_own_hosts() || lacks_export(objects, service)
}

/// Whether a Service is visible in its own cluster only because it has no export.
#[must_use]
pub fn lacks_export(objects: &ClusterObjects, service: &Name) -> bool {
    objects.options.mcs.discovery && !objects.exports.contains_key(service)
}

/// Whether this cluster offers a Service to the set.
fn offers(objects: &ClusterObjects, service: &Name) -> bool {
    objects.options.mcs.serves_hosts() && objects.exports.contains_key(service)
}

fn key(shared: &mut Interner, name: &Name) -> Option<ServiceKey> {
    let host = Hostname::new(format!("{}.{}.svc.{DOMAIN}", name.name, name.namespace)).ok()?;
    Some(ServiceKey { host, namespace: shared.namespace(&name.namespace)? })
}

/// Returns the offer of a Service: its ports, visible to every client, and no address.
#[must_use]
pub fn offer(
    objects: &ClusterObjects,
    shared: &mut Interner,
    name: &Name,
    own: &Declaration,
) -> Option<Fact> {
    if !offers(objects, name) || matches!(own.resolution, Resolution::Alias(_)) {
        return None;
    }
    let attributes = Attributes {
        own_cluster_only: false,
        role: DeclarationRole::Offer,
        labels: own.attributes.labels.clone(),
        ..own.attributes.clone()
    };
    let declaration = Declaration { addresses: Arc::from([]), attributes, ..own.clone() };
    let key = DeclKey { service: key(shared, name)?, object: name.object(Kind::Service) };
    Some(Fact::Service(key, Arc::new(declaration)))
}

/// Returns the offered group of a slice, with the endpoints of its Service's group.
#[must_use]
pub fn offered(
    objects: &ClusterObjects,
    shared: &mut Interner,
    service: &Name,
    own: &EndpointGroupKey,
    group: &Arc<EndpointGroup>,
) -> Option<Fact> {
    if !offers(objects, service) {
        return None;
    }
    let key = EndpointGroupKey { service: key(shared, service)?, ..own.clone() };
    Some(Fact::Group(key, Arc::clone(group)))
}

/// Derives the declaration of an import: the addresses of the host for clients of this cluster.
#[must_use]
pub fn import(objects: &ClusterObjects, shared: &mut Interner, name: &Name) -> Derived {
    let import = objects.imports.get(name);
    let wanted = |import: &&Arc<Import>| {
        objects.options.mcs.serves_hosts() && objects.selected(&name.namespace) && !import.ips.is_empty()
    };
    let Some(import) = import.filter(wanted) else { return Derived::default() };
    let Some(service) = key(shared, name) else { return Derived::default() };
    let object = name.object(Kind::Import);
    let declaration = Declaration {
        source: import.meta.source(Kind::Import),
        created: import.meta.created,
        ports: import.ports.iter().filter_map(|number| port(*number)).collect(),
        addresses: import.ips.iter().map(|ip| address(objects, *ip)).collect(),
        resolution: Resolution::ClientSide,
        selector: None,
        export: ExportTo::Default,
        attributes: Attributes { role: DeclarationRole::Import, ..Attributes::default() },
        merge_name: None,
    };
    Derived::one(Fact::Service(DeclKey { service, object }, Arc::new(declaration)))
}

/// Returns a port of which only the number is compared with the offer.
fn port(number: tributary_model::PortNumber) -> Option<ServicePort> {
    let name = PortName::new("").ok()?;
    Some(ServicePort { number, name, protocol: Protocol::Tcp, target: Target::Same })
}

fn address(objects: &ClusterObjects, ip: IpAddr) -> ServiceAddress {
    let prefix = if ip.is_ipv4() { 32 } else { 128 };
    ServiceAddress { cluster: Some(objects.options.cluster.clone()), ip, prefix, allocated: false }
}

#[cfg(test)]
mod tests;
