//! Runs one seed: builds the world, takes the steps, heals everything, and waits until the truth is served.

mod act;
mod quiet;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tributary_app::config::Config;
use tributary_app::ops::clusters::{ClusterReport, bound, configured};
use tributary_app::ops::counts::RegistryCounts;
use tributary_journal::Numbers;

use crate::bugs::{Bug, show_restored_as_live};
use crate::client::Client;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::invariants::{Shown, of_step};
use crate::observer::{Model, Observer, Violation};
use crate::plan::Step;
use crate::process::{Process, Start};
use crate::secrets::Kubeconfig;
use crate::site::{FrozenSites, Site};
use crate::world::{ClusterTruth, HOME, HOME_TOKEN};

/// Number of steps of a run.
const STEPS: usize = 24;

/// Result of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Seed.
    pub seed: u64,
    /// Invariants that did not hold.
    pub violations: Vec<Violation>,
    /// Steps and publications in order.
    pub trace: Vec<String>,
}

impl Outcome {
    /// Whether an invariant of this name did not hold.
    #[must_use]
    pub fn has(&self, invariant: &str) -> bool {
        self.violations.iter().any(|violation| violation.invariant == invariant)
    }
}

/// Runs a seed in virtual time, perhaps with a planted bug.
#[must_use]
pub fn run(seed: u64, bug: Option<Bug>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async move {
        let mut run = Run::new(seed, bug).await;
        run.play().await;
        let mut model = run.model.lock();
        let requests: u64 = run.sites.values().map(|site| site.requests()).sum();
        model.note(&format!("{requests} requests"));
        let (violations, trace) = (std::mem::take(&mut model.violations), std::mem::take(&mut model.trace));
        Outcome { seed, violations, trace }
    })
}

/// Run of one seed.
pub(crate) struct Run {
    model: Arc<Mutex<Model>>,
    sites: Arc<BTreeMap<String, Arc<Site>>>,
    config: Config,
    disk: Disk,
    dice: Dice,
    numbers: Numbers,
    observer: Arc<Observer>,
    client: Arc<Mutex<Client>>,
    process: Option<Process>,
    processes: u32,
    bug: Option<Bug>,
    /// Whether some changes give no watch event.
    silent: bool,
}

impl Run {
    async fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut dice = Dice::new(seed, "plan");
        let remotes = ["east", "west"];
        let count = 1 + dice.below(remotes.len());
        let names = std::iter::once(HOME).chain(remotes.into_iter().take(count));
        let frozen = FrozenSites::default();
        let truth = |(number, name): (usize, &str)| {
            let shared = (Arc::clone(&frozen), bug);
            let truth = ClusterTruth::new(name, number as u8 + 1, Dice::new(seed, name), shared);
            (name.to_owned(), truth)
        };
        let clusters: BTreeMap<String, ClusterTruth> = names.enumerate().map(truth).collect();
        let sites = clusters.iter().map(|(name, truth)| (name.clone(), Arc::clone(&truth.site))).collect();
        let (silent, slow_probes) = (dice.percent(10), dice.percent(75));
        let probe = Duration::from_secs(if slow_probes { 60 } else { 30 });
        let model = Arc::new(Mutex::new(Model::new(clusters, probe)));
        let client = Client::new(Dice::new(seed, "client"), bug);
        model.lock().note(&format!("client {:?}", client.variant()));
        let client = Arc::new(Mutex::new(client));
        let mut run = Self {
            observer: Observer::new(Arc::clone(&model), Arc::clone(&client)),
            client,
            model,
            sites: Arc::new(sites),
            config: config(silent, probe),
            disk: Disk::default(),
            dice,
            numbers: Numbers(seed),
            process: None,
            processes: 0,
            bug,
            silent,
        };
        run.populate();
        run.start().await;
        run
    }
    /// Writes the first endpoints and claims.
    fn populate(&mut self) {
        let mut guard = self.model.lock();
        let model = &mut *guard;
        model.clusters[HOME].allow(HOME_TOKEN);
        let home = model.clusters[HOME].site.clone();
        for (name, truth) in &mut model.clusters {
            for service in ["pay", "cart"] {
                for _ in 0..1 + self.dice.below(3) {
                    truth.add_endpoint(service, self.dice.percent(40), false);
                }
            }
            if name != HOME {
                let token = model.roster.token(name);
                truth.allow(&token);
                let claim = Kubeconfig::For { site: name.clone(), token };
                model.roster.set_first(&home, name, Some(claim));
            }
        }
    }
    /// Starts a process on the disk.
    async fn start(&mut self) {
        self.processes += 1;
        self.observer = Observer::new(Arc::clone(&self.model), Arc::clone(&self.client));
        let committed = {
            let model = Arc::clone(&self.model);
            move || model.lock().committed()
        };
        let (sites, number) = (Arc::clone(&self.sites), self.processes);
        let start = Start { config: &self.config, sites, number, bug: self.bug };
        let (observer, model) = (Arc::clone(&self.observer), Arc::clone(&self.model));
        let process = Process::start(start, &self.disk, observer, committed, |handle, platform| {
            self.observer.set_readiness(handle.readiness());
            model.lock().platform = Some(platform.clone());
        });
        self.process = Some(process.await);
    }
    async fn play(&mut self) {
        for _ in 0..STEPS {
            let step = {
                let model = self.model.lock();
                Step::next(&mut self.dice, &model, (self.silent, self.bug))
            };
            self.model.lock().note(&format!("{step:?}"));
            self.act(step).await;
            let pause = self.dice.millis(150);
            tokio::time::sleep(pause).await;
            self.check().await;
            if !self.model.lock().violations.is_empty() {
                return;
            }
        }
        self.converge().await;
    }
    /// Checks the invariants that time can break.
    async fn check(&self) {
        self.observer.look();
        let shown = self.shown().await;
        of_step(&mut self.model.lock(), &shown);
    }
    /// Returns the clusters as the admin surface shows them.
    async fn shown(&self) -> Vec<Shown> {
        let Some(process) = &self.process else { return Vec::new() };
        let mut registries = process.handle.inspect(|core| core.status()).await.unwrap_or_default();
        if self.bug == Some(Bug::RestoredAsLive) {
            show_restored_as_live(&mut registries, process.clock.now());
        }
        let report = ClusterReport {
            view: &process.board.view(),
            configured: &configured(&self.config),
            registries: &registries,
            runs: &process.handle.runs(),
            counts: &RegistryCounts::default(),
            objects: &BTreeMap::new(),
            bound: bound(&self.config),
            now: process.clock.now(),
            wall: Timestamp::UNIX_EPOCH,
        };
        let shown = |item: tributary_app::document::clusters::ClusterItem| Shown {
            name: item.name,
            state: item.state,
            reason: item.reason,
        };
        report.items().into_iter().map(shown).collect()
    }
    fn handle(&self) -> &tributary_runtime::Handle {
        &self.process.as_ref().expect("a process runs").handle
    }
    async fn wait(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Returns the configuration. Lost events need frequent audits, so that a run is short.
fn config(silent: bool, probe: Duration) -> Config {
    let audit = if silent { ", auditInterval: 60s" } else { "" };
    let probe = probe.as_secs();
    let text = format!(
        "{{clusterId: {HOME}, systemNamespace: tributary-system, \
         remotes: {{secrets: on, leaveGrace: 30s, drain: 5s}}, \
         registries: [{{kind: kubernetes, name: {HOME}, clusterId: {HOME}, probeInterval: {probe}s{audit}}}]}}"
    );
    serde_saphyr::from_str(&text).expect("a configuration")
}
