//! A Kubernetes cluster in memory: objects go through the registry's own projections into its index, one at a
//! time, as watches would deliver them; custom resources go to the registry beside it.

use anyhow::{Context, Result};
use serde_json::Value;
use tributary_kubernetes::project::{
    Export, Gateway, Import, MeshConfig, Namespace, Node, Pod, Service, Slice,
};
use tributary_kubernetes::{Index, Kind, Name, Object, ObjectEvent, Options, WatchScope};
use tributary_model::{ClusterId, Namespace as NamespaceName, RegistryName, RegistryUpdate};

use super::files::Registry;
use crate::cluster::{ClusterSpec, Namespaces, ObjectName};

/// The two registries of a cluster.
pub(super) struct Cluster {
    pub(super) name: RegistryName,
    pub(super) id: ClusterId,
    pub(super) entries: Registry,
    index: Index,
    namespaces: Namespaces,
}

/// Updates of one of the two registries.
pub(super) enum Report {
    Cluster(Vec<RegistryUpdate>),
    Entries(Vec<RegistryUpdate>),
}

impl Cluster {
    /// Creates the config cluster; `consul` if a Consul is read beside it, whose copies in the cluster then declare
    /// nothing.
    pub(super) fn new(spec: &ClusterSpec, consul: bool) -> Result<Self> {
        Self::named("kubernetes", spec, consul)
    }
    /// Creates a remote cluster.
    pub(super) fn remote(spec: &ClusterSpec) -> Result<Self> {
        Self::named("remote", spec, false)
    }
    fn named(name: &str, spec: &ClusterSpec, consul: bool) -> Result<Self> {
        let id = ClusterId::new(&spec.cluster)?;
        let mut options = Options::new(id.clone())?;
        options.system_namespace = NamespaceName::new(&spec.system_namespace)?;
        options.is_config = name == "kubernetes";
        options.revision = spec.revision.as_deref().map(Into::into);
        options.namespaces = spec.namespaces.iter().map(NamespaceName::new).collect::<Result<_, _>>()?;
        options.consul_domains = consul.then(|| "consul".into()).into_iter().collect();
        let on = |what: &str| spec.mcs.get(what).copied().unwrap_or_default();
        options.mcs.discovery = on("discovery");
        options.mcs.cluster_local = on("clusterLocal");
        options.mcs.host = on("host");
        Ok(Self {
            name: RegistryName::new(name)?,
            entries: Registry::new(&format!("{name}-entries"), &spec.cluster)?,
            index: Index::new(options),
            namespaces: Namespaces::default(),
            id,
        })
    }
    /// Returns the names of its registries.
    pub(super) fn names(&self) -> (RegistryName, RegistryName) {
        (self.name.clone(), self.entries.name.clone())
    }
    /// Returns the reports of an empty cluster.
    pub(super) fn first_reports(&mut self) -> Vec<Report> {
        vec![Report::Cluster(self.initial_updates()), Report::Entries(self.entries.initial_updates())]
    }
    /// Returns the updates of an empty cluster: every kind has completed an empty list.
    fn initial_updates(&mut self) -> Vec<RegistryUpdate> {
        for scope in self.index.objects().options.watch_scopes() {
            self.index.apply(&scope, ObjectEvent::Init);
            self.index.apply(&scope, ObjectEvent::InitDone);
        }
        self.index.flush()
    }
    /// Returns the updates of creating or replacing these objects one after the other.
    pub(super) fn apply(&mut self, documents: &[Value]) -> Result<Vec<Report>> {
        let wanted = self.namespaces.wanted(documents);
        wanted.iter().chain(documents).map(|document| self.put(document)).collect()
    }
    fn put(&mut self, document: &Value) -> Result<Report> {
        let name = ObjectName::of(document)?;
        if is_entry(&name) {
            return Ok(Report::Entries(self.entries.read(&file(&name), &document.to_string())));
        }
        let event = match object(&name, &document.to_string()) {
            Ok(object) => ObjectEvent::Apply(object),
            Err(Bad::Unread(why)) => ObjectEvent::Invalid(key(&name), why.into()),
            Err(Bad::Unknown(error)) => return Err(error),
        };
        Ok(self.take(kind(&name)?, event))
    }
    /// Returns the updates of removing these objects one after the other.
    pub(super) fn remove(&mut self, names: &[ObjectName]) -> Result<Vec<Report>> {
        names.iter().map(|name| self.gone(name)).collect()
    }
    fn gone(&mut self, name: &ObjectName) -> Result<Report> {
        self.namespaces.gone(name);
        if is_entry(name) {
            return Ok(Report::Entries(self.entries.forget(&file(name))));
        }
        Ok(self.take(kind(name)?, ObjectEvent::Delete(key(name))))
    }
    fn take(&mut self, kind: Kind, event: ObjectEvent) -> Report {
        self.index.apply(&WatchScope::all(kind), event);
        Report::Cluster(self.index.flush())
    }
}

/// Reasons why a document is not an object.
enum Bad {
    /// This object alone cannot be parsed, as a watch would report.
    Unread(String),
    /// The world itself is wrong.
    Unknown(anyhow::Error),
}

fn object(name: &ObjectName, json: &str) -> Result<Object, Bad> {
    let read = match kind(name).map_err(Bad::Unknown)? {
        Kind::Namespace => Namespace::parse(json).map(Object::from),
        Kind::Service => Service::parse(json).map(Object::from),
        Kind::Slice => Slice::parse(json).map(Object::from),
        Kind::Pod => Pod::parse(json).map(Object::from),
        Kind::Node => Node::parse(json).map(Object::from),
        Kind::Export => Export::parse(json).map(Object::from),
        Kind::Import => Import::parse(json).map(Object::from),
        Kind::Gateway => Gateway::parse(json).map(Object::from),
        Kind::MeshConfig => MeshConfig::parse(json).map(Object::from),
    };
    read.map_err(Bad::Unread)
}

fn kind(name: &ObjectName) -> Result<Kind> {
    let found = Kind::ALL.into_iter().find(|kind| kind.as_str() == name.kind);
    found.with_context(|| format!("a cluster has no kind {}", name.kind))
}

fn key(name: &ObjectName) -> Name {
    Name::new(name.namespace.as_deref().unwrap_or_default(), &name.name)
}

fn is_entry(name: &ObjectName) -> bool {
    let kinds = ["ServiceEntry", "WorkloadEntry", "WorkloadGroup", "Sidecar", "DestinationRule"];
    kinds.contains(&name.kind.as_str())
}

fn file(name: &ObjectName) -> String {
    format!("{}/{}/{}", name.kind, name.namespace.as_deref().unwrap_or_default(), name.name)
}
