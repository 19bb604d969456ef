//! Responses sent, acknowledged and rejected for one type. `get clients` and `explain` read them.

use std::collections::VecDeque;
use std::sync::Arc;

use tributary_model::Mono;

use super::env::Nonce;

/// A response that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Nonce of the response.
    pub nonce: Nonce,
    /// Version of the response.
    pub version: Arc<str>,
    /// Generation that the response was built from.
    pub generation: u64,
    /// When the transport received it.
    pub at: Mono,
    /// Names in the response, unless there were more than [`Sent::MAX_NAMES`].
    pub names: Option<Arc<[Arc<str>]>>,
}

impl Sent {
    /// Most names of one response that are recorded.
    pub const MAX_NAMES: usize = 64;
}

/// A rejected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// The rejected response, if it is still recorded.
    pub sent: Option<Sent>,
    /// Nonce that the client gave.
    pub nonce: Arc<str>,
    /// Error text of the client.
    pub text: Arc<str>,
    /// When the rejection arrived.
    pub at: Mono,
}

/// Synchronization state of one type at one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub enum SyncStatus {
    /// No response was sent.
    #[serde(rename = "NOT SENT")]
    NotSent,
    /// The client acknowledged the last response.
    #[serde(rename = "SYNCED")]
    Synced,
    /// The client has not acknowledged the last response.
    #[serde(rename = "STALE")]
    Stale,
    /// The client rejected a response and has not acknowledged one since.
    #[serde(rename = "ERROR")]
    Error,
}

impl SyncStatus {
    /// Returns the text in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "NOT SENT",
            Self::Synced => "SYNCED",
            Self::Stale => "STALE",
            Self::Error => "ERROR",
        }
    }
}

/// Responses sent, acknowledged and rejected for one type.
#[derive(Debug, Clone, Default)]
pub struct Acks {
    in_flight: VecDeque<Sent>,
    last: Option<Sent>,
    acked: Option<(Sent, Mono)>,
    nack: Option<Nack>,
}

impl Acks {
    /// Most unacknowledged responses that are recorded.
    const IN_FLIGHT: usize = 8;

    /// The last response.
    #[must_use]
    pub fn last(&self) -> Option<&Sent> {
        self.last.as_ref()
    }
    /// The last acknowledged response, and when it was acknowledged.
    #[must_use]
    pub fn acked(&self) -> Option<&(Sent, Mono)> {
        self.acked.as_ref()
    }
    /// The rejection that no acknowledgement has followed.
    #[must_use]
    pub fn nack(&self) -> Option<&Nack> {
        self.nack.as_ref()
    }
    /// The responses that the client has not answered, the oldest first; at most eight.
    pub fn unanswered(&self) -> impl Iterator<Item = &Sent> {
        self.in_flight.iter()
    }
    /// The state that the last response implies.
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
    /// Records an acknowledgement. Returns false if no recorded response has this nonce.
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
    /// Clients answer in order: an answer also covers every earlier response.
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
    fn unknown_nonce_acknowledges_nothing() {
        let mut acks = Acks::default();
        acks.sent(mk_sent(1));
        assert!(!acks.ack("2", Mono(2)) && !acks.ack("", Mono(2)) && !acks.is_last("2"));
        assert_eq!(acks.status(), SyncStatus::Stale);
    }

    #[test]
    fn recorded_responses_are_bounded() {
        let mut acks = Acks::default();
        (1..1000).for_each(|n| acks.sent(mk_sent(n)));
        assert_eq!(acks.in_flight.len(), Acks::IN_FLIGHT);
        assert!(acks.is_last(&Nonce(999).to_string()));
    }
}
