//! The mesh configuration as Istio's users write it: which of it is honoured, and what of it is not valid.
//!
//! Called by the ConfigMap's projection. Each field stands for itself: one that is not valid keeps its last
//! good value ([`Mesh::inherit`]) and is named in a problem, and what is not honoured is named once.

mod networks;
mod read;
mod visibility;

use std::sync::Arc;
use std::time::Duration;

use tributary_model::settings::ClusterLocal;
use tributary_model::{HostPattern, Hostname, Visibility};

use crate::namespace_selector::Selectors;

pub(crate) use networks::address_of;
pub use networks::{GatewayTarget, MeshGateway, MeshNetwork, MeshNetworks};
pub use visibility::VisibilityPolicy;

/// What is honoured of a mesh configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mesh {
    /// Which namespaces count.
    pub discovery: Selectors,
    /// The domain of identities.
    pub trust_domain: Option<Arc<str>>,
    /// Who sees a Service that says nothing.
    pub default_export: Option<Visibility>,
    /// How long a connection attempt may take.
    pub connect_timeout: Option<Duration>,
    /// Whether traffic to unknown hosts is refused.
    pub block_unknown: Option<bool>,
    /// Hosts that are served only within their cluster, and their opposite; each pattern once.
    pub cluster_local: ClusterLocal,
    /// Caps on who sees ServiceEntries.
    pub entries: Option<VisibilityPolicy>,
    /// Networks, what lies in them and how they are entered.
    pub networks: MeshNetworks,
    /// What is not valid.
    pub faults: Arc<[Fault]>,
    /// What is there and not honoured, sorted.
    pub ignored: Arc<[Arc<str>]>,
}

/// A part that is honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// `discoverySelectors`.
    Discovery,
    /// `trustDomain`.
    TrustDomain,
    /// `defaultServiceExportTo`.
    DefaultExport,
    /// `connectTimeout`.
    ConnectTimeout,
    /// `outboundTrafficPolicy`.
    Outbound,
    /// `serviceSettings`.
    ServiceSettings,
    /// `serviceEntryVisibility`.
    Entries,
    /// The key `meshNetworks`.
    Networks,
}

impl Field {
    /// What the key `mesh` holds.
    const OF_MESH: [Self; 7] = [
        Self::Discovery,
        Self::TrustDomain,
        Self::DefaultExport,
        Self::ConnectTimeout,
        Self::Outbound,
        Self::ServiceSettings,
        Self::Entries,
    ];

    /// Its name in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discoverySelectors",
            Self::TrustDomain => "trustDomain",
            Self::DefaultExport => "defaultServiceExportTo",
            Self::ConnectTimeout => "connectTimeout",
            Self::Outbound => "outboundTrafficPolicy",
            Self::ServiceSettings => "serviceSettings",
            Self::Entries => "serviceEntryVisibility",
            Self::Networks => "meshNetworks",
        }
    }
}

/// A part that is not valid; its last good value stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub field: Field,
    /// What is wrong with it.
    pub why: Arc<str>,
}

impl Mesh {
    /// From the two documents of a ConfigMap; a document that is not there says nothing.
    #[must_use]
    pub fn read(mesh: Option<&str>, networks: Option<&str>) -> Self {
        read::read(mesh, networks)
    }
    /// Keeps what was last good of each part that is not valid now.
    pub fn inherit(&mut self, last: &Self) {
        for fault in Arc::clone(&self.faults).iter() {
            match fault.field {
                Field::Discovery => self.discovery = last.discovery.clone(),
                Field::TrustDomain => self.trust_domain = last.trust_domain.clone(),
                Field::DefaultExport => self.default_export = last.default_export.clone(),
                Field::ConnectTimeout => self.connect_timeout = last.connect_timeout,
                Field::Outbound => self.block_unknown = last.block_unknown,
                Field::ServiceSettings => self.cluster_local = Arc::clone(&last.cluster_local),
                Field::Entries => self.entries = last.entries.clone(),
                Field::Networks => self.networks = last.networks.clone(),
            }
        }
    }
    /// What is not valid, in one line; `None` where all is.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let (of_mesh, others): (Vec<&Fault>, Vec<&Fault>) =
            self.faults.iter().partition(|fault| Field::OF_MESH.contains(&fault.field));
        let words = |fault: &&Fault| format!("{}: {}", fault.field.as_str(), fault.why);
        let mut all: Vec<String> = match of_mesh.first() {
            // a document that cannot be read at all is one fault of all its parts
            Some(first)
                if of_mesh.len() == Field::OF_MESH.len() && of_mesh.iter().all(|f| f.why == first.why) =>
            {
                vec![format!("mesh: {}", first.why)]
            }
            _ => of_mesh.iter().map(words).collect(),
        };
        all.extend(others.iter().map(words));
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The hosts that are served only within their cluster where nothing else is said.
#[must_use]
pub fn usually_local(domain: &str) -> Vec<(HostPattern, bool)> {
    let system = HostPattern::new(format!("*.kube-system.svc.{domain}")).ok();
    let server = Hostname::new(format!("kubernetes.default.svc.{domain}")).ok().map(HostPattern::from);
    system.into_iter().chain(server).map(|pattern| (pattern, true)).collect()
}

#[cfg(test)]
mod tests;
