//! The stage of a scenario: a source, its adapter, a real runtime, and the expected addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tributary_core::Core;
use tributary_model::{Catalog, Freshness, Hostname, RegistryName, RestartMode, SourceState};
use tributary_registry_api::{BackoffPolicy, ProcessClock};
use tributary_runtime::{Handle, RunState, Runtime, RuntimeConfig, StartRule};

use crate::harness::{Act, Harness, Script, Service};
use crate::journal::Kept;
use crate::pace::Pace;
use crate::tamper::{Crash, Tamper};
use crate::witness::Witness;

/// Time limit of every wait: far above the usual time, so a busy machine alone fails no test.
const LIMIT: Duration = Duration::from_secs(90);

/// Polls until the condition holds; for conditions without a notification.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            a_while().await;
        }
    };
    in_time(what, waiting).await;
}

/// Polls until a synchronous condition holds.
pub(crate) async fn until_seen(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            a_while().await;
        }
    };
    in_time(what, waiting).await;
}

/// Awaits a future, up to the time limit.
pub(crate) async fn in_time(what: &str, waiting: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "{what}: did not come");
}

/// Sleeps for the interval between two polls.
pub(crate) async fn a_while() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Returns the addresses that a catalog serves, by host.
#[must_use]
pub fn served(catalog: &Catalog) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
    let mut out: BTreeMap<Hostname, BTreeSet<IpAddr>> = BTreeMap::new();
    for view in catalog.services() {
        let ips = out.entry(view.key.host.clone()).or_default();
        for port in &*view.ports {
            for source in &*port.endpoints.inputs.sources {
                ips.extend(source.group.addresses.iter().filter_map(|address| address.ip()));
            }
        }
    }
    out
}

/// A running scenario.
pub struct Stage {
    runtime: Option<Runtime>,
    /// Handle of the runtime.
    pub handle: Handle,
    /// Records what clients would see.
    pub witness: Arc<Witness>,
    /// Ends runs.
    pub tamper: Arc<Tamper>,
    /// Name of the registry.
    pub name: RegistryName,
    script: Box<dyn Script>,
    truth: BTreeMap<Hostname, BTreeSet<IpAddr>>,
    patience: Duration,
    tasks_before: usize,
    journal: Kept,
}

impl Stage {
    /// Creates a source with these services; its adapter is not started.
    pub async fn prepare(harness: &dyn Harness, services: &[Service]) -> Self {
        let tasks_before = alive_tasks();
        let mut script = harness.script().await;
        let name = script.factory().spec().id.name.clone();
        let mut truth = script.always();
        for service in services {
            script.set(0, service).await;
            truth.insert(script.host(&service.name), service.endpoints.clone());
        }
        let (witness, journal) = (Arc::new(Witness::default()), Kept::default());
        let runtime = begin(&name, &witness, &journal);
        Self {
            handle: runtime.handle(),
            runtime: Some(runtime),
            witness,
            tamper: Tamper::new(),
            name,
            script,
            truth,
            patience: harness.patience(),
            tasks_before,
            journal,
        }
    }
    /// Stops the server and hands its journal to a new one; the new adapter is not started.
    pub async fn restored(mut self, changed: bool) -> Self {
        self.witness.assert_nothing_unexplained();
        if let Some(runtime) = self.runtime.take() {
            runtime.stop().await;
        }
        let records = self.journal.records();
        self.witness = Arc::new(Witness::default());
        self.tamper = Tamper::new();
        let runtime = begin(&self.name, &self.witness, &self.journal);
        self.handle = runtime.handle();
        self.runtime = Some(runtime);
        let spec = self.script.factory().spec();
        self.handle.restore(spec, records, changed).await.expect("the core takes what was kept");
        self.handle.restored(true).await.expect("it runs");
        self
    }
    /// Starts the adapter.
    pub async fn open(&self) {
        let factory = self.tamper.around(self.script.factory());
        self.handle.add_registry(factory).await.expect("the registry joins");
    }
    /// Creates a source with these services and waits until all of them are served.
    pub async fn playing(harness: &dyn Harness, services: &[Service]) -> Self {
        let stage = Self::prepare(harness, services).await;
        stage.open().await;
        stage.until_true().await;
        stage.until_live().await;
        stage
    }
    /// Starts a run with a new factory while the old one serves.
    pub async fn rotate(&self) {
        let factory = self.tamper.around(self.script.factory());
        self.handle.rotate(factory).await.expect("the registry rotates");
    }
    /// Starts a run that is held back until its pace is set. Returns the tamper of the serving run, so that
    /// each run can be ended separately.
    pub async fn rotate_held(&mut self) -> Arc<Tamper> {
        let before = std::mem::replace(&mut self.tamper, Tamper::new());
        self.tamper.pace(Pace::Together);
        self.rotate().await;
        until_seen("the new run begins", || !self.tamper.senders().is_empty()).await;
        before
    }
    /// Returns true if a run that ended restarts in place, false if it restarts in a shadow.
    #[must_use]
    pub fn restarts_in_place(&self) -> bool {
        self.script.factory().spec().restart != RestartMode::Shadow
    }

    /// Makes the source hold this service.
    pub async fn set(&mut self, service: &Service) {
        self.set_in(0, service).await;
    }
    /// Makes a part of the source hold this service.
    pub async fn set_in(&mut self, part: usize, service: &Service) {
        let host = self.script.host(&service.name);
        let before = self.truth.insert(host.clone(), service.endpoints.clone()).unwrap_or_default();
        self.witness.must_stay(&host, service.endpoints.iter().copied());
        self.witness.may_go(&host, before.difference(&service.endpoints).copied());
        self.script.set(part, service).await;
    }
    /// Removes this service from the source.
    pub async fn delete(&mut self, service: &str) {
        let host = self.script.host(service);
        let before = self.truth.remove(&host).unwrap_or_default();
        self.witness.may_go(&host, before);
        self.script.delete(service).await;
    }
    /// Makes the source perform an act.
    pub async fn act(&mut self, act: Act) {
        self.script.act(act).await;
    }
    /// Ends the current run; the next one begins.
    pub fn crash(&self, how: Crash) {
        self.tamper.crash(how);
    }
    /// Ends the current run and waits until its facts are stale; the next run waits for [`Stage::run_again`].
    pub async fn crash_and_wait(&self, how: Crash) {
        self.tamper.hold();
        self.tamper.crash(how);
        self.until_stale().await;
    }
    /// Lets the waiting run begin.
    pub fn run_again(&self) {
        self.tamper.let_go();
    }

    /// Returns the expected addresses.
    #[must_use]
    pub fn truth(&self) -> &BTreeMap<Hostname, BTreeSet<IpAddr>> {
        &self.truth
    }
    /// Returns the served addresses.
    #[must_use]
    pub fn served(&self) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
        served(&self.handle.catalog())
    }
    /// Returns the host of a service.
    #[must_use]
    pub fn host(&self, service: &str) -> Hostname {
        self.script.host(service)
    }
    /// Waits until the condition holds for the catalog, and the witness has seen that catalog.
    pub async fn until(&self, what: &str, holds: impl Fn(&Catalog) -> bool) {
        let mut generation = self.handle.generation();
        let waiting = async {
            while !holds(&self.handle.catalog()) {
                generation.changed().await.expect("the runtime lives");
            }
            self.witness.saw(self.handle.catalog().generation).await;
        };
        if tokio::time::timeout(LIMIT, waiting).await.is_err() {
            let runs = self.handle.runs();
            let registry = self.handle.catalog().registries.get(&self.name).cloned();
            panic!(
                "{what}: did not come\nserved {:#?}\nwanted {:#?}\n{registry:?}\n{runs:?}",
                self.served(),
                self.truth
            );
        }
    }
    /// Waits until the served addresses equal those of the source.
    pub async fn until_true(&self) {
        self.until("what the source holds is served", |catalog| served(catalog) == self.truth).await;
    }
    /// Waits until every collection is live.
    pub async fn until_live(&self) {
        self.until("every collection is live", |catalog| {
            let states = freshness(catalog, &self.name);
            !states.is_empty() && states.iter().all(|f| *f == Freshness::Live)
        })
        .await;
    }
    /// Waits until a collection is stale.
    pub async fn until_stale(&self) {
        self.until("a collection is stale", |catalog| {
            freshness(catalog, &self.name).iter().any(|f| matches!(f, Freshness::Stale { .. }))
        })
        .await;
    }
    /// Waits as long as the adapter may need to notice every change.
    pub async fn settle(&self) {
        tokio::time::sleep(self.patience).await;
    }
    /// Returns true if the status shows a fault of the part of this name.
    pub(crate) async fn status_shows(&self, name: &'static str) -> bool {
        let well = [SourceState::Live, SourceState::Syncing];
        let in_trouble = move |core: &Core| {
            let status = core.status();
            let sources = status.iter().flat_map(|one| one.sources.values());
            let mut parts = sources.flat_map(|source| source.status.parts.iter());
            parts.any(|part| *part.name == *name && !well.contains(&part.state))
        };
        self.handle.inspect(in_trouble).await.expect("it runs")
    }
    /// Asserts that exactly the expected addresses are served.
    pub fn assert_true(&self) {
        assert_eq!(self.served(), self.truth, "served and wanted differ");
        self.witness.assert_nothing_unexplained();
    }
    /// Waits until the supervisor and the core agree on the run in force, and no other run is active.
    pub async fn until_agreed(&self) {
        let agreed = async {
            while !self.is_agreed() {
                a_while().await;
            }
        };
        let came = tokio::time::timeout(LIMIT, agreed).await.is_ok();
        assert!(came, "generation {} is in force; {:#?}", self.run_generation(), self.handle.runs());
    }
    fn is_agreed(&self) -> bool {
        let report = self.handle.runs().remove(&self.name);
        report.is_some_and(|run| {
            let known = run.generation.0 == self.run_generation();
            known && run.shadow.is_none() && run.state == RunState::Running
        })
    }
    /// Ends the current run and waits until the end is counted.
    pub async fn crash_and_see(&self, how: Crash) {
        let failures = self.handle.stats().failures;
        self.tamper.crash(how);
        until_seen("the run ends", || self.handle.stats().failures > failures).await;
    }
    /// Returns true if every collection is live.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let states = freshness(&self.handle.catalog(), &self.name);
        !states.is_empty() && states.iter().all(|f| *f == Freshness::Live)
    }
    /// Declares that the next act of the source removes these services.
    pub fn expect_gone(&mut self, services: &[&str]) {
        for service in services {
            let host = self.script.host(service);
            let before = self.truth.remove(&host).unwrap_or_default();
            self.witness.may_go(&host, before);
        }
    }
    /// Returns the generation of the served run.
    #[must_use]
    pub fn run_generation(&self) -> u64 {
        self.handle.catalog().registries.get(&self.name).map_or(0, |registry| registry.generation.0)
    }

    /// Stops everything in order; fails if a task is left.
    pub async fn stop(mut self) {
        self.witness.assert_nothing_unexplained();
        let runtime = self.runtime.take().expect("it runs");
        runtime.stop().await;
        self.assert_no_task_left().await;
    }
    /// Drops everything without a stop; fails if a task is left.
    pub async fn drop_now(mut self) {
        drop(self.runtime.take());
        self.assert_no_task_left().await;
    }
    async fn assert_no_task_left(self) {
        let before = self.tasks_before;
        drop(self.script);
        drop(self.handle);
        let gone = async {
            while alive_tasks() > before {
                a_while().await;
            }
        };
        in_time("no task is left behind", gone).await;
    }
}

fn begin(name: &RegistryName, witness: &Arc<Witness>, journal: &Kept) -> Runtime {
    let known = BTreeSet::from([name.clone()]);
    let start = StartRule { known, first_sync_timeout: None, ..StartRule::default() };
    // short pauses, because scenarios end many runs in a row
    let (first, cap) = (Duration::from_millis(100), Duration::from_secs(1));
    let backoff = BackoffPolicy { first, cap, ..BackoffPolicy::default() };
    let config = RuntimeConfig { start, backoff, ..RuntimeConfig::default() };
    let clock = Arc::new(ProcessClock::starting_now());
    Runtime::start(config, clock, witness.clone(), journal.sink())
}

/// Returns the freshness of each collection of a registry.
#[must_use]
pub fn freshness(catalog: &Catalog, name: &RegistryName) -> Vec<Freshness> {
    let registry = catalog.registries.get(name);
    registry.map_or_else(Vec::new, |r| r.collections.iter().map(|(_, fresh)| fresh.clone()).collect())
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
