//! Changes of the server as documents, in the order in which they were noticed.

use serde::{Deserialize, Serialize};

/// Worst is the greatest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimelineSeverity {
    /// A change that needs no one's attention.
    #[default]
    Info,
    /// Something is worse than before, and is served as it was.
    Warning,
    /// Something is not served, or was rejected.
    Error,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimelineKind {
    /// Hosts or endpoints of the served catalog.
    #[default]
    Catalog,
    /// State of a registry, or of a part of it.
    Registry,
    /// State of a Kubernetes cluster.
    Cluster,
    /// Credential of a cluster, or certificate of the server.
    Rotation,
    /// Removals that are held, released, or no longer held.
    Held,
    /// Changed configuration file.
    Configuration,
    /// Streams of clients that opened or ended.
    Client,
    /// Responses that clients rejected.
    Rejection,
    /// Problem of an object: it is quarantined, or served without a field; and its end.
    Problem,
}

impl TimelineKind {
    /// Returns the text in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::Registry => "registry",
            Self::Cluster => "cluster",
            Self::Rotation => "rotation",
            Self::Held => "held",
            Self::Configuration => "configuration",
            Self::Client => "client",
            Self::Rejection => "rejection",
            Self::Problem => "problem",
        }
    }
}

/// Object of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineObject {
    /// `Registry`, `Cluster`, `Client`, `Host`, …
    pub kind: String,
    /// Name.
    pub name: String,
}

impl TimelineObject {
    /// Names an object.
    #[must_use]
    pub fn new(kind: &str, name: impl Into<String>) -> Option<Self> {
        Some(Self { kind: kind.to_owned(), name: name.into() })
    }
}

/// One change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineItem {
    /// Number of the change, from 1 since the server started.
    pub sequence: u64,
    /// Time at which the server noticed it.
    pub at: String,
    /// Kind.
    pub kind: TimelineKind,
    /// Severity.
    pub severity: TimelineSeverity,
    /// Object, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<TimelineObject>,
    /// Description.
    pub message: String,
    /// Code from the table of codes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Registry that reported it, if it is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registry: String,
    /// Catalog generation that has the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Trace of this generation, if it is traced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
    /// First changed hosts, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Number of further changed hosts.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub more_hosts: usize,
}
