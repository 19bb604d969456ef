//! Remote clusters that are added at run time, and what their kubeconfigs may contain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_model::{ClusterId, Fingerprint};
use tributary_registry_api::Span;
use tributary_remote::roster::{GRACE, Policy};
use tributary_remote::{Allowed, parse_cidr};

use super::staleness::Staleness;

/// Remote clusters that are added at run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RemotesConfig {
    /// Whether Secrets of `systemNamespace` in the config cluster declare remote clusters: those with the label
    /// `istio/multiCluster: "true"` or `tributary.dev/cluster: "true"`.
    pub secrets: SecretsConfig,
    /// Directory of kubeconfigs: each regular file is a remote cluster, named after the file without `.yaml`, `.yml`, `.kubeconfig` or
    /// `.conf`. Names that begin with `.` and subdirectories are skipped. It is followed while the server runs.
    pub directory: Option<PathBuf>,
    /// How long a cluster stays after its Secret, its key, its label or its file is gone; one that is back by then loses nothing.
    pub leave_grace: Span,
    /// How long the endpoints of a cluster that leaves are used after those of others before they are removed; `0` removes them at once.
    pub drain: Span,
    /// Fields of kubeconfigs that are allowed although they are refused by default: `insecure-skip-tls-verify`, `basic`,
    /// `impersonation` or `proxy-url`.
    pub allow_kubeconfig: BTreeSet<String>,
    /// Policies of clusters of the directory, by cluster ID, where a Secret has annotations. A change takes effect at once.
    pub clusters: BTreeMap<String, FileClusterPolicy>,
    /// Ranges of addresses in which API servers are allowed although they are refused by default, such as `127.0.0.0/8`.
    pub allow_server_cidrs: BTreeSet<String>,
}

/// Policy of one cluster of the directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FileClusterPolicy {
    /// Closes the connections of the cluster; its last known facts stay served.
    pub paused: bool,
    /// Removes the cluster although its file is there.
    pub remove: bool,
    /// How long it is drained, in place of `remotes.drain`.
    pub drain: Option<Span>,
    /// UID that its namespace `kube-system` may have in place of the known one.
    pub accept_uid: Option<String>,
    /// Accepts a credential that may read less than the one before.
    pub accept_rights: bool,
    /// What becomes of its facts when they are no longer confirmed: `hold`, `degrade(10m)` or `withdraw(1h)`.
    pub staleness: Option<Staleness>,
}

impl FileClusterPolicy {
    fn policy(&self) -> Policy {
        Policy {
            paused: self.paused,
            remove: self.remove,
            drain: self.drain.map(Span::get),
            accept_uid: self.accept_uid.as_ref().and_then(|uid| Fingerprint::new(uid).ok()),
            accept_rights: self.accept_rights,
            staleness: self.staleness.map(Staleness::policy),
            ..Policy::default()
        }
    }
}

/// Whether Secrets declare remote clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretsConfig {
    /// They are read where the account of the server may. Where it may not, no Secret adds a cluster, and the server is ready
    /// without.
    #[default]
    Auto,
    /// Secrets are not read.
    Off,
    /// They are read, and the server needs the right to: it is not ready before it has read them, until
    /// `start.firstSyncTimeout` has passed.
    On,
}

impl Default for RemotesConfig {
    fn default() -> Self {
        Self {
            secrets: SecretsConfig::default(),
            directory: None,
            leave_grace: Span::seconds(GRACE.as_secs()),
            drain: Span::seconds(30),
            allow_kubeconfig: BTreeSet::new(),
            clusters: BTreeMap::new(),
            allow_server_cidrs: BTreeSet::new(),
        }
    }
}

impl RemotesConfig {
    /// Returns true if the server needs the right to read Secrets.
    #[must_use]
    pub fn requires_secrets(&self) -> bool {
        self.secrets == SecretsConfig::On
    }
    /// Returns the policies of clusters of the directory. Names that are no cluster ID, which the checks refuse, have none.
    #[must_use]
    pub fn policies(&self) -> BTreeMap<ClusterId, Policy> {
        let one = |(name, policy): (&String, &FileClusterPolicy)| {
            Some((ClusterId::new(name).ok()?, policy.policy()))
        };
        self.clusters.iter().filter_map(one).collect()
    }
    /// Returns what kubeconfigs may contain. Entries that are not valid, which the checks refuse, allow nothing.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed {
            features: self.allow_kubeconfig.iter().filter_map(|name| name.parse().ok()).collect(),
            servers: self.allow_server_cidrs.iter().filter_map(|range| parse_cidr(range).ok()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_remote::Feature;

    use super::*;

    #[test]
    fn nothing_is_required_or_allowed_by_default() {
        let config = RemotesConfig::default();
        assert_eq!((config.requires_secrets(), config.allowed()), (false, Allowed::default()));
        assert_eq!(config.secrets, SecretsConfig::Auto);
        assert_eq!((config.leave_grace, config.drain), (Span::seconds(30), Span::seconds(30)));
    }

    #[test]
    fn policies_of_files_are_those_of_annotations() {
        let text = "{clusters: {east: {paused: true, acceptUid: u-1, staleness: degrade(10m), drain: 5s}}}";
        let config: RemotesConfig = serde_saphyr::from_str(text).unwrap();
        let annotations =
            [("paused", "true"), ("accept-uid", "u-1"), ("staleness", "degrade(10m)"), ("drain", "5s")];
        let annotations = annotations.map(|(name, value)| (format!("tributary.dev/{name}"), value));
        let (expected, faults) =
            Policy::read(annotations.iter().map(|(name, value)| (name.as_str(), *value)));
        assert_eq!(
            (config.policies(), faults),
            ([(ClusterId::new("east").unwrap(), expected)].into(), vec![])
        );
    }

    #[test]
    fn opt_ins_are_those_of_the_flags() {
        let text = "{secrets: on, allowKubeconfig: [basic], allowServerCidrs: [10.0.0.1, 127.0.0.0/8]}";
        let config: RemotesConfig = serde_saphyr::from_str(text).unwrap();
        assert!(config.requires_secrets());
        let Allowed { features, servers } = config.allowed();
        assert_eq!(features, [Feature::Basic].into());
        assert_eq!(
            servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.1/32", "127.0.0.0/8"]
        );
    }
}
