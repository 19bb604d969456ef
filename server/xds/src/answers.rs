//! The seam between sessions and resources: what a session may ask of the answers.
//!
//! Owns the words that both sides use (kinds, classes, sets, changes) and the trait [`ResourceProvider`].
//! Sessions call it off the owner; [`CatalogAnswers`] implements it.
//! Every list that leaves here is sorted by resource name, so that equal facts give equal bytes.

use std::sync::Arc;

use bytes::Bytes;
use tributary_model::{Catalog, EncodedResource, Hostname};

pub mod budget;
pub mod catalog;
pub mod client_class;
pub mod counters;
pub mod resource_type;
pub mod rope;
pub mod set;

mod chunks;
mod diff_cache;
mod fixed;
mod fold;
mod folded_set;
mod generations;
mod grpc;
mod listeners;
mod private;
mod routes;
mod singles;
mod store;

pub use catalog::CatalogAnswers;
pub use client_class::{ClientClass, ClientClassKey, ClientClasses};
pub use resource_type::ResourceType;
pub use rope::{Form, Rope};
pub use set::{ChangedSet, ResourceSet, Subscription, Subscriptions};

/// What sessions ask. Every method is a pure function of its arguments; what differs between two
/// calls is only whether somebody has paid for the answer before.
pub trait ResourceProvider: Send + Sync {
    /// Every member of a wildcard type (CDS, LDS) for this class in this generation; shared by all
    /// classes that agree on what the set uses. EDS and RDS have no wildcard: their sets are empty.
    fn all(&self, catalog: &Arc<Catalog>, class: &ClientClassKey, kind: ResourceType) -> Arc<ResourceSet>;

    /// The resources of these names, in order of name. Names that do not exist are absent, but an
    /// EDS set has an empty assignment for each. Shared by all followers of the same subscription.
    fn many(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        names: &Arc<Subscription>,
    ) -> Arc<ResourceSet>;

    /// One resource by the name that a client uses; `None` where it does not exist. An absent
    /// assignment is the session's business: [`empty_assignment`]. The answer's name is the name
    /// asked for. Names are looked up and never kept.
    fn one(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        name: &str,
    ) -> Option<Arc<EncodedResource>>;

    /// What differs between two generations for a class, over all names of the kind. Cost follows
    /// what changed. For EDS, `removed` names assignments whose service or port is gone.
    fn changed(
        &self,
        from: &Arc<Catalog>,
        to: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
    ) -> Arc<ChangedSet>;

    /// The host that a resource's name is about, for the interest index. `None` for names that are
    /// about many hosts (a port's routes) or none: whoever holds one of those must look at every
    /// generation.
    fn host_of(&self, class: &ClientClassKey, kind: ResourceType, name: &str) -> Option<Hostname>;

    /// The body of a resource, encoded again if it had been dropped to save memory. `None` only
    /// where it was dropped and `catalog` is not the generation that it came from.
    fn bytes(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        resource: &Arc<EncodedResource>,
    ) -> Option<Bytes>;

    /// The `resources` fields of a response that carries the whole set, made once and shared.
    fn rope(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        set: &Arc<ResourceSet>,
        form: Form,
    ) -> Arc<Rope>;

    /// What only a client that is one of these workloads sees beside its class's set: its inbound
    /// xDS clusters and listener. Sorted by name; replaces members of the same name.
    fn private(
        &self,
        catalog: &Arc<Catalog>,
        class: &ClientClassKey,
        kind: ResourceType,
        own: &[tributary_model::WorkloadKey],
    ) -> Vec<Arc<EncodedResource>>;
}

/// The assignment of a name that has no endpoints or does not exist (`xds.md` 4.6).
#[must_use]
pub fn empty_assignment(name: &str) -> Arc<EncodedResource> {
    let mut body = Vec::with_capacity(name.len() + 6);
    body.push(0x0a);
    rope::put_len(&mut body, name.len());
    body.extend_from_slice(name.as_bytes());
    Arc::new(EncodedResource::new(name.into(), body.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    use prost::Message;

    #[test]
    fn an_empty_assignment_has_its_name_and_nothing_else() {
        let long = "n".repeat(300);
        for name in ["outbound|80||pay.shop", "", &long] {
            let encoded = empty_assignment(name);
            let body = encoded.body().unwrap();
            let message = ClusterLoadAssignment::decode(&body[..]).unwrap();
            let expected = ClusterLoadAssignment { cluster_name: name.into(), ..Default::default() };
            assert_eq!((message, &*encoded.name), (expected, name));
        }
    }
}
