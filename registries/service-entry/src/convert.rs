//! Converts documents to facts (see docs/reference/service-entry.md).
//!
//! [`convert`] is pure and total: it reads no file, keeps no state, and omits the parts that
//! validation refuses. The facts of one object depend on that object and its context alone, in a
//! fixed order; the core merges the declarations of a host.

pub(crate) mod address;
mod endpoints;
mod service_entry;
mod topology;
mod workload;

use std::sync::Arc;

use tributary_model::{ClusterId, Fact, Identity, Namespace};
use tributary_registry_api::ClusterContext;

use crate::document::{Body, Object};

/// The annotations that conversion reads; a source that keeps many objects retains only these.
pub(crate) const ANNOTATIONS: [&str; 4] =
    [workload::HEALTH_CHECKS, workload::GROUP, service_entry::TRAFFIC, service_entry::CONNECT];

/// Inputs of conversion that no document contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The cluster of the registry.
    pub cluster: ClusterId,
    /// Trust domain of identities that are derived from service accounts.
    pub trust_domain: Arc<str>,
    cluster_context: Arc<ClusterContext>,
}

impl Context {
    /// A context with the default trust domain.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, trust_domain: "cluster.local".into(), cluster_context: Arc::default() }
    }
    /// This context with an object's cluster context.
    fn within(&self, cluster_context: &Arc<ClusterContext>) -> Self {
        let trust_domain = cluster_context.trust_domain.as_ref().unwrap_or(&self.trust_domain).clone();
        Self { cluster: self.cluster.clone(), trust_domain, cluster_context: cluster_context.clone() }
    }
    fn identity(&self, namespace: &Namespace, account: &str) -> Option<Identity> {
        if account.is_empty() { None } else { Identity::spiffe(&self.trust_domain, namespace, account).ok() }
    }
}

/// Returns the facts of one object. A WorkloadGroup has none: it is a template for workloads
/// that register themselves.
#[must_use]
pub fn convert(object: &Object, context: &Context) -> Vec<Fact> {
    let meta = &object.document.meta;
    let context = &context.within(&object.cluster_context);
    match &object.document.body {
        Body::ServiceEntry(entry) => service_entry::facts(object, meta, entry, context),
        Body::WorkloadEntry(entry) => workload::fact(object, meta, entry, context).into_iter().collect(),
        Body::WorkloadGroup(_) => Vec::new(),
    }
}

#[cfg(test)]
mod context_tests;
#[cfg(test)]
mod tests;
