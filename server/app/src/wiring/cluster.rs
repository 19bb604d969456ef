//! Kubernetes cluster as two registries of one membership: its own objects, and its custom resources
//! (ServiceEntry, WorkloadEntry, WorkloadGroup, Sidecar, DestinationRule, VirtualService, EnvoyFilter,
//! PeerAuthentication, AuthorizationPolicy, RequestAuthentication).
//!
//! Their runs connect, reconnect and lead as `tributary_kube_client` does it; this module chooses the options
//! from the configuration and joins the two factories.

use std::sync::Arc;

use tributary_kube_client::{
    BuildRun, ClusterContextReceiver, ClusterContextSender, ConnectError, ConnectingFactory, Connection,
    Connector, Leadership, LeaseTiming, LiveConnections, ObjectName, Timing, cluster_context_channel, lead,
};
use tributary_kubernetes::{KubernetesFactory, KubernetesFields, MeshLink, MeshSender, Options, RunMemory};
use tributary_model::{
    ClusterId, InvalidName, Namespace, ProviderId, RegistryId, RegistryName, RegistrySpec,
};
use tributary_registry_api::{Registry, RegistryError, RegistryFactory, SplitMix};
use tributary_service_entry::{Addresses, CrdFactory, CrdOptions, Kinds, Ranges};

use super::platform::{Platform as _, Process, ProcessName};
use crate::config::model::{RegistryConfig, Write};
use crate::config::{Config, facts};
use crate::environment::Environment;

/// Lease of the replica that allocates addresses.
pub(crate) const ADDRESSES: &str = "tributary-addresses";
/// Lease of the replica that exports Services.
pub(crate) const EXPORTS: &str = "tributary-exports";
/// Lease of the replica that writes to the Secrets of remote clusters.
pub(crate) const CREDENTIALS: &str = "tributary-credentials";

/// Configured cluster.
#[derive(Clone)]
pub struct Cluster {
    /// Name of the objects registry.
    pub name: RegistryName,
    /// Options of the cluster's index.
    pub options: Options,
    /// Intervals and timeouts of its watches.
    pub timing: Timing,
    connector: Connector,
    process: ProcessName,
    /// Whether hosts of ServiceEntries receive addresses.
    allocates: bool,
    /// Whether its Secrets must be readable.
    pub(crate) declares_remotes: bool,
    /// State that runs pass on to later runs.
    memory: Arc<RunMemory>,
    /// Mesh configuration that clusters share.
    mesh_link: MeshLink,
    /// List of the connections of its runs.
    live: LiveConnections,
    /// Whether it reviews tokens, of clients or of operators.
    pub(crate) reviews_tokens: bool,
    /// Whether it reviews rights of operators.
    pub(crate) reviews_access: bool,
}

impl Cluster {
    /// Creates the cluster of a configuration that has been checked, as this process reaches it.
    pub fn new(
        name: RegistryName,
        cluster: ClusterId,
        (fields, config): (&KubernetesFields, &Config),
        env: &Environment,
    ) -> Result<Self, InvalidName> {
        let connector = Process.connector(name.clone(), fields.connect_options(), env);
        Self::over((connector, Process.process()), (name, cluster), (fields, config))
    }
    /// Creates a cluster that a process reaches by this connector.
    pub fn over(
        (connector, process): (Connector, ProcessName),
        (name, cluster): (RegistryName, ClusterId),
        (fields, config): (&KubernetesFields, &Config),
    ) -> Result<Self, InvalidName> {
        let options = options(cluster, fields, config)?;
        let remote = config.admin.remote.as_ref();
        let reviews_access = options.is_config && remote.is_some_and(|remote| remote.tokens.is_some());
        Ok(Self {
            name,
            declares_remotes: options.is_config && config.remotes.requires_secrets(),
            options,
            timing: fields.timing(),
            connector,
            process,
            allocates: config.writes.contains(&Write::Addresses),
            memory: Arc::default(),
            mesh_link: MeshLink::Own,
            live: LiveConnections::default(),
            reviews_tokens: config.xds.tokens.is_some() || reviews_access,
            reviews_access,
        })
    }
    /// Returns what opens its connections.
    #[must_use]
    pub const fn connector(&self) -> &Connector {
        &self.connector
    }
    /// Returns the seed of its pauses and audits.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.process.seed(&self.name)
    }
    /// Sets the memory that runs share.
    #[must_use]
    pub fn remembering(mut self, memory: Arc<RunMemory>) -> Self {
        self.memory = memory;
        self
    }
    /// Sets the list of the connections of its runs.
    #[must_use]
    pub fn listed(mut self, live: &LiveConnections) -> Self {
        self.live = live.clone();
        self
    }
    /// Links the cluster to the mesh configuration of others: the config cluster publishes its own, which the others follow.
    #[must_use]
    pub fn linked(mut self, mesh: &Arc<MeshSender>, has_config_cluster: bool) -> Self {
        self.mesh_link = match (self.options.is_config, has_config_cluster) {
            (true, _) => MeshLink::Publishes(Arc::clone(mesh)),
            (false, true) => MeshLink::Follows(mesh.subscribe()),
            (false, false) => MeshLink::Own,
        };
        self.options.follows_mesh = self.mesh_link.follows();
        self
    }
    /// Returns the factories of both registries.
    pub fn factories(&self, entries: RegistryName) -> Result<Vec<Arc<dyn RegistryFactory>>, InvalidName> {
        // the entries registry needs the namespaces and mesh configuration that the objects registry reads
        let (sender, receiver) = cluster_context_channel();
        let sender = Arc::new(sender);
        let own = self.clone();
        let objects = self.factory(
            self.spec(self.name.clone(), ProviderId::KUBERNETES).configured(self.options.reported_scopes()),
            Box::new(move |connection| own.objects(connection, Arc::clone(&sender))),
        );
        let (own, name) = (self.clone(), entries.clone());
        let scopes = self.entry_options().scopes()?;
        let entries = self.factory(
            self.spec(entries, ProviderId::SERVICE_ENTRY)
                .configured(scopes)
                .limiting_visibility()
                .deciding_by_services(),
            Box::new(move |connection| own.entries(&name, connection, receiver.clone())),
        );
        Ok(vec![objects, entries])
    }
    fn factory(&self, spec: RegistrySpec, build: BuildRun) -> Arc<dyn RegistryFactory> {
        let seed = self.process.seed(&spec.id.name);
        Arc::new(ConnectingFactory::listed((spec, self.connector.clone(), seed, build), self.live.clone()))
    }
    /// Returns the namespaces whose custom resources are read; all namespaces if empty.
    #[must_use]
    pub fn entry_namespaces(&self) -> Vec<Option<String>> {
        if self.options.namespaces.is_empty() {
            return vec![None];
        }
        self.options.namespaces.iter().map(|namespace| Some(namespace.to_string())).collect()
    }
    fn spec(&self, name: RegistryName, provider: ProviderId) -> RegistrySpec {
        let id = RegistryId { name, provider, cluster: self.options.cluster.clone() };
        // a run may not remove facts that an ended run could read and it cannot
        RegistrySpec::new(Arc::new(id), u16::from(!self.options.is_config)).shadowing()
    }
    /// Returns the kinds that the entries registry reads.
    pub(crate) fn entry_kinds(&self) -> Kinds {
        if self.options.is_config { Kinds::All } else { Kinds::WorkloadEntries }
    }
    /// Returns the options of the entries registry.
    fn entry_options(&self) -> CrdOptions {
        CrdOptions {
            kinds: self.entry_kinds(),
            revision: self.options.revision.clone(),
            namespaces: self.options.namespaces.clone(),
            timing: self.timing,
            seed: self.seed(),
            ..CrdOptions::default()
        }
    }
    fn objects(
        &self,
        connection: Connection,
        context: Arc<ClusterContextSender>,
    ) -> Result<Box<dyn Registry>, RegistryError> {
        let leadership = self.options.mcs.auto_export.then(|| self.leadership(&connection, EXPORTS));
        let factory = KubernetesFactory::new(self.name.clone(), connection, self.options.clone());
        let factory = factory
            .timing(self.timing)
            .seed(self.seed())
            .cluster_context(context)
            .memory(Arc::clone(&self.memory))
            .mesh_link(self.mesh_link.clone());
        let factory = match leadership.as_ref().map(Leadership::leads) {
            Some(leads) => factory.exports(leads),
            None => factory,
        };
        Ok(lead::while_running(factory.build()?, leadership))
    }
    fn entries(
        &self,
        name: &RegistryName,
        connection: Connection,
        context: ClusterContextReceiver,
    ) -> Result<Box<dyn Registry>, RegistryError> {
        let leadership = self.allocates.then(|| self.leadership(&connection, ADDRESSES));
        let leads = leadership.as_ref().map(Leadership::leads);
        let options = CrdOptions {
            cluster_context: Some(context),
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
        Ok(lead::while_running(run, leadership))
    }
    /// Returns the name of a Lease: replicas of different revisions do not share one.
    pub(crate) fn lease(&self, what: &str) -> String {
        let revision = self.options.revision.as_deref().map(|revision| format!("-{revision}"));
        format!("{what}{}", revision.unwrap_or_default())
    }
    /// Creates a candidate for work that only one replica of a revision may do.
    pub(super) fn leadership(&self, connection: &Connection, what: &str) -> Leadership {
        let name =
            ObjectName { namespace: Some(self.options.system_namespace.to_string()), name: self.lease(what) };
        let random = SplitMix::seeded(self.seed());
        let candidate = self.process.candidate();
        Leadership::new(connection.client(), name, &candidate, LeaseTiming::default(), random)
    }
    /// Opens a connection. May run a credential plugin, so call it on a blocking thread.
    pub fn open(&self) -> Result<Connection, ConnectError> {
        self.connector.open()
    }
}

fn options(cluster: ClusterId, fields: &KubernetesFields, config: &Config) -> Result<Options, InvalidName> {
    let settings = facts::settings(&config.settings);
    Ok(Options {
        kinds: fields.kinds(),
        domain: settings.domain().into(),
        trust_domain: settings.trust_domain.clone(),
        system_namespace: Namespace::new(&config.system_namespace)?,
        revision: config.revision.as_deref().map(Arc::from),
        namespaces: fields.namespaces()?,
        is_config: cluster.as_str() == config.cluster_id,
        networks: settings.networks.clone().unwrap_or_default(),
        cluster_local: settings.cluster_local.clone(),
        mcs: fields.mcs_options(config.writes.contains(&Write::ServiceExports)),
        consul_domains: consul_domains(config),
        ..Options::new(cluster)?
    })
}

/// Returns the domains of the configured Consuls, whose copies in the cluster are excluded.
fn consul_domains(config: &Config) -> Arc<[Arc<str>]> {
    let consuls = config.registries.iter().filter_map(RegistryConfig::consul);
    consuls.map(|fields| fields.domain.as_deref().unwrap_or("consul").into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_kubernetes::{Kind, Mcs};
    use tributary_model::{RestartMode, Scopes};

    fn mk(text: &str) -> Cluster {
        let config: Config = serde_saphyr::from_str(text).unwrap();
        let (name, id) = (RegistryName::new("k").unwrap(), ClusterId::new("Kubernetes").unwrap());
        let fields = config.registries[0].kubernetes().unwrap();
        Cluster::new(name, id, (fields, &config), &Environment::default()).unwrap()
    }

    #[test]
    fn cluster_options_take_every_field() {
        let cluster =
            mk("{clusterId: other, systemNamespace: mesh, revision: canary, writes: [serviceExports], \
             settings: {domain: corp, trustDomain: prod, networks: {n: [10.0.0.0/8]}}, \
             registries: [{kind: kubernetes, kubeconfig: a, context: b, namespaces: [shop], \
             mcs: {discovery: true, clusterLocal: true, host: true, group: x.test}, meshConfig: none, \
             probeInterval: 1s, staleAfter: 2s, auditInterval: 3s}]}");
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
        assert!(!options.is_config, "the config cluster is the server's own");
        let seconds = [cluster.timing.probe, cluster.timing.live, cluster.timing.audit].map(|t| t.as_secs());
        assert_eq!(seconds, [1, 2, 3]);
        assert_eq!(cluster.connector.options().context.as_deref(), Some("b"));
    }

    #[test]
    fn default_cluster_is_the_config_cluster_without_writes() {
        let cluster = mk("{registries: [{kind: kubernetes}]}");
        assert!(cluster.options.is_config && cluster.options.namespaces.is_empty());
        assert_eq!(cluster.options.mcs, Mcs::default());
        assert_eq!(cluster.timing, Timing::default());
    }

    #[test]
    fn both_registries_name_the_cluster_and_objects_come_first() {
        let specs: Vec<RegistrySpec> = mk("{registries: [{kind: kubernetes}]}")
            .factories(RegistryName::new("k-entries").unwrap())
            .unwrap()
            .iter()
            .map(|factory| factory.spec())
            .collect();
        let shown: Vec<String> =
            specs.iter().map(|s| format!("{} {} {}", s.id.name, s.id, s.precedence.rank)).collect();
        assert_eq!(shown, ["k Kubernetes/Kubernetes 0", "k-entries ServiceEntry/Kubernetes 0"]);
        let scopes = |spec: &RegistrySpec| match &spec.scopes {
            Scopes::Configured(scopes) => scopes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            Scopes::Discovered => panic!("the scopes are configured"),
        };
        assert_eq!(scopes(&specs[0]), ["cluster", "configmaps", "gateways"]);
        assert_eq!(
            scopes(&specs[1]),
            [
                "authorizationpolicies",
                "destinationrules",
                "envoyfilters",
                "gateways",
                "peerauthentications",
                "proxyconfigs",
                "requestauthentications",
                "serviceentries",
                "sidecars",
                "telemetries",
                "virtualservices",
                "wasmplugins",
                "workloadentries",
                "workloadgroups"
            ]
        );
        assert!(specs.iter().all(|spec| spec.restart == RestartMode::Shadow));
    }
}
