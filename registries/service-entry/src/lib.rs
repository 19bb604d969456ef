//! The ServiceEntry registry: ServiceEntry, WorkloadEntry and WorkloadGroup, from files or a cluster.
//!
//! A stream of YAML becomes [`Document`]s ([`load_str`]), each decoded strictly and validated alone;
//! good documents become facts ([`convert()`]), which is a pure and total function without access to
//! files. A [`DocumentSource`] reports documents and their changes: a [`Directory`] of files, or a
//! [`CrdSource`] of custom resources. The application builds runs through [`FileFactory`] and [`CrdFactory`].

mod address;
pub mod allocate;
pub mod config;
pub mod convert;
pub mod crd;
pub mod document;
mod files;
pub mod read;
pub mod registry;
pub mod source;
mod validate;

pub use allocate::{Range, RangeError, Ranges};
pub use config::FileFields;
pub use convert::{Context, convert};
pub use crd::{Addresses, CrdFactory, CrdOptions, CrdSource, Kinds};
pub use document::{Body, Document, Object};
pub use files::{DirId, Directory, Looks, Timing};
pub use read::fault::{Fault, Pos, Severity};
pub use read::load::{Load, Rejected, load_str};
pub use registry::{FileFactory, ServiceEntryRegistry};
pub use source::{Change, Content, DocumentSource, Need, SourceEvent, registry_updates};
