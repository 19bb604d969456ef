//! Kept state as documents, combined from the journal's counters and the core's ledgers, and operator
//! commands on it.
//!
//! The admin surface calls it through [`AdminBackend`](crate::admin::AdminBackend). It makes no decision: the
//! core plans and ends.

use std::collections::BTreeSet;
use std::path::Path;

use tributary_core::{CollectionStatus, EndPlan, RegistryStatus};
use tributary_journal::inspect::{self, ListReport, RegistryReport, StateReport};
use tributary_journal::{JournalStats, Now};
use tributary_model::{CollectionKind, Mono, RegistryName, Scope};
use tributary_remote::roster::ClusterStatus;
use tributary_runtime::Handle;

use crate::admin::backend::NotThere;
use crate::config::registry::is_internal;
use crate::document::endpoints::freshness_text;
use crate::document::state::{
    EndItem, JournalItem, Part, StateDocument, StateItem, StateListItem, kind_name,
};
use crate::ops::clusters::board::RemotesView;
use crate::wiring::journal::State;

/// Returns the current kept state.
pub async fn document(state: &State, handle: &Handle, now: Mono) -> StateDocument {
    let registries = handle.inspect(|core| core.status()).await.unwrap_or_default();
    let stats = state.stats();
    let directory = state.directory.clone().unwrap_or_default();
    let is_open = stats.as_ref().is_some_and(|stats| stats.open);
    let look = move || {
        let gone = (is_open && !inspect::has_journal(&directory)).then(|| deleted(&directory));
        (gone, inspect::set_aside(&directory))
    };
    let (gone, set_aside) = tokio::task::spawn_blocking(look).await.unwrap_or_default();
    let fault = state.fault.as_deref().map(str::to_owned).or(gone);
    StateDocument {
        fault: fault.unwrap_or_default(),
        set_aside,
        registries: registries.iter().map(|status| registry(status, stats.as_ref(), now)).collect(),
        journal: stats.map(|stats| journal(stats, now)),
        ..StateDocument::of(state.directory.as_deref())
    }
}

/// Describes a journal whose file was deleted while it is written.
fn deleted(directory: &Path) -> String {
    format!(
        "the journal in {} was deleted, so a restart would restore nothing; restart the server, which writes a new one",
        directory.display()
    )
}

fn journal(stats: JournalStats, now: Mono) -> JournalItem {
    JournalItem {
        open: stats.open,
        bytes: stats.bytes,
        live_bytes: stats.live_bytes,
        commits: stats.commits,
        pending_keys: stats.pending_keys as u64,
        last_commit_millis_ago: stats.last_commit.map(|at| millis(now, at)),
        last_error: stats.last_error.unwrap_or_default(),
    }
}

fn registry(status: &RegistryStatus, stats: Option<&JournalStats>, now: Mono) -> StateItem {
    let reason = missing(&status.id.name, stats);
    StateItem {
        name: status.id.name.to_string(),
        whole: reason.is_empty(),
        reason,
        identity: status.identity.as_ref().map(ToString::to_string).unwrap_or_default(),
        waits_for: status.waits_for.as_deref().unwrap_or_default().to_owned(),
        lists: status.collections.iter().map(|one| list(one, now)).collect(),
        ended: status.ended.iter().map(|ended| ended.scope.to_string()).collect(),
    }
}

/// Returns why a restart would not restore all of a registry; empty if it would.
fn missing(name: &RegistryName, stats: Option<&JournalStats>) -> String {
    let Some(stats) = stats else { return "state is not kept".to_owned() };
    if let Some((_, why)) = stats.dropped.iter().find(|(own, _)| own == name) {
        return why.to_string();
    }
    if !stats.open {
        return stats.last_error.clone().unwrap_or_else(|| "the journal is not open".to_owned());
    }
    let short = stats.incomplete.contains(name) || stats.unwritten.contains(name);
    if short { "not all of it is written yet".to_owned() } else { String::new() }
}

fn list(status: &CollectionStatus, now: Mono) -> StateListItem {
    StateListItem {
        scope: status.collection.scope.to_string(),
        kind: kind_name(status.collection.kind),
        facts: status.facts,
        freshness: freshness_text(&status.freshness),
        never_read: !status.known,
        confirmed_millis_ago: status.confirmed.map(|at| millis(now, Mono(at))),
    }
}

fn millis(now: Mono, at: Mono) -> u64 {
    u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX)
}

/// Returns the content of a directory that no server holds.
#[must_use]
pub fn of_directory(path: &Path, report: &StateReport, now: Now) -> StateDocument {
    StateDocument {
        journal: Some(JournalItem {
            bytes: report.bytes,
            live_bytes: report.live_bytes,
            ..JournalItem::default()
        }),
        registries: report.registries.iter().map(|registry| kept(registry, now.mono)).collect(),
        set_aside: report.set_aside.clone(),
        ..StateDocument::of(Some(path))
    }
}

fn kept(registry: &RegistryReport, now: Mono) -> StateItem {
    let refused = registry.refused.iter().map(|(scope, why)| format!("{scope}: {why}"));
    let absent = registry.absent.iter().map(ToString::to_string);
    let reason = absent.chain(refused).collect::<Vec<_>>().join("; ");
    let list = |((scope, kind), list): (&(Scope, CollectionKind), &ListReport)| StateListItem {
        scope: scope.to_string(),
        kind: kind_name(*kind),
        facts: list.found,
        freshness: String::new(),
        never_read: !list.list.was_read(),
        confirmed_millis_ago: list.list.confirmed.map(|at| millis(now, at)),
    };
    StateItem {
        name: registry.name.to_string(),
        whole: reason.is_empty(),
        reason,
        identity: registry.identity.as_ref().map(ToString::to_string).unwrap_or_default(),
        waits_for: String::new(),
        lists: registry.lists.iter().map(list).collect(),
        ended: registry.ended.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the facts that ending a part removes. With `really` it ends them.
pub async fn end(handle: &Handle, part: Part, really: bool) -> Result<Vec<EndItem>, NotThere> {
    let scopes = scopes(handle, &part.registry).await?;
    if let Some(missing) = not_in(&scopes, &part) {
        return Err(missing);
    }
    let Part { registry, scope, kind } = part;
    let plan = if really {
        handle.end(registry.clone(), scope, kind).await
    } else {
        handle.end_plan(registry.clone(), scope, kind).await
    };
    Ok(plan.unwrap_or_default().into_iter().map(|plan| item(&registry, plan)).collect())
}

/// Refuses to accept a run of a cluster that Secrets or files declare: this replica alone would, and the others would not.
pub fn is_accepted_here(remotes: &RemotesView, registry: &RegistryName) -> Result<(), NotThere> {
    let is_of = |one: &&ClusterStatus| one.registries().any(|own| own == *registry);
    remotes.roster.clusters.iter().find(is_of).map_or(Ok(()), |one| {
        let cluster = &one.cluster;
        Err(NotThere(format!(
            "registry `{registry}` is of cluster `{cluster}`, whose declaration decides what is accepted, for every replica; use `tributary cluster accept {cluster}`"
        )))
    })
}

/// Accepts a registry's next run although it serves less or has a new identity.
pub async fn accept(handle: &Handle, registry: RegistryName) -> Result<(), NotThere> {
    scopes(handle, &registry).await?;
    let accepted = handle.accept(registry.clone()).await.unwrap_or_default();
    accepted.then_some(()).ok_or_else(|| NotThere(format!("registry `{registry}` has nothing to accept")))
}

/// Returns the scopes of a registry.
async fn scopes(handle: &Handle, name: &RegistryName) -> Result<BTreeSet<Scope>, NotThere> {
    let all = handle.inspect(tributary_core::Core::status).await.unwrap_or_default();
    let Some(status) = all.iter().find(|status| status.id.name == *name) else {
        let names = all.iter().map(|status| status.id.name.as_str());
        let known = shortened(names.filter(|name| !is_internal(name)));
        return Err(NotThere(format!("registry `{name}` not found; known: {known}")));
    };
    Ok(status.collections.iter().map(|one| one.collection.scope.clone()).collect())
}

/// Returns the error for a scope that the registry does not have, or for an unknown kind.
fn not_in(scopes: &BTreeSet<Scope>, part: &Part) -> Option<NotThere> {
    let Part { registry, scope, .. } = part;
    let scope = scope.as_ref().filter(|scope| !scopes.contains(*scope))?;
    let before_kind =
        scope.as_str().rsplit_once('/').filter(|(of, _)| scopes.iter().any(|own| own.as_str() == *of));
    Some(NotThere(match before_kind {
        Some((of, kind)) => {
            let kinds = CollectionKind::ALL.map(|kind| kind_name(kind).to_lowercase()).join(", ");
            format!("registry `{registry}`, scope `{of}`: no kind `{kind}`; use one of {kinds}")
        }
        None => {
            let known = shortened(scopes.iter().map(Scope::as_str));
            format!("registry `{registry}` has no scope `{scope}`; known: {known}")
        }
    }))
}

/// Returns the first of many names.
pub(super) fn shortened<'n>(names: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 20;
    let all: Vec<&str> = names.collect();
    let more = all.len().saturating_sub(SHOWN);
    let shown = all.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match (all.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (_, 0) => shown,
        (_, more) => format!("{shown} and {more} more"),
    }
}

fn item(registry: &RegistryName, plan: EndPlan) -> EndItem {
    EndItem {
        registry: registry.to_string(),
        scope: plan.scope.to_string(),
        kind: kind_name(plan.kind),
        facts: plan.facts,
        live: plan.live,
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::ClusterId;
    use tributary_remote::roster::{RosterStatus, State as ClusterState};

    use super::*;

    #[test]
    fn run_of_a_declared_cluster_is_accepted_by_its_declaration() {
        let name = |text: &str| RegistryName::new(text).unwrap();
        let east = ClusterStatus {
            cluster: ClusterId::new("east.1").unwrap(),
            registry: Some(name("east-1")),
            state: ClusterState::Joined,
            since: None,
            leaves: None,
            source: None,
            policy: None,
            claims: Vec::new(),
        };
        let roster = RosterStatus { clusters: vec![east], ..RosterStatus::default() };
        let remotes = RemotesView { roster, ..RemotesView::default() };
        for registry in ["east-1", "east-1-entries"] {
            let refused = is_accepted_here(&remotes, &name(registry)).unwrap_err();
            assert!(refused.0.ends_with("use `tributary cluster accept east.1`"), "{}", refused.0);
        }
        assert!(is_accepted_here(&remotes, &name("kubernetes")).is_ok());
    }

    #[test]
    fn registry_is_whole_once_all_of_it_is_written() {
        let name = |text: &str| RegistryName::new(text).unwrap();
        let open = JournalStats {
            open: true,
            dropped: vec![(name("large"), "too many facts".into())],
            incomplete: vec![name("new")],
            unwritten: vec![name("changed")],
            ..JournalStats::default()
        };
        let closed = JournalStats { last_error: Some("disk full".to_owned()), ..JournalStats::default() };
        assert_eq!(missing(&name("east"), Some(&open)), "");
        assert_eq!(missing(&name("large"), Some(&open)), "too many facts");
        assert_eq!(missing(&name("new"), Some(&open)), "not all of it is written yet");
        assert_eq!(missing(&name("changed"), Some(&open)), "not all of it is written yet");
        assert_eq!(missing(&name("east"), Some(&closed)), "disk full");
        assert_eq!(missing(&name("east"), None), "state is not kept");
    }

    #[test]
    fn unknown_scope_error_lists_the_known_scopes() {
        let scopes = ["cluster", "serviceentries/shop"].map(|text| Scope::new(text).unwrap()).into();
        let message = |text: &str| not_in(&scopes, &text.parse().unwrap()).map(|missing| missing.0);
        for known in ["k", "k/cluster", "k/cluster/groups", "k/serviceentries/shop/Services"] {
            assert_eq!(message(known), None, "{known}");
        }
        let kind = message("k/cluster/pods").unwrap();
        assert!(kind.contains("no kind `pods`; use one of ") && kind.contains("groups"), "{kind}");
        let scope = message("k/east").unwrap();
        assert!(scope.contains("no scope `east`; known: cluster, serviceentries/shop"), "{scope}");
    }
}
