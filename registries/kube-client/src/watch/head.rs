//! Name and version of an object, decoded without the rest.
//!
//! Called for every incoming object. Servers write metadata first, and decoding stops at the version: a large object costs
//! as little as a small one.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tributary_model::Version;

use crate::resource::ObjectName;

/// Longest name, namespace or version in bytes.
const LONGEST: usize = 512;

/// Name and version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Head<'a> {
    /// Namespace; empty for a cluster-scoped kind.
    pub(crate) namespace: Cow<'a, str>,
    /// Object name.
    pub(crate) name: Cow<'a, str>,
    /// `resourceVersion`.
    pub(crate) version: Cow<'a, str>,
}

impl<'a> Head<'a> {
    /// Decodes the head; `None` if the name or the version is missing or too long.
    pub(crate) fn read(raw: &'a RawValue, namespaced: bool) -> Option<Self> {
        let mut found = Found { head: Self::default(), namespaced };
        let mut from = serde_json::Deserializer::from_str(raw.get());
        // the visitor ends with an error on purpose once all fields are found
        let _ = Outer(&mut found).deserialize(&mut from);
        let head = found.head;
        let bounded = |text: &str| !text.is_empty() && text.len() <= LONGEST;
        (bounded(&head.name) && bounded(&head.version) && head.namespace.len() <= LONGEST).then_some(head)
    }
    /// Returns the hash of the name, the key in tables.
    pub(crate) fn key(&self) -> u64 {
        Version::of(format!("{}/{}", self.namespace, self.name).as_bytes()).0
    }
    /// Returns the hash of the version, the value in tables.
    pub(crate) fn stamp(&self) -> u64 {
        Version::of(self.version.as_bytes()).0
    }
    /// Returns the name.
    pub(crate) fn object(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }
}

struct Found<'a> {
    head: Head<'a>,
    namespaced: bool,
}

impl Found<'_> {
    fn is_all(&self) -> bool {
        let Head { namespace, name, version } = &self.head;
        let namespace_found = !self.namespaced || !namespace.is_empty();
        namespace_found && !name.is_empty() && !version.is_empty()
    }
}

#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Visitor of the object.
struct Outer<'f, 'a>(&'f mut Found<'a>);

impl<'de> DeserializeSeed<'de> for Outer<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Outer<'_, 'de> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = map.next_key()? {
            if name == "metadata" {
                return map.next_value_seed(Inner(self.0));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Visitor of the metadata.
struct Inner<'f, 'a>(&'f mut Found<'a>);

impl<'de> DeserializeSeed<'de> for Inner<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Inner<'_, 'de> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let found = self.0;
        while let Some(Text(name)) = map.next_key()? {
            let field = match name.as_ref() {
                "namespace" => &mut found.head.namespace,
                "name" => &mut found.head.name,
                "resourceVersion" => &mut found.head.version,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let Text(value) = map.next_value()?;
            *field = value;
            if found.is_all() {
                return Err(A::Error::custom("the rest is not needed"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, namespaced: bool) -> Option<(String, String)> {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let head = Head::read(&raw, namespaced)?;
        Some((head.object().to_string(), head.version.into_owned()))
    }

    #[test]
    fn head_is_found_in_any_field_order() {
        let expected = Some(("shop/web".to_owned(), "7".to_owned()));
        for text in [
            r#"{"metadata":{"name":"web","namespace":"shop","resourceVersion":"7"},"spec":{}}"#,
            r#"{"metadata":{"resourceVersion":"7","labels":{"name":"no"},"namespace":"shop","name":"web"}}"#,
            r#"{"spec":{"metadata":{"name":"no"}},"metadata":{"annotations":{"a":"\"}"},"name":"w\u0065b","namespace":"shop","resourceVersion":"7"}}"#,
        ] {
            assert_eq!(read(text, true), expected, "{text}");
        }
        let node = r#"{"metadata":{"name":"n1","resourceVersion":"7"}}"#;
        assert_eq!(read(node, false), Some(("n1".to_owned(), "7".to_owned())));
    }

    #[test]
    fn object_without_name_or_version_has_no_head() {
        let long =
            format!(r#"{{"metadata":{{"name":"{}","resourceVersion":"7"}}}}"#, "x".repeat(LONGEST + 1));
        for text in
            ["{}", "[]", r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"resourceVersion":"1"}}"#, &long]
        {
            assert_eq!(read(text, false), None, "{text}");
        }
    }

    #[test]
    fn keys_separate_namespace_and_name() {
        let head = |namespace: &'static str, name: &'static str| Head {
            namespace: namespace.into(),
            name: name.into(),
            version: "1".into(),
        };
        assert_ne!(head("a", "bc").key(), head("ab", "c").key());
        assert_eq!(head("a", "b").key(), head("a", "b").key());
    }
}
