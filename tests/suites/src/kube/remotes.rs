//! A config cluster and a remote cluster with the same service, and the Secret that declares the second one.
//!
//! The suites of remote clusters call it.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{ApiServer, mk_namespace};
use crate::consul::PORT;
use crate::{Follower, outbound};

/// Namespace of the Secrets in the config cluster.
pub const NAMESPACE: &str = "tributary-system";
/// Endpoint in the config cluster.
pub const HOME: &str = "10.77.0.10:8080";
/// Endpoint in the remote cluster.
pub const AWAY: &str = "10.78.0.10:8080";
/// Host of the service.
const PAY: &str = "pay.shop.svc.cluster.local";

/// Starts a config cluster and a remote cluster with an endpoint each.
pub async fn start_pair() -> Result<(ApiServer, ApiServer)> {
    let (home, away) = (ApiServer::start().await?, ApiServer::start().await?);
    fill(&home, "10.77.0.10").await?;
    fill(&away, "10.78.0.10").await?;
    home.api().apply(&mk_namespace(NAMESPACE)).await?;
    Ok((home, away))
}

/// Adds the service with one endpoint at this address.
pub async fn fill(cluster: &ApiServer, address: &str) -> Result<()> {
    cluster.api().fill_pay(PORT, &[address]).await
}

/// Builds the Secret that declares one cluster, as Istio's own tools label it.
#[must_use]
pub fn mk_declaration(name: &str, cluster: &str, kubeconfig: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {"istio/multiCluster": "true"}},
        "stringData": {cluster: kubeconfig},
    })
}

/// Waits until a client has exactly these endpoints of the service.
pub async fn serves(client: &mut Follower, endpoints: &[&str], within: Duration) -> Result<()> {
    let endpoints = endpoints.iter().map(|one| Ok(one.parse()?)).collect::<Result<Vec<_>>>()?;
    client.has_endpoints(&outbound(PORT, PAY), &endpoints, within).await
}

/// Asserts that a client is sent nothing for this long.
pub async fn sends_nothing(client: &mut Follower, span: Duration) -> Result<()> {
    client.settle(span).await?;
    ensure!(client.answers().is_empty(), "{:?}", client.answers());
    Ok(())
}
