//! Writes of tests to the catalog: instances with their checks, registered and deregistered by node. On a busy
//! machine servers sometimes elect another leader and reject writes meanwhile, so every write is repeated until
//! a server accepts it; a repeated write changes nothing.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::Consul;
use crate::eventually;

const SOON: Duration = Duration::from_secs(20);

/// Returns an instance of a service on a node, as the catalog accepts it. Instances of one id on different
/// nodes are separate.
pub fn mk_instance(service: &str, id: &str, node: &str, at: SocketAddr) -> Value {
    json!({
        "Node": node,
        "Address": at.ip().to_string(),
        "Service": {"ID": id, "Service": service, "Address": at.ip().to_string(), "Port": at.port()},
    })
}

/// Returns a check of an instance: `passing`, `warning` or `critical`.
pub fn mk_check(id: &str, node: &str, check: &str, status: &str) -> Value {
    json!({"Node": node, "CheckID": check, "Name": check, "ServiceID": id, "Status": status})
}

impl Consul {
    /// Registers an instance (or anything else that the catalog registers), replacing the one of its node and
    /// id.
    pub async fn register(&self, registration: &Value) -> Result<()> {
        self.take("register", registration).await
    }

    /// Registers [`mk_instance`].
    pub async fn instance(&self, service: &str, id: &str, node: &str, at: SocketAddr) -> Result<()> {
        self.register(&mk_instance(service, id, node, at)).await
    }

    /// Deregisters an instance.
    pub async fn deregister(&self, node: &str, id: &str) -> Result<()> {
        self.take("deregister", &json!({"Node": node, "ServiceID": id})).await
    }

    /// Deregisters a node with everything on it.
    pub async fn deregister_node(&self, node: &str) -> Result<()> {
        self.take("deregister", &json!({"Node": node})).await
    }

    /// Sets a check of a registered instance.
    pub async fn check(&self, id: &str, node: &str, check: &str, status: &str) -> Result<()> {
        let check = mk_check(id, node, check, status);
        let address = self.address_of(node).await?;
        let body = json!({"Node": node, "Address": address, "SkipNodeUpdate": true, "Check": check});
        self.register(&body).await
    }

    /// Starts or ends the maintenance of an instance, as an agent does.
    pub async fn maintenance(&self, id: &str, node: &str, on: bool) -> Result<()> {
        let check = format!("_service_maintenance:{id}");
        if on {
            return self.check(id, node, &check, "critical").await;
        }
        self.take("deregister", &json!({"Node": node, "CheckID": check})).await
    }

    async fn take(&self, action: &str, what: &Value) -> Result<()> {
        eventually("Consul to take a change", SOON, || async {
            self.rest().put(&format!("/v1/catalog/{action}"), what).await.map(drop)
        })
        .await
    }

    async fn address_of(&self, node: &str) -> Result<Value> {
        Ok(self.rest().get(&format!("/v1/catalog/node/{node}")).await?["Node"]["Address"].clone())
    }
}
