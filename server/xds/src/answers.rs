//! The interface between sessions and resources.
//!
//! Owns the shared types (resource types, classes, sets, changes) and the trait [`ResourceProvider`].
//! Sessions call it on their own tasks; [`CatalogAnswers`] implements it. Every returned list is
//! sorted by resource name, so equal facts give equal bytes.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tributary_model::{Catalog, EncodedResource, Hostname, PolicyKey, Version};
use tributary_proto::{Body, Variant};

pub mod budget;
pub mod catalog;
pub mod client_class;
pub mod counters;
pub mod ready;
pub mod resource_type;
pub mod set;
pub mod subscription;

mod absent;
pub(crate) mod chunks;
mod claims;
mod diff_cache;
mod fixed;
mod fold;
mod folded_set;
mod forwarding;
mod generations;
mod grpc;
mod held;
mod layer;
mod listeners;
mod mentions;
pub mod patched;
mod private;
mod routes;
mod runs;
mod secrets;
mod singles;
mod store;
mod tables;
pub(crate) mod weak_table;

pub(crate) use absent::absent_cluster;
pub use absent::empty_assignment;
pub use catalog::CatalogAnswers;
pub use client_class::{ClientClass, ClientClassKey, ClientClasses};
pub use patched::{PatchedAnswers, RefusedPatches, UsedPatches};
pub use ready::Built;
pub use resource_type::{ResourceType, TypeMap};
pub use set::{ChangedSet, ResourceSet};
pub use subscription::{Subscription, Subscriptions};

pub use crate::patch::{HostSources, RefusedPatch};

/// Body of a resource: one chunk, or for a composite the chunks that it shares with others.
pub type BodyChunks = SmallVec<[Bytes; 1]>;

/// Provides resources to sessions. Every method is a pure function of its arguments; caches change
/// only the cost of a call.
pub trait ResourceProvider: Built + Send + Sync {
    /// Returns every member of a wildcard type (CDS, LDS) for this class in this generation. Classes that agree
    /// on everything the set reads share it. EDS and RDS have no wildcard: their sets are empty.
    fn all(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> Arc<ResourceSet>;

    /// Returns the resources of these names, in order of name. Unknown names are absent, but an EDS set
    /// has an empty assignment for each. Clients with the same subscription share the set.
    fn many(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: &Arc<Subscription>,
    ) -> Arc<ResourceSet>;

    /// Returns one resource by the name that a client uses; `None` if it does not exist. The session
    /// itself builds an absent assignment: [`empty_assignment`]. The resource has the requested name.
    /// Requested names are not stored.
    fn one(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> Option<Arc<EncodedResource>>;

    /// Returns the difference between two generations for a class, over all names of the type. The cost
    /// follows the change. For EDS, `removed` lists assignments without a service or port.
    fn changed(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Arc<ChangedSet>;

    /// Returns a listener of a gRPC server that refuses every request, for one that rejects its own.
    fn refusing_listener(&self, name: &str) -> Option<Arc<EncodedResource>>;

    /// Whether the assignment of this name has no endpoints and nothing proves that there are none, because they were never
    /// read.
    fn lacks_endpoints(&self, catalog: &Catalog, class: &ClientClassKey, name: &str) -> bool {
        singles::lacks_endpoints(catalog, class, name)
    }

    /// Returns the host that a resource name is about, for the interest index. `None` for names about
    /// many hosts (a port's routes) or no host: a client that holds such a name must look at every
    /// generation.
    fn host_of(&self, class: &ClientClassKey, kind: ResourceType, name: &str) -> Option<Hostname>;

    /// Returns the body of a resource, encoded again if it was evicted. `None` only if it was evicted
    /// and `catalog` is not the generation that it came from.
    fn body(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<BodyChunks>;

    /// Returns the `resources` fields of a response that carries the whole set, built once and shared.
    fn rope(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        set: &Arc<ResourceSet>,
        variant: Variant,
    ) -> Body;

    /// Returns the resources that only a client with these workloads and addresses receives: its inbound xDS clusters
    /// and listeners. Sorted by name; they replace members of the same name.
    fn private(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        own: tributary_answer::OwnSide<'_>,
    ) -> Vec<Arc<EncodedResource>>;

    /// Returns the EnvoyFilters that changed or added this version of a resource, in order.
    fn patched_by(
        &self,
        _class: &ClientClassKey,
        _kind: ResourceType,
        _name: &str,
        _version: Version,
    ) -> Vec<PolicyKey> {
        Vec::new()
    }

    /// Returns the EnvoyFilters that changed parts of the virtual host at a position of this version of a route table. The cost is
    /// that of one patched table. `None` if no filter changed the table, or if `catalog` is not the generation that it came from.
    fn host_sources(
        &self,
        _catalog: &Arc<Catalog>,
        _class: &ClientClassKey,
        _table: (&str, Version),
        _at: usize,
    ) -> Option<HostSources> {
        None
    }

    /// Returns the patches that were left out of this version of a resource, because Envoy would refuse a part of it; of a route
    /// table, those of the virtual host with a domain and of the table beside its virtual hosts. None if that is not known here.
    fn left_out(
        &self,
        _catalog: &Arc<Catalog>,
        _class: &ClientClassKey,
        _resource: (ResourceType, &str, Version),
        _domain: &str,
    ) -> Vec<RefusedPatch> {
        Vec::new()
    }

    /// Returns the EnvoyFilter that removed a resource; `None` if none did, or if that is not known here.
    fn removed_by(&self, _class: &ClientClassKey, _kind: ResourceType, _name: &str) -> Option<PolicyKey> {
        None
    }

    /// Returns the resources of a generation that clients of a class would have without EnvoyFilters, and the filter that removed
    /// each, sorted by name; none if that is not known here. Those of a client's own workload are not among them.
    fn removed(
        &self,
        _catalog: &Arc<Catalog>,
        _class: &ClientClassKey,
        _kind: ResourceType,
    ) -> Vec<(Arc<str>, PolicyKey)> {
        Vec::new()
    }
}
