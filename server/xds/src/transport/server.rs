//! The server: shared state, listeners and shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tributary_model::{Catalog, CatalogChanges, ClusterId, Mono, ObservedSince};

use super::debug::{DebugAccess, MAX_PAGES};
use super::inbound::InboundBudget;
use super::tls::Tls;
use super::{ads, connection};
use crate::answers::ResourceProvider;
use crate::counters::Counters;
use crate::interest::InterestIndex;
use crate::push_recorder::PushRecorder;
use crate::session::{Env, STUCK};
use crate::source::{CatalogSource, ClientFacts};
use crate::table::ClientTable;
use crate::token::TokenReviewer;
use crate::work::Workers;

/// Bounds and deadlines of the transport (docs/reference/xds.md#limits).
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most connections at once; more are closed on accept.
    pub connections: usize,
    /// Most streams at once on one connection.
    pub streams_per_connection: u32,
    /// Time limit of the TLS handshake, and then of the first stream.
    pub handshake: Duration,
    /// Time limit of a stream's first request.
    pub first_message: Duration,
    /// Time limit of a message after its beginning.
    pub message: Duration,
    /// Time limit of a response that the client does not read.
    pub stuck: Duration,
    /// Most bytes of unfinished and decoded requests, over all streams.
    pub inbound: usize,
    /// Interval of HTTP/2 pings on an idle connection.
    pub keepalive: Duration,
    /// Time limit of a ping's answer.
    pub keepalive_timeout: Duration,
    /// Maximum age of a connection, plus or minus a tenth; `None` for no limit.
    pub max_age: Option<Duration>,
    /// Period over which the streams of an ending connection or server end.
    pub spread: Duration,
    /// Additional time for an ending connection.
    pub grace: Duration,
    /// Interval at which a health watch checks readiness.
    pub health_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 20_000,
            streams_per_connection: 1_024,
            handshake: seconds(10),
            first_message: seconds(10),
            message: seconds(30),
            stuck: STUCK,
            inbound: 512 << 20,
            keepalive: seconds(30),
            keepalive_timeout: seconds(10),
            max_age: Some(seconds(1800)),
            spread: seconds(2),
            grace: seconds(10),
            health_interval: seconds(1),
        }
    }
}

/// State that all connections and streams of a server share.
pub(crate) struct Shared {
    pub(crate) env: Arc<Env>,
    pub(crate) source: Arc<dyn CatalogSource>,
    pub(crate) facts: Arc<dyn ClientFacts>,
    pub(crate) interest: Arc<InterestIndex>,
    pub(crate) clients: Arc<ClientTable>,
    pub(crate) limits: Limits,
    /// Cluster of clients that name none.
    pub(crate) cluster: Option<ClusterId>,
    /// Who may ask for the pages about clients; `None` for no client.
    pub(crate) debug: Option<DebugAccess>,
    /// Reviews tokens of clients; `None` takes none.
    pub(crate) tokens: Option<Arc<dyn TokenReviewer>>,
    /// Permits for such answers.
    pub(crate) pages: Arc<Semaphore>,
    pub(crate) inbound: Arc<InboundBudget>,
    pub(crate) workers: Workers,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) next_client: AtomicU64,
    connections: Arc<Semaphore>,
    epoch: Instant,
    random: AtomicU64,
}

impl Shared {
    pub(crate) fn now(&self) -> Mono {
        Mono::START.plus(self.epoch.elapsed())
    }
    pub(crate) fn instant(&self, at: Mono) -> Instant {
        self.epoch + at.since(Mono::START)
    }
    /// Returns a random duration up to this long.
    pub(crate) fn jitter(&self, up_to: Duration) -> Duration {
        // SplitMix64: the caller passes the seed, so a run can be repeated.
        let step = 0x9e37_79b9_7f4a_7c15u64;
        let mut z = self.random.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        up_to.mul_f64(((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64)
    }
    /// Returns this duration, plus or minus a tenth.
    pub(crate) fn jittered(&self, about: Duration) -> Duration {
        about.mul_f64(0.9) + self.jitter(about.mul_f64(0.2))
    }
}

/// Builds a server.
pub struct XdsServerBuilder {
    answers: Arc<dyn ResourceProvider>,
    source: Arc<dyn CatalogSource>,
    facts: Arc<dyn ClientFacts>,
    limits: Limits,
    cluster: Option<ClusterId>,
    debug: Option<DebugAccess>,
    tokens: Option<Arc<dyn TokenReviewer>>,
    recorder: Option<Arc<dyn PushRecorder>>,
    epoch: Instant,
    seed: u64,
}

impl XdsServerBuilder {
    /// Sets the receiver of client facts.
    #[must_use]
    pub fn facts(self, facts: Arc<dyn ClientFacts>) -> Self {
        Self { facts, ..self }
    }
    /// Sets bounds and deadlines.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
    /// Sets the cluster of clients that name none.
    #[must_use]
    pub fn cluster(self, cluster: Option<ClusterId>) -> Self {
        Self { cluster, ..self }
    }
    /// Sets who may ask for `istio.io/debug/syncz` and `config_dump`; without it no client.
    #[must_use]
    pub fn debug(self, access: DebugAccess) -> Self {
        Self { debug: Some(access), ..self }
    }
    /// Takes tokens of service accounts from clients: each client must then prove an identity, by a token or a certificate.
    #[must_use]
    pub fn tokens(self, reviewer: Arc<dyn TokenReviewer>) -> Self {
        Self { tokens: Some(reviewer), ..self }
    }
    /// Sets the receiver of responses that carry changes, and of their answers.
    #[must_use]
    pub fn recorder(self, recorder: Option<Arc<dyn PushRecorder>>) -> Self {
        Self { recorder, ..self }
    }
    /// Sets the start of running time, which the whole process shares.
    #[must_use]
    pub fn epoch(self, epoch: Instant) -> Self {
        Self { epoch, ..self }
    }
    /// Seeds the jitter.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
    /// Builds the server; it does not listen yet.
    #[must_use]
    pub fn build(self) -> XdsServer {
        let mut env = Env::new(self.answers, Arc::new(Counters::default()), self.limits.stuck);
        env.recorder = self.recorder;
        let env = Arc::new(env);
        let shared = Arc::new(Shared {
            env,
            source: self.source,
            facts: self.facts,
            interest: Arc::default(),
            clients: Arc::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            next_client: AtomicU64::new(1),
            connections: Arc::new(Semaphore::new(self.limits.connections)),
            inbound: Arc::new(InboundBudget::new(self.limits.inbound)),
            workers: Workers::default(),
            limits: self.limits,
            cluster: self.cluster,
            debug: self.debug,
            tokens: self.tokens,
            pages: Arc::new(Semaphore::new(MAX_PAGES)),
            epoch: self.epoch,
            random: AtomicU64::new(self.seed),
        });
        XdsServer { routes: ads::routes(&shared), shared }
    }
}

/// Serves xDS. Cheap to clone: clones share the server.
#[derive(Clone)]
pub struct XdsServer {
    shared: Arc<Shared>,
    routes: Routes,
}

impl std::fmt::Debug for XdsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XdsServer").field("clients", &self.shared.clients.len()).finish_non_exhaustive()
    }
}

impl XdsServer {
    /// Creates a builder over a resource provider and a catalog source.
    #[must_use]
    pub fn builder(answers: Arc<dyn ResourceProvider>, source: Arc<dyn CatalogSource>) -> XdsServerBuilder {
        XdsServerBuilder {
            answers,
            source,
            facts: Arc::new(()),
            limits: Limits::default(),
            cluster: None,
            debug: None,
            tokens: None,
            recorder: None,
            epoch: Instant::now(),
            seed: 0,
        }
    }
    /// Serves a bound listener in tasks of its own, until the server is drained.
    pub fn listen(&self, listener: TcpListener, tls: Option<Arc<Tls>>) -> Listening {
        let (shared, routes) = (Arc::clone(&self.shared), self.routes.clone());
        let task = self.shared.tasks.spawn(accept(shared, routes, listener, tls));
        Listening { task }
    }
    /// Wakes the streams that a published generation may concern, and returns their number. `observed` is
    /// when its changes were first known. Call it after the source returns the generation, from one task.
    pub fn published(
        &self,
        catalog: &Arc<Catalog>,
        changed: &CatalogChanges,
        observed: ObservedSince,
    ) -> usize {
        self.shared.env.counters.pushes.triggered(changed);
        self.shared.interest.published(catalog, changed, observed)
    }
    /// Whether streams were woken that have not handled the wake-up yet. A client that does not read
    /// counts only until its stream has looked at the generation, so it delays nothing else.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.shared.interest.waiting() > 0
    }
    /// Returns the bytes of requests that are unfinished or not handled yet.
    #[must_use]
    pub fn inbound_bytes(&self) -> usize {
        self.shared.inbound.held()
    }
    /// Returns the connected clients.
    #[must_use]
    pub fn clients(&self) -> &Arc<ClientTable> {
        &self.shared.clients
    }
    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.env.counters
    }
    /// Returns the index of streams by the changes that wake them.
    #[must_use]
    pub fn interest(&self) -> &Arc<InterestIndex> {
        &self.shared.interest
    }
    /// Returns running time, as sessions use it.
    #[must_use]
    pub fn now(&self) -> Mono {
        self.shared.now()
    }
    /// Stops accepting, ends all streams over [`Limits::spread`] and waits for them for at most this long.
    /// Returns whether all have ended; the remaining ones end with the runtime.
    pub async fn drain(&self, deadline: Duration) -> bool {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        timeout(deadline, self.shared.tasks.wait()).await.is_ok()
    }
}

/// A listener that is being served.
#[derive(Debug)]
pub struct Listening {
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    /// Waits until the listener is closed.
    pub async fn closed(self) {
        let _ = self.task.await;
    }
}

async fn accept(shared: Arc<Shared>, routes: Routes, listener: TcpListener, tls: Option<Arc<Tls>>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => return,
        };
        let Ok((tcp, address)) = accepted else {
            // Most likely out of file descriptors: retry later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&shared.connections).try_acquire_owned() else {
            shared.env.counters.connections_refused.inc();
            continue;
        };
        shared.env.counters.connections.inc();
        let run = connection::run(Arc::clone(&shared), routes.clone(), (tcp, address), tls.clone());
        shared.tasks.spawn(async move {
            run.await;
            drop(permit);
        });
    }
}
