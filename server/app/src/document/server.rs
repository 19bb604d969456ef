//! Documents about the server itself: version, readiness, and the certificates of its xDS listener.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::API_VERSION;
use crate::admin::Readiness;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Versions of other programs that the tests run against.
pub const TESTED: [(&str, &str); 3] = [("kubernetes", "1.36.3"), ("consul", "1.20.5"), ("envoy", "1.40.0")];

/// Version of a program, with what it supports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionDocument {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// Always `Version`.
    pub kind: String,
    /// Name of the server; empty for the command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Format of the journal that it writes; it reads this one and the one before.
    pub journal_format: u64,
    /// Versions of other programs that its tests run against.
    #[serde(default)]
    pub tested: Vec<TestedItem>,
    /// Time of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub as_of: String,
}

/// Program with the versions that the tests run against.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedItem {
    /// `kubernetes`, `consul` or `envoy`.
    pub program: String,
    /// Versions.
    pub versions: String,
}

impl VersionDocument {
    /// Returns the version of this program.
    #[must_use]
    pub fn own(name: &str, as_of: Option<Timestamp>) -> Self {
        let tested = |(program, versions): (&str, &str)| TestedItem {
            program: program.to_owned(),
            versions: versions.to_owned(),
        };
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Version".to_owned(),
            name: name.to_owned(),
            version: VERSION.to_owned(),
            journal_format: tributary_journal::FORMAT,
            tested: TESTED.into_iter().map(tested).collect(),
            as_of: as_of.map(super::timestamp).unwrap_or_default(),
        }
    }
}

/// Readiness with its conditions, as `/readyz?verbose` lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessDocument {
    /// Always `tributary.dev/v1`.
    pub api_version: String,
    /// Always `Readiness`.
    pub kind: String,
    /// Whether clients are answered.
    pub ready: bool,
    /// Conditions of readiness, and notes for the operator.
    pub checks: Vec<ReadinessItem>,
}

/// Condition of readiness, or a note for the operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadinessItem {
    /// Name.
    pub name: String,
    /// Whether it holds.
    pub ok: bool,
    /// Detail.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl From<Readiness> for ReadinessDocument {
    fn from(readiness: Readiness) -> Self {
        let item = |check: crate::admin::Check| ReadinessItem {
            name: check.name,
            ok: check.ok,
            detail: check.detail,
        };
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Readiness".to_owned(),
            ready: readiness.ready,
            checks: readiness.checks.into_iter().map(item).collect(),
        }
    }
}

/// Certificate of the xDS listener. Holds no key and no name of a subject.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateItem {
    /// `xDS certificate` or `client CA`.
    pub name: String,
    /// File.
    pub file: String,
    /// Time from which it is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Time at which it expires; absent if the file does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}
