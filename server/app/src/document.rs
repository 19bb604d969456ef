//! The documents of the admin surface, as the server writes and the command line reads them.
//!
//! Every answer of `/debug` is one document shaped as a Kubernetes list. Fields are added, never
//! renamed or given another meaning: the JSON is a contract. Builders are pure functions from a
//! catalog; nothing here does I/O.

pub mod clients;
pub mod endpoints;
pub mod explain;
pub mod filter;
pub mod guard;
pub mod merges;
pub mod registries;
pub mod services;
pub mod state;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tributary_model::Condition;

pub use clients::ClientItem;
pub use endpoints::EndpointItem;
pub use explain::{ExplainItem, StepItem, WhyNotItem};
pub use filter::Filter;
pub use guard::HeldItem;
pub use merges::{MergeItem, NamedItem};
pub use registries::RegistryItem;
pub use services::ServiceItem;
pub use state::StateDocument;

/// The version of all documents.
pub const API_VERSION: &str = "tributary.dev/v1";

/// A list of things of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// `ServiceList`, `EndpointList`, …
    pub kind: String,
    /// What is known of the list as a whole.
    pub metadata: Metadata,
    /// The things, in a stable order.
    pub items: Vec<T>,
}

/// What is known of a list as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Which servers were asked.
    pub observed_from: Vec<String>,
    /// Whether something may be missing: a registry has not synced yet.
    pub partial: bool,
    /// When.
    pub as_of: String,
    /// Which generation of the catalog this shows; `after` takes it.
    pub resource_version: String,
    /// How many more there are than the list was allowed to hold.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub remaining: usize,
}

const fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl<T> List<T> {
    /// A list of these, no more than the filter allows.
    pub fn new(kind: &str, mut items: Vec<T>, mut metadata: Metadata, limit: usize) -> Self {
        metadata.remaining = items.len().saturating_sub(limit);
        items.truncate(limit);
        Self { api_version: API_VERSION.to_owned(), kind: kind.to_owned(), metadata, items }
    }
}

impl Metadata {
    /// Of one server's catalog, now.
    #[must_use]
    pub fn new(server: &str, generation: u64, partial: bool, now: Timestamp) -> Self {
        Self {
            observed_from: vec![server.to_owned()],
            partial,
            as_of: now.round(jiff::Unit::Millisecond).unwrap_or(now).to_string(),
            resource_version: generation.to_string(),
            remaining: 0,
        }
    }
}

/// Something that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionItem {
    /// The row of the table of codes.
    pub code: String,
    /// It, in words.
    pub message: String,
    /// The objects that it is about, the one that is served first.
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

/// An object of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectItem {
    /// `ServiceEntry`, …
    pub kind: String,
    /// Its namespace, empty where the source has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where a person finds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub position: String,
    /// The source's own version of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

impl From<&tributary_model::Source> for ObjectItem {
    fn from(source: &tributary_model::Source) -> Self {
        Self {
            position: source.position.0.to_string(),
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
