//! Counters which show that cost follows change. Tests assert on them instead of on time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{ResourceType, TypeMap};
use crate::work::is_on_runtime;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the number.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
    /// Increments the number.
    pub fn one(&self) {
        self.add(1);
    }
    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Causes of work over everything (law 7 allows exactly these).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The first full response of this process, or the first after a long silence.
    FirstAnswer,
    /// A base without a cached set.
    NewClass,
    /// A base that a connected class had before: a limit was too small.
    Evicted,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 3] = [Self::FirstAnswer, Self::NewClass, Self::Evicted];

    /// Returns a short name for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstAnswer => "first_answer",
            Self::NewClass => "new_class",
            Self::Evicted => "evicted",
        }
    }
}

/// Work done since the process started.
#[derive(Debug, Default)]
pub struct Counters {
    encodes: TypeMap<Counter>,
    encoded_bytes: TypeMap<Counter>,
    /// Bytes sent from shared encodings.
    pub bytes_shared: Counter,
    /// Resources that were already encoded.
    pub hits: Counter,
    /// Bodies evicted to stay within the budget.
    pub evictions: Counter,
    /// Bodies encoded again after eviction.
    pub refills: Counter,
    /// Bodies that could not be encoded again because the catalog was of another generation.
    pub lost: Counter,
    /// Overlays computed.
    pub overlays: Counter,
    /// Ropes built.
    pub ropes: Counter,
    /// Bytes copied into ropes.
    pub rope_bytes: Counter,
    /// Encodings, ropes and folds made on the runtime's workers, which must have time for other streams.
    pub on_workers: Counter,
    passes: [Counter; Cause::ALL.len()],
}

impl Counters {
    /// Notes heavy work. Counts it if the current thread is not meant for it.
    pub fn work(&self) {
        if is_on_runtime() {
            self.on_workers.one();
        }
    }
    /// Counts a first encoding.
    pub fn encoded(&self, kind: ResourceType, bytes: usize) {
        self.work();
        self.encodes[kind].one();
        self.encoded_bytes[kind].add(bytes as u64);
    }
    /// Counts a resource that was already encoded.
    pub fn hit(&self, bytes: u32) {
        self.hits.one();
        self.bytes_shared.add(bytes.into());
    }
    /// Counts a rope of which this many bytes were copied; other ropes share the rest.
    pub fn rope_made(&self, copied: usize, len: usize) {
        self.work();
        self.ropes.one();
        self.rope_bytes.add(copied as u64);
        self.bytes_shared.add(len.saturating_sub(copied) as u64);
    }
    /// Counts work over everything.
    pub fn pass(&self, cause: Cause) {
        self.work();
        self.passes[cause as usize].one();
    }
    /// Returns every count with its name, for metrics.
    #[must_use]
    pub fn all(&self) -> Vec<(String, u64)> {
        let own = [
            ("bytes_shared", &self.bytes_shared),
            ("hits", &self.hits),
            ("evictions", &self.evictions),
            ("refills", &self.refills),
            ("lost", &self.lost),
            ("overlays", &self.overlays),
            ("ropes", &self.ropes),
            ("rope_bytes", &self.rope_bytes),
            ("on_workers", &self.on_workers),
        ];
        let own = own.map(|(name, count)| (name.to_owned(), count.get()));
        let encodes =
            ResourceType::ALL.map(|kind| (format!("encodes_{}", kind.as_str()), self.encodes(kind)));
        let bytes = ResourceType::ALL
            .map(|kind| (format!("encoded_bytes_{}", kind.as_str()), self.encoded_bytes(kind)));
        let passes = Cause::ALL.map(|cause| (format!("passes_{}", cause.as_str()), self.passes(cause)));
        own.into_iter().chain(encodes).chain(bytes).chain(passes).collect()
    }
    /// Returns the number of encoded resources (or parts of composites) of this type.
    #[must_use]
    pub fn encodes(&self, kind: ResourceType) -> u64 {
        self.encodes[kind].get()
    }
    /// Returns the number of encoded bytes of this type.
    #[must_use]
    pub fn encoded_bytes(&self, kind: ResourceType) -> u64 {
        self.encoded_bytes[kind].get()
    }
    /// Returns the number of passes over everything for this cause.
    #[must_use]
    pub fn passes(&self, cause: Cause) -> u64 {
        self.passes[cause as usize].get()
    }
}
