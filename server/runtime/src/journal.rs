//! Interface of a journal. The binary implements it over a database; tests need none.
//!
//! The core task calls it between batches; no call blocks.

use tributary_model::{FactKey, Record, RegistryName};

/// Facts that a journal lost and needs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Name of the registry.
    pub registry: RegistryName,
    /// Last key of the previous slices.
    pub after: Option<FactKey>,
    /// Most facts of a slice.
    pub most: usize,
}

/// Stores the served facts. No method may block.
pub trait JournalSink: Send + 'static {
    /// Accepts the records of one batch, in order: it stores all of them or none.
    fn record(&mut self, records: Vec<Record>);
    /// Returns the facts that it needs again; called between batches.
    fn wanted(&mut self) -> Option<SnapshotRequest> {
        None
    }
    /// Accepts a slice that it requested.
    fn slice(&mut self, registry: &RegistryName, records: Vec<Record>, last: bool) {
        let _ = (registry, records, last);
    }
    /// Records that the server has become ready, once.
    fn ready(&mut self) {}
}

/// Stores nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl JournalSink for NoJournal {
    fn record(&mut self, _: Vec<Record>) {}
}
