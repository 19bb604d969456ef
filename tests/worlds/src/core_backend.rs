//! Worlds on the core itself: documents are converted, said to the core as a file registry would say
//! them, and asked for with the functions that serve. No file, no clock, no session.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tributary_answer::{
    Class, Client, Discovery, Query, cluster, conditions, contested_by_service, endpoints, members, resolve,
    why_not,
};
use tributary_core::{Core, CoreConfig};
use tributary_model::{
    Basis, Catalog, ClientKind, ClusterId, Collection, CollectionKind, Completeness, Delta, Evidence, Fact,
    Generation, Hostname, Key, Locality, Mono, Namespace, NetworkId, NodeName, ObjectRef, PortNumber,
    Provider, RegistryId, RegistryName, RegistrySpec, Scope, SourceState, SourceStatus, Stamped, Trace,
};
use tributary_service_entry::{Context as Conversion, convert, load_str};

use crate::backend::Backend;
use crate::row::Row;
use crate::schema::ClientSpec;

const KINDS: [CollectionKind; 3] =
    [CollectionKind::Services, CollectionKind::Groups, CollectionKind::Workloads];

/// The core with file registries that live in memory.
#[derive(Default)]
pub struct CoreBackend {
    core: Option<Core>,
    catalog: Arc<Catalog>,
    registries: BTreeMap<String, Registry>,
    clients: BTreeMap<String, Client>,
    now: u64,
}

struct Registry {
    name: RegistryName,
    scope: Scope,
    context: Conversion,
    files: BTreeMap<String, File>,
}

/// What a file has said: its facts by their keys, and its bad objects.
#[derive(Default)]
struct File {
    facts: BTreeMap<Key, Fact>,
    problems: Vec<ObjectRef>,
}

impl Registry {
    fn new(name: &str, cluster: &str) -> Result<Self> {
        Ok(Self {
            name: RegistryName::new(name)?,
            scope: Scope::new(format!("dir:{name}"))?,
            context: Conversion::new(ClusterId::new(cluster)?),
            files: BTreeMap::new(),
        })
    }
    fn collections(&self) -> impl Iterator<Item = Collection> + '_ {
        KINDS.into_iter().map(|kind| Collection { scope: self.scope.clone(), kind })
    }
    /// What a file registry says when it has listed an empty directory.
    fn first_words(&self) -> Vec<Delta> {
        let required = Delta::Required(self.collections().collect());
        let restarts = self.collections().map(Delta::Restart);
        let synced = self.collections().map(|c| Delta::Synced(c, Completeness::Complete));
        std::iter::once(required).chain(restarts).chain(synced).collect()
    }
    /// What a new text of a file says: what it no longer states goes, unless its object is bad, in
    /// which case its last good version stays.
    fn read(&mut self, file: &str, text: &str) -> Vec<Delta> {
        let load = load_str(text, file);
        let refused: Vec<_> = load.problems.iter().filter(|p| p.is_refused()).collect();
        let old = self.files.remove(file).unwrap_or_default();
        let mut new = File { facts: BTreeMap::new(), problems: Vec::new() };
        let mut out = Vec::new();
        for fact in load.documents.iter().flat_map(|object| convert(object, &self.context)) {
            let key = Key { scope: self.scope.clone(), item: fact.item() };
            if old.facts.get(&key) != Some(&fact) {
                out.push(Delta::Put(self.scope.clone(), fact.clone(), Basis::Authoritative));
            }
            new.facts.insert(key, fact);
        }
        for (key, fact) in old.facts {
            let object = fact.object().cloned();
            let is_bad = |id: &_| refused.iter().any(|p| p.object.id == *id);
            match object {
                Some(id) if is_bad(&id) => drop(new.facts.entry(key).or_insert(fact)),
                Some(id) if !new.facts.contains_key(&key) => {
                    out.push(Delta::Drop(key, Evidence::Changed(ObjectRef::new(id))));
                }
                _ => {}
            }
        }
        let good = old.problems.into_iter().filter(|o| !refused.iter().any(|p| p.object.id == o.id));
        out.extend(good.map(|object| Delta::Problem(object, None)));
        for problem in refused {
            new.problems.push(problem.object.clone());
            out.push(Delta::Problem(problem.object.clone(), Some(problem.problem.clone())));
        }
        self.files.insert(file.to_owned(), new);
        out
    }
    fn forget(&mut self, file: &str) -> Vec<Delta> {
        let old = self.files.remove(file).unwrap_or_default();
        let gone = |(key, fact): (Key, Fact)| {
            let object = fact.object().cloned().map(ObjectRef::new)?;
            Some(Delta::Drop(key, Evidence::Deleted(object)))
        };
        let drops: Vec<Delta> = old.facts.into_iter().filter_map(gone).collect();
        drops.into_iter().chain(old.problems.into_iter().map(|o| Delta::Problem(o, None))).collect()
    }
}

impl CoreBackend {
    /// What is served at the moment.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }
    fn tell(&mut self, registry: &str, say: impl FnOnce(&mut Registry) -> Vec<Delta>) -> Result<()> {
        let registry = self.registries.get_mut(registry).context("no such registry")?;
        self.now += 1;
        let (name, at) = (registry.name.clone(), Mono(self.now));
        let stamp = |value| Stamped { registry: name.clone(), generation: Generation(1), at, value };
        let deltas = say(registry).into_iter().map(stamp).collect();
        let core = self.core.as_mut().context("not begun")?;
        core.apply(at, deltas);
        self.catalog = core.publish();
        Ok(())
    }
    fn client(&self, name: &str) -> Result<&Client> {
        self.clients.get(name).with_context(|| format!("no client is called {name:?}"))
    }
}

/// A client as a session would make it of a node.
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
    let class = &mut out.class;
    class.namespace = spec.namespace.as_deref().map(Namespace::new).transpose()?;
    class.cluster = spec.cluster.as_deref().map(ClusterId::new).transpose()?;
    class.network = spec.network.as_deref().map(NetworkId::new).transpose()?;
    class.node = spec.node.as_deref().map(NodeName::new).transpose()?;
    class.locality = spec.locality.as_deref().map(Locality::parse).unwrap_or_default();
    Ok(out)
}

/// The host and number of `pay.shop:80`.
pub fn host_and_port(text: &str) -> Result<(Hostname, PortNumber)> {
    let (host, port) = text.rsplit_once(':').with_context(|| format!("{text:?} is not host:port"))?;
    Ok((Hostname::new(host)?, PortNumber::new(port.parse()?)?))
}

const fn type_of(discovery: &Discovery<'_>) -> &'static str {
    match discovery {
        Discovery::Eds => "EDS",
        Discovery::StrictDns(_) => "STRICT_DNS",
        Discovery::LogicalDns(_) => "LOGICAL_DNS",
        Discovery::OriginalDestination => "ORIGINAL_DST",
        Discovery::ForwardProxy => "DYNAMIC",
    }
}

impl Backend for CoreBackend {
    async fn begin(
        &mut self,
        registries: &BTreeMap<String, String>,
        clients: &BTreeMap<String, ClientSpec>,
    ) -> Result<()> {
        let mut core = Core::new(CoreConfig::default());
        for (name, cluster) in registries {
            let registry = Registry::new(name, cluster)?;
            let id = RegistryId {
                name: registry.name.clone(),
                provider: Provider::ServiceEntry,
                cluster: registry.context.cluster.clone(),
            };
            core.join(&RegistrySpec { id: Arc::new(id), rank: 1, can_confirm: false })?;
            core.restart(Mono(0), &registry.name, Generation(1));
            self.registries.insert(name.clone(), registry);
        }
        self.core = Some(core);
        for (name, spec) in clients {
            self.clients.insert(name.clone(), client(name, spec)?);
        }
        registries.keys().try_for_each(|name| self.tell(name, |r| r.first_words()))
    }
    async fn write(&mut self, registry: &str, file: &str, text: &str) -> Result<()> {
        self.tell(registry, |r| r.read(file, text))
    }
    async fn delete(&mut self, registry: &str, file: &str) -> Result<()> {
        self.tell(registry, |r| r.forget(file))
    }
    async fn source(&mut self, registry: &str, readable: bool) -> Result<()> {
        self.tell(registry, |r| {
            let state = if readable { SourceState::Live } else { SourceState::Unreachable };
            let reason = if readable { "" } else { "the directory cannot be read" };
            let status = SourceStatus::new(state, reason);
            vec![Delta::Status(r.scope.clone(), status)]
        })
    }
    async fn endpoints(&mut self, name: &str, port: &str) -> Result<Vec<Row>> {
        let client = self.client(name)?;
        let (host, number) = host_and_port(port)?;
        let found = resolve(&self.catalog, host.as_str(), client.class.namespace.as_ref(), &mut ());
        let Some(port) = found.and_then(|view| view.port(number)) else { return Ok(Vec::new()) };
        let of_cluster = client.class.project(port.cluster.dims);
        match cluster(&port.cluster.facts, &of_cluster, &mut ()).map(|plan| plan.discovery) {
            None | Some(Discovery::OriginalDestination | Discovery::ForwardProxy) => Ok(Vec::new()),
            Some(Discovery::StrictDns(within) | Discovery::LogicalDns(within)) => Ok(Row::all(&within)),
            Some(Discovery::Eds) => {
                let projection = client.class.project(port.endpoints.dims);
                Ok(Row::all(&endpoints(&port.endpoints.facts, &projection, &mut ())))
            }
        }
    }
    async fn clusters(&mut self, name: &str) -> Result<BTreeMap<String, String>> {
        let client = self.client(name)?;
        let mut out = BTreeMap::new();
        for (host, view) in members(&self.catalog, client.class.namespace.as_ref()) {
            for port in view.ports.iter() {
                let projection = client.class.project(port.cluster.dims);
                if let Some(plan) = cluster(&port.cluster.facts, &projection, &mut ()) {
                    out.insert(format!("{host}:{}", port.number), type_of(&plan.discovery).to_owned());
                }
            }
        }
        Ok(out)
    }
    async fn conditions(&mut self, host: &str) -> Result<BTreeSet<String>> {
        let Some(entry) = self.catalog.hosts.get(host) else { return Ok(BTreeSet::new()) };
        let contested = contested_by_service(&self.catalog, &Class::new(ClientKind::Sidecar));
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
        let documents = tributary_answer::explain_with(&self.catalog, &query, client, &history);
        documents.iter().map(|d| Ok(serde_json::to_value(d)?)).collect()
    }
    async fn why_not(&mut self, host: &str, name: &str) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(why_not(&self.catalog, host, self.client(name)?))?)
    }
    async fn again(&mut self) -> bool {
        false
    }
    fn delivers(&self) -> bool {
        false
    }
}
