//! Documents of one server that its checks read: those of the admin surface, and what the reader knows of itself.
//!
//! The command line reads them over HTTP, `ops::check_documents` collects them in the server.

use jiff::Timestamp;
use serde_json::Value;

use super::conditions::ConditionCountItem;
use crate::document::{
    CertificateItem, ClientItem, ClusterItem, ClusterSourceItem, GatewayItem, HeldItem, PolicyItem,
    ReadinessDocument, RegistryItem, StateDocument, TriedCluster, VersionDocument,
};

/// Documents of one server.
#[derive(Debug, Clone, Default)]
pub struct Documents {
    /// Name of the server, or the address that was requested.
    pub server: String,
    /// Why the server did not answer; all other documents are then empty.
    pub silent: Option<String>,
    /// Why single documents are missing, by path.
    pub missing: Vec<(String, String)>,
    /// Time of the reader's clock.
    pub now: Timestamp,
    /// Time of the server's clock at `now`; `None` in the server itself.
    pub server_time: Option<Timestamp>,
    /// Version of the reader.
    pub reader_version: String,
    /// Version of the server.
    pub version: Option<VersionDocument>,
    /// Readiness.
    pub readiness: Option<ReadinessDocument>,
    /// Running configuration and its last reload.
    pub config: Value,
    /// Certificates of the xDS listener.
    pub certificates: Vec<CertificateItem>,
    /// Registries.
    pub registries: Vec<RegistryItem>,
    /// Clusters.
    pub clusters: Vec<ClusterItem>,
    /// Sources of declarations of clusters.
    pub sources: Vec<ClusterSourceItem>,
    /// What clusters answered when the server tried them; `None` if it was not requested to.
    pub tried: Option<Vec<TriedCluster>>,
    /// Gateways of networks.
    pub gateways: Vec<GatewayItem>,
    /// Conditions of services, by code.
    pub conditions: Vec<ConditionCountItem>,
    /// Policies.
    pub policies: Vec<PolicyItem>,
    /// Number of policies beyond the limit of the list.
    pub more_policies: usize,
    /// Clients.
    pub clients: Vec<ClientItem>,
    /// Held removals.
    pub held: Vec<HeldItem>,
    /// Kept state.
    pub state: Option<StateDocument>,
}

impl Documents {
    /// Returns the documents of a server that did not answer.
    #[must_use]
    pub fn silent(server: &str, why: impl Into<String>, now: Timestamp) -> Self {
        Self { server: server.to_owned(), silent: Some(why.into()), now, ..Self::default() }
    }
    /// Returns true if a cluster has this registry.
    #[must_use]
    pub fn is_of_cluster(&self, registry: &str) -> bool {
        self.clusters.iter().any(|cluster| cluster.registries.iter().any(|one| one.name == registry))
    }
}
