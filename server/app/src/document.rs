//! Documents of the admin surface: written by the server, read by the command line.
//!
//! Every answer of `/debug` is one document shaped as a Kubernetes list. The JSON is a contract: fields are
//! added, and never renamed or redefined. Builders are pure functions over a catalog without I/O.

pub mod bounded;
pub mod clients;
pub mod cluster_check;
pub mod clusters;
pub mod endpoints;
pub mod explain;
pub mod filter;
pub mod finding;
pub mod gateways;
pub mod guard;
pub mod map;
pub mod merges;
pub mod overview;
pub mod page;
pub mod policies;
mod policy_spec;
pub mod receipts;
pub mod registries;
pub mod resources;
pub mod routes;
pub mod server;
pub mod services;
pub mod short_name;
pub mod state;
pub mod timeline;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tributary_model::Condition;

pub use clients::ClientItem;
pub use cluster_check::{CheckedCluster, Verdict};
pub use clusters::{ClusterItem, ClusterSourceItem};
pub use endpoints::EndpointItem;
pub use explain::{ExplainItem, StepItem, WhyNotItem};
pub use filter::Filter;
pub use finding::{Finding, Findings, Outcome, TriedCluster};
pub use gateways::GatewayItem;
pub use guard::HeldItem;
pub use map::Map;
pub use merges::{MergeItem, NamedItem};
pub use overview::Overview;
pub use page::Page;
pub use policies::PolicyItem;
pub use receipts::{LeavePlan, PlanItem, ReceiptItem};
pub use registries::RegistryItem;
pub use resources::{DiffItem, ResourceItem};
pub use routes::RouteItem;
pub use server::{CertificateItem, ReadinessDocument, VersionDocument};
pub use services::ServiceItem;
pub use state::StateDocument;
pub use timeline::TimelineItem;

/// Version of all documents.
pub const API_VERSION: &str = "tributary.dev/v1";

/// List of items of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// `ServiceList`, `EndpointList`, …
    pub kind: String,
    /// Metadata of the list.
    pub metadata: Metadata,
    /// Items, in a stable order.
    pub items: Vec<T>,
}

/// Metadata of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Servers that contributed.
    pub observed_from: Vec<String>,
    /// Whether items may be missing because a registry has not synced.
    pub partial: bool,
    /// Time of the answer.
    pub as_of: String,
    /// Generation of the catalog that the list shows; the parameter `after` takes it.
    pub resource_version: String,
    /// Number of matching items after the last one of the list; of several replicas the largest number, so at least so many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remaining: usize,
    /// Replicas that did not answer, with the reason; only in documents that a command merged from several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
    /// Number of matching items, before, in and after the list; only in lists that have pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// Lower bound of that number; only in documents that a command merged from pages of several replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_at_least: Option<usize>,
    /// What an operator should know about the choice of the clients, such as streams that share a node id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Sources of the declarations of clusters; only in lists of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ClusterSourceItem>,
}

const fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl<T> List<T> {
    /// Returns a list of the items, cut to the limit.
    pub fn new(kind: &str, mut items: Vec<T>, mut metadata: Metadata, limit: usize) -> Self {
        metadata.remaining = items.len().saturating_sub(limit);
        items.truncate(limit);
        Self { api_version: API_VERSION.to_owned(), kind: kind.to_owned(), metadata, items }
    }
    /// Returns a list of one page.
    #[must_use]
    pub fn of_page(kind: &str, page: Page<T>, mut metadata: Metadata, filter: &Filter) -> Self {
        let Page { items, total } = page;
        metadata.total = Some(total);
        metadata.remaining = total.saturating_sub(filter.offset().saturating_add(items.len()));
        Self { api_version: API_VERSION.to_owned(), kind: kind.to_owned(), metadata, items }
    }
}

/// Returns true for the name of a field that is an age.
#[must_use]
pub fn is_age(name: &str) -> bool {
    name.ends_with("Millis") || name.ends_with("MillisAgo")
}

/// Formats a time with three decimals of a second always, so that times sort as text.
#[must_use]
pub fn timestamp(at: Timestamp) -> String {
    format!("{at:.3}")
}

impl Metadata {
    /// Returns the metadata of one server's catalog at `now`.
    #[must_use]
    pub fn new(server: &str, generation: u64, partial: bool, now: Timestamp) -> Self {
        Self {
            observed_from: vec![server.to_owned()],
            partial,
            as_of: timestamp(now),
            resource_version: generation.to_string(),
            remaining: 0,
            silent: Vec::new(),
            total: None,
            total_at_least: None,
            notes: Vec::new(),
            sources: Vec::new(),
        }
    }
}

/// Condition that an operator should see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionItem {
    /// Code from the table of codes.
    pub code: String,
    /// Description.
    pub message: String,
    /// Objects concerned; the served one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
}

impl From<&Condition> for ConditionItem {
    fn from(condition: &Condition) -> Self {
        Self {
            code: condition.code.to_string(),
            message: condition.message.to_string(),
            objects: condition.objects.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Object of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectItem {
    /// `ServiceEntry`, …
    pub kind: String,
    /// Namespace; empty if the source has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Position in the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub position: String,
    /// Version of the object in its source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

impl From<&tributary_model::Source> for ObjectItem {
    fn from(source: &tributary_model::Source) -> Self {
        Self {
            position: source.position.to_string(),
            resource_version: source.version.0.to_string(),
            ..Self::from(&source.object)
        }
    }
}

impl From<&tributary_model::ObjectId> for ObjectItem {
    fn from(id: &tributary_model::ObjectId) -> Self {
        Self {
            kind: id.kind.to_owned(),
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
            ..Self::default()
        }
    }
}

impl ObjectItem {
    /// Whether it describes this object.
    #[must_use]
    pub fn is(&self, id: &tributary_model::ObjectId) -> bool {
        (self.kind.as_str(), self.namespace.as_str(), self.name.as_str())
            == (id.kind, &*id.namespace, &*id.name)
    }
    /// Describes a policy by its key alone.
    #[must_use]
    pub fn of_policy(key: &tributary_model::PolicyKey) -> Self {
        Self {
            kind: key.kind.as_str().to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            ..Self::default()
        }
    }
}

impl From<&tributary_model::ObjectRef> for ObjectItem {
    fn from(object: &tributary_model::ObjectRef) -> Self {
        Self { position: object.position.to_string(), ..Self::from(&object.id) }
    }
}

impl std::fmt::Display for ObjectItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}
