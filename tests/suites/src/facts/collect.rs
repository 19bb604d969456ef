//! Requests everything that a sidecar requests, and returns the facts of the answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use prost::Message;

use super::{Facts, clusters, listeners, routes};
use crate::ads::{CDS, EDS, LDS, RDS};
use crate::{AdsClient, Answer, Variant};

const SOON: Duration = Duration::from_secs(20);

/// Returns the facts of one client: its clusters, their endpoints, its listeners, and the tables that these name.
pub async fn collect(server: SocketAddr, node: Node) -> Result<Facts> {
    let mut client = AdsClient::connect(server, Variant::Sotw, node).await?;
    let mut facts = Facts::new();
    let mut by_eds = BTreeSet::new();
    for item in ask(&mut client, CDS, &[]).await?.resources {
        let cluster = Cluster::decode(item.value).with_context(|| format!("decode {}", item.name))?;
        clusters::cluster(&mut facts, &cluster);
        if let Some(config) = cluster.eds_cluster_config {
            by_eds.insert(if config.service_name.is_empty() { cluster.name } else { config.service_name });
        }
    }
    for item in named(&mut client, EDS, &by_eds).await? {
        clusters::assignment(&mut facts, &ClusterLoadAssignment::decode(item)?);
    }
    let mut tables = BTreeSet::new();
    for item in ask(&mut client, LDS, &[]).await?.resources {
        let listener = Listener::decode(item.value).with_context(|| format!("decode {}", item.name))?;
        tables.extend(listeners::listener(&mut facts, &listener)?);
    }
    for item in named(&mut client, RDS, &tables).await? {
        routes::table(&mut facts, &RouteConfiguration::decode(item)?);
    }
    Ok(facts)
}

async fn named(client: &mut AdsClient, kind: &str, names: &BTreeSet<String>) -> Result<Vec<bytes::Bytes>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let answer = ask(client, kind, &names).await?;
    Ok(answer.resources.into_iter().map(|item| item.value).collect())
}

/// Takes the answer to a first request of a type; the objects do not change, so other answers repeat earlier ones.
async fn ask(client: &mut AdsClient, kind: &str, names: &[&str]) -> Result<Answer> {
    client.subscribe(kind, names)?;
    for _ in 0..8 {
        let answer = client.next(SOON).await?;
        client.ack(&answer)?;
        if answer.type_url == kind {
            return Ok(answer);
        }
    }
    bail!("no answer of {kind}")
}
