//! VirtualServices by host, each with the routes of its delegates, and by the delegates that they name.
//!
//! The build writes it before services; [`crate::merge::virtual_services`] merges one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    HostPattern, Hostname, HttpRoute, L4Destination, L4Routes, PolicyKey, RouteOwner, Subset,
};

use super::host_patterns::{ByOwner, HostPatterns};

/// VirtualService as hosts have it: its names are completed, and the routes of delegates are in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergedVirtualService {
    /// What it is without its routes.
    pub(crate) owner: Arc<RouteOwner>,
    /// Routes of HTTP requests.
    pub(crate) http: Arc<[HttpRoute]>,
    /// Routes of connections.
    pub(crate) l4: L4Routes,
    /// Delegates that it names, whether they exist or not.
    pub(crate) named: BTreeSet<PolicyKey>,
}

impl MergedVirtualService {
    /// Returns the hosts of the destinations of its routes.
    pub(crate) fn hosts_of_destinations(&self) -> impl Iterator<Item = &Hostname> {
        let http = self.http.iter().flat_map(HttpRoute::destinations);
        let l4 = self.l4.destinations().flatten().map(L4Destination::destination);
        http.chain(l4).map(|destination| &destination.host)
    }
    /// Returns the subsets to which its routes lead, with their hosts.
    pub(crate) fn subsets(&self) -> impl Iterator<Item = (&Hostname, &Subset)> {
        let http = self.http.iter().flat_map(HttpRoute::destinations);
        let l4 = self.l4.destinations().flatten().map(L4Destination::destination);
        http.chain(l4).filter_map(|destination| Some((&destination.host, destination.subset.as_ref()?)))
    }
    /// Returns the keys of the client labels that its conditions name.
    pub(crate) fn compared_labels(&self) -> BTreeSet<Arc<str>> {
        let http = self.http.iter().flat_map(|route| route.matches.iter().map(|found| &found.clients));
        let pairs = http.chain(self.l4.clients()).flat_map(|clients| clients.labels.pairs());
        pairs.map(|(key, _)| Arc::clone(key)).collect()
    }
}

/// All VirtualServices that concern sidecars.
#[derive(Debug, Default)]
pub(crate) struct VirtualServices {
    patterns: HostPatterns,
    merged: BTreeMap<PolicyKey, Arc<MergedVirtualService>>,
    /// Those that name a delegate, by the delegate.
    naming: BTreeMap<PolicyKey, ByOwner>,
    /// Those with a destination, by its host.
    leading: BTreeMap<Hostname, ByOwner>,
}

impl VirtualServices {
    /// Sets or removes (`None`) a VirtualService. Returns the patterns whose services it may concern.
    pub(crate) fn set(
        &mut self,
        key: &PolicyKey,
        merged: Option<MergedVirtualService>,
    ) -> BTreeSet<HostPattern> {
        let before = self.merged.remove(key);
        for delegate in before.iter().flat_map(|before| &before.named) {
            remove(&mut self.naming, delegate, key);
        }
        for host in before.iter().flat_map(|before| before.hosts_of_destinations()) {
            remove(&mut self.leading, host, key);
        }
        let hosts_before = before.as_ref().map_or(&[][..], |before| &before.owner.hosts);
        let Some(merged) = merged else { return self.patterns.replace(key, hosts_before, &[]) };
        for delegate in &merged.named {
            self.naming.entry(delegate.clone()).or_default().insert(key);
        }
        for host in merged.hosts_of_destinations() {
            self.leading.entry(host.clone()).or_default().insert(key);
        }
        let patterns = self.patterns.replace(key, hosts_before, &merged.owner.hosts);
        let same = before.filter(|before| **before == merged);
        self.merged.insert(key.clone(), same.unwrap_or_else(|| Arc::new(merged)));
        patterns
    }
    /// Returns a VirtualService.
    pub(crate) fn get(&self, key: &PolicyKey) -> Option<&MergedVirtualService> {
        self.merged.get(key).map(|merged| &**merged)
    }
    /// Returns the VirtualServices that name a delegate.
    pub(crate) fn naming(&self, delegate: &PolicyKey) -> impl Iterator<Item = &PolicyKey> {
        self.naming.get(delegate).into_iter().flat_map(ByOwner::all)
    }
    /// Returns the VirtualServices with a destination of this host.
    pub(crate) fn leading_to(&self, host: &Hostname) -> impl Iterator<Item = &Arc<MergedVirtualService>> {
        let keys = self.leading.get(host).into_iter().flat_map(ByOwner::all);
        keys.filter_map(|key| self.merged.get(key))
    }
    /// Returns the hosts of destinations that match one of these patterns, each once.
    pub(crate) fn destinations_of(&self, patterns: &BTreeSet<HostPattern>) -> BTreeSet<&Hostname> {
        let (wild, exact): (Vec<_>, Vec<_>) = patterns.iter().partition(|one| one.suffix().is_some());
        let exact = exact.into_iter().filter_map(|one| self.leading.get_key_value(one.as_str()));
        let below = self.leading.keys().filter(|host| wild.iter().any(|one| one.matches(host)));
        exact.map(|(host, _)| host).chain(below).collect()
    }
    /// Returns every VirtualService.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &PolicyKey> {
        self.merged.keys()
    }
    /// Returns the VirtualServices of which a host matches this one, in no certain order.
    pub(crate) fn matching(&self, host: &Hostname) -> Vec<&Arc<MergedVirtualService>> {
        let found = self.patterns.matching(host);
        let keys: BTreeSet<&PolicyKey> = found.into_iter().flat_map(ByOwner::all).collect();
        keys.into_iter().filter_map(|key| self.merged.get(key)).collect()
    }
    /// Returns the VirtualServices of which a host is this one, a wildcard included, by key.
    pub(crate) fn naming_host(&self, host: &Hostname) -> impl Iterator<Item = &Arc<MergedVirtualService>> {
        self.patterns.naming(host).iter().filter_map(|key| self.merged.get(key))
    }
    /// Whether there is no VirtualService.
    pub(crate) fn is_empty(&self) -> bool {
        self.merged.is_empty()
            && self.patterns.is_empty()
            && self.naming.is_empty()
            && self.leading.is_empty()
    }
}

/// Removes a VirtualService from the list of a key.
fn remove<K: Ord>(lists: &mut BTreeMap<K, ByOwner>, of: &K, key: &PolicyKey) {
    if lists.get_mut(of).is_some_and(|list| list.remove(key)) {
        lists.remove(of);
    }
}
