//! What may be written to a cluster, and what is therefore not done while it is not named.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One kind of write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Write {
    /// Virtual addresses of ServiceEntries, into their status.
    Addresses,
    /// WorkloadEntries of connected workloads. No effect yet.
    WorkloadEntries,
    /// ServiceExports of Services that may be served in every cluster.
    ServiceExports,
    /// Credentials that are renewed. No effect yet.
    Credentials,
    /// Conditions on the objects that are served. No effect yet.
    Status,
}

impl Write {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Addresses, Self::WorkloadEntries, Self::ServiceExports, Self::Credentials, Self::Status];

    /// Its name in the configuration.
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
    /// What is not done without it.
    #[must_use]
    pub const fn without(self) -> &'static str {
        match self {
            Self::Addresses => "ServiceEntries without addresses are given none",
            Self::WorkloadEntries => "workloads that connect are not registered",
            Self::ServiceExports => "no Service is exported by itself",
            Self::Credentials => "no credential is renewed",
            Self::Status => "objects are not told how they are served",
        }
    }
    /// Whether this version does anything with it.
    #[must_use]
    pub const fn has_effect(self) -> bool {
        matches!(self, Self::Addresses | Self::ServiceExports)
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
        assert!(serde_json::from_value::<Write>("services".into()).is_err(), "unknown ones are refused");
    }
}
