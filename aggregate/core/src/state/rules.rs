//! DestinationRules by host, so that a service finds those that may concern it without a scan.
//!
//! The build writes it before services; [`crate::merge::rules`] decides which of the found rules applies to whom.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{HostPattern, Hostname, PolicyKey, Settings};

use super::host_patterns::{ByOwner, HostPatterns};

/// Hosts that rules name.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Hosts as declared, of those that are completed.
    short: BTreeMap<PolicyKey, HostPattern>,
    /// Completed host of each rule.
    hosts: BTreeMap<PolicyKey, HostPattern>,
    completed: HostPatterns,
}

impl Rules {
    /// Sets or removes (`None`) the host of a rule. Returns the patterns whose services it may concern.
    pub(crate) fn set(
        &mut self,
        key: &PolicyKey,
        host: Option<&HostPattern>,
        settings: &Settings,
    ) -> BTreeSet<HostPattern> {
        let now = host.map(|host| host.completed(key.namespace.as_str(), settings.domain()));
        match host.filter(|host| now.as_ref() != Some(*host)) {
            Some(host) => self.short.insert(key.clone(), host.clone()),
            None => self.short.remove(key),
        };
        let before = match &now {
            Some(host) => self.hosts.insert(key.clone(), host.clone()),
            None => self.hosts.remove(key),
        };
        self.completed.replace(key, before.as_slice(), now.as_slice())
    }
    /// Completes short names again, after the domain changed. All services are built again then.
    pub(crate) fn complete(&mut self, settings: &Settings) {
        for (key, host) in self.short.clone() {
            self.set(&key, Some(&host), settings);
        }
    }
    /// Returns the rules whose pattern matches a host, those of the most specific pattern first.
    pub(crate) fn matching(&self, host: &Hostname) -> Vec<&ByOwner> {
        self.completed.matching(host)
    }
    /// Whether there is no rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.short.is_empty() && self.hosts.is_empty() && self.completed.is_empty()
    }
}
