//! Configuration of the server's own traces, completed from the standard `OTEL_*` variables.
//!
//! `check` calls [`TraceSettings::of`] for its errors, and the wiring for its value. The file precedes the variables. Headers stay in
//! their variable, which the exporter reads: they may hold secrets.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tracing::Sampling;
use crate::environment::Environment;

/// Traces of changes, from the report of a source to the acknowledgement of clients, sent to an OpenTelemetry collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TracesConfig {
    /// Whether changes are traced.
    pub enabled: bool,
    /// URL of a collector that takes OTLP over HTTP; without a path, `/v1/traces`. Default: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, else `http://localhost:4318`.
    pub endpoint: Option<String>,
    /// Percentage of the changes that are traced, from `0` to `100`. Default: `OTEL_TRACES_SAMPLER`, else 100.
    pub sampling: Option<Sampling>,
    /// Most clients whose answers have spans of their own, for each change, class of clients and type; up to 64. The others are
    /// counted.
    pub clients: u32,
}

impl Default for TracesConfig {
    fn default() -> Self {
        Self { enabled: false, endpoint: None, sampling: None, clients: 8 }
    }
}

/// Traces that are on.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// URL that takes spans.
    pub endpoint: Url,
    /// Share of the changes that are traced.
    pub share: f64,
    /// Most clients with spans of their own.
    pub clients: usize,
    /// Time limit of a request to the collector.
    pub timeout: Duration,
    /// Authorities of the collector's certificate, PEM.
    pub certificate: Option<PathBuf>,
}

/// Field or variable, and what is wrong with it.
pub type Fault = (String, String);

impl TraceSettings {
    /// Most clients with spans of their own.
    const MAX_CLIENTS: u32 = 64;

    /// Returns what is on; `None` if nothing is.
    pub fn of(config: &TracesConfig, env: &Environment) -> Result<Option<Self>, Fault> {
        let wrong = |field: &str, why: String| Err((field.to_owned(), why));
        if config.clients > Self::MAX_CLIENTS {
            let why = format!("is more than {}; write fewer", Self::MAX_CLIENTS);
            return wrong("traces.clients", why);
        }
        let endpoint = endpoint(config, env)?;
        let is_off = env.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if !config.enabled || is_off {
            return Ok(None);
        }
        match env.get("OTEL_TRACES_EXPORTER") {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return wrong(
                    "OTEL_TRACES_EXPORTER",
                    format!("`{other}` is not supported; use otlp or none"),
                );
            }
        }
        if let Some((name, other)) =
            specific(env, "PROTOCOL").filter(|(_, protocol)| *protocol != "http/protobuf")
        {
            let why = format!(
                "`{other}` is not supported; use http/protobuf, and the collector's port for HTTP, such as 4318"
            );
            return wrong(&name, why);
        }
        headers(env)?;
        Ok(Some(Self {
            endpoint,
            share: share(config, env)?,
            clients: config.clients as usize,
            timeout: timeout(env)?,
            certificate: specific(env, "CERTIFICATE").map(|(_, path)| path.into()),
        }))
    }
}

/// Returns a variable of the exporter, that of traces first, with its name.
fn specific<'e>(env: &'e Environment, what: &str) -> Option<(String, &'e str)> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")];
    names.into_iter().find_map(|name| env.get(&name).map(|value| (name, value)))
}

fn endpoint(config: &TracesConfig, env: &Environment) -> Result<Url, Fault> {
    if let Some(url) = &config.endpoint {
        let mut url = parse("traces.endpoint", url)?;
        if url.path() == "/" {
            url.set_path("/v1/traces");
        }
        return Ok(url);
    }
    let own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    if let Some(url) = env.get(own) {
        return parse(own, url);
    }
    let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let mut url = parse(name, env.get(name).unwrap_or("http://localhost:4318"))?;
    let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// The text of a wrong URL is not repeated: it may hold a password.
fn parse(field: &str, url: &str) -> Result<Url, Fault> {
    let wrong = |why: &str| (field.to_owned(), why.to_owned());
    let parsed =
        Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let parsed = parsed.filter(|_| url.len() <= 2_048);
    let parsed = parsed.ok_or_else(|| wrong("is not a URL; write one such as `http://localhost:4318`"))?;
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
        return Err(wrong("has a user or a query; send secrets in OTEL_EXPORTER_OTLP_HEADERS"));
    }
    Ok(parsed)
}

fn share(config: &TracesConfig, env: &Environment) -> Result<f64, Fault> {
    if let Some(sampling) = config.sampling {
        return Ok(f64::from(sampling) / 100.0);
    }
    let Some(sampler) = env.get("OTEL_TRACES_SAMPLER") else { return Ok(1.0) };
    match sampler.strip_prefix("parentbased_").unwrap_or(sampler) {
        "always_on" => Ok(1.0),
        "always_off" => Ok(0.0),
        "traceidratio" => {
            let text = env.get("OTEL_TRACES_SAMPLER_ARG").unwrap_or("1");
            let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            let why = || format!("`{text}` is not a number from 0 to 1");
            share.ok_or_else(|| ("OTEL_TRACES_SAMPLER_ARG".to_owned(), why()))
        }
        _ => {
            let why = format!("`{sampler}` is not supported; use always_on, always_off or traceidratio");
            Err(("OTEL_TRACES_SAMPLER".to_owned(), why))
        }
    }
}

/// Checks the headers, which the library reads and ignores where they are malformed. No value is repeated: it may be a secret.
fn headers(env: &Environment) -> Result<(), Fault> {
    let Some((name, text)) = specific(env, "HEADERS") else { return Ok(()) };
    let is_header = |pair: &str| {
        let Some((header, _)) = pair.split_once('=') else { return false };
        http::HeaderName::from_bytes(header.trim().as_bytes()).is_ok()
    };
    let wrong = text.split(',').filter(|pair| !pair.trim().is_empty()).position(|pair| !is_header(pair));
    wrong.map_or(Ok(()), |at| {
        Err((name, format!("part {} is not NAME=VALUE; separate parts by commas", at + 1)))
    })
}

fn timeout(env: &Environment) -> Result<Duration, Fault> {
    let Some((name, text)) = specific(env, "TIMEOUT") else { return Ok(Duration::from_secs(10)) };
    let millis = text.parse().ok().filter(|millis| (1..=60_000).contains(millis));
    let why = || format!("`{text}` is not a number of milliseconds from 1 to 60000");
    millis.map(Duration::from_millis).ok_or_else(|| (name, why()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(endpoint: Option<&str>) -> TracesConfig {
        TracesConfig { enabled: true, endpoint: endpoint.map(Into::into), ..TracesConfig::default() }
    }

    #[test]
    fn endpoint_is_that_of_the_file_then_of_the_variables() {
        let (general, own) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let none = Environment::from([("X", "")]);
        let one = Environment::from([(general, "http://c:1/x/")]);
        let both = Environment::from([(general, "http://c:1"), (own, "https://d/own")]);
        for (file, env, expected) in [
            (None, &none, "http://localhost:4318/v1/traces"),
            (None, &one, "http://c:1/x/v1/traces"),
            (None, &both, "https://d/own"),
            (Some("http://f:2"), &both, "http://f:2/v1/traces"),
            (Some("http://f:2/p"), &both, "http://f:2/p"),
        ] {
            let settings = TraceSettings::of(&on(file), env).unwrap().unwrap();
            assert_eq!(settings.endpoint.as_str(), expected);
        }
    }

    #[test]
    fn variables_alone_turn_nothing_on_and_some_turn_it_off() {
        let endpoint = Environment::from([("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:1")]);
        assert_eq!(TraceSettings::of(&TracesConfig::default(), &endpoint), Ok(None));
        for pair in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(TraceSettings::of(&on(None), &Environment::from([pair])), Ok(None), "{pair:?}");
        }
    }

    #[test]
    fn share_of_changes_is_that_of_the_file_then_of_the_sampler() {
        let of = |config: &TracesConfig, sampler, arg| {
            let env = Environment::from([("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", arg)]);
            TraceSettings::of(config, &env).unwrap().unwrap().share
        };
        for (sampler, arg, share) in [
            ("", "0.5", 1.0),
            ("always_off", "", 0.0),
            ("parentbased_always_on", "", 1.0),
            ("parentbased_traceidratio", "0.25", 0.25),
        ] {
            assert_eq!(of(&on(None), sampler, arg), share, "{sampler}");
        }
        let half = TracesConfig { sampling: Sampling::try_from(50.0).ok(), ..on(None) };
        assert_eq!(of(&half, "always_off", ""), 0.5);
    }

    #[test]
    fn errors_name_the_field_and_repeat_no_secret() {
        for (config, env, field) in [
            (on(Some("nowhere")), ("X", ""), "traces.endpoint"),
            (on(Some("http://me:s3cr3t@c")), ("X", ""), "traces.endpoint"),
            (on(None), ("OTEL_EXPORTER_OTLP_ENDPOINT", "c?key=s3cr3t"), "OTEL_EXPORTER_OTLP_ENDPOINT"),
            (on(None), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "OTEL_EXPORTER_OTLP_PROTOCOL"),
            (on(None), ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), "OTEL_EXPORTER_OTLP_TIMEOUT"),
            (on(None), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,no s3cr3t"), "OTEL_EXPORTER_OTLP_HEADERS"),
            (
                on(None),
                ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a b=s3cr3t"),
                "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            ),
            (on(None), ("OTEL_TRACES_SAMPLER", "jaeger_remote"), "OTEL_TRACES_SAMPLER"),
            (on(None), ("OTEL_TRACES_EXPORTER", "zipkin"), "OTEL_TRACES_EXPORTER"),
            (TracesConfig { clients: 65, ..on(None) }, ("X", ""), "traces.clients"),
        ] {
            let (named, why) = TraceSettings::of(&config, &Environment::from([env])).unwrap_err();
            assert_eq!(named, field, "{why}");
            assert!(!why.contains("s3cr3t"), "{why}");
        }
    }
}
