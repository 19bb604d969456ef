//! Applies the environment and the flags over the file: flag > `TRIBUTARY_*` > file > default.
//!
//! A variable names a field by its path, with `__` between the parts: `TRIBUTARY_XDS__LISTEN`,
//! `TRIBUTARY_START__FIRST_SYNC_TIMEOUT`. A text field takes the value unchanged; other fields parse it as
//! YAML. A part such as `TRIBUTARY_XDS__TLS` sets the fields that its value names; the others stay those of the file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::errors::{about, join, plain};
use super::model::{Config, RegistryConfig};
use super::shape::{self, SCHEMA};
use super::{schema, tree};
use crate::environment::Environment;
use crate::exit::CommandError;

/// Where each field that differs from its default was set: a flag, a variable, or file and line.
pub type Origins = BTreeMap<String, String>;

/// Returns where a field or its nearest parent was set.
#[must_use]
pub fn origin<'a>(origins: &'a Origins, field: &str) -> Option<&'a str> {
    let mut path = field;
    loop {
        if let Some(origin) = origins.get(path) {
            return Some(origin);
        }
        path = &path[..path.rfind(['.', '['])?];
    }
}

/// Variables outside the schema that the server reads.
pub const OTHER_VARIABLES: &[(&str, &str)] = &[
    ("TRIBUTARY_CONFIG", "the file of `--config`"),
    ("TRIBUTARY_SERVER", "the value of `--server`"),
    ("TRIBUTARY_SERVER_CA", "the file of `--server-ca`"),
    ("TRIBUTARY_SERVER_TOKEN", "the file of `--server-token`"),
    ("TRIBUTARY_SERVER_CERT", "the file of `--server-cert`"),
    ("TRIBUTARY_SERVER_KEY", "the file of `--server-key`"),
    ("TRIBUTARY_LOG", "short for `TRIBUTARY_LOG__LEVEL`"),
    ("CLUSTER_ID", "`clusterId`, where `TRIBUTARY_CLUSTER_ID` is not set"),
    ("POD_NAMESPACE", "`systemNamespace`, where `TRIBUTARY_SYSTEM_NAMESPACE` is not set"),
    ("KUBECONFIG", "kubeconfig files, merged, for a Kubernetes registry that names none"),
    (
        "CONSUL_HTTP_ADDR",
        "the addresses of a Consul registry that names none; as are `CONSUL_HTTP_TOKEN`, \
         `CONSUL_HTTP_TOKEN_FILE`, `CONSUL_HTTP_AUTH`, `CONSUL_HTTP_SSL`, `CONSUL_HTTP_SSL_VERIFY`, \
         `CONSUL_CACERT`, `CONSUL_CAPATH`, `CONSUL_CLIENT_CERT`, `CONSUL_CLIENT_KEY`, \
         `CONSUL_TLS_SERVER_NAME`, `CONSUL_NAMESPACE` and `CONSUL_PARTITION` for fields that it does not set",
    ),
    (
        "_RJEM_MALLOC_CONF",
        "options of the allocator, jemalloc; on Linux in addition to \
         `background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0`",
    ),
];

/// A field set by a variable.
struct Setting {
    variable: String,
    path: Vec<String>,
    value: Value,
}

/// Applies the variables to a configuration. Returns the variables whose first part names no field:
/// Kubernetes sets such variables for every Service.
pub fn environment(
    config: &Config,
    env: &Environment,
    origins: &mut Origins,
) -> Result<(Config, Vec<String>), CommandError> {
    let (settings, unknown) = settings(env)?;
    let config = apply(config, &settings).map_err(|first| attribute(config, &settings, &first))?;
    for setting in &settings {
        let path = setting.path.join(".");
        // the value replaces a list or a map with all its entries
        let is_entry =
            |other: &str| other.strip_prefix(&path).is_some_and(|rest| rest.starts_with(['.', '[']));
        origins.retain(|other, _| !is_entry(other));
        origins.insert(path, setting.variable.clone());
    }
    Ok((config, unknown))
}

fn settings(env: &Environment) -> Result<(Vec<Setting>, Vec<String>), CommandError> {
    let schema = &*SCHEMA;
    let (mut settings, mut unknown, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (variable, rest, value) in variables(env) {
        let path: Vec<String> = rest.split("__").map(camel).collect();
        let is_field = schema.pointer(&format!("/properties/{}", path[0])).is_some();
        if !is_field {
            unknown.push(variable);
            continue;
        }
        let Some(field) = schema::field(schema, &path) else {
            let message = format!("{variable}: no field `{}`; see `tributary config schema`", path.join("."));
            errors.push(CommandError::config(message).next("correct the variable's name or unset it"));
            continue;
        };
        let before = errors.len();
        let value = read(value, field, &path.join("."), |why| errors.push(about(Some(&variable), why)));
        let Some(value) = value.filter(|_| errors.len() == before) else { continue };
        Setting { variable, path, value }.spread(field, &mut settings);
    }
    join(errors).map_or(Ok((settings, unknown)), Err)
}

fn variables(env: &Environment) -> Vec<(String, String, String)> {
    let mut out: Vec<(String, String, String)> = Vec::new();
    let mut add = |variable: &str, path: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.push((variable.to_owned(), path.to_owned(), value.to_owned()));
        }
    };
    add("CLUSTER_ID", "CLUSTER_ID", env.get("CLUSTER_ID"));
    add("POD_NAMESPACE", "SYSTEM_NAMESPACE", env.get("POD_NAMESPACE"));
    add("TRIBUTARY_LOG", "LOG__LEVEL", env.get("TRIBUTARY_LOG"));
    for (rest, value) in env.with_prefix("TRIBUTARY_") {
        let variable = format!("TRIBUTARY_{rest}");
        let other = OTHER_VARIABLES.iter().any(|(name, _)| *name == variable);
        if !other && !rest.is_empty() {
            add(&variable, rest, Some(value).filter(|value| !value.is_empty()));
        }
    }
    out
}

/// Converts `FIRST_SYNC_TIMEOUT` to `firstSyncTimeout`.
fn camel(part: &str) -> String {
    let mut out = String::new();
    for (i, segment) in part.split('_').enumerate() {
        let lower = segment.to_ascii_lowercase();
        let mut letters = lower.chars();
        match letters.next() {
            Some(first) if i > 0 => {
                out.push(first.to_ascii_uppercase());
                out.push_str(letters.as_str());
            }
            _ => out.push_str(&lower),
        }
    }
    out
}

/// Reads the value of a variable; reports each of its errors. The value may hold a token, so no error repeats its
/// text.
fn read(value: String, field: &Value, path: &str, mut report: impl FnMut(String)) -> Option<Value> {
    let is_text = schema::is_text(&SCHEMA, field);
    let root = if is_text { tree::text(&value) } else { tree::read(&value) };
    let root = match root {
        Ok(root) => root,
        Err(e) => {
            let (line, column) = tree::position_of(&e).unwrap_or((1, 1));
            report(format!("{path}: the value is not valid YAML at line {line}, column {column}"));
            return None;
        }
    };
    shape::errors(path, &root, field).into_iter().for_each(|error| report(error.message));
    if is_text { Some(Value::String(value)) } else { serde_saphyr::from_str(&value).ok() }
}

fn apply(config: &Config, settings: &[Setting]) -> Result<Config, String> {
    let mut value = serde_json::to_value(config).map_err(|e| e.to_string())?;
    for setting in settings {
        set(&mut value, &setting.path, setting.value.clone());
    }
    let is_set = settings.iter().any(|setting| setting.path.first().is_some_and(|part| part == "registries"));
    let registries = value.get_mut("registries").map(|all| std::mem::replace(all, Value::Array(Vec::new())));
    let mut out: Config = serde_json::from_value(value).map_err(|e| e.to_string())?;
    out.registries = match registries {
        Some(registries) if is_set => RegistryConfig::list_of(registries).map_err(|e| e.to_string())?,
        // the text form has no misplaced fields, which `check` reports
        _ => config.registries.clone(),
    };
    Ok(out)
}

fn set(at: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *at = value;
        return;
    };
    if !at.is_object() {
        *at = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(map) = at {
        set(map.entry(first.clone()).or_insert(Value::Null), rest, value);
    }
}

/// Names the variable whose removal makes the configuration valid, or all of them.
fn attribute(config: &Config, settings: &[Setting], why: &str) -> CommandError {
    let without = |variable: &str| {
        let rest: Vec<Setting> =
            settings.iter().filter(|s| s.variable != variable).map(Setting::copy).collect();
        apply(config, &rest).is_ok()
    };
    let mut variables: Vec<&str> = settings.iter().map(|s| s.variable.as_str()).collect();
    variables.dedup();
    let culprit = variables.iter().find(|variable| without(variable));
    let names = culprit.map_or_else(|| variables.join(", "), |variable| (*variable).to_owned());
    CommandError::config(format!("{names}: {}", plain(why))).next("correct the variable or unset it")
}

impl Setting {
    /// Adds a setting for each field of a part, so that the fields that its value does not name keep their values.
    fn spread(self, field: &Value, out: &mut Vec<Self>) {
        let properties = schema::resolve(&SCHEMA, field).get("properties");
        let (Some(properties), Value::Object(fields)) = (properties, &self.value) else {
            return out.push(self);
        };
        for (name, value) in fields {
            let path = self.path.iter().chain([name]).cloned().collect();
            let part = Self { variable: self.variable.clone(), path, value: value.clone() };
            part.spread(properties.get(name).unwrap_or(&Value::Null), out);
        }
    }
    fn copy(&self) -> Self {
        Self { variable: self.variable.clone(), path: self.path.clone(), value: self.value.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn with(pairs: Environment) -> Result<Config, CommandError> {
        environment(&Config::default(), &pairs, &mut Origins::new()).map(|(config, _)| config)
    }

    #[test]
    fn a_variable_names_a_field_by_its_path() {
        let config = with(Environment::from([
            ("TRIBUTARY_XDS__LISTEN", "127.0.0.1:1"),
            ("TRIBUTARY_START__FIRST_SYNC_TIMEOUT", "5s"),
            ("TRIBUTARY_SETTINGS__BLOCK_UNKNOWN", "true"),
            ("TRIBUTARY_REGISTRIES", "[{kind: file, path: /x}]"),
            ("TRIBUTARY_XDS__TLS__CERT_FILE", "c"),
            ("TRIBUTARY_XDS__TLS__KEY_FILE", "k"),
            ("TRIBUTARY_LOG", "debug"),
        ]))
        .unwrap();
        assert_eq!(config.xds.listen.port(), 1);
        assert_eq!(config.start.first_sync_timeout.to_string(), "5s");
        assert_eq!(config.settings.block_unknown, Some(true));
        assert_eq!(config.registries.len(), 1);
        assert_eq!(config.xds.tls.unwrap().pair(), Ok((Path::new("c"), Path::new("k"))));
        assert_eq!(config.log.level, "debug");
    }

    #[test]
    fn long_variable_name_overrides_the_short_one() {
        let config = with(Environment::from([
            ("CLUSTER_ID", "a"),
            ("TRIBUTARY_CLUSTER_ID", "b"),
            ("TRIBUTARY_LOG", "debug"),
            ("TRIBUTARY_LOG__LEVEL", "warn"),
            ("POD_NAMESPACE", "a"),
            ("TRIBUTARY_SYSTEM_NAMESPACE", "b"),
        ]));
        let config = config.unwrap();
        assert_eq!((config.cluster_id.as_str(), config.log.level.as_str()), ("b", "warn"));
        assert_eq!(config.system_namespace, "b");
        let short = with(Environment::from([("POD_NAMESPACE", "a")])).unwrap();
        assert_eq!(short.system_namespace, "a");
    }

    #[test]
    fn error_names_the_invalid_variable() {
        let wrong = with(Environment::from([
            ("TRIBUTARY_XDS__LISTEN", "nowhere"),
            ("TRIBUTARY_XDS__MAX_CONNECTIONS", "-1"),
            ("TRIBUTARY_WRITES", "[statsu]"),
            ("TRIBUTARY_ADMIN__LISTEN", "127.0.0.1:2"),
        ]));
        let error = wrong.unwrap_err();
        let lines: Vec<&str> = error.message.lines().collect();
        let wanted = [
            "TRIBUTARY_WRITES: writes[0]: `statsu` is not valid; use one of addresses",
            "TRB0102 TRIBUTARY_XDS__LISTEN: xds.listen: `nowhere` is not an IP address with a port",
            "TRB0102 TRIBUTARY_XDS__MAX_CONNECTIONS: xds.maxConnections: `-1` is out of range",
        ];
        assert!(
            lines.len() == 3 && lines.iter().zip(wanted).all(|(line, start)| line.starts_with(start)),
            "{error}"
        );
        assert_eq!(error.next, "correct the variable or unset it");
        let unknown = with(Environment::from([("TRIBUTARY_XDS__LISEN", "x")])).unwrap_err().message;
        assert_eq!(unknown, "TRIBUTARY_XDS__LISEN: no field `xds.lisen`; see `tributary config schema`");
        let secret = with(Environment::from([("TRIBUTARY_REGISTRIES", "[{kind: consul, token: hunter2")]));
        let message = secret.unwrap_err().message;
        assert!(
            message.starts_with("TRIBUTARY_REGISTRIES: registries: the value is not valid YAML at line 1"),
            "{message}"
        );
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[test]
    fn variable_of_a_part_keeps_the_other_fields_of_the_file() {
        let mut file = Config::default();
        file.xds.max_connections = 7;
        file.xds.tls = Some(serde_saphyr::from_str("{certFile: c, keyFile: k, clientCaFile: ca}").unwrap());
        let mut origins = Origins::from([("xds.tls.clientCaFile".to_owned(), "t.yaml:3:1".to_owned())]);
        for variable in [
            ("TRIBUTARY_XDS__TLS", "{certFile: c2, keyFile: k2}"),
            ("TRIBUTARY_XDS", "{tls: {certFile: c2, keyFile: k2}}"),
        ] {
            let env = Environment::from([variable]);
            let xds = environment(&file, &env, &mut origins).unwrap().0.xds;
            let tls = xds.tls.unwrap();
            assert_eq!(tls.pair(), Ok((Path::new("c2"), Path::new("k2"))));
            assert_eq!(tls.client_ca_file.unwrap().to_str(), Some("ca"), "{variable:?}");
            assert_eq!(xds.max_connections, 7, "{variable:?}");
            let of = |field: &str| origins[&format!("xds.tls.{field}")].clone();
            assert_eq!([of("keyFile"), of("clientCaFile")], [variable.0, "t.yaml:3:1"]);
        }
        let off = Environment::from([("TRIBUTARY_XDS__TLS", "null")]);
        assert_eq!(environment(&file, &off, &mut origins).unwrap().0.xds.tls, None);
        assert!(!origins.contains_key("xds.tls.clientCaFile"), "{origins:?}");
    }

    #[test]
    fn kubernetes_service_variables_are_not_fields() {
        let env = Environment::from([("TRIBUTARY_SERVICE_HOST", "10.0.0.1"), ("TRIBUTARY_PORT", "tcp://x")]);
        let (config, unknown) = environment(&Config::default(), &env, &mut Origins::new()).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(unknown, ["TRIBUTARY_PORT", "TRIBUTARY_SERVICE_HOST"]);
    }
}
