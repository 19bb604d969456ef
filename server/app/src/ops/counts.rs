//! Services and endpoints of each registry, for metrics and `get registries`.
//!
//! [`ServedCounts`] counts a host again when a generation that changed it is published. A scrape reads the sums and walks no
//! catalog.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parking_lot::Mutex;
use tributary_model::{
    Address, Catalog, CatalogChanges, ClusterId, EndpointSource, HostEntry, Hostname, NetworkId,
    RegistryName, Shared,
};

/// Sums by registry; a registry without services or endpoints is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryCounts {
    /// Services by registry.
    pub services: BTreeMap<RegistryName, u64>,
    /// Services by cluster: one that several of its registries declare counts once.
    pub of_clusters: BTreeMap<ClusterId, u64>,
    /// Services; one that several registries declare counts once.
    pub total: u64,
    /// Endpoints by the cluster of their registry and their network, of those that have one.
    pub of_networks: BTreeMap<(ClusterId, NetworkId), u64>,
    /// Endpoints by registry and health.
    pub endpoints: BTreeMap<(RegistryName, &'static str), u64>,
}

impl RegistryCounts {
    /// Counts a whole catalog.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Self {
        let mut out = Self::default();
        catalog.hosts.values().for_each(|entry| out.count(entry));
        out
    }
    /// Returns the endpoints of a registry in any health.
    #[must_use]
    pub fn endpoints_of(&self, registry: &RegistryName) -> u64 {
        self.endpoints.iter().filter(|((name, _), _)| name == registry).map(|(_, count)| count).sum()
    }
    fn count(&mut self, entry: &HostEntry) {
        self.total += entry.claimants.len() as u64;
        for view in entry.claimants.iter() {
            let registries = || view.declarations.iter().map(|declaration| &declaration.shard.registry);
            for name in registries().map(|registry| &registry.name).collect::<BTreeSet<_>>() {
                *self.services.entry(name.clone()).or_default() += 1;
            }
            for cluster in registries().map(|registry| &registry.cluster).collect::<BTreeSet<_>>() {
                *self.of_clusters.entry(cluster.clone()).or_default() += 1;
            }
            for source in view.ports.iter().flat_map(|port| port.endpoints.inputs.sources.iter()) {
                let serves =
                    |port_set: u16| source.ports.get(usize::from(port_set)).is_some_and(Option::is_some);
                for address in source.group.addresses.iter().filter(|address| serves(address.port_set)) {
                    let key = (source.shard.registry.name.clone(), address.health.as_str());
                    *self.endpoints.entry(key).or_default() += 1;
                }
                self.count_networks(source);
            }
        }
    }
    /// Counts the endpoints of a source by network, once for each run of addresses of one network.
    fn count_networks(&mut self, source: &EndpointSource) {
        if source.group.summary.networks.is_empty() {
            return;
        }
        let serves = |set: u16| source.ports.get(usize::from(set)).is_some_and(Option::is_some);
        fn network<'a>(address: &&'a Address) -> Option<&'a NetworkId> {
            address.topology.network.as_ref()
        }
        let served: Vec<&Address> =
            source.group.addresses.iter().filter(|one| serves(one.port_set)).collect();
        for run in served.chunk_by(|a, b| network(a) == network(b)) {
            let Some(network) = run.first().and_then(network) else { continue };
            let key = (source.shard.registry.cluster.clone(), network.clone());
            *self.of_networks.entry(key).or_default() += run.len() as u64;
        }
    }
    fn add(&mut self, more: Self) {
        self.total += more.total;
        add(&mut self.of_networks, more.of_networks);
        add(&mut self.services, more.services);
        add(&mut self.of_clusters, more.of_clusters);
        add(&mut self.endpoints, more.endpoints);
    }
    fn subtract(&mut self, less: &Self) {
        self.total = self.total.saturating_sub(less.total);
        take(&mut self.of_networks, &less.of_networks);
        take(&mut self.services, &less.services);
        take(&mut self.of_clusters, &less.of_clusters);
        take(&mut self.endpoints, &less.endpoints);
    }
}

fn add<K: Ord>(to: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    more.into_iter().for_each(|(key, count)| *to.entry(key).or_default() += count);
}

fn take<K: Ord>(from: &mut BTreeMap<K, u64>, less: &BTreeMap<K, u64>) {
    for (key, count) in less {
        let Some(left) = from.get_mut(key) else { continue };
        *left = left.saturating_sub(*count);
        if *left == 0 {
            from.remove(key);
        }
    }
}

/// Sums of the served catalog, kept as generations are published.
#[derive(Debug, Default)]
pub struct ServedCounts(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    sums: RegistryCounts,
    /// Entry of each host as it was counted.
    hosts: HashMap<Hostname, Shared<HostEntry>>,
    /// Hosts counted so far, for tests.
    passes: u64,
}

impl ServedCounts {
    /// Counts the changed hosts. The catalog may be newer than the changes; a later call counts its hosts then.
    pub fn published(&self, catalog: &Catalog, changed: &CatalogChanges) {
        let mut counted = self.0.lock();
        for host in &changed.hosts {
            counted.passes += 1;
            let new = catalog.hosts.get(host).cloned();
            let old = match new.clone() {
                Some(entry) => counted.hosts.insert(host.clone(), entry),
                None => counted.hosts.remove(host),
            };
            if let Some(old) = old {
                counted.sums.subtract(&of_host(&old));
            }
            if let Some(new) = new {
                counted.sums.add(of_host(&new));
            }
        }
    }
    /// Returns the sums.
    #[must_use]
    pub fn sums(&self) -> RegistryCounts {
        self.0.lock().sums.clone()
    }
    /// Returns how many hosts were counted so far.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.0.lock().passes
    }
}

fn of_host(entry: &HostEntry) -> RegistryCounts {
    let mut out = RegistryCounts::default();
    out.count(entry);
    out
}

#[cfg(test)]
mod tests {
    use tributary_core::Core;

    use super::super::receipts::tests::list;
    use super::*;

    #[test]
    fn service_of_both_registries_of_a_cluster_counts_once_for_the_cluster() {
        let mut core = Core::default();
        list(&mut core, "home", &[("pay.test", 1)]);
        list(&mut core, "away", &[("pay.test", 1), ("cart.test", 0)]);
        list(&mut core, "away-entries", &[("pay.test", 1), ("mail.test", 1)]);
        let counts = RegistryCounts::of(&core.publish());
        let services = counts.services.iter().map(|(name, count)| format!("{name} {count}"));
        assert_eq!(services.collect::<Vec<_>>(), ["away 2", "away-entries 2", "home 1"]);
        let clusters = counts.of_clusters.iter().map(|(name, count)| format!("{name} {count}"));
        assert_eq!(clusters.collect::<Vec<_>>(), ["away 3", "home 1"]);
    }
}
