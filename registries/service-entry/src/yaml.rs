//! Reads YAML text to trees with positions.
//!
//! [`split`] cuts a stream into documents without parsing them, so that an invalid document does not
//! affect the others; [`read`] reads one document within limits.

pub(crate) mod read;
pub(crate) mod split;

pub(crate) use read::parse;
pub(crate) use split::{Chunk, split};
