//! Questions to a run: conflated per key, bounded, waited for by nobody but the run.
//!
//! The pump sends, the run receives in key order. A question that does not fit is dropped: the core
//! asks again with backoff as long as it has no answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_model::FactKey;

/// How many questions may be open to one run.
pub const MAX_CONFIRM_REQUESTS: usize = 4096;

#[derive(Debug, Default)]
struct Open {
    keys: BTreeSet<FactKey>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Channel {
    open: Mutex<Open>,
    wake: Notify,
}

/// The pump's end.
#[derive(Debug)]
pub struct ConfirmSender(Arc<Channel>);

/// The run's end.
#[derive(Debug)]
pub struct ConfirmReceiver(Arc<Channel>);

/// A pair of ends.
#[must_use]
pub fn confirm_channel() -> (ConfirmSender, ConfirmReceiver) {
    let channel = Arc::new(Channel::default());
    (ConfirmSender(Arc::clone(&channel)), ConfirmReceiver(channel))
}

impl ConfirmSender {
    /// Asks to confirm a key; false when the run has too many questions open already.
    pub fn send(&self, key: FactKey) -> bool {
        let mut open = self.0.open.lock();
        let fits = open.keys.len() < MAX_CONFIRM_REQUESTS || open.keys.contains(&key);
        if fits {
            open.keys.insert(key);
        }
        drop(open);
        self.0.wake.notify_one();
        fits
    }
}

impl Drop for ConfirmSender {
    fn drop(&mut self) {
        self.0.open.lock().closed = true;
        self.0.wake.notify_one();
    }
}

impl ConfirmReceiver {
    /// The next key to confirm. May be dropped while it waits without losing a question. Never
    /// ready once nobody can ask any more, so that it can stand in a `select!` loop.
    pub async fn next(&mut self) -> FactKey {
        loop {
            if let Some(key) = self.try_next() {
                return key;
            }
            self.0.wake.notified().await;
        }
    }
    /// The next key to confirm, if there is one now.
    pub fn try_next(&mut self) -> Option<FactKey> {
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
    use tributary_model::{FactId, Hostname, Scope};

    fn mk_key(i: usize) -> FactKey {
        let host = Hostname::new(format!("h{i}.test")).unwrap();
        FactKey { scope: Scope::new("s").unwrap(), item: FactId::Alias(host) }
    }

    #[tokio::test]
    async fn the_same_question_is_asked_once() {
        let (sender, mut requests) = confirm_channel();
        assert!(sender.send(mk_key(1)) && sender.send(mk_key(1)) && sender.send(mk_key(2)));
        assert_eq!((requests.next().await, requests.next().await), (mk_key(1), mk_key(2)));
        assert_eq!(requests.try_next(), None);
    }

    #[tokio::test]
    async fn a_question_wakes_the_run() {
        let (sender, mut requests) = confirm_channel();
        let waiting = tokio::spawn(async move { requests.next().await });
        tokio::task::yield_now().await;
        sender.send(mk_key(7));
        assert_eq!(waiting.await.unwrap(), mk_key(7));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (sender, mut requests) = confirm_channel();
        for i in 0..MAX_CONFIRM_REQUESTS {
            assert!(sender.send(mk_key(i)));
        }
        assert!(!sender.send(mk_key(MAX_CONFIRM_REQUESTS)), "beyond the bound");
        assert!(sender.send(mk_key(3)), "known already, so it takes no room");
        assert!(requests.try_next().is_some() && sender.send(mk_key(MAX_CONFIRM_REQUESTS)));
    }
}
