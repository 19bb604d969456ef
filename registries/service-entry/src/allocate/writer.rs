//! Writes allocated addresses: plans while this replica leads, sends few writes at once, backs off after failures.
//!
//! The source of custom resources owns and polls it, so it ends with the source's run. It receives
//! every object through [`Writer::claim`] and holds no other state of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tributary_kube_client::{
    ApiFailure, LeaderWorkQueue, ObjectName, Outcome, QueueEvent, QueuePolicy, Sends,
};
use tributary_model::{Code, Problem};
use tributary_registry_api::SplitMix;

use super::address_claim::AddressClaim;
use super::allocator::Allocator;
use super::plan::Write;
use super::range::Ranges;

/// Number of writes that are planned ahead.
const AHEAD: usize = 256;
/// Number of writes that are in flight at once.
const AT_ONCE: usize = 8;

/// The allocator holds refused entries; the other entries continue.
const POLICY: QueuePolicy =
    QueuePolicy { gather: Duration::from_millis(50), at_once: AT_ONCE, left: AHEAD / 2, halts: false };

/// Writes addresses for hosts while this replica leads.
pub(crate) struct Writer {
    allocator: Allocator,
    queue: LeaderWorkQueue<Write>,
    /// Entries whose last write was overtaken, with the version.
    overtaken: BTreeMap<ObjectName, Arc<str>>,
    /// Problems that were last reported.
    reported: BTreeMap<ObjectName, Problem>,
}

impl Writer {
    pub(crate) fn new(
        ranges: Ranges,
        leads: watch::Receiver<bool>,
        send: Sends<Write>,
        random: SplitMix,
    ) -> Self {
        Self {
            allocator: Allocator::new(ranges),
            queue: LeaderWorkQueue::new(POLICY, leads, send, random),
            overtaken: BTreeMap::new(),
            reported: BTreeMap::new(),
        }
    }
    /// Sets an entry's claim (`None`: the entry was removed).
    pub(crate) fn claim(&mut self, name: &ObjectName, claim: Option<AddressClaim>) {
        if claim.is_none() {
            self.overtaken.remove(name);
        }
        if self.allocator.claim(name, claim) {
            self.queue.plan_soon();
        }
    }

    /// Processes the next queue event. Cancel safe. `listed` is whether all entries are known; nothing
    /// is allocated before.
    pub(crate) async fn work(&mut self, listed: bool) {
        match self.queue.next(listed).await {
            QueueEvent::Plan => self.plan(),
            QueueEvent::Again => self.allocator.retry(),
            QueueEvent::Done(write, outcome) => self.done(&write, outcome),
            QueueEvent::Resigned => self.allocator.resign(),
        }
    }

    fn plan(&mut self) {
        let writes = self.allocator.plan(AHEAD);
        // More writes may be needed than one plan holds.
        if !writes.is_empty() {
            self.queue.plan_soon();
        }
        self.queue.add(writes);
    }

    fn done(&mut self, write: &Write, outcome: Outcome) {
        let why = match outcome {
            Ok(()) => {
                let (entry, was, now) = (&write.name, write.old_addresses(), write.new_addresses());
                tracing::info!(%entry, was, now, "wrote addresses of a ServiceEntry");
                return;
            }
            // The object changed since the plan; the watch delivers the new version.
            Err(ApiFailure::Conflict(why)) => self.overtaken(write).then_some(why),
            Err(refused) => Some(refused.to_string()),
        };
        let problem = why.map(|why| {
            let message = format!("writing its addresses failed: {why}; the write is retried");
            Problem { code: Code::NOT_WRITTEN, message: message.into() }
        });
        self.allocator.failed(write, problem);
        self.queue.plan_soon();
    }

    /// Whether a write of this version was overtaken before: then the conflict has a different cause.
    fn overtaken(&mut self, write: &Write) -> bool {
        let before = self.overtaken.insert(write.name.clone(), write.was.version.clone());
        before.as_ref() == Some(&write.was.version)
    }

    /// Returns the problems that began or ended since the last call.
    pub(crate) fn problem_changes(&mut self) -> Vec<(ObjectName, Option<Problem>)> {
        let now = self.allocator.problems();
        let over = self.reported.keys().filter(|name| !now.contains_key(name));
        let mut changes: Vec<_> = over.map(|name| (name.clone(), None)).collect();
        let begun = now.iter().filter(|(name, problem)| self.reported.get(**name) != Some(**problem));
        changes.extend(begun.map(|(name, problem)| ((*name).clone(), Some((*problem).clone()))));
        for (name, problem) in &changes {
            match problem {
                Some(problem) => drop(self.reported.insert(name.clone(), problem.clone())),
                None => drop(self.reported.remove(name)),
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
