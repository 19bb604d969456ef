//! DestinationRules by host, so that a service finds those that may concern it without a scan.
//!
//! The build writes it before services; [`crate::merge::rules`] decides which of the found rules applies to whom.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tributary_model::{DestinationRule, HostPattern, Hostname, Labels, Namespace, PolicyKey, Settings};

/// Rules of one host pattern, by their namespace.
pub(crate) type ByOwner = BTreeMap<Namespace, BTreeSet<PolicyKey>>;

/// Hosts that rules name.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    declared: BTreeMap<PolicyKey, HostPattern>,
    completed: BTreeMap<PolicyKey, HostPattern>,
    exact: BTreeMap<HostPattern, ByOwner>,
    /// By the length of the text after the `*`, then by this text.
    wild: BTreeMap<usize, HashMap<Box<str>, ByOwner>>,
    /// Keys of the client labels by which rules order endpoints.
    labels: BTreeMap<PolicyKey, BTreeSet<Arc<str>>>,
}

impl Rules {
    /// Sets or removes (`None`) the host of a rule. Returns the patterns whose services it may concern.
    pub(crate) fn set(
        &mut self,
        key: &PolicyKey,
        host: Option<&HostPattern>,
        settings: &Settings,
    ) -> Vec<HostPattern> {
        match host {
            Some(host) => self.declared.insert(key.clone(), host.clone()),
            None => self.declared.remove(key),
        };
        let now = host.map(|host| complete(key, host, settings));
        let before = self.remove(key);
        if let Some(now) = &now {
            self.insert(key, now.clone());
        }
        before.into_iter().chain(now).collect()
    }
    /// Sets or removes (`None`) the client labels by which a rule orders endpoints. Returns whether they changed.
    pub(crate) fn set_labels(&mut self, key: &PolicyKey, rule: Option<&DestinationRule>) -> bool {
        let labels = rule.map(DestinationRule::compared_labels).unwrap_or_default();
        if labels.is_empty() {
            return self.labels.remove(key).is_some();
        }
        self.labels.insert(key.clone(), labels.clone()) != Some(labels)
    }
    /// Returns the keys of the client labels by which any rule orders endpoints, sorted. Beyond the limit of a set of
    /// labels, those with the greatest keys do not count.
    pub(crate) fn compared_labels(&self) -> Arc<[Arc<str>]> {
        let all: BTreeSet<&Arc<str>> = self.labels.values().flatten().collect();
        all.into_iter().take(Labels::MAX).cloned().collect()
    }
    /// Completes short names again, after the domain changed. All services are built again then.
    pub(crate) fn complete(&mut self, settings: &Settings) {
        for (key, host) in self.declared.clone() {
            self.set(&key, Some(&host), settings);
        }
    }
    /// Returns the rules whose pattern matches a host, those of the most specific pattern first.
    pub(crate) fn matching(&self, host: &Hostname) -> Vec<&ByOwner> {
        let exact = self.exact.get(&HostPattern::from(host.clone()));
        let text = host.as_str();
        let mut found: Vec<&ByOwner> = exact.into_iter().collect();
        for (length, all) in self.wild.iter().rev() {
            let tail = text.len().checked_sub(*length).and_then(|from| text.get(from..));
            found.extend(tail.and_then(|tail| all.get(tail)));
        }
        found
    }
    /// Whether there is no rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }
    fn insert(&mut self, key: &PolicyKey, host: HostPattern) {
        let owners = match host.suffix() {
            None => self.exact.entry(host.clone()).or_default(),
            Some(suffix) => self.wild.entry(suffix.len()).or_default().entry(suffix.into()).or_default(),
        };
        owners.entry(key.namespace.clone()).or_default().insert(key.clone());
        self.completed.insert(key.clone(), host);
    }
    fn remove(&mut self, key: &PolicyKey) -> Option<HostPattern> {
        let host = self.completed.remove(key)?;
        match host.suffix() {
            None => {
                if self.exact.get_mut(&host).is_some_and(|owners| is_empty_without(owners, key)) {
                    self.exact.remove(&host);
                }
            }
            Some(suffix) => {
                let Some(all) = self.wild.get_mut(&suffix.len()) else { return Some(host) };
                if all.get_mut(suffix).is_some_and(|owners| is_empty_without(owners, key)) {
                    all.remove(suffix);
                }
                if all.is_empty() {
                    self.wild.remove(&suffix.len());
                }
            }
        }
        Some(host)
    }
}

fn complete(key: &PolicyKey, host: &HostPattern, settings: &Settings) -> HostPattern {
    host.completed(key.namespace.as_str(), settings.domain.as_deref().unwrap_or("cluster.local"))
}

/// Removes a rule. Returns whether none is left.
fn is_empty_without(owners: &mut ByOwner, key: &PolicyKey) -> bool {
    if let Some(keys) = owners.get_mut(&key.namespace) {
        keys.remove(key);
        if keys.is_empty() {
            owners.remove(&key.namespace);
        }
    }
    owners.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_model::PolicyKind;

    use super::*;

    const PATTERNS: [&str; 7] =
        ["a", "a.x.svc.cluster.local", "*.svc.cluster.local", "*.local", "*", "b.io", "*b.io"];
    const HOSTS: [&str; 5] = ["a.x.svc.cluster.local", "b.x.svc.cluster.local", "b.io", "*.io", "local"];

    fn mk_key(n: u8) -> PolicyKey {
        let namespace = Namespace::new(["x", "y"][usize::from(n % 2)]).unwrap();
        PolicyKey { kind: PolicyKind::DestinationRule, namespace, name: n.to_string().into() }
    }

    proptest! {
        #[test]
        fn a_host_finds_the_rules_that_a_scan_finds(
            edits in prop::collection::vec((0_u8..6, prop::option::of(0_usize..7)), 0..30),
        ) {
            let (mut rules, mut naive) = (Rules::default(), BTreeMap::new());
            let settings = Settings::default();
            for (n, pattern) in edits {
                let host = pattern.map(|at| HostPattern::new(PATTERNS[at]).unwrap());
                rules.set(&mk_key(n), host.as_ref(), &settings);
                match host {
                    Some(host) => drop(naive.insert(mk_key(n), complete(&mk_key(n), &host, &settings))),
                    None => drop(naive.remove(&mk_key(n))),
                }
            }
            for host in HOSTS.map(|host| Hostname::new(host).unwrap()) {
                let found = rules.matching(&host).into_iter().map(|owners| owners.values().flatten().collect());
                let found: Vec<BTreeSet<&PolicyKey>> = found.collect();
                let mut want: BTreeMap<_, BTreeSet<&PolicyKey>> = BTreeMap::new();
                for (key, pattern) in naive.iter().filter(|(_, pattern)| pattern.matches(&host)) {
                    want.entry(std::cmp::Reverse(pattern.specificity())).or_default().insert(key);
                }
                prop_assert_eq!(found, want.into_values().collect::<Vec<_>>());
            }
            let keys: Vec<PolicyKey> = rules.declared.keys().cloned().collect();
            keys.iter().for_each(|key| drop(rules.set(key, None, &settings)));
            prop_assert!(rules.is_empty() && rules.exact.is_empty() && rules.wild.is_empty());
        }
    }
}
