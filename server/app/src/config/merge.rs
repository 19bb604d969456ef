//! Merge rule for services with the same name in a cluster and in Consul.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::MergeByName;

/// Rule for services of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MergeConfig {
    /// Whether a service of a cluster is merged with the service of the same name in Consul without a
    /// federated service that lists both.
    pub by_name: ByName,
}

/// Handling of services of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ByName {
    /// They stay separate.
    #[default]
    Off,
    /// They stay separate; `tributary get merges` lists them with the reasons against a merge.
    Report,
    /// They are merged under the cluster's host if no reason prevents it.
    On,
}

impl From<ByName> for MergeByName {
    fn from(by_name: ByName) -> Self {
        match by_name {
            ByName::Off => Self::Off,
            ByName::Report => Self::Report,
            ByName::On => Self::On,
        }
    }
}
