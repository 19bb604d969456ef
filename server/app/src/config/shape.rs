//! Checks the shape of a document against the schema: names of fields, types of values, and values of a fixed
//! set.
//!
//! `file` and `layers` call it before the types read the document, and report all its errors at once. It accepts
//! whatever the types accept; the types stay the judge of what it does not know.

use std::net::SocketAddr;
use std::sync::LazyLock;

use serde_json::Value;
use serde_saphyr::Spanned;

use super::errors::unknown_field;
use super::kind::{COMMON_FIELDS, RegistryKind};
use super::tree::{Located, Node, Position, position};
use super::{Span, Staleness, schema};

/// Schema of the whole configuration.
pub static SCHEMA: LazyLock<Value> = LazyLock::new(schema::schema);

/// Error about the shape of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    /// Position of the value or of the field's name.
    pub at: Position,
    /// The field, what was found, and what to write.
    pub message: String,
}

/// Returns every error of a document that is the value of `path`; the whole configuration has the path ``.
#[must_use]
pub fn errors(path: &str, root: &Located, schema: &Value) -> Vec<ShapeError> {
    let mut shape = Shape { errors: Vec::new() };
    shape.value(path, root, schema);
    shape.errors
}

struct Shape {
    errors: Vec<ShapeError>,
}

impl Shape {
    fn add(&mut self, at: Position, message: String) {
        self.errors.push(ShapeError { at, message });
    }
    /// Adds an error about a value.
    fn wrong(&mut self, path: &str, node: &Located, why: impl std::fmt::Display) {
        let message = if path.is_empty() { why.to_string() } else { format!("{path}: {why}") };
        self.add(position(node), message);
    }
    fn value(&mut self, path: &str, node: &Located, schema: &Value) {
        if allows_null(schema) && matches!(node.value, Node::Null) {
            return;
        }
        let (schema, name) = named(schema);
        match name {
            "RegistryConfig" => return self.registry(path, node, schema),
            "Secret" => return self.secret(path, node),
            _ => {}
        }
        let has = |kind: &str| types(schema).any(|one| one == kind);
        if let Some(allowed) = variants(schema) {
            self.variant(path, node, &allowed);
        } else if has("object") {
            self.map(path, node, schema);
        } else if has("array") {
            self.list(path, node, schema);
        } else if has("integer") {
            self.integer(path, node, schema);
        } else if has("boolean") {
            self.boolean(path, node);
        } else if has("string") {
            self.text(path, node, name, schema);
        }
    }
    fn map(&mut self, path: &str, node: &Located, schema: &Value) {
        let Node::Map(entries) = &node.value else {
            if !matches!(node.value, Node::Null) {
                self.wrong(
                    path,
                    node,
                    format_args!("{} is not a mapping; write {}", found(&node.value), example(schema)),
                );
            }
            return;
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let known: Vec<&str> =
            properties.into_iter().flat_map(|all| all.keys().map(String::as_str)).collect();
        for (key, value) in entries {
            let field = join(path, &key.value);
            match properties.and_then(|all| all.get(&key.value)).or_else(|| others(schema)) {
                Some(_) if is_ports(schema) && key.value.parse::<u16>().is_err() => {
                    self.add(
                        position(key),
                        format!(
                            "{field}: `{}` is not a port number; write a number from 1 to 65535",
                            cut(&key.value)
                        ),
                    );
                }
                Some(schema) => self.value(&field, value, schema),
                None => self.add(position(key), unknown_field(&field, &known)),
            }
        }
        self.required(path, node, entries, schema);
    }
    fn required(
        &mut self,
        path: &str,
        node: &Located,
        entries: &[(Spanned<String>, Located)],
        schema: &Value,
    ) {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !entries.iter().any(|(key, _)| key.value == name) {
                self.add(position(node), format!("`{}` is missing; set it", join(path, name)));
            }
        }
    }
    /// Checks the fields of a registry's own kind. `check` reports an unknown kind and fields of another kind.
    fn registry(&mut self, path: &str, node: &Located, schema: &Value) {
        let Node::Map(entries) = &node.value else {
            let why = format_args!(
                "{} is not a registry; write for example `kind: kubernetes`",
                found(&node.value)
            );
            return self.wrong(path, node, why);
        };
        let Some((_, kind)) = entries.iter().find(|(key, _)| key.value == "kind") else {
            return self.required(path, node, entries, schema);
        };
        let kind = match &kind.value {
            Node::Text(kind) | Node::Number(kind) => RegistryKind::from(kind.as_str()),
            other => {
                let all: Vec<&str> = RegistryKind::ALL.iter().map(RegistryKind::as_str).collect();
                let why = format_args!("{} is not a kind; use one of {}", found(other), all.join(", "));
                return self.wrong(&join(path, "kind"), kind, why);
            }
        };
        let is_own = !matches!(kind, RegistryKind::Registered(_));
        for (key, value) in entries {
            let (name, field) = (key.value.as_str(), join(path, &key.value));
            let property = schema.pointer(&format!("/properties/{name}"));
            match property.filter(|_| COMMON_FIELDS.contains(&name) || kind.has(name)) {
                Some(_) if name == "kind" => {}
                Some(schema) => self.value(&field, value, schema),
                None if is_own && RegistryKind::with_field(name).is_none() => {
                    self.add(position(key), unknown_field(&field, kind.known_fields()));
                }
                None => {}
            }
        }
    }
    fn list(&mut self, path: &str, node: &Located, schema: &Value) {
        let items = match &node.value {
            Node::List(items) => items,
            Node::Null => return,
            other => {
                let why = format_args!(
                    "{} is not a list; write one item a line after `- `, or `[a, b]`",
                    found(other)
                );
                return self.wrong(path, node, why);
            }
        };
        let Some(schema) = schema.get("items") else { return };
        for (i, item) in items.iter().enumerate() {
            self.value(&format!("{path}[{i}]"), item, schema);
        }
    }
    fn variant(&mut self, path: &str, node: &Located, allowed: &[&str]) {
        let value = match scalar(&node.value) {
            Some(value) if allowed.contains(&value.as_str()) => return,
            Some(value) => value,
            None => String::new(),
        };
        let shown =
            if value.is_empty() { found(&node.value).to_owned() } else { format!("`{}`", cut(&value)) };
        self.wrong(path, node, format_args!("{shown} is not valid; use one of {}", allowed.join(", ")));
    }
    fn integer(&mut self, path: &str, node: &Located, schema: &Value) {
        let most = schema.get("maximum").and_then(Value::as_u64).unwrap_or_else(|| u64::from(u32::MAX));
        let range = if most == u64::from(u16::MAX) { "a port from 1" } else { "a number from 0" };
        let (Node::Number(text) | Node::Text(text)) = &node.value else {
            let why = format_args!("{} is not a number; write {range} to {most}", found(&node.value));
            return self.wrong(path, node, why);
        };
        let why = match text.trim().parse::<i128>() {
            Ok(number) if (0..=i128::from(most)).contains(&number) => return,
            Ok(_) => "is out of range",
            Err(_) => "is not a whole number",
        };
        self.wrong(path, node, format_args!("`{}` {why}; write {range} to {most}", cut(text)));
    }
    fn boolean(&mut self, path: &str, node: &Located) {
        let text = match &node.value {
            Node::Bool(_) => return,
            Node::Text(text) | Node::Number(text) => format!("`{}`", cut(text)),
            other => found(other).to_owned(),
        };
        self.wrong(path, node, format_args!("{text} is not a boolean; write true or false"));
    }
    fn text(&mut self, path: &str, node: &Located, name: &str, schema: &Value) {
        let is_address = schema.get("format").is_some_and(|format| format == "ip-port");
        let Some(text) = scalar(&node.value) else {
            let wanted = match (name, is_address) {
                ("Span", _) => "a duration such as `30s`",
                (_, true) => "an IP address with a port such as `127.0.0.1:15010`",
                _ => "text",
            };
            return self.wrong(
                path,
                node,
                format_args!("{} is not valid; write {wanted}", found(&node.value)),
            );
        };
        let why = match name {
            "Span" => text.parse::<Span>().err(),
            "Staleness" => text.parse::<Staleness>().err(),
            _ if is_address => ip_port(&text).err(),
            _ => None,
        };
        if let Some(why) = why {
            self.wrong(path, node, why);
        }
    }
    /// A secret's error never has its value.
    fn secret(&mut self, path: &str, node: &Located) {
        if !matches!(node.value, Node::Text(_) | Node::Null) {
            self.wrong(path, node, "the secret is not text; write it in quotes");
        }
    }
}

/// Parses an IP address with a port.
pub fn ip_port(text: &str) -> Result<SocketAddr, String> {
    let why =
        |_| format!("`{}` is not an IP address with a port; write for example `127.0.0.1:15010`", cut(text));
    text.parse().map_err(why)
}

/// Follows references and options; returns the schema of a value with the name of its type.
fn named(schema: &Value) -> (&Value, &str) {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        let target = SCHEMA.pointer(reference.trim_start_matches('#'));
        return (target.unwrap_or(schema), name);
    }
    let some = schema.get("anyOf").and_then(Value::as_array);
    let some = some.and_then(|all| all.iter().find(|one| one.get("type").is_none_or(|of| of != "null")));
    some.map_or((schema, ""), named)
}

fn allows_null(schema: &Value) -> bool {
    let options = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    types(schema).chain(options.flat_map(types)).any(|of| of == "null")
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let of = schema.get("type");
    let several = of.and_then(Value::as_array).into_iter().flatten();
    several.chain(of).filter_map(Value::as_str)
}

/// Returns the values of a type with a fixed set of them.
fn variants(schema: &Value) -> Option<Vec<&str>> {
    let all = |list: &'static str| schema.get(list).and_then(Value::as_array);
    if let Some(list) = all("enum") {
        return Some(list.iter().filter_map(Value::as_str).collect());
    }
    Some(all("oneOf")?.iter().filter_map(|one| one.get("const")?.as_str()).collect())
}

/// Returns the schema of the values of a mapping whose names are free.
fn others(schema: &Value) -> Option<&Value> {
    let pattern = schema.get("patternProperties").and_then(Value::as_object);
    let free = schema.get("additionalProperties").filter(|more| more.is_object());
    pattern.and_then(|all| all.values().next()).or(free)
}

/// Whether the names of a mapping are numbers.
fn is_ports(schema: &Value) -> bool {
    schema.get("patternProperties").is_some()
}

fn scalar(node: &Node) -> Option<String> {
    match node {
        Node::Text(text) | Node::Number(text) => Some(text.clone()),
        Node::Bool(value) => Some(value.to_string()),
        Node::Map(_) | Node::List(_) | Node::Null => None,
    }
}

/// Names a value by its type: text may hold a secret.
const fn found(node: &Node) -> &'static str {
    match node {
        Node::Map(_) => "a mapping",
        Node::List(_) => "a list",
        Node::Null => "an empty value",
        Node::Bool(_) => "a boolean",
        Node::Number(_) => "a number",
        Node::Text(_) => "text",
    }
}

/// Returns how to write a mapping.
fn example(schema: &Value) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    match properties.and_then(|all| all.keys().next()) {
        Some(name) => format!("fields such as `{name}: ...`"),
        None => "entries such as `name: value`".to_owned(),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree;

    fn mk(text: &str) -> Vec<String> {
        let all = errors("", &tree::read(text).unwrap(), &SCHEMA);
        let head = "`apiVersion` is missing; set it";
        all.into_iter().map(|e| e.message).filter(|m| m != head && !m.starts_with("`kind`")).collect()
    }

    #[test]
    fn every_error_is_reported_in_document_order() {
        let text = "xds: {listen: 15010, maxConnections: many}\ndrain: {timeout: 30}\nadnim: {}\n";
        let errors = mk(text);
        let fields = [
            "xds.listen: `15010`",
            "xds.maxConnections: `many`",
            "drain.timeout: `30`",
            "unknown field `adnim`",
        ];
        assert_eq!(errors.len(), fields.len(), "{errors:?}");
        assert!(errors.iter().zip(fields).all(|(error, field)| error.starts_with(field)), "{errors:?}");
    }

    #[test]
    fn valid_values_have_no_error() {
        let text = "clusterId: 5\nrevision: ~\nwrites: [status]\nhealth: {listen: null}\nxds: {maxConnections: 0}\n\
            settings: {blockUnknown: TRUE, networks: {n: [10.0.0.0/8]}, clusterLocal: {'*.x': true}, connectTimeout: 0}\n\
            federatedServices: [{host: a.b, members: [{host: c.d, ports: {80: 8080}}]}]\n\
            registries: [{kind: Consul, token: t, tags: [1, true], keys: {pipeTags: true}, context: {a: b}}, {kind: other, rate: x}]\n";
        assert_eq!(mk(text), [""; 0]);
    }

    #[test]
    fn secret_and_text_in_place_of_a_list_are_not_shown() {
        let text = "registries: [{kind: consul, token: [720720]}, {kind: consul, token: 720720}, \
            {kind: consul, addresses: 'http://u:720720@c', login: '720720', tls: '720720'}]";
        let errors = mk(text);
        assert!(errors.len() == 5 && errors.iter().all(|error| !error.contains("720720")), "{errors:?}");
    }
}
