//! A server with a Consul registry, and traffic to its services: shared by the suites about Consul.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Consul, mk_instance};
use crate::kube::With;
use crate::{Envoy, EnvoyConfig, Load, LoadPlan, ServerOptions, TestServer, Variant, outbound};

const SOON: Duration = Duration::from_secs(20);
/// Port under which instances of [`mk_numbered`] are served.
pub const PORT: u16 = 8080;

/// Returns [`mk_instance`] with port [`PORT`] and protocol HTTP. Its id is its address.
pub fn mk_numbered(service: &str, node: &str, at: SocketAddr) -> Value {
    let meta = json!({"service-port": PORT.to_string(), "protocol": "http"});
    mk_instance(service, &at.to_string(), node, at).with(json!({"Service": {"Meta": meta}}))
}

impl Consul {
    /// Makes these the instances of a service, all on one node; registers before it deregisters.
    pub async fn set(&self, service: &str, node: &str, hosts: &[SocketAddr]) -> Result<()> {
        for at in hosts {
            self.register(&mk_numbered(service, node, *at)).await?;
        }
        let wanted: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let known = self.rest().get(&format!("/v1/health/service/{service}")).await?;
        let ids = known.as_array().into_iter().flatten().map(|one| &one["Service"]["ID"]);
        for id in ids.filter_map(Value::as_str).filter(|id| !wanted.iter().any(|wanted| wanted == id)) {
            self.deregister(node, id).await?;
        }
        Ok(())
    }
}

/// A server with its own configuration file, which is removed with it.
#[derive(Debug)]
pub struct Served {
    /// The server.
    pub server: TestServer,
    config: TempDir,
}

impl Served {
    /// Starts with this configuration.
    pub async fn start(config: &Value) -> Result<Self> {
        Self::start_with(config, ServerOptions::default()).await
    }
    /// Starts with this configuration and further options.
    pub async fn start_with(config: &Value, options: ServerOptions) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        write(&folder, config)?;
        let server = TestServer::start(options.config(&file_in(&folder))).await?;
        Ok(Self { server, config: folder })
    }
    /// Replaces the configuration, which the server notices on its own.
    pub fn reload(&self, config: &Value) -> Result<()> {
        write(&self.config, config)
    }
    /// Starts with one registry, `consul`, at these addresses.
    pub async fn by(addresses: &[&str]) -> Result<Self> {
        Self::start(&json!({"registries": [{"kind": "consul", "name": "consul", "addresses": addresses}]}))
            .await
    }
    /// Starts an Envoy with one listener for a host's port, and steady traffic to it.
    pub async fn traffic(&self, host: &str, port: u16) -> Result<(Envoy, Load)> {
        let cluster = outbound(port, host);
        let config = EnvoyConfig::new(self.server.xds(), Variant::Delta).listen_for(&cluster);
        let envoy = Envoy::start(&config).await?;
        envoy.live(SOON).await?;
        let load = Load::start(&LoadPlan::to(envoy.listener(0)?));
        Ok((envoy, load))
    }
}

fn file_in(folder: &TempDir) -> PathBuf {
    folder.path().join("tributary.json")
}

/// Replaces the file in one step, so the server never reads a partial file.
fn write(folder: &TempDir, config: &Value) -> Result<()> {
    let mut all = json!({"apiVersion": "tributary.dev/v1alpha1", "kind": "Config"});
    for (key, value) in config.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let whole = folder.path().join("next.json");
    std::fs::write(&whole, all.to_string())?;
    Ok(std::fs::rename(&whole, file_in(folder))?)
}
