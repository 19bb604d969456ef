//! A runtime over in-memory registries, and a fan-out that records its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tributary_conformance::memory::{MemoryFactory, MemorySource, memory_host};
use tributary_conformance::served;
use tributary_model::{
    Catalog, CatalogChanges, ClusterId, Hostname, Mono, ObservedSince, ProviderId, RegistryId, RegistryName,
};
use tributary_registry_api::{
    CancellationToken, Clock, ProcessClock, Registry, RegistryError, RegistryFactory, RegistryIo,
    RegistrySpec,
};
use tributary_runtime::{Fanout, Handle, NoJournal, Runtime, RuntimeConfig};

/// A recorded call of the fan-out.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    pub(crate) at: Mono,
    pub(crate) served: BTreeMap<Hostname, BTreeSet<IpAddr>>,
    pub(crate) changed: CatalogChanges,
    pub(crate) observed: ObservedSince,
}

/// A fan-out that records its calls, and that can appear busy until a time.
pub(crate) struct Log {
    clock: ProcessClock,
    publications: Mutex<Vec<Publication>>,
    writing_until: Mutex<Mono>,
    panics: Mutex<u32>,
}

impl Log {
    pub(crate) fn publications(&self) -> Vec<Publication> {
        self.publications.lock().clone()
    }
    pub(crate) fn forget(&self) {
        self.publications.lock().clear();
    }
    pub(crate) fn write_for(&self, time: Duration) {
        *self.writing_until.lock() = self.clock.now().plus(time);
    }
    pub(crate) fn panic_once(&self) {
        *self.panics.lock() = 1;
    }
    /// Returns when an address was first published as present, or as removed.
    pub(crate) fn when(&self, host: &Hostname, ip: IpAddr, there: bool, not_before: Mono) -> Option<Mono> {
        let has = |one: &Publication| one.served.get(host).is_some_and(|ips| ips.contains(&ip));
        self.publications
            .lock()
            .iter()
            .find(|one| one.at >= not_before && has(one) == there)
            .map(|one| one.at)
    }
}

impl Fanout for Log {
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        let (served, changed) = (served(catalog), changed.clone());
        let published = Publication { at: self.clock.now(), served, changed, observed };
        self.publications.lock().push(published);
        let mut panics = self.panics.lock();
        if *panics > 0 {
            *panics -= 1;
            panic!("the test requests a panic of the fan-out");
        }
    }
    fn is_writing(&self) -> bool {
        self.clock.now() < *self.writing_until.lock()
    }
}

/// A running server without a network.
pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) handle: Handle,
    pub(crate) log: Arc<Log>,
    pub(crate) clock: ProcessClock,
}

pub(crate) fn mk_server(config: RuntimeConfig) -> Server {
    let clock = ProcessClock::starting_now();
    let log = Arc::new(Log {
        clock,
        publications: Mutex::default(),
        writing_until: Mutex::new(Mono(0)),
        panics: Mutex::new(0),
    });
    let runtime = Runtime::start(config, Arc::new(clock), log.clone(), Box::new(NoJournal));
    Server { handle: runtime.handle(), runtime, log, clock }
}

impl Server {
    /// A server with one registry in memory that serves "pay" with these addresses.
    pub(crate) async fn with_pay(hosts: impl IntoIterator<Item = u16>) -> (Self, MemorySource) {
        let (server, source) = (mk_server(RuntimeConfig::default()), MemorySource::default());
        source.set(0, "pay", hosts.into_iter().map(ip));
        server.handle.add_registry(mk_memory("memory", &source)).await.unwrap();
        server.until(|catalog| catalog.complete && !catalog.hosts.is_empty()).await;
        (server, source)
    }
    pub(crate) async fn until(&self, holds: impl Fn(&Catalog) -> bool) {
        let mut generation = self.handle.generation();
        let waiting = async {
            while !holds(&self.handle.catalog()) {
                generation.changed().await.unwrap();
            }
        };
        let came = tokio::time::timeout(Duration::from_secs(3600), waiting).await;
        assert!(came.is_ok(), "timed out; served: {:?}", self.served());
    }
    pub(crate) fn served(&self) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
        served(&self.handle.catalog())
    }
    pub(crate) fn serves(&self, service: &str) -> BTreeSet<IpAddr> {
        self.served().remove(&memory_host(service)).unwrap_or_default()
    }
    pub(crate) fn generation(&self, name: &RegistryName) -> u64 {
        self.handle.catalog().registries.get(name).map_or(0, |registry| registry.generation.0)
    }
}

pub(crate) fn ip(i: u16) -> IpAddr {
    let [high, low] = i.to_be_bytes();
    IpAddr::from([10, 9, high, low])
}

pub(crate) fn name(text: &str) -> RegistryName {
    RegistryName::new(text).unwrap()
}

pub(crate) fn pay() -> Hostname {
    memory_host("pay")
}

pub(crate) fn mk_memory(registry: &str, source: &MemorySource) -> Arc<dyn RegistryFactory> {
    Arc::new(MemoryFactory::new(registry, source.clone()))
}

/// Fault of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    CannotBeBuilt,
    BuildPanics,
    RunPanics,
    FailsAtOnce,
    RefusedForGood,
    IgnoresStop,
    EndsByItself,
}

/// A registry with one fault.
pub(crate) fn mk_faulty(registry: &str, fault: Fault) -> Arc<dyn RegistryFactory> {
    Arc::new(Faulty { name: name(registry), cluster: ClusterId::new(registry).unwrap(), fault })
}

/// A registry with this name and cluster.
pub(crate) fn mk_identity(registry: &str, cluster: &str) -> Arc<dyn RegistryFactory> {
    let (name, cluster) = (name(registry), ClusterId::new(cluster).unwrap());
    Arc::new(Faulty { name, cluster, fault: Fault::IgnoresStop })
}

struct Faulty {
    name: RegistryName,
    cluster: ClusterId,
    fault: Fault,
}

impl RegistryFactory for Faulty {
    fn spec(&self) -> RegistrySpec {
        let (name, cluster) = (self.name.clone(), self.cluster.clone());
        let id = RegistryId { name, provider: ProviderId::MEMORY, cluster };
        RegistrySpec::new(Arc::new(id), 1).confirming()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        match self.fault {
            Fault::CannotBeBuilt => Err(RegistryError::retryable("no such token=hunter2")),
            Fault::BuildPanics => panic!("the test requests a panic of the factory"),
            fault => Ok(Box::new(FaultyRun(fault))),
        }
    }
}

struct FaultyRun(Fault);

#[async_trait]
impl Registry for FaultyRun {
    async fn run(self: Box<Self>, _io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        match self.0 {
            Fault::RunPanics => panic!("the test requests a panic of the run"),
            Fault::FailsAtOnce => Err(RegistryError::retryable("the test requests an error")),
            Fault::RefusedForGood => Err(RegistryError::final_("the credential is refused")),
            Fault::IgnoresStop => std::future::pending().await,
            Fault::EndsByItself => Ok(()),
            Fault::CannotBeBuilt | Fault::BuildPanics => {
                stop.cancelled().await;
                Ok(())
            }
        }
    }
}
