//! Content of a catalog as the invariants compare it: addresses by cluster and host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tributary_model::{Catalog, Freshness, Generation};

/// Address of a service in a cluster.
pub type Endpoint = (String, IpAddr);

/// Served addresses by cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served(pub BTreeMap<String, BTreeSet<Endpoint>>);

impl Served {
    /// Reads a catalog.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Self {
        let mut all: BTreeMap<String, BTreeSet<Endpoint>> = BTreeMap::new();
        for view in catalog.services() {
            for source in view.ports.iter().flat_map(|port| &*port.endpoints.inputs.sources) {
                let of_cluster = all.entry(source.shard.registry.cluster.to_string()).or_default();
                let ips = source.group.addresses.iter().filter_map(|address| address.ip());
                of_cluster.extend(ips.map(|ip| (view.key.host.to_string(), ip)));
            }
        }
        all.retain(|_, endpoints| !endpoints.is_empty());
        Self(all)
    }
    /// Returns what one cluster contributes.
    #[must_use]
    pub fn cluster(&self, name: &str) -> BTreeSet<Endpoint> {
        self.0.get(name).cloned().unwrap_or_default()
    }
    /// Iterates over cluster, host and address.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Endpoint)> {
        self.0.iter().flat_map(|(cluster, all)| all.iter().map(move |one| (cluster.as_str(), one)))
    }
    /// Whether an address is served.
    #[must_use]
    pub fn has(&self, cluster: &str, endpoint: &Endpoint) -> bool {
        self.0.get(cluster).is_some_and(|all| all.contains(endpoint))
    }
}

/// Returns the served run of each registry.
#[must_use]
pub fn generations(catalog: &Catalog) -> BTreeMap<String, Generation> {
    catalog.registries.iter().map(|(name, view)| (name.to_string(), view.generation)).collect()
}

/// Returns the clusters with a collection that is reported as followed.
#[must_use]
pub fn live(catalog: &Catalog) -> BTreeSet<String> {
    let is_live = |view: &tributary_model::RegistryView| {
        let endpoints =
            view.collections.iter().filter(|(of, _)| of.kind == tributary_model::CollectionKind::Groups);
        endpoints.clone().count() > 0 && endpoints.clone().all(|(_, freshness)| *freshness == Freshness::Live)
    };
    let views = catalog.registries.values();
    views.filter(|view| is_live(view)).map(|view| view.id.cluster.to_string()).collect()
}
