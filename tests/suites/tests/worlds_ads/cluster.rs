//! The Kubernetes cluster of a world: the API server that this test run shares, emptied for each case. After
//! each update, marks are applied, one for every relevant watch, and awaited.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use tributary_suites::ads::node;
use tributary_suites::kube::marks::NAMESPACE;
use tributary_suites::kube::{CUSTOM_KINDS, Marks, Named};
use tributary_suites::{ApiServer, Follower, Variant};
use tributary_worlds::{ClusterSpec, Namespaces, ObjectName};

/// The cluster of one case.
pub(crate) struct Cluster {
    server: Arc<ApiServer>,
    namespaces: Namespaces,
    marks: Marks,
    watcher: Option<Follower>,
}

impl Cluster {
    /// Empties the shared server and defines the custom resources.
    pub(crate) async fn begin() -> Result<Self> {
        let server = ApiServer::shared().await?;
        let api = server.api();
        api.define().await?;
        api.clear(&CUSTOM_KINDS).await?;
        let marks = Marks::new(api, true).await?;
        Ok(Self { namespaces: Namespaces::default(), marks, watcher: None, server })
    }
    /// Returns the registry in the server's configuration, and the further configuration for it.
    pub(crate) fn config(&self, spec: &ClusterSpec) -> Result<(String, String)> {
        let kubeconfig: PathBuf = self.server.admin_kubeconfig()?;
        let namespaces = match spec.namespaces.as_slice() {
            [] => String::new(),
            some => format!(", namespaces: [{NAMESPACE}, {}, {}]", spec.system_namespace, some.join(", ")),
        };
        let mcs: Vec<String> = spec.mcs.iter().map(|(what, on)| format!("{what}: {on}")).collect();
        let mcs = if mcs.is_empty() { String::new() } else { format!(", mcs: {{{}}}", mcs.join(", ")) };
        let registry = format!(
            "- {{kind: kubernetes, name: kubernetes, kubeconfig: {}, probeInterval: 2s{namespaces}{mcs}}}\n",
            kubeconfig.display()
        );
        let mut more = format!("clusterId: {}\nsystemNamespace: {}\n", spec.cluster, spec.system_namespace);
        if let Some(revision) = &spec.revision {
            more.push_str(&format!("revision: {revision}\n"));
        }
        if let Some(value) = &spec.cross_network {
            more.push_str(&format!("settings: {{crossNetwork: {value}}}\n"));
        }
        Ok((registry, more))
    }
    /// Connects the client that watches for marks.
    pub(crate) async fn watch(&mut self, xds: std::net::SocketAddr) -> Result<()> {
        self.watcher = Some(Follower::like_envoy(xds, Variant::Delta, node("marks")).await?);
        self.mark().await
    }
    pub(crate) async fn apply(&mut self, documents: &[Value]) -> Result<()> {
        let wanted = self.namespaces.wanted(documents);
        self.server.api().apply_all(wanted.iter().chain(documents)).await
    }
    pub(crate) async fn remove(&mut self, objects: &[ObjectName]) -> Result<()> {
        for object in objects {
            self.namespaces.gone(object);
            self.server.api().remove(&named(object)).await?;
        }
        Ok(())
    }
    /// Applies a mark and waits until clients receive it, and so everything applied before it.
    pub(crate) async fn mark(&mut self) -> Result<()> {
        let watcher = self.watcher.as_mut().context("no client watches yet")?;
        self.marks.through(&mut [watcher]).await
    }
}

fn named(object: &ObjectName) -> Named {
    Named {
        api_version: object.api_version().to_owned(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}
