//! Channel of confirm requests to a run: conflated per key and bounded.
//!
//! The core task sends and never waits; the run receives in key order. A request beyond the bound is
//! discarded: the core repeats a request with backoff until it is answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tributary_model::FactKey;

/// Maximum number of open requests to one run.
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

/// Sending half, owned by the core task.
#[derive(Debug)]
pub struct ConfirmSender(Arc<Channel>);

/// Receiving half, owned by the run.
#[derive(Debug)]
pub struct ConfirmReceiver(Arc<Channel>);

/// Creates a channel.
#[must_use]
pub fn confirm_channel() -> (ConfirmSender, ConfirmReceiver) {
    let channel = Arc::new(Channel::default());
    (ConfirmSender(Arc::clone(&channel)), ConfirmReceiver(channel))
}

impl ConfirmSender {
    /// Requests confirmation of a key. Returns false if the run has too many open requests.
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
    /// Waits for the next key to confirm. Cancel safe. Stays pending forever after the sender is dropped, so a
    /// `select!` loop may poll it.
    pub async fn next(&mut self) -> FactKey {
        loop {
            if let Some(key) = self.try_next() {
                return key;
            }
            self.0.wake.notified().await;
        }
    }
    /// Returns the next key to confirm, if one is available.
    pub fn try_next(&mut self) -> Option<FactKey> {
        self.0.open.lock().keys.pop_first()
    }
    /// Whether the sender was dropped.
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
        FactKey { scope: Scope::new("s").unwrap(), item: FactId::FederatedService(host) }
    }

    #[tokio::test]
    async fn equal_requests_are_delivered_once() {
        let (sender, mut requests) = confirm_channel();
        assert!(sender.send(mk_key(1)) && sender.send(mk_key(1)) && sender.send(mk_key(2)));
        assert_eq!((requests.next().await, requests.next().await), (mk_key(1), mk_key(2)));
        assert_eq!(requests.try_next(), None);
    }

    #[tokio::test]
    async fn request_wakes_the_run() {
        let (sender, mut requests) = confirm_channel();
        let waiting = tokio::spawn(async move { requests.next().await });
        tokio::task::yield_now().await;
        sender.send(mk_key(7));
        assert_eq!(waiting.await.unwrap(), mk_key(7));
    }

    #[test]
    fn request_beyond_the_bound_is_rejected() {
        let (sender, mut requests) = confirm_channel();
        for i in 0..MAX_CONFIRM_REQUESTS {
            assert!(sender.send(mk_key(i)));
        }
        assert!(!sender.send(mk_key(MAX_CONFIRM_REQUESTS)), "beyond the bound");
        assert!(sender.send(mk_key(3)), "an open request takes no extra room");
        assert!(requests.try_next().is_some() && sender.send(mk_key(MAX_CONFIRM_REQUESTS)));
    }
}
