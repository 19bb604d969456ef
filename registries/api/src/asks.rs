//! Questions to a run: conflated per key, bounded, waited for by nobody but the run.
//!
//! The pump sends, the run receives in key order. A question that does not fit is dropped: the core
//! asks again with backoff as long as it has no answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_model::Key;

/// How many questions may be open to one run.
pub const MOST_ASKS: usize = 4096;

#[derive(Debug, Default)]
struct Open {
    keys: BTreeSet<Key>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Channel {
    open: Mutex<Open>,
    wake: Notify,
}

/// The pump's end.
#[derive(Debug)]
pub struct AskSender(Arc<Channel>);

/// The run's end.
#[derive(Debug)]
pub struct Asks(Arc<Channel>);

/// A pair of ends.
#[must_use]
pub fn asks() -> (AskSender, Asks) {
    let channel = Arc::new(Channel::default());
    (AskSender(Arc::clone(&channel)), Asks(channel))
}

impl AskSender {
    /// Asks to confirm a key; false when the run has too many questions open already.
    pub fn send(&self, key: Key) -> bool {
        let mut open = self.0.open.lock();
        let fits = open.keys.len() < MOST_ASKS || open.keys.contains(&key);
        if fits {
            open.keys.insert(key);
        }
        drop(open);
        self.0.wake.notify_one();
        fits
    }
}

impl Drop for AskSender {
    fn drop(&mut self) {
        self.0.open.lock().closed = true;
        self.0.wake.notify_one();
    }
}

impl Asks {
    /// The next key to confirm. May be dropped while it waits without losing a question. Never
    /// ready once nobody can ask any more, so that it can stand in a `select!` loop.
    pub async fn next(&mut self) -> Key {
        loop {
            if let Some(key) = self.try_next() {
                return key;
            }
            self.0.wake.notified().await;
        }
    }
    /// The next key to confirm, if there is one now.
    pub fn try_next(&mut self) -> Option<Key> {
        self.0.open.lock().keys.pop_first()
    }
    /// Whether nobody can ask any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.open.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{Hostname, Item, Scope};

    fn mk_key(i: usize) -> Key {
        let host = Hostname::new(format!("h{i}.test")).unwrap();
        Key { scope: Scope::new("s").unwrap(), item: Item::Alias(host) }
    }

    #[tokio::test]
    async fn the_same_question_is_asked_once() {
        let (sender, mut asks) = asks();
        assert!(sender.send(mk_key(1)) && sender.send(mk_key(1)) && sender.send(mk_key(2)));
        assert_eq!((asks.next().await, asks.next().await), (mk_key(1), mk_key(2)));
        assert_eq!(asks.try_next(), None);
    }

    #[tokio::test]
    async fn a_question_wakes_the_run() {
        let (sender, mut asks) = asks();
        let waiting = tokio::spawn(async move { asks.next().await });
        tokio::task::yield_now().await;
        sender.send(mk_key(7));
        assert_eq!(waiting.await.unwrap(), mk_key(7));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (sender, mut asks) = asks();
        for i in 0..MOST_ASKS {
            assert!(sender.send(mk_key(i)));
        }
        assert!(!sender.send(mk_key(MOST_ASKS)), "beyond the bound");
        assert!(sender.send(mk_key(3)), "known already, so it takes no room");
        assert!(asks.try_next().is_some() && sender.send(mk_key(MOST_ASKS)));
    }
}
