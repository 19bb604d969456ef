//! Services that have one name in a cluster and in a Consul: found while the settings ask for it, and joined under
//! the cluster's host where they say so and nothing stands against it.
//!
//! Owned by the graph of names. The build settles it first: it makes and unmakes joins. What becomes of a name is a function of
//! the declarations of its services, of the declared joins and of the settings. One thing depends on time: a merge
//! begins only when every registry is known, since an ambiguous name must not be merged before its second service is
//! read; one that has begun lasts while nothing known stands against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{MergeByName, NameOutcome, Provider, SameName, SeparateReason, ServiceKey, Settings};

use crate::state::services::{Hosts, Service};
use crate::state::shards::Shards;

/// All names, and what has become of those that are on both sides.
#[derive(Debug, Default)]
pub(crate) struct SameNames {
    /// What the settings ask for.
    pub(crate) mode: MergeByName,
    /// The domain by which a cluster's hosts are known.
    domain: String,
    /// Whether every registry had synced.
    pub(crate) complete: bool,
    /// The services of each name; empty while the mode is off.
    by_name: BTreeMap<Arc<str>, BTreeSet<ServiceKey>>,
    /// What has become of the names that are on both sides.
    pub(crate) found: BTreeMap<Arc<str>, Arc<SameName>>,
}

/// The services of one name.
pub(crate) struct Sides<'a> {
    /// The cluster's, by host.
    pub(crate) cluster: Vec<&'a Service>,
    /// Consul's, by host.
    pub(crate) consul: Vec<&'a Service>,
}

/// The name by which a service could be one with another, and on which side it is. Of a Consul's hosts the short one
/// counts, and what a peer brings does not: it is another's, under whatever name.
fn named<'a>(key: &'a ServiceKey, domain: &str) -> Option<(&'a str, Provider)> {
    let (name, rest) = key.host.as_str().split_once('.')?;
    let rest_of_cluster = rest.strip_prefix(key.namespace.as_str()).and_then(|r| r.strip_prefix(".svc."));
    if rest_of_cluster == Some(domain) {
        return Some((name, Provider::Kubernetes));
    }
    let short = rest.starts_with("service.") && !rest.contains(".dc.") && !rest.contains(".peer.");
    short.then_some((name, Provider::Consul))
}

fn is_declared_by(shards: &Shards, service: &Service, provider: Provider) -> bool {
    let of_provider = |id| shards.get(id).is_some_and(|info| info.shard.registry.provider == provider);
    service.shards.iter().any(|said| !said.declarations.is_empty() && of_provider(said.id))
}

impl SameNames {
    /// What has become of a service's name, where another service has it too.
    pub(crate) fn of(&self, key: &ServiceKey) -> Option<&SameName> {
        let (name, _) = named(key, &self.domain)?;
        self.found.get(name).map(|same| &**same).filter(|same| same.has(key))
    }
    /// What a turn's settings, and what it knows of its registries, make worth another look.
    pub(crate) fn begin(&mut self, settings: &Settings, complete: bool) -> BTreeSet<Arc<str>> {
        let mode = settings.merge_by_name.unwrap_or_default();
        let mut again = BTreeSet::new();
        if (mode, settings.domain()) != (self.mode, &self.domain) {
            // other settings make every service of the turn one that changed
            (self.mode, self.domain) = (mode, settings.domain().to_owned());
            self.by_name.clear();
            again.extend(self.found.keys().cloned());
        }
        if complete && !self.complete {
            let waits = |same: &SameName| {
                matches!(same.outcome, NameOutcome::Apart { why: SeparateReason::Unsynced, .. })
            };
            again.extend(self.found.iter().filter(|(_, same)| waits(same)).map(|(name, _)| Arc::clone(name)));
        }
        self.complete = complete;
        again
    }
    /// Follows a service of which something else may be said; its name, if it can have one with others.
    pub(crate) fn follow(&mut self, key: &ServiceKey, hosts: &Hosts, shards: &Shards) -> Option<Arc<str>> {
        let (name, side) = named(key, &self.domain)?;
        let is = hosts.get(key).is_some_and(|service| is_declared_by(shards, service, side));
        let known = self.by_name.get_key_value(name).map(|(name, _)| Arc::clone(name));
        if known.is_none() && !is {
            return None;
        }
        let name = known.unwrap_or_else(|| name.into());
        let keys = self.by_name.entry(Arc::clone(&name)).or_default();
        let _ = if is { keys.insert(key.clone()) } else { keys.remove(key) };
        if keys.is_empty() {
            self.by_name.remove(&name);
        }
        Some(name)
    }
    /// The services of a name by side; `None` where one side has none.
    pub(crate) fn sides<'a>(&self, name: &str, hosts: &'a Hosts) -> Option<Sides<'a>> {
        let mut sides = Sides { cluster: Vec::new(), consul: Vec::new() };
        for service in self.by_name.get(name)?.iter().filter_map(|key| hosts.get(key)) {
            match named(&service.key, &self.domain)?.1 {
                Provider::Kubernetes => sides.cluster.push(service),
                _ => sides.consul.push(service),
            }
        }
        (!sides.cluster.is_empty() && !sides.consul.is_empty()).then_some(sides)
    }
}

#[cfg(test)]
impl SameNames {
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.found.is_empty()
    }
}
