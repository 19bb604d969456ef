//! Names of the fields of a type, as its `Deserialize` expects them.

use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

/// Returns the names of a struct's fields; none for any other type.
#[must_use]
pub fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // reads no value: the deserializer ends when the type has named its fields
    let _ = T::deserialize(Names(&mut names));
    names
}

struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("names only"))
    }
    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn struct_lists_its_fields_as_they_are_written() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        #[derive(Default)]
        #[allow(dead_code, reason = "only the names are used")]
        struct Two {
            one_field: u8,
            other: Vec<String>,
        }
        assert_eq!(field_names::<Two>(), ["oneField", "other"]);
        assert_eq!(field_names::<u8>(), [""; 0]);
    }
}
