//! Mesh-wide values that resources are encoded with, beside what services declare.

use std::sync::Arc;

use tributary_model::{AccessLog, HttpRetries, PathNormalization, RequestTracing};

use super::route::Unclaimed;

/// Values for the listeners and routes of one class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Defaults {
    /// Handling of traffic that matches no service.
    pub unclaimed: Unclaimed,
    /// Retries of the requests that a listener routes by itself; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
    /// How requests and connections are handled.
    pub handling: Handling,
}

/// How proxies handle requests and connections, whatever their destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Handling {
    /// Log of requests and connections; none if absent.
    pub log: Option<Arc<AccessLog>>,
    /// Tracing of requests; none if absent.
    pub tracing: Option<Arc<RequestTracing>>,
    /// How paths are normalized.
    pub paths: PathNormalization,
}

impl Defaults {
    /// Returns the values of a mesh without settings.
    #[must_use]
    pub fn new(unclaimed: Unclaimed) -> Self {
        Self { unclaimed, retries: None, handling: Handling::default() }
    }
}
