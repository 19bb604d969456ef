//! Kinds of objects that the server may write to a cluster, with the effect of each that is not enabled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Write {
    /// Virtual addresses of ServiceEntries, in their status.
    Addresses,
    /// WorkloadEntries of connected workloads. No effect yet.
    WorkloadEntries,
    /// ServiceExports of Services that may be served in every cluster.
    ServiceExports,
    /// Renewed tokens of remote clusters, and the UID of each, in the Secrets that declare them.
    Credentials,
    /// Conditions on the served objects. No effect yet.
    Status,
}

impl Write {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Addresses, Self::WorkloadEntries, Self::ServiceExports, Self::Credentials, Self::Status];

    /// Name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::WorkloadEntries => "workloadEntries",
            Self::ServiceExports => "serviceExports",
            Self::Credentials => "credentials",
            Self::Status => "status",
        }
    }
    /// Effect while this kind is not enabled.
    #[must_use]
    pub const fn without(self) -> &'static str {
        match self {
            Self::Addresses => "ServiceEntries without addresses receive none",
            Self::WorkloadEntries => "connecting workloads are not registered",
            Self::ServiceExports => "Services are not exported automatically",
            Self::Credentials => "credentials are not renewed",
            Self::Status => "objects receive no conditions",
        }
    }
    /// Whether this version implements it.
    #[must_use]
    pub const fn has_effect(self) -> bool {
        matches!(self, Self::Addresses | Self::ServiceExports | Self::Credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_configuration() {
        for write in Write::ALL {
            assert_eq!(serde_json::to_value(write).unwrap(), write.as_str());
        }
        assert!(serde_json::from_value::<Write>("services".into()).is_err(), "unknown values are rejected");
    }
}
