//! Fills the slots of facets (law 5): one encoding per facet and projection, whoever asks first.
//!
//! Called off the owner by everything that needs a resource of one service port. Others who ask
//! for the same slot meanwhile wait for that one encoding.

use std::sync::Arc;

use bytes::Bytes;
use tributary_answer::{ClientClass, cluster, endpoints, names};
use tributary_model::encoded_cache::Answers as Slot;
use tributary_model::{
    ClusterInputs, EncodedResource, EndpointInputs, Hostname, PortNumber, PortView, Projection,
    ResourceInputs,
};

use super::ResourceType;
use super::budget::Budget;
use super::counters::Counters;
use crate::encode;

/// A resource before it is kept: its name and its body.
pub(crate) type Fresh = (String, Vec<u8>);

/// Where encoded resources are counted and kept within bounds.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) counters: Counters,
    pub(crate) budget: Budget,
}

impl Store {
    pub(crate) fn new(limit: u64) -> Self {
        Self { counters: Counters::default(), budget: Budget::new(limit) }
    }
    /// What a facet gives to clients of this class.
    pub(crate) fn fill<T>(
        &self,
        kind: ResourceType,
        facet: &ResourceInputs<T>,
        class: &ClientClass,
        encode: impl Fn(&T, &Projection) -> Vec<Fresh>,
    ) -> Slot {
        let projection = class.project(facet.dimensions);
        let mut made = false;
        let slot = facet.encoded.get_or_make(&projection, || {
            made = true;
            encode(&facet.inputs, &projection).into_iter().map(|fresh| self.count(kind, fresh)).collect()
        });
        for resource in slot.iter() {
            if made {
                self.budget.file(resource, &self.counters);
            } else {
                self.counters.hit(resource.len);
            }
        }
        slot
    }
    fn count(&self, kind: ResourceType, (name, body): Fresh) -> Arc<EncodedResource> {
        self.counters.encoded(kind, body.len());
        Arc::new(EncodedResource::new(name.into(), body.into()))
    }
    /// Keeps a resource that hangs off no facet.
    pub(crate) fn keep(&self, kind: ResourceType, (name, body): Fresh) -> Arc<EncodedResource> {
        self.kept(kind, EncodedResource::new(name.into(), body.into()))
    }
    /// The same, of one that is made already.
    pub(crate) fn kept(&self, kind: ResourceType, resource: EncodedResource) -> Arc<EncodedResource> {
        self.counters.encoded(kind, resource.len as usize);
        let resource = Arc::new(resource);
        self.budget.file(&resource, &self.counters);
        resource
    }
    /// Puts back a body that was encoded again, if it is the resource's.
    pub(crate) fn refill(&self, resource: &Arc<EncodedResource>, body: Bytes) -> Option<Bytes> {
        if u32::try_from(body.len()).ok() != Some(resource.len) {
            return None;
        }
        self.counters.refills.one();
        resource.refill(body.clone());
        self.budget.file(resource, &self.counters);
        Some(body)
    }
}

/// What differs between the kinds that have one resource per service port.
pub(crate) trait ResourceFamily {
    type Facts;
    const KIND: ResourceType;
    fn facet(port: &PortView) -> &Arc<ResourceInputs<Self::Facts>>;
    fn name(port: PortNumber, host: &Hostname) -> String;
    fn encode(facts: &Self::Facts, projection: &Projection) -> Option<Fresh>;

    fn fill(store: &Store, port: &PortView, class: &ClientClass) -> Option<Arc<EncodedResource>> {
        let slot = store.fill(Self::KIND, Self::facet(port), class, |facts, projection| {
            Self::encode(facts, projection).into_iter().collect()
        });
        slot.first().cloned()
    }
    /// The resource if somebody has asked for it; the outer `None` where nobody has.
    fn made(port: &PortView, class: &ClientClass) -> Option<Option<Arc<EncodedResource>>> {
        let facet = Self::facet(port);
        facet.encoded.get(&class.project(facet.dimensions)).map(|slot| slot.first().cloned())
    }
    /// Whether the class has this resource, without encoding it.
    fn exists(port: &PortView, class: &ClientClass) -> bool {
        Self::made(port, class).map_or_else(|| Self::plans(port, class), |made| made.is_some())
    }
    /// Whether there is a plan to encode.
    fn plans(port: &PortView, class: &ClientClass) -> bool;
    /// The body, encoded again.
    fn body(port: &PortView, class: &ClientClass) -> Option<Vec<u8>> {
        let facet = Self::facet(port);
        Self::encode(&facet.inputs, &class.project(facet.dimensions)).map(|(_, body)| body)
    }
    fn same(a: &PortView, b: &PortView) -> bool {
        Arc::ptr_eq(Self::facet(a), Self::facet(b))
    }
}

/// CDS: one xDS cluster per port.
pub(crate) struct Clusters;

impl ResourceFamily for Clusters {
    type Facts = ClusterInputs;
    const KIND: ResourceType = ResourceType::Cluster;

    fn facet(port: &PortView) -> &Arc<ResourceInputs<ClusterInputs>> {
        &port.cluster.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        names::cluster_name(port, host)
    }
    fn encode(facts: &ClusterInputs, projection: &Projection) -> Option<Fresh> {
        let plan = cluster(facts, projection, &mut ())?;
        let body = encode::cluster::cluster(&plan);
        Some((plan.name, body))
    }
    fn plans(port: &PortView, class: &ClientClass) -> bool {
        let facet = &port.cluster;
        cluster(&facet.inputs, &class.project(facet.dimensions), &mut ()).is_some()
    }
}

/// EDS: one assignment per port, also where it is empty.
pub(crate) struct Assignments;

impl ResourceFamily for Assignments {
    type Facts = EndpointInputs;
    const KIND: ResourceType = ResourceType::Endpoints;

    fn facet(port: &PortView) -> &Arc<ResourceInputs<EndpointInputs>> {
        &port.endpoints.0
    }
    fn name(port: PortNumber, host: &Hostname) -> String {
        names::cluster_name(port, host)
    }
    fn encode(facts: &EndpointInputs, projection: &Projection) -> Option<Fresh> {
        let plan = endpoints(facts, projection, &mut ());
        let name = Self::name(facts.port, &facts.service.host);
        let body = encode::assignment::assignment(&name, &plan);
        Some((name, body))
    }
    fn plans(_: &PortView, _: &ClientClass) -> bool {
        true
    }
}
