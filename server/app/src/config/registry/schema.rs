//! JSON Schema of a registry: the fields of all kinds in one object, each described with its kinds.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use tributary_consul::config::ConsulFields;
use tributary_kubernetes::KubernetesFields;
use tributary_service_entry::FileFields;

use super::RegistryConfig;
use crate::config::kind::RegistryKind;
use crate::config::staleness::Staleness;

/// One registry.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
#[allow(dead_code, reason = "only the schema is used")]
struct CommonFields {
    /// Kind of the source.
    kind: RegistryKind,
    /// Name, unique in one server; default: the kind, with a number if that name is used.
    name: Option<String>,
    /// Cluster of the registry; default: the server's `clusterId`, which makes a Kubernetes registry that of the config
    /// cluster. Every other cluster is remote.
    cluster_id: Option<String>,
    /// Policy for facts whose source is unreachable or unsynced: `hold` keeps serving them, `degrade(10m)`
    /// lowers them by one priority after that time, `withdraw(1h)` stops serving them; default `hold`.
    staleness: Option<Staleness>,
}

impl JsonSchema for RegistryConfig {
    fn schema_name() -> Cow<'static, str> {
        "RegistryConfig".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = CommonFields::json_schema(generator);
        let mut all = properties(&mut schema);
        for kind in RegistryKind::ALL {
            for (name, mut field) in properties(&mut of_kind(kind, generator)) {
                describe(&mut field, kind, all.get(&name));
                all.insert(name, field);
            }
        }
        schema.insert("properties".to_owned(), Value::Object(all));
        schema
    }
}

fn of_kind(kind: &RegistryKind, generator: &mut SchemaGenerator) -> Schema {
    match kind {
        RegistryKind::File => FileFields::json_schema(generator),
        RegistryKind::Kubernetes => KubernetesFields::json_schema(generator),
        RegistryKind::Consul => ConsulFields::json_schema(generator),
        RegistryKind::Registered(_) => Schema::default(),
    }
}

fn properties(schema: &mut Schema) -> Map<String, Value> {
    match schema.get_mut("properties").map(Value::take) {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

/// Puts the kind before a field's description, below the descriptions of earlier kinds with such a field.
fn describe(field: &mut Value, kind: &RegistryKind, earlier: Option<&Value>) {
    let text = |field: &Value| field["description"].as_str().map(str::to_owned);
    let own = format!("`{}`: {}", kind.as_str(), lower(&text(field).unwrap_or_default()));
    let all = [earlier.and_then(text), Some(own)];
    field["description"] = all.into_iter().flatten().collect::<Vec<_>>().join("\n").into();
}

/// Returns a sentence without its first capital; an abbreviation stays.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Returns the schema of one field of a kind without its description.
#[cfg(test)]
pub(super) fn of_field(kind: &RegistryKind, name: &str) -> Value {
    let mut field = properties(&mut of_kind(kind, &mut SchemaGenerator::default())).remove(name).unwrap();
    field.as_object_mut().unwrap().remove("description");
    field
}
