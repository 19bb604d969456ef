//! Starts and ends the task tree.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tributary_core::{Core, CoreConfig};
use tributary_model::{CatalogChanges, ObservedSince};
use tributary_registry_api::{BackoffPolicy, Clock, Wake};

use crate::change_recorder::ChangeTrace;
use crate::core_task::CoreTask;
use crate::core_task::pace::{Pace, PacePolicy};
use crate::core_task::receivers::RunReceivers;
use crate::counters::RuntimeCounters;
use crate::fanout::{Fanout, FanoutTask};
use crate::handle::Handle;
use crate::journal::JournalSink;
use crate::published_catalog::PublishedCatalog;
use crate::readiness::{Readiness, StartFacts, StartRule};
use crate::report::Reports;
use crate::status_changes::StatusFeed;
use crate::supervisor::{Supervisor, SupervisorConfig};

/// Most commands that may wait for the core task.
const MAX_COMMANDS: usize = 1024;

/// Configuration of a runtime.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// Configuration of the core.
    pub core: CoreConfig,
    /// Rate of publications.
    pub pace: PacePolicy,
    /// Delays before a registry's next run.
    pub backoff: BackoffPolicy,
    /// Time that a run may take to stop before it is dropped.
    pub stop_grace: Duration,
    /// When the server may begin to serve.
    pub start: StartRule,
    /// Seed of the jitter in backoffs.
    pub seed: u64,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            core: CoreConfig::default(),
            pace: PacePolicy::default(),
            backoff: BackoffPolicy::default(),
            stop_grace: Duration::from_secs(5),
            start: StartRule::default(),
            seed: 0,
        }
    }
}

/// The running task tree. Dropping it ends every task in it.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    tasks: JoinSet<()>,
    stop_registries: CancellationToken,
    stop_rest: CancellationToken,
    _guards: [DropGuard; 2],
}

impl Runtime {
    /// Spawns the core task, the fan-out and the supervisor on the current tokio runtime.
    #[must_use]
    pub fn start(
        config: RuntimeConfig,
        clock: Arc<dyn Clock>,
        fanout: Arc<dyn Fanout>,
        journal: Box<dyn JournalSink>,
    ) -> Self {
        let (published, wake, counters) =
            (Arc::new(PublishedCatalog::new()), Wake::default(), Arc::<RuntimeCounters>::default());
        let (commands, command_receiver) = mpsc::channel(MAX_COMMANDS);
        let readiness = watch::Sender::new(Readiness { ready: None, unknown: config.start.known.clone() });
        let (stop_registries, stop_rest) = (CancellationToken::new(), CancellationToken::new());
        let statuses = StatusFeed::default();
        let mut tasks = JoinSet::new();
        let seen = readiness.subscribe();
        let core_task = CoreTask {
            core: first_core(config.core, &config.start),
            receivers: RunReceivers::default(),
            pace: Pace::new(config.pace),
            published: Arc::clone(&published),
            recorder: fanout.recorder(),
            trace: ChangeTrace::default(),
            fanout: Arc::clone(&fanout),
            clock: Arc::clone(&clock),
            wake: Arc::clone(&wake),
            commands: command_receiver,
            journal,
            counters: Arc::clone(&counters),
            statuses: statuses.clone(),
            rule: config.start,
            start: StartFacts::default(),
            readiness,
            adoptions: std::collections::BTreeMap::new(),
            unpublished: CatalogChanges::default(),
            observed: ObservedSince::default(),
        };
        tasks.spawn(core_task.run(stop_rest.clone()));
        let fanout = FanoutTask {
            published: Arc::clone(&published),
            fanout,
            clock: Arc::clone(&clock),
            wake: Arc::clone(&wake),
            counters: Arc::clone(&counters),
        };
        tasks.spawn(fanout.run(stop_rest.clone()));
        let supervisor =
            SupervisorConfig { backoff: config.backoff, stop_grace: config.stop_grace, seed: config.seed };
        let reports = Reports::new(statuses.clone());
        let (supervisor, members) = Supervisor::new(
            supervisor,
            commands.clone(),
            Arc::clone(&clock),
            Arc::clone(&wake),
            Arc::clone(&counters),
            reports.clone(),
        );
        tasks.spawn(supervisor.run(stop_registries.clone()));
        let handle = Handle {
            published,
            commands,
            members,
            readiness: seen,
            counters,
            reports,
            statuses,
            clock,
            wake,
        };
        let guards = [stop_registries.clone().drop_guard(), stop_rest.clone().drop_guard()];
        Self { handle, tasks, stop_registries, stop_rest, _guards: guards }
    }
    /// Returns an interface to the server; clones are cheap, and calls after the end return errors.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
    /// Completes when one of the tasks ends, which happens only by a fault: a server without its core task
    /// must stop.
    pub async fn failed(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            if ended.is_err() {
                return;
            }
        }
    }
    /// Stops the registries, each with its grace, then the rest, and waits for all of it.
    pub async fn stop(mut self) {
        self.stop_registries.cancel();
        self.handle.members_stopped().await;
        self.stop_rest.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Returns the core of a start. One that awaits its membership knows none from the beginning: it may have no registry that it waits for.
fn first_core(config: CoreConfig, start: &StartRule) -> Core {
    let mut core = Core::new(config);
    if start.awaits_membership {
        // without a registry there is nothing to publish
        let _ = core.set_membership_known(false);
    }
    core
}
