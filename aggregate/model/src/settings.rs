//! Mesh-wide values, and names that join services.

use std::sync::Arc;
use std::time::Duration;

use crate::export::Visibility;
use crate::hostname::Hostname;
use crate::id::NetworkId;

/// The CIDRs that lie in one network.
pub type Cidrs = Arc<[ipnet::IpNet]>;

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
    /// Hosts (or `*.` suffixes) that are served only within their own cluster, and their opposite.
    pub cluster_local: Option<Arc<[(Hostname, bool)]>>,
    /// Whether endpoints of other networks are sent as they are, without a gateway.
    pub cross_network_direct: Option<bool>,
    /// Networks and the CIDRs that lie in them.
    pub networks: Option<Arc<[(NetworkId, Cidrs)]>>,
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
            cluster_local: self.cluster_local.clone().or_else(|| under.cluster_local.clone()),
            cross_network_direct: self.cross_network_direct.or(under.cross_network_direct),
            networks: self.networks.clone().or_else(|| under.networks.clone()),
        }
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

/// Joins hosts of several registries under one name, by explicit configuration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Alias {
    /// The joined hosts, the first first.
    pub members: Arc<[Hostname]>,
}
