//! Index of streams by the changes that wake them: bulk streams (wildcard or many names) by every change of what
//! they see, streams with few names by the hosts of those names, and all by what may change their class.
//!
//! A publication may carry a catalog that is newer than its changes, so what streams see is compared with the
//! catalog of the publication before, and not only for the hosts that the changes name.
//!
//! Streams register here before they load a catalog; the fan-out task calls
//! [`InterestIndex::published`] after the core task has published. So no wake-up is lost: a stream that
//! registers too late to be found loads a catalog that contains the change. Nothing is queued: a
//! wake-up is a flag and a short list of hosts.

mod attached;
mod bulk;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use dashmap::DashMap;
use parking_lot::Mutex;
use tributary_model::{Catalog, CatalogChanges, Hostname, ObservedSince};

use crate::answers::ClientClassKey;
use crate::client::ClientNode;
use crate::session::{ChangedHosts, Interest};

use attached::Attached;
use bulk::{Bulk, Sight};

/// Wakes one stream.
#[derive(Debug, Default)]
pub struct Wake {
    state: Mutex<State>,
    /// Number of streams of the index with an unhandled wake-up.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct State {
    touched: ChangedHosts,
    /// When the changes behind the wake-up were first known.
    observed: ObservedSince,
    /// Whether the stream was woken and has not handled it yet.
    unhandled: bool,
    /// The stream's task, while it waits.
    waiter: Option<Waker>,
}

impl State {
    fn take(&mut self) -> Option<(ChangedHosts, ObservedSince)> {
        let touched = std::mem::take(&mut self.touched);
        (touched != ChangedHosts::Nothing).then(|| (touched, std::mem::take(&mut self.observed)))
    }
}

impl Wake {
    /// Wakes the stream for any change.
    pub fn wake(&self, observed: ObservedSince) {
        self.note(observed, |touched| *touched = ChangedHosts::Everything);
    }
    /// Wakes the stream for a host.
    pub fn wake_for(&self, host: &Hostname, observed: ObservedSince) {
        self.note(observed, |touched| touched.add(host));
    }
    /// Waits for a wake-up. Returns its hosts and when the change was first known. Cancel-safe.
    pub async fn woken(&self) -> (ChangedHosts, ObservedSince) {
        poll_fn(|cx| self.poll_woken(cx)).await
    }
    /// As [`Wake::woken`]; wakes the task that polled last.
    pub fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<(ChangedHosts, ObservedSince)> {
        let mut state = self.state.lock();
        if let Some(woken) = state.take() {
            return Poll::Ready(woken);
        }
        if !state.waiter.as_ref().is_some_and(|waiter| waiter.will_wake(cx.waker())) {
            state.waiter = Some(cx.waker().clone());
        }
        Poll::Pending
    }
    /// Records that the stream has handled every wake-up that it took.
    pub fn handled(&self) {
        let mut state = self.state.lock();
        if state.touched == ChangedHosts::Nothing && std::mem::take(&mut state.unhandled) {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
    fn note(&self, observed: ObservedSince, note: impl FnOnce(&mut ChangedHosts)) {
        let mut state = self.state.lock();
        let sleeps = state.touched == ChangedHosts::Nothing;
        note(&mut state.touched);
        state.observed.merge(observed);
        if !std::mem::replace(&mut state.unhandled, true) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
        let waiter = if sleeps { state.waiter.take() } else { None };
        drop(state);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if self.state.get_mut().unhandled {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

type Waiters = Vec<(u64, Arc<Wake>)>;

/// Index of streams. Its host names need not exist.
#[derive(Debug, Default)]
pub struct InterestIndex {
    hosts: DashMap<Hostname, Waiters>,
    /// Streams by the hosts of the services that select their own workload.
    own: DashMap<Hostname, Waiters>,
    bulk: Bulk,
    named: DashMap<u64, Arc<Wake>>,
    attached: Attached,
    /// Catalog of the last publication.
    last: Mutex<Arc<Catalog>>,
    /// Streams with names that are held until something more has been read.
    holding: DashMap<u64, Arc<Wake>>,
    next: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

impl InterestIndex {
    /// Creates the waker of a stream that is to be registered here.
    #[must_use]
    pub fn wake(&self) -> Arc<Wake> {
        Arc::new(Wake { state: Mutex::default(), waiting: Arc::clone(&self.waiting) })
    }
    /// Returns the number of streams with an unhandled wake-up.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
    /// Registers a stream; nothing wakes it until [`Registration::update`].
    #[must_use]
    pub fn register(self: &Arc<Self>, wake: Arc<Wake>, node: Arc<ClientNode>) -> Registration {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.attached.watch(&node, id, &wake);
        let (interest, own) = (Interest::Hosts(Vec::new()), Vec::new());
        Registration { index: Arc::clone(self), id, wake, node, interest, own, sight: None, holds: false }
    }
    /// Wakes the streams that a generation may concern, and returns the number of wake-ups. A change of settings or
    /// gateways may concern every name; completeness concerns streams that hold names back.
    pub fn published(&self, now: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) -> usize {
        if !changed.concerns_clients() {
            return 0;
        }
        let mut woken = if changed.complete { wake_all(&self.holding, observed) } else { 0 };
        if changed.concerns_resources() {
            let before = Arc::clone(&self.last.lock());
            woken += self.wake_concerned(&before, now, changed, observed);
            *self.last.lock() = Arc::clone(now);
        }
        woken
    }
    fn wake_concerned(
        &self,
        before: &Catalog,
        now: &Catalog,
        changed: &CatalogChanges,
        observed: ObservedSince,
    ) -> usize {
        if changed.settings || changed.gateways {
            return self.bulk.wake_all(now, observed) + wake_all(&self.named, observed);
        }
        let mut woken = self.bulk.wake_for(before, now, observed);
        for host in &changed.hosts {
            woken += wake_of(&self.hosts, host, |wake| wake.wake_for(host, observed));
            woken += wake_of(&self.own, host, |wake| wake.wake(observed));
        }
        woken += self.attached.wake_workloads(before, now, observed);
        woken + self.attached.wake((before, now), &changed.policies, observed)
    }
    /// Returns the number of indexed hosts and of registered streams.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.hosts.len(), self.bulk.len() + self.named.len())
    }
    /// Whether no stream is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

type ByHost = DashMap<Hostname, Waiters>;

/// Replaces the hosts of a stream in a table; both lists are sorted.
fn replace(table: &ByHost, (id, wake): (u64, &Arc<Wake>), before: &[Hostname], after: &[Hostname]) {
    for host in after.iter().filter(|host| before.binary_search(host).is_err()) {
        table.entry(host.clone()).or_default().push((id, Arc::clone(wake)));
    }
    for host in before.iter().filter(|host| after.binary_search(host).is_err()) {
        if let Some(mut waiters) = table.get_mut(host) {
            waiters.retain(|(waiter, _)| *waiter != id);
        }
        table.remove_if(host, |_, waiters| waiters.is_empty());
    }
}

fn wake_of(table: &ByHost, host: &Hostname, how: impl Fn(&Wake)) -> usize {
    table.get(host).map_or(0, |waiters| wake_each(&waiters, how))
}

fn wake_all(all: &DashMap<u64, Arc<Wake>>, observed: ObservedSince) -> usize {
    all.iter().for_each(|entry| entry.value().wake(observed));
    all.len()
}

fn wake_each(waiters: &Waiters, how: impl Fn(&Wake)) -> usize {
    waiters.iter().for_each(|(_, wake)| how(wake));
    waiters.len()
}

/// Registration of one stream; dropping it unregisters the stream.
#[derive(Debug)]
pub struct Registration {
    index: Arc<InterestIndex>,
    id: u64,
    wake: Arc<Wake>,
    node: Arc<ClientNode>,
    interest: Interest,
    /// Hosts of the services that select its workload, sorted.
    own: Vec<Hostname>,
    /// What it sees, if it is a bulk stream.
    sight: Option<Sight>,
    holds: bool,
}

impl Registration {
    /// Sets whether the stream holds names back until something more has been read. Returns whether it begins to.
    pub fn hold(&mut self, holds: bool) -> bool {
        if std::mem::replace(&mut self.holds, holds) == holds {
            return false;
        }
        if holds {
            self.index.holding.insert(self.id, Arc::clone(&self.wake));
        } else {
            self.index.holding.remove(&self.id);
        }
        holds
    }
    /// Replaces the changes that wake the stream: those of its interest, of what its class sees, and of the hosts
    /// whose services select its workload, sorted.
    pub fn update(&mut self, interest: Interest, class: &ClientClassKey, own: Vec<Hostname>) {
        let sight = (interest == Interest::Every).then(|| Sight::of(class));
        self.set_hosts(interest, own);
        self.index.attached.insert(self.id, &self.wake, &self.node, class);
        self.set_sight(sight);
    }
    fn set_hosts(&mut self, interest: Interest, own: Vec<Hostname>) {
        let stream = (self.id, &self.wake);
        replace(&self.index.hosts, stream, self.interest.hosts(), interest.hosts());
        replace(&self.index.own, stream, &self.own, &own);
        (self.interest, self.own) = (interest, own);
    }
    fn set_sight(&mut self, sight: Option<Sight>) {
        let old = std::mem::replace(&mut self.sight, sight);
        match &self.sight {
            Some(sight) => {
                let at = self.index.last.lock().generation;
                self.index.bulk.insert(sight.clone(), self.id, Arc::clone(&self.wake), at);
                self.index.named.remove(&self.id);
            }
            None => drop(self.index.named.insert(self.id, Arc::clone(&self.wake))),
        }
        if let Some(old) = old.filter(|old| Some(old) != self.sight.as_ref()) {
            self.index.bulk.remove(&old, self.id);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.set_hosts(Interest::Hosts(Vec::new()), Vec::new());
        self.set_sight(None);
        self.index.named.remove(&self.id);
        self.hold(false);
        self.index.attached.remove(self.id, &self.node);
    }
}

#[cfg(test)]
mod tests;
