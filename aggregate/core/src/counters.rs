//! Counts of what the core has done. Tests assert on them, metrics export them.
//!
//! Owned by [`Core`](crate::Core); every module adds to its own field.

/// Passes over all facts of a registry or of the catalog, by cause (law 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FullPasses {
    /// Adopted shadows.
    pub adoption: u64,
    /// Removed registries.
    pub departure: u64,
    /// Changed priorities of scopes.
    pub priority: u64,
    /// Changes of mesh-wide settings.
    pub settings: u64,
}

/// Counts since the core was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Applied batches.
    pub batches: u64,
    /// Published catalog generations.
    pub published: u64,
    /// Applied updates.
    pub updates: u64,
    /// Updates of a run that is neither served nor a shadow.
    pub fenced: u64,
    /// Updates refused because a bound was reached.
    pub refused: u64,
    /// Puts of a value that was already known.
    pub unchanged: u64,
    /// Built service views.
    pub views: u64,
    /// Resource inputs built because they differ from the previous ones.
    pub resource_inputs: u64,
    /// Comparisons of a selector with a workload.
    pub selector_checks: u64,
    /// Built buckets of selected workloads.
    pub buckets: u64,
    /// Held removals.
    pub held: u64,
    /// Hosts that lost their last endpoint without evidence. Any value but 0 is a bug.
    pub unexplained_empty: u64,
    /// Sent confirm requests.
    pub confirms: u64,
    /// Full passes, by cause.
    pub full_passes: FullPasses,
}
