//! Workloads and gateways of each cluster: a handler per cluster adds what changes.
//!
//! Started with the server. `get clusters`, `cluster describe` and metrics read the sums; a report walks no catalog. The sums of a
//! cluster are gone after its removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tributary_model::ClusterId;
use tributary_runtime::{Handle, ObjectChange, ScopeChange, ScopeSubscription};

/// Objects that registries with the ID of one cluster report. Services and endpoints are counted by registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Workloads.
    pub workloads: u64,
    /// Addresses of gateways.
    pub gateways: u64,
}

impl ObjectCounts {
    fn apply(&mut self, change: &ScopeChange) {
        add(&mut self.workloads, &change.workloads);
        add(&mut self.gateways, &change.gateways);
    }
}

fn add<K, V>(count: &mut u64, changes: &[ObjectChange<K, V>]) {
    let added = changes.iter().filter(|one| one.before.is_none()).count() as u64;
    let removed = changes.iter().filter(|one| one.after.is_none()).count() as u64;
    *count = count.saturating_add(added).saturating_sub(removed);
}

/// Sums of all clusters. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ClusterObjects(Arc<Mutex<BTreeMap<ClusterId, ObjectCounts>>>);

impl ClusterObjects {
    /// Returns the sums, by cluster.
    #[must_use]
    pub fn all(&self) -> BTreeMap<ClusterId, ObjectCounts> {
        self.0.lock().clone()
    }
    /// Counts until the server stops.
    pub async fn follow(self, handle: Handle, stop: CancellationToken) {
        let count = |cluster, subscription| self.clone().count(cluster, subscription);
        tokio::select! {
            () = stop.cancelled() => {}
            () = handle.per_cluster(count) => {}
        }
    }
    async fn count(self, cluster: ClusterId, mut subscription: ScopeSubscription) {
        while let Some(change) = subscription.next().await {
            self.0.lock().entry(cluster.clone()).or_default().apply(&change);
        }
        self.0.lock().remove(&cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_objects_are_counted_once() {
        let change = |key: u8, before: Option<u8>, after: Option<u8>| ObjectChange { key, before, after };
        let mut count = 0;
        add(&mut count, &[change(1, None, Some(1)), change(2, None, Some(1))]);
        assert_eq!(count, 2);
        add(&mut count, &[change(1, Some(1), Some(2)), change(2, Some(1), None), change(3, None, Some(1))]);
        assert_eq!(count, 2);
        add(&mut count, &[change(1, Some(2), None), change(3, Some(1), None)]);
        assert_eq!(count, 0);
    }
}
