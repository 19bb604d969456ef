//! Reads values in JSON form into messages, as pilot-discovery reads the values of EnvoyFilters.
//!
//! Names of fields are those of the protobuf files or of their JSON form, enums are names or numbers, durations are as Go
//! writes them, and `null` is an absent field. Unknown fields are left out and returned by path; everything else that is
//! not understood is an error.

mod duration;
mod scalar;

use std::fmt;

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use serde_json::Value as Json;

use crate::ordered::encode;
use crate::types::{ANY, Types};

/// Levels of nesting of a value.
const MAX_DEPTH: usize = 64;
/// Most unknown fields that are returned.
const MAX_UNKNOWN: usize = 16;
/// Host of a type that is named without one.
const HOST: &str = "type.googleapis.com/";

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Field of a map.
    Field(Box<str>),
    /// Item of a list.
    Item(usize),
}

/// Place within a value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ValuePath(pub Vec<Step>);

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Why a value is not a message of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// Place within the value.
    pub at: ValuePath,
    /// What is wrong, behind the name of the field.
    pub why: String,
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadValue {
    /// Encoded message.
    pub bytes: Vec<u8>,
    /// Fields that its types do not have; they are left out.
    pub unknown: Vec<ValuePath>,
}

impl Types {
    /// Reads a value of a type.
    pub fn read(&self, name: &str, value: &Json) -> Result<ReadValue, ValueError> {
        let mut reader = Reader { types: self, path: Vec::new(), unknown: Vec::new() };
        let of = self.get(name).ok_or_else(|| reader.error(format!("has the unknown type {name}")))?;
        let bytes = encode(&reader.message(&of, value)?);
        Ok(ReadValue { bytes, unknown: reader.unknown })
    }
}

struct Reader<'t> {
    types: &'t Types,
    path: Vec<Step>,
    unknown: Vec<ValuePath>,
}

impl Reader<'_> {
    fn error(&self, why: impl Into<String>) -> ValueError {
        ValueError { at: ValuePath(self.path.clone()), why: why.into() }
    }
    fn wrong(&self, value: &Json, should: &str) -> ValueError {
        self.error(format!("is {}; it must be {should}", what(value)))
    }
    /// Reads a part of the value at a further step.
    fn within<T>(
        &mut self,
        step: Step,
        read: impl FnOnce(&mut Self) -> Result<T, ValueError>,
    ) -> Result<T, ValueError> {
        if self.path.len() >= MAX_DEPTH {
            return Err(self.error("is nested too deep"));
        }
        self.path.push(step);
        let out = read(self)?;
        self.path.pop();
        Ok(out)
    }
    fn message(&mut self, of: &MessageDescriptor, value: &Json) -> Result<DynamicMessage, ValueError> {
        match of.full_name() {
            ANY => self.any(of, value),
            "google.protobuf.Duration" => self.duration(of, value),
            "google.protobuf.Struct" => self.structure(of, value),
            "google.protobuf.Value" => self.free(of, value),
            "google.protobuf.ListValue" => {
                let items = value.as_array().ok_or_else(|| self.wrong(value, "a list"))?;
                self.list_value(of, items)
            }
            "google.protobuf.Timestamp" | "google.protobuf.FieldMask" => {
                let read = DynamicMessage::deserialize(of.clone(), value);
                read.map_err(|error| self.error(format!("is not valid: {error}")))
            }
            name if is_wrapper(name) => self.wrapper(of, value),
            _ => self.object(of, value, false),
        }
    }
    fn object(
        &mut self,
        of: &MessageDescriptor,
        value: &Json,
        has_type: bool,
    ) -> Result<DynamicMessage, ValueError> {
        let entries = value.as_object().ok_or_else(|| self.wrong(value, "a map of fields"))?;
        let mut known = Vec::new();
        for (key, value) in entries.iter().filter(|(key, _)| !(has_type && *key == "@type")) {
            // with both names given, that of the JSON form is used
            let plain = of.get_field_by_name(key).map(|field| (field, false));
            match plain.or_else(|| of.get_field_by_json_name(key).map(|field| (field, true))) {
                Some((field, is_json)) => known.push((field.number(), is_json, field, key, value)),
                None => self.unknown(key),
            }
        }
        known.sort_by_key(|(number, is_json, ..)| (*number, *is_json));
        let mut out = DynamicMessage::new(of.clone());
        for (_, _, field, key, value) in known {
            if *value == Json::Null && !is_free(&field.kind()) {
                continue;
            }
            let read = self.within(Step::Field(key.as_str().into()), |at| at.field(&field, value))?;
            out.set_field(&field, read);
        }
        Ok(out)
    }
    fn unknown(&mut self, key: &str) {
        if self.unknown.len() < MAX_UNKNOWN {
            let mut path = self.path.clone();
            path.push(Step::Field(key.into()));
            self.unknown.push(ValuePath(path));
        }
    }
    fn field(&mut self, field: &FieldDescriptor, value: &Json) -> Result<Value, ValueError> {
        if field.is_map() {
            return self.map(field, value);
        }
        if !field.is_list() {
            return self.one(&field.kind(), value);
        }
        let items = value.as_array().ok_or_else(|| self.wrong(value, "a list"))?;
        let read = |(i, item): (usize, &Json)| self.within(Step::Item(i), |at| at.one(&field.kind(), item));
        Ok(Value::List(items.iter().enumerate().map(read).collect::<Result<_, _>>()?))
    }
    fn map(&mut self, field: &FieldDescriptor, value: &Json) -> Result<Value, ValueError> {
        let entries = value.as_object().ok_or_else(|| self.wrong(value, "a map"))?;
        let Kind::Message(entry) = field.kind() else { return Err(self.wrong(value, "a map")) };
        let (keys, values) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let mut out = std::collections::HashMap::new();
        for (name, value) in entries {
            let pair = self.within(Step::Field(name.as_str().into()), |at| {
                Ok((at.key(&keys.kind(), name)?, at.one(&values.kind(), value)?))
            });
            let (key, value) = pair?;
            out.insert(key, value);
        }
        Ok(Value::Map(out))
    }
    fn key(&self, kind: &Kind, name: &str) -> Result<MapKey, ValueError> {
        let value = match kind {
            Kind::String => Value::String(name.to_owned()),
            Kind::Bool => Value::Bool(name.parse().map_err(|_| self.error("is not true or false"))?),
            number => self.scalar(number, &Json::String(name.to_owned()))?,
        };
        value.into_map_key().ok_or_else(|| self.error("is not a key"))
    }
    fn one(&mut self, kind: &Kind, value: &Json) -> Result<Value, ValueError> {
        match kind {
            Kind::Message(of) => self.message(of, value).map(Value::Message),
            plain => self.scalar(plain, value),
        }
    }
    fn any(&mut self, of: &MessageDescriptor, value: &Json) -> Result<DynamicMessage, ValueError> {
        let entries = value.as_object().ok_or_else(|| self.wrong(value, "a map with `@type`"))?;
        let url = entries.get("@type").and_then(Json::as_str).unwrap_or_default();
        if url.is_empty() {
            return Err(self.error("has no `@type`; add the type of the message"));
        }
        let inner = self.types.get(url).ok_or_else(|| self.error(format!("has the unknown type {url:?}")))?;
        let message = if is_special(inner.full_name()) {
            let payload = entries.get("value").unwrap_or(&Json::Null);
            self.within(Step::Field("value".into()), |at| at.message(&inner, payload))?
        } else {
            self.object(&inner, value, true)?
        };
        let url = if url.contains('/') { url.to_owned() } else { format!("{HOST}{url}") };
        let mut out = DynamicMessage::new(of.clone());
        out.set_field_by_name("type_url", Value::String(url));
        out.set_field_by_name("value", Value::Bytes(encode(&message).into()));
        Ok(out)
    }
    fn wrapper(&mut self, of: &MessageDescriptor, value: &Json) -> Result<DynamicMessage, ValueError> {
        let mut out = DynamicMessage::new(of.clone());
        if let Some(field) = of.get_field(1) {
            out.set_field(&field, self.scalar(&field.kind(), value)?);
        }
        Ok(out)
    }
    fn duration(&self, of: &MessageDescriptor, value: &Json) -> Result<DynamicMessage, ValueError> {
        let text = value.as_str().ok_or_else(|| self.wrong(value, "text such as `1.5s`"))?;
        let (seconds, nanos) = duration::parse(text)
            .ok_or_else(|| self.error(format!("{text:?} is not a duration such as `1.5s`")))?;
        let mut out = DynamicMessage::new(of.clone());
        out.set_field_by_name("seconds", Value::I64(seconds));
        out.set_field_by_name("nanos", Value::I32(nanos));
        Ok(out)
    }
    fn structure(&mut self, of: &MessageDescriptor, value: &Json) -> Result<DynamicMessage, ValueError> {
        let mut out = DynamicMessage::new(of.clone());
        if let Some(fields) = of.get_field_by_name("fields") {
            out.set_field(&fields, self.map(&fields, value)?);
        }
        Ok(out)
    }
    /// Reads any JSON value.
    fn free(&mut self, of: &MessageDescriptor, value: &Json) -> Result<DynamicMessage, ValueError> {
        let mut out = DynamicMessage::new(of.clone());
        let (name, read) = match value {
            Json::Null => ("null_value", Value::EnumNumber(0)),
            Json::Bool(it) => ("bool_value", Value::Bool(*it)),
            Json::Number(it) => ("number_value", Value::F64(it.as_f64().unwrap_or_default())),
            Json::String(it) => ("string_value", Value::String(it.clone())),
            Json::Array(items) => {
                let list = field_type(of, "list_value").ok_or_else(|| self.wrong(value, "plain"))?;
                ("list_value", Value::Message(self.list_value(&list, items)?))
            }
            Json::Object(_) => {
                let inner = field_type(of, "struct_value").ok_or_else(|| self.wrong(value, "plain"))?;
                ("struct_value", Value::Message(self.structure(&inner, value)?))
            }
        };
        out.set_field_by_name(name, read);
        Ok(out)
    }
    fn list_value(&mut self, of: &MessageDescriptor, items: &[Json]) -> Result<DynamicMessage, ValueError> {
        let mut out = DynamicMessage::new(of.clone());
        if let Some(values) = of.get_field_by_name("values") {
            let kind = values.kind();
            let read = |(i, item): (usize, &Json)| self.within(Step::Item(i), |at| at.one(&kind, item));
            let all = items.iter().enumerate().map(read).collect::<Result<_, _>>()?;
            out.set_field(&values, Value::List(all));
        }
        Ok(out)
    }
}

fn field_type(of: &MessageDescriptor, name: &str) -> Option<MessageDescriptor> {
    of.get_field_by_name(name)?.kind().as_message().cloned()
}

fn is_free(kind: &Kind) -> bool {
    kind.as_message().is_some_and(|of| of.full_name() == "google.protobuf.Value")
}

pub(crate) fn is_wrapper(name: &str) -> bool {
    let name = name.strip_prefix("google.protobuf.").and_then(|name| name.strip_suffix("Value"));
    name.is_some_and(|of| {
        ["Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes"].contains(&of)
    })
}

/// Whether a type has a JSON form of its own, which a nested message has in `value`.
fn is_special(name: &str) -> bool {
    let others = ["Any", "Duration", "Struct", "Value", "ListValue", "Timestamp", "FieldMask"];
    is_wrapper(name) || name.strip_prefix("google.protobuf.").is_some_and(|name| others.contains(&name))
}

/// Name of a value's type, for messages.
fn what(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests;
