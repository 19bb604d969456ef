//! Facts of clusters and of their endpoints.

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, DiscoveryType, DnsLookupFamily, LbConfig, LbPolicy,
};
use envoy_types::pb::envoy::config::core::v3::{HealthStatus, Locality};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use prost::Message;

use super::{Facts, attribute, compact, policy, put, seconds};
use crate::follower;

/// Adds the facts of a cluster.
pub(super) fn cluster(facts: &mut Facts, body: &Cluster) {
    let of = put(facts, format!("cds {}", body.name), kind(body));
    let mut add = |name: &str, value: String| attribute(facts, &of, name, value);
    add("balance", named(LbPolicy::try_from(body.lb_policy).ok().map(|policy| policy.as_str_name())));
    add("connect_timeout", body.connect_timeout.map(seconds).unwrap_or_default());
    add("dns", dns(body));
    add("http", http(body));
    add("limits", limits(body));
    add("panic", panic_threshold(body));
    add("port", port(body));
    add("service", services(body));
    add("sockets", sockets(body));
    add("sources", sources(body));
    for (name, value) in policy::cluster(body) {
        add(&name, value);
    }
    if let Some(within) = &body.load_assignment {
        endpoints(facts, &of, within);
    }
}

/// Adds the facts of an assignment.
pub(super) fn assignment(facts: &mut Facts, body: &ClusterLoadAssignment) {
    let of = put(facts, format!("eds {}", body.cluster_name), "assignment");
    endpoints(facts, &of, body);
}

fn endpoints(facts: &mut Facts, of: &str, body: &ClusterLoadAssignment) {
    if let Some(policy) = &body.policy {
        attribute(facts, of, "policy", compact::text(policy));
    }
    for locality in &body.endpoints {
        if let Some((name, value)) = policy::locality(locality) {
            put(facts, format!("{of} locality {} {name}", locality.priority), value);
        }
        for endpoint in &locality.lb_endpoints {
            let address = follower::address(endpoint).or_else(|| follower::hostname(endpoint));
            let address = address.unwrap_or_else(|| "none".to_owned());
            let weight = endpoint.load_balancing_weight.map_or(1, |weight| weight.value);
            let mut value = format!("weight {weight}");
            let at = locality.locality.as_ref().map(place).unwrap_or_default();
            if !at.is_empty() {
                value.push_str(&format!(" at {at}"));
            }
            match HealthStatus::try_from(endpoint.health_status) {
                Ok(HealthStatus::Unknown | HealthStatus::Healthy) => {}
                status => {
                    value.push_str(&format!(" {}", named(status.ok().map(|status| status.as_str_name()))))
                }
            }
            put(facts, format!("{of} endpoint {} {address}", locality.priority), value);
        }
    }
}

pub(super) fn place(locality: &Locality) -> String {
    let parts = [&locality.region, &locality.zone, &locality.sub_zone].map(String::as_str);
    parts.join("/").trim_end_matches('/').to_owned()
}

fn named(name: Option<&str>) -> String {
    name.unwrap_or("UNKNOWN").to_owned()
}

fn kind(body: &Cluster) -> String {
    match &body.cluster_discovery_type {
        Some(ClusterDiscoveryType::ClusterType(custom)) => custom.name.clone(),
        Some(ClusterDiscoveryType::Type(kind)) => {
            named(DiscoveryType::try_from(*kind).ok().map(|kind| kind.as_str_name()))
        }
        None => "STATIC".to_owned(),
    }
}

#[allow(deprecated, reason = "both servers use these fields, which every Envoy knows")]
fn dns(body: &Cluster) -> String {
    if !["STRICT_DNS", "LOGICAL_DNS"].contains(&kind(body).as_str()) {
        return String::new();
    }
    let family = DnsLookupFamily::try_from(body.dns_lookup_family).ok().map(|family| family.as_str_name());
    let refresh = body.dns_refresh_rate.map_or_else(|| "default".to_owned(), seconds);
    format!("{} refresh {refresh} ttl {}", named(family), body.respect_dns_ttl)
}

fn http(body: &Cluster) -> String {
    let options = body.typed_extension_protocol_options.values().next();
    let options = options.and_then(|any| HttpProtocolOptions::decode(any.value.as_slice()).ok());
    match options.and_then(|options| options.upstream_protocol_options) {
        Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)) => match explicit.protocol_config {
            Some(ProtocolConfig::Http2ProtocolOptions(_)) => "2".to_owned(),
            _ => "1".to_owned(),
        },
        Some(UpstreamProtocolOptions::UseDownstreamProtocolConfig(_)) => "as downstream".to_owned(),
        Some(UpstreamProtocolOptions::AutoConfig(_)) => "auto".to_owned(),
        None => String::new(),
    }
}

fn limits(body: &Cluster) -> String {
    let thresholds = body.circuit_breakers.iter().flat_map(|breakers| &breakers.thresholds);
    let texts = thresholds.map(|limit| {
        let fields =
            [limit.max_connections, limit.max_pending_requests, limit.max_requests, limit.max_retries];
        let is_max = |value: &Option<_>| matches!(value, Some(value) if *value == max());
        if fields.iter().all(is_max) && limit.retry_budget.is_none() {
            "maximum".to_owned()
        } else {
            compact::text(limit)
        }
    });
    texts.collect::<Vec<_>>().join(",")
}

fn max() -> envoy_types::pb::google::protobuf::UInt32Value {
    envoy_types::pb::google::protobuf::UInt32Value { value: u32::MAX }
}

fn panic_threshold(body: &Cluster) -> String {
    let threshold = body.common_lb_config.as_ref().and_then(|config| config.healthy_panic_threshold);
    threshold.map(|percent| percent.value.to_string()).unwrap_or_default()
}

/// Returns the port that replaces the one of the original destination.
fn port(body: &Cluster) -> String {
    match &body.lb_config {
        Some(LbConfig::OriginalDstLbConfig(config)) => {
            config.upstream_port_override.map(|port| port.value.to_string()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn sockets(body: &Cluster) -> String {
    let matches = body.transport_socket_matches.iter().map(|socket| socket.name.clone());
    let own = body.transport_socket.iter().map(|socket| socket.name.clone());
    own.chain(matches).collect::<Vec<_>>().join(",")
}

fn sources(body: &Cluster) -> String {
    let Some(config) = &body.upstream_bind_config else { return String::new() };
    let first = config.source_address.iter().map(|source| source.address.clone());
    let more = config.extra_source_addresses.iter().filter_map(|source| source.address.as_ref());
    first.chain(more.map(|source| source.address.clone())).collect::<Vec<_>>().join(",")
}

/// Returns the services that the metadata names, as `namespace/host`.
fn services(body: &Cluster) -> String {
    let metadata = body.metadata.as_ref().and_then(|metadata| metadata.filter_metadata.get("istio"));
    let Some(Kind::ListValue(list)) = metadata.and_then(|own| kind_of(own, "services")) else {
        return String::new();
    };
    let texts = list.values.iter().filter_map(|value| match &value.kind {
        Some(Kind::StructValue(service)) => {
            Some(format!("{}/{}", text(service, "namespace"), text(service, "host")))
        }
        _ => None,
    });
    texts.collect::<Vec<_>>().join(",")
}

fn kind_of<'a>(of: &'a Struct, name: &str) -> Option<&'a Kind> {
    of.fields.get(name).and_then(|value: &Value| value.kind.as_ref())
}

fn text<'a>(of: &'a Struct, name: &str) -> &'a str {
    match kind_of(of, name) {
        Some(Kind::StringValue(text)) => text,
        _ => "",
    }
}
