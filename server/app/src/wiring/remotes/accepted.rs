//! What Secrets and files accept: the UID that a cluster may have in place of the known one, and that a credential may read less than the
//! one before.
//!
//! The driver calls it after each event and passes the changes on to the core. Metadata of a Secret gives no order, so the last value of
//! each cluster is kept here.

use std::collections::BTreeMap;

use tributary_model::{ClusterId, Fingerprint, RegistryName};
use tributary_remote::roster::{Policy, RosterStatus};

/// What is accepted of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Acceptance {
    /// Identity in place of the known one.
    pub(super) identity: Option<Fingerprint>,
    /// Whether runs may read less than those before.
    pub(super) fewer_rights: bool,
}

impl Acceptance {
    fn of(policy: &Policy) -> Self {
        Self { identity: policy.accept_uid.clone(), fewer_rights: policy.accept_rights }
    }
}

/// What is accepted, as the core has it.
#[derive(Debug, Default)]
pub(super) struct Accepted(BTreeMap<ClusterId, Acceptance>);

impl Accepted {
    /// Returns what changed since the last call, by registry.
    pub(super) fn changes(&mut self, status: &RosterStatus) -> Vec<(RegistryName, Acceptance)> {
        let mut changes = Vec::new();
        for cluster in &status.clusters {
            let Some(registry) = &cluster.registry else { continue };
            let now = cluster.policy.as_ref().map(Acceptance::of).unwrap_or_default();
            let was = self.0.get(&cluster.cluster).cloned().unwrap_or_default();
            if now != was {
                self.0.insert(cluster.cluster.clone(), now.clone());
                changes.push((registry.clone(), now));
            }
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
    use tributary_remote::roster::{ClusterStatus, State};

    use super::*;

    fn mk_status(uid: Option<&str>, accept_rights: bool) -> RosterStatus {
        let accept_uid = uid.map(|uid| Fingerprint::new(uid).unwrap());
        let one = ClusterStatus {
            cluster: ClusterId::new("away").unwrap(),
            registry: Some(RegistryName::new("away").unwrap()),
            state: State::Joined,
            since: None,
            leaves: None,
            source: None,
            policy: Some(Policy { accept_uid, accept_rights, ..Policy::default() }),
            claims: Vec::new(),
        };
        RosterStatus { clusters: vec![one], ..RosterStatus::default() }
    }

    #[test]
    fn changed_annotations_are_passed_on_once() {
        let mut accepted = Accepted::default();
        let mut changes = |status: &RosterStatus| -> Vec<(Option<String>, bool)> {
            let shown = |(_, now): (RegistryName, Acceptance)| {
                (now.identity.map(|uid| uid.to_string()), now.fewer_rights)
            };
            accepted.changes(status).into_iter().map(shown).collect()
        };
        let named = Some("uid-2".to_owned());
        assert_eq!(changes(&mk_status(None, false)), []);
        assert_eq!(changes(&mk_status(Some("uid-2"), false)), [(named.clone(), false)]);
        assert_eq!(changes(&mk_status(Some("uid-2"), false)), []);
        assert_eq!(changes(&mk_status(Some("uid-2"), true)), [(named, true)]);
        assert_eq!(changes(&mk_status(None, true)), [(None, true)]);
        assert_eq!(changes(&mk_status(None, false)), [(None, false)]);
    }

    #[test]
    fn acceptance_is_passed_on_again_after_a_removal() {
        let mut accepted = Accepted::default();
        let status = mk_status(Some("uid-2"), false);
        assert_eq!(accepted.changes(&status).len(), 1);
        accepted.forget(&ClusterId::new("away").unwrap());
        assert_eq!(accepted.changes(&status).len(), 1);
    }
}
