//! Reads a value through serde: the type of each scalar, and the items of collections.
//!
//! [`crate::read::yaml`] and [`crate::read::json`] call it; they provide positions and enforce the limits.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Key, Node, Value};

/// Reads a value and its position in one format.
pub(crate) trait Format<'de>: DeserializeSeed<'de, Value = Node> + Copy {
    /// A key in the format.
    type Key: Deserialize<'de> + Into<Key>;
    /// The reader of a nested value, with its key if this value is a map.
    fn inner(self, _key: &str) -> Self {
        self
    }
    /// Whether the value of this key is skipped.
    fn skips(self, _key: &str) -> bool {
        false
    }
}

/// Visitor that accepts any value of a format.
pub(crate) struct AnyValue<F>(pub(crate) F);

impl<'de, F: Format<'de>> Visitor<'de> for AnyValue<F> {
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
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element_seed(self.0.inner(""))? {
            list.push(node);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<F::Key>()? {
            let key: Key = key.into();
            if self.0.skips(&key.name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let node = map.next_value_seed(self.0.inner(&key.name))?;
            entries.push((key, node));
        }
        Ok(Value::Map(entries))
    }
}
