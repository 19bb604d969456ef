//! Reads a registry whose fields are flat beside its `kind`, in any order.
//!
//! Each field is read by the type that has it, so that an error has the position of the field. A field before
//! `kind` is read by the first kind that has it. Fields of a registered kind are kept as they are.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tributary_consul::config::ConsulFields;
use tributary_kubernetes::KubernetesFields;
use tributary_service_entry::FileFields;

use super::{RegisteredSource, RegistryConfig, Source};
use crate::config::kind::{COMMON_FIELDS, RegistryKind};

impl<'de> Deserialize<'de> for RegistryConfig {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(RegistryVisitor)
    }
}

impl RegistryConfig {
    /// Reads registries from JSON, whose objects have no order: the kind comes first.
    pub fn list_of(registries: Value) -> Result<Vec<Self>, serde_json::Error> {
        let read = |mut fields: Map<String, Value>| {
            let kind = fields.remove_entry("kind");
            RegistryVisitor.visit_map(MapDeserializer::new(kind.into_iter().chain(fields)))
        };
        Vec::<Map<String, Value>>::deserialize(registries)?.into_iter().map(read).collect()
    }
}

struct RegistryVisitor;

impl<'de> Visitor<'de> for RegistryVisitor {
    type Value = RegistryConfig;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a registry")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RegistryConfig, A::Error> {
        let mut out = RegistryConfig::default();
        let mut kind: Option<RegistryKind> = None;
        let mut fields = Vec::new();
        while let Some(name) = map.next_key_seed(FieldName(kind.as_ref()))? {
            match name.as_str() {
                "kind" => kind = Some(map.next_value()?),
                "name" => out.name = map.next_value()?,
                "clusterId" => out.cluster_id = map.next_value()?,
                "staleness" => out.staleness = map.next_value()?,
                _ => {
                    let value = map.next_value_seed(FieldValue { kind: kind.as_ref(), name: &name })?;
                    fields.push((name, value));
                }
            }
        }
        let kind = kind.ok_or_else(|| A::Error::missing_field("kind"))?;
        let has = |name: &str| kind.has(name) || matches!(kind, RegistryKind::Registered(_));
        let (own, other): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(name, _)| has(name));
        out.misplaced = other.into_iter().map(|(name, _)| name).collect();
        out.source = source(kind, own.into_iter().collect()).map_err(A::Error::custom)?;
        Ok(out)
    }
}

fn source(kind: RegistryKind, fields: Map<String, Value>) -> Result<Source, serde_json::Error> {
    Ok(match kind {
        RegistryKind::File => Source::File(typed(fields)?),
        RegistryKind::Kubernetes => Source::Kubernetes(Box::new(typed(fields)?)),
        RegistryKind::Consul => Source::Consul(Box::new(typed(fields)?)),
        RegistryKind::Registered(kind) => Source::Registered(RegisteredSource { kind, fields }),
    })
}

fn typed<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, serde_json::Error> {
    T::deserialize(Value::Object(fields))
}

/// Reads the name of a field. A name that no kind has is an error once the kind is known.
struct FieldName<'a>(Option<&'a RegistryKind>);

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = String;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<String, D::Error> {
        let name = String::deserialize(d)?;
        let is_known = COMMON_FIELDS.contains(&name.as_str()) || RegistryKind::with_field(&name).is_some();
        match self.0 {
            Some(RegistryKind::Registered(_)) => Ok(name),
            Some(kind) if !is_known => Err(D::Error::unknown_field(&name, kind.known_fields())),
            _ => Ok(name),
        }
    }
}

/// Reads the value of a field by the type that has it. A field of another kind is skipped.
struct FieldValue<'a> {
    kind: Option<&'a RegistryKind>,
    name: &'a str,
}

impl<'de> DeserializeSeed<'de> for FieldValue<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        let Self { kind, name } = self;
        match kind.or_else(|| RegistryKind::with_field(name)) {
            Some(owner) if !owner.has(name) && !matches!(owner, RegistryKind::Registered(_)) => {
                IgnoredAny::deserialize(d).map(|_| Value::Null)
            }
            Some(RegistryKind::File) => one_field::<FileFields, D>(name, d),
            Some(RegistryKind::Kubernetes) => one_field::<KubernetesFields, D>(name, d),
            Some(RegistryKind::Consul) => one_field::<ConsulFields, D>(name, d),
            Some(RegistryKind::Registered(_)) | None => Value::deserialize(d),
        }
    }
}

/// Reads one field of a type.
fn one_field<'de, T, D>(name: &str, d: D) -> Result<Value, D::Error>
where
    T: DeserializeOwned + Serialize,
    D: Deserializer<'de>,
{
    let field = OneField { name: Some(name), value: Some(d) };
    let read = T::deserialize(MapAccessDeserializer::new(field))?;
    let mut written = serde_json::to_value(read).map_err(D::Error::custom)?;
    Ok(written.get_mut(name).map(Value::take).unwrap_or_default())
}

/// A mapping with one entry.
struct OneField<'a, D> {
    name: Option<&'a str>,
    value: Option<D>,
}

impl<'de, D: Deserializer<'de>> MapAccess<'de> for OneField<'_, D> {
    type Error = D::Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, D::Error> {
        self.name.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, D::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value),
            None => Err(D::Error::custom("a field has one value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(yaml: &str) -> RegistryConfig {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn order_of_the_kind_does_not_matter() {
        let fields = ["kind: consul", "tags: [2024, 007]", "namespaces: [a]", "rate: 5", "clusterId: east"];
        let first = mk(&fields.join("\n"));
        let consul = first.consul().unwrap();
        assert_eq!(consul.tags.as_deref(), Some(&["2024".to_owned(), "007".to_owned()][..]));
        for at in 0..fields.len() {
            let mut fields = fields;
            fields[..=at].rotate_left(1);
            assert_eq!(mk(&fields.join("\n")), first, "{fields:?}");
        }
    }

    #[test]
    fn registered_kind_may_use_a_name_for_another_type() {
        let registries = serde_json::json!([{"addresses": "a", "kind": "listing", "rate": "b"}]);
        let read = RegistryConfig::list_of(registries).unwrap();
        let first = mk("{kind: listing, addresses: a, rate: b}");
        assert_eq!(first.misplaced, [""; 0]);
        assert_eq!(read, [first]);
    }

    #[test]
    fn fields_of_other_kinds_are_kept_by_name() {
        for text in ["{kind: file, path: a, context: {b: c}}", "{context: x, path: a, kind: file}"] {
            let registry = mk(text);
            assert_eq!(
                (registry.kind(), &registry.misplaced[..]),
                (RegistryKind::File, &["context".to_owned()][..])
            );
        }
        assert_eq!(mk("{other: x, kind: file}").misplaced, ["other"]);
    }

    #[test]
    fn kinds_that_share_a_field_share_its_type() {
        let mut seen: Vec<(&str, Value)> = Vec::new();
        for kind in RegistryKind::ALL {
            for name in kind.known_fields().iter().filter(|name| kind.has(name)) {
                assert!(!COMMON_FIELDS.contains(name), "{name} is a field of every kind");
                let own = super::super::schema::of_field(kind, name);
                match seen.iter().find(|(other, _)| other == name) {
                    Some((_, other)) => assert_eq!(*other, own, "{name}"),
                    None => seen.push((name, own)),
                }
            }
        }
    }
}
