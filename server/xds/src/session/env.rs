//! State that all sessions of a server share: resource provider, interned values, nonces, counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::answers::{ClientClassKey, ClientClasses, ResourceProvider, Subscription, Subscriptions};
use crate::counters::Counters;

/// State that all sessions of a server share.
pub struct Env {
    /// Provider of resources.
    pub answers: Arc<dyn ResourceProvider>,
    /// Classes in use.
    pub classes: ClientClasses,
    /// Subscriptions in use.
    pub subscriptions: Subscriptions,
    /// Counters of the server.
    pub counters: Arc<Counters>,
    /// A write that takes longer ends its stream.
    pub stuck: Duration,
    nonces: AtomicU64,
}

impl Env {
    /// Creates the state for one server.
    pub fn new(answers: Arc<dyn ResourceProvider>, counters: Arc<Counters>, stuck: Duration) -> Self {
        Self {
            answers,
            classes: ClientClasses::default(),
            subscriptions: Subscriptions::default(),
            counters,
            stuck,
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

/// Identifier of a response, which the client's answer repeats: a count, written in base 36
/// (docs/reference/xds.md#versions-and-nonces).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u64);

impl Nonce {
    /// Parses what [`std::fmt::Display`] writes; rejects everything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > 13 || text.starts_with('+') {
            return None;
        }
        u64::from_str_radix(text, 36).ok().map(Self)
    }
}

impl std::fmt::Display for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mut digits, mut rest, mut at) = ([0u8; 13], self.0, 13);
        loop {
            at -= 1;
            let digit = (rest % 36) as u8;
            digits[at] = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        f.write_str(std::str::from_utf8(&digits[at..]).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_round_trip_in_base_36() {
        for n in [0, 1, 35, 36, 1295, u64::MAX] {
            assert_eq!(Nonce::parse(&Nonce(n).to_string()), Some(Nonce(n)));
        }
        assert_eq!(Nonce(1295).to_string(), "zz");
        for bad in ["", "+1", "a b", "zzzzzzzzzzzzz", "00000000000000"] {
            assert_eq!(Nonce::parse(bad), None, "{bad}");
        }
    }
}
