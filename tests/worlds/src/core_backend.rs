//! A backend on the core itself: it converts documents, reports them to the core as a file registry does, and
//! reads the results with the functions that serve clients. It uses no file, no clock and no session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tributary_answer::{
    Assignment, Client, ClientClass, ClientSidecar, Discovery, PortSet, Query, attach, cluster, conditions,
    contested_by_service, endpoints, members, resolve, why_not,
};
use tributary_core::{Core, CoreConfig, RunOrder};
use tributary_fixtures::mk_spec_of;
use tributary_model::{
    Catalog, CertificateSource, ClientKind, ClusterId, DeclarationView, Generation, Hostname, Locality, Mono,
    Namespace, NetworkId, NodeName, PortNumber, PortView, ProviderId, RegistryId, RegistryName,
    RegistryUpdate, Resolution, ServiceView, SourceState, SourceStatus, Stamped, Trace,
};

use consul::Consul;
use files::Registry;
use kube::{Cluster, Report};

use crate::backend::Backend;
use crate::cluster::{ClusterSpec, ObjectName};
use crate::row::{Place, Row};
use crate::schema::{ClientSpec, ServiceFound, Stage};

mod config;
mod consul;
mod files;
mod kube;

/// The core with file registries, Kubernetes clusters and a Consul in memory.
#[derive(Default)]
pub struct CoreBackend {
    core: Option<Core>,
    catalog: Arc<Catalog>,
    registries: BTreeMap<String, Registry>,
    cluster: Option<Cluster>,
    remote: Option<Cluster>,
    consul: Option<Consul>,
    clients: BTreeMap<String, Client>,
    now: u64,
}

impl CoreBackend {
    /// Returns the served catalog.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
    fn report_from(
        &mut self,
        registry: &str,
        produce: impl FnOnce(&mut Registry) -> Vec<RegistryUpdate>,
    ) -> Result<()> {
        let registry = self.registries.get_mut(registry).context("no such registry")?;
        let (name, deltas) = (registry.name.clone(), produce(registry));
        self.report(&name, deltas)
    }
    fn report_cluster(&mut self, produce: impl FnOnce(&mut Cluster) -> Result<Vec<Report>>) -> Result<()> {
        let cluster = self.cluster.as_mut().context("the case has no cluster")?;
        let (names, reports) = (cluster.names(), produce(cluster)?);
        self.report_all(&names, reports)
    }
    fn report_remote(&mut self, produce: impl FnOnce(&mut Cluster) -> Result<Vec<Report>>) -> Result<()> {
        let cluster = self.remote.as_mut().context("the case has no remote cluster")?;
        let (names, reports) = (cluster.names(), produce(cluster)?);
        self.report_all(&names, reports)
    }
    fn report_all(
        &mut self,
        (own, entries): &(RegistryName, RegistryName),
        reports: Vec<Report>,
    ) -> Result<()> {
        for report in reports {
            match report {
                Report::Cluster(deltas) => self.report(own, deltas)?,
                Report::Entries(deltas) => self.report(entries, deltas)?,
            }
        }
        Ok(())
    }
    fn report(&mut self, name: &RegistryName, deltas: Vec<RegistryUpdate>) -> Result<()> {
        self.now += 1;
        let at = Mono(self.now);
        let stamp = |value| Stamped { registry: name.clone(), generation: Generation(1), at, value };
        let core = self.core.as_mut().context("not begun")?;
        core.apply(at, deltas.into_iter().map(stamp).collect());
        self.catalog = core.publish();
        Ok(())
    }
    fn join(
        &mut self,
        name: &RegistryName,
        provider: ProviderId,
        cluster: &ClusterId,
        rank: u16,
    ) -> Result<()> {
        let id = RegistryId { name: name.clone(), provider, cluster: cluster.clone() };
        let core = self.core.as_mut().context("not begun")?;
        let spec = mk_spec_of(Arc::new(id), rank);
        core.add_registry(&spec)?;
        core.serve(Mono(0), &RunOrder::first(spec))?;
        Ok(())
    }
    fn begin_files(&mut self, files: &BTreeMap<String, String>) -> Result<()> {
        for (name, cluster) in files {
            let registry = Registry::new(name, cluster)?;
            self.join(&registry.name, ProviderId::SERVICE_ENTRY, &registry.context.cluster, 1)?;
            self.registries.insert(name.clone(), registry);
            self.report_from(name, |registry| registry.initial_updates())?;
        }
        Ok(())
    }
    fn begin_cluster(&mut self, spec: &ClusterSpec, consul: bool) -> Result<()> {
        let cluster = Cluster::new(spec, consul)?;
        self.join_cluster(&cluster, 0)?;
        self.cluster = Some(cluster);
        self.report_cluster(|cluster| Ok(cluster.first_reports()))
    }
    fn begin_remote(&mut self, spec: &ClusterSpec) -> Result<()> {
        let cluster = Cluster::remote(spec)?;
        self.join_cluster(&cluster, 1)?;
        self.remote = Some(cluster);
        self.report_remote(|cluster| Ok(cluster.first_reports()))
    }
    fn join_cluster(&mut self, cluster: &Cluster, rank: u16) -> Result<()> {
        self.join(&cluster.name, ProviderId::KUBERNETES, &cluster.id, rank)?;
        self.join(&cluster.entries.name, ProviderId::SERVICE_ENTRY, &cluster.id, rank)
    }
    fn begin_consul(&mut self, stage: &Stage) -> Result<()> {
        let Some(spec) = &stage.consul else { return Ok(()) };
        let cluster = stage.kubernetes.as_ref().map_or("Kubernetes", |spec| &spec.cluster);
        let consul = Consul::new(spec, stage.kubernetes.as_ref().map(|_| cluster))?;
        self.join(&consul.name, ProviderId::CONSUL, &ClusterId::new(cluster)?, 0)?;
        let (name, updates) = (consul.name.clone(), consul.initial_updates());
        self.consul = Some(consul);
        self.report(&name, updates)
    }
    fn begin_config(&mut self, stage: &Stage) -> Result<()> {
        let name = RegistryName::new("config")?;
        let cluster = stage.kubernetes.as_ref().map_or("Kubernetes", |spec| &spec.cluster);
        self.join(&name, ProviderId::CONFIG, &ClusterId::new(cluster)?, 0)?;
        self.report(&name, config::updates(stage)?)
    }
    /// Returns what `shown` makes of the endpoints of `host:port`; empty if the client has no such xDS cluster.
    fn assigned<T>(
        &self,
        name: &str,
        port: &str,
        shown: impl Fn(&Assignment<'_>) -> Vec<T>,
    ) -> Result<Vec<T>> {
        let client = self.client(name)?;
        let (host, number) = host_and_port(port)?;
        let found = resolve(&self.catalog, host.as_str(), client.class.scope(), &mut ());
        let scope = client.class.scope();
        let reached = |view| scope.ports(view, PortSet::Reached).find(|port| port.number == number);
        let Some(port) = found.and_then(|view| reached(view)) else { return Ok(Vec::new()) };
        let of_cluster = client.class.project(port.cluster.dimensions);
        match cluster(&port.cluster.inputs, None, &of_cluster, &mut ()).map(|plan| plan.discovery) {
            None | Some(Discovery::OriginalDestination(_) | Discovery::ForwardProxy) => Ok(Vec::new()),
            Some(Discovery::StrictDns(within) | Discovery::LogicalDns(within)) => Ok(shown(&within)),
            Some(Discovery::Eds) => {
                let projection = client.class.project(port.endpoints.dimensions);
                Ok(shown(&endpoints(&port.endpoints.inputs, &projection, &mut ())))
            }
        }
    }
    /// Returns a client, with its labels that policies compare and the Sidecar that applies to it.
    fn client(&self, name: &str) -> Result<Client> {
        let mut client =
            self.clients.get(name).cloned().with_context(|| format!("client {name:?} not found"))?;
        client.class.labels = client.class.compared(&self.catalog, &client.labels);
        let class = &mut client.class;
        let sidecar = attach(&self.catalog, class.kind, class.namespace.as_ref(), &client.labels);
        class.sidecar = sidecar.map(|(key, sidecar)| ClientSidecar::new(key, sidecar).into());
        Ok(client)
    }
}

/// Returns the client that a session would derive from a node.
pub fn client(name: &str, spec: &ClientSpec) -> Result<Client> {
    let kind = match spec.kind.as_deref() {
        None | Some("sidecar") => ClientKind::Sidecar,
        Some("envoy") => ClientKind::Envoy,
        Some("grpc") => ClientKind::Grpc,
        Some(other) => bail!("a client is an envoy, a sidecar or grpc, not {other:?}"),
    };
    let mut out = Client::new(name, kind);
    if let Some(ip) = &spec.ip {
        out.ips = [ip.parse()?].into();
    }
    out.labels = spec.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let class = &mut out.class;
    class.namespace = spec.namespace.as_deref().map(Namespace::new).transpose()?;
    class.cluster = spec.cluster.as_deref().map(ClusterId::new).transpose()?;
    class.network = spec.network.as_deref().map(NetworkId::new).transpose()?;
    class.node = spec.node.as_deref().map(NodeName::new).transpose()?;
    if spec.certificates {
        class.certificates = CertificateSource::Files;
    }
    class.locality = spec.locality.as_deref().map(Locality::parse).unwrap_or_default();
    Ok(out)
}

/// Returns the host and number of `pay.shop:80`.
pub fn host_and_port(text: &str) -> Result<(Hostname, PortNumber)> {
    let (host, port) = text.rsplit_once(':').with_context(|| format!("{text:?} is not host:port"))?;
    Ok((Hostname::new(host)?, PortNumber::new(port.parse()?)?))
}

fn found(view: &ServiceView) -> ServiceFound {
    let addresses = view.declarations.iter().flat_map(|d| d.declaration.addresses.iter());
    let addresses: BTreeSet<String> = addresses
        .map(|a| if a.is_host() { a.ip.to_string() } else { format!("{}/{}", a.ip, a.prefix) })
        .collect();
    let port = |port: &PortView| {
        format!("{} {} {}", port.number, port.name.as_str(), format!("{:?}", port.protocol).to_uppercase())
    };
    let declaration =
        |view: &DeclarationView| format!("{} {}", view.shard.registry.name, view.declaration.source.object);
    ServiceFound {
        resolution: match view.first().map(|first| &first.declaration.resolution) {
            Some(Resolution::Alias(host)) => format!("Alias({host})"),
            Some(other) => format!("{other:?}"),
            None => String::new(),
        },
        addresses: addresses.into_iter().collect(),
        ports: view.ports.iter().map(port).collect(),
        declarations: view.declarations.iter().map(declaration).collect(),
        aliases: view.alias_hosts().into_iter().map(ToString::to_string).collect(),
    }
}

const fn type_of(discovery: &Discovery<'_>) -> &'static str {
    match discovery {
        Discovery::Eds => "EDS",
        Discovery::StrictDns(_) => "STRICT_DNS",
        Discovery::LogicalDns(_) => "LOGICAL_DNS",
        Discovery::OriginalDestination(_) => "ORIGINAL_DST",
        Discovery::ForwardProxy => "DYNAMIC",
    }
}

impl Backend for CoreBackend {
    async fn begin(&mut self, stage: &Stage) -> Result<()> {
        self.core = Some(Core::new(CoreConfig::default()));
        for (name, spec) in &stage.clients {
            self.clients.insert(name.clone(), client(name, spec)?);
        }
        self.begin_config(stage)?;
        if let Some(spec) = &stage.kubernetes {
            self.begin_cluster(spec, stage.consul.is_some())?;
        }
        if let Some(spec) = &stage.remote {
            self.begin_remote(spec)?;
        }
        self.begin_consul(stage)?;
        self.begin_files(&stage.files)
    }
    async fn apply(&mut self, documents: &[serde_json::Value]) -> Result<()> {
        self.report_cluster(|cluster| cluster.apply(documents))
    }
    async fn apply_remote(&mut self, documents: &[serde_json::Value]) -> Result<()> {
        self.report_remote(|cluster| cluster.apply(documents))
    }
    async fn remove(&mut self, objects: &[ObjectName]) -> Result<()> {
        self.report_cluster(|cluster| cluster.remove(objects))
    }
    async fn service(&mut self, host: &str) -> Result<Option<ServiceFound>> {
        let entry = self.catalog.hosts.get(host);
        Ok(entry.and_then(|entry| entry.claimants.first()).map(|view| found(view)))
    }
    async fn write(&mut self, registry: &str, file: &str, text: &str) -> Result<()> {
        self.report_from(registry, |r| r.read(file, text))
    }
    async fn delete(&mut self, registry: &str, file: &str) -> Result<()> {
        self.report_from(registry, |r| r.forget(file))
    }
    async fn consul(&mut self, service: &str, instances: &[serde_json::Value]) -> Result<()> {
        let consul = self.consul.as_mut().context("the case has no Consul")?;
        let (name, updates) = (consul.name.clone(), consul.answer(service, instances)?);
        self.report(&name, updates)
    }
    async fn source(&mut self, registry: &str, readable: bool) -> Result<()> {
        let state = if readable { SourceState::Live } else { SourceState::Unreachable };
        let status = SourceStatus::new(state, if readable { "" } else { "the source is unreachable" });
        if let Some(consul) = self.consul.as_ref().filter(|consul| consul.name.as_str() == registry) {
            let (name, scope) = (consul.name.clone(), consul.scope.clone());
            return self.report(&name, vec![RegistryUpdate::Status(scope, status)]);
        }
        self.report_from(registry, |r| vec![RegistryUpdate::Status(r.scope.clone(), status)])
    }
    async fn endpoints(&mut self, name: &str, port: &str) -> Result<Vec<Row>> {
        self.assigned(name, port, Row::all)
    }
    async fn localities(&mut self, name: &str, port: &str) -> Result<Vec<Place>> {
        self.assigned(name, port, Place::all)
    }
    async fn clusters(&mut self, name: &str) -> Result<BTreeMap<String, String>> {
        let client = self.client(name)?;
        let mut out = BTreeMap::new();
        for (host, view) in members(&self.catalog, client.class.scope()) {
            for port in client.class.scope().ports(view, PortSet::Reached) {
                let projection = client.class.project(port.cluster.dimensions);
                if let Some(plan) = cluster(&port.cluster.inputs, None, &projection, &mut ()) {
                    out.insert(format!("{host}:{}", port.number), type_of(&plan.discovery).to_owned());
                }
            }
        }
        Ok(out)
    }
    async fn conditions(&mut self, host: &str) -> Result<BTreeSet<String>> {
        let Some(entry) = self.catalog.hosts.get(host) else { return Ok(BTreeSet::new()) };
        let contested = contested_by_service(&self.catalog, &ClientClass::new(ClientKind::Sidecar));
        let own = entry.claimants.iter().flat_map(|view| conditions(view));
        let shared = entry.claimants.iter().filter_map(|view| contested.get(&view.key)).flatten().cloned();
        Ok(own.chain(shared).map(|condition| condition.code.to_string()).collect())
    }
    async fn problems(&mut self) -> Result<BTreeMap<String, String>> {
        let core = self.core.as_ref().context("not begun")?;
        let all = core.problems();
        Ok(all.map(|p| (p.object.id.to_string(), p.problem.code.to_string())).collect())
    }
    async fn explain(&mut self, endpoint: &str, name: Option<&str>) -> Result<Vec<serde_json::Value>> {
        let client = name.map(|name| self.client(name)).transpose()?;
        let core = self.core.as_ref().context("not begun")?;
        let query: Query = endpoint.parse()?;
        let history = |key: &tributary_model::ServiceKey| {
            let mut trace = Trace::default();
            core.trace(key, &mut trace);
            trace.steps
        };
        let documents =
            tributary_answer::explain_with(&self.catalog, (&query, None), client.as_ref(), &history);
        documents.iter().map(|d| Ok(serde_json::to_value(d)?)).collect()
    }
    async fn why_not(&mut self, host: &str, name: &str) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(why_not(&self.catalog, host, &self.client(name)?))?)
    }
    async fn again(&mut self) -> bool {
        false
    }
    fn delivers(&self) -> bool {
        false
    }
}
