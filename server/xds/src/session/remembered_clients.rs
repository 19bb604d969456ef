//! The table of clients whose streams ended a short time ago, bounded in entries and in time.
//!
//! [`super::remembered`] fills and reads it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tributary_model::Mono;

use super::client_snapshot::ClientSnapshot;

/// Generations that a client may hold, by the version of its CDS response: before and after the round in progress.
pub(super) type Held = SmallVec<[(Arc<str>, Arc<ClientSnapshot>); 2]>;

#[derive(Debug, Default)]
struct Table {
    by_node: HashMap<Arc<str>, (Mono, Held)>,
    /// Nodes by the time of their entries; an entry may have been taken or replaced since.
    order: VecDeque<(Mono, Arc<str>)>,
}

/// Clients whose streams ended a short time ago.
#[derive(Debug, Default)]
pub struct Remembered {
    table: Mutex<Table>,
}

impl Remembered {
    /// Most clients.
    pub const MOST: usize = 1_024;
    /// How long a client is remembered: longer than an Envoy waits before it connects again.
    pub const KEPT: Duration = Duration::from_secs(120);

    pub(super) fn keep(&self, node: &Arc<str>, held: Held, now: Mono) {
        let mut table = self.table.lock();
        table.expire(now, Self::MOST - 1);
        table.order.push_back((now, Arc::clone(node)));
        table.by_node.insert(Arc::clone(node), (now, held));
    }
    /// Returns what a node held at this version, and forgets the node.
    pub(super) fn take(&self, node: &str, version: &str, now: Mono) -> Option<Arc<ClientSnapshot>> {
        let mut table = self.table.lock();
        table.expire(now, Self::MOST);
        let (_, held) = table.by_node.remove(node)?;
        held.into_iter().find(|(of, _)| **of == *version).map(|(_, snapshot)| snapshot)
    }
    /// Forgets those whose time is over, unless another thread is at the table. Called with each request.
    pub(super) fn expire(&self, now: Mono) {
        if let Some(mut table) = self.table.try_lock() {
            table.expire(now, Self::MOST);
        }
    }
    /// Returns the number of clients.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().by_node.len()
    }
    /// Whether no client is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    fn expire(&mut self, now: Mono, most: usize) {
        let is_over = |at: Mono| now.since(at) >= Remembered::KEPT;
        while self.order.front().is_some_and(|(at, _)| is_over(*at)) || self.order.len() > most {
            let Some((at, node)) = self.order.pop_front() else { return };
            if self.by_node.get(&node).is_some_and(|(of, _)| *of == at) {
                self.by_node.remove(&node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_bounded_in_number_and_time() {
        let remembered = Remembered::default();
        let node = |n: usize| -> Arc<str> { format!("node-{n}").into() };
        (0..5_000).for_each(|n| remembered.keep(&node(n), Held::new(), Mono(n as u64)));
        assert_eq!(remembered.len(), Remembered::MOST);
        (0..10).for_each(|_| remembered.keep(&node(0), Held::new(), Mono(5_000)));
        assert!(remembered.len() <= Remembered::MOST);
        remembered.expire(Mono(5_000).plus(Remembered::KEPT));
        assert!(remembered.is_empty());
    }
}
