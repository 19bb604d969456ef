//! The claim to a Lease, without I/O: when to look, when to write, whether it is held.

use std::time::Duration;

use serde_json::Value;
use tributary_model::Mono;

use super::LeaseTiming;

/// A Lease as it was read or written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record {
    pub(super) holder: String,
    /// None where there is no such object yet.
    pub(super) version: Option<String>,
    pub(super) acquired: Option<String>,
    pub(super) transitions: u32,
    pub(super) duration: Duration,
}

/// A Lease that somebody else asks to last longer than this is not believed.
const LONGEST: Duration = Duration::from_secs(3_600);

impl Record {
    pub(super) fn read(object: &Value) -> Option<Self> {
        let version = object.pointer("/metadata/resourceVersion")?.as_str()?.to_owned();
        let spec = &object["spec"];
        let seconds = spec["leaseDurationSeconds"].as_u64().unwrap_or_default();
        Some(Self {
            holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
            version: Some(version),
            acquired: spec["acquireTime"].as_str().map(str::to_owned),
            transitions: spec["leaseTransitions"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            duration: Duration::from_secs(seconds).min(LONGEST),
        })
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseStep {
    /// Nothing before this time.
    Wait(Mono),
    /// Read the Lease.
    Look,
    /// Write it: create it, take it or renew it.
    Write,
}

/// One replica's view of the Lease.
#[derive(Debug)]
pub(super) struct LeaseClaim {
    identity: String,
    timing: LeaseTiming,
    record: Record,
    /// When this version of the record was first seen.
    seen: Mono,
    /// Whether the record is what was found last; after a failure it has to be looked at first.
    looked: bool,
    /// When the last write of ours began that succeeded.
    renewed: Option<Mono>,
    /// When to look or to write next.
    due: Mono,
    resigned: bool,
}

impl LeaseClaim {
    pub(super) fn new(identity: &str, timing: LeaseTiming) -> Self {
        Self {
            identity: identity.to_owned(),
            timing,
            record: Record::default(),
            seen: Mono(0),
            looked: false,
            renewed: None,
            due: Mono(0),
            resigned: false,
        }
    }
    /// A candidate takes a Lease that has not changed for this long: two looks less than its duration, so that it
    /// passes within that although a candidate sees each renewal late.
    fn patience(&self) -> Duration {
        self.record.duration.max(self.timing.duration).saturating_sub(self.timing.renew * 2)
    }
    /// The holder counts on it for this long after a renewal: less than any candidate waits.
    fn trust(&self) -> Duration {
        self.timing.duration.saturating_sub(self.timing.renew * 3)
    }
    fn is_ours(&self) -> bool {
        self.record.holder == self.identity
    }
    /// Whether this replica holds the Lease for certain.
    pub(super) fn leads(&self, now: Mono) -> bool {
        let fresh = self.renewed.is_some_and(|at| now.since(at) < self.trust());
        self.is_ours() && fresh && !self.resigned
    }
    /// Who holds it, as far as is known.
    pub(super) fn holder(&self) -> Option<&str> {
        Some(self.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }
    pub(super) fn record(&self) -> Record {
        self.record.clone()
    }
    /// What to do now.
    pub(super) fn next(&self, now: Mono) -> LeaseStep {
        if now < self.due {
            // that we no longer hold it has to be told in time, whatever is due
            let ends = self.renewed.map(|at| at.plus(self.trust())).filter(|ends| *ends > now);
            return LeaseStep::Wait(ends.map_or(self.due, |ends| ends.min(self.due)));
        }
        let lapsed = now.since(self.seen) >= self.patience();
        let may_write = self.is_ours() || self.record.holder.is_empty() || lapsed;
        if self.looked && may_write { LeaseStep::Write } else { LeaseStep::Look }
    }
    /// The Lease was read; none is one that does not exist. `early` is the part of a pause to leave out.
    pub(super) fn saw(&mut self, record: Option<Record>, now: Mono, early: Duration) {
        let record = record.unwrap_or_default();
        if !self.looked && self.seen == Mono(0) || record.version != self.record.version {
            self.seen = now;
        }
        if record.version != self.record.version {
            // of a former life, or of another of our name: it has to be written again to count
            self.renewed = None;
        }
        self.record = record;
        self.looked = true;
        let look = now.plus(self.timing.renew.saturating_sub(early));
        let lapses = self.seen.plus(self.patience()).max(now);
        let at_once = self.is_ours() || self.record.holder.is_empty();
        self.due = if at_once { now } else { look.min(lapses) };
    }
    /// A write that began at `begun` succeeded.
    pub(super) fn wrote(&mut self, record: Option<Record>, begun: Mono, now: Mono, early: Duration) {
        if let Some(record) = record {
            self.record = record;
        }
        self.seen = now;
        self.renewed = Some(begun);
        self.due = begun.plus(self.timing.renew.saturating_sub(early)).max(now);
    }
    /// A look or a write failed.
    pub(super) fn failed(&mut self, now: Mono, early: Duration) {
        self.looked = false;
        self.due = now.plus(self.timing.renew.saturating_sub(early));
    }
    /// Stops to hold it; what to write so that another may take it.
    pub(super) fn resign(&mut self, now: Mono) -> Option<Record> {
        let led = self.leads(now);
        self.resigned = true;
        led.then(|| self.record.clone())
    }
}
