//! Sources of declarations for operators: the watch of Secrets of each label, the directory of kubeconfigs, and faults of objects that
//! concern no cluster.
//!
//! The table of clusters and the log of the remote clusters use it. A source that cannot be read names its last error.

use tributary_remote::roster::{
    ClusterStatus, Fault, ObjectStatus, Source, SourceHealth, SourceKind, SourceStatus, State,
};

use super::board::RemotesView;
use super::conditions::object;
use crate::document::clusters::{ClusterSourceItem, ObjectFaultItem};
use tributary_model::Code;

/// Returns every source that is read.
pub(super) fn items(view: &RemotesView) -> Vec<ClusterSourceItem> {
    let all = view.roster.sources.iter();
    all.map(|status| ClusterSourceItem { faults: faults(view, status.source), ..item(view, status) })
        .collect()
}

fn item(view: &RemotesView, status: &SourceStatus) -> ClusterSourceItem {
    let may_lack = view.may_lack_secrets && !view.roster.holds_of(SourceKind::Secrets);
    let (state, reason) = match status.health {
        SourceHealth::Synced => ("Synced", ""),
        SourceHealth::Unsynced => ("Syncing", "the list is not complete; no cluster is removed"),
        SourceHealth::Failed => ("Failed", "it cannot be read now and is tried again; no cluster is removed"),
        SourceHealth::Forbidden if may_lack => {
            ("Forbidden", "the account may not read Secrets: no cluster is added by one")
        }
        SourceHealth::Forbidden => (
            "Forbidden",
            "grant what `tributary rbac print` shows with `remotes.secrets: on`; no cluster is removed",
        ),
    };
    let error = view.errors.get(&status.source).filter(|_| !reason.is_empty());
    let error = error.map(|error| format!("; last error: {error}")).unwrap_or_default();
    ClusterSourceItem {
        name: name(view, status.source),
        state: state.to_owned(),
        code: if reason.is_empty() { String::new() } else { code(status.source).to_string() },
        reason: format!("{reason}{error}"),
        objects: status.objects as u64,
        beyond: status.beyond as u64,
        faults: Vec::new(),
    }
}

/// Returns what stands for the sources of a server that has just started: clusters that it does not list may be declared.
pub(super) fn not_begun() -> ClusterSourceItem {
    ClusterSourceItem {
        name: "declarations".to_owned(),
        state: "Syncing".to_owned(),
        code: Code::SECRETS_UNREAD.to_string(),
        reason: "the server has just started and has not read them yet".to_owned(),
        objects: 0,
        beyond: 0,
        faults: Vec::new(),
    }
}

/// Names a source.
#[must_use]
pub fn name(view: &RemotesView, source: Source) -> String {
    match source {
        Source::Secrets(label) => format!("Secrets {}", label.as_str()),
        Source::Directory => format!("directory {}", view.directory),
        Source::ConfigFile => "configuration".to_owned(),
    }
}

/// Returns the code of a source that cannot be read.
const fn code(source: Source) -> Code {
    match source {
        Source::Secrets(_) | Source::ConfigFile => Code::SECRETS_UNREAD,
        Source::Directory => Code::DIRECTORY_UNREAD,
    }
}

/// Returns the code of a fault; that of an object that declares no cluster if it has none.
#[must_use]
pub fn fault_code(source: Source, fault: &Fault) -> Code {
    let of_object = if source == Source::Directory { Code::FILE_REFUSED } else { Code::SECRET_REFUSED };
    fault.code.unwrap_or(of_object)
}

/// Why the object that declared a restored cluster was not read, and its code; `None` for any other cluster, and once its source is
/// read.
pub(super) fn unread(view: &RemotesView, one: &ClusterStatus) -> Option<(Code, String)> {
    let is_of = |status: &&SourceStatus| one.source.is_none_or(|kind| status.source.kind() == kind);
    let mut unread =
        view.roster.sources.iter().filter(is_of).filter(|one| one.health != SourceHealth::Synced);
    let source = unread.next().filter(|_| one.state == State::Restored)?;
    let object = view.objects.get(&one.cluster).map_or("its declaration", String::as_str);
    let why = item(view, source).reason;
    Some((code(source.source), format!("served as it was last known, as {object} is not read: {why}")))
}

/// Returns the sources that should be read and are not, each with the reason. A server that goes on without Secrets lacks none.
#[must_use]
pub fn not_read(view: &RemotesView) -> Vec<(String, String)> {
    let lacks = |status: &&SourceStatus| match status.health {
        SourceHealth::Synced => false,
        SourceHealth::Forbidden => !view.may_lack_secrets || view.roster.holds_of(SourceKind::Secrets),
        SourceHealth::Unsynced | SourceHealth::Failed => true,
    };
    let all = view.roster.sources.iter().filter(lacks).map(|status| item(view, status));
    // the code comes first: a long reason is cut
    all.map(|item| (item.name, format!("{}: {}", item.code, item.reason))).collect()
}

/// Returns the declared clusters of which nothing was ever read, each with the reason.
#[must_use]
pub fn clusters_not_read(view: &RemotesView) -> Vec<(String, String)> {
    let unread = view.roster.clusters.iter().filter(|one| view.roster.unread.contains(&one.cluster));
    let why = |one: &ClusterStatus| match one.state {
        State::Paused => "it is paused and was never read; resume it, or delete its declaration",
        _ => "its declarations are refused and it was never read; see `tributary cluster describe`",
    };
    unread.map(|one| (format!("cluster {}", one.cluster), why(one).to_owned())).collect()
}

fn faults(view: &RemotesView, source: Source) -> Vec<ObjectFaultItem> {
    let all = view.roster.objects.iter().filter(|one| one.source == source);
    all.flat_map(|one| one.faults.iter().map(|fault| of_fault(one, fault)).chain(beyond(one))).collect()
}

fn of_fault(status: &ObjectStatus, fault: &Fault) -> ObjectFaultItem {
    ObjectFaultItem {
        object: object(status.source, &status.object),
        code: fault_code(status.source, fault).to_string(),
        message: fault.text.clone(),
    }
}

fn beyond(status: &ObjectStatus) -> Option<ObjectFaultItem> {
    (status.beyond > 0).then(|| ObjectFaultItem {
        object: object(status.source, &status.object),
        code: Code::SOURCE_LIMIT.to_string(),
        message: format!("{} of its clusters are beyond the bound and not read; divide it", status.beyond),
    })
}

#[cfg(test)]
mod tests {
    use tributary_remote::roster::{RosterStatus, SecretLabel};

    use super::*;

    fn mk(health: SourceHealth, may_lack_secrets: bool) -> RemotesView {
        let source = Source::Secrets(SecretLabel::Istio);
        let status = SourceStatus { source, health, objects: 0, beyond: 0 };
        let roster = RosterStatus { sources: vec![status], ..RosterStatus::default() };
        let errors = [(source, "403".to_owned())].into();
        RemotesView { roster, may_lack_secrets, errors, ..RemotesView::default() }
    }

    #[test]
    fn secrets_that_cannot_be_read_are_named_with_the_error() {
        let [(name, why)] = &not_read(&mk(SourceHealth::Forbidden, false))[..] else { panic!("one source") };
        assert_eq!(name, "Secrets istio/multiCluster");
        assert!(why.contains("tributary rbac print") && why.contains("last error: 403"), "{why}");
        assert!(why.starts_with("TRB0715: "), "{why}");
        assert_eq!(not_read(&mk(SourceHealth::Failed, true)).len(), 1);
        assert_eq!(not_read(&mk(SourceHealth::Forbidden, true)), [], "the server goes on without them");
        assert_eq!(not_read(&mk(SourceHealth::Synced, false)), []);
    }
}
