//! Encodes resource inputs once per projection (law 5) and caches the result.
//!
//! Every task that needs a resource of one service port calls it. Concurrent callers for the same
//! resource wait for one encoding.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tributary_answer::key::{Outcomes, key};
use tributary_answer::{ClientClass, ClusterName, PortSet, cluster, endpoints_of};
use tributary_model::encoded_cache::Answers as Slot;
use tributary_model::{
    ClientKind, ClusterInputs, EncodedResource, EndpointInputs, PortView, Projection, ResourceInputs, Subset,
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
        node: &ResourceInputs<T>,
        class: &ClientClass,
        encode: impl Fn(&T, &Projection) -> Vec<(ResourceType, NamedBody)>,
    ) -> Slot {
        let projection = key(node, class);
        let mut built = false;
        let slot = node.encoded.get_or_make(&projection, || {
            built = true;
            encode(&node.inputs, &projection).into_iter().map(|encoded| self.count(encoded)).collect()
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
    fn count(&self, (kind, (name, body)): (ResourceType, NamedBody)) -> Arc<EncodedResource> {
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

/// A resource type whose resources each come from one service port.
pub(crate) trait ResourceFamily: Sized {
    type Inputs: Outcomes;
    type Name: fmt::Display;
    const KIND: ResourceType;
    /// Ports that have the resources.
    const PORTS: PortSet = PortSet::Imported;
    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<Self::Inputs>>;
    /// Returns the names of a port's resources for clients of a kind: that of the port, and those of its subsets. Only names of
    /// routers differ, so that an absent kind is that of any other client.
    fn names(inputs: &Self::Inputs, client: Option<ClientKind>) -> SmallVec<[Self::Name; 1]>;
    /// Encodes the resource of a name; `None` if the client has none.
    fn encode(inputs: &Self::Inputs, name: &Self::Name, projection: &Projection) -> Option<Vec<u8>>;
    /// Whether the client has the resource of a name.
    fn plans(inputs: &Self::Inputs, name: &Self::Name, projection: &Projection) -> bool;

    /// Returns the resources of this type among those that are cached with the inputs. Only where two types read the
    /// same inputs for the same clients are there others.
    fn of_type(slot: Slot) -> Slot {
        slot
    }
    /// Encodes everything that is cached with the inputs.
    fn encode_all(inputs: &Self::Inputs, projection: &Projection) -> Vec<(ResourceType, NamedBody)> {
        encode_names::<Self>(inputs, projection)
    }

    /// Returns the resources of a port.
    fn fill(store: &Store, port: &PortView, class: &ClientClass) -> Slot {
        Self::of_type(store.fill(Self::inputs_of(port), class, Self::encode_all))
    }
    /// Returns the resource of a name; `None` for a subset that the port does not have.
    fn find(store: &Store, port: &PortView, class: &ClientClass, name: &str) -> Option<Arc<EncodedResource>> {
        named(&Self::fill(store, port, class), name).cloned()
    }
    /// Returns the resources of a port if they were requested before.
    fn cached(port: &PortView, class: &ClientClass) -> Option<Slot> {
        let node = Self::inputs_of(port);
        node.encoded.get(&key(node, class)).map(Self::of_type)
    }
    /// Returns the names of a port that the class has, without encoding, but for those of these resources.
    fn names_beside(port: &PortView, class: &ClientClass, but: &[Arc<EncodedResource>]) -> Vec<Arc<str>> {
        let names = Self::names(&Self::inputs_of(port).inputs, Some(class.kind)).into_iter();
        let others =
            names.map(|name| (name.to_string(), name)).filter(|(text, _)| named(but, text).is_none());
        let has = |(text, name): &(String, Self::Name)| match Self::cached(port, class) {
            Some(built) => named(&built, text).is_some(),
            None => {
                let node = Self::inputs_of(port);
                Self::plans(&node.inputs, name, &key(node, class))
            }
        };
        others.filter(has).map(|(text, _)| text.into()).collect()
    }
    /// Encodes the body of a name again.
    fn body(port: &PortView, class: &ClientClass, name: &str) -> Option<Vec<u8>> {
        let node = Self::inputs_of(port);
        let name =
            Self::names(&node.inputs, Some(class.kind)).into_iter().find(|own| own.to_string() == name)?;
        Self::encode(&node.inputs, &name, &key(node, class))
    }
    fn same(a: &PortView, b: &PortView) -> bool {
        Arc::ptr_eq(Self::inputs_of(a), Self::inputs_of(b))
    }
}

/// Encodes the resources of a type.
pub(crate) fn encode_names<S: ResourceFamily>(
    inputs: &S::Inputs,
    projection: &Projection,
) -> Vec<(ResourceType, NamedBody)> {
    let encode = |name: S::Name| Some((S::KIND, (name.to_string(), S::encode(inputs, &name, projection)?)));
    S::names(inputs, projection.kind).into_iter().filter_map(encode).collect()
}

/// Returns the resource of a name.
pub(crate) fn named<'r>(all: &'r [Arc<EncodedResource>], name: &str) -> Option<&'r Arc<EncodedResource>> {
    all.iter().find(|resource| *resource.name == *name)
}

/// CDS: an xDS cluster for each port.
pub(crate) struct Clusters;

impl ResourceFamily for Clusters {
    type Inputs = ClusterInputs;
    type Name = ClusterName;
    const KIND: ResourceType = ResourceType::Cluster;
    const PORTS: PortSet = PortSet::Reached;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<ClusterInputs>> {
        &port.cluster.0
    }
    fn names(inputs: &ClusterInputs, client: Option<ClientKind>) -> SmallVec<[ClusterName; 1]> {
        let subsets = inputs.policy.iter().flat_map(|policy| policy.values()).flatten();
        let subsets = subsets.flat_map(|policy| policy.subsets.iter().map(|(name, _)| name));
        with_subsets(ClusterName::new(inputs.port, &inputs.service.host).of(client), subsets)
    }
    fn encode(inputs: &ClusterInputs, name: &ClusterName, projection: &Projection) -> Option<Vec<u8>> {
        Some(encode::cluster::cluster(&cluster(inputs, name.subset.as_ref(), projection, &mut ())?))
    }
    fn plans(inputs: &ClusterInputs, name: &ClusterName, projection: &Projection) -> bool {
        cluster(inputs, name.subset.as_ref(), projection, &mut ()).is_some()
    }
}

/// Returns the name of a port and those of the subsets that any client has.
fn with_subsets<'s>(
    whole: ClusterName,
    subsets: impl Iterator<Item = &'s Subset>,
) -> SmallVec<[ClusterName; 1]> {
    let subsets: BTreeSet<&Subset> = subsets.collect();
    let of = |subset: &Subset| ClusterName { subset: Some(subset.clone()), ..whole.clone() };
    let mut names: SmallVec<[ClusterName; 1]> = subsets.into_iter().map(of).collect();
    names.push(whole);
    names
}

/// EDS: an assignment for each port, even if it is empty.
pub(crate) struct Assignments;

impl ResourceFamily for Assignments {
    type Inputs = EndpointInputs;
    type Name = ClusterName;
    const KIND: ResourceType = ResourceType::Endpoints;
    const PORTS: PortSet = PortSet::Reached;

    fn inputs_of(port: &PortView) -> &Arc<ResourceInputs<EndpointInputs>> {
        &port.endpoints.0
    }
    fn names(inputs: &EndpointInputs, client: Option<ClientKind>) -> SmallVec<[ClusterName; 1]> {
        let subsets = inputs.policy.iter().flat_map(|policy| policy.values()).flatten();
        let subsets = subsets.flat_map(|policy| policy.subsets.iter().map(|(name, ..)| name));
        with_subsets(ClusterName::new(inputs.port, &inputs.service.host).of(client), subsets)
    }
    fn encode(inputs: &EndpointInputs, name: &ClusterName, projection: &Projection) -> Option<Vec<u8>> {
        let plan = endpoints_of(inputs, name.subset.as_ref(), projection, &mut ())?;
        Some(encode::assignment::assignment(&name.to_string(), &plan))
    }
    fn plans(inputs: &EndpointInputs, name: &ClusterName, projection: &Projection) -> bool {
        let namespace = projection.namespace.as_ref().and_then(Option::as_ref);
        let has = |subset: &Subset| {
            let policy = inputs.policy_of(namespace);
            policy.is_some_and(|policy| policy.subsets.iter().any(|(name, ..)| name == subset))
        };
        name.subset.as_ref().is_none_or(has)
    }
}
