//! Mesh-wide values, and names that join services.

use std::sync::Arc;
use std::time::Duration;

use crate::export::{EntryVisibility, ExportTo, Visibility};
use crate::hostname::{HostPattern, Hostname};
use crate::id::{Namespace, NetworkId, RegistryName};
use crate::port::PortNumber;
use crate::separate::MergeByName;

/// The CIDRs that lie in one network.
pub type Cidrs = Arc<[ipnet::IpNet]>;

/// Hosts, and whether each is served only within its own cluster; each pattern once.
pub type ClusterLocal = Arc<[(HostPattern, bool)]>;

/// Mesh-wide values. A field that nothing sets is `None`; the config file wins per field over the
/// config cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Settings {
    /// Who sees a declaration that says nothing.
    pub default_export: Option<Visibility>,
    /// The domain of identities.
    pub trust_domain: Option<Arc<str>>,
    /// The domain of Kubernetes service names.
    pub domain: Option<Arc<str>>,
    /// How long a connection attempt may take.
    pub connect_timeout: Option<Duration>,
    /// Whether traffic to unknown hosts is refused rather than passed on.
    pub block_unknown: Option<bool>,
    /// Hosts that are served only within their own cluster, and their opposite. Each pattern is a
    /// field of its own: the most specific that matches decides.
    pub cluster_local: Option<ClusterLocal>,
    /// Caps on who sees ServiceEntries.
    pub entry_visibility: Option<Arc<EntryVisibility>>,
    /// Whether endpoints of other networks are sent as they are, without a gateway.
    pub cross_network_direct: Option<bool>,
    /// Networks and the CIDRs that lie in them.
    pub networks: Option<Arc<[(NetworkId, Cidrs)]>>,
    /// What is done with services that have one name in a cluster and in a Consul.
    pub merge_by_name: Option<MergeByName>,
}

impl Settings {
    /// How long a connection attempt may take when nothing says otherwise.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// These values, with `under` where they say nothing.
    #[must_use]
    pub fn over(&self, under: &Self) -> Self {
        Self {
            default_export: self.default_export.clone().or_else(|| under.default_export.clone()),
            trust_domain: self.trust_domain.clone().or_else(|| under.trust_domain.clone()),
            domain: self.domain.clone().or_else(|| under.domain.clone()),
            connect_timeout: self.connect_timeout.or(under.connect_timeout),
            block_unknown: self.block_unknown.or(under.block_unknown),
            cluster_local: both(self.cluster_local.as_ref(), under.cluster_local.as_ref()),
            entry_visibility: self.entry_visibility.clone().or_else(|| under.entry_visibility.clone()),
            cross_network_direct: self.cross_network_direct.or(under.cross_network_direct),
            networks: self.networks.clone().or_else(|| under.networks.clone()),
            merge_by_name: self.merge_by_name.or(under.merge_by_name),
        }
    }
    /// Whether a host is served within its own cluster only, where something says so.
    #[must_use]
    pub fn is_cluster_local(&self, host: &Hostname) -> Option<bool> {
        let said = self.cluster_local.iter().flat_map(|list| list.iter());
        let matching = said.filter(|(pattern, _)| pattern.matches(host));
        matching.max_by_key(|(pattern, _)| pattern.specificity()).map(|(_, local)| *local)
    }
    /// Who sees a declaration that says nothing.
    #[must_use]
    pub fn default_export(&self) -> Visibility {
        self.default_export.clone().unwrap_or_default()
    }
    /// The domain of identities.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        self.trust_domain.as_deref().unwrap_or("cluster.local")
    }
    /// The domain of Kubernetes service names.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or("cluster.local")
    }
    /// How long a connection attempt may take.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(Self::CONNECT_TIMEOUT)
    }
}

fn both(over: Option<&ClusterLocal>, under: Option<&ClusterLocal>) -> Option<ClusterLocal> {
    let (Some(over), Some(under)) = (over, under) else { return over.or(under).cloned() };
    let more = under.iter().filter(|(pattern, _)| !over.iter().any(|(own, _)| own == pattern));
    Some(over.iter().chain(more).cloned().collect())
}

/// Joins services of several registries under one host, by explicit configuration or by their name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FederatedService {
    /// The namespace in which the host is served.
    pub namespace: Namespace,
    /// Who sees it.
    pub export: ExportTo,
    /// What is joined. At most [`FederatedService::MAX_MEMBERS`] are.
    pub members: Arc<[FederatedMember]>,
    /// Standby members take traffic only while fewer active endpoints than this are healthy; when left out
    /// they stand one priority lower, and clients decide.
    pub min_healthy_active: Option<u32>,
    /// Standby members also take traffic while the registries of active ones have been silent for longer than this;
    /// never for that reason when left out. What a silent registry last said stays served beside them.
    pub standby_after_stale: Option<Duration>,
    /// Whether nobody wrote it down: its members have one name, and the settings join such.
    pub by_name: bool,
}

impl FederatedService {
    /// How many members one alias joins.
    pub const MAX_MEMBERS: usize = 64;
}

/// One joined service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FederatedMember {
    /// Its host.
    pub host: Hostname,
    /// Whose declarations of it are meant; everybody's when left out.
    pub registry: Option<RegistryName>,
    /// Its namespace; the first claimant's when left out.
    pub namespace: Option<Namespace>,
    /// Port numbers of the alias with this member's own for them; others stand for themselves.
    pub ports: Arc<[(PortNumber, PortNumber)]>,
    /// Its share of traffic beside the other members', however many endpoints it has; by endpoints when
    /// no member says one, 1 when only others do, and none at all for 0.
    pub weight: Option<u32>,
    /// Whether it waits for the active members to fail.
    pub standby: bool,
}

impl FederatedMember {
    /// A host that is joined as it is.
    #[must_use]
    pub fn new(host: Hostname) -> Self {
        Self { host, registry: None, namespace: None, ports: Arc::default(), weight: None, standby: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_local(list: &[(&str, bool)]) -> Settings {
        let list = list.iter().map(|(text, local)| (HostPattern::new(text).unwrap(), *local)).collect();
        Settings { cluster_local: Some(list), ..Settings::default() }
    }

    #[test]
    fn the_most_specific_pattern_decides() {
        let settings = mk_local(&[("*", true), ("*.shop.svc", false), ("pay.shop.svc", true)]);
        let cases = [("a.svc", true), ("a.shop.svc", false), ("pay.shop.svc", true), ("svc.org", true)];
        for (host, want) in cases {
            assert_eq!(settings.is_cluster_local(&Hostname::new(host).unwrap()), Some(want), "{host}");
        }
        assert_eq!(Settings::default().is_cluster_local(&Hostname::new("a.svc").unwrap()), None);
    }

    #[test]
    fn patterns_of_two_sources_stand_beside_each_other() {
        let over = mk_local(&[("*.kube-system.svc", false)]);
        let under = mk_local(&[("*.kube-system.svc", true), ("kubernetes.default.svc", true)]);
        let both = over.over(&under);
        let is = |host: &str| both.is_cluster_local(&Hostname::new(host).unwrap());
        assert_eq!(is("dns.kube-system.svc"), Some(false), "the first source's word stands");
        assert_eq!(is("kubernetes.default.svc"), Some(true));
        assert_eq!(under.over(&Settings::default()), under);
    }
}
