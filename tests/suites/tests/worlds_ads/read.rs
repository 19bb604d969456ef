//! Converts the resources that a client holds to the notation of a world.

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints};
use tributary_model::Locality;
use tributary_suites::Follower;
use tributary_suites::ads::{CDS, EDS};
use tributary_worlds::{Place, Row, ServiceFound};

/// Returns the endpoints of an xDS cluster: by EDS or inside it; empty if there is no such cluster.
pub(crate) fn rows(held: &Follower, name: &str) -> Result<Vec<Row>> {
    if !held.names(CDS).contains(name) {
        return Ok(Vec::new());
    }
    let assignment = assignment(held, name)?;
    let mut rows = Vec::new();
    for locality in &assignment.endpoints {
        for endpoint in &locality.lb_endpoints {
            rows.push(row(locality, endpoint)?);
        }
    }
    rows.sort();
    Ok(rows)
}

/// Returns the localities of an xDS cluster, likewise.
pub(crate) fn places(held: &Follower, name: &str) -> Result<Vec<Place>> {
    if !held.names(CDS).contains(name) {
        return Ok(Vec::new());
    }
    let place = |l: &LocalityLbEndpoints| Place {
        priority: l.priority,
        locality: place(l),
        weight: l.load_balancing_weight.map_or(0, |weight| weight.value),
        is_empty: l.lb_endpoints.is_empty(),
    };
    let mut places: Vec<Place> = assignment(held, name)?.endpoints.iter().map(place).collect();
    places.sort();
    Ok(places)
}

fn assignment(held: &Follower, name: &str) -> Result<ClusterLoadAssignment> {
    let cluster: Cluster = held.decode(CDS, name)?;
    Ok(match type_of(&cluster) {
        "EDS" if held.names(EDS).contains(name) => held.decode(EDS, name)?,
        "STRICT_DNS" | "LOGICAL_DNS" => cluster.load_assignment.unwrap_or_default(),
        _ => ClusterLoadAssignment::default(),
    })
}

fn place(locality: &LocalityLbEndpoints) -> String {
    let place = locality.locality.clone().unwrap_or_default();
    Locality::new(&place.region, &place.zone, &place.sub_zone).to_string()
}

fn row(locality: &LocalityLbEndpoints, endpoint: &LbEndpoint) -> Result<Row> {
    let health = match HealthStatus::try_from(endpoint.health_status) {
        Ok(HealthStatus::Unknown | HealthStatus::Healthy) => "",
        Ok(status) => status.as_str_name(),
        Err(_) => "UNKNOWN_HEALTH",
    };
    Ok(Row {
        priority: locality.priority,
        target: target(endpoint).context("an endpoint without an address")?,
        weight: endpoint.load_balancing_weight.map_or(1, |weight| weight.value),
        locality: place(locality),
        health: health.to_owned(),
    })
}

fn target(endpoint: &LbEndpoint) -> Option<String> {
    let Some(HostIdentifier::Endpoint(endpoint)) = &endpoint.host_identifier else { return None };
    match endpoint.address.as_ref()?.address.as_ref()? {
        Kind::Pipe(pipe) => Some(format!("unix:{}", pipe.path)),
        Kind::SocketAddress(socket) => {
            let Some(PortSpecifier::PortValue(port)) = socket.port_specifier else { return None };
            let is_v6 = socket.address.contains(':');
            Some(if is_v6 {
                format!("[{}]:{port}", socket.address)
            } else {
                format!("{}:{port}", socket.address)
            })
        }
        Kind::EnvoyInternalAddress(_) => None,
    }
}

/// Returns the discovery type of an xDS cluster, in the notation of a world.
pub(crate) fn type_of(cluster: &Cluster) -> &'static str {
    match &cluster.cluster_discovery_type {
        Some(ClusterDiscoveryType::ClusterType(_)) => "DYNAMIC",
        Some(ClusterDiscoveryType::Type(kind)) => match DiscoveryType::try_from(*kind) {
            Ok(DiscoveryType::Eds) => "EDS",
            Ok(DiscoveryType::StrictDns) => "STRICT_DNS",
            Ok(DiscoveryType::LogicalDns) => "LOGICAL_DNS",
            Ok(DiscoveryType::OriginalDst) => "ORIGINAL_DST",
            _ => "OTHER",
        },
        None => "NONE",
    }
}

/// Returns `Kind namespace/name` of a bad object, and its code.
pub(crate) fn problem(problem: &serde_json::Value) -> Result<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let object = &problem["object"];
    let part = |name: &str| text(&object[name]).with_context(|| format!("no {name} in {problem}"));
    let namespace = text(&object["namespace"]).map(|namespace| format!("{namespace}/")).unwrap_or_default();
    // A document without a name is identified by its file, of which a world knows the last part.
    let name = part("name")?;
    let name = format!("{} {namespace}{}", part("kind")?, name.rsplit('/').next().unwrap_or(&name));
    Ok((name, text(&problem["code"]).with_context(|| format!("no code in {problem}"))?))
}

/// Converts a service of `/debug/services` to the notation of a world.
pub(crate) fn service(item: &serde_json::Value) -> Result<ServiceFound> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = |name: &str| item[name].as_array().cloned().unwrap_or_default();
    let port = |port: &serde_json::Value| {
        format!("{} {} {}", port["number"], text(&port["name"]), text(&port["protocol"]))
    };
    let declaration = |declaration: &serde_json::Value| {
        let (object, _) = problem(&serde_json::json!({"object": declaration["object"], "code": "-"}))?;
        Ok(format!("{} {object}", text(&declaration["registry"])))
    };
    Ok(ServiceFound {
        resolution: text(&item["resolution"]),
        addresses: list("addresses").iter().map(text).collect(),
        ports: list("ports").iter().map(port).collect(),
        declarations: list("declarations").iter().map(declaration).collect::<Result<_>>()?,
        aliases: list("aliases").iter().map(text).collect(),
    })
}
