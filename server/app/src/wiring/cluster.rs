//! A Kubernetes cluster as two registries of one membership: its own objects, and its custom
//! resources (ServiceEntry, WorkloadEntry, WorkloadGroup).
//!
//! Each run opens its own connection, and ends when the credential is refused and there is another
//! one ([`credential`]). What
//! stands in the way of a connection (no kubeconfig yet, a context that is not there) is the
//! status of a run that tries again, not an end of the start.

mod credential;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tributary_kube_client::{
    ConnectError, ConnectOptions, Connection, Env, Leadership, LeaseTiming, ObjectName, Timing,
};
use tributary_kubernetes::{Kind, KubernetesFactory, Mcs, Memory, Options};
use tributary_model::{
    ClusterId, InvalidName, Namespace, Provider, RegistryId, RegistryName, RegistrySpec, RegistryUpdate,
    Scope, SourceState, SourceStatus,
};
use tributary_registry_api::{
    Backoff, BackoffPolicy, CancellationToken, ClusterContextReceiver, ClusterContextSender, Reason,
    Registry, RegistryError, RegistryFactory, RegistryIo, SplitMix, cluster_context_channel,
};
use tributary_service_entry::{Addresses, CrdFactory, CrdOptions, Kinds, Ranges};

use crate::config::RegistryKind;
use crate::config::model::{MeshSource, RegistryConfig, Write};
use crate::config::{Config, facts};
use crate::environment::Environment;

/// The Lease under which addresses are given.
pub(super) const ADDRESSES: &str = "tributary-addresses";
/// The Lease under which Services are exported.
pub(super) const EXPORTS: &str = "tributary-exports";

/// One configured cluster.
#[derive(Clone)]
pub struct Cluster {
    /// The registry's own name.
    pub name: RegistryName,
    /// What the index of the cluster is told.
    pub options: Options,
    /// How often and how long its watches ask.
    pub timing: Timing,
    /// The credential.
    pub connect: ConnectOptions,
    /// Whether hosts of ServiceEntries are given addresses.
    allocates: bool,
    env: Environment,
    said: Arc<Mutex<Option<String>>>,
    /// What runs pass on to later ones.
    memory: Arc<Memory>,
}

impl Cluster {
    /// As the configuration says; its values have been checked.
    pub fn new(
        name: RegistryName,
        cluster: ClusterId,
        (registry, config): (&RegistryConfig, &Config),
        env: &Environment,
    ) -> Result<Self, InvalidName> {
        let connect =
            ConnectOptions { kubeconfig: registry.kubeconfig.clone(), context: registry.context.clone() };
        Ok(Self {
            name,
            options: options(cluster, registry, config)?,
            timing: timing(registry),
            connect,
            allocates: config.writes.contains(&Write::Addresses),
            env: env.clone(),
            said: Arc::default(),
            memory: Arc::default(),
        })
    }
    /// Passing on from run to run what this memory keeps.
    #[must_use]
    pub fn remembering(mut self, memory: Arc<Memory>) -> Self {
        self.memory = memory;
        self
    }
    /// The factories of both registries.
    pub fn factories(&self, entries: RegistryName) -> Result<Vec<Arc<dyn RegistryFactory>>, InvalidName> {
        // what the one reads of namespaces and mesh configuration holds for the other's objects
        let (say, hear) = cluster_context_channel();
        let say = Arc::new(say);
        let own = self.clone();
        let objects = Part {
            spec: self
                .spec(self.name.clone(), Provider::Kubernetes)
                .configured(self.options.reported_scopes()),
            scopes: self.options.reported_scopes().collect(),
            cluster: self.clone(),
            make: Box::new(move |connection| own.objects(connection, Arc::clone(&say))),
        };
        let (own, name) = (self.clone(), entries.clone());
        let scopes = self.entry_options().scopes()?;
        let entries = Part {
            spec: self.spec(entries, Provider::ServiceEntry).configured(scopes.iter().cloned()),
            scopes,
            cluster: self.clone(),
            make: Box::new(move |connection| own.entries(&name, connection, hear.clone())),
        };
        Ok(vec![Arc::new(PartFactory(Arc::new(objects))), Arc::new(PartFactory(Arc::new(entries)))])
    }
    /// The namespaces whose custom resources are read; all of them where there is none.
    #[must_use]
    pub fn entry_namespaces(&self) -> Vec<Option<String>> {
        if self.options.namespaces.is_empty() {
            return vec![None];
        }
        self.options.namespaces.iter().map(|namespace| Some(namespace.to_string())).collect()
    }
    fn spec(&self, name: RegistryName, provider: Provider) -> RegistrySpec {
        let id = RegistryId { name, provider, cluster: self.options.cluster.clone() };
        // facts that a run which ended cannot read again are never left out by the next one
        RegistrySpec::new(Arc::new(id), u16::from(!self.options.is_config)).shadowing()
    }
    /// What is read of custom resources.
    fn entry_options(&self) -> CrdOptions {
        CrdOptions {
            kinds: if self.options.is_config { Kinds::All } else { Kinds::WorkloadEntries },
            revision: self.options.revision.clone(),
            namespaces: self.options.namespaces.clone(),
            timing: self.timing,
            seed: seed(),
            ..CrdOptions::default()
        }
    }
    fn objects(
        &self,
        connection: Connection,
        say: Arc<ClusterContextSender>,
    ) -> Result<Box<dyn Registry>, RegistryError> {
        let leadership = self.options.mcs.auto_export.then(|| self.leadership(&connection, EXPORTS));
        let factory = KubernetesFactory::new(self.name.clone(), connection, self.options.clone());
        let factory =
            factory.timing(self.timing).seed(seed()).cluster_context(say).memory(Arc::clone(&self.memory));
        let factory = match leadership.as_ref().map(Leadership::leads) {
            Some(leads) => factory.exports(leads),
            None => factory,
        };
        Ok(led(factory.build()?, leadership))
    }
    fn entries(
        &self,
        name: &RegistryName,
        connection: Connection,
        hear: ClusterContextReceiver,
    ) -> Result<Box<dyn Registry>, RegistryError> {
        let leadership = self.allocates.then(|| self.leadership(&connection, ADDRESSES));
        let leads = leadership.as_ref().map(Leadership::leads);
        let options = CrdOptions {
            cluster_context: Some(hear),
            addresses: leads.map(|leads| Addresses { ranges: Ranges::default(), leads }),
            ..self.entry_options()
        };
        let factory = CrdFactory::new(name.clone(), self.options.cluster.clone(), connection, options);
        let factory = factory.rank(u16::from(!self.options.is_config));
        let factory = match &self.options.trust_domain {
            Some(domain) => factory.trust_domain(domain),
            None => factory,
        };
        let run = factory.build()?;
        Ok(led(run, leadership))
    }
    /// The name of a Lease: replicas of two revisions do not share one.
    pub(super) fn lease(&self, what: &str) -> String {
        let revision = self.options.revision.as_deref().map(|revision| format!("-{revision}"));
        format!("{what}{}", revision.unwrap_or_default())
    }
    /// A candidate for what only one replica of a revision may do.
    fn leadership(&self, connection: &Connection, what: &str) -> Leadership {
        let name =
            ObjectName { namespace: Some(self.options.system_namespace.to_string()), name: self.lease(what) };
        let identity = format!("{}-{}", super::host_name(), std::process::id());
        let chance = SplitMix::seeded(seed());
        Leadership::new(connection.client(), name, &identity, LeaseTiming::default(), chance)
    }
    /// Opens a connection. May run a credential plugin, so it is called where waiting hurts nobody.
    pub fn open(&self) -> Result<Connection, ConnectError> {
        let get = |name: &str| self.env.get(name).map(ToOwned::to_owned);
        Connection::open(&self.connect, Env::new(&get))
    }
    /// Says which credential is used, once for each that is.
    fn tell(&self, connection: &Connection) {
        let now = format!("{} {}", connection.server(), connection.described());
        let mut said = self.said.lock();
        if said.as_ref() != Some(&now) {
            tracing::info!(
                registry = %self.name,
                server = connection.server(),
                credential = connection.described(),
                "speaks to a cluster"
            );
            *said = Some(now);
        }
    }
}

/// Replicas that fail together should not come back together.
fn seed() -> u64 {
    u64::from(std::process::id())
}

fn options(cluster: ClusterId, registry: &RegistryConfig, config: &Config) -> Result<Options, InvalidName> {
    let settings = facts::settings(&config.settings);
    let namespaces = registry.namespaces.iter().flatten().map(Namespace::new);
    let mcs = registry.mcs.clone().unwrap_or_default();
    let reads_mesh = registry.mesh_config != Some(MeshSource::None);
    let kinds = Kind::ALL.into_iter().filter(|kind| reads_mesh || *kind != Kind::MeshConfig);
    Ok(Options {
        kinds: kinds.collect(),
        domain: settings.domain().into(),
        trust_domain: settings.trust_domain.clone(),
        system_namespace: Namespace::new(&config.system_namespace)?,
        revision: config.revision.as_deref().map(Arc::from),
        namespaces: namespaces.collect::<Result<_, _>>()?,
        is_config: cluster.as_str() == config.cluster_id,
        networks: settings.networks.clone().unwrap_or_default(),
        cluster_local: settings.cluster_local.clone(),
        mcs: Mcs {
            discovery: mcs.discovery.unwrap_or_default(),
            cluster_local: mcs.cluster_local.unwrap_or_default(),
            host: mcs.host.unwrap_or_default(),
            auto_export: config.writes.contains(&Write::ServiceExports),
            group: mcs.group.as_deref().unwrap_or(Mcs::GROUP).into(),
        },
        consul_domains: consul_domains(config),
        ..Options::new(cluster)?
    })
}

/// The domains of the Consuls that are read beside the cluster: their copies in it are left out.
fn consul_domains(config: &Config) -> Arc<[Arc<str>]> {
    let consuls = config.registries.iter().filter(|registry| registry.kind == RegistryKind::Consul);
    consuls.map(|registry| registry.domain.as_deref().unwrap_or("consul").into()).collect()
}

fn timing(registry: &RegistryConfig) -> Timing {
    let usual = Timing::default();
    Timing {
        probe: registry.probe_interval.map_or(usual.probe, crate::config::Span::get),
        live: registry.live_for.map_or(usual.live, crate::config::Span::get),
        audit: registry.audit_interval.map_or(usual.audit, crate::config::Span::get),
        ..usual
    }
}

type Make = Box<dyn Fn(Connection) -> Result<Box<dyn Registry>, RegistryError> + Send + Sync>;

fn led(run: Box<dyn Registry>, leadership: Option<Leadership>) -> Box<dyn Registry> {
    match leadership {
        Some(leadership) => Box::new(LeaderWrites { run, leadership }),
        None => run,
    }
}

/// A run that may write while its replica leads. The Lease is given up when the run ends, so that
/// another replica takes it at once.
struct LeaderWrites {
    run: Box<dyn Registry>,
    leadership: Leadership,
}

#[async_trait]
impl Registry for LeaderWrites {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let Self { run, leadership } = *self;
        let ended = CancellationToken::new();
        let run = async {
            let done = run.run(io, stop).await;
            ended.cancel();
            done
        };
        let (done, leadership) = tokio::join!(run, leadership.until(ended.cancelled()));
        leadership.resign().await;
        done
    }
}

/// One of the two registries.
struct Part {
    spec: RegistrySpec,
    /// The scopes that its status is reported of while there is no connection.
    scopes: Vec<Scope>,
    cluster: Cluster,
    make: Make,
}

struct PartFactory(Arc<Part>);

impl RegistryFactory for PartFactory {
    fn spec(&self) -> RegistrySpec {
        self.0.spec.clone()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Ok(Box::new(Connecting(Arc::clone(&self.0))))
    }
}

/// A run that has no connection yet.
struct Connecting(Arc<Part>);

#[async_trait]
impl Registry for Connecting {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let connection = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            connection = self.0.connect(&io) => connection,
        };
        let run = (self.0.make)(connection.clone())?;
        credential::run(run, io, stop, self.0.cluster.outdated(&connection)).await
    }
}

impl Part {
    /// Tries until it works; what stands in the way is the registry's status.
    async fn connect(&self, io: &RegistryIo) -> Connection {
        let mut backoff = Backoff::new(BackoffPolicy::default());
        let mut chance = SplitMix::seeded(seed());
        loop {
            let why = match self.open().await {
                Ok(connection) => {
                    let syncing = SourceStatus::new(SourceState::Syncing, "");
                    self.report(io, &syncing);
                    self.cluster.tell(&connection);
                    return connection;
                }
                Err(why) => why,
            };
            let pause = backoff.next(&mut chance);
            let status = SourceStatus {
                retry_in: Some(pause),
                ..SourceStatus::new(SourceState::Unreachable, why.shared())
            };
            self.report(io, &status);
            tokio::time::sleep(pause).await;
        }
    }
    fn report(&self, io: &RegistryIo, status: &SourceStatus) {
        let all = self.scopes.iter().map(|scope| RegistryUpdate::Status(scope.clone(), status.clone()));
        io.out.send_all(all.collect::<Vec<_>>());
    }
    async fn open(&self) -> Result<Connection, Reason> {
        let cluster = self.cluster.clone();
        let opened = tokio::task::spawn_blocking(move || cluster.open()).await;
        opened.map_err(Reason::new)?.map_err(Reason::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::{RestartMode, Scopes};

    fn mk(text: &str) -> Cluster {
        let config: Config = serde_saphyr::from_str(text).unwrap();
        let (name, id) = (RegistryName::new("k").unwrap(), ClusterId::new("Kubernetes").unwrap());
        let registry = config.registries.first().cloned().unwrap();
        Cluster::new(name, id, (&registry, &config), &Environment::default()).unwrap()
    }

    #[test]
    fn every_field_arrives() {
        let cluster =
            mk("{clusterId: other, systemNamespace: mesh, revision: canary, writes: [serviceExports], \
             settings: {domain: corp, trustDomain: prod, networks: {n: [10.0.0.0/8]}}, \
             registries: [{kind: kubernetes, kubeconfig: a, context: b, namespaces: [shop], \
             mcs: {discovery: true, clusterLocal: true, host: true, group: x.test}, meshConfig: none, \
             probeInterval: 1s, liveFor: 2s, auditInterval: 3s}]}");
        let options = &cluster.options;
        assert_eq!((&*options.domain, options.trust_domain.as_deref()), ("corp", Some("prod")));
        assert_eq!(
            (options.system_namespace.as_str(), options.revision.as_deref()),
            ("mesh", Some("canary"))
        );
        assert_eq!((options.namespaces[0].as_str(), options.networks[0].0.as_str()), ("shop", "n"));
        let Mcs { discovery, cluster_local, host, auto_export, group } = &options.mcs;
        assert!(*discovery && *cluster_local && *host && *auto_export && &**group == "x.test");
        assert!(!options.kinds.contains(&Kind::MeshConfig) && options.kinds.len() == Kind::ALL.len() - 1);
        assert!(!options.is_config, "the config cluster is the one of the server");
        let seconds = [cluster.timing.probe, cluster.timing.live, cluster.timing.audit].map(|t| t.as_secs());
        assert_eq!(seconds, [1, 2, 3]);
        assert_eq!(cluster.connect.context.as_deref(), Some("b"));
    }

    #[test]
    fn with_nothing_said_it_is_the_config_cluster_and_nothing_is_written() {
        let cluster = mk("{registries: [{kind: kubernetes}]}");
        assert!(cluster.options.is_config && cluster.options.namespaces.is_empty());
        assert_eq!(cluster.options.mcs, Mcs::default());
        assert_eq!(cluster.timing, Timing::default());
    }

    #[test]
    fn both_registries_speak_for_the_cluster_and_the_objects_go_first() {
        let specs: Vec<RegistrySpec> = mk("{registries: [{kind: kubernetes}]}")
            .factories(RegistryName::new("k-entries").unwrap())
            .unwrap()
            .iter()
            .map(|factory| factory.spec())
            .collect();
        let told: Vec<String> = specs.iter().map(|s| format!("{} {} {}", s.id.name, s.id, s.rank)).collect();
        assert_eq!(told, ["k Kubernetes/Kubernetes 0", "k-entries ServiceEntry/Kubernetes 0"]);
        let scopes = |spec: &RegistrySpec| match &spec.scopes {
            Scopes::Configured(scopes) => scopes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            Scopes::Discovered => panic!("the configuration lists them"),
        };
        assert_eq!(scopes(&specs[0]), ["cluster", "configmaps", "gateways"]);
        assert_eq!(scopes(&specs[1]), ["serviceentries", "workloadentries", "workloadgroups"]);
        assert!(specs.iter().all(|spec| spec.restart == RestartMode::Shadow));
    }
}
