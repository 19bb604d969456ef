//! Multi-cluster services (`registries.md` 3.8): what this cluster offers, and what it imports.
//!
//! A host of `clusterset.local` is declared in two parts: every cluster that exports the Service offers its
//! ports and endpoints, every cluster that imports it with addresses says by which clients reach it there. The
//! core serves it while there are both.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Attributes, DeclKey, Declaration, DeclarationRole, EndpointGroup, EndpointGroupKey, ExportTo, Fact,
    Hostname, PortName, Protocol, Resolution, ServiceAddress, ServiceKey, ServicePort, Target,
};

use super::Derived;
use crate::input::{Kind, Name};
use crate::interner::Interner;
use crate::objects::ClusterObjects;
use crate::project::mcs::Import;

/// The domain of services of the set of clusters.
const DOMAIN: &str = "clusterset.local";

/// Whether a Service's own host is found in its own cluster only.
#[must_use]
pub fn own_cluster_only(inputs: &ClusterObjects, service: &Name) -> bool {
    inputs.options.mcs.cluster_local || lacks_export(inputs, service)
}

/// Whether a Service is found in its own cluster only because it has no export.
#[must_use]
pub fn lacks_export(inputs: &ClusterObjects, service: &Name) -> bool {
    inputs.options.mcs.discovery && !inputs.exports.contains_key(service)
}

/// Whether this cluster offers a Service to the set. Where discovery does not ask for exports, all are offered.
fn offers(inputs: &ClusterObjects, service: &Name) -> bool {
    let mcs = &inputs.options.mcs;
    mcs.host && (!mcs.discovery || inputs.exports.contains_key(service))
}

fn key(shared: &mut Interner, name: &Name) -> Option<ServiceKey> {
    let host = Hostname::new(format!("{}.{}.svc.{DOMAIN}", name.name, name.namespace)).ok()?;
    Some(ServiceKey { host, namespace: shared.namespace(&name.namespace)? })
}

/// What a Service offers to the set: the same ports, found by every client, and no address of its own.
#[must_use]
pub fn offer(inputs: &ClusterObjects, shared: &mut Interner, name: &Name, own: &Declaration) -> Option<Fact> {
    if !offers(inputs, name) || matches!(own.resolution, Resolution::Alias(_)) {
        return None;
    }
    let attributes = Attributes {
        own_cluster_only: false,
        part: DeclarationRole::Offer,
        labels: own.attributes.labels.clone(),
        ..own.attributes.clone()
    };
    let declaration = Declaration { addresses: Arc::from([]), attributes, ..own.clone() };
    let key = DeclKey { service: key(shared, name)?, object: name.object(Kind::Service) };
    Some(Fact::Service(key, Arc::new(declaration)))
}

/// The endpoints that a slice gives the host of the set: those that it gives its Service.
#[must_use]
pub fn offered(
    inputs: &ClusterObjects,
    shared: &mut Interner,
    service: &Name,
    own: &EndpointGroupKey,
    group: &Arc<EndpointGroup>,
) -> Option<Fact> {
    if !offers(inputs, service) {
        return None;
    }
    let key = EndpointGroupKey { service: key(shared, service)?, ..own.clone() };
    Some(Fact::Group(key, Arc::clone(group)))
}

/// What an import says: by which addresses clients of this cluster reach the host.
#[must_use]
pub fn import(inputs: &ClusterObjects, shared: &mut Interner, name: &Name) -> Derived {
    let import = inputs.imports.get(name);
    let wanted = |import: &&Arc<Import>| {
        inputs.options.mcs.host && inputs.selected(&name.namespace) && !import.ips.is_empty()
    };
    let Some(import) = import.filter(wanted) else { return Derived::default() };
    let Some(service) = key(shared, name) else { return Derived::default() };
    let object = name.object(Kind::Import);
    let declaration = Declaration {
        source: import.meta.source(Kind::Import),
        created: import.meta.created,
        ports: import.ports.iter().filter_map(|number| port(*number)).collect(),
        addresses: import.ips.iter().map(|ip| address(inputs, *ip)).collect(),
        resolution: Resolution::ClientSide,
        selector: None,
        export: ExportTo::Default,
        attributes: Attributes { part: DeclarationRole::Import, ..Attributes::default() },
    };
    Derived::one(Fact::Service(DeclKey { service, object }, Arc::new(declaration)))
}

/// Only its number is compared with what is offered.
fn port(number: tributary_model::PortNumber) -> Option<ServicePort> {
    let name = PortName::new("").ok()?;
    Some(ServicePort { number, name, protocol: Protocol::Tcp, target: Target::Same })
}

fn address(inputs: &ClusterObjects, ip: IpAddr) -> ServiceAddress {
    let prefix = if ip.is_ipv4() { 32 } else { 128 };
    ServiceAddress { cluster: Some(inputs.options.cluster.clone()), ip, prefix, allocated: false }
}

#[cfg(test)]
mod tests;
