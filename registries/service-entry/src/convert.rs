//! Documents become facts (`registries.md` 4.1-4.3, as `core.md` amends it).
//!
//! [`convert`] is pure and total: it reads no file, keeps no state, and what validation would refuse
//! is left out rather than guessed. One object's facts depend on that object alone, in one order;
//! merging the declarations of a host is the core's.

pub(crate) mod address;
mod endpoints;
mod service_entry;
mod topology;
mod workload;

use std::sync::Arc;

use tributary_model::{ClusterId, Fact, Identity, Namespace};
use tributary_registry_api::ClusterContext;

use crate::document::{Body, Object};

/// The annotations that conversion reads; a source that keeps many objects keeps these alone.
pub(crate) const ANNOTATIONS: [&str; 4] =
    [workload::HEALTH_CHECKS, workload::GROUP, service_entry::TRAFFIC, service_entry::CONNECT];

/// What conversion must know that no document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The cluster that the registry speaks for.
    pub cluster: ClusterId,
    /// The domain of identities made from service accounts.
    pub trust_domain: Arc<str>,
    around: Arc<ClusterContext>,
}

impl Context {
    /// A cluster with the default trust domain.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, trust_domain: "cluster.local".into(), around: Arc::default() }
    }
    /// The same within what holds around an object.
    fn within(&self, around: &Arc<ClusterContext>) -> Self {
        let trust_domain = around.trust_domain.as_ref().unwrap_or(&self.trust_domain).clone();
        Self { cluster: self.cluster.clone(), trust_domain, around: around.clone() }
    }
    fn identity(&self, namespace: &Namespace, account: &str) -> Option<Identity> {
        if account.is_empty() { None } else { Identity::spiffe(&self.trust_domain, namespace, account).ok() }
    }
}

/// The facts that one object states. A WorkloadGroup states none: it is a template for workloads
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
mod around_tests;
#[cfg(test)]
mod tests;
