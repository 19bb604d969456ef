//! Encodes resource inputs once per projection (law 5) and caches the result.
//!
//! Every task that needs a resource of one service port calls it. Concurrent callers for the same
//! resource wait for one encoding.

use std::sync::Arc;

use bytes::Bytes;
use tributary_answer::key::{Outcomes, key};
use tributary_answer::{ClientClass, cluster, endpoints, names};
use tributary_model::encoded_cache::Answers as Slot;
use tributary_model::{
    ClusterInputs, EncodedResource, EndpointInputs, Hostname, PortNumber, PortView, Projection,
    ResourceInputs,
};

use super::budget::Budget;
use super::counters::Counters;
use super::runs::RunTable;
use super::{BodyChunks, ResourceType};
use crate::encode;

/// A resource before it is stored: its name and its body.
pub(crate) type NamedBody = (String, Vec<u8>);

/// Counts encoded resources and limits their memory.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) counters: Counters,
    pub(crate) budget: Budget,
    pub(crate) runs: RunTable,
}

impl Store {
    pub(crate) fn new(limit: u64) -> Self {
        Self { counters: Counters::default(), budget: Budget::new(limit), runs: RunTable::default() }
    }
    /// Returns the resources that these inputs give to clients of this class.
    pub(crate) fn fill<T: Outcomes>(
        &self,
        kind: ResourceType,
        node: &ResourceInputs<T>,
        class: &ClientClass,
        encode: impl Fn(&T, &Projection) -> Vec<NamedBody>,
    ) -> Slot {
        let projection = key(node, class);
        let mut built = false;
        let slot = node.encoded.get_or_make(&projection, || {
            built = true;
            encode(&node.inputs, &projection).into_iter().map(|encoded| self.count(kind, encoded)).collect()
        });
        for resource in slot.iter() {
            if built {
                self.budget.register(resource, &self.counters);
            } else {
                self.counters.hit(resource.len);
            }
        }
        slot
    }
    fn count(&self, kind: ResourceType, (name, body): NamedBody) -> Arc<EncodedResource> {
        self.counters.encoded(kind, body.len());
        Arc::new(EncodedResource::new(name.into(), body.into()))
    }
    /// Stores a resource that belongs to no single port's inputs.
    pub(crate) fn keep(&self, kind: ResourceType, (name, body): NamedBody) -> Arc<EncodedResource> {
        self.kept(kind, EncodedResource::new(name.into(), body.into()))
    }
    /// Stores a resource that is already built.
    pub(crate) fn kept(&self, kind: ResourceType, resource: EncodedResource) -> Arc<EncodedResource> {
        self.counters.encoded(kind, resource.len as usize);
        let resource = Arc::new(resource);
        self.budget.register(&resource, &self.counters);
        resource
    }
    /// Restores an evicted body, if its length is the resource's. A body in several chunks belongs to those.
    pub(crate) fn refill(&self, resource: &Arc<EncodedResource>, body: BodyChunks) -> Option<BodyChunks> {
        let len: usize = body.iter().map(Bytes::len).sum();
        if u32::try_from(len).ok() != Some(resource.len) {
            return None;
        }
        if let [body] = &*body {
            self.counters.refills.one();
            resource.refill(body.clone());
            self.budget.register(resource, &self.counters);
        }
        Some(body)
    }
}

/// A resource type with one resource per service port.
pub(crate) trait ResourceFamily {
    type Inputs: Outcomes;
    const KIND: ResourceType;
    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<Self::Inputs>>;
    fn name(port: PortNumber, host: &Hostname) -> String;
    fn encode(inputs: &Self::Inputs, projection: &Projection) -> Option<NamedBody>;

    fn fill(store: &Store, port: &PortView, class: &ClientClass) -> Option<Arc<EncodedResource>> {
        let slot = store.fill(Self::KIND, Self::inputs_of(port), class, |inputs, projection| {
            Self::encode(inputs, projection).into_iter().collect()
        });
        slot.first().cloned()
    }
    /// Returns the resource if it was requested before; the outer `None` means that it was not.
    fn cached(port: &PortView, class: &ClientClass) -> Option<Option<Arc<EncodedResource>>> {
        let node = Self::inputs_of(port);
        node.encoded.get(&key(node, class)).map(|slot| slot.first().cloned())
    }
    /// Whether the class has this resource, without encoding it.
    fn exists(port: &PortView, class: &ClientClass) -> bool {
        Self::cached(port, class).map_or_else(|| Self::plans(port, class), |built| built.is_some())
    }
    /// Whether the inputs give this class a resource.
    fn plans(port: &PortView, class: &ClientClass) -> bool;
    /// Encodes the body again.
    fn body(port: &PortView, class: &ClientClass) -> Option<Vec<u8>> {
        let node = Self::inputs_of(port);
        Self::encode(&node.inputs, &key(node, class)).map(|(_, body)| body)
    }
    fn same(a: &PortView, b: &PortView) -> bool {
        Arc::ptr_eq(Self::inputs_of(a), Self::inputs_of(b))
    }
}

/// CDS: one xDS cluster per port.
pub(crate) struct Clusters;

impl ResourceFamily for Clusters {
    type Inputs = ClusterInputs;
    const KIND: ResourceType = ResourceType::Cluster;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<ClusterInputs>> {
        &port.cluster.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        names::cluster_name(port, host)
    }
    fn encode(inputs: &ClusterInputs, projection: &Projection) -> Option<NamedBody> {
        let plan = cluster(inputs, projection, &mut ())?;
        let body = encode::cluster::cluster(&plan);
        Some((plan.name, body))
    }
    fn plans(port: &PortView, class: &ClientClass) -> bool {
        let node = &port.cluster;
        cluster(&node.inputs, &key(node, class), &mut ()).is_some()
    }
}

/// EDS: one assignment per port, even if it is empty.
pub(crate) struct Assignments;

impl ResourceFamily for Assignments {
    type Inputs = EndpointInputs;
    const KIND: ResourceType = ResourceType::Endpoints;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<EndpointInputs>> {
        &port.endpoints.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        names::cluster_name(port, host)
    }
    fn encode(inputs: &EndpointInputs, projection: &Projection) -> Option<NamedBody> {
        let plan = endpoints(inputs, projection, &mut ());
        let name = Self::name(inputs.port, &inputs.service.host);
        let body = encode::assignment::assignment(&name, &plan);
        Some((name, body))
    }
    fn plans(_: &PortView, _: &ClientClass) -> bool {
        true
    }
}
