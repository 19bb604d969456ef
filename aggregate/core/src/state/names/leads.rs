//! Hosts that lead to other hosts (resolution Alias): chains are flattened, loops are dropped.
//!
//! Owned by the graph of names, settled before services are built, from declarations. A chain goes through the
//! first claimant of each host on its way.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{AliasHost, Hostname, Resolution, ServiceKey, Visibility};

use super::edges::{Edges, Read, Reader};
use crate::merge::outline::{Outline, outlines};
use crate::state::State;

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
struct Lead {
    to: Hostname,
    /// Who sees the alias, whoever sees what it leads to.
    visibility: Visibility,
}

/// The aliases among a host's claimants.
type Declared = BTreeMap<ServiceKey, Lead>;

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
    fn lead(&self, alias: &ServiceKey) -> Option<&Lead> {
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
    fn declare(&mut self, host: &Hostname, now: Declared, edges: &mut Edges, settling: &mut Settling) {
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
    fn end(&mut self, alias: ServiceKey, end: Option<End>, again: &mut BTreeSet<Hostname>) {
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
    /// Whether no index holds anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.ends.is_empty() && self.ending_at.is_empty()
    }
}

/// What a pass over changed hosts gathers.
#[derive(Default)]
struct Settling {
    /// Aliases that may end elsewhere.
    aliases: BTreeSet<ServiceKey>,
    /// Hosts that are built otherwise.
    again: BTreeSet<Hostname>,
}

impl State {
    /// Follows where names lead after these hosts changed; the hosts that are built otherwise because of it.
    pub(super) fn settle_leads(&mut self, hosts: &BTreeSet<Hostname>) -> BTreeSet<Hostname> {
        let mut settling = Settling::default();
        for host in hosts {
            if !self.may_lead(host) {
                continue;
            }
            let now = self.declared_leads(host);
            let names = &mut self.world.names;
            names.leads.declare(host, now, &mut names.edges, &mut settling);
        }
        hosts.iter().for_each(|host| self.upstream(host, &mut settling.aliases));
        for alias in settling.aliases {
            let end = self.world.names.leads.lead(&alias).map(|lead| self.follow(&alias, &lead.to));
            self.world.names.leads.end(alias, end, &mut settling.again);
        }
        settling.again
    }

    /// Most hosts lead nowhere, which is seen without an order of their declarations.
    fn may_lead(&self, host: &Hostname) -> bool {
        let shards = self.hosts.of(host).iter().flat_map(|service| &service.shards);
        let mut declarations = shards.flat_map(|shard| &shard.declarations);
        self.world.names.leads.declared.contains_key(host)
            || declarations.any(|decl| matches!(decl.declaration.resolution, Resolution::Alias(_)))
    }

    fn declared_leads(&self, host: &Hostname) -> Declared {
        let lead = |outline: &Outline<'_>| {
            let visibility = outline.visibility(&self.world.settings.effective);
            Some((outline.service.key.clone(), Lead { to: outline.leads_to()?.clone(), visibility }))
        };
        outlines(&self.world, &self.hosts, host).iter().filter_map(lead).collect()
    }

    /// Adds the aliases that lead through a host.
    fn upstream(&self, host: &Hostname, aliases: &mut BTreeSet<ServiceKey>) {
        let mut hosts = vec![host];
        let mut seen = BTreeSet::from([host]);
        while let Some(host) = hosts.pop() {
            for reader in self.world.names.edges.readers_of_any(host) {
                let Reader::Alias(alias) = reader else { continue };
                aliases.insert(alias.clone());
                if seen.insert(&alias.host) {
                    hosts.push(&alias.host);
                }
            }
        }
    }

    fn follow(&self, alias: &ServiceKey, to: &Hostname) -> End {
        let mut seen = BTreeSet::from([alias.host.clone()]);
        let mut at = to.clone();
        loop {
            if !seen.insert(at.clone()) {
                return End::Loop;
            }
            let outlines = outlines(&self.world, &self.hosts, &at);
            match outlines.first().map(Outline::leads_to) {
                None => return End::Missing(at),
                Some(None) => return End::Host(at),
                Some(Some(next)) => at = next.clone(),
            }
        }
    }
}
