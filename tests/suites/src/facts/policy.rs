//! Facts of what rules set beside the parts that every resource has: fields of clusters, localities, routes and TCP
//! proxies. A field is left out if it has the value that a resource without a rule has.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::{Metadata, TransportSocket, transport_socket::ConfigType};
use envoy_types::pb::envoy::config::endpoint::v3::LocalityLbEndpoints;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, RetryPolicy, Route, RouteAction, RouteMatch, VirtualHost,
};
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::google::protobuf::{Value, value::Kind};

use super::{clusters, compact};

/// Fields of a cluster that the facts describe elsewhere.
const DESCRIBED: [&str; 22] = [
    "cluster_discovery_type",
    "cluster_type",
    "original_dst_lb_config",
    "circuit_breakers",
    "common_lb_config",
    "connect_timeout",
    "dns_lookup_family",
    "dns_refresh_rate",
    "dns_jitter",
    "typed_dns_resolver_config",
    "eds_cluster_config",
    "filters",
    "lb_policy",
    "load_assignment",
    "metadata",
    "name",
    "respect_dns_ttl",
    "transport_socket",
    "transport_socket_matches",
    "typed_extension_protocol_options",
    "upstream_bind_config",
    "alt_stat_name",
];

type Attributes = Vec<(String, String)>;

/// Returns further attributes of a cluster.
pub(super) fn cluster(body: &Cluster) -> Attributes {
    let mut out: Attributes = compact::fields(body);
    out.retain(|(name, value)| {
        let never = name == "cleanup_interval" && value == "9223372035s";
        !never && !DESCRIBED.contains(&name.as_str()) && name != "type"
    });
    if let Some(common) = &body.common_lb_config {
        let mut common = common.clone();
        common.healthy_panic_threshold = None;
        out.push(("common_lb".to_owned(), compact::text(&common)));
    }
    for any in body.typed_extension_protocol_options.values() {
        out.push(("http_options".to_owned(), options(&body.name, &compact::any_text(any))));
    }
    if let Some(socket) = &body.transport_socket {
        out.extend(named("tls", tls(socket)));
    }
    for one in &body.transport_socket_matches {
        if let Some(socket) = &one.transport_socket {
            out.extend(named(&format!("tls {}", one.name), one_of(body, socket)));
        }
    }
    out.push(("rule".to_owned(), config(body.metadata.as_ref(), "config")));
    out.push(("subset".to_owned(), config(body.metadata.as_ref(), "subset")));
    out
}

/// Returns the options that the fact `http` does not name.
fn options(cluster: &str, text: &str) -> String {
    const USUAL: [&str; 4] = [
        "explicit_http_config: {http2_protocol_options: {}}",
        "explicit_http_config: {http_protocol_options: {}}",
        "use_downstream_protocol_config: {http_protocol_options: {}, http2_protocol_options: {}}",
        "",
    ];
    let text = match cluster {
        "PassthroughCluster" | "InboundPassthroughCluster" => text.strip_prefix(IDLE).unwrap_or(text),
        _ => text,
    };
    if USUAL.contains(&text) { String::new() } else { text.to_owned() }
}

/// Returns the settings of a socket, with its protocols apart.
fn named(name: &str, text: String) -> [(String, String); 2] {
    const PROTOCOLS: &str = "alpn_protocols: [";
    let apart = text.split_once(PROTOCOLS).and_then(|(before, rest)| {
        let (protocols, after) = rest.split_once("], ")?;
        Some((format!("{before}{after}"), protocols.to_owned()))
    });
    let (text, protocols) = apart.unwrap_or((text, String::new()));
    [(name.to_owned(), text), (format!("{name} alpn"), protocols)]
}

/// Returns a transport socket's settings.
fn tls(socket: &TransportSocket) -> String {
    let Some(ConfigType::TypedConfig(any)) = &socket.config_type else { return String::new() };
    compact::any_text(any).replace(VERSIONS, "")
}

/// Returns the settings of one of several sockets, unless they are those of mutual TLS without a rule. Ours offers one protocol
/// less (docs/decisions/0064-xds-clusters-name-certificates-and-not-their-paths.md).
fn one_of(body: &Cluster, socket: &TransportSocket) -> String {
    let text = tls(socket);
    let sni = body.name.replace('|', "_.");
    let usual = |alpn: &str| text == format!("{MUTUAL}[{alpn}], {ROOT}, sni: {sni}");
    const PROTOCOLS: [&str; 4] =
        ["istio-peer-exchange, istio", "istio-peer-exchange, istio, h2", "istio", "istio, h2"];
    if PROTOCOLS.into_iter().any(usual) || text.starts_with("RawBuffer") { String::new() } else { text }
}

const IDLE: &str = "common_http_protocol_options: {idle_timeout: 300s}, ";
const VERSIONS: &str =
    "tls_params: {tls_minimum_protocol_version: TlSv12, tls_maximum_protocol_version: TlSv13}, ";
const MUTUAL: &str =
    "common_tls_context: {tls_certificate_sds_secret_configs: [{name: default}], alpn_protocols: ";
const ROOT: &str = "combined_validation_context: {default_validation_context: {}, \
                    validation_context_sds_secret_config: {name: ROOTCA}}}";

fn config(metadata: Option<&Metadata>, name: &str) -> String {
    let istio = metadata.and_then(|metadata| metadata.filter_metadata.get("istio"));
    match istio.and_then(|istio| istio.fields.get(name)) {
        Some(Value { kind: Some(Kind::StringValue(text)) }) => text.clone(),
        _ => String::new(),
    }
}

/// Returns a locality and its weight, unless that is the sum of its endpoints.
pub(super) fn locality(body: &LocalityLbEndpoints) -> Option<(String, String)> {
    let weights =
        body.lb_endpoints.iter().map(|one| one.load_balancing_weight.map_or(1, |weight| weight.value));
    let weight = body.load_balancing_weight.map(|weight| weight.value);
    if weight.is_none() || weight == Some(weights.sum()) {
        return None;
    }
    let name = body.locality.as_ref().map(clusters::place).unwrap_or_default();
    let name = if name.is_empty() { "none".to_owned() } else { name };
    Some((name, format!("weight {}", weight.unwrap_or_default())))
}

/// Returns a match as text; only the simple part if there is no other.
pub(super) fn extended(simple: String, matches: &RouteMatch) -> String {
    let mut fields = compact::fields(matches);
    fields.retain(|(name, value)| !(name == "case_sensitive" && value == "true"));
    if fields.len() <= 1 && simple.starts_with("prefix ") {
        return simple;
    }
    let parts = fields.into_iter().map(|(name, value)| format!("{name}: {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns a direct response as text.
pub(super) fn direct_response(response: &DirectResponseAction) -> String {
    let body = response.body.as_ref().map(|body| format!(" body {}", compact::text(body)));
    format!("status {}{}", response.status, body.unwrap_or_default())
}

/// Returns further attributes of a route.
pub(super) fn route(route: &Route) -> Attributes {
    const SHOWN: [&str; 4] = ["name", "match", "action", "metadata"];
    let mut out = compact::fields(route);
    out.retain(|(name, _)| {
        !SHOWN.contains(&name.as_str())
            && !["route", "redirect", "direct_response", "decorator", "r#match"].contains(&name.as_str())
    });
    if !["default", "allow_any", "block_all"].contains(&route.name.as_str()) {
        out.push(("name".to_owned(), route.name.clone()));
    }
    out.push(("rule".to_owned(), config(route.metadata.as_ref(), "config")));
    if let Some(Action::Route(action)) = &route.action {
        out.extend(route_action(action));
    }
    out
}

#[allow(deprecated, reason = "both servers use the field, which every Envoy knows")]
fn route_action(action: &RouteAction) -> Attributes {
    const SHOWN: [&str; 5] = ["timeout", "idle_timeout", "retry_policy", "cluster", "weighted_clusters"];
    let mut out = compact::fields(action);
    let usual = action.max_grpc_timeout == action.timeout;
    out.retain(|(name, value)| {
        let unlimited = "{max_stream_duration: 0s, grpc_timeout_header_max: 0s}";
        let as_usual = match name.as_str() {
            "max_grpc_timeout" => usual,
            "max_stream_duration" => value == unlimited,
            name => SHOWN.contains(&name),
        };
        !as_usual
    });
    out
}

/// Returns further attributes of a virtual host.
pub(super) fn virtual_host(host: &VirtualHost) -> Attributes {
    let mut out = compact::fields(host);
    out.retain(|(name, _)| {
        !["name", "domains", "routes", "include_request_attempt_count"].contains(&name.as_str())
    });
    out
}

/// Returns parts of a retry policy that its fact does not name.
pub(super) fn further_retry(policy: &RetryPolicy) -> String {
    const SHOWN: [&str; 8] = [
        "retry_on",
        "num_retries",
        "per_try_timeout",
        "retry_priority",
        "retry_host_predicate",
        "host_selection_retry_max_attempts",
        "retriable_status_codes",
        "retry_back_off",
    ];
    let mut fields = compact::fields(policy);
    fields.retain(|(name, _)| !SHOWN.contains(&name.as_str()));
    let texts = fields.into_iter().map(|(name, value)| format!("{name} {value}"));
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns further attributes of a TCP proxy.
pub(super) fn tcp_proxy(proxy: &TcpProxy) -> Attributes {
    const SHOWN: [&str; 5] = ["stat_prefix", "cluster", "weighted_clusters", "access_log", "idle_timeout"];
    let mut out = compact::fields(proxy);
    out.retain(|(name, _)| !SHOWN.contains(&name.as_str()));
    out
}
