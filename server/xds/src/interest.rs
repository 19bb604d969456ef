//! Index of streams by the changes that wake them: bulk streams (wildcard or many names) by every
//! generation, streams with few names by the hosts of those names.
//!
//! Streams register here before they load a catalog; the fan-out task calls
//! [`InterestIndex::published`] after the core task has published. So no wake-up is lost: a stream that
//! registers too late to be found loads a catalog that contains the change. Nothing is queued: a
//! wake-up is a flag and a short list of hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_model::{Catalog, CatalogChanges, Hostname, Namespace, ObservedSince};

use crate::session::{ChangedHosts, Interest};

/// Wakes one stream.
#[derive(Debug, Default)]
pub struct Wake {
    state: Mutex<State>,
    notify: Notify,
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
        loop {
            if let Some(woken) = self.take() {
                return woken;
            }
            self.notify.notified().await;
        }
    }
    /// Records that the stream has handled every wake-up that it took.
    pub fn handled(&self) {
        let mut state = self.state.lock();
        if state.touched == ChangedHosts::Nothing && std::mem::take(&mut state.unhandled) {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
    fn take(&self) -> Option<(ChangedHosts, ObservedSince)> {
        let mut state = self.state.lock();
        let touched = std::mem::take(&mut state.touched);
        (touched != ChangedHosts::Nothing).then(|| (touched, std::mem::take(&mut state.observed)))
    }
    fn note(&self, observed: ObservedSince, note: impl FnOnce(&mut ChangedHosts)) {
        let mut state = self.state.lock();
        let sleeps = state.touched == ChangedHosts::Nothing;
        note(&mut state.touched);
        state.observed.merge(observed);
        if !std::mem::replace(&mut state.unhandled, true) {
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
        drop(state);
        if sleeps {
            self.notify.notify_one();
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
    bulk: DashMap<u64, Arc<Wake>>,
    named: DashMap<u64, Arc<Wake>>,
    workloads: DashMap<Namespace, Waiters>,
    /// Streams with names whose removal waits for a complete catalog.
    holding: DashMap<u64, Arc<Wake>>,
    next: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

impl InterestIndex {
    /// Creates the waker of a stream that is to be registered here.
    #[must_use]
    pub fn wake(&self) -> Arc<Wake> {
        Arc::new(Wake { state: Mutex::default(), notify: Notify::new(), waiting: Arc::clone(&self.waiting) })
    }
    /// Returns the number of streams with an unhandled wake-up.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
    /// Registers a stream; nothing wakes it until [`Registration::update`]. A client with a workload also wakes
    /// for workloads of its namespace, because its class may change with them.
    #[must_use]
    pub fn register(self: &Arc<Self>, wake: Arc<Wake>, workload: Option<Namespace>) -> Registration {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(namespace) = &workload {
            self.workloads.entry(namespace.clone()).or_default().push((id, Arc::clone(&wake)));
        }
        let interest = Interest::Hosts(Vec::new());
        Registration { index: Arc::clone(self), id, wake, workload, interest, holds: false }
    }
    /// Wakes the streams that a generation may concern, and returns their number. A change of settings or
    /// gateways may concern every name; completeness concerns streams that hold names back.
    pub fn published(&self, _: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) -> usize {
        if !changed.concerns_clients() {
            return 0;
        }
        let mut woken = if changed.complete { wake_all(&self.holding, observed) } else { 0 };
        if !changed.concerns_resources() {
            return woken;
        }
        woken += wake_all(&self.bulk, observed);
        if changed.settings || changed.gateways {
            return woken + wake_all(&self.named, observed);
        }
        for host in &changed.hosts {
            woken += self
                .hosts
                .get(host)
                .map_or(0, |waiters| wake_each(&waiters, |wake| wake.wake_for(host, observed)));
        }
        let namespaces: std::collections::BTreeSet<_> =
            changed.workloads.iter().map(|key| &key.namespace).collect();
        for namespace in namespaces {
            woken += self
                .workloads
                .get(namespace)
                .map_or(0, |waiters| wake_each(&waiters, |wake| wake.wake(observed)));
        }
        woken
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
    fn leave(&self, host: &Hostname, id: u64) {
        if let Some(mut waiters) = self.hosts.get_mut(host) {
            waiters.retain(|(waiter, _)| *waiter != id);
        }
        self.hosts.remove_if(host, |_, waiters| waiters.is_empty());
    }
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
    workload: Option<Namespace>,
    interest: Interest,
    holds: bool,
}

impl Registration {
    /// Sets whether the stream holds names back until the catalog is complete. Returns whether it begins to.
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
    /// Replaces the changes that wake the stream.
    pub fn update(&mut self, interest: Interest) {
        let old = std::mem::replace(&mut self.interest, interest);
        let before: &[Hostname] = if let Interest::Hosts(hosts) = &old { hosts } else { &[] };
        let after: &[Hostname] = if let Interest::Hosts(hosts) = &self.interest { hosts } else { &[] };
        for host in after.iter().filter(|host| before.binary_search(host).is_err()) {
            let mut waiters = self.index.hosts.entry(host.clone()).or_default();
            waiters.push((self.id, Arc::clone(&self.wake)));
        }
        for host in before.iter().filter(|host| after.binary_search(host).is_err()) {
            self.index.leave(host, self.id);
        }
        let (to, from) = match self.interest {
            Interest::Every => (&self.index.bulk, &self.index.named),
            Interest::Hosts(_) => (&self.index.named, &self.index.bulk),
        };
        to.insert(self.id, Arc::clone(&self.wake));
        from.remove(&self.id);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.update(Interest::Hosts(Vec::new()));
        self.index.named.remove(&self.id);
        self.hold(false);
        if let Some(namespace) = &self.workload {
            if let Some(mut waiters) = self.index.workloads.get_mut(namespace) {
                waiters.retain(|(waiter, _)| *waiter != self.id);
            }
            self.index.workloads.remove_if(namespace, |_, waiters| waiters.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Hostname {
        Hostname::new(name).unwrap()
    }
    fn changed(hosts: &[&str]) -> CatalogChanges {
        CatalogChanges { hosts: hosts.iter().map(|h| host(h)).collect(), ..CatalogChanges::default() }
    }
    fn publish(index: &InterestIndex, changed: &CatalogChanges) -> usize {
        index.published(&Arc::default(), changed, ObservedSince::default())
    }
    fn is_woken(wake: &Wake) -> bool {
        wake.state.lock().touched != ChangedHosts::Nothing
    }
    struct Stream {
        wake: Arc<Wake>,
        registration: Registration,
    }
    fn mk_stream(index: &Arc<InterestIndex>, interest: Interest) -> Stream {
        let wake = index.wake();
        let mut registration = index.register(Arc::clone(&wake), None);
        registration.update(interest);
        Stream { wake, registration }
    }
    fn mk_hosts(names: &[&str]) -> Interest {
        Interest::Hosts(names.iter().map(|h| host(h)).collect())
    }

    #[test]
    fn only_interested_streams_are_woken() {
        let index = Arc::new(InterestIndex::default());
        let bulk = mk_stream(&index, Interest::Every);
        let a = mk_stream(&index, mk_hosts(&["a.x", "b.x"]));
        let b = mk_stream(&index, mk_hosts(&["b.x"]));
        assert_eq!(publish(&index, &changed(&["a.x", "unknown.x"])), 2);
        assert!(is_woken(&bulk.wake) && is_woken(&a.wake) && !is_woken(&b.wake));
        let settings = CatalogChanges { settings: true, ..CatalogChanges::default() };
        assert_eq!(publish(&index, &settings), 3);
        let pending = CatalogChanges { pending: true, ..CatalogChanges::default() };
        assert_eq!(publish(&index, &pending), 0, "pending services are not served");
    }

    #[test]
    fn report_of_a_registry_wakes_no_stream() {
        let index = Arc::new(InterestIndex::default());
        let (bulk, _named) = (mk_stream(&index, Interest::Every), mk_stream(&index, mk_hosts(&["a.x"])));
        let registries = CatalogChanges { registries: true, ..CatalogChanges::default() };
        assert_eq!(publish(&index, &registries), 0);
        assert!(!is_woken(&bulk.wake));
    }

    #[test]
    fn completeness_wakes_streams_that_hold_names() {
        let index = Arc::new(InterestIndex::default());
        let (_bulk, mut named) = (mk_stream(&index, Interest::Every), mk_stream(&index, mk_hosts(&["a.x"])));
        let complete = CatalogChanges { complete: true, ..CatalogChanges::default() };
        assert_eq!(publish(&index, &complete), 0);
        assert!(named.registration.hold(true) && !named.registration.hold(true));
        assert_eq!(publish(&index, &complete), 1);
        named.registration.hold(false);
        assert_eq!(publish(&index, &complete), 0);
        named.registration.hold(true);
        drop(named);
        assert!(index.holding.is_empty());
    }

    #[test]
    fn a_changed_interest_replaces_the_old_one() {
        let index = Arc::new(InterestIndex::default());
        let mut stream = mk_stream(&index, mk_hosts(&["a.x", "b.x"]));
        stream.registration.update(mk_hosts(&["b.x", "c.x"]));
        assert_eq!(publish(&index, &changed(&["a.x"])), 0);
        assert_eq!(publish(&index, &changed(&["b.x", "c.x"])), 2);
        stream.registration.update(Interest::Every);
        assert_eq!((index.len(), publish(&index, &changed(&["c.x"]))), ((0, 1), 1));
    }

    #[test]
    fn dropped_registrations_leave_the_index_empty() {
        let index = Arc::new(InterestIndex::default());
        let streams: Vec<_> =
            (0..50).map(|n| mk_stream(&index, mk_hosts(&[&format!("h{n}.x"), "all.x"]))).collect();
        let own = index.register(Arc::default(), Namespace::new("shop").ok());
        drop((streams, own, mk_stream(&index, Interest::Every)));
        assert!(index.is_empty() && index.workloads.is_empty());
    }

    #[tokio::test]
    async fn woken_stream_counts_as_waiting_until_handled_or_closed() {
        let index = Arc::new(InterestIndex::default());
        let (a, b) = (mk_stream(&index, mk_hosts(&["a.x"])), mk_stream(&index, mk_hosts(&["a.x"])));
        assert_eq!(index.waiting(), 0, "no stream was woken");
        for _ in 0..2 {
            assert_eq!(publish(&index, &changed(&["a.x"])), 2);
        }
        a.wake.handled();
        assert_eq!(index.waiting(), 2, "a wake-up that was not taken cannot be handled");
        a.wake.woken().await;
        assert_eq!(index.waiting(), 2, "it was taken but not handled");
        a.wake.handled();
        a.wake.handled();
        assert_eq!(index.waiting(), 1);
        drop((a, b));
        assert_eq!(index.waiting(), 0, "a closed stream is not waiting");
    }

    #[tokio::test]
    async fn wake_ups_are_merged_without_loss() {
        let wake = Wake::default();
        let at = |ms| ObservedSince::batch(tributary_model::Mono(ms), true);
        wake.wake_for(&host("a.x"), at(7));
        wake.wake_for(&host("b.x"), at(9));
        assert_eq!(wake.woken().await, (ChangedHosts::Hosts([host("a.x"), host("b.x")].into()), at(7)));
        assert!(!is_woken(&wake));
        wake.wake(ObservedSince::default());
        tokio::time::timeout(std::time::Duration::from_secs(5), wake.woken()).await.unwrap();
    }
}
