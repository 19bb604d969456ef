//! What the core has done, as plain numbers. Tests assert on them, telemetry shows them.
//!
//! Owned by [`Core`](crate::Core); every module adds to its own field.

/// Why something was done to everything of a registry or of the catalog (law 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FullPasses {
    /// A shadow was adopted.
    pub adoption: u64,
    /// A registry left.
    pub departure: u64,
    /// A registry's standing changed.
    pub priority: u64,
    /// A mesh-wide value changed.
    pub settings: u64,
}

/// Counts since the core was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Turns applied.
    pub batches: u64,
    /// Generations published.
    pub published: u64,
    /// Deltas applied.
    pub updates: u64,
    /// Deltas of a run that is neither served nor a shadow.
    pub fenced: u64,
    /// Deltas refused because a bound was reached.
    pub refused: u64,
    /// Puts that said what was known.
    pub unchanged: u64,
    /// Service views built.
    pub views: u64,
    /// Facets built, because their facts were not those of the facet before.
    pub resource_inputs: u64,
    /// Selectors and workloads compared.
    pub selector_checks: u64,
    /// Buckets of selected workloads built.
    pub buckets: u64,
    /// Removals held back.
    pub held: u64,
    /// Hosts that had endpoints and lost the last without evidence. Anything but 0 is a bug.
    pub unexplained_empty: u64,
    /// Questions asked.
    pub confirms: u64,
    /// Passes over all of something, by cause.
    pub full_passes: FullPasses,
}
