//! Remote clusters that are added at run time, and what their kubeconfigs may contain.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tributary_registry_api::Span;
use tributary_remote::roster::GRACE;
use tributary_remote::{Allowed, parse_cidr};

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
    /// Ranges of addresses in which API servers are allowed although they are refused by default, such as `127.0.0.0/8`.
    pub allow_server_cidrs: BTreeSet<String>,
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
