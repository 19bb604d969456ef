//! Mesh-wide values that resources are encoded with, beside what services declare.

use std::sync::Arc;

use tributary_model::{AccessLog, HttpRetries, RequestTracing};

use super::route::Unclaimed;

/// Values for the listeners and routes of one class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Defaults {
    /// Handling of traffic that matches no service.
    pub unclaimed: Unclaimed,
    /// Retries of the requests that a listener routes by itself; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
    /// Reports of requests and connections.
    pub reports: Reports,
}

/// What proxies report of requests and connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reports {
    /// Log of requests and connections; none if absent.
    pub log: Option<Arc<AccessLog>>,
    /// Tracing of requests; none if absent.
    pub tracing: Option<Arc<RequestTracing>>,
}

impl Defaults {
    /// Returns the values of a mesh without settings.
    #[must_use]
    pub fn new(unclaimed: Unclaimed) -> Self {
        Self { unclaimed, retries: None, reports: Reports::default() }
    }
}
