//! Aliases: hosts that point to other hosts (resolution Alias), with the ends of their chains.
//!
//! Owned by the graph of names. The build updates it before services, from declarations. Chains are flattened; loops
//! have no end.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Hostname, ServiceKey};

use super::edges::{Edges, Read, Reader};

/// End of a chain of aliases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Service with endpoints of its own.
    Host(Hostname),
    /// Host that nothing declares.
    Missing(Hostname),
    /// Chain that returns to its start.
    Loop,
}

/// Aliases among a host's claimants, with the host that each points to.
pub(crate) type Declared = BTreeMap<ServiceKey, Hostname>;

/// All aliases and their ends.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    declared: BTreeMap<Hostname, Declared>,
    ends: BTreeMap<ServiceKey, End>,
    /// Aliases that end at a host.
    ending_at: BTreeMap<Hostname, BTreeSet<ServiceKey>>,
}

impl Aliases {
    /// Returns where an alias ends.
    pub(crate) fn end_of(&self, alias: &ServiceKey) -> Option<&End> {
        self.ends.get(alias)
    }
    /// Returns the hosts at which the aliases among a host's claimants end.
    pub(crate) fn ends_of(&self, host: &Hostname) -> impl Iterator<Item = &Hostname> {
        let aliases = self.declared.get(host).into_iter().flat_map(|declared| declared.keys());
        aliases.filter_map(|alias| match self.end_of(alias)? {
            End::Host(end) => Some(end),
            End::Missing(_) | End::Loop => None,
        })
    }
    /// Returns the host that a declared alias points to.
    pub(crate) fn declared(&self, alias: &ServiceKey) -> Option<&Hostname> {
        self.declared.get(&alias.host)?.get(alias)
    }
    /// Returns the aliases of a host from other hosts, sorted.
    pub(crate) fn aliases_of(&self, host: &Hostname) -> Vec<ServiceKey> {
        let keys = self.ending_at.get(host).into_iter().flatten();
        keys.filter(|key| key.host != *host).cloned().collect()
    }
    /// Replaces a host's aliases. Adds the changed ones and the hosts where they ended to `settling`.
    pub(crate) fn declare(
        &mut self,
        host: &Hostname,
        now: Declared,
        edges: &mut Edges,
        settling: &mut Settling,
    ) {
        let known = self.declared.remove(host).unwrap_or_default();
        for (key, _) in known.iter().filter(|&(key, to)| now.get(key) != Some(to)) {
            edges.set(&Reader::Alias(key.clone()), Vec::new());
            settling.aliases.insert(key.clone());
            if let Some(End::Host(end)) = self.ends.get(key) {
                settling.again.insert(end.clone());
            }
        }
        for (key, to) in now.iter().filter(|&(key, to)| known.get(key) != Some(to)) {
            edges.set(&Reader::Alias(key.clone()), vec![Read { host: to.clone(), namespace: None }]);
            settling.aliases.insert(key.clone());
        }
        if !now.is_empty() {
            self.declared.insert(host.clone(), now);
        }
    }
    /// Sets the end of an alias. Adds the hosts that must be built again to `again`.
    pub(crate) fn end(&mut self, alias: ServiceKey, end: Option<End>, again: &mut BTreeSet<Hostname>) {
        let before = self.ends.remove(&alias);
        if before != end {
            if let Some(End::Host(host)) = &before {
                self.remove_end(host, &alias);
                again.insert(host.clone());
            }
            if let Some(End::Host(host)) = &end {
                self.ending_at.entry(host.clone()).or_default().insert(alias.clone());
                again.insert(host.clone());
            }
            again.insert(alias.host.clone());
        }
        if let Some(end) = end {
            self.ends.insert(alias, end);
        }
    }
    fn remove_end(&mut self, host: &Hostname, alias: &ServiceKey) {
        if let Some(aliases) = self.ending_at.get_mut(host) {
            aliases.remove(alias);
            if aliases.is_empty() {
                self.ending_at.remove(host);
            }
        }
    }
    /// Returns whether any claimant of a host is an alias.
    pub(crate) fn declares(&self, host: &Hostname) -> bool {
        self.declared.contains_key(host)
    }
    /// Returns whether every index is empty.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.ends.is_empty() && self.ending_at.is_empty()
    }
}

/// Results of a pass over changed hosts.
#[derive(Default)]
pub(crate) struct Settling {
    /// Aliases whose end may have changed.
    pub(crate) aliases: BTreeSet<ServiceKey>,
    /// Hosts that must be built again.
    pub(crate) again: BTreeSet<Hostname>,
}
