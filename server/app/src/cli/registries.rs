//! Registries as tables: one line each, and with `-o wide` the details of their scopes.

use std::collections::BTreeMap;

use super::table::{Cell, Table, Tone, age};
use crate::document::registries::{DetailItem, SourceItem};
use crate::document::state::kind_name;
use crate::document::{ConditionItem, RegistryItem};
use tributary_model::CollectionKind;

pub(super) fn tone(state: &str) -> Tone {
    match state {
        "Live" => Tone::Plain,
        "Syncing" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// Returns the table with one line for each registry.
pub(super) fn table(items: &[RegistryItem], wide: bool) -> Table {
    let heads = ["NAME", "KIND", "STATE", "CONFIRMED", "SERVICES", "ENDPOINTS", "PROBLEMS", "REASON"];
    let more =
        ["CLUSTER", "GENERATION", "FAILURES", "HELD", "IDENTITY", "NEXT RUN", "WAITS FOR", "CONDITIONS"];
    let mut table = Table::new(&heads, &more, wide);
    for item in items {
        let odd = if item.problems.is_empty() { Tone::Plain } else { Tone::Warn };
        table.row(vec![
            item.name.clone().into(),
            item.kind.clone().into(),
            Cell(item.state.clone(), tone(&item.state)),
            item.confirmed_millis_ago.map(age).unwrap_or_default().into(),
            item.services.into(),
            item.endpoints.into(),
            Cell(item.problems_total.to_string(), odd),
            item.reason.clone().into(),
            item.cluster.clone().into(),
            item.generation.into(),
            item.failures.into(),
            item.held_total.into(),
            item.identity.clone().into(),
            item.next_generation.map(|run| run.to_string()).unwrap_or_default().into(),
            item.waits_for.clone().into(),
            item.conditions.iter().map(condition_text).collect::<Vec<_>>().join("; ").into(),
        ]);
    }
    table
}

fn condition_text(condition: &ConditionItem) -> String {
    format!("{} {}", condition.code, condition.message)
}

/// Returns the wide tables: the parts of each scope; the details, as one table for registries with equal
/// detail names and another for the rest; then withheld collections, ended scopes and quarantined objects.
pub(super) fn more(items: &[RegistryItem], heads: bool, color: bool) -> String {
    let mut states =
        Table::new(&["REGISTRY", "SCOPE", "PART", "STATE", "SINCE", "NEXT TRY", "HELD", "REASON"], &[], true);
    let mut alike: BTreeMap<Vec<&str>, Table> = BTreeMap::new();
    let mut details = Table::new(&["REGISTRY", "SCOPE", "DETAIL", "VALUE"], &[], true);
    for (item, source) in items.iter().flat_map(|item| item.sources.iter().map(move |source| (item, source)))
    {
        parts(item, source, &mut states);
        let place = || [item.name.clone().into(), source.scope.clone().into()];
        let shown = |detail: &DetailItem| {
            detail.age_millis.map_or_else(|| detail.value.clone(), |millis| format!("{} ago", age(millis)))
        };
        let pairs = || source.details.iter().map(|detail| (detail.name.as_str(), shown(detail)));
        if source.details.len() < COLUMNS {
            for (name, value) in pairs() {
                details.row(place().into_iter().chain([name.into(), value.into()]).collect());
            }
        } else {
            let table = alike.entry(pairs().map(|(name, _)| name).collect());
            let table = table.or_insert_with_key(|names| with_columns(names));
            table.row(place().into_iter().chain(pairs().map(|(_, value)| value.into())).collect());
        }
    }
    let tables = std::iter::once(states).chain(alike.into_values()).chain([
        details,
        withheld(items),
        ended(items),
        problems(items),
    ]);
    let tables = tables.map(|table| table.render(heads, color));
    tables.filter(|text| !text.is_empty()).map(|text| format!("\n{text}")).collect()
}

/// Maximum number of scopes that a line of withheld collections names.
const MOST_SCOPES: usize = 20;

/// Withheld collections of one registry with one freshness.
#[derive(Default)]
struct WithheldGroup<'a> {
    kinds: BTreeMap<&'a str, Vec<String>>,
    /// Number of collections of each scope, withheld or not.
    of_scope: BTreeMap<&'a str, usize>,
    facts: u64,
}

impl WithheldGroup<'_> {
    /// Names the collections by scope: `services, endpoints of east; all of west`.
    fn covers(&self) -> String {
        let named = self.kinds.iter().take(MOST_SCOPES);
        let named =
            named.map(|(scope, kinds)| match kinds.len() == self.of_scope.get(scope).copied().unwrap_or(0) {
                true => format!("all of {scope}"),
                false => format!("{} of {scope}", kinds.join(", ")),
            });
        let more = self.kinds.len().saturating_sub(MOST_SCOPES);
        let more = (more > 0).then(|| format!("and {more} more scopes"));
        named.chain(more).collect::<Vec<_>>().join("; ")
    }
}

/// Returns the withheld collections with their number of unchanged facts, one line for each registry and freshness.
fn withheld(items: &[RegistryItem]) -> Table {
    let mut groups: BTreeMap<(&str, &str), WithheldGroup<'_>> = BTreeMap::new();
    let all = items.iter().flat_map(|item| item.collections.iter().map(move |one| (item, one)));
    for (item, one) in all.filter(|(_, one)| one.withheld) {
        let group = groups.entry((&item.name, &one.freshness)).or_default();
        group.kinds.entry(&one.scope).or_default().push(plain_name(&one.kind));
        let same_scope = item.collections.iter().filter(|other| other.scope == one.scope);
        group.of_scope.entry(&one.scope).or_insert_with(|| same_scope.count());
        group.facts = group.facts.saturating_add(one.facts);
    }
    let mut table = Table::new(&["REGISTRY", "WITHHELD", "FACTS", "FRESHNESS"], &[], true);
    for ((registry, freshness), group) in &groups {
        let freshness = Cell((*freshness).to_owned(), Tone::Warn);
        table.row(vec![(*registry).into(), group.covers().into(), group.facts.into(), freshness]);
    }
    table
}

/// Returns the plain name of a kind of facts; the name itself if a newer server has it.
fn plain_name(kind: &str) -> String {
    let known = CollectionKind::ALL.into_iter().find(|known| kind_name(*known) == kind);
    known.map_or_else(|| kind.to_owned(), |known| known.plain_name().to_owned())
}

fn ended(items: &[RegistryItem]) -> Table {
    let mut table = Table::new(&["REGISTRY", "ENDED SCOPE", "AGO", "EVIDENCE"], &[], true);
    for (item, one) in items.iter().flat_map(|item| item.ended.iter().map(move |one| (item, one))) {
        table.row(vec![
            item.name.clone().into(),
            one.scope.clone().into(),
            age(one.ended_millis_ago).into(),
            one.evidence.clone().into(),
        ]);
    }
    table
}

fn problems(items: &[RegistryItem]) -> Table {
    let mut table = Table::new(&["REGISTRY", "OBJECT", "CODE", "PROBLEM"], &[], true);
    for (item, one) in items.iter().flat_map(|item| item.problems.iter().map(move |one| (item, one))) {
        let object = match one.object.position.as_str() {
            "" => one.object.to_string(),
            place => format!("{} ({place})", one.object),
        };
        table.row(vec![
            item.name.clone().into(),
            object.into(),
            one.code.clone().into(),
            one.message.clone().into(),
        ]);
    }
    table
}

/// Number of details from which a scope has a line of its own.
const COLUMNS: usize = 10;

fn with_columns(names: &[&str]) -> Table {
    let names: Vec<String> = names.iter().map(|name| name.to_uppercase()).collect();
    let heads: Vec<&str> =
        ["REGISTRY", "SCOPE"].into_iter().chain(names.iter().map(String::as_str)).collect();
    Table::new(&heads, &[], true)
}

fn parts(item: &RegistryItem, source: &SourceItem, table: &mut Table) {
    let mut row = |part: &str, state: &str, since: Option<u64>, next: Option<u64>, reason: &str| {
        table.row(vec![
            item.name.clone().into(),
            source.scope.clone().into(),
            part.into(),
            Cell(state.to_owned(), tone(state)),
            since.map(age).unwrap_or_default().into(),
            next.map(next_try).unwrap_or_default().into(),
            source.held.into(),
            reason.into(),
        ]);
    };
    if source.parts.is_empty() {
        row("", &source.state, source.since_millis_ago, source.retry_in_millis, &source.reason);
    }
    for part in &source.parts {
        row(&part.name, &part.state, Some(part.since_millis_ago), part.retry_in_millis, &part.reason);
    }
}

/// Describes the time until the next try; `due` once the planned time has come.
pub(super) fn next_try(millis: u64) -> String {
    if millis == 0 { "due".to_owned() } else { age(millis) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ObjectItem;
    use crate::document::registries::{CollectionItem, PartItem, ProblemItem};

    #[test]
    fn scopes_with_equal_details_share_a_table() {
        let names = ["mode", "index", "last success", "lag", "services", "a", "b", "c", "d", "ACL view"];
        let source = |scope: &str, mode: &str, held: u64| SourceItem {
            scope: scope.into(),
            state: "Live".into(),
            held,
            details: names
                .map(|name| DetailItem { name: name.into(), value: mode.into(), ..DetailItem::default() })
                .into(),
            ..SourceItem::default()
        };
        let item = RegistryItem {
            name: "c".into(),
            sources: vec![source("dc1", "1", 0), source("dc2", "2", 2)],
            ..RegistryItem::default()
        };
        let text = more(&[item], true, false);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1][..],
            ["REGISTRY", "SCOPE", "PART", "STATE", "SINCE", "NEXT", "TRY", "HELD", "REASON"]
        );
        assert_eq!((lines[2][6], lines[3][6]), ("0", "2"), "each scope has its own count");
        assert_eq!(lines[5][..5], ["REGISTRY", "SCOPE", "MODE", "INDEX", "LAST"]);
        assert_eq!((lines[6].join(" "), lines.len()), (format!("c dc1{}", " 1".repeat(10)), 8));
    }

    #[test]
    fn details_and_parts_have_tables_below() {
        let part = |name: &str, state: &str, retry_in_millis| PartItem {
            name: name.into(),
            state: state.into(),
            reason: if state == "Live" { String::new() } else { "403".into() },
            since_millis_ago: 61_000,
            retry_in_millis,
        };
        let source = |scope: &str, parts| SourceItem {
            scope: scope.into(),
            state: "Live".into(),
            parts,
            details: vec![DetailItem {
                name: "network".into(),
                value: "east (label of tributary-system)".into(),
                ..DetailItem::default()
            }],
            ..SourceItem::default()
        };
        let item = RegistryItem {
            name: "k".into(),
            sources: vec![
                source("cluster", vec![part("pods", "Live", None), part("nodes", "Forbidden", Some(9_000))]),
                SourceItem {
                    since_millis_ago: Some(5_000),
                    retry_in_millis: Some(0),
                    ..source("dc1", Vec::new())
                },
            ],
            ..RegistryItem::default()
        };
        let expected = "\nREGISTRY   SCOPE     PART    STATE       SINCE   NEXT TRY   HELD   REASON\n\
                        k          cluster   pods    Live        61s     -          0      -\n\
                        k          cluster   nodes   Forbidden   61s     9s         0      403\n\
                        k          dc1       -       Live        5s      due        0      -\n\
                        \nREGISTRY   SCOPE     DETAIL    VALUE\n\
                        k          cluster   network   east (label of tributary-system)\n\
                        k          dc1       network   east (label of tributary-system)\n";
        assert_eq!(more(&[item], true, false), expected);
        assert_eq!(
            more(&[RegistryItem::default()], true, false),
            "",
            "a registry without details adds no table"
        );
    }

    #[test]
    fn withheld_collections_share_a_line_per_reason() {
        let collection = |scope: &str, kind: &str, why: &str| CollectionItem {
            scope: scope.into(),
            kind: kind.into(),
            freshness: format!("Stale: {why}"),
            withheld: true,
            facts: 2,
        };
        let all = [
            collection("cluster", "Services", "403"),
            collection("cluster", "Groups", "403"),
            collection("configmaps", "Gateways", "403"),
            collection("cluster", "Gateways", "no answer"),
        ];
        let item = RegistryItem { name: "k".into(), collections: all.into(), ..RegistryItem::default() };
        let expected = "\nREGISTRY   WITHHELD                                            FACTS   FRESHNESS\n\
                        k          services, endpoints of cluster; all of configmaps   6       Stale: 403\n\
                        k          gateways of cluster                                 2       Stale: no answer\n";
        assert_eq!(more(&[item], true, false), expected);
        let many = (0..30).map(|at| collection(&format!("ns{at:02}"), "Groups", "403"));
        let live = (0..30).map(|at| CollectionItem {
            withheld: false,
            ..collection(&format!("ns{at:02}"), "Services", "")
        });
        let many = many.chain(live).collect();
        let item = RegistryItem { name: "k".into(), collections: many, ..RegistryItem::default() };
        let text = more(&[item], true, false);
        assert!(text.contains("endpoints of ns19; and 10 more scopes   60 "), "{text}");
    }

    #[test]
    fn each_quarantined_object_has_a_line() {
        let problem = |name: &str, place: &str| ProblemItem {
            object: ObjectItem {
                kind: "EndpointSlice".into(),
                namespace: "shop".into(),
                name: name.into(),
                position: place.into(),
                ..ObjectItem::default()
            },
            code: "TRB0324".into(),
            message: "it waits".into(),
        };
        let item = RegistryItem {
            name: "k".into(),
            problems: vec![problem("a", ""), problem("b", "b.yaml:3")],
            ..RegistryItem::default()
        };
        let expected = "\nREGISTRY   OBJECT                            CODE      PROBLEM\n\
                        k          EndpointSlice shop/a              TRB0324   it waits\n\
                        k          EndpointSlice shop/b (b.yaml:3)   TRB0324   it waits\n";
        assert_eq!(more(&[item], true, false), expected);
    }
}
