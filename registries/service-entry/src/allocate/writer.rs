//! The one who writes: plans while it leads, writes a few at a time, and waits after failures.
//!
//! Owned and polled by the source of custom resources, so that it ends with the source's run. It hears
//! of every object through [`Writer::claim`] and keeps no other picture of the cluster.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tributary_kube_client::ObjectName;
use tributary_model::{Code, Problem};
use tributary_registry_api::{Backoff, BackoffPolicy, SplitMix};

use super::allocator::Allocator;
use super::claim::Claim;
use super::plan::Write;
use super::range::Ranges;

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was made.
    Made,
    /// The object is not what it was any more, as the server puts it; the watch says what it is.
    Overtaken(String),
    /// It could not be made, for this reason.
    Refused(String),
}

/// Makes one write.
pub(crate) type Sends = Box<dyn Fn(&Write) -> BoxFuture<'static, Outcome> + Send>;

/// How long words of the watch are gathered before the next plan.
const GATHER: std::time::Duration = std::time::Duration::from_millis(50);
/// How many writes are planned ahead.
const AHEAD: usize = 256;
/// How many are sent at once.
const AT_ONCE: usize = 8;

/// Gives addresses to hosts while it leads.
pub(crate) struct Writer {
    allocator: Allocator,
    send: Sends,
    leads: watch::Receiver<bool>,
    leading: bool,
    queue: VecDeque<Write>,
    sent: FuturesUnordered<BoxFuture<'static, (Write, Outcome)>>,
    /// When to plan next; nothing where nothing has changed.
    due: Option<Instant>,
    /// When to try again what failed.
    again: Option<Instant>,
    backoff: Backoff,
    chance: SplitMix,
    /// In which version entries were overtaken.
    overtaken: BTreeMap<ObjectName, Arc<str>>,
    /// What has been said to be wrong.
    told: BTreeMap<ObjectName, Problem>,
}

impl Writer {
    pub(crate) fn new(ranges: Ranges, leads: watch::Receiver<bool>, send: Sends, chance: SplitMix) -> Self {
        Self {
            allocator: Allocator::new(ranges),
            send,
            leads,
            leading: false,
            queue: VecDeque::new(),
            sent: FuturesUnordered::new(),
            due: None,
            again: None,
            backoff: Backoff::new(BackoffPolicy::default()),
            chance,
            overtaken: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }
    /// An entry claims this now; nothing where it is gone.
    pub(crate) fn claim(&mut self, name: &ObjectName, claim: Option<Claim>) {
        if claim.is_none() {
            self.overtaken.remove(name);
        }
        if self.allocator.claim(name, claim) {
            self.plan_soon();
        }
    }
    fn plan_soon(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + GATHER);
    }

    /// Works for a while. May be dropped while it waits: nothing is lost. `listed` says whether all
    /// entries are known; before that nothing may be given out.
    pub(crate) async fn work(&mut self, listed: bool) {
        self.lead();
        while self.sent.len() < AT_ONCE
            && let Some(write) = self.queue.pop_front()
        {
            let sent = (self.send)(&write);
            self.sent.push(Box::pin(async move { (write, sent.await) }));
        }
        let due = self.due.filter(|_| self.leading && listed && self.allocator.under_way() <= AHEAD / 2);
        tokio::select! {
            Some((write, outcome)) = self.sent.next(), if !self.sent.is_empty() => self.done(&write, outcome),
            () = at(due), if due.is_some() => self.plan(),
            () = at(self.again), if self.again.is_some() => self.retry(),
            () = changed(&mut self.leads) => {}
        }
    }

    fn plan(&mut self) {
        self.due = None;
        let writes = self.allocator.plan(AHEAD);
        // there may be more than was asked for
        if !writes.is_empty() {
            self.plan_soon();
        }
        self.queue.extend(writes);
    }

    fn done(&mut self, write: &Write, outcome: Outcome) {
        let why = match outcome {
            Outcome::Made => return self.backoff.reset(),
            Outcome::Overtaken(why) => self.overtaken(write).then_some(why),
            Outcome::Refused(why) => Some(why),
        };
        let problem = why.map(|why| {
            let message = format!("its addresses could not be written: {why}; it is tried again");
            Problem { code: Code::NOT_WRITTEN, message: message.into() }
        });
        self.allocator.failed(write, problem);
        if self.again.is_none() {
            self.again = Some(Instant::now() + self.backoff.next(&mut self.chance));
        }
        self.plan_soon();
    }

    /// Whether this very version was overtaken before: then it was not, and something else is wrong.
    fn overtaken(&mut self, write: &Write) -> bool {
        let before = self.overtaken.insert(write.name.clone(), write.was.version.clone());
        before.as_ref() == Some(&write.was.version)
    }

    fn retry(&mut self) {
        self.again = None;
        if self.allocator.retry() {
            self.plan_soon();
        }
    }

    fn lead(&mut self) {
        let leads = *self.leads.borrow_and_update();
        if leads && !self.leading {
            self.plan_soon();
        } else if !leads && self.leading {
            self.resign();
        }
        self.leading = leads;
    }

    /// What was sent may still arrive; it shows in the objects then, to us as to the next.
    fn resign(&mut self) {
        self.queue.clear();
        self.sent.clear();
        self.again = None;
        self.allocator.resign();
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

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

async fn changed(leads: &mut watch::Receiver<bool>) {
    if leads.changed().await.is_err() {
        // whoever decided has ended: nothing changes any more
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
