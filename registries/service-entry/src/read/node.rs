//! A document as a tree, independent of its format: YAML of a file, or JSON of an API server.
//!
//! [`crate::read::yaml`] and [`crate::read::json`] create it within the same limits; the decoder walks it and can
//! therefore report all faults of a document.

pub(crate) mod visitor;

use crate::read::fault::Pos;

/// Limits of one document.
pub(crate) mod bounds {
    /// Bytes of text.
    pub(crate) const BYTES: usize = 4 * 1024 * 1024;
    /// Depth of nesting. The deepest field that is read is at 13, beside values of
    /// EnvoyFilters, which have any depth.
    pub(crate) const DEPTH: usize = 48;
    /// Scalars and collections, before aliases are expanded.
    pub(crate) const NODES: usize = 500_000;
    /// Uses of anchors.
    pub(crate) const ALIASES: usize = 1_000;
    /// Values that the expansion of aliases may add.
    pub(crate) const REPLAYED: usize = 100_000;
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Pos,
    pub(crate) value: Value,
}

/// A value. Plain text is typed by the core schema of YAML 1.2: `yes` and `on` are text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) at: Pos,
    pub(crate) name: String,
}

impl Value {
    /// The name of the type, for messages.
    pub(crate) const fn what(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl Node {
    /// The value of a key, if this is a map with it.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }
    /// The text, if this is text.
    pub(crate) fn text(&self) -> Option<&str> {
        let Value::Text(text) = &self.value else { return None };
        Some(text)
    }
}
