//! Which localities clients use, in the file of settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::{LocalityBalancing, LocalitySetting};

/// Which localities clients use. Fields have the names of Istio's `LocalityLoadBalancerSetting`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LocalityConfig {
    /// Whether clients prefer localities; default `true`.
    pub enabled: Option<bool>,
    /// Shares of places for the clients of a place, such as `region/zone/*`.
    pub distribute: Vec<DistributeConfig>,
    /// Regions that replace others whose endpoints fail. Needs `outlierDetection` of a DestinationRule.
    pub failover: Vec<FailoverConfig>,
    /// Labels whose equality decides the order of endpoints, the most significant first, each `key` or `key=value`. Needs
    /// `outlierDetection` of a DestinationRule.
    pub failover_priority: Vec<String>,
}

/// Shares for the clients of a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DistributeConfig {
    /// Place of the clients.
    pub from: String,
    /// Share of each place in percent; they add up to 100.
    pub to: BTreeMap<String, u32>,
}

/// Region that replaces another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailoverConfig {
    /// Region of the clients.
    pub from: String,
    /// Region that follows it.
    pub to: String,
}

impl LocalityConfig {
    /// Returns the setting, or the first fault.
    pub fn parse(&self) -> Result<LocalityBalancing, String> {
        let share = |of: &DistributeConfig| {
            (of.from.clone(), of.to.iter().map(|(place, share)| (place.clone(), *share)).collect())
        };
        let setting = LocalitySetting {
            enabled: self.enabled,
            distribute: self.distribute.iter().map(share).collect(),
            failover: self.failover.iter().map(|of| (of.from.clone(), of.to.clone())).collect(),
            failover_priority: self.failover_priority.clone(),
        };
        setting.parse()
    }
}
