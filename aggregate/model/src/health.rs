//! Health of an endpoint, as its source reports it.

/// Health, ordered from best to worst: the worst of several values is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum Health {
    /// Takes traffic. Default for endpoints whose source reports no health.
    #[default]
    Healthy,
    /// Finishes current work; accepts new requests only from sessions bound to it.
    Draining,
    /// Fails its checks.
    Unhealthy,
    /// Shutting down; never sent to clients.
    Terminating,
}

impl Health {
    /// All values, from best to worst.
    pub const ALL: [Self; 4] = [Self::Healthy, Self::Draining, Self::Unhealthy, Self::Terminating];

    /// Display name.
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
