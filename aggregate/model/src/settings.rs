//! Mesh-wide settings and federated services.

use std::sync::Arc;
use std::time::Duration;

use crate::export::{EntryVisibility, ExportTo, Visibility};
use crate::hostname::{HostPattern, Hostname};
use crate::id::{Namespace, NetworkId, RegistryName};
use crate::port::PortNumber;
use crate::request_tracing::RequestTracing;
use crate::requests::{AccessLog, HttpRetries};
use crate::separate::MergeByName;
use crate::traffic_policy::LocalityBalancing;

/// CIDRs of one network.
pub type Cidrs = Arc<[ipnet::IpNet]>;

/// Host patterns, each once, and whether their hosts are served only within their own cluster.
pub type ClusterLocal = Arc<[(HostPattern, bool)]>;

/// Mesh-wide values. An unset field is `None`; the config file overrides the config cluster per field.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Settings {
    /// Visibility of declarations that do not declare one.
    pub default_export: Option<Visibility>,
    /// Domain of identities.
    pub trust_domain: Option<Arc<str>>,
    /// Further domains of identities, whose clients may connect.
    pub trust_domain_aliases: Option<Arc<[Arc<str>]>>,
    /// Namespace whose policies apply to all namespaces.
    pub root_namespace: Option<Namespace>,
    /// Domain of Kubernetes service names.
    pub domain: Option<Arc<str>>,
    /// Maximum duration of a connection attempt.
    pub connect_timeout: Option<Duration>,
    /// Whether proxies reject traffic to unknown hosts instead of passing it through.
    pub block_unknown: Option<bool>,
    /// Hosts that are, or are not, served only within their own cluster. Sources override each other per
    /// pattern; the most specific matching pattern decides.
    pub cluster_local: Option<ClusterLocal>,
    /// Caps on the visibility of ServiceEntries.
    pub entry_visibility: Option<Arc<EntryVisibility>>,
    /// Whether clients reach endpoints of other networks directly, without a gateway.
    pub cross_network_direct: Option<bool>,
    /// Networks and their CIDRs.
    pub networks: Option<Arc<[(NetworkId, Cidrs)]>>,
    /// Retries of HTTP requests.
    pub http_retries: Option<Arc<HttpRetries>>,
    /// Log of requests and connections; none if absent.
    pub access_log: Option<Arc<AccessLog>>,
    /// Tracing of requests; none if absent.
    pub tracing: Option<Arc<RequestTracing>>,
    /// Whether clients use mesh TLS to endpoints that accept it, where no rule decides; they do if absent.
    pub auto_mtls: Option<bool>,
    /// How sidecars normalize paths of requests; [`PathNormalization::Base`] if absent.
    pub path_normalization: Option<PathNormalization>,
    /// xDS clusters of clients' bootstraps that may serve certificates of the mesh, beside that of Istio's agent.
    pub sds_clusters: Option<Arc<[Arc<str>]>>,
    /// Which localities clients use, where neither a rule nor the traffic distribution of a service decides it.
    pub locality: Option<Arc<LocalityBalancing>>,
    /// Treatment of services with the same name in a cluster and in Consul.
    pub merge_by_name: Option<MergeByName>,
    /// Mesh configuration that other clusters follow, so that a restart knows it before the config cluster answers. Empty
    /// documents if the config cluster has none; absent if it was never known.
    pub mesh_text: Option<Arc<MeshText>>,
}

/// How a proxy changes the path of a request before it compares and forwards it. Each value does what the one before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum PathNormalization {
    /// Not at all.
    None,
    /// By RFC 3986: `..`, `\` and encoded letters.
    #[default]
    Base,
    /// Joins slashes.
    MergeSlashes,
    /// Decodes slashes and backslashes.
    DecodeAndMergeSlashes,
}

/// Mesh configuration as written: the two documents of its ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct MeshText {
    /// Document `mesh`.
    pub mesh: Arc<str>,
    /// Document `meshNetworks`.
    pub networks: Arc<str>,
}

impl Settings {
    /// Default maximum duration of a connection attempt.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns these values, with unset fields taken from `under`.
    #[must_use]
    pub fn over(&self, under: &Self) -> Self {
        Self {
            default_export: self.default_export.clone().or_else(|| under.default_export.clone()),
            trust_domain: self.trust_domain.clone().or_else(|| under.trust_domain.clone()),
            trust_domain_aliases: self
                .trust_domain_aliases
                .clone()
                .or_else(|| under.trust_domain_aliases.clone()),
            root_namespace: self.root_namespace.clone().or_else(|| under.root_namespace.clone()),
            domain: self.domain.clone().or_else(|| under.domain.clone()),
            connect_timeout: self.connect_timeout.or(under.connect_timeout),
            block_unknown: self.block_unknown.or(under.block_unknown),
            cluster_local: both(self.cluster_local.as_ref(), under.cluster_local.as_ref()),
            entry_visibility: self.entry_visibility.clone().or_else(|| under.entry_visibility.clone()),
            cross_network_direct: self.cross_network_direct.or(under.cross_network_direct),
            networks: self.networks.clone().or_else(|| under.networks.clone()),
            http_retries: self.http_retries.clone().or_else(|| under.http_retries.clone()),
            access_log: self.access_log.clone().or_else(|| under.access_log.clone()),
            tracing: self.tracing.clone().or_else(|| under.tracing.clone()),
            auto_mtls: self.auto_mtls.or(under.auto_mtls),
            path_normalization: self.path_normalization.or(under.path_normalization),
            sds_clusters: self.sds_clusters.clone().or_else(|| under.sds_clusters.clone()),
            locality: self.locality.clone().or_else(|| under.locality.clone()),
            merge_by_name: self.merge_by_name.or(under.merge_by_name),
            mesh_text: self.mesh_text.clone().or_else(|| under.mesh_text.clone()),
        }
    }
    /// Whether a host is served only within its own cluster; `None` if no pattern matches.
    #[must_use]
    pub fn is_cluster_local(&self, host: &Hostname) -> Option<bool> {
        let patterns = self.cluster_local.iter().flat_map(|list| list.iter());
        let matching = patterns.filter(|(pattern, _)| pattern.matches(host));
        matching.max_by_key(|(pattern, _)| pattern.specificity()).map(|(_, local)| *local)
    }
    /// Visibility of declarations that do not declare one.
    #[must_use]
    pub fn default_export(&self) -> Visibility {
        self.default_export.clone().unwrap_or_default()
    }
    /// Domain of identities.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        self.trust_domain.as_deref().unwrap_or("cluster.local")
    }
    /// Domain of identities, then its aliases.
    #[must_use]
    pub fn trust_domains(&self) -> Arc<[Arc<str>]> {
        let aliases = self.trust_domain_aliases.iter().flat_map(|all| all.iter()).cloned();
        std::iter::once(Arc::from(self.trust_domain())).chain(aliases).collect()
    }
    /// Whether a domain is the domain of identities or one of its aliases.
    #[must_use]
    pub fn trusts(&self, domain: &str) -> bool {
        let mut aliases = self.trust_domain_aliases.iter().flat_map(|all| all.iter());
        domain == self.trust_domain() || aliases.any(|alias| **alias == *domain)
    }
    /// Namespace whose policies apply to all namespaces.
    #[must_use]
    pub fn root_namespace(&self) -> Option<Namespace> {
        self.root_namespace.clone().or_else(|| Namespace::new("istio-system").ok())
    }
    /// Parses the name of a root namespace. No object is in a namespace whose name is not a DNS label.
    pub fn parse_root_namespace(text: &str) -> Result<Namespace, String> {
        let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let is_edged = text.bytes().next().is_some_and(edge) && text.bytes().next_back().is_some_and(edge);
        let is_label = is_edged && text.len() <= 63 && text.bytes().all(|b| edge(b) || b == b'-');
        let refused = || {
            let shown: String = text.chars().take(80).collect();
            format!(
                "`{shown}` is not the name of a namespace; write 1 to 63 lower-case letters, digits and `-`, such as \
                 `istio-system`"
            )
        };
        Some(text).filter(|_| is_label).and_then(|text| Namespace::new(text).ok()).ok_or_else(refused)
    }
    /// Domain of Kubernetes service names.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or("cluster.local")
    }
    /// Whether clients use mesh TLS to endpoints that accept it, where no rule decides.
    #[must_use]
    pub fn auto_mtls(&self) -> bool {
        self.auto_mtls.unwrap_or(true)
    }
    /// Returns the name of an xDS cluster of a client's bootstrap if it may serve certificates of the mesh.
    #[must_use]
    pub fn sds_cluster(&self, name: &str) -> Option<Arc<str>> {
        self.sds_clusters.iter().flat_map(|all| all.iter()).find(|known| ***known == *name).cloned()
    }
    /// Maximum duration of a connection attempt.
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

/// Federated service: joins services of several registries under one host, by configuration or by name.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FederatedService {
    /// Namespace in which the host is served.
    pub namespace: Namespace,
    /// Visibility.
    pub export: ExportTo,
    /// Members; at most [`FederatedService::MAX_MEMBERS`] are joined.
    pub members: Arc<[FederatedMember]>,
    /// Standby members take traffic only while fewer active endpoints than this are healthy. If absent,
    /// they have a lower priority and clients decide.
    pub min_healthy_active: Option<u32>,
    /// Standby members also take traffic after the registries of active members have been stale for longer than this.
    /// If absent, staleness has no effect. The last known facts of a stale registry stay served as well.
    pub standby_after_stale: Option<Duration>,
    /// Whether the core created it because its members have the same name, without explicit configuration.
    pub by_name: bool,
}

impl FederatedService {
    /// Maximum number of members of one federated service.
    pub const MAX_MEMBERS: usize = 64;
}

/// Member of a federated service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FederatedMember {
    /// Host.
    pub host: Hostname,
    /// Registry whose declarations count; all registries if absent.
    pub registry: Option<RegistryName>,
    /// Namespace; the first claimant's if absent.
    pub namespace: Option<Namespace>,
    /// Maps port numbers of the federated service to this member's ports; other numbers stay the same.
    pub ports: Arc<[(PortNumber, PortNumber)]>,
    /// Share of traffic relative to the other members, independent of its number of endpoints. If no member
    /// sets it, traffic follows endpoints; if only others do, it is 1. A member with 0 gets no traffic.
    pub weight: Option<u32>,
    /// Whether it takes traffic only after active members fail.
    pub standby: bool,
}

impl FederatedMember {
    /// Creates a member with this host and default values.
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
    fn most_specific_pattern_decides() {
        let settings = mk_local(&[("*", true), ("*.shop.svc", false), ("pay.shop.svc", true)]);
        let cases = [("a.svc", true), ("a.shop.svc", false), ("pay.shop.svc", true), ("svc.org", true)];
        for (host, want) in cases {
            assert_eq!(settings.is_cluster_local(&Hostname::new(host).unwrap()), Some(want), "{host}");
        }
        assert_eq!(Settings::default().is_cluster_local(&Hostname::new("a.svc").unwrap()), None);
    }

    #[test]
    fn root_namespace_is_a_dns_label() {
        for fine in ["istio-system", "a", "0b", &"a".repeat(63)] {
            assert_eq!(Settings::parse_root_namespace(fine).unwrap().as_str(), fine);
        }
        for bad in ["", "Bad_Name", "a.b", "-a", "a-", "a b", &"a".repeat(64)] {
            let why = Settings::parse_root_namespace(bad).unwrap_err();
            assert!(why.starts_with(&format!("`{bad}` is not")) && why.contains("write 1 to 63"), "{why}");
        }
    }

    #[test]
    fn patterns_of_two_sources_are_combined() {
        let over = mk_local(&[("*.kube-system.svc", false)]);
        let under = mk_local(&[("*.kube-system.svc", true), ("kubernetes.default.svc", true)]);
        let both = over.over(&under);
        let is = |host: &str| both.is_cluster_local(&Hostname::new(host).unwrap());
        assert_eq!(is("dns.kube-system.svc"), Some(false), "the first source decides");
        assert_eq!(is("kubernetes.default.svc"), Some(true));
        assert_eq!(under.over(&Settings::default()), under);
    }
}
