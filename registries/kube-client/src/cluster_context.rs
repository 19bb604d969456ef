//! Cluster-wide values that the registries of one cluster share.
//!
//! The Kubernetes registry of a cluster reads namespaces and the mesh configuration and publishes the result
//! here; the registry of custom resources in the same cluster does not read them again. The binary connects the
//! two ends. Until the first value, receivers hold back all facts that depend on it. The last value stays valid
//! after the sender is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tributary_model::network_ranges::NetworkRanges;
use tributary_model::{Fingerprint, Namespace, NetworkId, TrafficDistribution, Withheld};

/// Cluster-wide values that conversions of objects need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterContext {
    /// Identity of the cluster, if it can be read.
    pub identity: Option<Fingerprint>,
    /// Reason why the other values cannot be read. They are unknown then, and dependent facts must not be reported.
    pub withheld: Option<Withheld>,
    /// Selected namespaces; `None` selects all.
    pub selected: Option<BTreeSet<Namespace>>,
    /// Traffic distribution that a namespace sets for its services.
    pub traffic: BTreeMap<Namespace, TrafficDistribution>,
    /// Network of the whole cluster: from the label of its system namespace, else the configured network of its
    /// registry.
    pub network: Option<NetworkId>,
    /// Networks defined by address ranges.
    pub networks: NetworkRanges,
    /// Domain of identities derived from service accounts.
    pub trust_domain: Option<Arc<str>>,
}

impl ClusterContext {
    /// Whether the namespace is selected.
    #[must_use]
    pub fn selects(&self, namespace: &Namespace) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(namespace))
    }
    /// Returns the network of an address whose object declares none: the cluster's, else the narrowest range
    /// that contains it. Of equal ranges the first network by name wins.
    #[must_use]
    pub fn network_of(&self, ip: IpAddr) -> Option<NetworkId> {
        self.network.clone().or_else(|| self.networks.at(ip).cloned())
    }
}

/// Sending half.
pub type ClusterContextSender = watch::Sender<Option<Arc<ClusterContext>>>;

/// Receiving half.
pub type ClusterContextReceiver = watch::Receiver<Option<Arc<ClusterContext>>>;

/// Creates the channel of one cluster, without a value.
#[must_use]
pub fn cluster_context_channel() -> (ClusterContextSender, ClusterContextReceiver) {
    watch::channel(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(name: &str) -> NetworkId {
        NetworkId::new(name).unwrap()
    }

    fn of(context: &ClusterContext, ip: &str) -> Option<NetworkId> {
        context.network_of(ip.parse().unwrap())
    }

    #[test]
    fn cluster_network_precedes_ranges_narrowest_first() {
        let ranges = [("wide", "10.0.0.0/8"), ("narrow", "10.1.0.0/16"), ("twin", "10.1.0.0/16")];
        let ranges = ranges.map(|(name, net)| (network(name), net.parse().unwrap()));
        let networks = NetworkRanges::new(ranges.iter().map(|(name, net)| (name, net)));
        let mut context = ClusterContext { networks, ..ClusterContext::default() };
        assert_eq!(of(&context, "10.1.2.3"), Some(network("narrow")));
        assert_eq!(of(&context, "10.2.2.3"), Some(network("wide")));
        assert_eq!(of(&context, "2001:db8::1"), None);
        context.network = Some(network("own"));
        assert_eq!(of(&context, "10.1.2.3"), Some(network("own")));
    }

    #[test]
    fn no_selection_selects_all_and_an_empty_one_none() {
        let shop = Namespace::new("shop").unwrap();
        assert!(ClusterContext::default().selects(&shop));
        let none = ClusterContext { selected: Some(BTreeSet::new()), ..ClusterContext::default() };
        assert!(!none.selects(&shop));
        let some = ClusterContext { selected: Some([shop.clone()].into()), ..ClusterContext::default() };
        assert!(some.selects(&shop));
    }
}
