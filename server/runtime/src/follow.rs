//! Subscriptions to the facts of one cluster: a base from which the subscriber computes differences.
//!
//! Nothing is queued for a subscriber; a slow one skips generations. It reads the catalog and not a
//! registry, so it survives rotations. Dropping it ends the subscription.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use tokio::sync::watch;
use tributary_model::{
    Catalog, ClusterId, Gateway, GatewayKey, HostEntry, ServiceKey, ServiceView, Shared, WorkloadKey,
    WorkloadView,
};

use crate::published_catalog::Catalogs;

/// The part of the catalog that a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterScope {
    /// Everything.
    All,
    /// Objects that registries of this cluster declare.
    Cluster(ClusterId),
}

/// Changes for a subscriber: the new value, or `None` for a removed object.
#[derive(Debug, Clone, Default)]
pub struct ScopeChange {
    /// Generation after the changes.
    pub generation: u64,
    /// Services with a declaration of the cluster.
    pub services: Vec<(ServiceKey, Option<Arc<ServiceView>>)>,
    /// Workloads of the cluster.
    pub workloads: Vec<(WorkloadKey, Option<Shared<WorkloadView>>)>,
    /// Gateways of the cluster.
    pub gateways: Vec<(GatewayKey, Option<Shared<Gateway>>)>,
}

impl ScopeChange {
    /// Whether nothing changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.services.is_empty() && self.workloads.is_empty() && self.gateways.is_empty()
    }
}

/// Subscription to a scope, from an empty base: the first change contains everything.
#[derive(Debug)]
pub struct ScopeSubscription {
    scope: ClusterScope,
    base: Arc<Catalog>,
    catalogs: Catalogs,
    generation: watch::Receiver<u64>,
}

impl ScopeSubscription {
    pub(crate) fn new(scope: ClusterScope, catalogs: Catalogs, generation: watch::Receiver<u64>) -> Self {
        Self { scope, base: Arc::default(), catalogs, generation }
    }
    /// Returns the next change of the scope; `None` when the server stops. Cancel-safe.
    pub async fn next(&mut self) -> Option<ScopeChange> {
        loop {
            let base = self.base.generation;
            self.generation.wait_for(|generation| *generation > base).await.ok()?;
            let change = self.catch_up();
            if !change.is_empty() {
                return Some(change);
            }
        }
    }
    /// Moves the base to the current catalog and returns the difference, which may be empty.
    pub fn catch_up(&mut self) -> ScopeChange {
        let next = self.catalogs.load_full();
        let change = ScopeChange {
            generation: next.generation,
            services: services(&self.scope, &self.base, &next),
            workloads: workloads(&self.scope, &self.base, &next),
            gateways: gateways(&self.scope, &self.base, &next),
        };
        self.base = next;
        change
    }
}

impl ClusterScope {
    fn has(&self, cluster: &ClusterId) -> bool {
        match self {
            Self::All => true,
            Self::Cluster(own) => own == cluster,
        }
    }
    fn declares(&self, view: &ServiceView) -> bool {
        view.declarations.iter().any(|d| self.has(&d.shard.registry.cluster))
    }
}

fn services(
    scope: &ClusterScope,
    old: &Catalog,
    new: &Catalog,
) -> Vec<(ServiceKey, Option<Arc<ServiceView>>)> {
    let mut out = Vec::new();
    for item in old.hosts.diff(&new.hosts) {
        match item {
            DiffItem::Add(_, entry) => claimants(scope, None, Some(entry), &mut out),
            DiffItem::Update { old: (_, old), new: (_, new) } => {
                claimants(scope, Some(old), Some(new), &mut out)
            }
            DiffItem::Remove(_, entry) => claimants(scope, Some(entry), None, &mut out),
        }
    }
    out
}

fn claimants(
    scope: &ClusterScope,
    old: Option<&Shared<HostEntry>>,
    new: Option<&Shared<HostEntry>>,
    out: &mut Vec<(ServiceKey, Option<Arc<ServiceView>>)>,
) {
    let of = |entry: Option<&Shared<HostEntry>>| -> Vec<Arc<ServiceView>> {
        let all = entry.map_or(&[][..], |e| &e.claimants);
        all.iter().filter(|view| scope.declares(view)).cloned().collect()
    };
    let (old, new) = (of(old), of(new));
    for view in &new {
        if !old.iter().any(|before| Arc::ptr_eq(before, view)) {
            out.push((view.key.clone(), Some(Arc::clone(view))));
        }
    }
    let kept: BTreeSet<&ServiceKey> = new.iter().map(|view| &view.key).collect();
    let removed = old.iter().filter(|view| !kept.contains(&view.key));
    out.extend(removed.map(|view| (view.key.clone(), None)));
}

fn workloads(
    scope: &ClusterScope,
    old: &Catalog,
    new: &Catalog,
) -> Vec<(WorkloadKey, Option<Shared<WorkloadView>>)> {
    let items = old.workloads.diff(&new.workloads).map(|item| match item {
        DiffItem::Add(key, view) | DiffItem::Update { new: (key, view), .. } => {
            (key.clone(), Some(view.clone()))
        }
        DiffItem::Remove(key, _) => (key.clone(), None),
    });
    items.filter(|(key, _)| scope.has(&key.cluster)).collect()
}

fn gateways(
    scope: &ClusterScope,
    old: &Catalog,
    new: &Catalog,
) -> Vec<(GatewayKey, Option<Shared<Gateway>>)> {
    let items = old.gateways.diff(&new.gateways).map(|item| match item {
        DiffItem::Add(key, view) | DiffItem::Update { new: (key, view), .. } => {
            (key.clone(), Some(view.clone()))
        }
        DiffItem::Remove(key, _) => (key.clone(), None),
    });
    items.filter(|(key, _)| scope.has(&key.cluster)).collect()
}
