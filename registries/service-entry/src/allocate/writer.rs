//! The one who writes: plans while it leads, writes a few at a time, and waits after failures.
//!
//! Owned and polled by the source of custom resources, so that it ends with the source's run. It hears
//! of every object through [`Writer::claim`] and keeps no other picture of the cluster.

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

/// How many writes are planned ahead.
const AHEAD: usize = 256;
/// How many are sent at once.
const AT_ONCE: usize = 8;

/// Entries that are refused are held by the allocator, and the others go on.
const PACE: QueuePolicy =
    QueuePolicy { gather: Duration::from_millis(50), at_once: AT_ONCE, left: AHEAD / 2, halts: false };

/// Gives addresses to hosts while it leads.
pub(crate) struct Writer {
    allocator: Allocator,
    duty: LeaderWorkQueue<Write>,
    /// In which version entries were overtaken.
    overtaken: BTreeMap<ObjectName, Arc<str>>,
    /// What has been said to be wrong.
    told: BTreeMap<ObjectName, Problem>,
}

impl Writer {
    pub(crate) fn new(
        ranges: Ranges,
        leads: watch::Receiver<bool>,
        send: Sends<Write>,
        chance: SplitMix,
    ) -> Self {
        Self {
            allocator: Allocator::new(ranges),
            duty: LeaderWorkQueue::new(PACE, leads, send, chance),
            overtaken: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }
    /// An entry claims this now; nothing where it is gone.
    pub(crate) fn claim(&mut self, name: &ObjectName, claim: Option<AddressClaim>) {
        if claim.is_none() {
            self.overtaken.remove(name);
        }
        if self.allocator.claim(name, claim) {
            self.duty.plan_soon();
        }
    }

    /// Works for a while. May be dropped while it waits: nothing is lost. `listed` says whether all
    /// entries are known; before that nothing may be given out.
    pub(crate) async fn work(&mut self, listed: bool) {
        match self.duty.next(listed).await {
            QueueEvent::Plan => self.plan(),
            QueueEvent::Again => self.allocator.retry(),
            QueueEvent::Done(write, outcome) => self.done(&write, outcome),
            QueueEvent::Resigned => self.allocator.resign(),
        }
    }

    fn plan(&mut self) {
        let writes = self.allocator.plan(AHEAD);
        // there may be more than was asked for
        if !writes.is_empty() {
            self.duty.plan_soon();
        }
        self.duty.add(writes);
    }

    fn done(&mut self, write: &Write, outcome: Outcome) {
        let why = match outcome {
            Ok(()) => {
                let (entry, was, now) = (&write.name, write.was_given(), write.gives());
                tracing::info!(%entry, was, now, "the addresses of a ServiceEntry are written");
                return;
            }
            // the object is not what it was any more; the watch says what it is
            Err(ApiFailure::Conflict(why)) => self.overtaken(write).then_some(why),
            Err(refused) => Some(refused.to_string()),
        };
        let problem = why.map(|why| {
            let message = format!("its addresses could not be written: {why}; it is tried again");
            Problem { code: Code::NOT_WRITTEN, message: message.into() }
        });
        self.allocator.failed(write, problem);
        self.duty.plan_soon();
    }

    /// Whether this very version was overtaken before: then it was not, and something else is wrong.
    fn overtaken(&mut self, write: &Write) -> bool {
        let before = self.overtaken.insert(write.name.clone(), write.was.version.clone());
        before.as_ref() == Some(&write.was.version)
    }

    /// What has become wrong or right since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<(ObjectName, Option<Problem>)> {
        let now = self.allocator.problems();
        let over = self.told.keys().filter(|name| !now.contains_key(name));
        let mut news: Vec<_> = over.map(|name| (name.clone(), None)).collect();
        let begun = now.iter().filter(|(name, problem)| self.told.get(**name) != Some(**problem));
        news.extend(begun.map(|(name, problem)| ((*name).clone(), Some((*problem).clone()))));
        for (name, problem) in &news {
            match problem {
                Some(problem) => drop(self.told.insert(name.clone(), problem.clone())),
                None => drop(self.told.remove(name)),
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
