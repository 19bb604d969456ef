//! The scenarios that a server must pass with real Envoy before a fleet uses it, on both protocols: the real
//! binary over a folder of files, real Envoy, and a raw client for requests that no real client sends. Each is
//! a separate test, which the ledger names.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use tributary_suites::envoy::sidecar_id;
use tributary_suites::{
    Entry, Envoy, EnvoyConfig, Files, ServerOptions, TestServer, Variant, eventually, outbound,
};

mod asking;
mod changes;
mod clients_apart;
mod localities;
mod order;
mod refusals;
mod restarts;
mod scopes;
mod start;

/// Time limit of immediate events; generous, because the machine may be busy.
const SOON: Duration = Duration::from_secs(20);
/// Time in which an unexpected response would arrive.
const QUIET: Duration = Duration::from_millis(300);

/// A server over a folder of ServiceEntries.
struct World {
    files: Files,
    server: TestServer,
}

impl World {
    /// Starts with these entries, each in its own file.
    async fn start(entries: &[Entry]) -> Result<Self> {
        Self::start_with(entries, ServerOptions::default()).await
    }

    /// Starts with further options.
    async fn start_with(entries: &[Entry], options: ServerOptions) -> Result<Self> {
        let files = Files::new()?;
        put(&files, entries)?;
        let server = TestServer::start(options.and_files(files.path())).await?;
        Ok(Self { files, server })
    }

    fn put(&self, entry: &Entry) -> Result<()> {
        put(&self.files, std::slice::from_ref(entry))
    }

    fn remove(&self, entry: &Entry) -> Result<()> {
        self.files.remove(&file_of(entry))
    }

    fn xds(&self) -> SocketAddr {
        self.server.xds()
    }

    /// Starts a plain Envoy: clusters and endpoints.
    async fn envoy(&self, variant: Variant) -> Result<Envoy> {
        Envoy::start(&EnvoyConfig::new(self.xds(), variant)).await
    }
}

fn put(files: &Files, entries: &[Entry]) -> Result<()> {
    entries.iter().try_for_each(|entry| files.put(&file_of(entry), &entry.yaml()))
}

fn file_of(entry: &Entry) -> String {
    format!("{}.yaml", entry.cluster().replace('|', "-"))
}

/// Returns three services with an endpoint each.
fn three() -> [Entry; 3] {
    [1, 2, 3].map(|last| Entry::http(&format!("svc-{last}.test"), 80).at(tributary_suites::nowhere(last)))
}

fn names(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(Entry::cluster).collect()
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Returns the node of a sidecar of namespace `default`.
fn sidecar(name: &str) -> Node {
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let fields = [("NAMESPACE", "default"), ("INTERCEPTION_MODE", "NONE")];
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect();
    Node { id: sidecar_id(name), metadata: Some(Struct { fields }), ..Node::default() }
}

/// Returns the node of a gRPC client.
fn grpc(id: &str) -> Node {
    let generator = Value { kind: Some(Kind::StringValue("grpc".to_owned())) };
    let fields = [("GENERATOR".to_owned(), generator)].into_iter().collect();
    Node { id: id.to_owned(), metadata: Some(Struct { fields }), ..Node::default() }
}

/// Waits until no cluster warms and every listed cluster has a host.
async fn settled(envoy: &Envoy, clusters: &[String]) -> Result<()> {
    eventually("every cluster to have a host", SOON, || async {
        for cluster in clusters {
            ensure!(!envoy.hosts(cluster).await?.is_empty(), "{cluster} has none");
        }
        Ok(())
    })
    .await?;
    envoy.stat_is("cluster_manager.warming_clusters", SOON, |count| count == 0).await?;
    Ok(())
}

/// Fails if Envoy has rejected anything.
async fn nothing_refused(envoy: &Envoy) -> Result<()> {
    let refused = envoy.refused().await?;
    ensure!(refused == 0, "envoy refused {refused} updates");
    Ok(())
}
