//! Identities that Secrets accept: the annotation `tributary.dev/accept-uid` names the UID that a cluster may have in place of the known
//! one.
//!
//! The driver calls it after each event and passes the changes on to the core. Metadata of a Secret gives no order, so the last value of
//! each cluster is kept here.

use std::collections::BTreeMap;

use tributary_model::{ClusterId, Fingerprint, RegistryName};
use tributary_remote::roster::RosterStatus;

/// Accepted identities as the core has them.
#[derive(Debug, Default)]
pub(super) struct Accepted(BTreeMap<ClusterId, Fingerprint>);

/// Registry of a cluster, and the identity that it accepts now.
pub(super) type Acceptance = (RegistryName, Option<Fingerprint>);

impl Accepted {
    /// Returns what changed since the last call.
    pub(super) fn changes(&mut self, status: &RosterStatus) -> Vec<Acceptance> {
        let mut changes = Vec::new();
        for cluster in &status.clusters {
            let Some(registry) = &cluster.registry else { continue };
            let now = cluster.policy.as_ref().and_then(|policy| policy.accept_uid.clone());
            if self.0.get(&cluster.cluster) == now.as_ref() {
                continue;
            }
            match now.clone() {
                Some(uid) => drop(self.0.insert(cluster.cluster.clone(), uid)),
                None => drop(self.0.remove(&cluster.cluster)),
            }
            changes.push((registry.clone(), now));
        }
        changes
    }
    /// Forgets a removed cluster: the core forgot it too.
    pub(super) fn forget(&mut self, cluster: &ClusterId) {
        self.0.remove(cluster);
    }
}

#[cfg(test)]
mod tests {
    use tributary_remote::roster::{ClusterStatus, Policy, State};

    use super::*;

    fn mk_status(uid: Option<&str>) -> RosterStatus {
        let accept_uid = uid.map(|uid| Fingerprint::new(uid).unwrap());
        let one = ClusterStatus {
            cluster: ClusterId::new("away").unwrap(),
            registry: Some(RegistryName::new("away").unwrap()),
            state: State::Joined,
            since: None,
            leaves: None,
            source: None,
            policy: Some(Policy { accept_uid, ..Policy::default() }),
            claims: Vec::new(),
        };
        RosterStatus { clusters: vec![one], sources: Vec::new(), objects: Vec::new() }
    }

    #[test]
    fn changed_annotations_are_passed_on_once() {
        let mut accepted = Accepted::default();
        let uids = |changes: Vec<Acceptance>| -> Vec<Option<String>> {
            changes.into_iter().map(|(_, uid)| uid.map(|uid| uid.to_string())).collect()
        };
        assert_eq!(uids(accepted.changes(&mk_status(None))), []);
        assert_eq!(uids(accepted.changes(&mk_status(Some("uid-2")))), [Some("uid-2".to_owned())]);
        assert_eq!(uids(accepted.changes(&mk_status(Some("uid-2")))), []);
        accepted.forget(&ClusterId::new("away").unwrap());
        assert_eq!(
            uids(accepted.changes(&mk_status(Some("uid-2")))),
            [Some("uid-2".to_owned())],
            "it joined again"
        );
        assert_eq!(uids(accepted.changes(&mk_status(None))), [None]);
    }
}
