//! Clusters that leave: a plan of what becomes empty, a drain in which their endpoints are used after those of others, the removal of
//! both registries in one turn, and a receipt.
//!
//! The driver begins a departure with the Leave of the roster and asks the roster again after the drain, once a list of the Secrets that
//! began after the Leave is complete: a claim that came back by then makes it void, and the endpoints have their priority again. Nothing
//! is removed without a receipt.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tributary_model::{ClusterId, RegistryName};
use tributary_remote::roster::Order;

use super::clusters::Clusters;
use crate::document::{LeavePlan, ReceiptItem};
use crate::ops::receipts::Receipts;

/// Cluster that is leaving.
#[derive(Debug, Clone)]
struct Departure {
    number: u64,
    receipt: ReceiptItem,
    registry: RegistryName,
    /// Request of the list that must be complete before the removal.
    relist: Option<u64>,
    stage: Stage,
}

/// How far a departure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Draining,
    Drained,
    Removing,
}

/// End of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The drain of the Leave with this number is over.
    Drained(ClusterId, u64),
    /// The facts are removed.
    Removed(ClusterId, u64),
}

/// Clusters that are leaving.
pub(super) struct Departures {
    clusters: Clusters,
    drain: Duration,
    receipts: Receipts,
    steps: JoinSet<Step>,
    leaving: BTreeMap<ClusterId, Departure>,
    /// Object that declared each cluster last.
    objects: BTreeMap<ClusterId, String>,
}

impl Departures {
    pub(super) fn new(clusters: Clusters, drain: Duration) -> Self {
        let (leaving, objects) = (BTreeMap::new(), BTreeMap::new());
        Self { clusters, drain, receipts: Receipts::default(), steps: JoinSet::new(), leaving, objects }
    }
    /// Adds receipts here from now on.
    pub(super) fn record_in(&mut self, receipts: Receipts) {
        self.receipts = receipts;
    }
    /// Notes which object declares a cluster.
    pub(super) fn declared(&mut self, cluster: &ClusterId, object: &str) {
        self.objects.insert(cluster.clone(), object.to_owned());
    }
    /// Waits for the end of a step; never returns while no cluster leaves.
    pub(super) async fn next(&mut self) -> Step {
        loop {
            match self.steps.join_next().await {
                Some(Ok(step)) => return step,
                Some(Err(error)) => tracing::error!(%error, "the removal of a remote cluster failed"),
                None => return std::future::pending().await,
            }
        }
    }

    /// Plans the removal, and drains for this time, or as configured. `relist` is the request of a list to wait for.
    pub(super) async fn begin(&mut self, order: Order, drain: Option<Duration>, relist: Option<u64>) {
        let Order { number, cluster, registry, .. } = order;
        let (plan, generation) = self.clusters.plan(&registry);
        let drain = drain.unwrap_or(self.drain);
        log_plan(&cluster, &plan, drain);
        let receipt = ReceiptItem {
            cluster: cluster.to_string(),
            registry: registry.to_string(),
            object: self.objects.get(&cluster).cloned().unwrap_or_default(),
            generation,
            began: Timestamp::now(),
            plan,
            removed: Timestamp::UNIX_EPOCH,
        };
        if !drain.is_zero() {
            self.clusters.demote(&registry, true).await;
        }
        let departure = Departure { number, receipt, registry, relist, stage: Stage::Draining };
        self.leaving.insert(cluster.clone(), departure);
        self.steps.spawn(async move {
            tokio::time::sleep(drain).await;
            Step::Drained(cluster, number)
        });
    }

    /// Notes that the drain of a Leave is over.
    pub(super) fn drained(&mut self, cluster: &ClusterId, number: u64) {
        let departure = self.leaving.get_mut(cluster).filter(|departure| departure.number == number);
        let Some(departure) = departure else { return };
        departure.stage = Stage::Drained;
        if departure.relist.is_some() {
            tracing::debug!(%cluster, "drained; it is removed once a new list of the Secrets lacks it");
        }
    }

    /// Returns the Leaves whose drain is over and whose list is complete.
    pub(super) fn ready(&self, is_answered: impl Fn(u64) -> bool) -> Vec<(ClusterId, u64)> {
        let is_ready = |departure: &Departure| {
            departure.stage == Stage::Drained && departure.relist.is_none_or(&is_answered)
        };
        let ready = self.leaving.iter().filter(|(_, departure)| is_ready(departure));
        ready.map(|(cluster, departure)| (cluster.clone(), departure.number)).collect()
    }

    /// Removes a cluster whose drain is over.
    pub(super) fn remove(&mut self, cluster: ClusterId, number: u64) {
        let departure = self.leaving.get_mut(&cluster).filter(|departure| departure.number == number);
        let Some(departure) = departure else { return };
        departure.stage = Stage::Removing;
        let (clusters, registry) = (self.clusters.clone(), departure.registry.clone());
        self.steps.spawn(async move {
            clusters.remove(&registry, &cluster).await;
            Step::Removed(cluster, number)
        });
    }

    /// Writes the receipt of a removed cluster.
    pub(super) fn removed(&mut self, cluster: &ClusterId) {
        let Some(departure) = self.leaving.remove(cluster) else { return };
        self.objects.remove(cluster);
        let LeavePlan { services, endpoints, emptied, .. } = departure.receipt.plan;
        tracing::info!(%cluster, services, endpoints, emptied, "remote cluster removed");
        self.receipts.add(ReceiptItem { removed: Timestamp::now(), ..departure.receipt });
        if self.receipts.are_kept() {
            let receipts = self.receipts.clone();
            tokio::task::spawn_blocking(move || receipts.write());
        }
    }

    /// Ends the drains of clusters that are declared again, as `leaves` finds out for a cluster and the number of its Leave.
    pub(super) async fn keep_returned(&mut self, leaves: impl Fn(&ClusterId, u64) -> bool) {
        let is_back = |(cluster, departure): &(&ClusterId, &Departure)| {
            departure.stage != Stage::Removing && !leaves(cluster, departure.number)
        };
        let back: Vec<ClusterId> =
            self.leaving.iter().filter(is_back).map(|(cluster, _)| cluster.clone()).collect();
        for cluster in back {
            let Some(departure) = self.leaving.remove(&cluster) else { continue };
            tracing::info!(%cluster, "remote cluster is declared again; it stays");
            self.clusters.demote(&departure.registry, false).await;
        }
    }
}

fn log_plan(cluster: &ClusterId, plan: &LeavePlan, drain: Duration) {
    let LeavePlan { services, endpoints, emptied, hosts } = plan;
    let hosts = hosts.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
    if *emptied == 0 {
        tracing::info!(%cluster, services, endpoints, ?drain, "remote cluster leaves");
    } else {
        tracing::warn!(
            %cluster, services, endpoints, ?drain, emptied, hosts,
            "remote cluster leaves; hosts keep no endpoint"
        );
    }
}
