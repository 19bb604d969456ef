//! The catalog as tests write it: instances with their checks, put and taken by node. On a busy machine servers
//! elect another leader now and then and refuse to write meanwhile: what is written here is written again until one
//! has taken it, which changes nothing where it has.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::Consul;
use crate::eventually;

const SOON: Duration = Duration::from_secs(20);

/// An instance of a service on a node, as the catalog takes it. Two of one id are two instances where their nodes
/// differ.
pub fn mk_instance(service: &str, id: &str, node: &str, at: SocketAddr) -> Value {
    json!({
        "Node": node,
        "Address": at.ip().to_string(),
        "Service": {"ID": id, "Service": service, "Address": at.ip().to_string(), "Port": at.port()},
    })
}

/// A check of an instance: `passing`, `warning` or `critical`.
pub fn mk_check(id: &str, node: &str, check: &str, status: &str) -> Value {
    json!({"Node": node, "CheckID": check, "Name": check, "ServiceID": id, "Status": status})
}

impl Consul {
    /// Puts an instance (or what else the catalog registers) in place of the one of its node and id.
    pub async fn register(&self, registration: &Value) -> Result<()> {
        self.take("register", registration).await
    }

    /// [`mk_instance`], registered.
    pub async fn instance(&self, service: &str, id: &str, node: &str, at: SocketAddr) -> Result<()> {
        self.register(&mk_instance(service, id, node, at)).await
    }

    /// Takes an instance away.
    pub async fn deregister(&self, node: &str, id: &str) -> Result<()> {
        self.take("deregister", &json!({"Node": node, "ServiceID": id})).await
    }

    /// Takes a node away with all that is on it.
    pub async fn deregister_node(&self, node: &str) -> Result<()> {
        self.take("deregister", &json!({"Node": node})).await
    }

    /// Sets a check of an instance that is registered.
    pub async fn check(&self, id: &str, node: &str, check: &str, status: &str) -> Result<()> {
        let check = mk_check(id, node, check, status);
        let address = self.address_of(node).await?;
        let body = json!({"Node": node, "Address": address, "SkipNodeUpdate": true, "Check": check});
        self.register(&body).await
    }

    /// Puts an instance into maintenance, as an agent does it, or takes it out.
    pub async fn maintenance(&self, id: &str, node: &str, on: bool) -> Result<()> {
        let check = format!("_service_maintenance:{id}");
        if on {
            return self.check(id, node, &check, "critical").await;
        }
        self.take("deregister", &json!({"Node": node, "CheckID": check})).await
    }

    async fn take(&self, word: &str, what: &Value) -> Result<()> {
        eventually("Consul to take a change", SOON, || async {
            self.rest().put(&format!("/v1/catalog/{word}"), what).await.map(drop)
        })
        .await
    }

    async fn address_of(&self, node: &str) -> Result<Value> {
        Ok(self.rest().get(&format!("/v1/catalog/node/{node}")).await?["Node"]["Address"].clone())
    }
}
