//! The admin surface: health, metrics and the documents of `/debug`.
//!
//! Two listeners may serve it: the admin listener, always on loopback, has every route; the health
//! listener, on any address, has health and metrics alone. Every route stands in one table
//! (`routes`), every request passes one gate (`check_access`), and what neither allows is refused.

pub mod access;
pub mod backend;
pub mod debug;
pub mod health;
pub mod listener;
pub mod metrics;
pub mod routes;
pub mod state;

use std::sync::Arc;

use axum::Router;
use tokio::sync::Semaphore;

pub use backend::{AdminBackend, Check, Readiness};
pub use listener::Listener;
pub use routes::{Access, ROUTES, Route};

/// Which listener a request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Loopback: every route.
    Admin,
    /// Any address: health and metrics.
    Health,
}

/// What every handler is given.
#[derive(Clone)]
pub struct Shared {
    /// The server, seen from inside.
    pub inside: Arc<dyn AdminBackend>,
    /// Which listener this is.
    pub surface: Surface,
    /// How many answers are being made; those beyond are refused.
    pub work: Arc<Semaphore>,
    /// How many requests wait for something to change.
    pub waits: Arc<Semaphore>,
}

impl Shared {
    /// How many documents are made at once.
    pub const MAX_WORK: usize = 8;
    /// How many requests may wait at once.
    pub const MAX_WAITS: usize = 64;

    /// For one listener.
    #[must_use]
    pub fn new(inside: Arc<dyn AdminBackend>, surface: Surface) -> Self {
        Self {
            inside,
            surface,
            work: Arc::new(Semaphore::new(Self::MAX_WORK)),
            waits: Arc::new(Semaphore::new(Self::MAX_WAITS)),
        }
    }
}

/// The routes of a listener behind the gate.
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
