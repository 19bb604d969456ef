//! One source in the configuration: what all kinds share, then what belongs to one kind alone.
//!
//! Fields stand flat beside `kind`, as a person writes them; `check` refuses a field that belongs
//! to another kind and says whose it is.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::RegistryKind;
use super::span::Span;

/// One source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistryConfig {
    /// What kind of source.
    pub kind: RegistryKind,
    /// Its name, unique in one server; the kind when left out, with a number when that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The cluster that it speaks for; `clusterId` of the server when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// `file`: the directory of YAML documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// `kubernetes`: the kubeconfig file; `KUBECONFIG`, `~/.kube/config` or the pod's own account
    /// when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// `kubernetes`: the context of the kubeconfig; its current one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// `kubernetes`: the only namespaces that are read, for an account that may not read all; all
    /// when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// `kubernetes`: how often a small list of every watched kind proves that the credential and
    /// its rights still hold; `30s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_interval: Option<Span>,
    /// `kubernetes`: how long a watched kind counts as live after the last word of its watch;
    /// `150s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_for: Option<Span>,
    /// `kubernetes`: how often a whole list is compared with what the watches said, to heal what
    /// they lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_interval: Option<Span>,
}

impl RegistryConfig {
    /// What is written after a Kubernetes registry's name to name the registry of its
    /// ServiceEntries, WorkloadEntries and WorkloadGroups.
    pub const ENTRIES: &'static str = "-entries";

    /// A source of a kind that says nothing more.
    #[must_use]
    pub fn of_kind(kind: RegistryKind) -> Self {
        Self { kind, ..Self::default() }
    }
    /// The names under which it speaks: a Kubernetes cluster is two registries that come and go
    /// together.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = self.name.clone().unwrap_or_else(|| self.kind.as_str().to_owned());
        match self.kind {
            RegistryKind::Kubernetes => vec![name.clone(), name + Self::ENTRIES],
            RegistryKind::File => vec![name],
        }
    }
    /// The fields that are set and belong to one kind, each with that kind.
    #[must_use]
    pub fn fields_of_a_kind(&self) -> Vec<(&'static str, RegistryKind)> {
        use RegistryKind::{File, Kubernetes};
        let all = [
            ("path", File, self.path.is_some()),
            ("kubeconfig", Kubernetes, self.kubeconfig.is_some()),
            ("context", Kubernetes, self.context.is_some()),
            ("namespaces", Kubernetes, self.namespaces.is_some()),
            ("probeInterval", Kubernetes, self.probe_interval.is_some()),
            ("liveFor", Kubernetes, self.live_for.is_some()),
            ("auditInterval", Kubernetes, self.audit_interval.is_some()),
        ];
        all.into_iter().filter(|(.., set)| *set).map(|(field, kind, _)| (field, kind)).collect()
    }
}
