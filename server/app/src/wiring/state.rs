//! What is remembered, put together for people from the journal's counts and the core's ledgers; and what an operator
//! may do to it by hand.
//!
//! Called by the admin surface through [`Inside`](crate::admin::Inside). Decides nothing: the core plans and ends.

use std::path::Path;

use tributary_core::{CollectionStatus, EndPlan, RegistryStatus};
use tributary_journal::inspect::{ListReport, RegistryReport, StateReport};
use tributary_journal::{JournalStats, Now};
use tributary_model::{CollectionKind, Mono, RegistryName, Scope};
use tributary_runtime::Handle;

use super::journal::State;
use crate::document::endpoints::freshness_text;
use crate::document::state::{
    EndItem, JournalItem, Part, StateDocument, StateItem, StateListItem, kind_name,
};

/// What is remembered now.
pub async fn document(state: &State, handle: &Handle, now: Mono) -> StateDocument {
    let registries = handle.inspect(|core| core.status()).await.unwrap_or_default();
    let stats = state.stats();
    let fault = state.fault.as_deref().unwrap_or_default().to_owned();
    StateDocument {
        fault,
        registries: registries.iter().map(|status| registry(status, stats.as_ref(), now)).collect(),
        journal: stats.map(|stats| journal(stats, now)),
        ..StateDocument::of(state.directory.as_deref())
    }
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

/// Why a restart would not find all of a registry; empty where it would.
fn missing(name: &RegistryName, stats: Option<&JournalStats>) -> String {
    let Some(stats) = stats else { return "nothing is remembered".to_owned() };
    if let Some((_, why)) = stats.left_out.iter().find(|(own, _)| own == name) {
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
        confirmed_millis_ago: status.confirmed.map(|at| millis(now, Mono(at))),
    }
}

fn millis(now: Mono, at: Mono) -> u64 {
    u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX)
}

/// What a directory that no server holds has in it.
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

/// What ending a part takes away; nothing where no registry has that name. With `really` it is ended.
pub async fn end(handle: &Handle, part: Part, really: bool) -> Option<Vec<EndItem>> {
    let Part { registry, scope, kind } = part;
    let known = handle.inspect({
        let name = registry.clone();
        move |core| core.status().iter().any(|one| one.id.name == name)
    });
    if !known.await.unwrap_or_default() {
        return None;
    }
    let plan = if really {
        handle.end(registry.clone(), scope, kind).await
    } else {
        handle.end_plan(registry.clone(), scope, kind).await
    };
    Some(plan.unwrap_or_default().into_iter().map(|plan| item(&registry, plan)).collect())
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
    use super::*;

    #[test]
    fn registry_is_whole_only_where_all_of_it_is_written() {
        let name = |text: &str| RegistryName::new(text).unwrap();
        let open = JournalStats {
            open: true,
            left_out: vec![(name("large"), "too many facts".into())],
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
        assert_eq!(missing(&name("east"), None), "nothing is remembered");
    }
}
