//! Topology and identity of a pod or a bare address: what endpoints and workloads have in common.
//!
//! The attributes of a pod depend on the pod, its node and the networks; a change of one of these marks the pod's workload,
//! which is derived before any group. So the published workload holds the current attributes.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::labels::{LOCALITY, LOCALITY_LEGACY, TLS_MODE};
use tributary_model::{Identity, Labels, Locality, NetworkId, NodeName, Origin, Topology};

use crate::attributes::{EntryTopology, WorkloadAttributes};
use crate::interner::{Interner, PodWorkload};
use crate::kind::{Kind, Name};
use crate::project::Pod;
use crate::state::ClusterObjects;

/// Returns the attributes of a pod from its published workload; derives them for a pod without one.
#[must_use]
pub fn of_pod(objects: &ClusterObjects, shared: &mut Interner, name: &Name) -> Option<WorkloadAttributes> {
    let pod = objects.pods.get(name)?;
    let Some(PodWorkload { workload, origin }) = shared.pod(name) else {
        let origin = Origin { object: name.object(Kind::Pod), workload: pod.workload.clone() };
        return Some(WorkloadAttributes { origin: Some(Arc::new(origin)), ..make(objects, shared, pod) });
    };
    Some(WorkloadAttributes {
        topology: workload.topology.clone(),
        augmented: workload.augmented.clone(),
        identity: workload.identity.clone(),
        mtls: workload.mtls,
        origin: Some(origin.clone()),
    })
}

/// Derives the attributes of a pod, without the origin, from its current object.
#[must_use]
pub fn make(objects: &ClusterObjects, shared: &mut Interner, pod: &Pod) -> WorkloadAttributes {
    let labels = &pod.meta.labels;
    let topology = shared.topology(Topology {
        cluster: Some(objects.options.cluster.clone()),
        network: objects.network(labels, pod.ips.first().copied()),
        locality: locality(objects, pod),
        node: node_name(pod.node.as_deref()),
    });
    WorkloadAttributes {
        augmented: augmented(shared, labels, &topology),
        identity: identity(objects, shared, &pod.meta.name.namespace, &pod.account),
        mtls: labels.get(TLS_MODE) == Some("istio"),
        origin: None,
        topology,
    }
}

/// Returns the identity of a service account.
#[must_use]
pub fn identity(
    objects: &ClusterObjects,
    shared: &mut Interner,
    namespace: &str,
    account: &str,
) -> Option<Identity> {
    if account.is_empty() {
        return None;
    }
    shared.identity(&format!("spiffe://{}/ns/{namespace}/sa/{account}", objects.trust_domain()))
}

/// Returns the locality of the pod's own label, else of its node.
fn locality(objects: &ClusterObjects, pod: &Pod) -> Locality {
    let labels = &pod.meta.labels;
    let label = labels.get(LOCALITY).or_else(|| labels.get(LOCALITY_LEGACY)).filter(|text| !text.is_empty());
    if let Some(label) = label {
        return Locality::parse_label(label);
    }
    let node = pod.node.as_deref().and_then(|node| objects.node(node));
    node.map(|node| node.locality.clone()).unwrap_or_default()
}

fn node_name(name: Option<&str>) -> Option<NodeName> {
    NodeName::new(name?).ok()
}

/// Returns the attributes of an address without a pod, from its slice and the node that the slice names.
#[must_use]
pub fn of_entry_topology(
    objects: &ClusterObjects,
    shared: &mut Interner,
    entry_topology: Option<&Arc<EntryTopology>>,
    ip: IpAddr,
) -> Arc<WorkloadAttributes> {
    let network = objects.network(&Labels::default(), Some(ip));
    let key = (entry_topology.map_or(0, |entry| Arc::as_ptr(entry).addr()), network);
    if let Some((_, known)) = shared.bare.get(&key) {
        return Arc::clone(known);
    }
    let attributes = Arc::new(bare(objects, shared, entry_topology.map(Arc::as_ref), key.1.clone()));
    shared.bare.insert(key, (entry_topology.cloned(), Arc::clone(&attributes)));
    attributes
}

fn bare(
    objects: &ClusterObjects,
    shared: &mut Interner,
    entry_topology: Option<&EntryTopology>,
    network: Option<NetworkId>,
) -> WorkloadAttributes {
    let (node, own_zone) =
        entry_topology.map_or((None, None), |entry| (entry.node.as_deref(), entry.zone.as_deref()));
    let locality = node.and_then(|node| objects.node(node)).map(|node| node.locality.clone());
    let topology = shared.topology(Topology {
        cluster: Some(objects.options.cluster.clone()),
        network,
        locality: locality.filter(|locality| !locality.is_empty()).unwrap_or_else(|| zone(own_zone)),
        node: node_name(node),
    });
    let augmented = augmented(shared, &Labels::default(), &topology);
    WorkloadAttributes { topology, augmented, identity: None, mtls: false, origin: None }
}

/// Returns a locality with only a zone.
#[must_use]
pub fn zone(zone: Option<&str>) -> Locality {
    zone.map(|zone| Locality::new("", zone, "")).unwrap_or_default()
}

/// Adds topology labels (docs/explanation/model.md).
fn augmented(shared: &mut Interner, labels: &Labels, topology: &Topology) -> Labels {
    let layered = shared.labels(&topology.labels(labels)).over(labels);
    shared.labels(&layered)
}
