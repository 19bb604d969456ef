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
        add(&mut self.workloads, &change.workloads, |_| true);
        add(&mut self.gateways, &change.gateways, |gateway| gateway.address.is_some());
    }
}

fn add<K, V>(count: &mut u64, changes: &[ObjectChange<K, V>], is_counted: impl Fn(&V) -> bool) {
    let has = |side: &Option<V>| side.as_ref().is_some_and(&is_counted);
    let added = changes.iter().filter(|one| !has(&one.before) && has(&one.after)).count() as u64;
    let removed = changes.iter().filter(|one| has(&one.before) && !has(&one.after)).count() as u64;
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
        let mut add = |changes: &[ObjectChange<u8, u8>]| {
            add(&mut count, changes, |value| *value > 0);
            count
        };
        assert_eq!(add(&[change(1, None, Some(1)), change(2, None, Some(1)), change(4, None, Some(0))]), 2);
        let three = [change(1, Some(1), Some(2)), change(2, Some(1), None), change(3, None, Some(1))];
        assert_eq!(add(&three), 2);
        assert_eq!(add(&[change(1, Some(2), Some(0)), change(4, Some(0), Some(1))]), 2, "one each way");
        assert_eq!(add(&[change(1, Some(0), None), change(3, Some(1), None), change(4, Some(1), None)]), 0);
    }
}
