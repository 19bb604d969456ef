//! Findings of the checks of one credential: name, connection, authentication, version, clock, identity and rights.
//!
//! `ops::clusters::findings` fills them; `cluster check`, `add` and `rotate` show them, and `/debug/clusters/check` sends them. They hold
//! names, addresses and times, and no credential.

use serde::{Deserialize, Serialize};
use tributary_model::Code;

/// Result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is right.
    Ok,
    /// It should be corrected, and the cluster can be read.
    Warning,
    /// The cluster cannot be read.
    Failed,
}

/// Finding of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// `name`, `connection`, `authentication`, `version`, `clock`, `identity`, `rights` or `expiry`.
    pub check: String,
    /// Result.
    pub outcome: Outcome,
    /// Code from the table of codes; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// What was found.
    pub detail: String,
}

impl Finding {
    /// Returns a finding without a code.
    #[must_use]
    pub fn new(check: &str, outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { check: check.to_owned(), outcome, code: String::new(), detail: detail.into() }
    }
    /// Returns the finding with a code.
    #[must_use]
    pub fn coded(self, code: Code) -> Self {
        Self { code: code.to_string(), ..self }
    }
}

/// Findings about one credential.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// Version of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Identity of the cluster: the UID of its namespace `kube-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Findings, in the order of the checks.
    pub checks: Vec<Finding>,
}

impl Findings {
    /// Returns true if the cluster can be read.
    #[must_use]
    pub fn are_good(&self) -> bool {
        self.checks.iter().all(|one| one.outcome != Outcome::Failed)
    }
    /// Adds the time at which the token expires.
    #[must_use]
    pub fn expiring(mut self, expires: &str) -> Self {
        self.checks.push(Finding::new("expiry", Outcome::Ok, expires));
        self
    }
}

/// Declaration that a running server tried, or a cluster of its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriedCluster {
    /// Cluster ID.
    pub cluster: String,
    /// `configuration`, `Secret NAMESPACE/NAME` or `file PATH`.
    pub source: String,
    /// Address of the API server, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What was found.
    #[serde(flatten)]
    pub findings: Findings,
}
