//! Push statistics by type: sizes, times and rejections, and the causes of pushes.
//!
//! Part of [`Counters`](crate::counters::Counters). Sessions and streams write it, one or two
//! atomic additions a message; metrics read it at scrape.

use std::time::Duration;

use tributary_model::{CatalogChanges, Mono, ObservedSince};

use crate::answers::{ResourceType, TypeMap};
use crate::counters::Count;
use crate::histogram::{Distribution, Histogram};

/// Equal to the buckets of Istio's `pilot_xds_config_size_bytes`, so that its alerts keep working.
const BYTES: &[u64] = &[10_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000];
/// From 100 µs to 30 s, in microseconds.
const MICROS: &[u64] =
    &[100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];

/// From 1 ms, the clock's tick, to 60 s.
const MILLIS: &[u64] = &[1, 5, 10, 25, 50, 100, 250, 500, 1_000, 3_000, 10_000, 30_000, 60_000];

/// Push statistics of one type.
#[derive(Debug)]
struct TypePushes {
    bytes: Histogram,
    micros: Histogram,
    /// By kind of change, in milliseconds.
    removals: Histogram,
    additions: Histogram,
    nacks: Count,
}

impl Default for TypePushes {
    fn default() -> Self {
        Self {
            bytes: Histogram::new(BYTES),
            micros: Histogram::new(MICROS),
            removals: Histogram::new(MILLIS),
            additions: Histogram::new(MILLIS),
            nacks: Count::default(),
        }
    }
}

/// Published generations, by what changed.
#[derive(Debug, Default)]
struct Triggers {
    hosts: Count,
    workloads: Count,
    gateways: Count,
    settings: Count,
    registries: Count,
}

/// Push statistics.
#[derive(Debug, Default)]
pub struct Pushes {
    kinds: TypeMap<TypePushes>,
    triggers: Triggers,
}

/// Snapshot of one type's push statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct KindPushes {
    /// Resource type.
    pub kind: ResourceType,
    /// Sizes of its responses, in bytes.
    pub bytes: Distribution,
    /// Time from the start of building a response until the transport has taken all of it, in
    /// seconds.
    pub seconds: Distribution,
    /// By kind of change: time from when a source reported a change until a response of the round with that change
    /// was built, in seconds.
    pub convergence: [(&'static str, Distribution); 2],
    /// Responses that clients rejected.
    pub nacks: u64,
}

impl Pushes {
    /// Records a response of this many bytes.
    pub(crate) fn built(&self, kind: ResourceType, bytes: usize) {
        self.of(kind).bytes.observe(bytes as u64);
    }
    /// Records the age of the changes that a response carries.
    pub(crate) fn converged(&self, kind: ResourceType, observed: ObservedSince, now: Mono) {
        let of = self.of(kind);
        for (times, at) in [(&of.removals, observed.removal), (&of.additions, observed.addition)] {
            if let Some(at) = at {
                times.observe(now.0.saturating_sub(at.0));
            }
        }
    }
    /// Records that the transport took a whole response, this long after building it began.
    pub(crate) fn delivered(&self, kind: ResourceType, after: Duration) {
        self.of(kind).micros.observe(micros(after));
    }
    /// Records a rejected response.
    pub(crate) fn refused(&self, kind: ResourceType) {
        self.of(kind).nacks.inc();
    }
    /// Records the changes of a published generation.
    pub(crate) fn triggered(&self, changed: &CatalogChanges) {
        let triggers = &self.triggers;
        let each = [
            (&triggers.hosts, !changed.hosts.is_empty()),
            (&triggers.workloads, !changed.workloads.is_empty()),
            (&triggers.gateways, changed.gateways),
            (&triggers.settings, changed.settings),
            (&triggers.registries, changed.registries || changed.complete),
        ];
        each.into_iter().filter(|(_, is)| *is).for_each(|(count, _)| count.inc());
    }
    /// Returns a snapshot of each type.
    pub fn kinds(&self) -> impl Iterator<Item = KindPushes> {
        self.kinds.iter().map(|(kind, of)| KindPushes {
            kind,
            bytes: of.bytes.read(1.0),
            seconds: of.micros.read(1e6),
            convergence: [("removal", of.removals.read(1e3)), ("addition", of.additions.read(1e3))],
            nacks: of.nacks.get(),
        })
    }
    /// Returns the number of published generations by what changed; one generation may count twice.
    #[must_use]
    pub fn triggers(&self) -> [(&'static str, u64); 5] {
        let Triggers { hosts, workloads, gateways, settings, registries } = &self.triggers;
        [
            ("hosts", hosts.get()),
            ("workloads", workloads.get()),
            ("gateways", gateways.get()),
            ("settings", settings.get()),
            ("registries", registries.get()),
        ]
    }
    fn of(&self, kind: ResourceType) -> &TypePushes {
        &self.kinds[kind]
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_counted_as_itself() {
        let pushes = Pushes::default();
        for (n, kind) in ResourceType::ALL.into_iter().enumerate() {
            (0..=n).for_each(|_| pushes.refused(kind));
            pushes.built(kind, 20_000 + n);
            pushes.delivered(kind, Duration::from_millis(2));
            pushes.converged(kind, ObservedSince::batch(Mono(500), n % 2 == 0), Mono(1_750));
        }
        for (n, of) in pushes.kinds().enumerate() {
            assert_eq!((of.kind, of.nacks), (ResourceType::ALL[n], n as u64 + 1));
            assert_eq!((of.bytes.count(), of.bytes.sum), (1, 20_000.0 + n as f64));
            assert_eq!((of.seconds.count(), of.seconds.sum), (1, 0.002));
            let changes = of.convergence.map(|(change, times)| (change, times.count(), times.sum));
            let (removal, addition) = if n % 2 == 0 { (1, 0) } else { (0, 1) };
            assert_eq!(changes[0], ("removal", removal, 1.25 * removal as f64));
            assert_eq!(changes[1], ("addition", addition, 1.25 * addition as f64));
        }
    }

    #[test]
    fn generation_counts_for_every_cause_in_it() {
        let pushes = Pushes::default();
        pushes.triggered(&CatalogChanges { settings: true, registries: true, ..CatalogChanges::default() });
        pushes.triggered(&CatalogChanges { registries: true, ..CatalogChanges::default() });
        let counted: Vec<_> = pushes.triggers().into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(counted, [("settings", 1), ("registries", 2)]);
    }
}
