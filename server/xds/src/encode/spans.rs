//! Tracing of HTTP connection managers, with Istio's sampling and tags.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::r#type::tracing::v3::CustomTag;
use envoy_types::pb::envoy::r#type::tracing::v3::custom_tag::{Environment, Header, Literal, Type};
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::UInt32Value;
use hcm::http_connection_manager::Tracing;
use tributary_model::{RequestTracing, SpanTagValue};

/// Tags that describe the proxy: name, variable that Istio's injector sets, and Istio's value without it. They are read from
/// the environment of each proxy, so all clients share the bytes of a listener.
const OF_PROXY: [(&str, &str, &str); 3] = [
    ("istio.cluster_id", "ISTIO_META_CLUSTER_ID", "unknown"),
    ("istio.mesh_id", "ISTIO_META_MESH_ID", "unknown"),
    ("istio.namespace", "POD_NAMESPACE", "default"),
];

/// Returns the tracing of a manager.
pub(super) fn tracing(of: &RequestTracing) -> Tracing {
    let percent = |value| Some(Percent { value });
    Tracing {
        client_sampling: percent(100.0),
        random_sampling: percent(of.sampling.percent()),
        overall_sampling: percent(100.0),
        max_path_tag_length: of.max_path.map(|value| UInt32Value { value }),
        custom_tags: tags(of),
        ..Tracing::default()
    }
}

/// Returns the tags by name. One of the settings replaces one of the same name that describes the proxy.
fn tags(of: &RequestTracing) -> Vec<CustomTag> {
    let is_own = |name: &str| of.tags.iter().any(|tag| *tag.name == *name);
    let of_proxy = OF_PROXY.iter().filter(|(name, ..)| of.proxy_tags && !is_own(name));
    let of_proxy = of_proxy.map(|(name, variable, default)| tag(name, environment(variable, Some(default))));
    let own = of.tags.iter().map(|own| tag(&own.name, kind(&own.value)));
    let mut all: Vec<CustomTag> = of_proxy.chain(own).collect();
    all.sort_by(|a, b| a.tag.cmp(&b.tag));
    all
}

fn tag(name: &str, kind: Type) -> CustomTag {
    CustomTag { tag: name.into(), r#type: Some(kind) }
}

fn kind(value: &SpanTagValue) -> Type {
    match value {
        SpanTagValue::Literal(value) => Type::Literal(Literal { value: value.to_string() }),
        SpanTagValue::Environment(name, default) => environment(name, default.as_deref()),
        SpanTagValue::Header(name, default) => {
            let default_value = default.as_deref().unwrap_or_default().to_owned();
            Type::RequestHeader(Header { name: name.to_string(), default_value })
        }
    }
}

fn environment(name: &str, default: Option<&str>) -> Type {
    Type::Environment(Environment { name: name.into(), default_value: default.unwrap_or_default().into() })
}

#[cfg(test)]
mod tests {
    use tributary_model::{SampledShare, SpanTag};

    use super::*;

    #[test]
    fn tracing_has_the_sampling_and_the_tags_by_name() {
        let own = [
            ("zone", SpanTagValue::Environment("ZONE".into(), None)),
            ("istio.namespace", SpanTagValue::Literal("all".into())),
            ("user", SpanTagValue::Header("x-user".into(), Some("none".into()))),
        ];
        let own = own.map(|(name, value)| SpanTag { name: name.into(), value });
        let of = RequestTracing {
            sampling: SampledShare::of_percent(12.5).unwrap(),
            tags: own.into(),
            max_path: Some(64),
            ..RequestTracing::default()
        };
        let found = tracing(&of);
        let shares = [&found.client_sampling, &found.random_sampling, &found.overall_sampling];
        assert_eq!(
            shares.map(|share| share.as_ref().map(|share| share.value)),
            [100.0, 12.5, 100.0].map(Some)
        );
        assert_eq!(found.max_path_tag_length.map(|length| length.value), Some(64));
        let shown = |tag: &CustomTag| match tag.r#type.as_ref().unwrap() {
            Type::Literal(of) => format!("{} = {}", tag.tag, of.value),
            Type::Environment(of) => format!("{} = ${} or {}", tag.tag, of.name, of.default_value),
            Type::RequestHeader(of) => format!("{} = {}: or {}", tag.tag, of.name, of.default_value),
            other => panic!("{other:?}"),
        };
        let tags: Vec<String> = found.custom_tags.iter().map(shown).collect();
        let want = [
            "istio.cluster_id = $ISTIO_META_CLUSTER_ID or unknown",
            "istio.mesh_id = $ISTIO_META_MESH_ID or unknown",
            "istio.namespace = all",
            "user = x-user: or none",
            "zone = $ZONE or ",
        ];
        assert_eq!(tags, want);
        let few = RequestTracing { proxy_tags: false, ..RequestTracing::default() };
        assert!(tracing(&few).custom_tags.is_empty());
    }
}
