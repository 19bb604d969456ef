//! A value as serde reads it: which scalar becomes what, and how collections are gathered.
//!
//! Called by [`crate::yaml`] and [`crate::json`], which know their format's places and keep its bounds.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{Key, Node, Value};

/// How a format reads a value and its place.
pub(crate) trait Format<'de>: DeserializeSeed<'de, Value = Node> + Copy {
    /// A key as the format reads it.
    type Key: Deserialize<'de> + Into<Key>;
    /// How it reads what lies in this value, under a key where this is a map.
    fn inner(self, _key: &str) -> Self {
        self
    }
    /// Whether it passes over what lies under this key.
    fn skips(self, _key: &str) -> bool {
        false
    }
}

/// Takes any value of a format. Neither parser has other words than these when it is asked for any value.
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
