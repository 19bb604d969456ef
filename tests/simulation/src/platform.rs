//! Platform of a simulated process: connections to the sites, and runs that are watched.
//!
//! It numbers the lanes: the registries of one cluster that were made together, with one credential. Planted bugs of runs sit between
//! adapter and core.

mod tamper;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tributary_app::environment::Environment;
use tributary_app::wiring::platform::{Platform, ProcessName};
use tributary_kube_client::{ConnectError, ConnectOptions, Connection, Connector};
use tributary_model::{Generation, ProviderId, RegistryName, RegistrySpec};
use tributary_registry_api::{Reason, Registry, RegistryError, RegistryFactory, RegistryIo};
use tributary_remote::{Allowed, VettedKubeconfig};

use crate::bugs::Bug;
use crate::site::Site;
use crate::world::{HOME, HOME_TOKEN};

/// Run of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRun {
    /// Number of the lane.
    pub lane: u32,
    /// When the run began.
    pub began: Instant,
}

/// Runs so far, by registry and generation.
pub type Runs = BTreeMap<(String, Generation), LaneRun>;

#[derive(Default)]
struct Lanes {
    runs: Runs,
    /// Number of lanes so far.
    lanes: u32,
    /// Last lane of each cluster.
    current: BTreeMap<String, u32>,
    /// Last factory of the second registry of each cluster.
    entries: BTreeMap<String, Arc<dyn RegistryFactory>>,
}

/// Platform of one process.
#[derive(Clone)]
pub struct Simulated {
    sites: Arc<BTreeMap<String, Arc<Site>>>,
    number: u32,
    lanes: Arc<Mutex<Lanes>>,
    bug: Option<Bug>,
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Simulated(process {})", self.number)
    }
}

impl Simulated {
    /// Creates the platform of a process with this number.
    #[must_use]
    pub fn new(sites: Arc<BTreeMap<String, Arc<Site>>>, number: u32, bug: Option<Bug>) -> Self {
        Self { sites, number, lanes: Arc::default(), bug }
    }
    /// Returns the runs so far.
    #[must_use]
    pub fn runs(&self) -> Runs {
        self.lanes.lock().runs.clone()
    }
    /// Forgets the runs of a registry.
    pub fn forget(&self, registry: &str) {
        self.lanes.lock().runs.retain(|(name, _), _| name != registry);
    }
    /// Returns the last factory of a cluster's second registry, in a lane of its own.
    #[must_use]
    pub fn entries_alone(&self, cluster: &str) -> Option<Arc<dyn RegistryFactory>> {
        let mut lanes = self.lanes.lock();
        let inner = Arc::clone(lanes.entries.get(cluster)?);
        lanes.lanes += 1;
        let lane = lanes.lanes;
        drop(lanes);
        Some(Arc::new(Watched { inner, lane, own: self.clone() }))
    }
}

impl Platform for Simulated {
    fn connector(&self, name: RegistryName, _: ConnectOptions, _: &Environment) -> Connector {
        let site = Arc::clone(&self.sites[HOME]);
        Connector::opening(name, move || Ok(site.connect(HOME_TOKEN)))
    }
    fn connect(&self, kubeconfig: &VettedKubeconfig, _: &Allowed) -> Result<Connection, ConnectError> {
        let unusable =
            || ConnectError::Unusable("a simulated kubeconfig".to_owned(), Reason::new("no such site"));
        let host = kubeconfig.server().trim_start_matches("https://");
        let site =
            host.split_once(".test").and_then(|(name, _)| self.sites.get(name)).ok_or_else(unusable)?;
        let token = kubeconfig.token().map(|token| String::from_utf8_lossy(token.expose()).into_owned());
        Ok(site.connect(&token.ok_or_else(unusable)?))
    }
    fn process(&self) -> ProcessName {
        ProcessName { host: "simulated".to_owned(), id: self.number }
    }
    fn supervised(&self, inner: Arc<dyn RegistryFactory>) -> Arc<dyn RegistryFactory> {
        let id = inner.spec().id;
        let (cluster, mut lanes) = (id.cluster.to_string(), self.lanes.lock());
        if id.provider == ProviderId::KUBERNETES {
            lanes.lanes += 1;
            let lane = lanes.lanes;
            lanes.current.insert(cluster.clone(), lane);
        } else {
            lanes.entries.insert(cluster.clone(), Arc::clone(&inner));
        }
        let lane = lanes.current.get(&cluster).copied().unwrap_or_default();
        drop(lanes);
        Arc::new(Watched { inner, lane, own: self.clone() })
    }
}

/// Factory whose runs are noted.
struct Watched {
    inner: Arc<dyn RegistryFactory>,
    lane: u32,
    own: Simulated,
}

impl RegistryFactory for Watched {
    fn spec(&self) -> RegistrySpec {
        self.inner.spec()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        let is_objects = self.spec().id.provider == ProviderId::KUBERNETES;
        let bug = self.own.bug.filter(|_| is_objects);
        Ok(Box::new(Run { inner: self.inner.build()?, lane: self.lane, own: self.own.clone(), bug }))
    }
}

struct Run {
    inner: Box<dyn Registry>,
    lane: u32,
    own: Simulated,
    bug: Option<Bug>,
}

#[async_trait]
impl Registry for Run {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let run = io.out.run().clone();
        let key = (run.registry.to_string(), run.generation);
        let began = LaneRun { lane: self.lane, began: Instant::now() };
        self.own.lanes.lock().runs.insert(key, began);
        match self.bug.and_then(|bug| tamper::between(bug, self.lane, io.out.clone())) {
            None => self.inner.run(io, stop).await,
            Some((out, tampered)) => {
                tokio::select! {
                    biased;
                    ended = self.inner.run(RegistryIo { out, ..io }, stop) => ended,
                    () = tampered => Ok(()),
                }
            }
        }
    }
}
