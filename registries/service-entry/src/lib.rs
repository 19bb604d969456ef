//! The ServiceEntry registry: ServiceEntry, WorkloadEntry and WorkloadGroup, from files.
//!
//! A stream of YAML becomes [`Document`]s ([`load_str`]), each decoded strictly and validated alone;
//! good documents become facts ([`convert`]), which is a pure and total function that never sees a
//! file. A [`ConfigSource`] says which documents there are; files are one.

pub mod convert;
mod decode;
pub mod document;
pub mod fault;
mod identity;
pub mod load;
mod validate;
mod yaml;

pub use convert::{Context, convert};
pub use document::{Body, Document, Object};
pub use fault::{Fault, Pos, Severity};
pub use load::{Load, Rejected, load_str};
