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
        self.setting().parse()
    }
    /// Returns the warning that lists have no effect, because it is off.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let ignored = self.setting().ignored();
        let names = ignored.join(", ");
        let fix = "remove one of them";
        (!ignored.is_empty())
            .then(|| format!("settings.locality: {names} has no effect beside `enabled: false`; {fix}"))
    }
    fn setting(&self) -> LocalitySetting {
        let share = |of: &DistributeConfig| {
            (of.from.clone(), of.to.iter().map(|(place, share)| (place.clone(), *share)).collect())
        };
        LocalitySetting {
            enabled: self.enabled,
            distribute: self.distribute.iter().map(share).collect(),
            failover: self.failover.iter().map(|of| (of.from.clone(), of.to.clone())).collect(),
            failover_priority: self.failover_priority.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_beside_a_setting_that_is_off_are_named() {
        let failover = vec![FailoverConfig { from: "eu".into(), to: "us".into() }];
        let warning = |enabled: Option<bool>, failover: &[FailoverConfig]| {
            let failover = failover.to_vec();
            LocalityConfig { enabled, failover, ..LocalityConfig::default() }.warning()
        };
        assert_eq!(
            warning(Some(false), &failover).unwrap(),
            "settings.locality: failover has no effect beside `enabled: false`; remove one of them"
        );
        for (enabled, failover) in [(None, &failover[..]), (Some(true), &failover), (Some(false), &[])] {
            assert_eq!(warning(enabled, failover), None, "{enabled:?}");
        }
    }
}
