//! One JSON object of an API server as a tree, within the bounds that documents of files have.
//!
//! Called by the custom resources' projection. Places are not known: an API server shows an object,
//! not a line. What nobody reads and what may be larger than all the rest, `metadata.managedFields`,
//! is passed over by the parser and never kept.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tributary_model::Code;

use crate::fault::{Fault, Pos};
use crate::node::{Key, Node, Value, bounds};

const NOWHERE: Pos = Pos::new(0, 0);

/// Reads one object; the fault says what is wrong.
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

/// How the messages of passed bounds begin.
const TOO_LARGE: &str = "larger or deeper than is read";

/// A value that is about to be read.
#[derive(Clone, Copy)]
struct Tree<'c> {
    /// How many collections it lies in.
    depth: usize,
    /// Whether it is the object's own `metadata`.
    metadata: bool,
    /// How many values may still be read.
    left: &'c Cell<usize>,
}

impl Tree<'_> {
    fn inner(self, key: &str) -> Self {
        Self { depth: self.depth + 1, metadata: self.depth == 0 && key == "metadata", ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let left = self.left.get().checked_sub(1).filter(|_| self.depth <= bounds::DEPTH);
        self.left.set(left.ok_or_else(|| D::Error::custom(TOO_LARGE))?);
        deserializer.deserialize_any(self).map(|value| Node { at: NOWHERE, value })
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element_seed(self.inner(""))? {
            list.push(node);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.metadata && name == "managedFields" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let node = map.next_value_seed(self.inner(&name))?;
            entries.push((Key { at: NOWHERE, name }, node));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same tree without its places.
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
    fn what_is_read_is_what_yaml_of_the_same_content_comes_to() {
        let text = r#"{"a": [1, -2, "x", true, null, 1.5], "b": {"c": {}}}"#;
        assert_eq!(parse(text).unwrap(), nowhere(crate::yaml::parse(text).unwrap()));
    }

    #[test]
    fn managed_fields_are_never_kept_and_other_fields_of_that_name_are() {
        let text =
            r#"{"metadata": {"name": "a", "managedFields": [{"f": 1}]}, "spec": {"managedFields": 1}}"#;
        let node = parse(text).unwrap();
        assert!(node.get("metadata").unwrap().get("managedFields").is_none());
        assert_eq!(node.get("metadata").unwrap().get("name").unwrap().text(), Some("a"));
        assert!(node.get("spec").unwrap().get("managedFields").is_some());
    }

    #[test]
    fn what_is_too_deep_too_many_or_torn_is_refused() {
        let deep = format!("{}{}", "[".repeat(bounds::DEPTH + 2), "]".repeat(bounds::DEPTH + 2));
        let many = format!("[{}0]", "0,".repeat(bounds::NODES));
        for text in [&deep, &many] {
            assert_eq!(parse(text).unwrap_err().code, Code::DOCUMENT_TOO_LARGE);
        }
        for torn in ["", "{", "{\"a\":1", "{} {}", "nul"] {
            assert_eq!(parse(torn).unwrap_err().code, Code::WRONG_TYPE, "{torn:?} was taken");
        }
    }
}
