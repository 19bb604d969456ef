//! Inputs of conversion beside the document. The registry creates one for each run.

use std::sync::Arc;

use tributary_kube_client::ClusterContext;
use tributary_model::{ClusterId, Identity, Namespace};

/// Inputs of conversion that no document contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The cluster of the registry.
    pub cluster: ClusterId,
    /// Trust domain of identities that are derived from service accounts.
    pub trust_domain: Arc<str>,
    pub(super) cluster_context: Arc<ClusterContext>,
}

impl Context {
    /// A context with the default trust domain.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, trust_domain: "cluster.local".into(), cluster_context: Arc::default() }
    }
    /// This context with an object's cluster context.
    pub(super) fn within(&self, cluster_context: &Arc<ClusterContext>) -> Self {
        let trust_domain = cluster_context.trust_domain.as_ref().unwrap_or(&self.trust_domain).clone();
        Self { cluster: self.cluster.clone(), trust_domain, cluster_context: cluster_context.clone() }
    }
    pub(super) fn identity(&self, namespace: &Namespace, account: &str) -> Option<Identity> {
        if account.is_empty() { None } else { Identity::spiffe(&self.trust_domain, namespace, account).ok() }
    }
}
