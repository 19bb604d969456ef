//! Marks in a cluster: numbered objects, one for each relevant watch, whose number shows in what clients
//! receive. A client that has received a mark's number has received everything that was applied before it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{KubeApi, With, mk_namespace, mk_node, mk_pod, mk_service, mk_slice};
use crate::ads::EDS;
use crate::{Entry, Follower, follower, outbound};

const SOON: Duration = Duration::from_secs(30);
/// Namespace of marks; it has the label that tests with discovery selectors select by.
pub const NAMESPACE: &str = "marks";
/// Host of marks.
pub const HOST: &str = "mark.marks.svc.cluster.local";

/// Marks in one cluster.
#[derive(Debug, Clone)]
pub struct Marks {
    api: KubeApi,
    number: u16,
    entries: bool,
}

impl Marks {
    /// Creates no mark yet. Without ServiceEntries in the cluster, their watch has no mark.
    pub async fn new(api: &KubeApi, entries: bool) -> Result<Self> {
        let labels = json!({"metadata": {"labels": {"discovery": "enabled"}}});
        api.apply(&mk_namespace(NAMESPACE).with(labels)).await?;
        Ok(Self { api: api.clone(), number: 0, entries })
    }

    /// Applies the next mark.
    pub async fn put(&mut self) -> Result<()> {
        self.number += 1;
        let entry = of_entries(self.number).yaml().replace("namespace: default", "namespace: marks");
        // Independent of the mesh's default visibility.
        let entry = entry.replace("  resolution:", "  exportTo: [\"*\"]\n  resolution:");
        let entries = if self.entries { super::api::documents(&entry)? } else { Vec::new() };
        self.api.apply_all(objects(self.number).iter().chain(&entries)).await
    }

    /// Waits until this client, which must follow xDS clusters and endpoints, has received the last mark.
    pub async fn seen_by(&self, client: &mut Follower) -> Result<()> {
        let number = self.number;
        let want = BTreeSet::from([
            format!("10.255.255.1:{number} {number}/"),
            format!("10.255.255.2:{number} eu/{number}"),
        ]);
        let deadline = crate::wait::deadline(SOON);
        loop {
            client.settle(Duration::from_millis(20)).await?;
            let received = received(client, &outbound(number, HOST))?;
            let entries = !self.entries || client.names(EDS).contains(&of_entries(number).cluster());
            if received == want && entries {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "mark {number}: received {received:?}, wanted {want:?}; entries {entries}"
            );
        }
    }

    /// Applies a mark and waits until each client has received it.
    pub async fn through(&mut self, clients: &mut [&mut Follower]) -> Result<()> {
        self.put().await?;
        for client in clients {
            self.seen_by(client).await?;
        }
        Ok(())
    }
}

/// Returns true if a host belongs to a mark or to the API server itself.
pub fn is_not_the_tests(host: &str) -> bool {
    host.ends_with("mark.invalid") || host == HOST || host == "kubernetes.default.svc.cluster.local"
}

/// Returns endpoints with region and zone; empty if there is no such assignment.
fn received(client: &Follower, name: &str) -> Result<BTreeSet<String>> {
    if !client.names(EDS).contains(name) {
        return Ok(BTreeSet::new());
    }
    let assignment: ClusterLoadAssignment = client.decode(EDS, name)?;
    let mut received = BTreeSet::new();
    for place in &assignment.endpoints {
        let locality = place.locality.clone().unwrap_or_default();
        let addresses = place.lb_endpoints.iter().filter_map(follower::address);
        received.extend(addresses.map(|at| format!("{at} {}/{}", locality.region, locality.zone)));
    }
    Ok(received)
}

/// Returns the objects of a mark: the Service has the number in its port, the slice in the endpoints' port,
/// node and pod each in a locality.
fn objects(number: u16) -> Vec<Value> {
    let text = number.to_string();
    let endpoints = json!([
        {"addresses": ["10.255.255.1"], "nodeName": "mark"},
        {"addresses": ["10.255.255.2"], "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": "mark"}},
    ]);
    let exported = json!({"metadata": {"annotations": {"networking.istio.io/exportTo": "*"}}});
    let label = json!({"metadata": {"labels": {"topology.istio.io/locality": format!("eu.{text}")}}});
    vec![
        mk_node("mark", &text, ""),
        mk_pod(NAMESPACE, "mark", "10.255.255.2", "none", &[]).with(label),
        mk_service(NAMESPACE, "mark", &[("tcp", number, number)]).with(exported),
        mk_slice(NAMESPACE, "mark", "mark", &[], &[("tcp", number)]).with(json!({"endpoints": endpoints})),
    ]
}

fn of_entries(number: u16) -> Entry {
    Entry::http("entries.mark.invalid", number).at(std::net::SocketAddr::from(([10, 255, 255, 3], 9)))
}
