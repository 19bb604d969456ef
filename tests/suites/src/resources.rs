//! Minimal xDS resources for the scripted server: one cluster, its endpoints, a listener and a route, in the
//! plain shape that Envoy and both gRPC implementations accept. The real server builds its own.

use std::net::SocketAddr;

use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, Locality, SocketAddress,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, Listener};
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds,
};
use envoy_types::pb::google::protobuf::{Any, Duration, UInt32Value};
use prost::Message;

const API: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// Returns the config source for the current ADS stream.
pub fn from_ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource::default())),
        ..ConfigSource::default()
    }
}

/// Returns a cluster whose endpoints come over ADS.
pub fn cluster(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        connect_timeout: Some(Duration { seconds: 1, nanos: 0 }),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(from_ads()),
            service_name: String::new(),
        }),
        ..Cluster::default()
    }
}

/// Returns the endpoints of a cluster: a locality for each list, all of priority 0 and weight 1.
pub fn assignment(cluster: &str, localities: &[(&str, &[SocketAddr])]) -> ClusterLoadAssignment {
    ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: localities.iter().map(|(zone, hosts)| locality(zone, hosts)).collect(),
        ..ClusterLoadAssignment::default()
    }
}

/// Returns [`assignment`] with everything in one locality.
pub fn endpoints(cluster: &str, hosts: &[SocketAddr]) -> ClusterLoadAssignment {
    assignment(cluster, &[("zone-a", hosts)])
}

fn locality(zone: &str, hosts: &[SocketAddr]) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: Some(Locality {
            region: "region-1".to_owned(),
            zone: zone.to_owned(),
            sub_zone: String::new(),
        }),
        lb_endpoints: hosts.iter().map(endpoint).collect(),
        load_balancing_weight: Some(UInt32Value { value: hosts.len().max(1) as u32 }),
        ..LocalityLbEndpoints::default()
    }
}

/// Returns one endpoint of weight 1.
pub fn endpoint(host: &SocketAddr) -> LbEndpoint {
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(&host.ip().to_string(), host.port())),
            ..Endpoint::default()
        })),
        load_balancing_weight: Some(UInt32Value { value: 1 }),
        ..LbEndpoint::default()
    }
}

/// Returns a socket address; `host` may be any text, so tests can send addresses that clients reject.
pub fn address(host: &str, port: u16) -> Address {
    let socket = SocketAddress {
        address: host.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    Address { address: Some(Kind::SocketAddress(socket)) }
}

/// Returns the listener that a gRPC client requests by its target, with a route of that name.
pub fn api_listener(name: &str, route: &str) -> Listener {
    let manager = HttpConnectionManager {
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(from_ads()),
            route_config_name: route.to_owned(),
        })),
        http_filters: vec![HttpFilter {
            name: "router".to_owned(),
            config_type: Some(ConfigType::TypedConfig(any(ROUTER, &Router::default()))),
            ..HttpFilter::default()
        }],
        ..HttpConnectionManager::default()
    };
    let api_listener = Some(ApiListener { api_listener: Some(any(API, &manager)) });
    Listener { name: name.to_owned(), api_listener, ..Listener::default() }
}

/// Returns a route that sends everything for any of `domains` to one cluster.
pub fn route(name: &str, domains: &[&str], cluster: &str) -> RouteConfiguration {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        ..RouteAction::default()
    };
    let everything =
        RouteMatch { path_specifier: Some(PathSpecifier::Prefix(String::new())), ..RouteMatch::default() };
    let host = VirtualHost {
        name: name.to_owned(),
        domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        routes: vec![Route {
            r#match: Some(everything),
            action: Some(Action::Route(action)),
            ..Route::default()
        }],
        ..VirtualHost::default()
    };
    RouteConfiguration { name: name.to_owned(), virtual_hosts: vec![host], ..RouteConfiguration::default() }
}

fn any(type_url: &str, message: &impl Message) -> Any {
    Any { type_url: type_url.to_owned(), value: message.encode_to_vec() }
}
