//! Addresses through which networks are reached, and which services lie in which network.
//!
//! Filled by the store; merge asks which networks have gateways. When a network's first gateway
//! comes or its last goes, exactly the services with an address in it are built again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Gateway, GatewayKey, NetworkId, ServiceKey, Shared};

use crate::state::shards::{ShardId, Shards};

/// One shard's word about a gateway address.
#[derive(Debug)]
pub(crate) struct GatewayFact {
    /// Whose word.
    pub(crate) shard: ShardId,
    /// The gateway.
    pub(crate) gateway: Arc<Gateway>,
    /// Whether its removal is held.
    pub(crate) held: bool,
}

/// All gateways.
#[derive(Debug, Default)]
pub(crate) struct Gateways {
    said: BTreeMap<GatewayKey, Vec<GatewayFact>>,
    networks: BTreeMap<NetworkId, usize>,
    services: BTreeMap<NetworkId, BTreeSet<ServiceKey>>,
}

impl Gateways {
    /// A shard's word.
    pub(crate) fn get(&self, shard: ShardId, key: &GatewayKey) -> Option<&GatewayFact> {
        self.said.get(key)?.iter().find(|f| f.shard == shard)
    }
    /// A shard's word, to change.
    pub(crate) fn get_mut(&mut self, shard: ShardId, key: &GatewayKey) -> Option<&mut GatewayFact> {
        self.said.get_mut(key)?.iter_mut().find(|f| f.shard == shard)
    }
    /// A shard says this; it must not have said anything of the key before.
    pub(crate) fn add(&mut self, key: &GatewayKey, fact: GatewayFact) -> Vec<ServiceKey> {
        let facts = self.said.entry(key.clone()).or_default();
        facts.push(fact);
        if facts.len() > 1 {
            return Vec::new();
        }
        let count = self.networks.entry(key.network.clone()).or_default();
        *count += 1;
        if *count > 1 { Vec::new() } else { self.services_in(&key.network) }
    }
    /// A shard says nothing of it any more; the services that must be built again.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &GatewayKey) -> Option<Vec<ServiceKey>> {
        let facts = self.said.get_mut(key)?;
        let at = facts.iter().position(|f| f.shard == shard)?;
        facts.remove(at);
        if !facts.is_empty() {
            return Some(Vec::new());
        }
        self.said.remove(key);
        let count = self.networks.get_mut(&key.network)?;
        *count -= 1;
        if *count > 0 {
            return Some(Vec::new());
        }
        self.networks.remove(&key.network);
        Some(self.services_in(&key.network))
    }
    /// The word that serves.
    pub(crate) fn first(&self, key: &GatewayKey, shards: &Shards) -> Option<Shared<Gateway>> {
        let served = |f: &GatewayFact| shards.get(f.shard).filter(|info| info.is_served());
        let claim = |f: &GatewayFact| served(f).map(|info| info.claim(None, &key.object));
        let ranked = self.said.get(key)?.iter().filter_map(|f| Some((claim(f)?, f)));
        let first = ranked.min_by(|(a, _), (b, _)| a.order(b))?;
        Some(Shared::from(Arc::clone(&first.1.gateway)))
    }
    /// Whether a network has a gateway.
    pub(crate) fn has(&self, network: &NetworkId) -> bool {
        self.networks.contains_key(network)
    }
    /// Remembers in which networks a service lies now.
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
    /// Whether no index holds anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty() && self.networks.is_empty() && self.services.is_empty()
    }
}
