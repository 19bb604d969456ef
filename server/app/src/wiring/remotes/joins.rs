//! Orders to add or rotate a cluster: executed, and tried again with a growing pause after a failure.
//!
//! The driver owns it and calls it with each order, and when a retry is due. The last order of a cluster counts: a newer one replaces
//! one that failed. Results go to the [`Board`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{ClusterId, Mono};
use tributary_registry_api::{Backoff, BackoffPolicy, Clock, RandomSource, SplitMix};
use tributary_remote::VettedKubeconfig;
use tributary_remote::roster::{Access, Action, Order, Policy, Source};

use super::clusters::Clusters;
use super::remembered::Object;
use crate::ops::clusters::board::{Board, JoinFailure};
use crate::ops::clusters::conditions::object as shown;

/// Longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(60);

/// Executes orders to add and rotate clusters.
pub(super) struct Joins {
    board: Board,
    clock: Arc<dyn Clock>,
    random: SplitMix,
    waiting: Waiting<(Order, VettedKubeconfig)>,
}

impl Joins {
    pub(super) fn new(board: Board, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { board, clock, random: SplitMix::seeded(seed), waiting: Waiting::default() }
    }
    /// Executes an order with its kubeconfig.
    pub(super) async fn put(&mut self, clusters: &Clusters, order: Order, kubeconfig: VettedKubeconfig) {
        let cluster = order.cluster.clone();
        let is_filling = clusters.is_filling(&order.registry);
        let (object, policy) = declaration(&order);
        let put = (object, kubeconfig.clone(), &policy);
        match clusters.put(&order.registry, &cluster, put).await {
            Ok(()) => {
                self.waiting.forget(&cluster);
                let is_rotation = matches!(order.action, Action::Rotate(_));
                self.board.took(&cluster, kubeconfig.validity(), is_rotation, is_filling);
                added(&order, is_rotation);
            }
            Err(error) => {
                let (now, reason) = (self.clock.now(), error.to_string());
                let what = (order, kubeconfig);
                let failure = self.waiting.failed(now, cluster.clone(), what, reason, &mut self.random);
                if failure.since == now {
                    tracing::error!(%cluster, %error, "a remote cluster could not be added or changed; trying again");
                }
                self.board.failed(&cluster, failure);
            }
        }
    }
    /// Drops what waits for a cluster that leaves.
    pub(super) fn forget(&mut self, cluster: &ClusterId) {
        self.waiting.forget(cluster);
    }
    /// Returns the time of the next retry.
    pub(super) fn next_due(&self) -> Option<Mono> {
        self.waiting.next_due()
    }
    /// Executes the orders whose retry is due.
    pub(super) async fn retry(&mut self, clusters: &Clusters) {
        for (order, kubeconfig) in self.waiting.due(self.clock.now()) {
            self.put(clusters, order, kubeconfig).await;
        }
    }
}

/// Returns the object whose claim an order follows, and its policy.
fn declaration(order: &Order) -> (Object<'_>, Policy) {
    match &order.action {
        Action::Join(access) | Action::Rotate(access) => {
            let Access { source, object, policy, .. } = access;
            ((*source, object), policy.clone())
        }
        Action::Pause | Action::Leave => ((Source::ConfigFile, ""), Policy::default()),
    }
}

fn added(order: &Order, is_rotation: bool) {
    let (cluster, registry, (source, object)) = (&order.cluster, &order.registry, declaration(order).0);
    let object = shown(source, object);
    if is_rotation {
        tracing::info!(%cluster, %registry, object, "credential of a remote cluster changed");
    } else {
        tracing::info!(%cluster, %registry, object, "remote cluster added");
    }
}

/// Failed work by cluster, with its pauses.
struct Waiting<T>(BTreeMap<ClusterId, Failed<T>>);

struct Failed<T> {
    /// Work to try again; `None` while it is under way.
    what: Option<T>,
    backoff: Backoff,
    since: Mono,
    next: Mono,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Waiting<T> {
    /// Stores failed work and returns when it is tried again.
    fn failed(
        &mut self,
        now: Mono,
        cluster: ClusterId,
        what: T,
        reason: String,
        random: &mut impl RandomSource,
    ) -> JoinFailure {
        let policy = BackoffPolicy { cap: LONGEST, ..BackoffPolicy::default() };
        let new = || Failed { what: None, backoff: Backoff::new(policy), since: now, next: now };
        let entry = self.0.entry(cluster).or_insert_with(new);
        entry.next = now.plus(entry.backoff.next(random));
        entry.what = Some(what);
        JoinFailure { reason, since: entry.since, next: entry.next }
    }
    fn forget(&mut self, cluster: &ClusterId) {
        self.0.remove(cluster);
    }
    fn next_due(&self) -> Option<Mono> {
        self.0.values().filter(|one| one.what.is_some()).map(|one| one.next).min()
    }
    /// Takes the work that is due. The pauses of a cluster go on growing until it is forgotten.
    fn due(&mut self, now: Mono) -> Vec<T> {
        self.0.values_mut().filter(|one| one.next <= now).filter_map(|one| one.what.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_order_is_tried_again_with_growing_pauses_until_it_succeeds() {
        let (mut waiting, mut random) = (Waiting::default(), SplitMix::seeded(1));
        let east = || ClusterId::new("east").unwrap();
        let mut now = Mono(1_000);
        let mut pauses = Vec::new();
        for attempt in 0..40 {
            let failure = waiting.failed(now, east(), attempt, "full".to_owned(), &mut random);
            assert_eq!((failure.since, waiting.next_due()), (Mono(1_000), Some(failure.next)));
            assert!(waiting.due(Mono(failure.next.0 - 1)).is_empty(), "not before its time");
            pauses.push(failure.next.since(now));
            now = failure.next;
            assert_eq!(waiting.due(now), [attempt], "the last order counts");
            assert_eq!(waiting.next_due(), None, "it is under way");
        }
        assert!(pauses.iter().all(|pause| *pause <= LONGEST), "{pauses:?}");
        assert!(pauses[0] < Duration::from_secs(5) && pauses[30..].iter().any(|pause| *pause > LONGEST / 4));
        waiting.forget(&east());
        let failure = waiting.failed(now, east(), 0, "full".to_owned(), &mut random);
        assert_eq!(failure.since, now, "a success ended the row");
        assert!(failure.next.since(now) < Duration::from_secs(5));
    }

    #[test]
    fn newer_order_replaces_one_that_waits() {
        let (mut waiting, mut random) = (Waiting::default(), SplitMix::seeded(1));
        let east = || ClusterId::new("east").unwrap();
        waiting.failed(Mono(1), east(), "old", String::new(), &mut random);
        let failure = waiting.failed(Mono(2), east(), "new", String::new(), &mut random);
        assert_eq!(waiting.due(failure.next), ["new"]);
    }
}
