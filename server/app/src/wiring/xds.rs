//! xDS server over the runtime: receives catalog and readiness, wakes sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tributary_kube_client::LiveConnections;
use tributary_model::{Catalog, CatalogChanges, ClusterId, Namespace, ObservedSince};
use tributary_registry_api::Clock;
use tributary_runtime::{ChangeRecorder, Fanout, Handle};
use tributary_xds::answers::PatchedAnswers;
use tributary_xds::push_recorder::PushRecorder;
use tributary_xds::source::CatalogSource;
use tributary_xds::transport::{DebugAccess, DeferredServer, Limits, XdsServer};

use super::certificates::Certificates;
use super::tokens::ServedClusters;
use crate::admin::listener::cannot_bind;
use crate::config::traces::TraceSettings;
use crate::config::{Config, Loaded};
use crate::environment::Environment;
use crate::exit::CommandError;
use crate::ops::counts::ServedCounts;
use crate::ops::sessions::Sessions;
use crate::reload::Running;
use crate::serve::install_crypto;
use crate::tokens::Tokens;
use crate::traces::Traces;

/// xDS server before its port is bound.
pub struct Xds {
    tls: Option<Certificates>,
    later: DeferredServer,
    served: Arc<ServedCounts>,
    traces: Option<Arc<Traces>>,
}

/// Bound xDS address.
pub struct BoundXds {
    listener: TcpListener,
    /// Local address.
    pub address: SocketAddr,
}

/// Running xDS server.
pub struct Serving {
    server: XdsServer,
    sessions: Arc<Sessions>,
    stop: CancellationToken,
}

impl Xds {
    /// Reads certificates, and prepares traces if they are on.
    pub fn build(loaded: &Loaded, env: &Environment) -> Result<Self, CommandError> {
        let tls = Certificates::of(loaded)?;
        let settings = TraceSettings::of(&loaded.config.traces, env)
            .map_err(|(field, why)| CommandError::config(format!("{field}: {why}")))?;
        let start = |settings: TraceSettings| {
            // the client that sends them prepares TLS
            install_crypto();
            Traces::new(&settings, &super::host_name()).map(Arc::new)
        };
        let traces = settings.map(start).transpose()?;
        Ok(Self { tls, later: DeferredServer::default(), served: Arc::default(), traces })
    }
    /// Wakes the sessions of the server that starts later; before that there are none.
    #[must_use]
    pub fn fanout(&self) -> Arc<dyn Fanout> {
        Arc::new(Woken(self.later.clone(), Arc::clone(&self.served), self.traces.clone()))
    }
    /// Serves the bound address. `epoch` is the start of the process's clock.
    pub fn start(
        self,
        bound: BoundXds,
        (handle, clock, epoch): (&Handle, &Arc<dyn Clock>, Instant),
        (running, live): (&Arc<Running>, &LiveConnections),
    ) -> (Serving, Arc<Sessions>) {
        let (config, source) = (running.config(), Arc::new(Source(handle.clone())));
        let answers = Arc::<PatchedAnswers>::default();
        let mut builder = XdsServer::builder(Arc::<PatchedAnswers>::clone(&answers), source);
        if let Ok(system_namespace) = Namespace::new(&config.system_namespace) {
            builder = builder.debug(DebugAccess { system_namespace, name: super::host_name().into() });
        }
        let tokens = config.xds.tokens.as_ref().map(|tokens| {
            let clusters = ServedClusters { handle: handle.clone(), live: live.clone() };
            let time = (Arc::clone(clock), Timestamp::now as fn() -> Timestamp);
            Tokens::new(Arc::new(clusters), &tokens.audiences, time, u64::from(std::process::id()))
        });
        if let Some(tokens) = &tokens {
            builder = builder.tokens(Arc::new(tokens.clone()));
        }
        let server = builder
            .limits(limits(&config))
            .cluster(ClusterId::new(&config.cluster_id).ok())
            .epoch(epoch)
            .recorder(self.traces.clone().map(|traces| traces as Arc<dyn PushRecorder>))
            .seed(u64::from(std::process::id()))
            .build();
        // Set before the listener serves, so that no session misses a generation.
        self.later.set(&server);
        let tls = self.tls.as_ref().map(Certificates::tls);
        server.listen(bound.listener, tls);
        let sessions = Arc::new(Sessions {
            table: Arc::clone(server.clients()),
            counters: Arc::clone(server.counters()),
            served: self.served,
            answers,
            server: server.clone(),
            handle: handle.clone(),
            clock: Arc::clone(clock),
            draining: AtomicBool::new(false),
            traces: self.traces,
            tokens,
        });
        let stop = CancellationToken::new();
        if let Some(certificates) = self.tls {
            certificates.show(running);
            tokio::spawn(certificates.follow(Arc::clone(running), stop.clone()));
        }
        (Serving { server, sessions: Arc::clone(&sessions), stop }, sessions)
    }
}

impl BoundXds {
    /// Binds the address.
    pub async fn bind(address: SocketAddr) -> Result<Self, CommandError> {
        let fail = |e: std::io::Error| cannot_bind("xds.listen", address, &e);
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address })
    }
}

impl Serving {
    /// Announces the drain, then ends the streams within the timeout.
    pub async fn drain(&self, deadline: Duration) {
        let streams = self.sessions.table.len();
        self.sessions.draining.store(true, Ordering::Release);
        self.stop.cancel();
        if self.server.drain(deadline).await {
            tracing::info!(streams, "drained; every stream has ended");
        } else {
            let open = self.sessions.table.len();
            tracing::warn!(streams, open, "drain timeout reached; open streams aborted");
        }
    }
}

fn limits(config: &Config) -> Limits {
    let defaults = Limits::default();
    Limits {
        connections: usize::try_from(config.xds.max_connections).unwrap_or(usize::MAX),
        max_age: config.xds.max_connection_age.limit(),
        spread: defaults.spread.min(config.drain.timeout.get() / 2),
        ..defaults
    }
}

/// View of the runtime for sessions.
struct Source(Handle);

impl CatalogSource for Source {
    fn current(&self) -> Arc<Catalog> {
        self.0.catalog()
    }
    fn ready(&self) -> bool {
        self.0.readiness().borrow().is_ready()
    }
}

/// View of the sessions, and of the counts for metrics, for the runtime.
struct Woken(DeferredServer, Arc<ServedCounts>, Option<Arc<Traces>>);

impl Fanout for Woken {
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, observed: ObservedSince) {
        self.1.published(catalog, changed);
        self.0.published(catalog, changed, observed);
    }
    fn is_writing(&self) -> bool {
        self.0.is_writing()
    }
    fn recorder(&self) -> Option<Arc<dyn ChangeRecorder>> {
        self.2.clone().map(|traces| traces as Arc<dyn ChangeRecorder>)
    }
}
