//! Who follows which cluster, and which catalog each has seen.
//!
//! The fan-out calls [`Subscribers::published`] with each catalog: it wakes those whose clusters changed and moves the base of the
//! others, so that no idle subscriber keeps an old catalog. Without a subscriber a pass does nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tributary_model::Catalog;

use super::{ClusterScope, ScopeSubscription, difference};

/// All subscribers of a server.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    all: Mutex<All>,
    /// The server has stopped.
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    entries: BTreeMap<u64, Entry>,
    /// Catalog of the last pass, or of the first subscription; absent while there is no subscriber.
    last: Option<Arc<Catalog>>,
}

#[derive(Debug)]
struct Entry {
    scope: ClusterScope,
    position: Arc<Mutex<Position>>,
    /// Its end is that of the subscription.
    wake: watch::Sender<()>,
}

/// What a subscriber has seen.
#[derive(Debug)]
struct Position {
    base: Arc<Catalog>,
    /// Whether its scope may have changed since.
    is_behind: bool,
    /// Last catalog of its cluster.
    end: Option<Arc<Catalog>>,
}

impl Position {
    /// Takes a catalog into account; returns whether the subscriber must be woken: one that is behind already was.
    fn published(&mut self, catalog: &Arc<Catalog>, is_concerned: bool) -> bool {
        if self.is_behind || self.base.generation >= catalog.generation {
            return false;
        }
        if !is_concerned {
            self.base = Arc::clone(catalog);
        }
        self.is_behind = is_concerned;
        is_concerned
    }
}

/// Place of a subscription among all; dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct Registration {
    number: u64,
    all: Weak<Subscribers>,
    position: Arc<Mutex<Position>>,
    catalogs: Arc<ArcSwap<Catalog>>,
    wake: watch::Receiver<()>,
}

impl Registration {
    /// Waits until the scope may have changed; fails once the subscription has ended.
    pub(super) async fn woken(&mut self) -> Result<(), watch::error::RecvError> {
        let is_behind = self.position.lock().is_behind;
        if is_behind { Ok(()) } else { self.wake.changed().await }
    }
    /// Moves the base to the current catalog, or to the last one of a subscription that has ended; returns both.
    pub(super) fn advance(&self) -> (Arc<Catalog>, Arc<Catalog>) {
        let mut position = self.position.lock();
        let next = position.end.clone().unwrap_or_else(|| self.catalogs.load_full());
        let next = if next.generation > position.base.generation { next } else { Arc::clone(&position.base) };
        position.is_behind = false;
        (std::mem::replace(&mut position.base, Arc::clone(&next)), next)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            all.all.lock().entries.remove(&self.number);
        }
    }
}

impl Subscribers {
    /// Adds a subscriber and returns its number. Without a running server the subscription has ended.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        scope: ClusterScope,
        catalogs: Arc<ArcSwap<Catalog>>,
    ) -> (u64, ScopeSubscription) {
        let mut all = self.all.lock();
        let number = all.next;
        all.next += 1;
        all.last.get_or_insert_with(|| catalogs.load_full());
        let position = Position { base: Arc::default(), is_behind: true, end: None };
        let (position, (sender, wake)) = (Arc::new(Mutex::new(position)), watch::channel(()));
        if !self.closed.is_cancelled() {
            let entry = Entry { scope: scope.clone(), position: Arc::clone(&position), wake: sender };
            all.entries.insert(number, entry);
        }
        let registration = Registration { number, all: Arc::downgrade(self), position, catalogs, wake };
        (number, ScopeSubscription { scope, registration })
    }
    /// Ends a subscription with this catalog, in which its cluster is gone.
    pub(super) fn end(&self, number: u64, catalog: &Arc<Catalog>) {
        let Some(entry) = self.all.lock().entries.remove(&number) else { return };
        let mut position = entry.position.lock();
        (position.end, position.is_behind) = (Some(Arc::clone(catalog)), true);
    }
    /// Wakes the subscribers that a catalog concerns; returns their number.
    pub(crate) fn published(&self, catalog: &Arc<Catalog>) -> usize {
        let mut all = self.all.lock();
        if all.entries.is_empty() {
            all.last = None;
            return 0;
        }
        let last = all.last.replace(Arc::clone(catalog)).unwrap_or_default();
        let concerned = difference::clusters(&last, catalog);
        let mut woken = 0;
        for entry in all.entries.values() {
            if entry.position.lock().published(catalog, entry.scope.is_among(&concerned)) {
                entry.wake.send_replace(());
                woken += 1;
            }
        }
        woken
    }
    /// Ends all subscriptions, also later ones.
    pub(crate) fn close(&self) {
        let mut all = self.all.lock();
        self.closed.cancel();
        *all = All::default();
    }
    /// Waits until the server has stopped.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}
