//! Policies by the hosts that they name, so that a host finds its policies without a scan.
//!
//! The tables of rules and of VirtualServices own one each.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tributary_model::{HostPattern, Hostname, Namespace, PolicyKey};

/// Policies of one kind and host, by namespace and name. Most hosts have one policy: a list takes a twentieth of a tree's
/// memory then.
#[derive(Debug, Default)]
pub(crate) struct ByOwner(Vec<PolicyKey>);

impl ByOwner {
    /// Returns the policies of a namespace, by name.
    pub(crate) fn of(&self, owner: &Namespace) -> &[PolicyKey] {
        let from = self.0.partition_point(|key| key.namespace < *owner);
        let count = self.0[from..].partition_point(|key| key.namespace == *owner);
        &self.0[from..from + count]
    }
    /// Returns all policies.
    pub(crate) fn all(&self) -> &[PolicyKey] {
        &self.0
    }
    /// Adds a policy.
    pub(crate) fn insert(&mut self, key: &PolicyKey) {
        if let Err(at) = self.0.binary_search(key) {
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            self.0.insert(at, key.clone());
        }
    }
    /// Removes a policy. Returns whether none is left.
    pub(crate) fn remove(&mut self, key: &PolicyKey) -> bool {
        if let Ok(at) = self.0.binary_search(key) {
            self.0.remove(at);
        }
        self.0.is_empty()
    }
}

/// Host patterns of policies. Which a policy has is known to the owner of the table, which names both values of a change.
#[derive(Debug, Default)]
pub(crate) struct HostPatterns {
    exact: BTreeMap<HostPattern, ByOwner>,
    /// By the length of the text after the `*`, then by this text.
    wild: BTreeMap<usize, HashMap<Box<str>, ByOwner>>,
}

impl HostPatterns {
    /// Replaces the patterns of a policy. Returns the patterns of both values.
    pub(crate) fn replace(
        &mut self,
        key: &PolicyKey,
        before: &[HostPattern],
        now: &[HostPattern],
    ) -> BTreeSet<HostPattern> {
        before.iter().for_each(|pattern| self.remove(key, pattern));
        now.iter().for_each(|pattern| self.insert(key, pattern));
        before.iter().chain(now).cloned().collect()
    }
    /// Returns the policies whose pattern matches a host, those of the most specific pattern first.
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
    /// Returns the policies of which a pattern is this host, a wildcard included.
    pub(crate) fn naming(&self, host: &Hostname) -> &[PolicyKey] {
        let pattern = HostPattern::from(host.clone());
        let found = match pattern.suffix() {
            None => self.exact.get(&pattern),
            Some(suffix) => self.wild.get(&suffix.len()).and_then(|all| all.get(suffix)),
        };
        found.map_or(&[], ByOwner::all)
    }
    /// Whether there is no pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wild.is_empty()
    }
    fn insert(&mut self, key: &PolicyKey, pattern: &HostPattern) {
        let owners = match pattern.suffix() {
            None => self.exact.entry(pattern.clone()).or_default(),
            Some(suffix) => self.wild.entry(suffix.len()).or_default().entry(suffix.into()).or_default(),
        };
        owners.insert(key);
    }
    fn remove(&mut self, key: &PolicyKey, pattern: &HostPattern) {
        let Some(suffix) = pattern.suffix() else {
            if self.exact.get_mut(pattern).is_some_and(|owners| owners.remove(key)) {
                self.exact.remove(pattern);
            }
            return;
        };
        let Some(all) = self.wild.get_mut(&suffix.len()) else { return };
        if all.get_mut(suffix).is_some_and(|owners| owners.remove(key)) {
            all.remove(suffix);
        }
        if all.is_empty() {
            self.wild.remove(&suffix.len());
        }
    }
}

/// Texts after the `*` of wildcards, by their length: whether any of them ends a host is soon known.
pub(crate) struct Suffixes<'p>(BTreeMap<usize, HashSet<&'p str>>);

impl<'p> Suffixes<'p> {
    /// Collects those of the wildcards among the patterns.
    pub(crate) fn of(patterns: &'p BTreeSet<HostPattern>) -> Self {
        let mut all: BTreeMap<usize, HashSet<&str>> = BTreeMap::new();
        for suffix in patterns.iter().filter_map(HostPattern::suffix) {
            all.entry(suffix.len()).or_default().insert(suffix);
        }
        Self(all)
    }
    /// Whether there is no wildcard.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether any of them ends a host.
    pub(crate) fn end(&self, host: &str) -> bool {
        let tail = |length: &usize| host.len().checked_sub(*length).and_then(|from| host.get(from..));
        self.0.iter().any(|(length, all)| tail(length).is_some_and(|tail| all.contains(tail)))
    }
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
        fn a_host_finds_the_policies_that_a_scan_finds(
            edits in prop::collection::vec((0_u8..6, prop::collection::btree_set(0_usize..7, 0..3)), 0..30),
        ) {
            let (mut patterns, mut naive) = (HostPatterns::default(), BTreeMap::new());
            for (n, edit) in edits {
                let all: Vec<_> = edit.into_iter().map(|at| HostPattern::new(PATTERNS[at]).unwrap()).collect();
                let before = naive.insert(mk_key(n), all.clone()).unwrap_or_default();
                let both: BTreeSet<_> = before.iter().chain(&all).cloned().collect();
                prop_assert_eq!(patterns.replace(&mk_key(n), &before, &all), both);
            }
            for host in HOSTS.map(|host| Hostname::new(host).unwrap()) {
                let found = patterns.matching(&host).into_iter().map(|owners| owners.all().iter().collect());
                let found: Vec<BTreeSet<&PolicyKey>> = found.collect();
                let mut want: BTreeMap<_, BTreeSet<&PolicyKey>> = BTreeMap::new();
                let all = naive.iter().flat_map(|(key, patterns)| patterns.iter().map(move |one| (key, one)));
                for (key, pattern) in all.filter(|(_, pattern)| pattern.matches(&host)) {
                    want.entry(std::cmp::Reverse(pattern.specificity())).or_default().insert(key);
                }
                prop_assert_eq!(found, want.into_values().collect::<Vec<_>>());
            }
            naive.iter().for_each(|(key, before)| drop(patterns.replace(key, before, &[])));
            prop_assert!(patterns.is_empty());
        }
    }
}
