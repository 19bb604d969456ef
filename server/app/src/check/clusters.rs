//! Checks of Kubernetes clusters: state, credentials, declarations, identities, and what each answers when the server tries it.

use jiff::Timestamp;
use tributary_model::Code;

use super::finding::counted;
use super::{Documents, Finding, Found};
use crate::document::clusters::ClusterConditionItem;
use crate::document::{ClusterItem, ClusterSourceItem, Outcome};
use crate::ops::clusters::renewal::NOT_RENEWED;
use crate::ops::clusters::same::SAME_CLUSTER;

/// Judges the state of each cluster.
pub(super) fn live(documents: &Documents) -> Found {
    let live = documents.clusters.iter().filter(|one| one.state == "Live").count();
    let findings = documents.clusters.iter().filter_map(state).collect();
    Found::new(format!("{live} of {} Live", documents.clusters.len()), findings)
}

fn state(one: &ClusterItem) -> Option<Finding> {
    let message = match &*one.reason {
        "" => one.state.clone(),
        reason => format!("{}: {reason}", one.state),
    };
    let made = match &*one.state {
        "Live" if one.reason.is_empty() => return None,
        "Live" => Finding::info("a note on the cluster", one.reason.as_str()),
        "Paused" => Finding::warning("paused", message)
            .next(format!("resume it with `tributary cluster resume {}`", one.name)),
        "Removing" => Finding::warning("is being removed", message),
        "AuthFailed" => Finding::error("not Live", message)
            .next(format!("correct the credential: `tributary cluster rotate {}`", one.name)),
        "Syncing" => Finding::error("not synced", message),
        _ => Finding::error("not Live", message),
    };
    let made = if one.code.is_empty() { made } else { made.coded(&one.code) };
    Some(made.about("cluster", one.name.as_str()).since(one.since_millis_ago))
}

/// Returns the conditions of every cluster whose kind is selected, as findings.
fn of_conditions<'a>(
    documents: &'a Documents,
    takes: impl Fn(&ClusterConditionItem) -> bool + Copy + 'a,
    make: impl Fn(&ClusterItem, &ClusterConditionItem) -> Finding + Copy + 'a,
) -> impl Iterator<Item = Finding> + 'a {
    let all = documents.clusters.iter().flat_map(|one| one.conditions.iter().map(move |of| (one, of)));
    all.filter(move |(_, of)| takes(of))
        .map(move |(one, of)| make(one, of).coded(&of.code).about("cluster", one.name.as_str()))
}

/// Judges the ends of credentials. The server decides when an end is near: by the share of the credential's life.
pub(super) fn credentials(documents: &Documents) -> Found {
    let rotate = |one: &ClusterItem| format!("`tributary cluster rotate {}`", one.name);
    let is_of = |of: &ClusterConditionItem| of.kind.starts_with("Credential") || of.kind == NOT_RENEWED;
    let findings = of_conditions(documents, is_of, |one, of| {
        let next = rotate(one);
        match &*of.kind {
            "CredentialExpired" => Finding::error("expired", of.message.as_str()).next(next),
            "CredentialExpires" => Finding::warning("expires soon", of.message.as_str()).next(next),
            _ => Finding::warning("not renewed", of.message.as_str()),
        }
    });
    let ends = documents.clusters.iter().filter_map(|one| one.credential_expires).min();
    let summary = ends.map(|at| format!("the first expires {}", left(at, documents.now))).unwrap_or_default();
    Found::new(summary, findings.collect())
}

/// Describes a time from now.
fn left(at: Timestamp, now: Timestamp) -> String {
    crate::cli::clusters::expires(at, now)
}

/// Judges declarations, and the sources that declare.
pub(super) fn declarations(documents: &Documents) -> Found {
    let takes = |of: &ClusterConditionItem| {
        matches!(
            &*of.kind,
            "Refused"
                | "Duplicate"
                | "NotUsed"
                | "NotDeclared"
                | "NotChanged"
                | "NewCredential"
                | "UidNotAccepted"
        )
    };
    let of_clusters = of_conditions(documents, takes, |_, of| {
        let title = match &*of.kind {
            "Refused" => "a declaration is refused",
            "Duplicate" | "NotUsed" => "a declaration is not used",
            "NotDeclared" => "not declared any longer",
            "UidNotAccepted" => "another identity is accepted",
            _ => "a new credential does not take over",
        };
        Finding::warning(title, of.message.as_str())
    });
    let of_sources = documents.sources.iter().flat_map(source);
    let summary = counted(documents.sources.len() as u64, "source", "sources");
    Found::new(summary, of_clusters.chain(of_sources).collect())
}

fn source(one: &ClusterSourceItem) -> Vec<Finding> {
    let is_optional = one.state == "Forbidden" && one.reason.contains("no cluster is added by one");
    let state = match &*one.state {
        "Synced" => None,
        "Forbidden" if is_optional => Some(Finding::info("Secrets are not read", one.reason.as_str())),
        "Syncing" => Some(Finding::warning("not read yet", one.reason.as_str())),
        _ => Some(Finding::error("cannot be read", one.reason.as_str())),
    };
    let beyond = (one.beyond > 0).then(|| {
        Finding::error("too many objects", format!("{} objects beyond the bound are not read", one.beyond))
            .code(Code::SOURCE_LIMIT)
    });
    let state = state.map(|made| made.coded(&one.code)).into_iter().chain(beyond);
    let state = state.map(|made| made.about("source", one.name.as_str()));
    let faults = one.faults.iter().map(|fault| {
        Finding::warning("an object declares no cluster", format!("{}: {}", fault.object, fault.message))
            .coded(&fault.code)
            .about("source", fault.object.as_str())
    });
    state.chain(faults).collect()
}

/// Judges identities.
pub(super) fn identities(documents: &Documents) -> Found {
    let same = of_conditions(
        documents,
        |of| of.kind == SAME_CLUSTER,
        |_, of| Finding::warning("served twice", of.message.as_str()),
    );
    let conflict = documents.clusters.iter().filter(|one| !one.found_identity.is_empty()).map(|one| {
        let message = format!("{} answers in place of {}", one.found_identity, one.identity);
        Finding::error("another cluster answers", message)
            .code(Code::CLUSTER_REPLACED)
            .about("cluster", one.name.as_str())
    });
    let unverified = documents.clusters.iter().filter(|one| one.unverified).map(|one| {
        let message = "its identity cannot be read: another cluster in its place would not be noticed";
        Finding::warning("not verified", message).about("cluster", one.name.as_str())
    });
    Found::new("", same.chain(conflict).chain(unverified).collect())
}

/// What a skipped try needs.
const CONNECT: &str = "not requested; add --connect";

/// Judges what clusters answered when the server connected to each; their clocks have a check of their own.
pub(super) fn tries(documents: &Documents) -> Found {
    let Some(tried) = &documents.tried else { return Found::skipped(CONNECT) };
    let all = tried.iter().flat_map(|one| one.findings.checks.iter().map(move |of| (one, of)));
    let findings = all.filter(|(_, of)| of.check != "clock").filter_map(|(one, of)| {
        let message = format!("{}: {}", of.check, of.detail);
        let made = match of.outcome {
            Outcome::Ok => return None,
            Outcome::Warning => Finding::warning("a part cannot be read", message),
            Outcome::Failed => Finding::error("cannot be read", message),
        };
        Some(made.coded(&of.code).about("cluster", one.cluster.as_str()))
    });
    Found::new(counted(tried.len() as u64, "cluster", "clusters"), findings.collect())
}

/// Judges the clocks of clusters.
pub(super) fn clocks(documents: &Documents) -> Found {
    let Some(tried) = &documents.tried else { return Found::skipped(CONNECT) };
    let all = tried.iter().flat_map(|one| one.findings.checks.iter().map(move |of| (one, of)));
    let findings = all.filter(|(_, of)| of.check == "clock" && of.outcome != Outcome::Ok).map(|(one, of)| {
        Finding::warning("clocks differ", of.detail.as_str()).about("cluster", one.cluster.as_str())
    });
    Found::new(counted(tried.len() as u64, "cluster", "clusters"), findings.collect())
}
