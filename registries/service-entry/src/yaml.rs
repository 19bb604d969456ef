//! YAML as text becomes trees of placed values.
//!
//! [`split`] cuts a stream into documents without understanding them, so that one that is broken
//! spoils no other; [`node`] reads one document within bounds.

pub(crate) mod node;
pub(crate) mod split;

pub(crate) use node::{Node, Value, parse};
pub(crate) use split::{Chunk, split};
