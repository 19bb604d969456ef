//! Pod to workload: what ServiceEntries select, and what a connected proxy is matched with.

use std::sync::Arc;

use tributary_model::{
    Fact, Health, Namespace, ServiceKey, Workload, WorkloadAddress, WorkloadKey, WorkloadKind, WorkloadName,
};

use super::derived::Derived;
use super::{service, workload_attributes};
use crate::interner::Interner;
use crate::kind::{Kind, Name};
use crate::options::Options;
use crate::project::Pod;
use crate::project::pod::Phase;
use crate::state::ClusterObjects;

/// Derives the workload of a pod. A pod that is not ready, or is terminating, is a workload too: its proxy requests its
/// own record before it is ready, and its health keeps clients away.
#[must_use]
pub fn derive(objects: &ClusterObjects, shared: &mut Interner, name: &Name) -> Derived {
    let Some(pod) = objects.pods.get(name).filter(|pod| pod.is_alive() && objects.selected(&name.namespace))
    else {
        return Derived::default();
    };
    let Some(namespace) = shared.namespace(&name.namespace) else { return Derived::default() };
    let attributes = workload_attributes::make(objects, shared, pod);
    let workload = Workload {
        source: pod.meta.source(Kind::Pod),
        addresses: pod.ips.iter().copied().map(WorkloadAddress::Ip).collect(),
        ports: pod.ports.clone(),
        labels: pod.meta.labels.clone(),
        augmented: attributes.augmented,
        topology: attributes.topology,
        identity: attributes.identity,
        account: pod.account.clone(),
        health: health(pod.phase),
        mtls: attributes.mtls,
        weight: 1,
        name: pod.workload.clone(),
        listed: listed(objects, shared, pod),
    };
    Derived::one(Fact::Workload(keyed(&objects.options, namespace, name), Arc::new(workload)))
}

/// Returns the key of a pod's workload; `None` if its namespace is invalid.
#[must_use]
pub fn key(options: &Options, name: &Name) -> Option<WorkloadKey> {
    Some(keyed(options, Namespace::new(&name.namespace).ok()?, name))
}

fn keyed(options: &Options, namespace: Namespace, name: &Name) -> WorkloadKey {
    let cluster = options.cluster.clone();
    WorkloadKey::from(WorkloadName { namespace, kind: WorkloadKind::Pod, name: name.name.clone(), cluster })
}

/// Returns the services whose slices list the pod; its proxy serves them.
fn listed(objects: &ClusterObjects, shared: &mut Interner, pod: &Pod) -> Arc<[ServiceKey]> {
    let listing = objects.listing(pod);
    let keys = listing.iter().filter_map(|name| service::key(objects, shared, name).ok());
    let mut keys: Vec<ServiceKey> = keys.collect();
    keys.sort();
    shared.services(keys.into())
}

const fn health(phase: Phase) -> Health {
    match phase {
        Phase::Ready => Health::Healthy,
        Phase::NotReady => Health::Unhealthy,
        Phase::Leaving | Phase::Ended => Health::Terminating,
    }
}

#[cfg(test)]
mod tests;
