//! The journal: what the process served, kept on disk, so that a restart serves it again.
//!
//! Owned by the runtime. [`StateDirectory`] holds the directory, [`Journal`] takes the core's records
//! and [`Restoring`] gives back what the process before had recorded. Knows only the model; decides
//! nothing about what is served. Nothing that is read is trusted: lengths, names, counts and times are
//! checked, and nothing in it is opened or dialled.

mod codec;
pub mod inspect;
mod journal;
mod restore;
#[cfg(test)]
mod samples;
mod store;
#[cfg(test)]
mod testing;
mod writer;

pub use codec::{Fault, Member, MemberOrigin, Now};
pub use journal::{Clock, Journal};
pub use restore::{Restored, RestoredRegistry, Restoring};
pub use store::choose::{StateChoice, StateEnvironment, StateRefusal, choose_directory, refusal};
pub use store::directory::{DirectoryError, StateDirectory};
pub use store::{Meta, StoreError};
pub use writer::JournalOptions;
pub use writer::shared::{JournalStats, SnapshotRequest};
