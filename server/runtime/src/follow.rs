//! Subscriptions to the facts of one cluster: a base from which the subscriber computes differences.
//!
//! Nothing is queued for a subscriber; a slow one skips generations. It reads the catalog and not a registry, so it survives
//! rotations. A generation wakes the subscribers whose clusters it changed, and no other. Dropping a subscription ends it;
//! [`per_cluster`] ends those of a cluster that is removed.

mod difference;
pub(crate) mod per_cluster;
pub(crate) mod subscribers;

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Catalog, ClusterId, Gateway, GatewayKey, ServiceKey, ServiceView, Shared, WorkloadKey, WorkloadView,
};

use subscribers::Registration;

/// The part of the catalog that a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterScope {
    /// Everything.
    All,
    /// Objects that registries of this cluster declare.
    Cluster(ClusterId),
}

impl ClusterScope {
    fn has(&self, cluster: &ClusterId) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(own) => own == cluster,
        }
    }
    fn is_among(&self, clusters: &BTreeSet<ClusterId>) -> bool {
        match self {
            Self::All => !clusters.is_empty(),
            Self::Cluster(own) => clusters.contains(own),
        }
    }
    fn declares(&self, view: &ServiceView) -> bool {
        view.declarations.iter().any(|d| self.has(&d.shard.registry.cluster))
    }
}

/// Change of one object: its value before and after; `None` where it was or is absent.
#[derive(Debug, Clone)]
pub struct ObjectChange<K, V> {
    /// Key.
    pub key: K,
    /// Value before the change.
    pub before: Option<V>,
    /// Value after the change.
    pub after: Option<V>,
}

/// Changes for a subscriber.
#[derive(Debug, Clone, Default)]
pub struct ScopeChange {
    /// Generation after the changes.
    pub generation: u64,
    /// Services with a declaration of the cluster.
    pub services: Vec<ObjectChange<ServiceKey, Arc<ServiceView>>>,
    /// Workloads of the cluster.
    pub workloads: Vec<ObjectChange<WorkloadKey, Shared<WorkloadView>>>,
    /// Gateways of the cluster.
    pub gateways: Vec<ObjectChange<GatewayKey, Shared<Gateway>>>,
}

impl ScopeChange {
    /// Whether nothing changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.services.is_empty() && self.workloads.is_empty() && self.gateways.is_empty()
    }
    fn between(scope: &ClusterScope, old: &Catalog, new: &Catalog) -> Self {
        Self {
            generation: new.generation,
            services: difference::services(scope, old, new),
            workloads: difference::workloads(scope, old, new),
            gateways: difference::gateways(scope, old, new),
        }
    }
}

/// Subscription to a scope, from an empty base: the first change contains everything. The subscriber owns it.
#[derive(Debug)]
pub struct ScopeSubscription {
    scope: ClusterScope,
    registration: Registration,
}

impl ScopeSubscription {
    /// Returns the next change of the scope; `None` when the cluster was removed, after the change that removes its objects, and when
    /// the server stops. Cancel-safe.
    pub async fn next(&mut self) -> Option<ScopeChange> {
        loop {
            let has_ended = self.registration.woken().await.is_err();
            let change = self.catch_up();
            if !change.is_empty() {
                return Some(change);
            }
            if has_ended {
                return None;
            }
        }
    }
    /// Moves the base to the current catalog and returns the difference, which may be empty.
    pub fn catch_up(&mut self) -> ScopeChange {
        let (base, next) = self.registration.advance();
        ScopeChange::between(&self.scope, &base, &next)
    }
}
