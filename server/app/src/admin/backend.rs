//! Interface of the admin surface to the server. `ops` implements it over the running parts, tests over
//! fakes.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;
use tributary_model::{Catalog, Mono, RegistryName};
use tributary_xds::answers::ResourceType;

use super::metrics::Sample;
use crate::document::state::{EndItem, Part, StateDocument};
use crate::document::{
    CertificateItem, ClientItem, ClusterItem, ClusterSourceItem, Filter, HeldItem, Page, PolicyItem,
    ReceiptItem, RegistryItem, TriedCluster,
};
use crate::ops::counts::RegistryCounts;
use crate::ops::diff::Differences;
use crate::ops::resources::{ResourceRequest, Resources};
use crate::ops::routes::Routes;
use crate::ops::timeline::Timeline;

/// The running server. Methods return at once, or after one batch of the core, unless their description differs.
#[async_trait]
pub trait AdminBackend: Send + Sync + 'static {
    /// Returns the time on the clock of the catalog.
    fn now(&self) -> Mono;
    /// Name of this server among its replicas.
    fn name(&self) -> &str;
    /// Catalog that is served.
    fn catalog(&self) -> Arc<Catalog>;
    /// Generation of the served catalog, as it changes.
    fn generations(&self) -> watch::Receiver<u64>;
    /// Whether clients are answered, with the reasons.
    fn readiness(&self) -> Readiness;
    /// Conditions of readiness with the reason of each registry that has not synced, and notes for the operator, which do
    /// not affect readiness.
    async fn explained_readiness(&self) -> Readiness;
    /// Whether the core still processes batches, whatever the state of the registries.
    async fn is_alive(&self) -> bool;
    /// Versions of what the documents show, as they change; a receiver soon gets the current ones.
    fn changes(&self) -> watch::Receiver<Versions>;
    /// Numbers and short registries.
    async fn summary(&self) -> Summary;
    /// The last changes of the server.
    fn timeline(&self) -> Timeline;
    /// Connected clients that match a filter.
    async fn clients(&self, filter: Filter) -> Page<ClientItem>;
    /// Whether listeners of a connected sidecar bind their ports.
    fn has_binding_client(&self) -> bool;
    /// Policies that match a filter.
    async fn policies(&self, filter: Filter) -> Page<PolicyItem>;
    /// Registries.
    async fn registries(&self) -> Vec<RegistryItem>;
    /// Receipts of removed clusters, the newest first.
    fn receipts(&self) -> Vec<ReceiptItem>;
    /// Kubernetes clusters, those with trouble first, and the sources that declare some.
    async fn clusters(&self) -> (Vec<ClusterItem>, Vec<ClusterSourceItem>);
    /// Connects to every cluster, or to the one of this ID, and reports what each answers; takes up to a minute. `None` while another
    /// such request is in progress.
    async fn try_clusters(&self, name: Option<&str>) -> Option<Vec<TriedCluster>>;
    /// Held removals.
    async fn held(&self) -> Vec<HeldItem>;
    /// Releases a held removal; `None` if no removal of this id is held.
    async fn release(&self, id: &str) -> Option<HeldItem>;
    /// Kept state.
    async fn state(&self) -> StateDocument;
    /// Facts that ending a part removes. With `really` it ends them.
    async fn end(&self, part: Part, really: bool) -> Result<Vec<EndItem>, NotThere>;
    /// Accepts a registry's next run although it serves less or has a new identity.
    async fn accept(&self, registry: RegistryName) -> Result<(), NotThere>;
    /// Explains an endpoint; one item for each service port behind it.
    async fn explain(
        &self,
        endpoint: &str,
        of: (Option<&str>, Option<&str>),
        client: Option<&str>,
    ) -> Explained;
    /// Explains why a client does not receive a host's endpoints.
    async fn why_not(&self, host: &str, subset: Option<&str>, client: &str) -> Explained;
    /// Resources that a client was sent.
    async fn resources(&self, request: ResourceRequest) -> Resources;
    /// Routes of a client to a host.
    async fn routes(&self, host: &str, client: &str) -> Routes;
    /// Differences between the resources of two clients.
    async fn diff(&self, a: &str, b: &str, kind: Option<ResourceType>) -> Differences;
    /// Certificates of the xDS listener that are in use.
    fn certificates(&self) -> Vec<CertificateItem>;
    /// Running configuration and the last reload.
    fn config(&self) -> Value;
    /// Every metric, computed now.
    async fn samples(&self) -> Vec<Sample>;
}

/// Numbers of a server, from sums that are kept where they change.
#[derive(Debug, Default)]
pub struct Summary {
    /// Sums of services and endpoints.
    pub counts: RegistryCounts,
    /// Registries, ordered by name, without their held removals and problems.
    pub registries: Vec<RegistryItem>,
    /// Clients by state.
    pub clients: BTreeMap<&'static str, u64>,
    /// Held removals.
    pub held: u64,
}

/// Versions of what the documents show. A reader compares them with those that it has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Versions {
    /// Generation of the catalog.
    pub generation: u64,
    /// Number of changes of registries and clusters.
    pub registries: u64,
    /// Number of changes of clients.
    pub clients_changes: u64,
    /// Number of connected clients.
    pub clients: u64,
    /// Number of held removals.
    pub held: u64,
    /// Number of the last entry of the timeline.
    pub timeline: u64,
}

/// Error for an unknown name; the text lists the known ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotThere(pub String);

/// Items of an answer about clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer<T> {
    /// Items.
    pub items: Vec<T>,
    /// Number of items beyond the limit.
    pub more: usize,
    /// What an operator should know about the choice of the clients.
    pub notes: Vec<String>,
}

/// Explanations as `answer` writes them, or the reason why there are none.
pub type Explained = Result<Answer<Value>, String>;

/// Readiness.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether clients are answered.
    pub ready: bool,
    /// Conditions of readiness.
    pub checks: Vec<Check>,
}

/// Condition of readiness, or a note for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// Detail.
    pub detail: String,
}

impl Check {
    /// Combines conditions.
    #[must_use]
    pub fn new(name: impl Into<String>, ok: bool, detail: impl Into<String>) -> Self {
        Self { name: name.into(), ok, detail: detail.into() }
    }
}
