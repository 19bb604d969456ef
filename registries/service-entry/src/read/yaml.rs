//! Reads YAML text to trees with positions.
//!
//! [`split`] cuts a stream into documents without parsing them, so that an invalid document does not
//! affect the others; [`parse`] reads one document within limits.

pub(crate) mod parse;
pub(crate) mod split;

pub(crate) use parse::parse;
pub(crate) use split::{Chunk, split};
