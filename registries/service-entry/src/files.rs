//! Directories of YAML files as a source of documents.
//!
//! [`walk`] lists and reads, [`tree`] decides what a listing means, [`watch`] and [`looks`] decide when to look
//! again, and [`source`] runs them. Only `walk` and `watch` access the file system.

pub(crate) mod contents;
pub(crate) mod document_claims;
pub(crate) mod looks;
pub(crate) mod source;
pub(crate) mod tree;
pub(crate) mod walk;
pub(crate) mod watch;

pub use looks::{Looks, Timing};
pub use source::Directory;
pub use walk::DirId;
