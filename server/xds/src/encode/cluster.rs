//! `Cluster`: the resources of CDS (docs/reference/xds.md#clusters).
//!
//! Bodies come from envoy-types. Fields that need a map of several keys (`metadata`) or that the [`Writer`]
//! writer encodes (`load_assignment`) are appended as the last fields, in order of number.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    self, ClusterDiscoveryType, DiscoveryType, DnsLookupFamily, LbPolicy,
};
use envoy_types::pb::envoy::config::cluster::v3::{CircuitBreakers, Cluster, circuit_breakers::Thresholds};
use envoy_types::pb::envoy::config::core::v3::{
    self as core, AggregatedConfigSource, ApiVersion, ConfigSource, Http1ProtocolOptions,
    Http2ProtocolOptions, config_source::ConfigSourceSpecifier,
};
use envoy_types::pb::envoy::extensions::clusters::dynamic_forward_proxy::v3 as forward_cluster;
use envoy_types::pb::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::{HttpProtocolOptions, http_protocol_options};
use envoy_types::pb::envoy::r#type::v3::Percent;
use envoy_types::pb::google::protobuf::{Any, UInt32Value};
use http_protocol_options::UpstreamProtocolOptions;
use http_protocol_options::explicit_http_config::ProtocolConfig;
use prost::Message;
use tributary_answer::{ClusterPlan, Discovery, InboundPort, InboundTarget, UpstreamHttp, names};
use tributary_model::{PolicyKey, PortNumber, Protocol, ServiceKey};

use super::{any, assignment, duration, mesh_tls, tls, traffic};
use tributary_proto::wire::Writer;

const METADATA: u32 = 25;
const LOAD_ASSIGNMENT: u32 = 33;
/// Name of the DNS cache that forward-proxy xDS clusters share with their HTTP filter.
const DNS_CACHE: &str = "tributary";
/// Interval of DNS queries where an answer has no TTL, as in Istio; Envoy's own default is 5 s.
const DNS_REFRESH: Duration = Duration::from_secs(60);
/// Source addresses of inbound connections, which an intercepting proxy lets pass.
const INBOUND_SOURCES: (&str, &str) = ("127.0.0.6", "::6");

/// Encodes an xDS cluster.
#[must_use]
pub fn cluster(plan: &ClusterPlan<'_>) -> Vec<u8> {
    let name = plan.name.to_string();
    let mut body = base(&name, plan.connect_timeout);
    body.common_lb_config = Some(no_panic());
    if !plan.grpc {
        body.typed_extension_protocol_options = protocol_options(plan).into_iter().collect();
        body.transport_socket = tls::socket(plan);
    }
    discover(&mut body, &name, plan);
    traffic::apply(&mut body, plan);
    let mut wire = Writer::new();
    mesh_tls::write_socket(&mut wire, plan);
    wire.message(METADATA, |w| metadata(w, plan));
    if let Discovery::StrictDns(within) | Discovery::LogicalDns(within) = &plan.discovery {
        wire.message(LOAD_ASSIGNMENT, |w| assignment::write(w, &name, within));
    }
    mesh_tls::write_matches(&mut wire, plan);
    appended(&body, wire)
}

/// Encodes an xDS cluster that has nothing but the name of its assignment.
#[must_use]
pub fn by_assignment(name: &str, assignment: &str) -> Vec<u8> {
    let body = Cluster { name: name.into(), eds_cluster_config: Some(eds(assignment)), ..Cluster::default() };
    typed(body, DiscoveryType::Eds).encode_to_vec()
}

/// Encodes the xDS cluster of blocked traffic, which has no endpoints.
#[must_use]
pub fn black_hole(connect_timeout: Duration) -> Vec<u8> {
    typed(base(names::BLACK_HOLE, connect_timeout), DiscoveryType::Static).encode_to_vec()
}

/// Encodes the xDS cluster of traffic that matches no service, which keeps its original destination.
#[must_use]
pub fn passthrough(connect_timeout: Duration) -> Vec<u8> {
    let mut body = original_destination(base(names::PASSTHROUGH, connect_timeout));
    body.typed_extension_protocol_options = [as_downstream()].into();
    body.encode_to_vec()
}

/// Encodes the xDS cluster of inbound traffic that matches no service port.
#[must_use]
pub fn inbound_passthrough(connect_timeout: Duration, families: (bool, bool)) -> Vec<u8> {
    let mut body = original_destination(base(names::INBOUND_PASSTHROUGH, connect_timeout));
    body.typed_extension_protocol_options = [as_downstream()].into();
    from_inbound(body, families).encode_to_vec()
}

/// Encodes the xDS cluster of a port on which the client receives. An intercepting proxy lets
/// connections to a loopback address pass whatever their source, and a Unix socket has none.
#[must_use]
pub fn inbound(
    port: InboundPort,
    to: &InboundTarget,
    connect_timeout: Duration,
    families: (bool, bool),
) -> Vec<u8> {
    let mut body = base(&names::inbound_name(port.target), connect_timeout);
    let http = match port.protocol {
        protocol if protocol.is_http2() => UpstreamHttp::Http2,
        // HTTP is detected there.
        Protocol::Unspecified => UpstreamHttp::AsDownstream,
        _ => UpstreamHttp::Http1,
    };
    body.typed_extension_protocol_options = version_options(http).into_iter().collect();
    let Some(fixed) = to.fixed() else {
        return from_inbound(original_destination(body), families).encode_to_vec();
    };
    let body = typed(body, DiscoveryType::Static);
    let redirected = matches!(to, InboundTarget::Ip(ip, _) if !ip.is_loopback());
    let body = if redirected { from_inbound(body, families) } else { body };
    let mut wire = Writer::new();
    wire.message(LOAD_ASSIGNMENT, |w| assignment::write_one(w, &body.name, fixed));
    appended(&body, wire)
}

fn appended(body: &Cluster, tail: Writer) -> Vec<u8> {
    let mut out = body.encode_to_vec();
    out.extend_from_slice(&tail.finish());
    out
}

/// Returns the common fields: a name, a timeout, and no limits except the client's own.
fn base(name: &str, connect_timeout: Duration) -> Cluster {
    let all = Some(UInt32Value { value: u32::MAX });
    let thresholds = Thresholds {
        max_connections: all,
        max_pending_requests: all,
        max_requests: all,
        max_retries: all,
        track_remaining: true,
        ..Thresholds::default()
    };
    Cluster {
        name: name.into(),
        connect_timeout: Some(duration(connect_timeout)),
        circuit_breakers: Some(CircuitBreakers {
            thresholds: vec![thresholds],
            ..CircuitBreakers::default()
        }),
        ..Cluster::default()
    }
}

fn discover(body: &mut Cluster, name: &str, plan: &ClusterPlan<'_>) {
    let kind = match &plan.discovery {
        Discovery::Eds => {
            body.eds_cluster_config = Some(eds(name));
            DiscoveryType::Eds
        }
        Discovery::StrictDns(_) => by_dns(body, plan, DiscoveryType::StrictDns),
        Discovery::LogicalDns(_) => by_dns(body, plan, DiscoveryType::LogicalDns),
        Discovery::OriginalDestination(port) => {
            body.lb_config = port.map(at_port);
            DiscoveryType::OriginalDst
        }
        Discovery::ForwardProxy => {
            body.cluster_discovery_type = Some(ClusterDiscoveryType::ClusterType(forward_proxy()));
            return;
        }
    };
    body.cluster_discovery_type = Some(ClusterDiscoveryType::Type(kind.into()));
}

/// Replaces the port of the original destination.
fn at_port(port: PortNumber) -> cluster::LbConfig {
    cluster::LbConfig::OriginalDstLbConfig(cluster::OriginalDstLbConfig {
        upstream_port_override: Some(UInt32Value { value: port.get().into() }),
        ..cluster::OriginalDstLbConfig::default()
    })
}

/// Resolves a name that may have addresses of either family; the client chooses a working one. gRPC has its own
/// schedule of queries.
#[allow(deprecated, reason = "their replacement, an extension, is unknown to Envoy before 1.34")]
fn by_dns(body: &mut Cluster, plan: &ClusterPlan<'_>, kind: DiscoveryType) -> DiscoveryType {
    let family = match plan {
        ClusterPlan { race_connect: true, .. } => DnsLookupFamily::All,
        // IPv6, else IPv4
        ClusterPlan { ipv6_only: true, .. } => DnsLookupFamily::Auto,
        _ => DnsLookupFamily::V4Preferred,
    };
    body.dns_lookup_family = family.into();
    if !plan.grpc {
        body.respect_dns_ttl = true;
        body.dns_refresh_rate = Some(duration(DNS_REFRESH));
    }
    kind
}

/// EDS over the same stream, without a timeout for the first assignment: an xDS cluster without its
/// endpoints would fail requests, and the server always sends one.
fn eds(name: &str) -> cluster::EdsClusterConfig {
    cluster::EdsClusterConfig { eds_config: Some(ads()), service_name: name.into() }
}

/// Returns this stream as a configuration source.
pub(crate) fn ads() -> ConfigSource {
    ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        resource_api_version: ApiVersion::V3.into(),
        initial_fetch_timeout: Some(duration(Duration::ZERO)),
        ..ConfigSource::default()
    }
}

/// Disables panic mode, in which a client would use unhealthy endpoints when most are unhealthy.
fn no_panic() -> cluster::CommonLbConfig {
    cluster::CommonLbConfig {
        healthy_panic_threshold: Some(Percent { value: 0.0 }),
        ..cluster::CommonLbConfig::default()
    }
}

/// Returns the options of an xDS cluster: those of its version of HTTP, where HTTP/1.1 is Envoy's own, and of a rule.
fn protocol_options(plan: &ClusterPlan<'_>) -> Option<(String, Any)> {
    let (common, upstream) = (traffic::http_options(plan.policy), tls::http_options(plan));
    let streams = plan.policy.and_then(|policy| policy.pool.as_ref()?.max_streams);
    let version = match plan.http {
        UpstreamHttp::Http1 if common.is_none() && upstream.is_none() => return None,
        UpstreamHttp::Http1 => explicit(ProtocolConfig::HttpProtocolOptions(Http1ProtocolOptions::default())),
        UpstreamHttp::Http2 => explicit(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
            max_concurrent_streams: streams.map(|value| UInt32Value { value }),
            ..Http2ProtocolOptions::default()
        })),
        UpstreamHttp::AsDownstream => either(),
    };
    Some(options(version, common, upstream))
}

/// Returns the options of a version of HTTP without a rule.
fn version_options(http: UpstreamHttp) -> Option<(String, Any)> {
    match http {
        UpstreamHttp::Http1 => None,
        UpstreamHttp::Http2 => {
            let config = ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions::default());
            Some(options(explicit(config), None, None))
        }
        UpstreamHttp::AsDownstream => Some(as_downstream()),
    }
}

fn explicit(config: ProtocolConfig) -> UpstreamProtocolOptions {
    let explicit = http_protocol_options::ExplicitHttpConfig { protocol_config: Some(config) };
    UpstreamProtocolOptions::ExplicitHttpConfig(explicit)
}

fn either() -> UpstreamProtocolOptions {
    let both = http_protocol_options::UseDownstreamHttpConfig {
        http_protocol_options: Some(Http1ProtocolOptions::default()),
        http2_protocol_options: Some(Http2ProtocolOptions::default()),
        ..<_>::default()
    };
    UpstreamProtocolOptions::UseDownstreamProtocolConfig(both)
}

fn as_downstream() -> (String, Any) {
    options(either(), None, None)
}

fn options(
    version: UpstreamProtocolOptions,
    common: Option<core::HttpProtocolOptions>,
    upstream: Option<core::UpstreamHttpProtocolOptions>,
) -> (String, Any) {
    let options = HttpProtocolOptions {
        common_http_protocol_options: common,
        upstream_http_protocol_options: upstream,
        upstream_protocol_options: Some(version),
        ..HttpProtocolOptions::default()
    };
    ("envoy.extensions.upstreams.http.v3.HttpProtocolOptions".into(), any(&options))
}

/// Returns the DNS cache that the HTTP filter fills and the xDS cluster reads.
pub(crate) fn dns_cache() -> DnsCacheConfig {
    DnsCacheConfig {
        name: DNS_CACHE.into(),
        dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
        ..DnsCacheConfig::default()
    }
}

fn forward_proxy() -> cluster::CustomClusterType {
    use forward_cluster::cluster_config::ClusterImplementationSpecifier as How;
    let config = forward_cluster::ClusterConfig {
        // Upstream TLS is not configured here, so there is no certificate to check.
        allow_insecure_cluster_options: true,
        cluster_implementation_specifier: Some(How::DnsCacheConfig(dns_cache())),
        ..forward_cluster::ClusterConfig::default()
    };
    cluster::CustomClusterType {
        name: "envoy.clusters.dynamic_forward_proxy".into(),
        typed_config: Some(any(&config)),
    }
}

fn typed(body: Cluster, kind: DiscoveryType) -> Cluster {
    Cluster { cluster_discovery_type: Some(ClusterDiscoveryType::Type(kind.into())), ..body }
}

fn original_destination(body: Cluster) -> Cluster {
    let body = typed(body, DiscoveryType::OriginalDst);
    Cluster { lb_policy: LbPolicy::ClusterProvided.into(), ..body }
}

/// Sets the source address of each IP family that the client uses; Envoy takes the one of the destination's family.
fn from_inbound(body: Cluster, families: (bool, bool)) -> Cluster {
    let (four, six) = INBOUND_SOURCES;
    let (first, second) = match families {
        (false, true) => (six, None),
        (true, true) => (four, Some(six)),
        _ => (four, None),
    };
    let extra = second.map(|address| core::ExtraSourceAddress {
        address: Some(source(address)),
        ..core::ExtraSourceAddress::default()
    });
    let bind = core::BindConfig {
        source_address: Some(source(first)),
        extra_source_addresses: extra.into_iter().collect(),
        ..core::BindConfig::default()
    };
    Cluster { upstream_bind_config: Some(bind), ..body }
}

fn source(address: &str) -> core::SocketAddress {
    core::SocketAddress {
        address: address.into(),
        port_specifier: Some(core::socket_address::PortSpecifier::PortValue(0)),
        ..core::SocketAddress::default()
    }
}

/// Encodes `{istio: {config, services: [{host, name, namespace}], subset}}`, which statistics and access logs read.
fn metadata(wire: &mut Writer, plan: &ClusterPlan<'_>) {
    wire.entry(1, "istio", |w| {
        if let Some(PolicyKey { namespace, name, .. }) = plan.rule {
            let path = format!("/apis/networking.istio.io/v1/namespaces/{namespace}/destination-rule/{name}");
            w.struct_string("config", &path);
        }
        w.entry(1, "services", |w| {
            w.message(6, |w| w.message(1, |w| w.message(5, |w| described(w, plan.service))))
        });
        if let Some(subset) = &plan.name.subset {
            w.struct_string("subset", subset.as_str());
        }
    });
}

fn described(wire: &mut Writer, service: &ServiceKey) {
    wire.struct_string("host", service.host.as_str());
    wire.struct_string("name", short_name(service));
    wire.struct_string("namespace", service.namespace.as_str());
}

/// Returns the first label of a Kubernetes service's host, else the whole host.
fn short_name(service: &ServiceKey) -> &str {
    let host = service.host.as_str();
    let Some((name, rest)) = host.split_once('.') else { return host };
    let kubernetes = rest.strip_prefix(service.namespace.as_str()).is_some_and(|r| r.starts_with(".svc."));
    if kubernetes { name } else { host }
}
