//! Sees every catalog as clients would, and the truth at the same moment.
//!
//! The runtime calls it as its fan-out. [`Model`] holds the truth and what was seen; the runner changes it between two publications.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tributary_model::{Catalog, CatalogChanges, Generation, ObservedSince};
use tributary_runtime::{Fanout, Readiness, ReadyBecause};

use crate::client::Client;
use crate::invariants;
use crate::platform::Simulated;
use crate::secrets::Roster;
use crate::served::{Endpoint, Served, generations};
use crate::world::{ClusterTruth, HOME};

/// Invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the invariant.
    pub invariant: &'static str,
    /// Time since the start.
    pub at: Duration,
    /// What was seen.
    pub text: String,
}

/// What a commit of the journal holds.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// Served addresses.
    pub served: Served,
    /// Addresses that had gone.
    pub gone: BTreeSet<(String, Endpoint)>,
}

/// The truth, and what clients saw of it.
pub struct Model {
    /// Clusters by name.
    pub clusters: BTreeMap<String, ClusterTruth>,
    /// Declarations of remote clusters.
    pub roster: Roster,
    /// Invariants that did not hold.
    pub violations: Vec<Violation>,
    /// Steps and publications in order.
    pub trace: Vec<String>,
    /// What clients saw last.
    pub seen: Served,
    /// Addresses that clients saw go.
    pub gone: BTreeSet<(String, Endpoint)>,
    /// Last two commits.
    pub commits: VecDeque<Commit>,
    /// What is served, whether clients are answered or not.
    pub served: Served,
    /// Served runs of the last catalog.
    pub generations: BTreeMap<String, Generation>,
    /// Clusters whose facts the process has from its journal.
    pub restored: BTreeSet<String>,
    /// Platform of the process.
    pub platform: Option<Simulated>,
    /// Whether clients are answered.
    pub is_ready: bool,
    /// When the process started.
    pub process_start: Instant,
    /// When the process that had served restarted last without its journal.
    pub forgot: Option<Instant>,
    /// Start of the simulation.
    pub start: Instant,
    /// Interval of the product's probes.
    pub probe: Duration,
    /// Whether a kind could not be read for a time, so that attributes can come late.
    pub was_impaired: bool,
    /// Hosts that changed for clients since the last call of [`Model::take_changes`].
    changes: BTreeSet<String>,
}

impl Model {
    /// Creates the model of these clusters, which are probed at this interval.
    #[must_use]
    pub fn new(clusters: BTreeMap<String, ClusterTruth>, probe: Duration) -> Self {
        Self {
            clusters,
            roster: Roster::default(),
            violations: Vec::new(),
            trace: Vec::new(),
            seen: Served::default(),
            gone: BTreeSet::new(),
            commits: VecDeque::new(),
            served: Served::default(),
            generations: BTreeMap::new(),
            restored: BTreeSet::new(),
            platform: None,
            is_ready: false,
            process_start: Instant::now(),
            forgot: None,
            start: Instant::now(),
            probe,
            was_impaired: false,
            changes: BTreeSet::new(),
        }
    }
    /// Notes an invariant that does not hold.
    pub fn violated(&mut self, invariant: &'static str, text: String) {
        let at = self.start.elapsed();
        self.note(&format!("VIOLATED {invariant}: {text}"));
        self.violations.push(Violation { invariant, at, text });
    }
    /// Adds a line to the trace.
    pub fn note(&mut self, line: &str) {
        self.trace.push(format!("{:>9.3} {line}", self.start.elapsed().as_secs_f64()));
    }
    /// Returns the hosts that changed for clients since the last call.
    pub fn take_changes(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changes)
    }
    /// Notes a commit of the journal.
    pub fn committed(&mut self) {
        let commit = Commit { served: self.served.clone(), gone: self.gone.clone() };
        self.commits.push_back(commit);
        while self.commits.len() > 2 {
            self.commits.pop_front();
        }
    }
    /// Notes that a new process starts. `is_lost`: what the disk held may be gone.
    pub fn restarted(&mut self) {
        self.is_ready = false;
        self.served = Served::default();
        self.generations.clear();
        self.restored.clear();
        self.process_start = Instant::now();
        self.gone = self.commits.front().map(|commit| commit.gone.clone()).unwrap_or_default();
        self.clusters.values().for_each(|cluster| cluster.site.forget_delivered());
    }
    /// Returns what clients saw of clusters that are still declared: a process without a journal knows no others. A kind that may not be
    /// read counts as listed for the start; one that fails does not.
    fn declared(&self) -> Served {
        let has_claim = |name: &String| {
            name == HOME || self.roster.claims.get(name).is_some_and(|claims| claims.best().is_some())
        };
        let may_read = |name: &String| !self.clusters[name].is_restricted;
        let kept = self.seen.0.iter().filter(|(name, _)| has_claim(name) && may_read(name));
        Served(kept.map(|(name, all)| (name.clone(), all.clone())).collect())
    }
    fn published(&mut self, catalog: &Catalog, readiness: &Readiness) {
        let before = std::mem::replace(&mut self.served, Served::of(catalog));
        let runs = std::mem::replace(&mut self.generations, generations(catalog));
        self.forget_left(&runs);
        if before != self.served || runs != self.generations {
            let (count, runs) = (self.served.iter().count(), &self.generations);
            let line = format!("catalog {} of {count} addresses, runs {runs:?}", catalog.generation);
            self.note(&line);
        }
        invariants::of_catalog(self, &before, &runs);
        self.judge(readiness);
    }
    /// Forgets the runs of registries that left: another registry of the name counts its runs from the start.
    fn forget_left(&mut self, runs: &BTreeMap<String, Generation>) {
        for name in runs.keys().filter(|name| !self.generations.contains_key(*name)) {
            self.restored.remove(name);
            if let Some(platform) = &self.platform {
                platform.forget(name);
            }
        }
    }
    /// Compares what clients see with what they saw before.
    fn judge(&mut self, readiness: &Readiness) {
        let Some(because) = readiness.ready else { return };
        if !std::mem::replace(&mut self.is_ready, true) {
            self.note(&format!("ready: {because:?}"));
            self.seen = self.expected_after_start(because);
            self.restored.extend(
                self.served
                    .0
                    .keys()
                    .filter(|name| self.generations.get(*name) == Some(&Generation(0)))
                    .cloned(),
            );
        }
        let now = self.served.clone();
        invariants::of_change(self, &now);
        let went: Vec<_> =
            self.seen.iter().filter(|(cluster, one)| !now.has(cluster, one)).map(owned).collect();
        self.gone.extend(went);
        let left: Vec<String> =
            self.clusters.keys().filter(|name| now.cluster(name).is_empty()).cloned().collect();
        self.gone.retain(|(cluster, _)| !left.contains(cluster));
        self.seen = now;
    }
    /// Returns what a process must serve when it begins to answer.
    fn expected_after_start(&mut self, because: ReadyBecause) -> Served {
        match because {
            ReadyBecause::Restored => {
                let mut commits = self.commits.iter().map(|commit| commit.served.clone());
                let first = commits.next().unwrap_or_default();
                commits.fold(first, |both, next| {
                    let kept = both.0.into_iter().map(|(cluster, all)| {
                        let in_next = next.cluster(&cluster);
                        (cluster, all.intersection(&in_next).cloned().collect())
                    });
                    Served(kept.collect())
                })
            }
            ReadyBecause::Synced => self.declared(),
            ReadyBecause::TimedOut => {
                self.forgot = Some(Instant::now());
                Served::default()
            }
        }
    }
}

fn owned((cluster, endpoint): (&str, &Endpoint)) -> (String, Endpoint) {
    (cluster.to_owned(), endpoint.clone())
}

/// Fan-out of a process.
pub struct Observer {
    model: Arc<Mutex<Model>>,
    /// Client that is connected to the process.
    client: Arc<Mutex<Client>>,
    /// Catalog of the last publication.
    last: Mutex<Arc<Catalog>>,
    readiness: Mutex<Option<watch::Receiver<Readiness>>>,
}

impl Observer {
    /// Creates the fan-out of a process that is about to start.
    #[must_use]
    pub fn new(model: Arc<Mutex<Model>>, client: Arc<Mutex<Client>>) -> Arc<Self> {
        client.lock().disconnect();
        Arc::new(Self { model, client, last: Mutex::default(), readiness: Mutex::new(None) })
    }
    /// Sets the readiness of the process, once it runs.
    pub fn set_readiness(&self, readiness: watch::Receiver<Readiness>) {
        *self.readiness.lock() = Some(readiness);
    }
    fn readiness(&self) -> Readiness {
        self.readiness.lock().as_ref().map(|readiness| readiness.borrow().clone()).unwrap_or_default()
    }
    /// Looks at the readiness, which can change without a publication.
    pub fn look(&self) {
        let readiness = self.readiness();
        let broken = self.client.lock().read(&self.last.lock(), readiness.is_ready());
        let mut model = self.model.lock();
        model.judge(&readiness);
        broken.into_iter().for_each(|(invariant, text)| model.violated(invariant, text));
    }
}

impl Fanout for Observer {
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        let readiness = self.readiness();
        *self.last.lock() = Arc::clone(catalog);
        let broken = self.client.lock().published((catalog, changed), observed, readiness.is_ready());
        let mut model = self.model.lock();
        if !changed.hosts.is_empty() {
            let hosts: Vec<&str> = changed.hosts.iter().map(|host| host.as_str()).collect();
            model.note(&format!("changed {}", hosts.join(" ")));
        }
        model.changes.extend(changed.hosts.iter().map(ToString::to_string));
        model.published(catalog, &readiness);
        broken.into_iter().for_each(|(invariant, text)| model.violated(invariant, text));
    }
}
