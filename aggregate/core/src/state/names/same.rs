//! Services with the same name in a cluster and in a Consul: found if the settings enable it, and joined under the
//! cluster's host if the settings require it and no reason forbids it.
//!
//! Owned by the graph of names. The build updates it first, since it adds and removes joins. The outcome for a name is a
//! function of its services' declarations, the declared joins and the settings, except for its start: a merge begins
//! only when every registry is known, since an ambiguous name must not be merged before its second service is read. A
//! merge that has begun lasts until a known reason forbids it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{MergeByName, NameOutcome, Provider, SameName, SeparateReason, ServiceKey, Settings};

use crate::state::services::{Hosts, Service};
use crate::state::shards::Shards;

/// All names, and the outcome for those on both sides.
#[derive(Debug, Default)]
pub(crate) struct SameNames {
    /// Mode of the settings.
    pub(crate) mode: MergeByName,
    /// Domain of a cluster's hosts.
    domain: String,
    /// Whether every registry is known.
    pub(crate) complete: bool,
    /// Services of each name; empty while the mode is off.
    by_name: BTreeMap<Arc<str>, BTreeSet<ServiceKey>>,
    /// Outcome for each name on both sides.
    pub(crate) found: BTreeMap<Arc<str>, Arc<SameName>>,
}

/// Services with one name.
pub(crate) struct Sides<'a> {
    /// Services of the cluster, by host.
    pub(crate) cluster: Vec<&'a Service>,
    /// Services of Consul, by host.
    pub(crate) consul: Vec<&'a Service>,
}

/// Returns the name and the side of a service that can be merged by name. Only the short host of a Consul service
/// counts; a peer's service does not, since it belongs to a different Consul.
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
    service.shards.iter().any(|shard| !shard.declarations.is_empty() && of_provider(shard.id))
}

impl SameNames {
    /// Returns the outcome for a service's name if a different service has the same name.
    pub(crate) fn of(&self, key: &ServiceKey) -> Option<&SameName> {
        let (name, _) = named(key, &self.domain)?;
        self.found.get(name).map(|same| &**same).filter(|same| same.has(key))
    }
    /// Applies a batch's settings and completeness. Returns the names that must be decided again.
    pub(crate) fn begin(&mut self, settings: &Settings, complete: bool) -> BTreeSet<Arc<str>> {
        let mode = settings.merge_by_name.unwrap_or_default();
        let mut again = BTreeSet::new();
        if (mode, settings.domain()) != (self.mode, &self.domain) {
            // changed settings mark every service of the batch as changed
            (self.mode, self.domain) = (mode, settings.domain().to_owned());
            self.by_name.clear();
            again.extend(self.found.keys().cloned());
        }
        if complete && !self.complete {
            let waits = |same: &SameName| {
                matches!(same.outcome, NameOutcome::Separate { why: SeparateReason::Unsynced, .. })
            };
            again.extend(self.found.iter().filter(|(_, same)| waits(same)).map(|(name, _)| Arc::clone(name)));
        }
        self.complete = complete;
        again
    }
    /// Updates the index for a service that may have changed. Returns its name if it can be merged by name.
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
    /// Returns the services of a name by side; `None` if a side is empty.
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
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.found.is_empty()
    }
}
