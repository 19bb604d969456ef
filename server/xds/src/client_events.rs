//! Events of clients for the admin surface: streams that opened or ended, rejections, and that anything about clients changed.
//!
//! Part of [`Counters`](crate::counters::Counters). Sessions and streams write it; one reader takes the events, and any number of
//! readers wait for a change. A change costs one atomic addition while no reader waits. The events are bounded; those beyond the
//! bound are counted.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_proto::text::shorten;

use crate::answers::ResourceType;

/// What happened to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientEvent {
    /// Node id that the client sent.
    pub node: Arc<str>,
    /// What happened.
    pub what: ClientChange,
}

/// Kind of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientChange {
    /// It opened a stream from this address.
    Connected(SocketAddr),
    /// Its stream from this address ended.
    Disconnected(SocketAddr),
    /// It rejected a response of this type, with this text.
    Rejected(ResourceType, Arc<str>),
}

/// Events of all clients of a server.
#[derive(Debug, Default)]
pub struct ClientEvents {
    changes: AtomicU64,
    is_awaited: AtomicBool,
    changed: Notify,
    queue: Mutex<Taken>,
    queued: Notify,
}

/// Events that the reader took.
#[derive(Debug, Default)]
pub struct Taken {
    /// Events, in order; the last [`ClientEvents::MOST`] of them.
    pub events: VecDeque<ClientEvent>,
    /// Number of older events that were left out.
    pub missed: u64,
}

impl ClientEvents {
    /// Most events that are kept until they are taken.
    pub const MOST: usize = 1_024;
    /// Most bytes of the text of a rejection.
    pub const MOST_TEXT: usize = 1_024;

    /// Records an event.
    pub(crate) fn record(&self, node: &Arc<str>, what: ClientChange) {
        let mut queue = self.queue.lock();
        if queue.events.len() >= Self::MOST {
            queue.events.pop_front();
            queue.missed += 1;
        }
        queue.events.push_back(ClientEvent { node: Arc::clone(node), what });
        drop(queue);
        self.queued.notify_one();
        self.note();
    }
    /// Records a rejection.
    pub(crate) fn rejected(&self, node: &Arc<str>, kind: ResourceType, text: &str) {
        self.record(node, ClientChange::Rejected(kind, shorten(text, Self::MOST_TEXT).into()));
    }
    /// Records that something about a client changed, such as a sent or acknowledged version.
    pub(crate) fn note(&self) {
        self.changes.fetch_add(1, SeqCst);
        if self.is_awaited.load(SeqCst) && self.is_awaited.swap(false, SeqCst) {
            self.changed.notify_waiters();
        }
    }
    /// Returns the number of changes so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }
    /// Waits until the number of changes differs from this one. Cancel-safe.
    pub async fn changed(&self, seen: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // set before the number is read, so that a change after the read wakes this task
            self.is_awaited.store(true, SeqCst);
            if self.changes() != seen {
                return;
            }
            changed.await;
        }
    }
    /// Waits for events and takes them. Cancel-safe; for one reader.
    pub async fn take(&self) -> Taken {
        loop {
            let taken = std::mem::take(&mut *self.queue.lock());
            if !taken.events.is_empty() {
                return taken;
            }
            self.queued.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn events_are_taken_in_order_and_bounded() {
        let (events, node) = (ClientEvents::default(), Arc::from("a"));
        let peer = |port| SocketAddr::from(([127, 0, 0, 1], port));
        (0..1_030).for_each(|port| events.record(&node, ClientChange::Connected(peer(port))));
        events.rejected(&node, ResourceType::Cluster, &"x".repeat(1 << 20));
        let taken = events.take().await;
        assert_eq!((taken.events.len(), taken.missed), (ClientEvents::MOST, 7));
        assert_eq!(taken.events[0].what, ClientChange::Connected(peer(7)));
        let ClientChange::Rejected(_, text) = &taken.events[1_023].what else { panic!("{taken:?}") };
        assert!(text.len() <= ClientEvents::MOST_TEXT, "{}", text.len());
        assert!(events.queue.lock().events.is_empty());
    }

    #[tokio::test]
    async fn every_waiting_reader_is_woken_by_a_change() {
        let events = Arc::<ClientEvents>::default();
        let wait = |seen| {
            let events = Arc::clone(&events);
            tokio::spawn(async move { events.changed(seen).await })
        };
        let waiting = [wait(0), wait(0)];
        while !events.is_awaited.load(SeqCst) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(waiting.iter().all(|one| !one.is_finished()));
        events.note();
        for one in waiting {
            one.await.unwrap();
        }
        wait(0).await.unwrap();
        assert_eq!(events.changes(), 1);
    }
}
