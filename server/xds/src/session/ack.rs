//! What was sent, taken and refused of one type, for people and for `explain`.

use std::collections::VecDeque;
use std::sync::Arc;

use tributary_model::Mono;

use super::env::Nonce;

/// A response that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its nonce.
    pub nonce: Nonce,
    /// Its version.
    pub version: Arc<str>,
    /// The generation that it was made from.
    pub generation: u64,
    /// When it was handed to the transport.
    pub at: Mono,
    /// The names in it, unless they were more than [`Sent::MAX_NAMES`].
    pub names: Option<Arc<[Arc<str>]>>,
}

impl Sent {
    /// How many names of a response are remembered.
    pub const MAX_NAMES: usize = 64;
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// The response that was refused, where it is remembered.
    pub sent: Option<Sent>,
    /// The nonce that the client gave.
    pub nonce: Arc<str>,
    /// The client's words.
    pub text: Arc<str>,
    /// When it arrived.
    pub at: Mono,
}

/// How a type stands with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub enum SyncStatus {
    /// Nothing was sent.
    #[serde(rename = "NOT SENT")]
    NotSent,
    /// The last response was taken.
    #[serde(rename = "SYNCED")]
    Synced,
    /// The last response has not been answered.
    #[serde(rename = "STALE")]
    Stale,
    /// A response was refused, and none was taken since.
    #[serde(rename = "ERROR")]
    Error,
}

/// What was sent, taken and refused of one type.
#[derive(Debug, Clone, Default)]
pub struct Acks {
    in_flight: VecDeque<Sent>,
    last: Option<Sent>,
    acked: Option<(Sent, Mono)>,
    nack: Option<Nack>,
}

impl Acks {
    /// How many unanswered responses are remembered by name.
    const IN_FLIGHT: usize = 8;

    /// The last response.
    #[must_use]
    pub fn last(&self) -> Option<&Sent> {
        self.last.as_ref()
    }
    /// The last response that was taken, and when.
    #[must_use]
    pub fn acked(&self) -> Option<&(Sent, Mono)> {
        self.acked.as_ref()
    }
    /// The refusal that stands.
    #[must_use]
    pub fn nack(&self) -> Option<&Nack> {
        self.nack.as_ref()
    }
    /// How the type stands.
    #[must_use]
    pub fn status(&self) -> SyncStatus {
        match (&self.last, &self.nack, &self.acked) {
            (None, ..) => SyncStatus::NotSent,
            (_, Some(_), _) => SyncStatus::Error,
            (Some(last), _, Some((acked, _))) if last.nonce == acked.nonce => SyncStatus::Synced,
            _ => SyncStatus::Stale,
        }
    }
    pub(crate) fn sent(&mut self, sent: Sent) {
        if self.in_flight.len() >= Self::IN_FLIGHT {
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(sent.clone());
        self.last = Some(sent);
    }
    /// Notes that a response was taken; false when its nonce is not one that is waited for.
    pub(crate) fn ack(&mut self, nonce: &str, now: Mono) -> bool {
        let Some(sent) = self.take(nonce) else { return false };
        self.acked = Some((sent, now));
        self.nack = None;
        true
    }
    pub(crate) fn refuse(&mut self, nonce: &str, text: &str, now: Mono) {
        let sent = self.take(nonce);
        self.nack = Some(Nack { sent, nonce: nonce.into(), text: text.into(), at: now });
    }
    /// Whether this is the nonce of the last response.
    pub(crate) fn is_last(&self, nonce: &str) -> bool {
        let parsed = Nonce::parse(nonce);
        parsed.is_some() && parsed == self.last.as_ref().map(|sent| sent.nonce)
    }
    /// Clients answer in order: whatever was sent before is answered too.
    fn take(&mut self, nonce: &str) -> Option<Sent> {
        let nonce = Nonce::parse(nonce)?;
        let at = self.in_flight.iter().position(|sent| sent.nonce == nonce)?;
        self.in_flight.drain(..=at).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_sent(nonce: u64) -> Sent {
        Sent { nonce: Nonce(nonce), version: "v".into(), generation: 1, at: Mono(1), names: None }
    }

    #[test]
    fn the_status_follows_the_last_response() {
        let mut acks = Acks::default();
        assert_eq!(acks.status(), SyncStatus::NotSent);
        acks.sent(mk_sent(1));
        assert_eq!(acks.status(), SyncStatus::Stale);
        assert!(acks.ack("1", Mono(2)));
        assert_eq!(acks.status(), SyncStatus::Synced);
        acks.sent(mk_sent(2));
        acks.sent(mk_sent(3));
        acks.refuse("2", "bad", Mono(3));
        assert_eq!(acks.status(), SyncStatus::Error);
        assert_eq!(acks.nack().unwrap().sent.as_ref().unwrap().nonce, Nonce(2));
        acks.ack("3", Mono(4));
        assert_eq!(acks.status(), SyncStatus::Synced);
    }

    #[test]
    fn a_strange_nonce_acknowledges_nothing() {
        let mut acks = Acks::default();
        acks.sent(mk_sent(1));
        assert!(!acks.ack("2", Mono(2)) && !acks.ack("", Mono(2)) && !acks.is_last("2"));
        assert_eq!(acks.status(), SyncStatus::Stale);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut acks = Acks::default();
        (1..1000).for_each(|n| acks.sent(mk_sent(n)));
        assert_eq!(acks.in_flight.len(), Acks::IN_FLIGHT);
        assert!(acks.is_last(&Nonce(999).to_string()));
    }
}
