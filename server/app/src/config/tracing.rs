//! Tracing of the requests of sidecars.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::{RequestTracing, SampledShare, SpanTag, SpanTagValue};

/// Tracing of the requests of sidecars. Spans go to the tracer of a proxy's own bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TracingConfig {
    /// Whether requests are traced.
    pub enabled: bool,
    /// Percentage of the requests without a trace that begin one, from `0` to `100`.
    pub sampling: Sampling,
    /// Whether spans have the tags `istio.cluster_id`, `istio.mesh_id` and `istio.namespace` of the proxy.
    pub enable_istio_tags: bool,
    /// Further tags, by name: each with `literal: TEXT`, or with `environment: VARIABLE` or `header: NAME` and, for requests
    /// without it, `defaultValue: TEXT`.
    pub custom_tags: BTreeMap<String, SpanTagConfig>,
    /// Longest path in a tag, in bytes; default: the proxy's own, 256.
    pub max_path_tag_length: Option<u32>,
}

/// Percentage of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Sampling(SampledShare);

/// Tag with one of `literal`, `environment` and `header`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SpanTagConfig {
    /// Value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<String>,
    /// Name of a variable in the proxy's environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Name of a header of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Value without the variable or the header; default: no tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_value: Option<String>,
}

impl Default for TracingConfig {
    fn default() -> Self {
        let usual = RequestTracing::default();
        Self {
            enabled: usual.enabled,
            sampling: Sampling(usual.sampling),
            enable_istio_tags: usual.proxy_tags,
            custom_tags: BTreeMap::new(),
            max_path_tag_length: usual.max_path,
        }
    }
}

impl TryFrom<f64> for Sampling {
    type Error = String;
    fn try_from(percent: f64) -> Result<Self, String> {
        SampledShare::of_percent(percent).map(Self)
    }
}

impl From<Sampling> for f64 {
    fn from(sampling: Sampling) -> Self {
        sampling.0.percent()
    }
}

impl JsonSchema for Sampling {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sampling".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "number", "minimum": 0, "maximum": 100, "description": "Percentage of requests."})
    }
}

impl TracingConfig {
    /// Returns the values, or why a tag is not valid.
    pub fn parse(&self) -> Result<RequestTracing, String> {
        let tag = |(name, config): (&String, &SpanTagConfig)| {
            let value = config.value().map_err(|why| format!("tag {name:?}: {why}"))?;
            Ok(SpanTag { name: name.as_str().into(), value })
        };
        let tags: Result<_, String> = self.custom_tags.iter().map(tag).collect();
        let parsed = RequestTracing {
            enabled: self.enabled,
            sampling: self.sampling.0,
            proxy_tags: self.enable_istio_tags,
            tags: tags?,
            max_path: self.max_path_tag_length,
        };
        parsed.check()?;
        Ok(parsed)
    }
}

impl SpanTagConfig {
    fn value(&self) -> Result<SpanTagValue, String> {
        let default = || self.default_value.as_deref().map(Into::into);
        match (self.literal.as_deref(), self.environment.as_deref(), self.header.as_deref()) {
            (Some(value), None, None) if self.default_value.is_none() => {
                Ok(SpanTagValue::Literal(value.into()))
            }
            (None, Some(name), None) => Ok(SpanTagValue::Environment(name.into(), default())),
            (None, None, Some(name)) => Ok(SpanTagValue::Header(name.into(), default())),
            (Some(_), None, None) => Err("a literal has no defaultValue; remove it".into()),
            _ => Err("has not one of literal, environment and header; write one".into()),
        }
    }
}
