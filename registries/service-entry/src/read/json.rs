//! Reads one JSON object of an API server to a tree, within the limits of documents in files.
//!
//! The projection of custom resources calls it. Positions are unknown: an API server has no lines.
//! The parser skips `metadata.managedFields`, which is not read and may be the largest part.

use std::cell::Cell;

use serde::de::{DeserializeSeed, Deserializer, Error};
use tributary_model::Code;

use crate::read::fault::{Fault, Pos};
use crate::read::node::visitor::{AnyValue, Format};
use crate::read::node::{Key, Node, bounds};

const NOWHERE: Pos = Pos::new(0, 0);

/// Reads one object.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() > bounds::BYTES {
        let message =
            format!("the object is {} bytes long, more than {}; split it", text.len(), bounds::BYTES);
        return Err(Fault::refused(Code::DOCUMENT_TOO_LARGE, NOWHERE, message));
    }
    let left = Cell::new(bounds::NODES);
    let mut parser = serde_json::Deserializer::from_str(text);
    let tree = Tree { depth: 0, metadata: false, left: &left };
    let read = tree.deserialize(&mut parser).and_then(|node| parser.end().map(|()| node));
    read.map_err(|error| fault(&error))
}

fn fault(error: &serde_json::Error) -> Fault {
    let what: String = error.to_string().chars().take(200).collect();
    let code = if what.starts_with(TOO_LARGE) { Code::DOCUMENT_TOO_LARGE } else { Code::WRONG_TYPE };
    Fault::refused(code, NOWHERE, format!("the object cannot be read: {what}; write it again"))
}

/// Prefix of the messages about exceeded limits.
const TOO_LARGE: &str = "exceeds the limit of size or depth";

/// A value to be read.
#[derive(Clone, Copy)]
struct Tree<'c> {
    /// Depth of nesting.
    depth: usize,
    /// Whether it is the `metadata` of the object.
    metadata: bool,
    /// Number of values that may still be read.
    left: &'c Cell<usize>,
}

impl From<String> for Key {
    fn from(name: String) -> Self {
        Self { at: NOWHERE, name }
    }
}

impl Format<'_> for Tree<'_> {
    type Key = String;

    fn inner(self, key: &str) -> Self {
        Self { depth: self.depth + 1, metadata: self.depth == 0 && key == "metadata", ..self }
    }
    fn skips(self, key: &str) -> bool {
        self.metadata && key == "managedFields"
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let left = self.left.get().checked_sub(1).filter(|_| self.depth <= bounds::DEPTH);
        self.left.set(left.ok_or_else(|| D::Error::custom(TOO_LARGE))?);
        deserializer.deserialize_any(AnyValue(self)).map(|value| Node { at: NOWHERE, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::node::Value;

    /// The same tree without positions.
    fn nowhere(node: Node) -> Node {
        let value = match node.value {
            Value::List(items) => Value::List(items.into_iter().map(nowhere).collect()),
            Value::Map(entries) => Value::Map(
                entries.into_iter().map(|(key, node)| (Key { at: NOWHERE, ..key }, nowhere(node))).collect(),
            ),
            plain => plain,
        };
        Node { at: NOWHERE, value }
    }

    #[test]
    fn json_reads_like_yaml_of_the_same_content() {
        let text = r#"{"a": [1, -2, "x", true, null, 1.5], "b": {"c": {}}}"#;
        assert_eq!(parse(text).unwrap(), nowhere(crate::read::yaml::parse(text).unwrap()));
    }

    #[test]
    fn managed_fields_of_metadata_are_skipped() {
        let text =
            r#"{"metadata": {"name": "a", "managedFields": [{"f": 1}]}, "spec": {"managedFields": 1}}"#;
        let node = parse(text).unwrap();
        assert!(node.get("metadata").unwrap().get("managedFields").is_none());
        assert_eq!(node.get("metadata").unwrap().get("name").unwrap().text(), Some("a"));
        assert!(node.get("spec").unwrap().get("managedFields").is_some());
    }

    #[test]
    fn deep_large_or_torn_object_is_refused() {
        let deep = format!("{}{}", "[".repeat(bounds::DEPTH + 2), "]".repeat(bounds::DEPTH + 2));
        let many = format!("[{}0]", "0,".repeat(bounds::NODES));
        for text in [&deep, &many] {
            assert_eq!(parse(text).unwrap_err().code, Code::DOCUMENT_TOO_LARGE);
        }
        for torn in ["", "{", "{\"a\":1", "{} {}", "nul"] {
            assert_eq!(parse(torn).unwrap_err().code, Code::WRONG_TYPE, "{torn:?} was accepted");
        }
    }
}
