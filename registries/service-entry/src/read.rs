//! Reads text and API objects to validated documents.
//!
//! The sources of documents call [`load`]: it parses [`yaml`], [`decode`]s the tree, runs
//! [`crate::validate`] and identifies the object with [`identity`]. Custom resources enter as [`json`].
//! Both formats produce the same tree ([`node`]). All functions are pure, and every input yields
//! documents or [`fault`]s, never a panic.

pub(crate) mod decode;
pub mod fault;
pub(crate) mod identity;
pub(crate) mod json;
pub mod load;
pub(crate) mod node;
pub(crate) mod stand_in;
pub(crate) mod yaml;
