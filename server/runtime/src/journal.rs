//! What the core task needs of a journal. The binary implements it over a database; tests need none.
//!
//! Called by the core task alone, between turns and never blocking it.

use tributary_model::{FactKey, Record, RegistryName};

/// Facts that a journal lost track of and needs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The registry.
    pub registry: RegistryName,
    /// The last key that the slices before brought.
    pub after: Option<FactKey>,
    /// How many facts a slice may have.
    pub most: usize,
}

/// Keeps what is served. No method may block.
pub trait JournalSink: Send + 'static {
    /// Takes the records of one turn, in order: they are kept together or not at all.
    fn record(&mut self, records: Vec<Record>);
    /// What it needs again; asked between turns.
    fn wanted(&mut self) -> Option<SnapshotRequest> {
        None
    }
    /// Takes a slice that it asked for.
    fn slice(&mut self, registry: &RegistryName, records: Vec<Record>, last: bool) {
        let _ = (registry, records, last);
    }
    /// The server has become ready, once.
    fn ready(&mut self) {}
}

/// Keeps no journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl JournalSink for NoJournal {
    fn record(&mut self, _: Vec<Record>) {}
}
