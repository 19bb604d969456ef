//! Hosts that lead to other hosts (resolution Alias): chains are flattened, loops are dropped.
//!
//! Owned by the graph of names. The build settles it before services, from declarations.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{AliasHost, Hostname, ServiceKey, Visibility};

use super::edges::{Edges, Read, Reader};

/// Where a chain of aliases ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// At a service that has endpoints of its own.
    Host(Hostname),
    /// Nowhere: this host is not declared.
    Missing(Hostname),
    /// Nowhere: it leads back to itself.
    Loop,
}

/// What an alias declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lead {
    /// The host that it leads to.
    pub(crate) to: Hostname,
    /// Clients that see the alias; its target's own visibility does not count.
    pub(crate) visibility: Visibility,
}

/// The aliases among a host's claimants.
pub(crate) type Declared = BTreeMap<ServiceKey, Lead>;

/// All aliases, and where they end.
#[derive(Debug, Default)]
pub(crate) struct Leads {
    declared: BTreeMap<Hostname, Declared>,
    ends: BTreeMap<ServiceKey, End>,
    /// Which aliases end at a host.
    ending_at: BTreeMap<Hostname, BTreeSet<ServiceKey>>,
}

impl Leads {
    /// Where an alias ends.
    pub(crate) fn end_of(&self, alias: &ServiceKey) -> Option<&End> {
        self.ends.get(alias)
    }
    /// What an alias declares.
    pub(crate) fn lead(&self, alias: &ServiceKey) -> Option<&Lead> {
        self.declared.get(&alias.host)?.get(alias)
    }
    /// Services of other hosts that lead to a host, sorted.
    pub(crate) fn leading_to(&self, host: &Hostname) -> Vec<AliasHost> {
        let keys = self.ending_at.get(host).into_iter().flatten().filter(|key| key.host != *host);
        let alias = |service: &ServiceKey| {
            let visibility = self.lead(service)?.visibility.clone();
            Some(AliasHost { service: service.clone(), visibility })
        };
        keys.filter_map(alias).collect()
    }
    /// A host's aliases are these now; adds those of which anything is new, and the hosts where one ended.
    pub(crate) fn declare(
        &mut self,
        host: &Hostname,
        now: Declared,
        edges: &mut Edges,
        settling: &mut Settling,
    ) {
        let known = self.declared.remove(host).unwrap_or_default();
        for (key, _) in known.iter().filter(|&(key, lead)| now.get(key) != Some(lead)) {
            edges.set(&Reader::Alias(key.clone()), Vec::new());
            settling.aliases.insert(key.clone());
            if let Some(End::Host(end)) = self.ends.get(key) {
                settling.again.insert(end.clone());
            }
        }
        for (key, lead) in now.iter().filter(|&(key, lead)| known.get(key) != Some(lead)) {
            edges.set(&Reader::Alias(key.clone()), vec![Read { host: lead.to.clone(), namespace: None }]);
            settling.aliases.insert(key.clone());
        }
        if !now.is_empty() {
            self.declared.insert(host.clone(), now);
        }
    }
    /// An alias ends there now; adds the hosts for which that is new.
    pub(crate) fn end(&mut self, alias: ServiceKey, end: Option<End>, again: &mut BTreeSet<Hostname>) {
        let before = self.ends.remove(&alias);
        if before != end {
            if let Some(End::Host(host)) = &before {
                self.unfile(host, &alias);
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
    fn unfile(&mut self, host: &Hostname, alias: &ServiceKey) {
        if let Some(aliases) = self.ending_at.get_mut(host) {
            aliases.remove(alias);
            if aliases.is_empty() {
                self.ending_at.remove(host);
            }
        }
    }
    /// Whether any claimant of a host is an alias.
    pub(crate) fn declares(&self, host: &Hostname) -> bool {
        self.declared.contains_key(host)
    }
    /// Whether no index holds anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.ends.is_empty() && self.ending_at.is_empty()
    }
}

/// What a pass over changed hosts gathers.
#[derive(Default)]
pub(crate) struct Settling {
    /// Aliases that may end elsewhere.
    pub(crate) aliases: BTreeSet<ServiceKey>,
    /// Hosts that are built otherwise.
    pub(crate) again: BTreeSet<Hostname>,
}
