//! Assembly of the server: configuration to factories, runtime, xDS and admin. Only this module depends on
//! every part.
//!
//! [`App`] is built, [`Bound`] has its ports, [`Server`] runs. Each step consumes the previous one, so
//! nothing is served before every check has passed.

pub mod certificates;
pub mod cluster;
pub mod config_source;
pub mod configured_credentials;
pub mod consul;
pub mod factories;
pub mod gateway_names;
pub mod journal;
pub mod platform;
pub mod registries;
mod remote_admin;
pub mod remotes;
pub mod runnable;
pub mod sources;
mod tokens;
pub mod xds;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tributary_dns::Dns;
use tributary_registry_api::{Clock, ProcessClock};
use tributary_runtime::Runtime;

use crate::admin::{Listener, Shared, Surface, router};
use crate::config::{Config, Loaded};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::ops::backend::LiveBackend;
use crate::ops::change_feed::ChangeFeed;
use crate::ops::clusters::board::Board;
use crate::ops::clusters::objects::ClusterObjects;
use crate::ops::clusters::tries::{ConfiguredTry, Tries};
use crate::ops::receipts::Receipts;
use crate::ops::removed::Removed;
use crate::ops::{catalog_log, change_feed, client_log, cluster_log, start_log, status_log};
use crate::profiler;
use crate::reload::{Layers, Reloader, Running};
use crate::telemetry::LogLevel;
use factories::Factories;
use journal::{Kept, State};
use remote_admin::RemoteAdmin;
use sources::{Sources, Started};
use xds::{BoundXds, Xds};

/// All parts, assembled and checked; no port is bound and no task runs.
pub struct App {
    loaded: Loaded,
    file: Option<PathBuf>,
    layers: Layers,
    factories: Factories,
    log: LogLevel,
    xds: Xds,
}

/// Addresses of the listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// xDS listener.
    pub xds: SocketAddr,
    /// Admin listener.
    pub admin: SocketAddr,
    /// Health listener.
    pub health: Option<SocketAddr>,
    /// Remote admin listener.
    pub remote_admin: Option<SocketAddr>,
}

/// All parts with their ports; requests are not answered yet.
pub struct Bound {
    app: App,
    xds: BoundXds,
    admin: Listener,
    health: Option<Listener>,
    remote: Option<RemoteAdmin>,
}

/// Running server.
pub struct Server {
    runtime: Runtime,
    live: Arc<LiveBackend>,
    xds: xds::Serving,
    tasks: TaskTracker,
    stop: CancellationToken,
    addresses: Addresses,
    drain: Duration,
}

impl App {
    /// Reads everything that the configuration names; binds no port.
    pub fn build(
        loaded: Loaded,
        file: Option<PathBuf>,
        layers: Layers,
        factories: Factories,
        log: LogLevel,
    ) -> Result<Self, CommandError> {
        runnable::check(&loaded, &factories)?;
        let xds = Xds::build(&loaded, factories.environment())?;
        Ok(Self { loaded, file, layers, factories, log, xds })
    }
    /// Binds every port or none.
    pub async fn bind(self) -> Result<Bound, CommandError> {
        let config = &self.loaded.config;
        let xds = BoundXds::bind(config.xds.listen).await?;
        let admin = Listener::bind("admin.listen", config.admin.listen).await?;
        let health = match config.health.listen {
            Some(address) => Some(Listener::bind("health.listen", address).await?),
            None => None,
        };
        let remote = RemoteAdmin::bind(&self.loaded).await?;
        Ok(Bound { app: self, xds, admin, health, remote })
    }
}

impl Bound {
    /// Addresses of the listeners.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses {
            xds: self.xds.address,
            admin: self.admin.address,
            health: self.health.as_ref().map(|listener| listener.address),
            remote_admin: self.remote.as_ref().map(|remote| remote.listener.address),
        }
    }
    /// Starts every task: the core first, then its clients, then the registries.
    pub async fn start(self) -> Result<Server, CommandError> {
        let addresses = self.addresses();
        let config = self.app.loaded.config.clone();
        let epoch = tokio::time::Instant::now();
        let clock: Arc<dyn Clock> = Arc::new(ProcessClock::starting_now());
        let fanout = self.app.xds.fanout();
        let (state, kept) = open_state(&config, self.app.factories.environment(), &clock).await?;
        let process = self.app.factories.platform().process();
        let runtime = Runtime::start(
            sources::runtime_config(&config, &process),
            Arc::clone(&clock),
            fanout,
            state.sink(),
        );
        let handle = runtime.handle();
        let istio = self.app.loaded.istio.clone();
        let running = Arc::new(Running::new(self.app.loaded, self.app.file.clone()));
        let board = Board::default();
        let (tries, requests) = Tries::new(tries(self.app.factories.clone()));
        let (xds, sessions) =
            self.app.xds.start(self.xds, (&handle, &clock, epoch), (&running, self.app.factories.live()));
        let live = Arc::new(LiveBackend {
            name: host_name(),
            handle: handle.clone(),
            running: Arc::clone(&running),
            sessions,
            clock: Arc::clone(&clock),
            state: state.clone(),
            receipts: receipts(&state).await,
            remotes: board.clone(),
            tries,
            objects: ClusterObjects::default(),
            changes: ChangeFeed::default(),
            timeline: running.timeline().clone(),
            removed: Removed::default(),
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        if let Some(directory) = state.directory.as_deref().filter(|_| config.admin.profile) {
            profiler::spill_to(directory);
        }
        tasks.spawn(live.objects.clone().follow(handle.clone(), stop.clone()));
        if let Some(traces) = live.sessions.traces.clone() {
            tasks.spawn(traces.run(stop.clone()));
        }
        for (listener, surface) in [(Some(self.admin), Surface::Admin), (self.health, Surface::Health)] {
            let Some(listener) = listener else { continue };
            let shared = Shared::new(Arc::<LiveBackend>::clone(&live), surface).until(stop.clone());
            let shared = shared.with_profiles(config.admin.profile);
            tasks.spawn(listener.serve(router(shared), stop.clone()));
        }
        let access = remote_admin::access(&config, (&handle, self.app.factories.live()), &clock);
        if let (Some(remote), Some(access)) = (self.remote, access) {
            let shared = Shared::new(Arc::<LiveBackend>::clone(&live), Surface::Remote).until(stop.clone());
            let shared = shared.with_profiles(config.admin.profile);
            remote.serve(shared.with_remote(access), &running, &tasks, &stop);
        }
        let credentials = (self.app.factories.clone(), Arc::clone(&running));
        let sources = Sources {
            config: &config,
            file: self.app.file.clone(),
            factories: self.app.factories,
            log: self.app.log,
            receipts: live.receipts.clone(),
        };
        let Started { registries, remotes, names } =
            sources.start((&handle, &clock), (&state, kept), (board, requests)).await?;
        let lookup = Arc::new(Dns { servers: config.dns.servers.clone() });
        tasks.spawn(names.run((handle.clone(), Arc::clone(&clock)), lookup, stop.clone()));
        if let Some(remotes) = remotes {
            tasks.spawn(remotes.run(stop.clone()));
        }
        if let Some(path) = self.app.file {
            let (layers, apply) = (self.app.layers, Arc::new(registries));
            let reloader = Reloader { path, layers, running, apply, seed: u64::from(std::process::id()) };
            tasks.spawn(reloader.run(stop.clone()));
        }
        start_log::at_start(&config, &addresses, &istio);
        tasks.spawn(start_log::when_ready(handle, stop.clone()));
        tasks.spawn(status_log::run(Arc::clone(&live), stop.clone()));
        tasks.spawn(cluster_log::run(Arc::clone(&live), stop.clone()));
        tasks.spawn(change_feed::run(Arc::clone(&live), stop.clone()));
        let timeline = || live.timeline.clone();
        tasks.spawn(catalog_log::run(Arc::clone(&live), stop.clone()));
        tasks.spawn(client_log::run(Arc::clone(&live.sessions), timeline(), stop.clone()));
        tasks.spawn(configured_credentials::run(
            credentials.0,
            credentials.1,
            live.remotes.clone(),
            stop.clone(),
        ));
        Ok(Server { runtime, live, xds, tasks, stop, addresses, drain: config.drain.timeout.get() })
    }
}

impl Server {
    /// Addresses of the listeners.
    #[must_use]
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }
    /// Backend of the admin surface.
    #[must_use]
    pub const fn live(&self) -> &Arc<LiveBackend> {
        &self.live
    }
    /// Serves until `until` completes, then drains; fails if the core task fails.
    pub async fn run(mut self, until: impl Future<Output = ()>) -> Result<Exit, CommandError> {
        let failed = tokio::select! {
            () = until => false,
            () = self.runtime.failed() => true,
        };
        if failed {
            tracing::error!("critical task ended; shutting down");
        } else {
            tracing::info!(within = ?self.drain, "draining");
        }
        self.stop().await;
        if failed { Err(CommandError::plain("the server failed; see its log")) } else { Ok(Exit::Ok) }
    }
    /// Ends readiness first, then streams, then sources, then the admin surface, so that the shutdown can be
    /// observed.
    pub async fn stop(self) {
        self.xds.drain(self.drain).await;
        let registries = self.live.kinds().len();
        self.runtime.stop().await;
        tracing::info!(registries, "registries stopped");
        self.live.state.flush().await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.drain, self.tasks.wait()).await.is_err() {
            tracing::warn!("open admin requests aborted");
        }
        tracing::info!("server stopped");
    }
}

/// Reads the receipts of earlier processes, if state is kept.
async fn receipts(state: &State) -> Receipts {
    let Some(directory) = state.directory.clone().filter(|_| state.fault.is_none()) else {
        return Receipts::default();
    };
    tokio::task::spawn_blocking(move || Receipts::kept_in(&directory)).await.unwrap_or_default()
}

/// Opens the journal on a blocking thread.
async fn open_state(
    config: &Config,
    env: &Environment,
    clock: &Arc<dyn Clock>,
) -> Result<(State, Kept), CommandError> {
    let (config, env, clock) = (config.clone(), env.clone(), Arc::clone(clock));
    let opening = tokio::task::spawn_blocking(move || State::open(&config, &env, clock));
    opening
        .await
        .map_err(|error| CommandError::plain(format!("opening the state directory failed: {error}")))?
}

/// Returns a function that returns the clusters of a configuration and opens their connections as their registries do.
fn tries(factories: Factories) -> impl Fn(&Config) -> Vec<ConfiguredTry> {
    move |config| {
        let clusters = factories.clusters(config).unwrap_or_default();
        let one = |cluster: cluster::Cluster| ConfiguredTry {
            cluster: cluster.options.cluster.to_string(),
            open: Box::new(move || cluster.open()),
        };
        clusters.into_iter().map(one).collect()
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "tributary".to_owned() } else { name.to_owned() }
}
