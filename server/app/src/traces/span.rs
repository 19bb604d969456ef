//! A finished span as a value, and the identities of traces.

use std::time::Duration;

/// Identity of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u128);

/// Identity of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u64);

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text, bounded.
    Text(String),
    /// Number.
    Number(u64),
}

/// A finished span. Times count from the start of the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Trace that it belongs to.
    pub trace: TraceId,
    /// Identity.
    pub id: SpanId,
    /// Span that caused it, in the same trace.
    pub parent: Option<SpanId>,
    /// Name.
    pub name: &'static str,
    /// Start.
    pub began: Duration,
    /// End.
    pub ended: Duration,
    /// Attributes, by name.
    pub attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that it continues.
    pub links: Vec<(TraceId, SpanId)>,
    /// Text of a failure.
    pub error: Option<String>,
}

/// Source of identities: a function of its seed.
#[derive(Debug, Clone)]
pub struct Identities {
    seed: u64,
    spans: u64,
}

impl Identities {
    /// Creates the identities of one process.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, spans: 0 }
    }
    /// Returns the identity of the trace of a generation.
    #[must_use]
    pub const fn trace(&self, generation: u64) -> TraceId {
        let high = mix(self.seed ^ mix(generation));
        let low = mix(high ^ mix(self.seed.wrapping_add(generation)));
        // a trace of zeros is invalid
        TraceId(((high as u128) << 64) | (low | 1) as u128)
    }
    /// Returns the identity of the next span.
    pub const fn span(&mut self) -> SpanId {
        self.spans += 1;
        let id = mix(self.seed.wrapping_add(self.spans));
        SpanId(if id == 0 { 1 } else { id })
    }
}

impl TraceId {
    /// Whether the trace is one of a share of all traces, from 0 to 1.
    #[must_use]
    pub fn is_in(self, share: f64) -> bool {
        // the mantissa of a double has 53 bits
        (((self.0 as u64) >> 11) as f64) < share * (1u64 << 53) as f64
    }
}

/// The output function of SplitMix64, a bijection.
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn identities_differ_and_repeat_with_their_seed() {
        let mut identities = Identities::new(7);
        let traces: BTreeSet<_> = (0..1_000).map(|generation| identities.trace(generation)).collect();
        let spans: BTreeSet<_> = (0..1_000).map(|_| identities.span()).collect();
        assert_eq!((traces.len(), spans.len()), (1_000, 1_000));
        assert_eq!(Identities::new(7).trace(3), identities.trace(3));
        assert_ne!(Identities::new(8).trace(3), identities.trace(3), "replicas have traces of their own");
    }

    #[test]
    fn share_of_traces_is_that_of_the_settings() {
        let identities = Identities::new(7);
        let count =
            |share| (0..10_000).filter(|generation| identities.trace(*generation).is_in(share)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        assert!((2_300..2_700).contains(&count(0.25)), "{}", count(0.25));
    }
}
