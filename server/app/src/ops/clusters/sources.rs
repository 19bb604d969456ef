//! Sources of declarations for operators: the watch of Secrets of each label, and faults of Secrets that concern no cluster.

use tributary_remote::roster::{Fault, ObjectStatus, Source, SourceHealth, SourceStatus};

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
    let (state, reason) = match status.health {
        SourceHealth::Synced => ("Synced", ""),
        SourceHealth::Unsynced => ("Syncing", "the list is not complete; no cluster is removed"),
        SourceHealth::Failed => ("Failed", "it cannot be read now and is tried again; no cluster is removed"),
        SourceHealth::Forbidden if view.may_lack_secrets && view.roster.clusters.is_empty() => {
            ("Forbidden", "the account may not read Secrets: no cluster is added by one")
        }
        SourceHealth::Forbidden => (
            "Forbidden",
            "grant what `tributary rbac print` shows with `remotes.secrets: on`; no cluster is removed",
        ),
    };
    ClusterSourceItem {
        name: name(status.source),
        state: state.to_owned(),
        reason: reason.to_owned(),
        objects: status.objects as u64,
        beyond: status.beyond as u64,
        faults: Vec::new(),
    }
}

/// Names a source.
fn name(source: Source) -> String {
    match source {
        Source::Secrets(label) => format!("Secrets {}", label.as_str()),
        Source::Directory => "directory".to_owned(),
        Source::ConfigFile => "configuration".to_owned(),
    }
}

fn faults(view: &RemotesView, source: Source) -> Vec<ObjectFaultItem> {
    let all = view.roster.objects.iter().filter(|one| one.source == source);
    all.flat_map(|one| one.faults.iter().map(|fault| of_fault(one, fault)).chain(beyond(one))).collect()
}

fn of_fault(status: &ObjectStatus, fault: &Fault) -> ObjectFaultItem {
    ObjectFaultItem {
        object: object(status.source, &status.object),
        code: fault.code.unwrap_or(Code::SECRET_REFUSED).to_string(),
        message: fault.text.clone(),
    }
}

fn beyond(status: &ObjectStatus) -> Option<ObjectFaultItem> {
    (status.beyond > 0).then(|| ObjectFaultItem {
        object: object(status.source, &status.object),
        code: Code::SECRET_REFUSED.to_string(),
        message: format!("{} of its clusters are beyond the bound and not read; divide it", status.beyond),
    })
}
