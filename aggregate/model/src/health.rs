//! What a source says of an endpoint's health.

/// Ordered from best to worst, so that the worst of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum Health {
    /// Takes traffic. Also what an endpoint is whose source says nothing.
    #[default]
    Healthy,
    /// Finishes what it has; new work only for sessions that are bound to it.
    Draining,
    /// Fails its checks.
    Unhealthy,
    /// Going away; never sent to clients.
    Terminating,
}

impl Health {
    /// The name as people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "HEALTHY",
            Self::Draining => "DRAINING",
            Self::Unhealthy => "UNHEALTHY",
            Self::Terminating => "TERMINATING",
        }
    }
}
