//! Starts the task tree and ends it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tributary_core::{Core, CoreConfig};
use tributary_model::{CatalogChanges, ObservedSince};
use tributary_registry_api::{BackoffPolicy, Clock, Wake};

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
use crate::supervisor::{Supervisor, SupervisorConfig};

/// Orders that may wait for the pump.
const MOST_ORDERS: usize = 1024;

/// What a runtime is started with.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    /// The core's.
    pub core: CoreConfig,
    /// How publications are paced.
    pub pace: PacePolicy,
    /// How long a registry waits before its next run.
    pub backoff: BackoffPolicy,
    /// How long a run may take to stop before it is dropped.
    pub stop_grace: Duration,
    /// When the server may begin to serve.
    pub start: StartRule,
    /// Seeds the chance in backoffs.
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

/// The running task tree. Dropping it ends every task in it, whatever that task is doing.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    tasks: JoinSet<()>,
    stop_registries: CancellationToken,
    stop_rest: CancellationToken,
    _guards: [DropGuard; 2],
}

impl Runtime {
    /// Spawns the pump, the fan-out and the supervisor on the current tokio runtime.
    #[must_use]
    pub fn start(
        config: RuntimeConfig,
        clock: Arc<dyn Clock>,
        fanout: Arc<dyn Fanout>,
        journal: Box<dyn JournalSink>,
    ) -> Self {
        let (board, wake, counters) =
            (Arc::new(PublishedCatalog::new()), Wake::default(), Arc::<RuntimeCounters>::default());
        let (orders, orders_end) = mpsc::channel(MOST_ORDERS);
        let readiness = watch::Sender::new(Readiness { ready: None, unknown: config.start.known.clone() });
        let (stop_registries, stop_rest) = (CancellationToken::new(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let seen = readiness.subscribe();
        let pump = CoreTask {
            core: Core::new(config.core),
            feeds: RunReceivers::default(),
            pace: Pace::new(config.pace),
            board: Arc::clone(&board),
            fanout: Arc::clone(&fanout),
            clock: Arc::clone(&clock),
            wake: Arc::clone(&wake),
            orders: orders_end,
            journal,
            counters: Arc::clone(&counters),
            rule: config.start,
            start: StartFacts::default(),
            readiness,
            adoptions: std::collections::BTreeMap::new(),
            unpublished: CatalogChanges::default(),
            observed: ObservedSince::default(),
        };
        tasks.spawn(pump.run(stop_rest.clone()));
        let fanout = FanoutTask {
            board: Arc::clone(&board),
            fanout,
            clock: Arc::clone(&clock),
            wake: Arc::clone(&wake),
            counters: Arc::clone(&counters),
        };
        tasks.spawn(fanout.run(stop_rest.clone()));
        let supervisor =
            SupervisorConfig { backoff: config.backoff, stop_grace: config.stop_grace, seed: config.seed };
        let reports = Reports::default();
        let (supervisor, members) = Supervisor::new(
            supervisor,
            orders.clone(),
            Arc::clone(&clock),
            Arc::clone(&wake),
            Arc::clone(&counters),
            reports.clone(),
        );
        tasks.spawn(supervisor.run(stop_registries.clone()));
        let handle = Handle { board, orders, members, readiness: seen, counters, reports, clock, wake };
        let guards = [stop_registries.clone().drop_guard(), stop_rest.clone().drop_guard()];
        Self { handle, tasks, stop_registries, stop_rest, _guards: guards }
    }
    /// A way to everything that runs here; may be cloned, and outlives the runtime harmlessly.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
    /// Ends when one of the tasks does, which none does unless it is told to: a server whose pump
    /// has died must not go on as if it lived.
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
