//! Who is woken by a generation: followers by every one, pickers by the hosts that they name.
//!
//! Streams register here before they load a catalog; the fan-out task calls
//! [`Interest::published`] after the owner has published. So no wake is lost: a stream that
//! registered too late to be found loads a catalog that holds the change.
//! Nothing is queued: a wake is a flag, with the few hosts that it was about.

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
    /// How many streams wait to be seen to.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct State {
    touched: ChangedHosts,
    /// Since when what it was woken for is known.
    observed: ObservedSince,
    /// Woken, and not seen to since.
    waits: bool,
}

impl Wake {
    /// Wakes the stream for anything.
    pub fn wake(&self, observed: ObservedSince) {
        self.note(observed, |touched| *touched = ChangedHosts::Everything);
    }
    /// Wakes the stream for a host.
    pub fn wake_for(&self, host: &Hostname, observed: ObservedSince) {
        self.note(observed, |touched| touched.add(host));
    }
    /// Waits for a wake and takes what it was about and since when that is known. Dropping the future loses none.
    pub async fn woken(&self) -> (ChangedHosts, ObservedSince) {
        loop {
            if let Some(woken) = self.take() {
                return woken;
            }
            self.notify.notified().await;
        }
    }
    /// The stream has done what it can about all wakes that it took.
    pub fn seen_to(&self) {
        let mut state = self.state.lock();
        if state.touched == ChangedHosts::Nothing && std::mem::take(&mut state.waits) {
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
        if !std::mem::replace(&mut state.waits, true) {
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
        if self.state.get_mut().waits {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

type Waiters = Vec<(u64, Arc<Wake>)>;

/// The index. Host names in it need not exist.
#[derive(Debug, Default)]
pub struct InterestIndex {
    hosts: DashMap<Hostname, Waiters>,
    followers: DashMap<u64, Arc<Wake>>,
    pickers: DashMap<u64, Arc<Wake>>,
    workloads: DashMap<Namespace, Waiters>,
    next: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

impl InterestIndex {
    /// What wakes a stream that is to be registered here.
    #[must_use]
    pub fn wake(&self) -> Arc<Wake> {
        Arc::new(Wake { state: Mutex::default(), notify: Notify::new(), waiting: Arc::clone(&self.waiting) })
    }
    /// How many streams were woken and have not been seen to since.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
    /// Registers a stream; it wakes for nothing until [`Registration::update`]. A client that is a
    /// workload wakes also for workloads of its namespace, since its class may change with them.
    #[must_use]
    pub fn register(self: &Arc<Self>, wake: Arc<Wake>, workload: Option<Namespace>) -> Registration {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(namespace) = &workload {
            self.workloads.entry(namespace.clone()).or_default().push((id, Arc::clone(&wake)));
        }
        Registration { index: Arc::clone(self), id, wake, workload, interest: Interest::Hosts(Vec::new()) }
    }
    /// Wakes whom a generation may concern; tells how many. A change of settings, gateways or
    /// registries may concern every name.
    pub fn published(&self, _: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) -> usize {
        if !changed.concerns_clients() {
            return 0;
        }
        let mut woken = wake_all(&self.followers, observed);
        if changed.settings || changed.gateways || changed.registries {
            return woken + wake_all(&self.pickers, observed);
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
    /// How many hosts are named, and how many streams are registered.
    #[must_use]
    pub fn len(&self) -> (usize, usize) {
        (self.hosts.len(), self.followers.len() + self.pickers.len())
    }
    /// Whether nothing is registered.
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

/// One stream's place in the index; leaves it when dropped.
#[derive(Debug)]
pub struct Registration {
    index: Arc<InterestIndex>,
    id: u64,
    wake: Arc<Wake>,
    workload: Option<Namespace>,
    interest: Interest,
}

impl Registration {
    /// Wakes for this from now on.
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
            Interest::Every => (&self.index.followers, &self.index.pickers),
            Interest::Hosts(_) => (&self.index.pickers, &self.index.followers),
        };
        to.insert(self.id, Arc::clone(&self.wake));
        from.remove(&self.id);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.update(Interest::Hosts(Vec::new()));
        self.index.pickers.remove(&self.id);
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
        place: Registration,
    }
    fn mk_stream(index: &Arc<InterestIndex>, interest: Interest) -> Stream {
        let wake = index.wake();
        let mut place = index.register(Arc::clone(&wake), None);
        place.update(interest);
        Stream { wake, place }
    }
    fn mk_hosts(names: &[&str]) -> Interest {
        Interest::Hosts(names.iter().map(|h| host(h)).collect())
    }

    #[test]
    fn exactly_the_interested_are_woken() {
        let index = Arc::new(InterestIndex::default());
        let follower = mk_stream(&index, Interest::Every);
        let a = mk_stream(&index, mk_hosts(&["a.x", "b.x"]));
        let b = mk_stream(&index, mk_hosts(&["b.x"]));
        assert_eq!(publish(&index, &changed(&["a.x", "unknown.x"])), 2);
        assert!(is_woken(&follower.wake) && is_woken(&a.wake) && !is_woken(&b.wake));
        let registries = CatalogChanges { registries: true, ..CatalogChanges::default() };
        assert_eq!(publish(&index, &registries), 3);
        let pending = CatalogChanges { pending: true, ..CatalogChanges::default() };
        assert_eq!(publish(&index, &pending), 0, "what is pending is served to nobody");
    }

    #[test]
    fn a_changed_interest_replaces_the_old_one() {
        let index = Arc::new(InterestIndex::default());
        let mut stream = mk_stream(&index, mk_hosts(&["a.x", "b.x"]));
        stream.place.update(mk_hosts(&["b.x", "c.x"]));
        assert_eq!(publish(&index, &changed(&["a.x"])), 0);
        assert_eq!(publish(&index, &changed(&["b.x", "c.x"])), 2);
        stream.place.update(Interest::Every);
        assert_eq!((index.len(), publish(&index, &changed(&["c.x"]))), ((0, 1), 1));
    }

    #[test]
    fn nothing_stays_behind() {
        let index = Arc::new(InterestIndex::default());
        let streams: Vec<_> =
            (0..50).map(|n| mk_stream(&index, mk_hosts(&[&format!("h{n}.x"), "all.x"]))).collect();
        let own = index.register(Arc::default(), Namespace::new("shop").ok());
        drop((streams, own, mk_stream(&index, Interest::Every)));
        assert!(index.is_empty() && index.workloads.is_empty());
    }

    #[tokio::test]
    async fn a_woken_stream_waits_until_it_is_seen_to_or_gone() {
        let index = Arc::new(InterestIndex::default());
        let (a, b) = (mk_stream(&index, mk_hosts(&["a.x"])), mk_stream(&index, mk_hosts(&["a.x"])));
        assert_eq!(index.waiting(), 0, "nobody was woken");
        for _ in 0..2 {
            assert_eq!(publish(&index, &changed(&["a.x"])), 2);
        }
        a.wake.seen_to();
        assert_eq!(index.waiting(), 2, "a wake that was not taken cannot have been seen to");
        a.wake.woken().await;
        assert_eq!(index.waiting(), 2, "it was taken, no more");
        a.wake.seen_to();
        a.wake.seen_to();
        assert_eq!(index.waiting(), 1);
        drop((a, b));
        assert_eq!(index.waiting(), 0, "a stream that is gone waits for nothing");
    }

    #[tokio::test]
    async fn many_wakes_are_one_and_none_is_lost() {
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
