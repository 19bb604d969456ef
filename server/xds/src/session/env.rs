//! State that all sessions of a server share: resource provider, interned values, nonces, counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::nonce::Nonce;
use super::recorded_rounds::SharedRounds;
use super::remembered_clients::Remembered;
use crate::answers::{ClientClassKey, ClientClasses, ResourceProvider, Subscription, Subscriptions};
use crate::client::Selections;
use crate::counters::Counters;
use crate::push_recorder::PushRecorder;

/// State that all sessions of a server share.
pub struct Env {
    /// Provider of resources.
    pub answers: Arc<dyn ResourceProvider>,
    /// Classes in use.
    pub classes: ClientClasses,
    /// What policies select for clients.
    pub selections: Arc<Selections>,
    /// Subscriptions in use.
    pub subscriptions: Subscriptions,
    /// Rounds that sessions of a class send alike.
    pub rounds: SharedRounds,
    /// Clients whose streams ended a short time ago.
    pub remembered: Remembered,
    /// Counters of the server.
    pub counters: Arc<Counters>,
    /// A write that takes longer ends its stream.
    pub stuck: Duration,
    /// Receiver of responses and answers, if changes are traced.
    pub recorder: Option<Arc<dyn PushRecorder>>,
    nonces: AtomicU64,
}

impl Env {
    /// Creates the state for one server.
    pub fn new(answers: Arc<dyn ResourceProvider>, counters: Arc<Counters>, stuck: Duration) -> Self {
        Self {
            answers,
            classes: ClientClasses::default(),
            selections: Arc::new(Selections::new(Arc::clone(&counters))),
            subscriptions: Subscriptions::default(),
            rounds: SharedRounds::default(),
            remembered: Remembered::default(),
            counters,
            stuck,
            recorder: None,
            nonces: AtomicU64::new(0),
        }
    }
    /// Returns the next nonce: a count over all streams.
    pub fn nonce(&self) -> Nonce {
        Nonce(self.nonces.fetch_add(1, Relaxed) + 1)
    }
    /// Returns the shared allocation of these names.
    pub fn intern<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Arc<Subscription> {
        self.subscriptions.named(names)
    }
    /// Returns the shared key of a class.
    pub fn class(&self, class: crate::answers::ClientClass) -> ClientClassKey {
        self.classes.intern(class)
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("counters", &self.counters).finish_non_exhaustive()
    }
}
