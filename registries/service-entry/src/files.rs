//! Directories of YAML files as a source of documents.
//!
//! [`walk`] lists and reads, [`tree`] decides what a listing means, [`watch`] reports when to look
//! again, and [`source`] runs the three. Only `walk` and `watch` access the file system.

pub(crate) mod contents;
pub(crate) mod document_claims;
pub(crate) mod source;
pub(crate) mod tree;
pub(crate) mod walk;
pub(crate) mod watch;

pub use source::{Directory, Timing};
