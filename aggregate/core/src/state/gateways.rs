//! Gateway addresses of networks, and the services that have endpoints in each network.
//!
//! Written by apply; merge reads which networks have gateways. When a network gets its first gateway
//! or loses its last one, exactly the services with an address in it are built again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Gateway, GatewayKey, NetworkId, ServiceKey, Shared};

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
    reported: BTreeMap<GatewayKey, Vec<GatewayFact>>,
    networks: BTreeMap<NetworkId, usize>,
    services: BTreeMap<NetworkId, BTreeSet<ServiceKey>>,
}

impl Gateways {
    /// Returns a shard's value.
    pub(crate) fn get(&self, shard: ShardId, key: &GatewayKey) -> Option<&GatewayFact> {
        self.reported.get(key)?.iter().find(|f| f.shard == shard)
    }
    /// Returns a shard's value, mutable.
    pub(crate) fn get_mut(&mut self, shard: ShardId, key: &GatewayKey) -> Option<&mut GatewayFact> {
        self.reported.get_mut(key)?.iter_mut().find(|f| f.shard == shard)
    }
    /// Adds the value of a shard that has none for the key yet. Returns the services that must be built again.
    pub(crate) fn add(&mut self, key: &GatewayKey, fact: GatewayFact) -> Vec<ServiceKey> {
        let facts = self.reported.entry(key.clone()).or_default();
        facts.push(fact);
        if facts.len() > 1 {
            return Vec::new();
        }
        let count = self.networks.entry(key.network.clone()).or_default();
        *count += 1;
        if *count > 1 { Vec::new() } else { self.services_in(&key.network) }
    }
    /// Removes a shard's value. Returns the services that must be built again; `None` if there was no value.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &GatewayKey) -> Option<Vec<ServiceKey>> {
        let facts = self.reported.get_mut(key)?;
        let at = facts.iter().position(|f| f.shard == shard)?;
        facts.remove(at);
        if !facts.is_empty() {
            return Some(Vec::new());
        }
        self.reported.remove(key);
        let count = self.networks.get_mut(&key.network)?;
        *count -= 1;
        if *count > 0 {
            return Some(Vec::new());
        }
        self.networks.remove(&key.network);
        Some(self.services_in(&key.network))
    }
    /// Returns the value that is served: the first in precedence.
    pub(crate) fn first(&self, key: &GatewayKey, shards: &Shards) -> Option<Shared<Gateway>> {
        let served = |f: &GatewayFact| shards.get(f.shard).filter(|info| info.is_served());
        let rank = |f: &GatewayFact| served(f).map(|info| info.precedence(None, &key.object));
        let ranked = self.reported.get(key)?.iter().filter_map(|f| Some((rank(f)?, f)));
        let first = ranked.min_by(|(a, _), (b, _)| a.order(b))?;
        Some(Shared::from(Arc::clone(&first.1.gateway)))
    }
    /// Returns whether a network has a gateway.
    pub(crate) fn has(&self, network: &NetworkId) -> bool {
        self.networks.contains_key(network)
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
        self.reported.is_empty() && self.networks.is_empty() && self.services.is_empty()
    }
}
