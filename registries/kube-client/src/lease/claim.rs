//! Claim to a Lease, without I/O: when to read, when to write, and whether it is held.

use std::time::Duration;

use serde_json::Value;
use tributary_model::Mono;

use super::LeaseTiming;

/// Lease as read or written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Record {
    pub(super) holder: String,
    /// Resource version; `None` while the object does not exist.
    pub(super) version: Option<String>,
    pub(super) acquired: Option<String>,
    pub(super) transitions: u32,
    pub(super) duration: Duration,
}

/// Longest duration that is accepted from another holder.
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

/// Next step of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseStep {
    /// Wait until this time.
    Wait(Mono),
    /// Read the Lease.
    Look,
    /// Write the Lease: create, take or renew it.
    Write,
}

/// One replica's view of the Lease.
#[derive(Debug)]
pub(super) struct LeaseClaim {
    identity: String,
    timing: LeaseTiming,
    record: Record,
    /// Time when this version of the record was first seen.
    seen: Mono,
    /// Whether the record is current; after a failure it has to be read first.
    looked: bool,
    /// Start of our last successful write.
    renewed: Option<Mono>,
    /// Time of the next read or write.
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
    /// Returns the time after which a candidate takes an unchanged Lease: two reads less than its duration, so that the
    /// Lease passes on within its duration although a candidate sees each renewal late.
    fn patience(&self) -> Duration {
        self.record.duration.max(self.timing.duration).saturating_sub(self.timing.renew * 2)
    }
    /// Returns how long the holder relies on a renewal: less than any candidate waits.
    fn trust(&self) -> Duration {
        self.timing.duration.saturating_sub(self.timing.renew * 3)
    }
    fn is_ours(&self) -> bool {
        self.record.holder == self.identity
    }
    /// Whether this replica certainly holds the Lease.
    pub(super) fn leads(&self, now: Mono) -> bool {
        let fresh = self.renewed.is_some_and(|at| now.since(at) < self.trust());
        self.is_ours() && fresh && !self.resigned
    }
    /// Returns the last known holder.
    pub(super) fn holder(&self) -> Option<&str> {
        Some(self.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }
    pub(super) fn record(&self) -> Record {
        self.record.clone()
    }
    /// Returns the next step.
    pub(super) fn next(&self, now: Mono) -> LeaseStep {
        if now < self.due {
            // the end of our leadership must be reported in time, whatever else is due
            let ends = self.renewed.map(|at| at.plus(self.trust())).filter(|ends| *ends > now);
            return LeaseStep::Wait(ends.map_or(self.due, |ends| ends.min(self.due)));
        }
        let lapsed = now.since(self.seen) >= self.patience();
        let may_write = self.is_ours() || self.record.holder.is_empty() || lapsed;
        if self.looked && may_write { LeaseStep::Write } else { LeaseStep::Look }
    }
    /// Records a read; `None` if the object does not exist. `early` shortens the next pause.
    pub(super) fn saw(&mut self, record: Option<Record>, now: Mono, early: Duration) {
        let record = record.unwrap_or_default();
        if !self.looked && self.seen == Mono(0) || record.version != self.record.version {
            self.seen = now;
        }
        if record.version != self.record.version {
            // written by a former process, or by another of our name: only a new write counts
            self.renewed = None;
        }
        self.record = record;
        self.looked = true;
        let look = now.plus(self.timing.renew.saturating_sub(early));
        let lapses = self.seen.plus(self.patience()).max(now);
        let at_once = self.is_ours() || self.record.holder.is_empty();
        self.due = if at_once { now } else { look.min(lapses) };
    }
    /// Records a successful write that began at `begun`.
    pub(super) fn wrote(&mut self, record: Option<Record>, begun: Mono, now: Mono, early: Duration) {
        if let Some(record) = record {
            self.record = record;
        }
        self.seen = now;
        self.renewed = Some(begun);
        self.due = begun.plus(self.timing.renew.saturating_sub(early)).max(now);
    }
    /// Records a failed read or write.
    pub(super) fn failed(&mut self, now: Mono, early: Duration) {
        self.looked = false;
        self.due = now.plus(self.timing.renew.saturating_sub(early));
    }
    /// Ends the claim; returns the record to release if this replica led.
    pub(super) fn resign(&mut self, now: Mono) -> Option<Record> {
        let led = self.leads(now);
        self.resigned = true;
        led.then(|| self.record.clone())
    }
}
