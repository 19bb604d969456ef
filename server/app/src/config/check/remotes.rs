//! Rules on `remotes`.

use std::time::Duration;

use tributary_model::{ClusterId, Fingerprint};
use tributary_remote::roster::LONGEST_DRAIN;
use tributary_remote::{Feature, parse_cidr};

use super::Rules;
use crate::config::Config;

/// Longest grace.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Most ranges of addresses.
const MOST_RANGES: usize = 100;

impl Rules<'_> {
    /// Checks remote clusters that are added at run time.
    pub(super) fn remotes(&mut self, config: &Config) {
        let remotes = &config.remotes;
        let has_cluster = config.config_cluster().is_some_and(|registry| registry.kubernetes().is_some());
        if remotes.requires_secrets() && !has_cluster {
            let why = format!(
                "Secrets are read from the config cluster, and none is configured; add a registry of kind `kubernetes` with \
                 clusterId `{}`",
                config.cluster_id
            );
            self.invalid("remotes.secrets", why);
        }
        if remotes.leave_grace.get().is_zero() || remotes.leave_grace.get() > LONGEST {
            self.invalid("remotes.leaveGrace", "is not between 1ms and 24h; write a time such as `30s`");
        }
        if remotes.drain.get() > LONGEST_DRAIN {
            self.invalid("remotes.drain", "is longer than 24h; write a time such as `30s`");
        }
        if remotes.directory.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            self.invalid("remotes.directory", "is empty; name a directory, or remove the field");
        }
        for (name, policy) in &remotes.clusters {
            let field = format!("remotes.clusters.{name}");
            self.valid(&field, ClusterId::new(name));
            if remotes.directory.is_none() {
                self.invalid(
                    &field,
                    "has no effect: it is for a file of `remotes.directory`, which is not set",
                );
            }
            if let Some(uid) = &policy.accept_uid {
                self.valid(&format!("{field}.acceptUid"), Fingerprint::new(uid));
            }
            if policy.drain.is_some_and(|drain| drain.get() > LONGEST_DRAIN) {
                self.invalid(&format!("{field}.drain"), "is longer than 24h; write a time such as `30s`");
            }
        }
        for name in &remotes.allow_kubeconfig {
            self.valid("remotes.allowKubeconfig", name.parse::<Feature>());
        }
        if remotes.allow_server_cidrs.len() > MOST_RANGES {
            self.invalid("remotes.allowServerCidrs", format!("lists more than {MOST_RANGES} ranges"));
        }
        for range in &remotes.allow_server_cidrs {
            self.valid("remotes.allowServerCidrs", parse_cidr(range));
        }
    }
}
