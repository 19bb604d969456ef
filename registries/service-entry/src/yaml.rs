//! YAML as text becomes trees of placed values.
//!
//! [`split`] cuts a stream into documents without understanding them, so that one that is broken
//! spoils no other; [`read`] reads one document within bounds.

pub(crate) mod read;
pub(crate) mod split;

pub(crate) use read::parse;
pub(crate) use split::{Chunk, split};
