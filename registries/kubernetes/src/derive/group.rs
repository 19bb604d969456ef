//! EndpointSlice to group: the join of slice, pods, nodes and Service (docs/reference/kubernetes.md).

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, Code, EndpointGroup, EndpointGroupKey, Fact, Health, Locality, Problem, Topology,
    WaitingAddress,
};

use super::derived::Derived;
use super::{mcs, service, workload_attributes};
use crate::attributes::WorkloadAttributes;
use crate::interner::Interner;
use crate::kind::{Kind, Name};
use crate::project::Slice;
use crate::project::slice::{Entry, State};
use crate::state::ClusterObjects;

/// Derives the group of a slice. It does not wait for the Service: the core keeps groups without a declaration.
#[must_use]
pub fn derive(objects: &ClusterObjects, shared: &mut Interner, name: &Name) -> Derived {
    let Some(slice) = objects.slices.get(name).filter(|_| objects.selected(&name.namespace)) else {
        return Derived::default();
    };
    let Some(owner) = slice.service_name() else { return Derived::default() };
    if slice.names {
        let why = "addressType FQDN: an assignment carries IP addresses only; use an ExternalName Service or a ServiceEntry";
        return Derived::refused(Code::INVALID_ADDRESS, why);
    }
    let key = match service::key(objects, shared, &owner) {
        Ok(key) => key,
        Err(why) => return Derived::refused(Code::INVALID_HOST, why),
    };
    let key = EndpointGroupKey {
        service: key,
        declaration: owner.object(Kind::Service),
        object: name.object(Kind::Slice),
        bucket: 0,
    };
    let (addresses, unseen) = addresses(objects, shared, slice, &owner);
    let group =
        EndpointGroup::new(slice.meta.source(Kind::Slice), vec![slice.ports.clone()], Vec::new(), addresses);
    let group = Arc::new(group);
    let offered = mcs::offered(objects, shared, &owner, &key, &group);
    let waiting = unseen.fact(&key);
    let own = Fact::Group(key, group);
    let lacks = unseen.first.clone().map(|pod| (Kind::Pod, pod));
    let facts = std::iter::once(own).chain(waiting).chain(offered).collect();
    Derived { facts, problem: unseen.problem(), lacks }
}

fn addresses(
    objects: &ClusterObjects,
    shared: &mut Interner,
    slice: &Slice,
    owner: &Name,
) -> (Vec<Address>, Unseen) {
    let sessions = objects.services.get(owner).is_some_and(|service| service.keeps_sessions());
    let mut join = Join { objects, shared, slice, sessions, unseen: Unseen::default() };
    let addresses = slice.entries.iter().filter_map(|entry| join.address(entry)).collect();
    (addresses, join.unseen)
}

/// Entries whose pod is not known. Only ready ones are a problem: a pod exists before it is ready and disappears after
/// it is not.
#[derive(Debug, Default)]
struct Unseen {
    first: Option<Name>,
    ready: Option<(IpAddr, Name)>,
    count: usize,
    waiting: Vec<WaitingAddress>,
}

impl Unseen {
    fn add(&mut self, entry: &Entry, pod: Name) {
        let waits_for = match self.waiting.last() {
            Some(last) if last.waits_for.name == pod.name && last.waits_for.namespace == pod.namespace => {
                Arc::clone(&last.waits_for)
            }
            _ => Arc::new(pod.object(Kind::Pod)),
        };
        self.waiting.push(WaitingAddress { ip: entry.ip, waits_for });
        self.first.get_or_insert_with(|| pod.clone());
        if entry.state == State::Ready {
            self.ready.get_or_insert((entry.ip, pod));
            self.count += 1;
        }
    }
    /// Returns the addresses that wait for their pod.
    fn fact(&self, key: &EndpointGroupKey) -> Option<Fact> {
        let waiting = !self.waiting.is_empty();
        waiting.then(|| Fact::Waiting(key.clone(), self.waiting.clone().into()))
    }
    fn problem(self) -> Option<Problem> {
        let (ip, pod) = self.ready?;
        let others = match self.count - 1 {
            0 => String::new(),
            more => format!("; {more} more wait so"),
        };
        let message =
            format!("endpoint {ip} waits for {}, which has not been seen{others}", pod.object(Kind::Pod));
        Some(Problem { code: Code::POD_NOT_SEEN, message: message.into() })
    }
}

/// Join of one slice.
struct Join<'a> {
    objects: &'a ClusterObjects,
    shared: &'a mut Interner,
    slice: &'a Slice,
    sessions: bool,
    unseen: Unseen,
}

impl Join<'_> {
    /// Returns the address of an entry; `None` while its pod is not known, because its identity would be a guess.
    fn address(&mut self, entry: &Entry) -> Option<Address> {
        let namespace = &self.slice.meta.name.namespace;
        let guessed = || self.objects.pod_at(namespace, entry.ip).map(|pod| pod.meta.name.clone());
        let named = entry.pod_name(namespace);
        let (of_pod, of_entry);
        let attributes: &WorkloadAttributes = match named.or_else(guessed) {
            Some(pod) => {
                let Some(attributes) = workload_attributes::of_pod(self.objects, self.shared, &pod) else {
                    self.unseen.add(entry, pod);
                    return None;
                };
                of_pod = attributes;
                &of_pod
            }
            None => {
                of_entry = workload_attributes::of_entry_topology(
                    self.objects,
                    self.shared,
                    entry.topology.as_ref(),
                    entry.ip,
                );
                &of_entry
            }
        };
        let topology = self.placed(&attributes.topology, entry);
        Some(Address {
            at: AddressRef::Ip(entry.ip),
            port_set: 0,
            health: health(entry.state, self.sessions),
            mtls: attributes.mtls,
            weight: 1,
            topology,
            labels: attributes.augmented.clone(),
            identity: attributes.identity.clone(),
            origin: attributes.origin.clone(),
        })
    }
    /// Adds the slice's zone to a topology without a locality.
    fn placed(&mut self, topology: &Arc<Topology>, entry: &Entry) -> Arc<Topology> {
        let zone = entry.topology.as_ref().and_then(|entry| entry.zone.as_deref());
        if zone.is_none() || !topology.locality.is_empty() {
            return Arc::clone(topology);
        }
        let locality: Locality = workload_attributes::zone(zone);
        self.shared.topology(Topology { locality, ..Topology::clone(topology) })
    }
}

/// Returns the health of an entry: a terminating one drains if its Service binds sessions.
const fn health(state: State, sessions: bool) -> Health {
    match state {
        State::Ready => Health::Healthy,
        State::NotReady => Health::Unhealthy,
        State::Leaving if sessions => Health::Draining,
        State::Leaving | State::Left => Health::Terminating,
    }
}

#[cfg(test)]
mod tests;
