//! Mesh-wide values that resources are encoded with, beside what services declare.

use std::sync::Arc;

use tributary_model::{AccessLog, HttpRetries};

use super::route::Unclaimed;

/// Values for the listeners and routes of one class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Defaults {
    /// Handling of traffic that matches no service.
    pub unclaimed: Unclaimed,
    /// Retries of the requests that a listener routes by itself; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
    /// Log of requests and connections; none if absent.
    pub log: Option<Arc<AccessLog>>,
}

impl Defaults {
    /// Returns the values of a mesh without settings.
    #[must_use]
    pub const fn new(unclaimed: Unclaimed) -> Self {
        Self { unclaimed, retries: None, log: None }
    }
}
