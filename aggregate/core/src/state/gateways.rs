//! Gateway addresses of networks, and the services that have endpoints in each network.
//!
//! Written by apply; the build joins the gateways of each network, with the addresses of their host names, which merge reads. When
//! they change, exactly the services with an address in the network are built again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{GatedNetwork, Gateway, GatewayKey, GatewaySocket, NetworkId, ServiceKey, Shared};

use crate::state::gateway_names::GatewayNames;
use crate::state::shards::{ShardId, Shards};

/// One shard's value of a gateway.
#[derive(Debug)]
pub(crate) struct GatewayFact {
    /// Shard that reports it.
    pub(crate) shard: ShardId,
    /// Value.
    pub(crate) gateway: Arc<Gateway>,
    /// Whether its removal is held.
    pub(crate) held: bool,
}

/// All gateways.
#[derive(Debug, Default)]
pub(crate) struct Gateways {
    reported: BTreeMap<NetworkId, BTreeMap<GatewayKey, Vec<GatewayFact>>>,
    networks: BTreeMap<NetworkId, Arc<GatedNetwork>>,
    services: BTreeMap<NetworkId, BTreeSet<ServiceKey>>,
    names: GatewayNames,
}

impl Gateways {
    /// Returns a shard's value.
    pub(crate) fn get(&self, shard: ShardId, key: &GatewayKey) -> Option<&GatewayFact> {
        self.facts(key)?.iter().find(|f| f.shard == shard)
    }
    /// Sets whether the removal of a shard's value is held. Returns whether there is one.
    pub(crate) fn hold(&mut self, shard: ShardId, key: &GatewayKey, held: bool) -> bool {
        let facts = self.reported.get_mut(&key.network).and_then(|of| of.get_mut(key));
        let known = facts.and_then(|facts| facts.iter_mut().find(|f| f.shard == shard));
        known.map(|known| known.held = held).is_some()
    }
    /// Sets a shard's value. Returns the value that it had.
    pub(crate) fn put(&mut self, key: &GatewayKey, fact: GatewayFact) -> Option<GatewayFact> {
        let before = self.names_of(key);
        let facts = self.reported.entry(key.network.clone()).or_default().entry(key.clone()).or_default();
        let replaced = match facts.iter_mut().find(|f| f.shard == fact.shard) {
            Some(known) => Some(std::mem::replace(known, fact)),
            None => {
                facts.push(fact);
                None
            }
        };
        self.index_names(key, &before);
        replaced
    }
    /// Removes a shard's value. Returns whether there was one.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &GatewayKey) -> bool {
        let before = self.names_of(key);
        let was = self.remove_fact(shard, key);
        self.index_names(key, &before);
        was
    }
    fn remove_fact(&mut self, shard: ShardId, key: &GatewayKey) -> bool {
        let Some(of_network) = self.reported.get_mut(&key.network) else { return false };
        let Some(facts) = of_network.get_mut(key) else { return false };
        let Some(at) = facts.iter().position(|f| f.shard == shard) else { return false };
        facts.remove(at);
        if facts.is_empty() {
            of_network.remove(key);
        }
        if of_network.is_empty() {
            self.reported.remove(&key.network);
        }
        true
    }
    /// Returns the host names that shards report for a gateway.
    fn names_of(&self, key: &GatewayKey) -> BTreeSet<Arc<str>> {
        let facts = self.facts(key).into_iter().flatten();
        facts.filter_map(|fact| fact.gateway.name().cloned()).collect()
    }
    fn index_names(&mut self, key: &GatewayKey, before: &BTreeSet<Arc<str>>) {
        let now = self.names_of(key);
        self.names.index(key, before, &now);
    }
    /// Returns the host names.
    pub(crate) const fn names(&self) -> &GatewayNames {
        &self.names
    }
    /// Returns the host names, mutable.
    pub(crate) const fn names_mut(&mut self) -> &mut GatewayNames {
        &mut self.names
    }
    /// Joins the gateways of a network again. Returns the services that must be built again.
    pub(crate) fn join(&mut self, network: &NetworkId, shards: &Shards) -> Vec<ServiceKey> {
        let now = self.joined(network, shards).map(Arc::new);
        if self.networks.get(network) == now.as_ref() {
            return Vec::new();
        }
        match now {
            Some(joined) => self.networks.insert(network.clone(), joined),
            None => self.networks.remove(network),
        };
        self.services_in(network)
    }
    /// Returns the gateways of a network; `None` if none is reported. One that is reported and not served separates the network too.
    fn joined(&self, network: &NetworkId, shards: &Shards) -> Option<GatedNetwork> {
        let mut sockets: BTreeSet<GatewaySocket> = BTreeSet::new();
        for key in self.reported.get(network)?.keys() {
            let Some(gateway) = self.first(key, shards) else { continue };
            let resolved = gateway.name().and_then(|name| self.names.first(name, shards));
            sockets.extend(GatewaySocket::of(key, &gateway, resolved.as_deref()));
        }
        // of one with several names, the first counts
        let mut sockets: Vec<GatewaySocket> = sockets.into_iter().collect();
        sockets.dedup_by(|later, first| later.is_same(first));
        Some(GatedNetwork { id: network.clone(), gateways: sockets.into() })
    }
    fn facts(&self, key: &GatewayKey) -> Option<&Vec<GatewayFact>> {
        self.reported.get(&key.network)?.get(key)
    }
    /// Returns the value that is served: the first in precedence.
    pub(crate) fn first(&self, key: &GatewayKey, shards: &Shards) -> Option<Shared<Gateway>> {
        let served = |f: &GatewayFact| shards.get(f.shard).filter(|info| info.is_served());
        let rank = |f: &GatewayFact| served(f).map(|info| info.precedence(None, &key.object));
        let ranked = self.facts(key)?.iter().filter_map(|f| Some((rank(f)?, f)));
        let first = ranked.min_by(|(a, _), (b, _)| a.order(b))?;
        Some(Shared::from(Arc::clone(&first.1.gateway)))
    }
    /// Returns a network that has gateways.
    pub(crate) fn of(&self, network: &NetworkId) -> Option<&Arc<GatedNetwork>> {
        self.networks.get(network)
    }
    /// Updates the index of services by network.
    pub(crate) fn index(&mut self, service: &ServiceKey, before: &[NetworkId], now: &[NetworkId]) {
        for network in before.iter().filter(|n| !now.contains(n)) {
            if let Some(services) = self.services.get_mut(network) {
                services.remove(service);
                if services.is_empty() {
                    self.services.remove(network);
                }
            }
        }
        for network in now.iter().filter(|n| !before.contains(n)) {
            self.services.entry(network.clone()).or_default().insert(service.clone());
        }
    }
    fn services_in(&self, network: &NetworkId) -> Vec<ServiceKey> {
        self.services.get(network).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
impl Gateways {
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_empty()
            && self.networks.is_empty()
            && self.services.is_empty()
            && self.names.is_empty()
    }
}
