//! What was pushed, by type: sizes, times and refusals, and what set pushes off.
//!
//! Part of [`Counters`](crate::counters::Counters). Sessions and streams write it, one or two
//! atomic additions a message; metrics read it at scrape.

use std::time::Duration;

use tributary_model::{CatalogChanges, Mono, ObservedSince};

use crate::answers::ResourceType;
use crate::counters::Count;
use crate::histogram::{Distribution, Histogram};

/// As Istio's `pilot_xds_config_size_bytes`, so that its alerts can be taken over.
const BYTES: &[u64] = &[10_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000];
/// From 100 µs to 30 s, in microseconds.
const MICROS: &[u64] =
    &[100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];

/// From 1 ms, the clock's tick, to 60 s.
const MILLIS: &[u64] = &[1, 5, 10, 25, 50, 100, 250, 500, 1_000, 3_000, 10_000, 30_000, 60_000];

/// What was pushed of one type.
#[derive(Debug)]
struct OfKind {
    bytes: Histogram,
    micros: Histogram,
    /// By lane, in milliseconds.
    removals: Histogram,
    additions: Histogram,
    nacks: Count,
}

impl Default for OfKind {
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

/// Passes of the fan-out, by what was another in them.
#[derive(Debug, Default)]
struct Triggers {
    hosts: Count,
    workloads: Count,
    gateways: Count,
    settings: Count,
    registries: Count,
}

/// What was pushed.
#[derive(Debug, Default)]
pub struct Pushes {
    kinds: [OfKind; 4],
    triggers: Triggers,
}

/// What was pushed of one type, at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct KindPushes {
    /// Which.
    pub kind: ResourceType,
    /// The sizes of its responses, in bytes.
    pub bytes: Distribution,
    /// How long each took from when it was begun to be made until the transport had taken all of
    /// it, in seconds.
    pub seconds: Distribution,
    /// By lane: how long it took from when a source told of what is another until a response of the
    /// round that tells it was made, in seconds.
    pub convergence: [(&'static str, Distribution); 2],
    /// Responses that clients refused.
    pub nacks: u64,
}

impl Pushes {
    /// A response of so many bytes was made.
    pub(crate) fn made(&self, kind: ResourceType, bytes: usize) {
        self.of(kind).bytes.observe(bytes as u64);
    }
    /// A response was made in a round that tells what has been known since then.
    pub(crate) fn told(&self, kind: ResourceType, observed: ObservedSince, now: Mono) {
        let of = self.of(kind);
        for (lane, at) in [(&of.removals, observed.removal), (&of.additions, observed.addition)] {
            if let Some(at) = at {
                lane.observe(now.0.saturating_sub(at.0));
            }
        }
    }
    /// The transport has taken a response whole, this long after it was begun to be made.
    pub(crate) fn taken(&self, kind: ResourceType, after: Duration) {
        self.of(kind).micros.observe(micros(after));
    }
    /// A client refused a response.
    pub(crate) fn refused(&self, kind: ResourceType) {
        self.of(kind).nacks.inc();
    }
    /// A generation was published that differs in this.
    pub(crate) fn triggered(&self, changed: &CatalogChanges) {
        let triggers = &self.triggers;
        let each = [
            (&triggers.hosts, !changed.hosts.is_empty()),
            (&triggers.workloads, !changed.workloads.is_empty()),
            (&triggers.gateways, changed.gateways),
            (&triggers.settings, changed.settings),
            (&triggers.registries, changed.registries),
        ];
        each.into_iter().filter(|(_, is)| *is).for_each(|(count, _)| count.inc());
    }
    /// What was pushed, by type.
    pub fn kinds(&self) -> impl Iterator<Item = KindPushes> {
        ResourceType::ALL.into_iter().zip(&self.kinds).map(|(kind, of)| KindPushes {
            kind,
            bytes: of.bytes.read(1.0),
            seconds: of.micros.read(1e6),
            convergence: [("removal", of.removals.read(1e3)), ("addition", of.additions.read(1e3))],
            nacks: of.nacks.get(),
        })
    }
    /// How many generations were pushed, by what was another in them; one may count twice.
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
    fn of(&self, kind: ResourceType) -> &OfKind {
        let [clusters, endpoints, listeners, routes] = &self.kinds;
        match kind {
            ResourceType::Cluster => clusters,
            ResourceType::Endpoints => endpoints,
            ResourceType::Listener => listeners,
            ResourceType::Route => routes,
        }
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
            pushes.made(kind, 20_000 + n);
            pushes.taken(kind, Duration::from_millis(2));
            pushes.told(kind, ObservedSince::batch(Mono(500), n % 2 == 0), Mono(1_750));
        }
        for (n, of) in pushes.kinds().enumerate() {
            assert_eq!((of.kind, of.nacks), (ResourceType::ALL[n], n as u64 + 1));
            assert_eq!((of.bytes.count(), of.bytes.sum), (1, 20_000.0 + n as f64));
            assert_eq!((of.seconds.count(), of.seconds.sum), (1, 0.002));
            let lanes = of.convergence.map(|(lane, told)| (lane, told.count(), told.sum));
            let (removal, addition) = if n % 2 == 0 { (1, 0) } else { (0, 1) };
            assert_eq!(lanes[0], ("removal", removal, 1.25 * removal as f64));
            assert_eq!(lanes[1], ("addition", addition, 1.25 * addition as f64));
        }
    }

    #[test]
    fn a_generation_counts_for_all_that_is_another_in_it() {
        let pushes = Pushes::default();
        pushes.triggered(&CatalogChanges { settings: true, registries: true, ..CatalogChanges::default() });
        pushes.triggered(&CatalogChanges { registries: true, ..CatalogChanges::default() });
        let counted: Vec<_> = pushes.triggers().into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(counted, [("settings", 1), ("registries", 2)]);
    }
}
