//! Registries as tables: one line each, and with `-o wide` what their sources tell of themselves.

use super::table::{Cell, Table, Tone, age};
use crate::document::RegistryItem;
use crate::document::registries::SourceItem;

fn tone(state: &str) -> Tone {
    match state {
        "Live" => Tone::Plain,
        "Syncing" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// One line each.
pub(super) fn table(items: &[RegistryItem], wide: bool) -> Table {
    let heads = ["NAME", "KIND", "STATE", "CONFIRMED", "SERVICES", "ENDPOINTS", "PROBLEMS", "REASON"];
    let more = ["CLUSTER", "GENERATION", "FAILURES", "HELD", "FIRST PROBLEM"];
    let mut table = Table::new(&heads, &more, wide);
    for item in items {
        let first = item.problems.first().map(|p| format!("{} {}", p.code, p.message));
        let odd = if item.problems.is_empty() { Tone::Plain } else { Tone::Warn };
        table.row(vec![
            item.name.clone().into(),
            item.kind.clone().into(),
            Cell(item.state.clone(), tone(&item.state)),
            item.confirmed_millis_ago.map(age).unwrap_or_default().into(),
            item.services.into(),
            item.endpoints.into(),
            Cell(item.problems.len().to_string(), odd),
            item.reason.clone().into(),
            item.cluster.clone().into(),
            item.generation.into(),
            item.failures.into(),
            item.held.len().into(),
            first.unwrap_or_default().into(),
        ]);
    }
    table
}

/// A table of the sources' parts, then one of what they tell.
pub(super) fn more(items: &[RegistryItem], heads: bool, color: bool) -> String {
    let sources = || items.iter().flat_map(|item| item.sources.iter().map(move |source| (item, source)));
    let mut states =
        Table::new(&["REGISTRY", "SCOPE", "PART", "STATE", "SINCE", "NEXT TRY", "REASON"], &[], true);
    let mut details = Table::new(&["REGISTRY", "SCOPE", "DETAIL", "VALUE"], &[], true);
    for (item, source) in sources() {
        parts(item, source, &mut states);
        for detail in &source.details {
            details.row(vec![
                item.name.clone().into(),
                source.scope.clone().into(),
                detail.name.clone().into(),
                detail.value.clone().into(),
            ]);
        }
    }
    let tables = [states, details].map(|table| table.render(heads, color));
    tables.into_iter().filter(|text| !text.is_empty()).map(|text| format!("\n{text}")).collect()
}

fn parts(item: &RegistryItem, source: &SourceItem, table: &mut Table) {
    let mut row = |part: &str, state: &str, since: Option<u64>, next: Option<u64>, reason: &str| {
        table.row(vec![
            item.name.clone().into(),
            source.scope.clone().into(),
            part.into(),
            Cell(state.to_owned(), tone(state)),
            since.map(age).unwrap_or_default().into(),
            next.map(age).unwrap_or_default().into(),
            reason.into(),
        ]);
    };
    if source.parts.is_empty() {
        row("", &source.state, None, source.retry_in_millis, &source.reason);
    }
    for part in &source.parts {
        row(&part.name, &part.state, Some(part.since_millis_ago), part.retry_in_millis, &part.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::registries::{DetailItem, PartItem};

    #[test]
    fn what_sources_tell_of_themselves_stands_below() {
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
            }],
            ..SourceItem::default()
        };
        let item = RegistryItem {
            name: "k".into(),
            sources: vec![
                source("cluster", vec![part("pods", "Live", None), part("nodes", "Forbidden", Some(9_000))]),
                source("dc1", Vec::new()),
            ],
            ..RegistryItem::default()
        };
        let expected = "\nREGISTRY   SCOPE     PART    STATE       SINCE   NEXT TRY   REASON\n\
                        k          cluster   pods    Live        61s     -          -\n\
                        k          cluster   nodes   Forbidden   61s     9s         403\n\
                        k          dc1       -       Live        -       -          -\n\
                        \nREGISTRY   SCOPE     DETAIL    VALUE\n\
                        k          cluster   network   east (label of tributary-system)\n\
                        k          dc1       network   east (label of tributary-system)\n";
        assert_eq!(more(&[item], true, false), expected);
        assert_eq!(
            more(&[RegistryItem::default()], true, false),
            "",
            "a source that tells nothing adds nothing"
        );
    }
}
