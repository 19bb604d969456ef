//! What is done with services that have one name in a cluster and in a Consul.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::MergeByName;

/// Services of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MergeConfig {
    /// Whether a service of a cluster is served together with the service of the same name in Consul, without an
    /// alias that says so.
    pub by_name: ByName,
}

/// What is done with services of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ByName {
    /// Nothing.
    #[default]
    Off,
    /// They are shown by `tributary get merges`, each with what stands against it.
    Report,
    /// They are served as one under the cluster's host where nothing stands against it.
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
