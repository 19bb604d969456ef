//! Names that lead to other names (resolution Alias): chains are flattened, loops are dropped.
//!
//! Told by publication which hosts exist and where their first declarations lead; answers which
//! hosts must be built again because a name now leads elsewhere. A chain goes through the first
//! claimant of each host on its way.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Catalog, Hostname, Resolution, ServiceKey, ServiceView};

/// Where a chain of aliases ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// At a service that is none.
    Host(Hostname),
    /// Nowhere: this host is not declared.
    Missing(Hostname),
    /// Nowhere: it leads back to itself.
    Loop,
}

/// All aliases, where they lead, and what leads where.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    /// What an alias names.
    targets: BTreeMap<Hostname, BTreeMap<ServiceKey, Hostname>>,
    /// Which aliases name a host.
    named_by: BTreeMap<Hostname, BTreeSet<ServiceKey>>,
    /// Where an alias ends.
    ends: BTreeMap<ServiceKey, End>,
    /// Which aliases end at a host.
    ending_at: BTreeMap<Hostname, BTreeSet<ServiceKey>>,
}

/// What an alias's view names.
pub(crate) fn target(view: &ServiceView) -> Option<&Hostname> {
    match &view.first()?.declaration.resolution {
        Resolution::Alias(host) => Some(host),
        _ => None,
    }
}

/// What a chain sees of a host: nothing, a service, or the next name.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Absent,
    Service,
    Leads(Hostname),
}

fn shape(catalog: &Catalog, host: &Hostname) -> Shape {
    let first = catalog.hosts.get(host).and_then(|entry| entry.claimants.first());
    match first.map(|view| target(view)) {
        None => Shape::Absent,
        Some(None) => Shape::Service,
        Some(Some(next)) => Shape::Leads(next.clone()),
    }
}

impl Aliases {
    /// Where an alias ends.
    pub(crate) fn end_of(&self, alias: &ServiceKey) -> Option<&End> {
        self.ends.get(alias)
    }
    /// Other hosts that lead to a host, sorted.
    pub(crate) fn leading_to(&self, host: &Hostname) -> Vec<Hostname> {
        let keys = self.ending_at.get(host).into_iter().flatten();
        let mut hosts: Vec<Hostname> = keys.map(|key| key.host.clone()).filter(|h| h != host).collect();
        hosts.dedup();
        hosts
    }
    /// Follows hosts that were built from `before` to `now`; the hosts to build again.
    pub(crate) fn update(
        &mut self,
        hosts: &BTreeSet<Hostname>,
        before: &Catalog,
        now: &Catalog,
    ) -> BTreeSet<Hostname> {
        let mut touched: BTreeSet<ServiceKey> = BTreeSet::new();
        for host in hosts {
            self.retarget(host, now, &mut touched);
            if shape(before, host) != shape(now, host) {
                self.upstream(host, &mut touched);
            }
        }
        let mut again = BTreeSet::new();
        for alias in touched {
            self.settle(alias, now, &mut again);
        }
        again
    }
    fn retarget(&mut self, host: &Hostname, now: &Catalog, touched: &mut BTreeSet<ServiceKey>) {
        let known = self.targets.remove(host).unwrap_or_default();
        let claimants = now.hosts.get(host).map(|entry| &*entry.claimants).unwrap_or_default();
        let said = claimants.iter().filter_map(|v| Some((v.key.clone(), target(v)?.clone())));
        let said: BTreeMap<ServiceKey, Hostname> = said.collect();
        for (key, target) in known.iter().filter(|&(key, target)| said.get(key) != Some(target)) {
            remove(&mut self.named_by, target, key);
            touched.insert(key.clone());
        }
        for (key, target) in said.iter().filter(|&(key, target)| known.get(key) != Some(target)) {
            self.named_by.entry(target.clone()).or_default().insert(key.clone());
            touched.insert(key.clone());
        }
        if !said.is_empty() {
            self.targets.insert(host.clone(), said);
        }
    }
    /// The aliases that lead through a host.
    fn upstream(&self, host: &Hostname, touched: &mut BTreeSet<ServiceKey>) {
        let mut hosts = vec![host.clone()];
        let mut seen = BTreeSet::from([host.clone()]);
        while let Some(host) = hosts.pop() {
            for alias in self.named_by.get(&host).into_iter().flatten() {
                touched.insert(alias.clone());
                if seen.insert(alias.host.clone()) {
                    hosts.push(alias.host.clone());
                }
            }
        }
    }
    fn settle(&mut self, alias: ServiceKey, now: &Catalog, again: &mut BTreeSet<Hostname>) {
        let end = self
            .targets
            .get(&alias.host)
            .and_then(|of| of.get(&alias))
            .map(|target| follow(&alias, target, now));
        let before = self.ends.remove(&alias);
        if before != end {
            if let Some(End::Host(host)) = &before {
                remove(&mut self.ending_at, host, &alias);
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
}

fn follow(alias: &ServiceKey, target: &Hostname, now: &Catalog) -> End {
    let mut seen = BTreeSet::from([alias.host.clone()]);
    let mut at = target.clone();
    loop {
        if !seen.insert(at.clone()) {
            return End::Loop;
        }
        match shape(now, &at) {
            Shape::Absent => return End::Missing(at),
            Shape::Service => return End::Host(at),
            Shape::Leads(next) => at = next,
        }
    }
}

fn remove(map: &mut BTreeMap<Hostname, BTreeSet<ServiceKey>>, host: &Hostname, key: &ServiceKey) {
    if let Some(keys) = map.get_mut(host) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(host);
        }
    }
}

#[cfg(test)]
impl Aliases {
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
            && self.named_by.is_empty()
            && self.ends.is_empty()
            && self.ending_at.is_empty()
    }
}
