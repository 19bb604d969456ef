//! One process of the control plane: its runtime, its journal and the task of its remote clusters.
//!
//! [`Process::start`] does what the start of the server does, without its listeners. Dropping it is a kill: nothing more is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_app::config::Config;
use tributary_app::environment::Environment;
use tributary_app::ops::clusters::board::Board;
use tributary_app::ops::clusters::tries::Tries;
use tributary_app::ops::receipts::Receipts;
use tributary_app::telemetry::LogLevel;
use tributary_app::wiring::factories::Factories;
use tributary_app::wiring::journal::State;
use tributary_app::wiring::platform::Platform as _;
use tributary_app::wiring::sources::{Sources, Started, runtime_config};
use tributary_registry_api::{Clock, ProcessClock};
use tributary_runtime::{Fanout, Handle, Runtime};

use crate::bugs::Bug;
use crate::disk::{Disk, Opened, commit_always};
use crate::platform::Simulated;
use crate::site::Site;

/// Running process.
pub struct Process {
    /// Interface to the server.
    pub handle: Handle,
    /// Its platform.
    pub platform: Simulated,
    /// Receipts of removed clusters.
    pub receipts: Receipts,
    /// Remote clusters as the admin surface shows them.
    pub board: Board,
    /// Clock of the process.
    pub clock: Arc<dyn Clock>,
    _runtime: Runtime,
    _tasks: JoinSet<()>,
}

/// What a process starts with.
pub struct Start<'a> {
    /// Configuration.
    pub config: &'a Config,
    /// API servers by name.
    pub sites: Arc<BTreeMap<String, Arc<Site>>>,
    /// Number of the process.
    pub number: u32,
    /// Planted bug.
    pub bug: Option<Bug>,
}

impl Process {
    /// Starts a process on a disk. `committed` is called after each commit of the journal, and `begun` before anything is read.
    pub async fn start(
        Start { config, sites, number, bug }: Start<'_>,
        disk: &Disk,
        fanout: Arc<dyn Fanout>,
        committed: impl Fn() + Send + 'static,
        begun: impl FnOnce(&Handle, &Simulated),
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ProcessClock::starting_now());
        let platform = Simulated::new(sites, number, bug);
        let factories = Factories::on(Arc::new(platform.clone()), Environment::default());
        let mut tasks = JoinSet::new();
        let opened = disk.open(&clock);
        let (state, kept) = match opened {
            Some(Opened { state, kept, steps }) => {
                tasks.spawn(commit_always(steps, state.clone(), committed));
                (state, kept)
            }
            None => (State::none(), tributary_app::wiring::journal::Kept::none()),
        };
        let runtime_config = runtime_config(config, &platform.process());
        let runtime = Runtime::start(runtime_config, Arc::clone(&clock), fanout, state.sink());
        let (handle, board, receipts) = (runtime.handle(), Board::default(), Receipts::default());
        begun(&handle, &platform);
        let sources =
            Sources { config, file: None, factories, log: LogLevel::default(), receipts: receipts.clone() };
        // no operator tries clusters here
        let (_, requests) = Tries::new(|_| Vec::new());
        let started = sources.start((&handle, &clock), (&state, kept), (board.clone(), requests)).await;
        let Started { registries, remotes, names: _ } =
            started.unwrap_or_else(|error| panic!("the process did not start: {error}"));
        let stop = CancellationToken::new();
        if let Some(remotes) = remotes {
            tasks.spawn(async move {
                // the registries follow the configuration, which does not change here
                let _registries = registries;
                Box::pin(remotes.run(stop)).await;
            });
        }
        Self { handle, platform, receipts, board, clock, _runtime: runtime, _tasks: tasks }
    }
}
