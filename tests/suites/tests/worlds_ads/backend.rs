//! A world's backend: the real binary over folders, and over a real API server if the world has a cluster, with
//! a raw client for each client of the world. After each update the backend writes a mark to the same location
//! and waits for it, so checks see the state after the update.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::{Locality, Node};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use tempfile::TempDir;
use tokio::time::Instant;
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::kube::marks::is_not_the_tests;
use tributary_suites::{Entry, Follower, ServerOptions, TestServer, Variant, nowhere, outbound};
use tributary_worlds::{Backend, ClientSpec, ObjectName, Place, Row, ServiceFound, Stage};

use crate::cluster::Cluster as KubeCluster;
use crate::read;

const SOON: Duration = Duration::from_secs(20);
/// Time limit until a check holds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time without a response before a client's state is compared.
const PAUSE: Duration = Duration::from_millis(30);

/// A folder of documents.
struct Folder {
    path: PathBuf,
    readable: bool,
    marks: u16,
}

/// The server under a world.
#[derive(Default)]
pub(crate) struct AdsBackend {
    server: Option<TestServer>,
    place: Option<TempDir>,
    folders: BTreeMap<String, Folder>,
    cluster: Option<KubeCluster>,
    ids: BTreeMap<String, String>,
    clients: BTreeMap<String, Follower>,
    watcher: Option<Follower>,
    deadline: Option<Instant>,
}

impl AdsBackend {
    fn server(&self) -> Result<&TestServer> {
        self.server.as_ref().context("not begun")
    }
    fn folder(&mut self, registry: &str) -> Result<&mut Folder> {
        self.folders.get_mut(registry).with_context(|| format!("no registry {registry}"))
    }
    fn id(&self, client: &str) -> Result<&str> {
        Ok(self.ids.get(client).with_context(|| format!("no client {client}"))?)
    }
    fn holds(&self, client: &str) -> Result<&Follower> {
        self.clients.get(client).with_context(|| format!("no client {client}"))
    }
    /// Writes a mark and waits until clients receive it.
    async fn mark(&mut self, registry: &str) -> Result<()> {
        self.deadline = Some(Instant::now() + PATIENCE);
        let folder = self.folder(registry)?;
        if !folder.readable {
            return Ok(());
        }
        folder.marks += 1;
        let at = SocketAddr::new(nowhere(1).ip(), folder.marks);
        put(
            folder,
            "mark.yaml",
            &mark_of(registry).at(at).yaml().replace("namespace: default", "namespace: marks"),
        )?;
        let name = mark_of(registry).cluster();
        self.watcher.as_mut().context("not begun")?.has_endpoints(&name, &[at], SOON).await?;
        self.take().await
    }
    /// Takes the responses that the clients received.
    async fn take(&mut self) -> Result<()> {
        for (name, client) in &mut self.clients {
            client.settle(PAUSE).await.with_context(|| format!("the stream of {name}"))?;
        }
        Ok(())
    }
}

fn mark_of(registry: &str) -> Entry {
    Entry::http(&format!("{registry}.mark.invalid"), 1)
}

/// Writes by renaming, as careful editors do.
fn put(folder: &Folder, file: &str, text: &str) -> Result<()> {
    let (fresh, path) = (folder.path.join(format!(".{file}.new")), folder.path.join(file));
    std::fs::write(&fresh, text).with_context(|| format!("write {}", fresh.display()))?;
    std::fs::rename(&fresh, &path).with_context(|| format!("replace {}", path.display()))
}

/// Returns the node of a client, with the fields that real clients send.
fn node_of(name: &str, number: usize, spec: &ClientSpec) -> Node {
    let kind = spec.kind.as_deref().unwrap_or("sidecar");
    let namespace = spec.namespace.as_deref().unwrap_or_default();
    let generator = (kind == "grpc").then_some("grpc");
    let fields = [
        ("NAMESPACE", spec.namespace.as_deref()),
        ("CLUSTER_ID", spec.cluster.as_deref()),
        ("NETWORK", spec.network.as_deref()),
        ("NODE_NAME", spec.node.as_deref()),
        ("GENERATOR", generator),
    ];
    let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let mut fields: HashMap<String, Value> =
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), text(value?)))).collect();
    if spec.certificates {
        for key in ["TLS_CLIENT_CERT_CHAIN", "TLS_CLIENT_KEY", "TLS_CLIENT_ROOT_CERT"] {
            fields.insert(key.to_owned(), text(&format!("/etc/certs/{key}.pem")));
        }
    }
    if !spec.labels.is_empty() {
        let labels = spec.labels.iter().map(|(key, value)| (key.clone(), text(value))).collect();
        let labels = Value { kind: Some(Kind::StructValue(Struct { fields: labels })) };
        fields.insert("LABELS".to_owned(), labels);
    }
    let ip = spec.ip.clone().unwrap_or_else(|| format!("192.0.2.{}", number + 1));
    let id = if kind == "sidecar" {
        format!("sidecar~{ip}~{name}.{namespace}~{namespace}")
    } else {
        name.to_owned()
    };
    let parts: Vec<&str> = spec.locality.as_deref().unwrap_or_default().split('/').collect();
    let part = |at: usize| parts.get(at).map(|part| (*part).to_owned()).unwrap_or_default();
    let locality = Locality { region: part(0), zone: part(1), sub_zone: part(2) };
    Node { metadata: Some(Struct { fields }), locality: Some(locality), ..node(&id) }
}

impl Backend for AdsBackend {
    async fn begin(&mut self, stage: &Stage) -> Result<()> {
        let (registries, clients) = (&stage.files, &stage.clients);
        let place = tempfile::tempdir()?;
        let mut config = "registries:\n".to_owned();
        for (name, cluster) in registries {
            let path = place.path().join(name);
            std::fs::create_dir(&path)?;
            config.push_str(&format!(
                "- {{kind: file, name: {name}, clusterId: {cluster}, path: {}}}\n",
                path.display()
            ));
            self.folders.insert(name.clone(), Folder { path, readable: true, marks: 0 });
        }
        if let Some(spec) = &stage.kubernetes {
            let cluster = KubeCluster::begin().await?;
            let (registry, more) = cluster.config(spec)?;
            config = format!("{more}{config}{registry}");
            self.cluster = Some(cluster);
        }
        config
            .push_str(&format!("federatedServices: {}\n", serde_json::to_string(&stage.federated_services)?));
        if let Some(by_name) = &stage.merge_by_name {
            config.push_str(&format!("merge: {{byName: {by_name}}}\n"));
        }
        let file = place.path().join("config.yaml");
        std::fs::write(&file, format!("apiVersion: tributary.dev/v1alpha1\nkind: Config\n{config}"))?;
        let server = TestServer::start(ServerOptions::default().config(&file)).await?;
        for (number, (name, spec)) in clients.iter().enumerate() {
            let node = node_of(name, number, spec);
            self.ids.insert(name.clone(), node.id.clone());
            let client = Follower::like_envoy(server.xds(), Variant::BOTH[number % 2], node).await?;
            self.clients.insert(name.clone(), client);
        }
        let mut watcher = Follower::connect(server.xds(), Variant::Delta, node("marks")).await?;
        let marks: Vec<String> = registries.keys().map(|name| mark_of(name).cluster()).collect();
        if !marks.is_empty() {
            watcher.subscribe(EDS, &marks.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.watch(server.xds()).await?;
        }
        (self.server, self.watcher, self.place) = (Some(server), Some(watcher), Some(place));
        self.take().await
    }
    async fn apply(&mut self, documents: &[serde_json::Value]) -> Result<()> {
        let cluster = self.cluster.as_mut().context("the case has no cluster")?;
        cluster.apply(documents).await?;
        cluster.mark().await?;
        self.deadline = Some(Instant::now() + PATIENCE);
        self.take().await
    }
    async fn apply_remote(&mut self, _: &[serde_json::Value]) -> Result<()> {
        anyhow::bail!("a remote cluster is played on the core alone, and by kube_clusters with a real one")
    }
    async fn remove(&mut self, objects: &[ObjectName]) -> Result<()> {
        let cluster = self.cluster.as_mut().context("the case has no cluster")?;
        cluster.remove(objects).await?;
        cluster.mark().await?;
        self.deadline = Some(Instant::now() + PATIENCE);
        self.take().await
    }
    async fn service(&mut self, host: &str) -> Result<Option<ServiceFound>> {
        let services = self.server()?.items(&format!("services?host={host}")).await?;
        services.iter().find(|service| service["precedence"] == 0).map(read::service).transpose()
    }
    async fn write(&mut self, registry: &str, file: &str, text: &str) -> Result<()> {
        put(self.folder(registry)?, file, text)?;
        self.mark(registry).await
    }
    async fn delete(&mut self, registry: &str, file: &str) -> Result<()> {
        let path = self.folder(registry)?.path.join(file);
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        self.mark(registry).await
    }
    async fn consul(&mut self, service: &str, _: &[serde_json::Value]) -> Result<()> {
        anyhow::bail!("{service}: a Consul is played on the core alone, and by the suites with a real one")
    }
    async fn source(&mut self, registry: &str, readable: bool) -> Result<()> {
        let folder = self.folder(registry)?;
        let away = folder.path.with_extension("away");
        let (from, to) = if readable { (&away, &folder.path) } else { (&folder.path, &away) };
        std::fs::rename(from, to)?;
        folder.readable = readable;
        let is = |items: &[serde_json::Value]| {
            items.iter().any(|item| item["name"] == registry && (item["state"] == "Live") == readable)
        };
        self.server()?.shows("registries", SOON, is).await?;
        self.mark(registry).await
    }
    async fn endpoints(&mut self, client: &str, port: &str) -> Result<Vec<Row>> {
        let (host, number) = port.rsplit_once(':').with_context(|| format!("{port} is not host:port"))?;
        read::rows(self.holds(client)?, &outbound(number.parse()?, host))
    }
    async fn localities(&mut self, client: &str, port: &str) -> Result<Vec<Place>> {
        let (host, number) = port.rsplit_once(':').with_context(|| format!("{port} is not host:port"))?;
        read::places(self.holds(client)?, &outbound(number.parse()?, host))
    }
    async fn clusters(&mut self, client: &str) -> Result<BTreeMap<String, String>> {
        let held = self.holds(client)?;
        let mut out = BTreeMap::new();
        for name in held.names(CDS) {
            let Some((port, host)) = name.strip_prefix("outbound|").and_then(|rest| rest.split_once("||"))
            else {
                continue;
            };
            if !is_not_the_tests(host) {
                let cluster: Cluster = held.decode(CDS, &name)?;
                out.insert(format!("{host}:{port}"), read::type_of(&cluster).to_owned());
            }
        }
        Ok(out)
    }
    async fn conditions(&mut self, host: &str) -> Result<BTreeSet<String>> {
        let services = self.server()?.items(&format!("services?host={host}")).await?;
        let conditions = services.iter().filter_map(|service| service["conditions"].as_array()).flatten();
        Ok(conditions.filter_map(|condition| condition["code"].as_str().map(str::to_owned)).collect())
    }
    async fn problems(&mut self) -> Result<BTreeMap<String, String>> {
        let registries = self.server()?.items("registries").await?;
        let problems = registries.iter().filter_map(|registry| registry["problems"].as_array()).flatten();
        problems.map(read::problem).collect()
    }
    async fn explain(&mut self, endpoint: &str, client: Option<&str>) -> Result<Vec<serde_json::Value>> {
        let client = client.map(|client| self.id(client)).transpose()?;
        let client = client.map(|id| format!("&client={id}")).unwrap_or_default();
        self.server()?.items(&format!("explain?endpoint={endpoint}{client}")).await
    }
    async fn why_not(&mut self, host: &str, client: &str) -> Result<serde_json::Value> {
        let items = self.server()?.items(&format!("why-not?host={host}&client={}", self.id(client)?)).await?;
        ensure!(items.len() == 1, "why-not of {host} has {} items", items.len());
        Ok(items[0].clone())
    }
    async fn again(&mut self) -> bool {
        self.take().await.is_ok() && self.deadline.is_some_and(|deadline| Instant::now() < deadline)
    }
    fn delivers(&self) -> bool {
        true
    }
}
