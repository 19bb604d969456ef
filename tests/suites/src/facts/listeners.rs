//! Facts of listeners: addresses, filter chains, and where each chain leads.

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, TrafficDirection};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, FilterChainMatch, Listener};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy::ClusterSpecifier};
use prost::Message;

use super::{Facts, attribute, compact, logs, policy, put, routes, seconds, short};

/// Adds the facts of a listener, and returns the route tables that it names.
pub(super) fn listener(facts: &mut Facts, body: &Listener) -> Result<Vec<String>> {
    let of = put(facts, format!("lds {}", body.name), whole(body));
    let inspectors = body.listener_filters.iter().map(|filter| short(&filter.name));
    attribute(facts, &of, "log", logs::entries(&body.access_log)?);
    attribute(facts, &of, "inspect", inspectors.collect::<Vec<_>>().join(","));
    let mut tables = Vec::new();
    for chain in &body.filter_chains {
        let matches = chain.filter_chain_match.as_ref().map(matching).unwrap_or_default();
        let key = if matches.is_empty() { "any".to_owned() } else { matches };
        tables.extend(filters(facts, format!("{of} chain {key}"), chain)?);
    }
    if let Some(rest) = &body.default_filter_chain {
        tables.extend(filters(facts, format!("{of} rest"), rest)?);
    }
    Ok(tables)
}

fn whole(body: &Listener) -> String {
    let more = body.additional_addresses.iter().filter_map(|more| more.address.as_ref());
    let addresses: Vec<String> = body.address.iter().chain(more).map(address).collect();
    let direction = TrafficDirection::try_from(body.traffic_direction).ok();
    let direction = direction.map_or("UNKNOWN", |direction| direction.as_str_name()).to_lowercase();
    let binds = if body.bind_to_port.is_none_or(|bind| bind.value) { "binds" } else { "no bind" };
    format!("{direction} {} {binds}", addresses.join(","))
}

fn address(address: &Address) -> String {
    match &address.address {
        Some(Kind::SocketAddress(socket)) => match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) if socket.address.contains(':') => {
                format!("[{}]:{port}", socket.address)
            }
            Some(PortSpecifier::PortValue(port)) => format!("{}:{port}", socket.address),
            _ => socket.address.clone(),
        },
        Some(Kind::Pipe(pipe)) => format!("unix:{}", pipe.path),
        _ => "none".to_owned(),
    }
}

/// Returns a match as text without spaces; empty if it matches everything.
fn matching(matches: &FilterChainMatch) -> String {
    let mut parts = Vec::new();
    let mut add = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            parts.push(format!("{name}={}", values.join(",")));
        }
    };
    add("port", matches.destination_port.iter().map(|port| port.value.to_string()).collect());
    let range = |range: &envoy_types::pb::envoy::config::core::v3::CidrRange| {
        format!("{}/{}", range.address_prefix, range.prefix_len.map_or(0, |len| len.value))
    };
    add("to", sorted(matches.prefix_ranges.iter().map(range)));
    add("sni", sorted(matches.server_names.iter().cloned()));
    add("app", sorted(matches.application_protocols.iter().cloned()));
    add(
        "transport",
        Some(matches.transport_protocol.clone()).filter(|text| !text.is_empty()).into_iter().collect(),
    );
    parts.join(";")
}

fn sorted(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut values: Vec<String> = values.collect();
    values.sort();
    values
}

/// Adds the facts of a chain, and returns the route table that it names.
fn filters(facts: &mut Facts, key: String, chain: &FilterChain) -> Result<Option<String>> {
    let secured = if chain.transport_socket.is_some() { "tls " } else { "" };
    let names: Vec<&str> = chain.filters.iter().map(|filter| short(&filter.name)).collect();
    let Some(last) = chain.filters.last() else {
        put(facts, key, format!("{secured}nothing"));
        return Ok(None);
    };
    let table = match short(&last.name) {
        "tcp_proxy" => {
            tcp(facts, key.clone(), secured, last)?;
            None
        }
        "http_connection_manager" => http(facts, &key, secured, last)?,
        other => {
            put(facts, key.clone(), format!("{secured}{other}"));
            None
        }
    };
    attribute(facts, &key, "filters", names[..names.len() - 1].join(","));
    Ok(table)
}

fn config(filter: &Filter) -> Result<&[u8]> {
    match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) => Ok(&any.value),
        _ => anyhow::bail!("{} has no configuration", filter.name),
    }
}

fn tcp(facts: &mut Facts, key: String, secured: &str, filter: &Filter) -> Result<()> {
    let proxy = TcpProxy::decode(config(filter)?).context("decode a TCP proxy")?;
    let cluster = match &proxy.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => name.clone(),
        Some(ClusterSpecifier::WeightedClusters(clusters)) => compact::text(clusters),
        None => String::new(),
    };
    let of = put(facts, key, format!("{secured}tcp {cluster}"));
    for (name, value) in policy::tcp_proxy(&proxy) {
        attribute(facts, &of, &name, value);
    }
    attribute(facts, &of, "log", logs::entries(&proxy.access_log)?);
    attribute(facts, &of, "idle", proxy.idle_timeout.map(seconds).unwrap_or_default());
    Ok(())
}

fn http(facts: &mut Facts, key: &str, secured: &str, filter: &Filter) -> Result<Option<String>> {
    let manager =
        HttpConnectionManager::decode(config(filter)?).context("decode an HTTP connection manager")?;
    let (value, table, inline) = match &manager.route_specifier {
        Some(RouteSpecifier::Rds(rds)) => {
            (format!("table {}", rds.route_config_name), Some(rds.route_config_name.clone()), None)
        }
        Some(RouteSpecifier::RouteConfig(table)) => ("own table".to_owned(), None, Some(table)),
        other => (format!("{other:?}"), None, None),
    };
    let of = put(facts, key.to_owned(), format!("{secured}http {value}"));
    let filters = manager.http_filters.iter().map(|filter| short(&filter.name)).collect::<Vec<_>>();
    attribute(facts, &of, "http_filters", filters.join(","));
    let upgrades = manager.upgrade_configs.iter().map(|upgrade| upgrade.upgrade_type.clone());
    attribute(facts, &of, "upgrades", upgrades.collect::<Vec<_>>().join(","));
    attribute(facts, &of, "stream_idle", manager.stream_idle_timeout.map(seconds).unwrap_or_default());
    attribute(facts, &of, "log", logs::entries(&manager.access_log)?);
    if let Some(table) = inline {
        routes::hosts(facts, &of, table);
    }
    Ok(table)
}
