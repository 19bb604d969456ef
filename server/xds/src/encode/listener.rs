//! `Listener`: the resources of LDS, including the API listeners of gRPC clients.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::{self as core, CidrRange, TrafficDirection};
use envoy_types::pb::envoy::config::listener::v3 as pb;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::http::cors::v3::Cors;
use envoy_types::pb::envoy::extensions::filters::http::dynamic_forward_proxy::v3 as forward_filter;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::HttpFault;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::listener::http_inspector::v3::HttpInspector;
use envoy_types::pb::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::extensions::filters::network::sni_dynamic_forward_proxy::v3 as sni_filter;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use envoy_types::pb::envoy::r#type::v3::{HashPolicy, Int32Range, hash_policy};
use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration, UInt32Value};
use hcm::http_connection_manager::{PathWithEscapedSlashesAction, RouteSpecifier, UpgradeConfig};
use pb::listener_filter_chain_match_predicate::Rule;
use prost::{Message, Name};
use tributary_answer::vip::ListenAddress;
use tributary_answer::{
    ClusterName, InboundPort, Listener, Match, Routes, Serves, VirtualHostPlan, listener_name, names,
};
use tributary_model::closed_ports::{INBOUND_PORT, OUTBOUND_PORT};
use tributary_model::{ConnectionPolicy, HostPattern, PathNormalization, Protocol};

use super::cluster::{ads, dns_cache};
use super::defaults::{Defaults, Handling};
use super::route::{append_host, inbound_host, table_head, virtual_host};
use super::{access_log, any, duration, scaled, spans};

mod forwarding;
mod inbound;
mod server;

pub use forwarding::forwarding;
pub use inbound::{VIRTUAL_INBOUND, inbound, virtual_inbound};
pub use server::{grpc_server, is_too_large};

/// Protocols that the HTTP inspector handling. HTTP/1.0 is left to its destination, because Envoy refuses it.
const HTTP: [&str; 2] = ["http/1.1", "h2c"];
/// Transport of connections that are not seen to be TLS.
const RAW: &str = "raw_buffer";

/// Name of the listener for all outbound traffic.
pub const VIRTUAL_OUTBOUND: &str = "virtualOutbound";

/// Encodes a listener that joins parts of services. `forwards` lists the matches for which the proxy
/// itself resolves the hosts of requests.
#[must_use]
pub fn listener(plan: &Listener, forwards: &BTreeSet<Match>, defaults: &Defaults) -> Vec<u8> {
    let handling = &defaults.handling;
    let mut chains: Vec<pb::FilterChain> = Vec::new();
    let mut rest = None;
    let mut by_target: BTreeMap<(&Serves, bool, bool), usize> = BTreeMap::new();
    for (matches, serves) in &plan.parts {
        let forward = forwards.contains(matches);
        if *matches == Match::default() {
            rest = Some(chain(plan, (matches, serves), forward, defaults));
            continue;
        }
        // The ranges of one target share a chain: a service may have thousands of addresses.
        let target = (serves, forward, matches.http);
        let shares = matches.range.is_some() && matches.sni.is_none();
        let known = shares.then(|| *by_target.entry(target).or_insert(chains.len()));
        match known.and_then(|at| chains.get_mut(at)).and_then(|chain| chain.filter_chain_match.as_mut()) {
            Some(shared) => shared.prefix_ranges.extend(ranges(matches)),
            None => chains.push(chain(plan, (matches, serves), forward, defaults)),
        }
    }
    if plan.parts.iter().any(|(matches, _)| matches.http && matches.range.is_some()) {
        chains.extend(raw_copies(&chains));
    }
    // A listener that does not bind its port passes unmatched connections on.
    if rest.is_none() && !plan.binds {
        rest = Some(tcp_chain(&plan.name, &defaults.unclaimed.cluster(), handling));
    }
    if chains.is_empty() {
        chains.extend(rest.take());
    }
    let mut body = base(&plan.name, plan.bind, plan.port, TrafficDirection::Outbound);
    body.bind_to_port = (!plan.binds).then_some(BoolValue { value: false });
    body.filter_chains = chains;
    body.default_filter_chain = rest;
    inspect(&mut body, plan);
    body.encode_to_vec()
}

/// Returns copies of the chains of address ranges that name the transport of connections without TLS. Beside a chain that
/// names it, which HTTP needs, Envoy would not look at one without.
fn raw_copies(chains: &[pb::FilterChain]) -> Vec<pb::FilterChain> {
    let of_any = |matches: &&pb::FilterChainMatch| {
        !matches.prefix_ranges.is_empty()
            && matches.server_names.is_empty()
            && matches.transport_protocol.is_empty()
    };
    let copy = |chain: &pb::FilterChain| {
        let matches = chain.filter_chain_match.as_ref().filter(of_any)?.clone();
        let raw = pb::FilterChainMatch { transport_protocol: RAW.into(), ..matches };
        Some(pb::FilterChain { filter_chain_match: Some(raw), ..chain.clone() })
    };
    chains.iter().filter_map(copy).collect()
}

/// Adds what reads the first bytes of connections. They wait for these bytes as long as the client takes.
fn inspect(body: &mut pb::Listener, plan: &Listener) {
    let any = |test: fn(&Match) -> bool| plan.parts.iter().any(|(matches, _)| test(matches));
    let tls = any(|matches| matches.sni.is_some())
        .then(|| listener_filter("envoy.filters.listener.tls_inspector", &TlsInspector::default()));
    let http = any(|matches| matches.http)
        .then(|| listener_filter("envoy.filters.listener.http_inspector", &HttpInspector {}));
    body.listener_filters = tls.into_iter().chain(http).collect();
    if !body.listener_filters.is_empty() {
        wait_for_bytes(body);
    }
}

fn wait_for_bytes(body: &mut pb::Listener) {
    body.listener_filters_timeout = Some(Duration::default());
    body.continue_on_listener_filters_timeout = true;
}

/// Encodes the listener that receives all outbound traffic of a workload and passes it to the listener of its
/// destination; without one, traffic passes through or is blocked.
#[must_use]
pub fn virtual_outbound(bind: ListenAddress, defaults: &Defaults) -> Vec<u8> {
    let handling = &defaults.handling;
    let mut body = base(VIRTUAL_OUTBOUND, bind, OUTBOUND_PORT, TrafficDirection::Outbound);
    body.use_original_dst = Some(BoolValue { value: true });
    body.access_log = access_log::unmatched(handling.log.as_deref());
    let rest = tcp_chain(VIRTUAL_OUTBOUND, &defaults.unclaimed.cluster(), handling);
    body.filter_chains = vec![loop_guard(VIRTUAL_OUTBOUND, OUTBOUND_PORT), rest];
    body.encode_to_vec()
}

/// Encodes the listener of a gRPC client's target, under exactly the requested name.
#[must_use]
pub fn api_listener(name: &str, route_name: &str) -> Vec<u8> {
    let manager = manager(name, RouteSpecifier::Rds(rds(route_name)), vec![router()]);
    let body = pb::Listener {
        name: name.into(),
        api_listener: Some(pb::ApiListener { api_listener: Some(any(&manager)) }),
        ..pb::Listener::default()
    };
    body.encode_to_vec()
}

fn base(name: &str, bind: ListenAddress, port: u16, direction: TrafficDirection) -> pb::Listener {
    let additional = bind.additional.map(|ip| pb::AdditionalAddress {
        address: Some(socket(ip.into(), port)),
        ..pb::AdditionalAddress::default()
    });
    pb::Listener {
        name: name.into(),
        address: Some(socket(bind.ip, port)),
        additional_addresses: additional.into_iter().collect(),
        traffic_direction: direction.into(),
        ..pb::Listener::default()
    }
}

fn socket(ip: IpAddr, port: u16) -> core::Address {
    let socket = core::SocketAddress {
        address: ip.to_string(),
        port_specifier: Some(core::socket_address::PortSpecifier::PortValue(port.into())),
        ..core::SocketAddress::default()
    };
    core::Address { address: Some(core::address::Address::SocketAddress(socket)) }
}

fn chain(
    plan: &Listener,
    (matches, serves): (&Match, &Serves),
    forward: bool,
    defaults: &Defaults,
) -> pb::FilterChain {
    let handling = &defaults.handling;
    let http = |routes| http_chain(&plan.name, routes, forward, handling);
    let chain = match serves {
        Serves::Routes => http(RouteSpecifier::Rds(rds(&plan.port.to_string()))),
        Serves::Http(cluster, policy) => {
            http(RouteSpecifier::RouteConfig(outbound_routes(cluster, policy.as_deref(), defaults)))
        }
        Serves::Cluster(cluster, policy) => {
            let target = tcp_proxy::ClusterSpecifier::Cluster(cluster.to_string());
            ruled_tcp_chain(&plan.name, target, policy.as_deref(), handling)
        }
        Serves::Weighted(clusters, policy) => {
            ruled_tcp_chain(&plan.name, weighted(clusters), policy.as_deref(), handling)
        }
    };
    let by_greeting = forward && matches.sni.is_some() && matches!(serves, Serves::Cluster(..));
    let filters =
        by_greeting.then(|| sni_forward_proxy(plan.port)).into_iter().chain(chain.filters).collect();
    let filter_chain_match = (*matches != Match::default()).then(|| chain_match(matches));
    pb::FilterChain { filter_chain_match, filters, ..chain }
}

fn ranges(matches: &Match) -> impl Iterator<Item = CidrRange> {
    let range = |(ip, prefix): (IpAddr, u8)| CidrRange {
        address_prefix: ip.to_string(),
        prefix_len: Some(UInt32Value { value: prefix.into() }),
    };
    matches.range.map(range).into_iter()
}

fn chain_match(matches: &Match) -> pb::FilterChainMatch {
    let found = pb::FilterChainMatch {
        prefix_ranges: ranges(matches).collect(),
        server_names: matches.sni.iter().cloned().collect(),
        ..pb::FilterChainMatch::default()
    };
    if matches.http { of_http(found) } else { found }
}

/// Blocks connections to the interceptor's own port, which would loop.
fn loop_guard(name: &str, port: u16) -> pb::FilterChain {
    pb::FilterChain {
        filter_chain_match: Some(to_port(port)),
        ..tcp_chain(name, names::BLACK_HOLE, &Handling::default())
    }
}

fn to_port(port: u16) -> pb::FilterChainMatch {
    pb::FilterChainMatch {
        destination_port: Some(UInt32Value { value: port.into() }),
        ..pb::FilterChainMatch::default()
    }
}

/// Narrows a match to connections whose first bytes are HTTP.
fn of_http(matches: pb::FilterChainMatch) -> pb::FilterChainMatch {
    let application_protocols = HTTP.map(Into::into).into();
    pb::FilterChainMatch { transport_protocol: RAW.into(), application_protocols, ..matches }
}

fn outbound_routes(
    cluster: &ClusterName,
    policy: Option<&ConnectionPolicy>,
    defaults: &Defaults,
) -> RouteConfiguration {
    let hash = policy.and_then(|policy| policy.hash.clone()).map(Arc::new);
    let plan = |plan: &VirtualHostPlan| {
        let retries = defaults.retries.clone();
        VirtualHostPlan { retries, hash: hash.clone(), ..plan.clone() }
    };
    one_host(&cluster.to_string(), |any| virtual_host(&plan(any)))
}

/// Returns the table of a chain that has one xDS cluster, for every host.
fn one_host(name: &str, write: impl Fn(&VirtualHostPlan) -> Vec<u8>) -> RouteConfiguration {
    let plan = VirtualHostPlan {
        name: name.into(),
        domains: vec!["*".into()],
        addresses: Vec::new(),
        cluster: name.into(),
        dynamic: false,
        retries: None,
        hash: None,
        routes: Routes::Default,
        rule: None,
    };
    let mut body = table_head(name);
    append_host(&mut body, &write(&plan));
    // Bytes that this encoder wrote always decode; a table without hosts would answer 404.
    let table = RouteConfiguration::decode(&body[..]).unwrap_or_default();
    RouteConfiguration { validate_clusters: Some(BoolValue { value: false }), ..table }
}

fn tcp_chain(name: &str, cluster: &str, handling: &Handling) -> pb::FilterChain {
    ruled_tcp_chain(name, tcp_proxy::ClusterSpecifier::Cluster(cluster.into()), None, handling)
}

/// Returns the shares of xDS clusters.
fn weighted(all: &[(ClusterName, u32)]) -> tcp_proxy::ClusterSpecifier {
    let weight = scaled(all.iter().map(|(_, weight)| *weight));
    let cluster = |(name, of): &(ClusterName, u32)| tcp_proxy::weighted_cluster::ClusterWeight {
        name: name.to_string(),
        weight: weight(*of),
        ..tcp_proxy::weighted_cluster::ClusterWeight::default()
    };
    let clusters = all.iter().map(cluster).collect();
    tcp_proxy::ClusterSpecifier::WeightedClusters(tcp_proxy::WeightedCluster { clusters })
}

fn ruled_tcp_chain(
    name: &str,
    target: tcp_proxy::ClusterSpecifier,
    policy: Option<&ConnectionPolicy>,
    handling: &Handling,
) -> pb::FilterChain {
    let by_source = policy.is_some_and(|policy| policy.by_source);
    let proxy = TcpProxy {
        stat_prefix: name.into(),
        cluster_specifier: Some(target),
        access_log: access_log::requests(handling.log.as_deref()),
        idle_timeout: policy.and_then(|policy| policy.idle_timeout).map(duration),
        max_downstream_connection_duration: policy.and_then(|policy| policy.max_duration).map(duration),
        hash_policy: by_source.then(source_hash).into_iter().collect(),
        ..TcpProxy::default()
    };
    one_filter("envoy.filters.network.tcp_proxy", any(&proxy))
}

fn source_hash() -> HashPolicy {
    let by = hash_policy::PolicySpecifier::SourceIp(hash_policy::SourceIp {});
    HashPolicy { policy_specifier: Some(by) }
}

fn http_chain(name: &str, routes: RouteSpecifier, forward: bool, handling: &Handling) -> pb::FilterChain {
    managed(&http_manager(name, routes, forward, handling))
}

fn managed(manager: &hcm::HttpConnectionManager) -> pb::FilterChain {
    one_filter("envoy.filters.network.http_connection_manager", any(manager))
}

fn http_manager(
    name: &str,
    routes: RouteSpecifier,
    forward: bool,
    handling: &Handling,
) -> hcm::HttpConnectionManager {
    // The first two do nothing until a route configures them.
    let filters = [fault(), cors()].into_iter();
    let filters = filters.chain(forward.then(forward_proxy)).chain([router()]).collect();
    hcm::HttpConnectionManager {
        // A stream may be idle: that is for the application to decide.
        stream_idle_timeout: Some(Duration::default()),
        // A path such as `/a/../b` would get around conditions on paths.
        normalize_path: Some(BoolValue { value: handling.paths != PathNormalization::None }),
        merge_slashes: matches!(
            handling.paths,
            PathNormalization::MergeSlashes | PathNormalization::DecodeAndMergeSlashes
        ),
        path_with_escaped_slashes_action: escaped_slashes(handling.paths).into(),
        access_log: access_log::requests(handling.log.as_deref()),
        tracing: handling.tracing.as_deref().map(spans::tracing),
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".into(), ..UpgradeConfig::default() }],
        ..manager(name, routes, filters)
    }
}

const fn escaped_slashes(paths: PathNormalization) -> PathWithEscapedSlashesAction {
    match paths {
        PathNormalization::DecodeAndMergeSlashes => PathWithEscapedSlashesAction::UnescapeAndForward,
        // the default of Envoy
        _ => PathWithEscapedSlashesAction::ImplementationSpecificDefault,
    }
}

fn manager(name: &str, routes: RouteSpecifier, filters: Vec<hcm::HttpFilter>) -> hcm::HttpConnectionManager {
    hcm::HttpConnectionManager {
        stat_prefix: name.into(),
        route_specifier: Some(routes),
        http_filters: filters,
        ..hcm::HttpConnectionManager::default()
    }
}

fn rds(name: &str) -> hcm::Rds {
    hcm::Rds { config_source: Some(ads()), route_config_name: name.into() }
}

fn router() -> hcm::HttpFilter {
    http_filter("envoy.filters.http.router", any(&Router::default()))
}

fn fault() -> hcm::HttpFilter {
    http_filter("envoy.filters.http.fault", any(&HttpFault::default()))
}

fn cors() -> hcm::HttpFilter {
    http_filter("envoy.filters.http.cors", any(&Cors {}))
}

fn forward_proxy() -> hcm::HttpFilter {
    use forward_filter::filter_config::ImplementationSpecifier::DnsCacheConfig;
    let config = forward_filter::FilterConfig {
        implementation_specifier: Some(DnsCacheConfig(dns_cache())),
        ..forward_filter::FilterConfig::default()
    };
    http_filter("envoy.filters.http.dynamic_forward_proxy", any(&config))
}

/// Resolves the server name of a TLS client hello.
fn sni_forward_proxy(port: u16) -> pb::Filter {
    let config = sni_filter::FilterConfig {
        dns_cache_config: Some(dns_cache()),
        port_specifier: Some(sni_filter::filter_config::PortSpecifier::PortValue(port.into())),
        ..sni_filter::FilterConfig::default()
    };
    filter("envoy.filters.network.sni_dynamic_forward_proxy", any(&config))
}

pub(super) fn http_filter(name: &str, config: Any) -> hcm::HttpFilter {
    hcm::HttpFilter {
        name: name.into(),
        config_type: Some(hcm::http_filter::ConfigType::TypedConfig(config)),
        ..hcm::HttpFilter::default()
    }
}

fn one_filter(name: &str, config: Any) -> pb::FilterChain {
    pb::FilterChain { filters: vec![filter(name, config)], ..pb::FilterChain::default() }
}

pub(super) fn filter(name: &str, config: Any) -> pb::Filter {
    pb::Filter { name: name.into(), config_type: Some(pb::filter::ConfigType::TypedConfig(config)) }
}

fn listener_filter<M: Message + Name>(name: &str, config: &M) -> pb::ListenerFilter {
    pb::ListenerFilter {
        name: name.into(),
        config_type: Some(pb::listener_filter::ConfigType::TypedConfig(any(config))),
        ..pb::ListenerFilter::default()
    }
}
