//! Names that lead to other names (resolution Alias): chains are flattened, loops are dropped.
//!
//! Told by publication which hosts exist and where their first declarations lead; answers which
//! hosts must be built again because a name now leads elsewhere. A chain goes through the first
//! claimant of each host on its way.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{AliasHost, Catalog, Hostname, Resolution, ServiceKey, ServiceView, Visibility};

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

/// What an alias declares.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lead {
    to: Hostname,
    /// Who sees the alias, whoever sees what it leads to.
    visibility: Visibility,
}

impl Lead {
    fn of(view: &ServiceView) -> Option<Self> {
        let to = target(view)?.clone();
        let visible = view.declarations.iter().map(|declaration| &declaration.visibility);
        Some(Self { to, visibility: Visibility::any_of(visible, &view.key.namespace) })
    }
}

/// All aliases, where they lead, and what leads where.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    /// What an alias names.
    targets: BTreeMap<Hostname, BTreeMap<ServiceKey, Lead>>,
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
    /// Services of other hosts that lead to a host, sorted.
    pub(crate) fn leading_to(&self, host: &Hostname) -> Vec<AliasHost> {
        let keys = self.ending_at.get(host).into_iter().flatten().filter(|key| key.host != *host);
        let alias = |service: &ServiceKey| {
            let lead = self.targets.get(&service.host)?.get(service)?;
            Some(AliasHost { service: service.clone(), visibility: lead.visibility.clone() })
        };
        keys.filter_map(alias).collect()
    }
    /// Follows hosts that were built from `before` to `now`; the hosts to build again.
    pub(crate) fn update(
        &mut self,
        hosts: &BTreeSet<Hostname>,
        before: &Catalog,
        now: &Catalog,
    ) -> BTreeSet<Hostname> {
        let mut touched: BTreeSet<ServiceKey> = BTreeSet::new();
        let mut again = BTreeSet::new();
        for host in hosts {
            self.retarget(host, now, &mut touched, &mut again);
            if shape(before, host) != shape(now, host) {
                self.upstream(host, &mut touched);
            }
        }
        for alias in touched {
            self.settle(alias, now, &mut again);
        }
        again
    }
    fn retarget(
        &mut self,
        host: &Hostname,
        now: &Catalog,
        touched: &mut BTreeSet<ServiceKey>,
        again: &mut BTreeSet<Hostname>,
    ) {
        let known = self.targets.remove(host).unwrap_or_default();
        let claimants = now.hosts.get(host).map(|entry| &*entry.claimants).unwrap_or_default();
        let said = claimants.iter().filter_map(|v| Some((v.key.clone(), Lead::of(v)?)));
        let said: BTreeMap<ServiceKey, Lead> = said.collect();
        for (key, lead) in known.iter().filter(|&(key, lead)| said.get(key) != Some(lead)) {
            remove(&mut self.named_by, &lead.to, key);
            touched.insert(key.clone());
            if let Some(End::Host(end)) = self.ends.get(key) {
                again.insert(end.clone());
            }
        }
        for (key, lead) in said.iter().filter(|&(key, lead)| known.get(key) != Some(lead)) {
            self.named_by.entry(lead.to.clone()).or_default().insert(key.clone());
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
            .map(|lead| follow(&alias, &lead.to, now));
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
