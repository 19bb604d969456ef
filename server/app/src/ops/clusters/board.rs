//! What the task of the remote clusters publishes for the admin surface: the roster's status, credentials' times, and failures.
//!
//! The driver in `wiring::remotes` writes it, the admin surface and the log of clusters read it. It holds no credential. A reader sees
//! one whole version; a version is never changed after it was published.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tributary_model::{ClusterId, Mono};
use tributary_remote::roster::{RosterStatus, Source};
use tributary_remote::{Validity, WriteFailure};

/// Remote clusters at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemotesView {
    /// Status of the roster; empty if no source is read.
    pub roster: RosterStatus,
    /// Whether a server that may not read Secrets goes on without them.
    pub may_lack_secrets: bool,
    /// Directory of kubeconfigs; empty if none is read.
    pub directory: String,
    /// Whether this server renews tokens and writes UIDs while it leads.
    pub renews: bool,
    /// Renewals of tokens whose last try failed, on the replica that leads.
    pub failed_renewals: BTreeMap<ClusterId, WriteFailure>,
    /// Why sources could not be read last, until they are.
    pub errors: BTreeMap<Source, String>,
    /// Object that declared each cluster last, as operators read it.
    pub objects: BTreeMap<ClusterId, String>,
    /// Credentials of the clusters of the configuration, by cluster ID, where they state when they end.
    pub configured: BTreeMap<String, ConfiguredCredential>,
    /// Facts about connections, by cluster; gone after its removal.
    pub connections: BTreeMap<ClusterId, ConnectionFacts>,
}

/// Credential of a cluster of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfiguredCredential {
    /// Validity, as it states it.
    pub validity: Validity,
    /// Whether another program replaces it before it ends, such as the token of a pod.
    pub is_refreshed: bool,
}

/// Facts about the connection of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionFacts {
    /// Validity of the credential that was taken last.
    pub validity: Option<Validity>,
    /// Validity of the one before, while the run with the last one does not serve yet.
    pub before: Option<Option<Validity>>,
    /// Number of credentials that were taken after the first.
    pub rotations: u64,
    /// Why the last order could not be executed.
    pub failure: Option<JoinFailure>,
}

/// Failure to add or rotate a cluster, which is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinFailure {
    /// Reason.
    pub reason: String,
    /// Time of the first failure in a row.
    pub since: Mono,
    /// Time of the next try.
    pub next: Mono,
}

/// Place where the view is published. Clones share it.
#[derive(Debug, Clone)]
pub struct Board(Arc<watch::Sender<Arc<RemotesView>>>);

impl Default for Board {
    fn default() -> Self {
        Self(Arc::new(watch::channel(Arc::default()).0))
    }
}

impl Board {
    /// Returns the current view.
    #[must_use]
    pub fn view(&self) -> Arc<RemotesView> {
        Arc::clone(&self.0.borrow())
    }
    /// Returns a receiver that wakes when another view was published.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Arc<RemotesView>> {
        self.0.subscribe()
    }
    /// Publishes the roster's status, and why sources cannot be read. An equal one wakes no reader.
    pub fn publish(&self, roster: RosterStatus, errors: BTreeMap<Source, String>) {
        self.change(|view| (view.roster, view.errors) = (roster, errors));
    }
    /// Sets whether a server that may not read Secrets goes on without them, and the directory of kubeconfigs.
    pub fn set_sources(&self, may_lack_secrets: bool, directory: Option<&Path>) {
        let directory = directory.map(|path| path.display().to_string()).unwrap_or_default();
        self.change(|view| (view.may_lack_secrets, view.directory) = (may_lack_secrets, directory));
    }
    /// Sets the credentials of the clusters of the configuration.
    pub fn set_configured(&self, configured: BTreeMap<String, ConfiguredCredential>) {
        self.change(|view| view.configured = configured);
    }
    /// Sets whether this server renews tokens and writes UIDs while it leads.
    pub fn set_renews(&self, renews: bool) {
        self.change(|view| view.renews = renews);
    }
    /// Sets the renewals whose last try failed.
    pub fn set_failed_renewals(&self, failed: BTreeMap<ClusterId, WriteFailure>) {
        self.change(|view| view.failed_renewals = failed);
    }
    /// Records the object that declares a cluster.
    pub fn declared(&self, cluster: &ClusterId, object: String) {
        self.change(|view| drop(view.objects.insert(cluster.clone(), object)));
    }
    /// Records that a credential was taken. `is_filling` if a run with an earlier one is still to take over.
    pub fn took(&self, cluster: &ClusterId, validity: Option<Validity>, is_rotation: bool, is_filling: bool) {
        self.change(|view| {
            let facts = view.connections.entry(cluster.clone()).or_default();
            let kept = facts.before.take().filter(|_| is_filling);
            facts.before = is_rotation.then(|| kept.unwrap_or(facts.validity));
            facts.rotations = facts.rotations.saturating_add(u64::from(is_rotation));
            (facts.validity, facts.failure) = (validity, None);
        });
    }
    /// Records that an order failed.
    pub fn failed(&self, cluster: &ClusterId, failure: JoinFailure) {
        self.change(|view| view.connections.entry(cluster.clone()).or_default().failure = Some(failure));
    }
    /// Drops the facts of a cluster that was removed.
    pub fn forget(&self, cluster: &ClusterId) {
        self.change(|view| {
            view.connections.remove(cluster);
            view.objects.remove(cluster);
        });
    }
    fn change(&self, change: impl FnOnce(&mut RemotesView)) {
        self.0.send_if_modified(|view| {
            let mut next = (**view).clone();
            change(&mut next);
            let is_changed = next != **view;
            if is_changed {
                *view = Arc::new(next);
            }
            is_changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn until(seconds: i64) -> Option<Validity> {
        Some(Validity { from: None, until: Timestamp::from_second(seconds).unwrap() })
    }

    #[test]
    fn validity_of_the_served_credential_is_kept_while_new_ones_fail() {
        let (board, east) = (Board::default(), ClusterId::new("east").unwrap());
        let facts = || board.view().connections[&east].clone();
        board.took(&east, until(1), false, false);
        assert_eq!((facts().before, facts().rotations), (None, 0));
        board.took(&east, until(2), true, false);
        assert_eq!((facts().validity, facts().before), (until(2), Some(until(1))));
        board.took(&east, None, true, true);
        assert_eq!((facts().validity, facts().before), (None, Some(until(1))), "the second never served");
        board.took(&east, until(4), true, false);
        assert_eq!((facts().before, facts().rotations), (Some(None), 3), "the third served");
        board.forget(&east);
        assert!(board.view().connections.is_empty());
    }

    #[test]
    fn equal_view_wakes_no_reader() {
        let (board, east) = (Board::default(), ClusterId::new("east").unwrap());
        let mut changes = board.changes();
        board.publish(RosterStatus::default(), BTreeMap::new());
        assert!(!changes.has_changed().unwrap());
        let failure = JoinFailure { reason: "full".into(), since: Mono(1), next: Mono(2) };
        board.failed(&east, failure.clone());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        board.failed(&east, failure);
        assert!(!changes.has_changed().unwrap());
        board.took(&east, None, false, false);
        assert_eq!(board.view().connections[&east].failure, None, "a success ends the failure");
    }
}
