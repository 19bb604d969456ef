//! The journal's files: one database, files that were set aside, and the lock.
//!
//! The writer's thread, which alone holds a [`Store`], and the inspection use it. Every commit is synced and
//! atomic: after a crash at any moment the file holds the last commit or the one before it.

mod backend;
pub(crate) mod choose;
mod database;
pub(crate) mod directory;
#[cfg(any(test, feature = "faulty-disk"))]
pub(crate) mod faulty;
mod files;
mod format;
mod scan;

use std::cell::Cell;
use std::sync::Once;

use tributary_model::RegistryName;

pub(crate) use database::{Known, Store, named};
pub(crate) use files::{Files, JOURNAL};
#[cfg(test)]
pub(crate) use format::set_format;
pub use format::{FORMAT, Meta};
pub(crate) use format::{Opened, UNREADABLE, open_existing, open_or_copy, open_or_start, set_aside};
pub(crate) use scan::Piece;

/// Reason why the journal's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk failed; a retry may succeed.
    #[error("{0}")]
    Disk(String),
    /// The content cannot be read; a retry will fail too.
    #[error("the journal cannot be read: {0}")]
    Unreadable(String),
    /// A record exceeds the format's limits.
    #[error("a record of registry {} is too large", .0.as_ref().map_or("", RegistryName::as_str))]
    TooLarge(Option<RegistryName>),
    /// A later release wrote it.
    #[error("the journal has format {0}, which only a later release can read")]
    Newer(u64),
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        use redb::Error::{
            Corrupted, Io, RepairAborted, TableTypeMismatch, TypeDefinitionChanged, UpgradeRequired,
        };
        match error {
            Io(io)
                if matches!(
                    io.kind(),
                    std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
                ) =>
            {
                Self::Unreadable(io.to_string())
            }
            error @ (Corrupted(_)
            | RepairAborted
            | UpgradeRequired(_)
            | TableTypeMismatch { .. }
            | TypeDefinitionChanged { .. }) => Self::Unreadable(error.to_string()),
            error => Self::Disk(error.to_string()),
        }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error.to_string())
    }
}

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function that reads the file. The database panics on some damage, so a panic counts as one of its errors
/// and is not reported as a fault of the program.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    keep_quiet_where_guarded();
    let outer = IS_GUARDED.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    IS_GUARDED.set(outer);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text =
            text.or_else(|| panic.downcast_ref::<&str>().copied()).and_then(|text| text.lines().next());
        Err(StoreError::Unreadable(format!("its structure is damaged: {}", text.unwrap_or("no detail"))))
    })
}

/// Installs a panic hook, once, that suppresses reports of panics in guarded threads.
fn keep_quiet_where_guarded() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                report(panic);
            }
        }));
    });
}
