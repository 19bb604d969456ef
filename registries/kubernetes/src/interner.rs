//! Shared copies of values that many facts have in common: texts, labels, topologies, identities, port sets, pods.
//!
//! Owned by the index, passed to projections and to derivations. It never changes a value, only which copy is held, so
//! a derivation remains a function of its inputs. Bounded by the values in use.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tributary_model::{
    Identity, Labels, Namespace, NetworkId, Origin, PortName, PortNumber, PortSet, ServiceKey, Topology,
    Workload,
};
use tributary_registry_api::Interned;

use crate::attributes::{EntryTopology, WorkloadAttributes};
use crate::kind::Name;

/// Named ports of a pod, sorted by name.
pub type NamedPorts = Arc<[(PortName, PortNumber)]>;

/// Attributes of bare addresses with one entry topology, and that topology, which keeps its address in memory taken.
type Bare = (Option<Arc<EntryTopology>>, Arc<WorkloadAttributes>);

/// Published workload of a pod, with the origin that its endpoints share.
#[derive(Debug, Clone)]
pub struct PodWorkload {
    /// Workload.
    pub workload: Arc<Workload>,
    /// Origin of its endpoints.
    pub origin: Arc<Origin>,
}

/// Shared values.
#[derive(Debug, Default)]
pub struct Interner {
    texts: Interned<Arc<str>>,
    namespaces: Interned<Namespace>,
    labels: Interned<Labels>,
    topologies: Interned<Arc<Topology>>,
    identities: Interned<Identity>,
    port_sets: Interned<PortSet>,
    named_ports: Interned<NamedPorts>,
    services: Interned<Arc<[ServiceKey]>>,
    entry_topologies: Interned<Arc<EntryTopology>>,
    /// Published workload of each pod. There may be a pod for every address, so no other structure holds it.
    pods: BTreeMap<Name, PodWorkload>,
    /// Number of objects that were removed or replaced since the last full sweep.
    released: usize,
    /// Attributes of bare addresses by the memory address of their entry topology, which the value keeps; for one flush.
    pub(crate) bare: HashMap<(usize, Option<NetworkId>), Bare>,
}

impl Interner {
    /// Returns the shared copy of a text.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        self.texts.get(text, || text.into())
    }
    /// Returns the shared copy of a namespace; `None` if the text is not a valid name.
    pub fn namespace(&mut self, text: &str) -> Option<Namespace> {
        self.namespaces.find(text).or_else(|| Some(self.namespaces.keep(Namespace::new(text).ok()?)))
    }
    /// Returns the shared copy of labels, with shared texts.
    pub fn labels(&mut self, labels: &Labels) -> Labels {
        if labels.is_empty() {
            return Labels::default();
        }
        if let Some(known) = self.labels.find(labels) {
            return known;
        }
        if labels.is_layered() {
            return self.labels.keep(labels.clone());
        }
        let pairs: Vec<_> = labels.pairs().map(|(k, v)| (self.text(k), self.text(v))).collect();
        self.labels.keep(pairs.into_iter().collect())
    }
    /// Returns the shared copy of a topology.
    pub fn topology(&mut self, topology: Topology) -> Arc<Topology> {
        self.topologies.share_owned(topology)
    }
    /// Returns the shared copy of an identity; `None` if the text is not a valid one.
    pub fn identity(&mut self, text: &str) -> Option<Identity> {
        let identity = Identity::new(text).ok()?;
        Some(self.identities.share(identity))
    }
    /// Returns the published workload of a pod.
    #[must_use]
    pub fn pod(&self, name: &Name) -> Option<&PodWorkload> {
        self.pods.get(name)
    }
    /// Sets or removes the published workload of a pod.
    pub fn set_pod(&mut self, name: Name, workload: Option<&Arc<Workload>>) {
        let Some(workload) = workload else { return drop(self.pods.remove(&name)) };
        let origin = Origin { object: workload.source.object.clone(), workload: workload.name.clone() };
        let known = self.pods.get(&name).map(|pod| &pod.origin).filter(|known| ***known == origin);
        let origin = known.cloned().unwrap_or_else(|| Arc::new(origin));
        self.pods.insert(name, PodWorkload { workload: Arc::clone(workload), origin });
    }
    /// Returns the shared copy of a port set.
    pub fn port_set(&mut self, ports: PortSet) -> PortSet {
        self.port_sets.share(ports)
    }
    /// Returns the shared copy of named ports.
    pub fn named_ports(&mut self, ports: NamedPorts) -> NamedPorts {
        self.named_ports.share(ports)
    }
    /// Returns the shared copy of a list of services.
    pub fn services(&mut self, services: Arc<[ServiceKey]>) -> Arc<[ServiceKey]> {
        self.services.share(services)
    }
    /// Returns the shared copy of an entry topology, with shared texts.
    pub fn entry_topology(&mut self, own: &EntryTopology) -> Arc<EntryTopology> {
        if let Some(known) = self.entry_topologies.find(own) {
            return known;
        }
        let mut text = |text: &Option<Arc<str>>| text.as_ref().map(|text| self.text(text));
        let own = EntryTopology { node: text(&own.node), zone: text(&own.zone) };
        self.entry_topologies.keep(Arc::new(own))
    }
    /// Returns the number of shared values.
    #[must_use]
    pub fn len(&self) -> usize {
        let texts = self.texts.len() + self.namespaces.len() + self.identities.len();
        let sets = self.labels.len() + self.port_sets.len() + self.named_ports.len();
        let sets = sets + self.services.len();
        texts + sets + self.topologies.len() + self.entry_topologies.len()
    }
    /// Whether no value is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Notes that an object was removed or replaced, which may leave values unused.
    pub const fn note_release(&mut self) {
        self.released += 1;
    }
    /// Drops unused values after enough releases, so that the tables shrink when the cluster does. The cost per release
    /// is constant.
    pub fn trim(&mut self) {
        if self.released >= (self.len() / 8).max(256) {
            self.sweep();
        }
    }
    /// Drops the values that nothing else holds.
    pub fn sweep(&mut self) {
        self.topologies.sweep();
        self.entry_topologies.sweep();
        // layered labels hold their base, which the second pass drops
        self.labels.sweep();
        self.labels.sweep();
        self.identities.sweep();
        self.port_sets.sweep();
        self.named_ports.sweep();
        self.services.sweep();
        self.namespaces.sweep();
        self.texts.sweep();
        self.released = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_one_copy_and_unused_ones_are_dropped() {
        let mut shared = Interner::default();
        let one = shared.text("a");
        assert!(Arc::ptr_eq(&one, &shared.text("a")));
        let labels: Labels = [("a", "b")].into_iter().collect();
        let kept = shared.labels(&labels);
        assert!(kept.pairs().all(|(key, _)| Arc::ptr_eq(key, &one)), "labels share texts");
        assert!(shared.labels(&labels).is_shared());
        drop(kept);
        shared.sweep();
        assert_eq!(shared.len(), 1, "the text that is still in use");
        drop(one);
        shared.sweep();
        assert!(shared.is_empty());
    }
}
