//! Creates the run factories of one configured registry.
//!
//! Factories open no connection: a configuration mistake is found before anything starts, and the run of an
//! unreachable source retries.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_consul::ConsulFactory;
use tributary_kube_client::{ConnectError, ConnectOptions, Connection, Connector, LiveConnections};
use tributary_kubernetes::mesh::Mesh;
use tributary_kubernetes::{KubernetesFields, MeshSender, RunMemory};
use tributary_model::{
    ClusterId, Fingerprint, InvalidName, RegistryName, RegistrySpec, Settings, StalePolicy,
};
use tributary_registry_api::{Registry, RegistryError, RegistryFactory};
use tributary_service_entry::{FileFactory, FileFields};

use super::cluster::Cluster;
use super::consul;
use super::platform::{Platform, Process};
use crate::config::Config;
use crate::config::model::{RegistryConfig, Source};
use crate::environment::Environment;
use crate::exit::CommandError;

/// Creates factories; holds the process environment and the memory of clusters.
#[derive(Debug, Clone)]
pub struct Factories {
    env: Environment,
    platform: Arc<dyn Platform>,
    memories: Memories,
    /// Mesh configuration of the config cluster, for runs of every configuration.
    mesh: Arc<MeshSender>,
    /// Connections of runs.
    live: LiveConnections,
}

/// State that runs of a cluster pass on to later runs, including runs of a changed configuration.
type Memories = Arc<Mutex<BTreeMap<(RegistryName, ClusterId), Arc<RunMemory>>>>;

/// Remote cluster that was added at run time.
pub struct RemoteCluster {
    /// Name of its objects registry.
    pub name: RegistryName,
    /// Cluster.
    pub cluster: ClusterId,
    /// Opens its connections.
    pub open: Arc<dyn Fn() -> Result<Connection, ConnectError> + Send + Sync>,
    /// What its declaration sets.
    pub policy: RegistryPolicy,
}

/// What the declaration of a cluster sets of its registries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryPolicy {
    /// What becomes of facts that are no longer confirmed.
    pub stale: StalePolicy,
    /// Identity of the cluster, where the declaration has it.
    pub pinned: Option<Fingerprint>,
}

/// Arguments of a factory.
struct FactoryContext<'a> {
    name: RegistryName,
    cluster: ClusterId,
    config: &'a Config,
}

impl Factories {
    /// Creates factories with the environment of the process.
    #[must_use]
    pub fn new(env: Environment) -> Self {
        Self::on(Arc::new(Process), env)
    }
    /// Creates factories on another platform than this process.
    #[must_use]
    pub fn on(platform: Arc<dyn Platform>, env: Environment) -> Self {
        Self {
            env,
            platform,
            memories: Arc::default(),
            mesh: Arc::new(MeshSender::new(None)),
            live: LiveConnections::default(),
        }
    }
    /// Platform.
    #[must_use]
    pub const fn platform(&self) -> &Arc<dyn Platform> {
        &self.platform
    }
    /// Environment of the process.
    #[must_use]
    pub const fn environment(&self) -> &Environment {
        &self.env
    }
    /// Returns the connections of the runs of its clusters.
    #[must_use]
    pub const fn live(&self) -> &LiveConnections {
        &self.live
    }
    /// Returns the clusters of the configuration.
    pub fn clusters(&self, config: &Config) -> Result<Vec<Cluster>, CommandError> {
        let all = config.registries.iter().filter_map(|registry| Some((registry, registry.kubernetes()?)));
        let cluster = |(registry, fields)| {
            let context = FactoryContext::new(registry, config)?;
            let wrong = |e| CommandError::config(format!("registry `{}`: {e}", context.name));
            context.cluster(fields, self).map_err(wrong)
        };
        all.map(cluster).collect()
    }
    /// Returns the factories of one registry, which are added and removed together: a cluster has two.
    pub fn of(
        &self,
        registry: &RegistryConfig,
        config: &Config,
    ) -> Result<Vec<Arc<dyn RegistryFactory>>, CommandError> {
        let stale = registry.staleness.unwrap_or_default().policy();
        let policy = RegistryPolicy { stale, pinned: None };
        Ok(self.supervised(with_policy(self.plain(registry, config)?, &policy)))
    }
    /// Returns the factories of a remote cluster, which is read like a configured one, with the intervals of the config cluster.
    pub fn remote(
        &self,
        remote: RemoteCluster,
        config: &Config,
    ) -> Result<Vec<Arc<dyn RegistryFactory>>, CommandError> {
        let RemoteCluster { name, cluster, open, policy } = remote;
        let fields = remote_fields(config);
        let connector = Connector::opening(name.clone(), move || open());
        let wrong = |e: InvalidName| CommandError::config(format!("registry `{name}`: {e}"));
        let process = self.platform.process();
        let built = Cluster::over((connector, process), (name.clone(), cluster.clone()), (&fields, config));
        let entries = RegistryName::new(format!("{name}{}", RegistryConfig::ENTRIES)).map_err(wrong)?;
        let memory = Arc::clone(self.memories.lock().entry((name.clone(), cluster)).or_default());
        let linked = |built: Cluster| {
            built.remembering(memory).listed(&self.live).linked(&self.mesh, config.config_cluster().is_some())
        };
        let factories = built.and_then(|built| linked(built).factories(entries)).map_err(wrong)?;
        Ok(self.supervised(with_policy(factories, &policy)))
    }
    fn supervised(&self, all: Vec<Arc<dyn RegistryFactory>>) -> Vec<Arc<dyn RegistryFactory>> {
        all.into_iter().map(|factory| self.platform.supervised(factory)).collect()
    }
    /// Lets clusters follow the mesh configuration of an earlier process until that of this one is known.
    pub fn restore_mesh(&self, settings: &Settings) {
        let Some(text) = &settings.mesh_text else { return };
        self.mesh.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| Arc::new(Mesh::read(Some(&text.mesh), Some(&text.networks))));
            is_first
        });
    }
    /// Drops the memory of a cluster that was removed.
    pub fn forget(&self, name: &RegistryName, cluster: &ClusterId) {
        self.memories.lock().remove(&(name.clone(), cluster.clone()));
    }
    fn plain(
        &self,
        registry: &RegistryConfig,
        config: &Config,
    ) -> Result<Vec<Arc<dyn RegistryFactory>>, CommandError> {
        let context = FactoryContext::new(registry, config)?;
        match &registry.source {
            Source::File(fields) => Ok(vec![files(context, fields)]),
            Source::Kubernetes(fields) => {
                let wrong = |e| CommandError::config(format!("registry `{}`: {e}", context.name));
                let entries = format!("{}{}", context.name, RegistryConfig::ENTRIES);
                let entries = RegistryName::new(entries).map_err(wrong)?;
                let cluster = context.cluster(fields, self).map_err(wrong)?;
                let key = (context.name.clone(), context.cluster.clone());
                let memory = Arc::clone(self.memories.lock().entry(key).or_default());
                let cluster = cluster
                    .remembering(memory)
                    .listed(&self.live)
                    .linked(&self.mesh, config.config_cluster().is_some());
                cluster.factories(entries).map_err(wrong)
            }
            Source::Consul(fields) => {
                let wrong = |e| CommandError::config(format!("registry `{}`: {e}", context.name));
                let consul = consul::config(fields, config, &self.env).map_err(wrong)?;
                let factory =
                    ConsulFactory::new(context.name.clone(), context.cluster, consul).map_err(wrong)?;
                Ok(vec![Arc::new(factory)])
            }
            Source::Registered(source) => {
                let wrong = |e: &dyn std::fmt::Display| {
                    CommandError::config(format!("registry `{}`: {e}", context.name))
                };
                let id = (context.name.clone(), context.cluster.clone());
                match self.env.extensions().build(&source.kind, id, &source.fields) {
                    Some(factory) => Ok(vec![factory.map_err(|e| wrong(&e))?]),
                    None => Err(wrong(&format!("the binary has no kind `{}`", source.kind))),
                }
            }
        }
    }
}

/// Returns a remote cluster as a server with this configuration reads it, without a connection.
pub fn remote_cluster(cluster: ClusterId, config: &Config) -> Result<Cluster, CommandError> {
    let wrong = |e: InvalidName| CommandError::config(format!("cluster `{cluster}`: {e}"));
    let name = RegistryName::new("remote").map_err(wrong)?;
    let connector = Connector::new(name.clone(), ConnectOptions::default(), |_| None);
    let process = Process.process();
    Cluster::over((connector, process), (name, cluster.clone()), (&remote_fields(config), config))
        .map_err(wrong)
}

/// Returns the fields of a remote cluster: the intervals of the config cluster, and else the defaults.
fn remote_fields(config: &Config) -> KubernetesFields {
    let home = config.config_cluster().and_then(RegistryConfig::kubernetes).cloned().unwrap_or_default();
    let KubernetesFields { probe_interval, stale_after, audit_interval, .. } = home;
    KubernetesFields { probe_interval, stale_after, audit_interval, ..KubernetesFields::default() }
}

/// Factory whose registry has a policy.
struct WithPolicy {
    inner: Arc<dyn RegistryFactory>,
    policy: RegistryPolicy,
}

fn with_policy(all: Vec<Arc<dyn RegistryFactory>>, policy: &RegistryPolicy) -> Vec<Arc<dyn RegistryFactory>> {
    let one = |inner| -> Arc<dyn RegistryFactory> { Arc::new(WithPolicy { inner, policy: policy.clone() }) };
    all.into_iter().map(one).collect()
}

impl RegistryFactory for WithPolicy {
    fn spec(&self) -> RegistrySpec {
        self.inner.spec().when_stale(self.policy.stale).pinned(self.policy.pinned.clone())
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        self.inner.build()
    }
}

impl<'a> FactoryContext<'a> {
    fn new(registry: &RegistryConfig, config: &'a Config) -> Result<Self, CommandError> {
        let kind = registry.kind();
        let name = registry.name.as_deref().unwrap_or_else(|| kind.as_str());
        let wrong = |e: InvalidName| CommandError::config(format!("registry `{name}`: {e}"));
        let cluster = registry.cluster_id.as_ref().unwrap_or(&config.cluster_id);
        let cluster = ClusterId::new(cluster).map_err(wrong)?;
        Ok(Self { name: RegistryName::new(name).map_err(wrong)?, cluster, config })
    }
    fn cluster(&self, fields: &KubernetesFields, factories: &Factories) -> Result<Cluster, InvalidName> {
        let Factories { env, platform, .. } = factories;
        let connector = platform.connector(self.name.clone(), fields.connect_options(), env);
        let names = (self.name.clone(), self.cluster.clone());
        Cluster::over((connector, platform.process()), names, (fields, self.config))
    }
}

fn files(context: FactoryContext<'_>, fields: &FileFields) -> Arc<dyn RegistryFactory> {
    let path = fields.path.clone().unwrap_or_default();
    let files = FileFactory::new(context.name, context.cluster, vec![path]);
    match context.config.settings.trust_domain.as_deref() {
        Some(domain) => Arc::new(files.trust_domain(domain)),
        None => Arc::new(files),
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::settings::MeshText;

    use super::*;

    #[test]
    fn mesh_of_an_earlier_process_counts_until_that_of_this_one_is_known() {
        let settings = |domain: &str| {
            let text = MeshText { mesh: format!("trustDomain: {domain}").into(), networks: "".into() };
            Settings { mesh_text: Some(Arc::new(text)), ..Settings::default() }
        };
        let factories = Factories::new(Environment::default());
        let known =
            || factories.mesh.borrow().as_ref().map(|mesh| mesh.trust_domain.as_deref().map(str::to_owned));
        factories.restore_mesh(&Settings::default());
        assert_eq!(known(), None, "an unknown one is not an empty one");
        factories.restore_mesh(&settings("old.test"));
        assert_eq!(known(), Some(Some("old.test".to_owned())));
        factories.mesh.send_replace(Some(Arc::new(Mesh::default())));
        factories.restore_mesh(&settings("old.test"));
        assert_eq!(known(), Some(None));
    }
}
