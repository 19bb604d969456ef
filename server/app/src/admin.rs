//! Admin surface: health, metrics and the documents of `/debug`.
//!
//! Three listeners may serve it. The admin listener, always on loopback, has every route; so has the remote admin listener, on any
//! address, over TLS and for operators that prove themselves; the health listener, on any address, has health and metrics only. `routes` lists every route, and `check_access` checks every
//! request; anything else is refused.

pub mod about;
pub mod access;
pub mod backend;
mod connections;
pub mod console;
pub mod debug;
pub mod events;
pub mod health;
pub mod listener;
pub mod metrics;
pub mod profile;
pub mod remote;
pub mod resources;
pub mod routes;
pub mod state;

use std::sync::Arc;

use axum::Router;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use backend::{AdminBackend, Check, Readiness};
pub use console::FindingsCache;
pub use debug::ContestedCache;
pub use listener::Listener;
pub use remote::RemoteAccess;
pub use routes::{Access, ROUTES, Route};

/// Listener on which a request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Loopback: every route.
    Admin,
    /// Any address, over TLS: every route, for operators with rights.
    Remote,
    /// Any address: health and metrics.
    Health,
}

/// State that every handler receives.
#[derive(Clone)]
pub struct Shared {
    /// The running server.
    pub inside: Arc<dyn AdminBackend>,
    /// This listener.
    pub surface: Surface,
    /// Permits for answers in progress; further requests are refused.
    pub work: Arc<Semaphore>,
    /// Permits for requests that wait for a change.
    pub waits: Arc<Semaphore>,
    /// Permits for event streams.
    pub streams: Arc<Semaphore>,
    /// What services contest in the last generation that was listed.
    pub contested: Arc<ContestedCache>,
    /// Findings of the last checks.
    pub findings: Arc<FindingsCache>,
    /// Start of the server.
    pub started: Instant,
    /// End of the server: a request that waits is answered at once.
    pub stop: CancellationToken,
    /// Who may use the remote admin listener; only on that.
    pub remote: Option<Arc<RemoteAccess>>,
    /// Whether profiles are taken.
    pub profiles: bool,
}

impl Shared {
    /// Maximum number of documents in progress.
    pub const MAX_WORK: usize = 8;
    /// Maximum number of waiting requests.
    pub const MAX_WAITS: usize = 64;

    /// Maximum number of event streams.
    pub const MAX_STREAMS: usize = 32;

    /// Creates the state of one listener.
    #[must_use]
    pub fn new(inside: Arc<dyn AdminBackend>, surface: Surface) -> Self {
        Self {
            inside,
            surface,
            work: Arc::new(Semaphore::new(Self::MAX_WORK)),
            waits: Arc::new(Semaphore::new(Self::MAX_WAITS)),
            streams: Arc::new(Semaphore::new(Self::MAX_STREAMS)),
            contested: Arc::default(),
            findings: Arc::default(),
            started: Instant::now(),
            stop: CancellationToken::new(),
            remote: None,
            profiles: false,
        }
    }
    /// Sets who may use the remote admin listener.
    #[must_use]
    pub fn with_remote(self, access: RemoteAccess) -> Self {
        Self { remote: Some(Arc::new(access)), ..self }
    }
    /// Sets whether profiles are taken.
    #[must_use]
    pub fn with_profiles(self, profiles: bool) -> Self {
        Self { profiles, ..self }
    }
    /// Sets the end of the server.
    #[must_use]
    pub fn until(self, stop: CancellationToken) -> Self {
        Self { stop, ..self }
    }
}

/// Returns the routes of a listener behind the access check.
pub fn router(shared: Shared) -> Router {
    let mut router = Router::new();
    for route in ROUTES.iter().filter(|route| route.access.is_on(shared.surface)) {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(access::nothing_here)
        .layer(axum::middleware::from_fn_with_state(shared.clone(), access::check_access))
        .with_state(shared)
}
