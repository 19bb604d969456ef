//! Services with the same merge name on both sides of a merge: found if the settings enable it, and joined under the
//! host of the base if the settings require it and no reason forbids it.
//!
//! Owned by the graph of names. The build updates it first, since it adds and removes joins. Adapters declare the merge
//! names. The outcome for a name is a function of its services' declarations, the declared joins and the settings,
//! except for its start: a merge begins only when every registry is known, since an ambiguous name must not be merged
//! before its second service is read. A merge that has begun lasts until a known reason forbids it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    MergeByName, MergeName, MergeSide, NameOutcome, SameName, SeparateReason, ServiceKey, Settings,
};

use crate::state::services::{Hosts, Service};

/// All names, and the outcome for those on both sides.
#[derive(Debug, Default)]
pub(crate) struct SameNames {
    /// Mode of the settings.
    pub(crate) mode: MergeByName,
    /// Whether every registry is known.
    pub(crate) complete: bool,
    /// Merge names of services; empty while the mode is off.
    of_service: BTreeMap<ServiceKey, MergeName>,
    /// Services of each name; empty while the mode is off.
    by_name: BTreeMap<Arc<str>, BTreeSet<ServiceKey>>,
    /// Outcome for each name on both sides.
    pub(crate) found: BTreeMap<Arc<str>, Arc<SameName>>,
}

/// Services with one name.
pub(crate) struct Sides<'a> {
    /// Services whose host can serve the merge, by host.
    pub(crate) base: Vec<&'a Service>,
    /// Services that can join, by host.
    pub(crate) joining: Vec<&'a Service>,
}

/// Returns the merge name that a service's declarations give to its host. The first one counts if they differ, in the order of
/// names, which does not depend on the order of updates.
fn declared(service: &Service) -> Option<&MergeName> {
    let declarations = service.shards.iter().flat_map(|shard| &shard.declarations);
    let names = declarations.filter_map(|decl| decl.declaration.merge_name.as_ref());
    names.filter(|name| name.host == service.key.host).min()
}

impl SameNames {
    /// Returns the outcome for a service's name if a different service has the same name.
    pub(crate) fn of(&self, key: &ServiceKey) -> Option<&SameName> {
        let name = &self.of_service.get(key)?.name;
        self.found.get(name).map(|same| &**same).filter(|same| same.has(key))
    }
    /// Applies a batch's settings and completeness. Returns the names that must be decided again.
    pub(crate) fn begin(&mut self, settings: &Settings, complete: bool) -> BTreeSet<Arc<str>> {
        let mode = settings.merge_by_name.unwrap_or_default();
        let mut again = BTreeSet::new();
        if mode != self.mode {
            // changed settings mark every service of the batch as changed
            self.mode = mode;
            self.of_service.clear();
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
    /// Updates the index for a service that may have changed. Returns the names that it had and has.
    pub(crate) fn follow(&mut self, key: &ServiceKey, hosts: &Hosts) -> Vec<Arc<str>> {
        let now = hosts.get(key).and_then(declared);
        let before = self.of_service.get(key);
        let names: BTreeSet<Arc<str>> =
            before.into_iter().chain(now).map(|own| Arc::clone(&own.name)).collect();
        if before == now {
            return names.into_iter().collect();
        }
        if let Some(before) = self.of_service.remove(key) {
            self.remove(&before.name, key);
        }
        if let Some(now) = now {
            self.by_name.entry(Arc::clone(&now.name)).or_default().insert(key.clone());
            self.of_service.insert(key.clone(), now.clone());
        }
        names.into_iter().collect()
    }
    fn remove(&mut self, name: &Arc<str>, key: &ServiceKey) {
        let Some(keys) = self.by_name.get_mut(name) else { return };
        keys.remove(key);
        if keys.is_empty() {
            self.by_name.remove(name);
        }
    }
    /// Returns the services of a name by side; `None` if a side is empty.
    pub(crate) fn sides<'a>(&self, name: &str, hosts: &'a Hosts) -> Option<Sides<'a>> {
        let mut sides = Sides { base: Vec::new(), joining: Vec::new() };
        for key in self.by_name.get(name)? {
            let (Some(service), Some(own)) = (hosts.get(key), self.of_service.get(key)) else { continue };
            match own.side {
                MergeSide::Base => sides.base.push(service),
                MergeSide::Joining => sides.joining.push(service),
            }
        }
        (!sides.base.is_empty() && !sides.joining.is_empty()).then_some(sides)
    }
}

#[cfg(test)]
impl SameNames {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.of_service.is_empty() && self.by_name.is_empty() && self.found.is_empty()
    }
}
