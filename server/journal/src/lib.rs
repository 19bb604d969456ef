//! The journal: facts that the process served, kept on disk, so that a restart serves them again.
//!
//! The runtime owns it. [`StateDirectory`] holds the directory, [`Journal`] accepts the core's records
//! and [`Restoring`] returns the records of the previous process. Depends only on the model; does not
//! decide what is served. Content of the file is not trusted: lengths, names, counts and times are
//! checked, and no path or address in it is opened or dialled.

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
pub use journal::{Clock, Journal, JournalSteps};
pub use restore::{Restored, RestoredRegistry, Restoring};
pub use store::choose::{StateChoice, StateEnvironment, StateRefusal, choose_directory, refusal};
pub use store::directory::{DirectoryError, StateDirectory};
#[cfg(feature = "faulty-disk")]
pub use store::faulty::{FaultyDisk, Numbers};
pub use store::{FORMAT, Meta, StoreError};
pub use writer::JournalOptions;
pub use writer::shared::{JournalStats, SnapshotRequest};
