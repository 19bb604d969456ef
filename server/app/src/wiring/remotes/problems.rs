//! Problems of remote clusters as lines of the log: sources that cannot be read, claims that are refused or not used, and faults of
//! objects.
//!
//! The driver calls it after each event and logs the lines that are new. A function of its arguments; no line holds a part of a
//! credential.

use std::collections::BTreeSet;

use tributary_model::{ClusterId, Code};
use tributary_remote::roster::{
    ClaimStatus, ClusterStatus, Fault, ObjectStatus, Outcome, RosterStatus, Source, SourceHealth,
    SourceStatus,
};

use crate::document::clusters::text;
use crate::ops::clusters::board::RemotesView;
use crate::ops::clusters::conditions::object as shown;
use crate::ops::clusters::sources::{self, fault_code};

/// Returns what operators should know; `may_lack` if the server goes on without Secrets. `policies` are the clusters of files that the
/// configuration has a policy for.
pub(super) fn problems(view: &RemotesView, may_lack: bool, policies: &[ClusterId]) -> BTreeSet<String> {
    let status = &view.roster;
    let sources = status.sources.iter().filter_map(|source| of_source(view, source, may_lack));
    let claims =
        status.clusters.iter().flat_map(|one| one.claims.iter().flat_map(|claim| of_claim(one, claim)));
    let objects = status.objects.iter().flat_map(of_object);
    let leaving = status.clusters.iter().filter_map(|cluster| {
        let grace = cluster.leaves?.since(cluster.since?);
        Some(format!("cluster {} is no longer declared; it leaves after {grace:?}", cluster.cluster))
    });
    let misnamed = misnamed(status, policies).map(|name| {
        format!("remotes.clusters.{name} has no effect: no file of remotes.directory declares this cluster; correct the name")
    });
    sources.chain(claims).chain(objects).chain(leaving).chain(misnamed).collect()
}

/// Returns the clusters with a policy that no file declares, once the directory was read.
fn misnamed<'a>(status: &'a RosterStatus, policies: &'a [ClusterId]) -> impl Iterator<Item = &'a ClusterId> {
    let is_read = status
        .sources
        .iter()
        .any(|source| source.source == Source::Directory && source.health == SourceHealth::Synced);
    let is_declared = |name: &&ClusterId| {
        let of_name = status.clusters.iter().filter(|one| one.cluster == **name);
        of_name.flat_map(|one| &one.claims).any(|claim| claim.source == Source::Directory)
    };
    policies.iter().filter(move |name| is_read && !is_declared(name))
}

fn of_source(view: &RemotesView, status: &SourceStatus, may_lack: bool) -> Option<String> {
    let why = match status.health {
        // usual without remote clusters; `get clusters` has a note
        SourceHealth::Forbidden if may_lack => return None,
        SourceHealth::Forbidden => {
            "may not be read: grant what `tributary rbac print` shows with `remotes.secrets: on`".to_owned()
        }
        // errors of a watch differ from try to try; `get clusters` has the last one
        SourceHealth::Failed if status.source != Source::Directory => {
            "cannot be read now; the next try follows".to_owned()
        }
        SourceHealth::Failed => {
            let error = view.errors.get(&status.source).map_or("", String::as_str);
            format!("cannot be read ({error}, {})", Code::DIRECTORY_UNREAD)
        }
        SourceHealth::Synced | SourceHealth::Unsynced => return None,
    };
    let of = match status.source {
        Source::Secrets(label) => format!("Secrets of remote clusters ({})", label.as_str()),
        Source::Directory | Source::ConfigFile => sources::name(view, status.source),
    };
    Some(format!("{of} {why}; no cluster is removed"))
}

fn of_claim(one: &ClusterStatus, claim: &ClaimStatus) -> Vec<String> {
    let of = format!("cluster {} of {}", one.cluster, shown(claim.source, &claim.object));
    match &claim.outcome {
        Outcome::Wins => Vec::new(),
        Outcome::Conflicts => vec![format!("{of} is not used: another declaration of it precedes this one")],
        Outcome::Ignored => vec![format!("{of} is not used: the configuration has the cluster")],
        Outcome::Refused(faults) => {
            faults.iter().map(|fault| format!("{of}: {}", coded(claim.source, fault))).collect()
        }
    }
}

fn of_object(status: &ObjectStatus) -> Vec<String> {
    let of = shown(status.source, &status.object);
    status.faults.iter().map(|fault| format!("{of}: {}", coded(status.source, fault))).collect()
}

fn coded(source: Source, fault: &Fault) -> String {
    let code: Code = fault_code(source, fault);
    format!("{code}: {}", text(fault))
}

#[cfg(test)]
mod tests {
    use tributary_remote::roster::{SecretLabel, State};

    use super::*;

    #[test]
    fn policy_of_a_cluster_that_no_file_declares_is_reported_once_the_directory_is_read() {
        let name = |text: &str| ClusterId::new(text).unwrap();
        let declared = |cluster: &str, source| ClusterStatus {
            cluster: name(cluster),
            registry: None,
            state: State::Joined,
            since: None,
            leaves: None,
            source: None,
            policy: None,
            claims: vec![ClaimStatus { source, object: "a".into(), outcome: Outcome::Wins }],
        };
        let reported = |health| {
            let source = SourceStatus { source: Source::Directory, health, objects: 1, beyond: 0 };
            let clusters = vec![
                declared("east", Source::Directory),
                declared("west", Source::Secrets(SecretLabel::Istio)),
            ];
            let roster = RosterStatus { clusters, sources: vec![source], ..RosterStatus::default() };
            let view = RemotesView { roster, ..RemotesView::default() };
            problems(&view, false, &["east", "west", "typo"].map(name)).len()
        };
        assert_eq!(reported(SourceHealth::Synced), 2, "west has an annotation in place of it");
        assert_eq!(reported(SourceHealth::Unsynced), 0, "a file may declare it");
    }
}
