//! What registries of one cluster learn from each other: the little that an object's facts need and
//! the object does not say.
//!
//! The Kubernetes registry of a cluster reads namespaces and the mesh configuration, and tells here
//! what they come to; the registry of custom resources beside it reads no second time. The binary
//! hands the two ends out. Until the first word nothing is known, and whoever listens waits with
//! what depends on it; the last word stays true while nobody speaks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;
use tributary_model::settings::Cidrs;
use tributary_model::{Fingerprint, Namespace, NetworkId, TrafficDistribution, Withheld};

/// What holds around the objects of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterContext {
    /// The identity of the cluster, where it can be read.
    pub identity: Option<Fingerprint>,
    /// Why the rest cannot be read. It is unknown then, so that nothing that depends on it may be reported.
    pub withheld: Option<Withheld>,
    /// The namespaces whose objects count; `None` where all do.
    pub selected: Option<BTreeSet<Namespace>>,
    /// The traffic distribution that a namespace asks for its services.
    pub traffic: BTreeMap<Namespace, TrafficDistribution>,
    /// The network of the whole cluster: the label of its system namespace, else the one that names its
    /// registry.
    pub network: Option<NetworkId>,
    /// The networks that are ranges of addresses.
    pub networks: Arc<[(NetworkId, Cidrs)]>,
    /// The domain of identities made from service accounts.
    pub trust_domain: Option<Arc<str>>,
}

impl ClusterContext {
    /// Whether objects of this namespace count.
    #[must_use]
    pub fn selects(&self, namespace: &Namespace) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(namespace))
    }
    /// The network of an address of which its object says none: the cluster's, else the narrowest range
    /// that holds it. Of two equal ranges the one first in order of names counts.
    #[must_use]
    pub fn network_of(&self, ip: IpAddr) -> Option<NetworkId> {
        self.network.clone().or_else(|| {
            let ranges = self.networks.iter().flat_map(|(id, nets)| nets.iter().map(move |net| (net, id)));
            let held = ranges.filter(|(net, _)| net.contains(&ip));
            held.min_by_key(|(net, id)| (std::cmp::Reverse(net.prefix_len()), *id)).map(|(_, id)| id.clone())
        })
    }
}

/// The end that speaks.
pub type ClusterContextSender = watch::Sender<Option<Arc<ClusterContext>>>;

/// The end that listens.
pub type ClusterContextReceiver = watch::Receiver<Option<Arc<ClusterContext>>>;

/// The two ends for one cluster; nothing is known yet.
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

    fn of(around: &ClusterContext, ip: &str) -> Option<NetworkId> {
        around.network_of(ip.parse().unwrap())
    }

    #[test]
    fn the_clusters_network_comes_before_ranges_and_the_narrowest_range_first() {
        let range = |name: &str, net: &str| (network(name), Cidrs::from([net.parse().unwrap()]));
        let networks =
            [range("wide", "10.0.0.0/8"), range("narrow", "10.1.0.0/16"), range("twin", "10.1.0.0/16")];
        let mut around = ClusterContext { networks: networks.into(), ..ClusterContext::default() };
        assert_eq!(of(&around, "10.1.2.3"), Some(network("narrow")));
        assert_eq!(of(&around, "10.2.2.3"), Some(network("wide")));
        assert_eq!(of(&around, "2001:db8::1"), None);
        around.network = Some(network("own"));
        assert_eq!(of(&around, "10.1.2.3"), Some(network("own")));
    }

    #[test]
    fn all_namespaces_count_where_none_is_selected_and_none_where_the_selection_is_empty() {
        let shop = Namespace::new("shop").unwrap();
        assert!(ClusterContext::default().selects(&shop));
        let none = ClusterContext { selected: Some(BTreeSet::new()), ..ClusterContext::default() };
        assert!(!none.selects(&shop));
        let some = ClusterContext { selected: Some([shop.clone()].into()), ..ClusterContext::default() };
        assert!(some.selects(&shop));
    }
}
