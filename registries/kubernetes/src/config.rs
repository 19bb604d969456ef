//! Fields of a registry of kind `kubernetes` in the configuration file.
//!
//! The application reads them, calls [`KubernetesFields::check`] once all layers are applied, and adds the
//! settings of the server to the options that the other functions return.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_kube_client::{ConnectOptions, Timing};
use tributary_model::{Hostname, InvalidName, Namespace};
use tributary_registry_api::{InvalidField, Span};

use crate::kind::Kind;
use crate::options::Mcs;

/// Bound on the namespaces of one registry: each has watches of its own.
const MAX_NAMESPACES: usize = 1_000;

/// Multi-cluster services of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct McsConfig {
    /// Whether a Service without a ServiceExport is visible in its own cluster only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery: Option<bool>,
    /// Whether a Service's own host is visible in its own cluster only, exported or not; needs `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_local: Option<bool>,
    /// Whether ServiceImports create hosts under `clusterset.local`; needs `discovery`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<bool>,
    /// API group of ServiceExport and ServiceImport; default `multicluster.x-k8s.io`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Source of a cluster's mesh configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MeshSource {
    /// The ConfigMap `istio` of the system namespace.
    Cluster,
    /// No mesh configuration; the defaults apply.
    None,
}

/// Fields of a Kubernetes registry. An omitted field has the default that its description names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KubernetesFields {
    /// Kubeconfig file; default: `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: its current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Namespaces to read, for an account that may not read all of them; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Multi-cluster services; off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<McsConfig>,
    /// Source of the mesh configuration; default `cluster`. With `none` the defaults apply.
    /// With `cluster` and no right to read it, the registry reports nothing of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh_config: Option<MeshSource>,
    /// Interval of a small list of every watched kind, which proves that the credential and its
    /// rights are valid; default `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_interval: Option<Span>,
    /// Time after a watch's last event at which the watched kind counts as stale; default
    /// `150s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_after: Option<Span>,
    /// Interval of a full list that is compared with the watched state and recovers lost
    /// events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_interval: Option<Span>,
}

impl KubernetesFields {
    /// Returns the multi-cluster settings for modification.
    pub fn mcs_mut(&mut self) -> &mut McsConfig {
        self.mcs.get_or_insert_with(McsConfig::default)
    }
    /// Checks values that the types do not express. Returns the first error.
    pub fn check(&self) -> Result<(), InvalidField> {
        if self.kubeconfig.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(InvalidField::new("kubeconfig", "is empty"));
        }
        self.check_namespaces()?;
        self.check_mcs()?;
        for (field, span) in [
            ("probeInterval", self.probe_interval),
            ("staleAfter", self.stale_after),
            ("auditInterval", self.audit_interval),
        ] {
            if span.is_some_and(|span| span.get().is_zero()) {
                return Err(InvalidField::new(field, "must be more than 0"));
            }
        }
        Ok(())
    }
    fn check_namespaces(&self) -> Result<(), InvalidField> {
        let Some(namespaces) = &self.namespaces else { return Ok(()) };
        if namespaces.is_empty() {
            return Err(InvalidField::new("namespaces", "is empty; omit it to read all"));
        }
        if namespaces.len() > MAX_NAMESPACES {
            return Err(InvalidField::new("namespaces", format!("more than {MAX_NAMESPACES}")));
        }
        self.namespaces().map(drop).map_err(|e| InvalidField::new("namespaces", e))
    }
    /// An API group is a DNS name; any other text would change the path of the requests.
    fn check_mcs(&self) -> Result<(), InvalidField> {
        let Some(group) = self.mcs.as_ref().and_then(|mcs| mcs.group.as_ref()) else { return Ok(()) };
        let why = || format!("{group:?} is not an API group; use a DNS name such as `{}`", Mcs::GROUP);
        let is_name = Hostname::new(group).is_ok_and(|name| !name.is_wildcard());
        if is_name { Ok(()) } else { Err(InvalidField::new("mcs.group", why())) }
    }
    /// Returns the options of the connection.
    #[must_use]
    pub fn connect_options(&self) -> ConnectOptions {
        ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }
    /// Returns the intervals of the watches.
    #[must_use]
    pub fn timing(&self) -> Timing {
        let usual = Timing::default();
        Timing {
            probe: self.probe_interval.map_or(usual.probe, Span::get),
            live: self.stale_after.map_or(usual.live, Span::get),
            audit: self.audit_interval.map_or(usual.audit, Span::get),
            ..usual
        }
    }
    /// Returns the namespaces to read; all if empty.
    pub fn namespaces(&self) -> Result<Vec<Namespace>, InvalidName> {
        self.namespaces.iter().flatten().map(Namespace::new).collect()
    }
    /// Returns the kinds to watch.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        let reads_mesh = self.mesh_config != Some(MeshSource::None);
        Kind::ALL.into_iter().filter(|kind| reads_mesh || *kind != Kind::MeshConfig).collect()
    }
    /// Returns the multi-cluster options; `auto_export` comes from the server's list of writes.
    #[must_use]
    pub fn mcs_options(&self, auto_export: bool) -> Mcs {
        let mcs = self.mcs.clone().unwrap_or_default();
        Mcs {
            discovery: mcs.discovery.unwrap_or_default(),
            cluster_local: mcs.cluster_local.unwrap_or_default(),
            host: mcs.host.unwrap_or_default(),
            auto_export,
            group: mcs.group.as_deref().unwrap_or(Mcs::GROUP).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_field() {
        for group in ["", "a/b", "*.x", "a b"] {
            let fields = serde_json::json!({"mcs": {"group": group}});
            let fields: KubernetesFields = serde_json::from_value(fields).unwrap();
            assert_eq!(fields.check().unwrap_err().field, "mcs.group", "{group:?}");
        }
        let fields = serde_json::json!({"mcs": {"group": "net.gke.io"}});
        assert_eq!(serde_json::from_value::<KubernetesFields>(fields).unwrap().check(), Ok(()));
    }
}
