//! Responses sent, acknowledged and rejected for one type. `get clients` and `explain` read them.

use std::collections::VecDeque;
use std::sync::Arc;

use tributary_model::Mono;

use super::nonce::Nonce;
use super::rejection::{Carried, Rejections, Verdict};

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

/// Synchronization state of one type at one client; the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
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
    /// The client rejected a resource that it has not accepted in a later version since.
    #[serde(rename = "ERROR")]
    Error,
}

impl SyncStatus {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::NotSent, Self::Synced, Self::Stale, Self::Error];

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
    in_flight: VecDeque<(Sent, Carried)>,
    last: Option<Sent>,
    acked: Option<(Sent, Mono)>,
    rejections: Rejections,
    /// Whether the client held versions of the type when the stream began.
    resumed: bool,
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
    /// The last rejection of resources that the client has not accepted in a later version since.
    #[must_use]
    pub fn nack(&self) -> Option<&Nack> {
        self.rejections.newest()
    }
    /// The resources of this rejection that are still rejected, in order.
    #[must_use]
    pub fn nacked_names(&self) -> &[Arc<str>] {
        self.rejections.newest_names()
    }
    /// What the rejections mean for a resource.
    pub(crate) fn verdict(&self, name: &str) -> Verdict {
        self.rejections.of(name)
    }
    /// Whether the client may use versions that are older than those it rejected.
    pub(crate) const fn has_earlier(&self) -> bool {
        self.resumed || self.acked.is_some()
    }
    /// Records that the client held versions of the type when the stream began.
    pub(crate) const fn resume(&mut self) {
        self.resumed = true;
    }
    /// Whether a response that the client has not answered may carry the resource.
    pub(crate) fn is_unanswered(&self, name: &str) -> bool {
        self.in_flight.iter().any(|(_, carried)| carried.has(name))
    }
    /// Whether the client has yet to answer the last response, whatever it rejected before.
    pub(crate) fn is_open(&self) -> bool {
        !self.in_flight.is_empty()
    }
    /// The state that the last response implies.
    #[must_use]
    pub fn status(&self) -> SyncStatus {
        match (&self.last, self.nack(), &self.acked) {
            (None, ..) => SyncStatus::NotSent,
            (_, Some(_), _) => SyncStatus::Error,
            (Some(last), _, Some((acked, _))) if last.nonce == acked.nonce => SyncStatus::Synced,
            _ => SyncStatus::Stale,
        }
    }
    pub(crate) fn sent(&mut self, sent: Sent, carried: Carried) {
        // the answer to a response that is no longer recorded will not be recognized
        if self.in_flight.len() >= Self::IN_FLIGHT
            && let Some((_, carried)) = self.in_flight.pop_front()
        {
            self.rejections.replace(&carried);
        }
        self.in_flight.push_back((sent.clone(), carried));
        self.last = Some(sent);
    }
    /// Records an acknowledgement. Returns false if no recorded response has this nonce.
    pub(crate) fn ack(&mut self, nonce: &str, now: Mono) -> bool {
        let Some(at) = self.position(nonce) else { return false };
        for (sent, carried) in self.in_flight.drain(..=at) {
            self.rejections.accept(&carried);
            self.acked = Some((sent, now));
        }
        true
    }
    /// Whether the names of a response are needed for its rejection: it carried all resources, and they were many.
    pub(crate) fn needs_names(&self, nonce: &str) -> bool {
        self.position(nonce).is_some_and(|at| self.in_flight[at].1 == Carried::Whole(None))
    }
    /// Records a rejection. `all` lists the resources of a response of which [`Acks::needs_names`] holds.
    pub(crate) fn refuse(&mut self, nonce: &str, text: &str, all: Option<Arc<[Arc<str>]>>, now: Mono) {
        let found = self.position(nonce).and_then(|at| self.in_flight.drain(..=at).next_back());
        let (sent, carried) = found.unzip();
        let nack = Nack { sent, nonce: nonce.into(), text: text.into(), at: now };
        self.rejections.refuse(nack, carried, all);
    }
    /// Forgets the rejections of names that the client no longer subscribes to.
    pub(crate) fn keep(&mut self, wants: impl Fn(&str) -> bool) {
        self.rejections.keep(wants);
    }
    /// The rejections that last.
    pub(crate) const fn rejections(&self) -> &Rejections {
        &self.rejections
    }
    /// Restores the rejections of resources that the client did not read again.
    pub(crate) fn restore(&mut self, before: &Rejections) {
        self.rejections.restore(before);
    }
    /// Whether this is the nonce of the last response.
    pub(crate) fn is_last(&self, nonce: &str) -> bool {
        let parsed = Nonce::parse(nonce);
        parsed.is_some() && parsed == self.last.as_ref().map(|sent| sent.nonce)
    }
    /// Clients answer in order: an answer also covers every earlier response.
    fn position(&self, nonce: &str) -> Option<usize> {
        let nonce = Nonce::parse(nonce)?;
        self.in_flight.iter().position(|(sent, _)| sent.nonce == nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_sent(nonce: u64) -> Sent {
        Sent { nonce: Nonce(nonce), version: "v".into(), generation: 1, at: Mono(1) }
    }

    #[test]
    fn the_status_follows_the_last_response() {
        let mut acks = Acks::default();
        assert_eq!(acks.status(), SyncStatus::NotSent);
        acks.sent(mk_sent(1), Carried::Whole(None));
        assert_eq!(acks.status(), SyncStatus::Stale);
        assert!(acks.ack("1", Mono(2)));
        assert_eq!(acks.status(), SyncStatus::Synced);
        acks.sent(mk_sent(2), Carried::Whole(None));
        acks.sent(mk_sent(3), Carried::Whole(None));
        acks.refuse("2", "bad", None, Mono(3));
        assert_eq!(acks.status(), SyncStatus::Error);
        assert_eq!(acks.nack().unwrap().sent.as_ref().unwrap().nonce, Nonce(2));
        acks.ack("3", Mono(4));
        assert_eq!(acks.status(), SyncStatus::Synced);
    }

    #[test]
    fn earlier_versions_are_those_acknowledged_or_held_at_the_start() {
        let mut acks = Acks::default();
        acks.sent(mk_sent(1), Carried::Whole(None));
        acks.refuse("1", "bad", None, Mono(2));
        assert!(!acks.has_earlier());
        let mut resumed = acks.clone();
        resumed.resume();
        assert!(resumed.has_earlier());
        acks.sent(mk_sent(2), Carried::Whole(None));
        acks.ack("2", Mono(3));
        assert!(acks.has_earlier());
    }

    #[test]
    fn unknown_nonce_acknowledges_nothing() {
        let mut acks = Acks::default();
        acks.sent(mk_sent(1), Carried::Whole(None));
        assert!(!acks.ack("2", Mono(2)) && !acks.ack("", Mono(2)) && !acks.is_last("2"));
        assert_eq!(acks.status(), SyncStatus::Stale);
    }

    #[test]
    fn recorded_responses_are_bounded() {
        let mut acks = Acks::default();
        (1..1000).for_each(|n| acks.sent(mk_sent(n), Carried::Whole(None)));
        assert_eq!(acks.in_flight.len(), Acks::IN_FLIGHT);
        assert!(acks.is_last(&Nonce(999).to_string()));
    }
}
