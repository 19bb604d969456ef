//! JSON Schema of the configuration, derived from its types.

use serde_json::Value;

use super::model::{API_VERSION, Config, KIND};
use crate::extensions::Extensions;

/// Returns the schema as JSON. A file must have `apiVersion` and `kind`.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Config).to_value();
    if let Some(map) = schema.as_object_mut() {
        map.insert("title".to_owned(), "Tributary configuration".into());
        map.insert("required".to_owned(), serde_json::json!(["apiVersion", "kind"]));
    }
    for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if let Some(Value::Object(part)) = schema.pointer_mut(&format!("/properties/{field}")) {
            part.insert("const".to_owned(), wanted.into());
        }
    }
    schema
}

/// Returns the schema of a binary with more kinds of registry. Their fields are not described.
#[must_use]
pub fn schema_with(extensions: &Extensions) -> Value {
    let mut schema = schema();
    let kinds: Vec<Value> = extensions.kinds().map(|kind| serde_json::json!({"const": kind})).collect();
    if kinds.is_empty() {
        return schema;
    }
    if let Some(Value::Array(all)) = schema.pointer_mut("/$defs/RegistryKind/oneOf") {
        all.extend(kinds);
    }
    if let Some(Value::Object(registry)) = schema.pointer_mut("/$defs/RegistryConfig") {
        registry.insert("additionalProperties".to_owned(), true.into());
    }
    schema
}

/// Returns the schema of the field of this path.
#[must_use]
pub fn field<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    let mut at = schema;
    for part in path {
        at = resolve(schema, at);
        at = at
            .pointer(&format!("/properties/{part}"))
            .or_else(|| at.get("additionalProperties").filter(|more| more.is_object()))?;
    }
    Some(at)
}

/// Follows references and, for an optional field, returns the variant that is not null.
pub(crate) fn resolve<'a>(schema: &'a Value, at: &'a Value) -> &'a Value {
    if let Some(name) = at.get("$ref").and_then(Value::as_str) {
        let target = schema.pointer(name.trim_start_matches('#'));
        return target.map_or(at, |target| resolve(schema, target));
    }
    let some = at.get("anyOf").and_then(Value::as_array);
    let some = some.and_then(|all| all.iter().find(|one| one.get("type") != Some(&"null".into())));
    some.map_or(at, |one| resolve(schema, one))
}

/// Whether a field takes text unchanged.
#[must_use]
pub fn is_text(schema: &Value, at: &Value) -> bool {
    let at = resolve(schema, at);
    let text = |value: &Value| value == "string";
    match at.get("type") {
        Some(Value::Array(types)) => types.iter().any(text),
        Some(one) => text(one),
        // Enumerations with documented variants have no type of their own.
        None => at.get("oneOf").is_some() || at.get("enum").is_some(),
    }
}
