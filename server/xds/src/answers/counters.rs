//! Counters that prove that cost follows change (`core.md` 12). Tests assert on them, never on time.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ResourceType;

/// One number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }
    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why work over everything was done (law 7 allows exactly these).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The first full answer of this process, or the first after a long silence.
    FirstAnswer,
    /// A class that nobody had asked for.
    NewClass,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::FirstAnswer, Self::NewClass];

    /// A short name for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstAnswer => "first_answer",
            Self::NewClass => "new_class",
        }
    }
}

/// What the answers have done since the process started.
#[derive(Debug, Default)]
pub struct Counters {
    encodes: [Counter; ResourceType::ALL.len()],
    encoded_bytes: [Counter; ResourceType::ALL.len()],
    /// Bytes handed out that somebody else had paid for.
    pub bytes_shared: Counter,
    /// Resources that were found encoded.
    pub hits: Counter,
    /// Bodies dropped to stay within the budget.
    pub evictions: Counter,
    /// Bodies encoded again after they had been dropped.
    pub refills: Counter,
    /// Bodies that could not be encoded again: asked of another generation than their own.
    pub lost: Counter,
    /// Ropes made.
    pub ropes: Counter,
    /// Bytes copied into ropes.
    pub rope_bytes: Counter,
    passes: [Counter; Cause::ALL.len()],
}

impl Counters {
    /// Notes a first encoding.
    pub fn encoded(&self, kind: ResourceType, bytes: usize) {
        self.encodes[kind as usize].one();
        self.encoded_bytes[kind as usize].add(bytes as u64);
    }
    /// Notes an answer that was there.
    pub fn hit(&self, bytes: u32) {
        self.hits.one();
        self.bytes_shared.add(bytes.into());
    }
    /// Notes a rope, of whose bytes so many were copied; the rest is shared with other ropes.
    pub fn rope_made(&self, copied: usize, len: usize) {
        self.ropes.one();
        self.rope_bytes.add(copied as u64);
        self.bytes_shared.add(len.saturating_sub(copied) as u64);
    }
    /// Notes work over everything.
    pub fn pass(&self, cause: Cause) {
        self.passes[cause as usize].one();
    }
    /// Every count with its name, for metrics.
    #[must_use]
    pub fn all(&self) -> Vec<(String, u64)> {
        let own = [
            ("bytes_shared", &self.bytes_shared),
            ("hits", &self.hits),
            ("evictions", &self.evictions),
            ("refills", &self.refills),
            ("lost", &self.lost),
            ("ropes", &self.ropes),
            ("rope_bytes", &self.rope_bytes),
        ];
        let own = own.map(|(name, count)| (name.to_owned(), count.get()));
        let encodes =
            ResourceType::ALL.map(|kind| (format!("encodes_{}", kind.as_str()), self.encodes(kind)));
        let bytes = ResourceType::ALL
            .map(|kind| (format!("encoded_bytes_{}", kind.as_str()), self.encoded_bytes(kind)));
        let passes = Cause::ALL.map(|cause| (format!("passes_{}", cause.as_str()), self.passes(cause)));
        own.into_iter().chain(encodes).chain(bytes).chain(passes).collect()
    }
    /// How many resources (or parts of composites) of this kind were encoded.
    #[must_use]
    pub fn encodes(&self, kind: ResourceType) -> u64 {
        self.encodes[kind as usize].get()
    }
    /// How many bytes that came to.
    #[must_use]
    pub fn encoded_bytes(&self, kind: ResourceType) -> u64 {
        self.encoded_bytes[kind as usize].get()
    }
    /// How often work over everything was done for this cause.
    #[must_use]
    pub fn passes(&self, cause: Cause) -> u64 {
        self.passes[cause as usize].get()
    }
}
