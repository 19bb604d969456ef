//! Checks of several replicas: whether all answer and agree, and the merge of their results.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tributary_model::Code;

use super::finding::counted;
use super::{CheckInfo, CheckItem, Documents, Finding, Found, Judge, Outcome, TABLE, judge};

/// Parts of the configuration that decide what is served. Addresses, paths and logs may differ between machines.
const COMPARED: [&str; 8] = [
    "clusterId",
    "systemNamespace",
    "revision",
    "registries",
    "settings",
    "federatedServices",
    "merge",
    "remotes",
];

/// Judges every replica and merges the results: each check once, equal findings once with the servers that have them.
#[must_use]
pub fn merge(replicas: &[Documents]) -> Vec<CheckItem> {
    let answering: Vec<&Documents> = replicas.iter().filter(|one| one.silent.is_none()).collect();
    // without an answer, the first one explains why
    let judged = if answering.is_empty() { replicas.iter().take(1).collect() } else { answering };
    let judged: Vec<(&str, Vec<CheckItem>)> =
        judged.into_iter().map(|one| (&*one.server, judge(one))).collect();
    let several = replicas.len() > 1;
    let item = |info: &CheckInfo| match info.judge {
        Judge::Server(_) => merged(info, &judged, several),
        Judge::Replicas(judge) if several => Some(CheckItem::new(info, judge(replicas))),
        Judge::Replicas(_) | Judge::Before(_) => None,
    };
    TABLE.iter().filter_map(item).collect()
}

fn merged(info: &CheckInfo, all: &[(&str, Vec<CheckItem>)], several: bool) -> Option<CheckItem> {
    let of = |items: &'_ [CheckItem]| items.iter().find(|item| item.check == info.id).cloned();
    let items: Vec<(&str, CheckItem)> =
        all.iter().filter_map(|(server, items)| Some((*server, of(items)?))).collect();
    let (_, first) = items.first()?.clone();
    if !several {
        return Some(first);
    }
    let mut findings: Vec<Finding> = Vec::new();
    for (server, item) in &items {
        for finding in &item.findings {
            match findings.iter_mut().find(|known| known.is_same(finding)) {
                Some(known) => known.servers.push((*server).to_owned()),
                None => findings.push(Finding { servers: vec![(*server).to_owned()], ..finding.clone() }),
            }
        }
    }
    let is_skipped = items.iter().all(|(_, item)| item.outcome == Outcome::Skipped);
    let more = items.iter().map(|(_, item)| item.more).max().unwrap_or(0);
    let summaries: BTreeSet<&str> = items.iter().map(|(_, item)| &*item.summary).collect();
    let summary = if summaries.len() == 1 { first.summary } else { String::new() };
    let made = CheckItem::new(info, Found { summary, findings, is_skipped });
    Some(CheckItem { more: made.more.max(more), ..made })
}

fn answering(replicas: &[Documents]) -> Vec<&Documents> {
    replicas.iter().filter(|one| one.silent.is_none()).collect()
}

/// Reports replicas that do not answer.
pub(super) fn answer(replicas: &[Documents]) -> Found {
    let finding = |one: &Documents| {
        let why = one.silent.as_ref()?;
        Some(
            Finding::error("a replica does not answer", why)
                .code(Code::SERVER_UNREACHABLE)
                .next("see that the replica runs, and that this machine reaches it")
                .about("server", one.server.as_str()),
        )
    };
    let summary = format!("{} of {} answer", answering(replicas).len(), replicas.len());
    Found::new(summary, replicas.iter().filter_map(finding).collect())
}

/// Groups the replicas by a value; one group means that they agree.
fn groups<T: Ord>(replicas: &[&Documents], of: impl Fn(&Documents) -> T) -> BTreeMap<T, Vec<String>> {
    let mut groups: BTreeMap<T, Vec<String>> = BTreeMap::new();
    for one in replicas {
        groups.entry(of(one)).or_default().push(one.server.clone());
    }
    groups
}

/// Lists values with the servers that have them.
fn listed(groups: &BTreeMap<String, Vec<String>>) -> String {
    let each: Vec<String> =
        groups.iter().map(|(value, servers)| format!("{value} on {}", servers.join(", "))).collect();
    each.join("; ")
}

/// Compares versions.
pub(super) fn version(replicas: &[Documents]) -> Found {
    let of = |one: &Documents| one.version.as_ref().map(|of| of.version.clone()).unwrap_or_default();
    let groups = groups(&answering(replicas), of);
    let finding = (groups.len() > 1).then(|| Finding::warning("versions differ", listed(&groups)));
    Found::new(groups.keys().cloned().collect::<Vec<_>>().join(", "), finding.into_iter().collect())
}

/// Compares the sets of registries and clusters.
pub(super) fn registries(replicas: &[Documents]) -> Found {
    let all = answering(replicas);
    let names = |one: &Documents| -> BTreeSet<(&'static str, String)> {
        let registries = one.registries.iter().map(|of| ("registry", of.name.clone()));
        registries.chain(one.clusters.iter().map(|of| ("cluster", of.name.clone()))).collect()
    };
    let known: BTreeSet<(&'static str, String)> = all.iter().flat_map(|one| names(one)).collect();
    let finding = |(kind, name): &(&'static str, String)| {
        let lacks = all.iter().filter(|one| !names(one).contains(&(*kind, name.clone())));
        let lacks: Vec<&str> = lacks.map(|one| &*one.server).collect();
        let message = format!("not on {}", lacks.join(", "));
        (!lacks.is_empty())
            .then(|| Finding::error("not on every replica", message).about(kind, name.as_str()))
    };
    Found::new(format!("{} registries and clusters", known.len()), known.iter().filter_map(finding).collect())
}

/// Compares the counts of what each registry has.
pub(super) fn content(replicas: &[Documents]) -> Found {
    let all = answering(replicas);
    let names: BTreeSet<&str> =
        all.iter().flat_map(|one| one.registries.iter().map(|of| &*of.name)).collect();
    let finding = |name: &&str| {
        let counts = |one: &Documents| {
            let of = one.registries.iter().find(|of| of.name == **name);
            of.map_or_else(
                || "unknown".to_owned(),
                |of| {
                    format!(
                        "{} and {}",
                        counted(of.services, "service", "services"),
                        counted(of.endpoints, "endpoint", "endpoints")
                    )
                },
            )
        };
        let mut groups = groups(&all, counts);
        groups.remove("unknown");
        (groups.len() > 1)
            .then(|| Finding::warning("counts differ", listed(&groups)).about("registry", *name))
    };
    Found::new(
        counted(names.len() as u64, "registry", "registries"),
        names.iter().filter_map(finding).collect(),
    )
}

/// Compares the parts of the configuration that decide what is served.
pub(super) fn config(replicas: &[Documents]) -> Found {
    let all = answering(replicas);
    let finding = |part: &&str| {
        let of = |one: &Documents| one.config["config"].get(*part).unwrap_or(&Value::Null).to_string();
        let groups = groups(&all, of);
        let servers: Vec<String> = groups.into_values().map(|servers| servers.join(", ")).collect();
        let message = format!("`{part}` differs between {}", servers.join(" and "));
        (servers.len() > 1).then(|| Finding::warning("settings differ", message).about("field", *part))
    };
    Found::new("", COMPARED.iter().filter_map(finding).collect())
}
