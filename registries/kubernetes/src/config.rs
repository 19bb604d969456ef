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
    /// With `cluster` and no right to read it, the config cluster reports nothing. Other clusters
    /// follow the config cluster's; of their own only the trust domain counts.
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
    /// Checks values that the types do not express. Returns every error.
    #[must_use]
    pub fn check(&self) -> Vec<InvalidField> {
        let mut errors = Vec::new();
        if self.kubeconfig.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            errors.push(InvalidField::new("kubeconfig", "is empty; name a file, or omit it"));
        }
        self.check_namespaces(&mut errors);
        errors.extend(self.check_mcs());
        for (field, span) in [
            ("probeInterval", self.probe_interval),
            ("staleAfter", self.stale_after),
            ("auditInterval", self.audit_interval),
        ] {
            if span.is_some_and(|span| span.get().is_zero()) {
                errors.push(InvalidField::new(field, "must be more than 0; write a time such as `30s`"));
            }
        }
        errors
    }
    fn check_namespaces(&self, errors: &mut Vec<InvalidField>) {
        let Some(namespaces) = &self.namespaces else { return };
        if namespaces.is_empty() {
            errors.push(InvalidField::new("namespaces", "is empty; omit it to read all"));
        }
        if namespaces.len() > MAX_NAMESPACES {
            errors.push(InvalidField::new(
                "namespaces",
                format!("lists more than {MAX_NAMESPACES} namespaces"),
            ));
        }
        for (i, namespace) in namespaces.iter().enumerate().filter(|(_, namespace)| !is_label(namespace)) {
            let why = format!("{namespace:?} is not a namespace; use lowercase letters, digits and `-`");
            errors.push(InvalidField::new(format!("namespaces[{i}]"), why));
        }
    }
    /// An API group is a DNS name; any other text would change the path of the requests.
    fn check_mcs(&self) -> Option<InvalidField> {
        let group = self.mcs.as_ref()?.group.as_ref()?;
        let is_name = Hostname::new(group).is_ok_and(|name| !name.is_wildcard());
        let why = || format!("{group:?} is not an API group; use a DNS name such as `{}`", Mcs::GROUP);
        (!is_name).then(|| InvalidField::new("mcs.group", why()))
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

/// Whether a text is a DNS label, as every namespace of a cluster is.
fn is_label(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_the_field() {
        for group in ["", "a/b", "*.x", "a b"] {
            let fields = serde_json::json!({"mcs": {"group": group}});
            let fields: KubernetesFields = serde_json::from_value(fields).unwrap();
            assert_eq!(fields.check()[0].field, "mcs.group", "{group:?}");
        }
        let fields = serde_json::json!({"namespaces": ["a", "Shop", ""], "probeInterval": "0s"});
        let errors = serde_json::from_value::<KubernetesFields>(fields).unwrap().check();
        let fields: Vec<&str> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["namespaces[1]", "namespaces[2]", "probeInterval"]);
        let fields = serde_json::json!({"mcs": {"group": "net.gke.io"}});
        assert_eq!(serde_json::from_value::<KubernetesFields>(fields).unwrap().check(), []);
    }
}
