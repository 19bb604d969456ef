//! Clusters as a table, one line each, and one cluster in detail.
//!
//! `get clusters` and `cluster describe` draw with it what the server decided; it contacts no server. Nothing that it prints holds a credential.

use jiff::Timestamp;

use super::registries::next_try;
use super::table::{Cell, Table, Tone, age};
use crate::document::clusters::{ClaimItem, ClusterConditionItem, ClusterRegistryItem};
use crate::document::{ClusterItem, Metadata};

/// Returns the tone of a state.
pub(super) fn tone(state: &str) -> Tone {
    match state {
        "Live" => Tone::Plain,
        "Syncing" | "Paused" | "Removing" | "Stale" => Tone::Warn,
        _ => Tone::Bad,
    }
}

/// Returns the table with one line for each cluster.
pub(super) fn table(all: &[ClusterItem], wide: bool) -> Table {
    let heads = [
        "NAME",
        "STATE",
        "SINCE",
        "CONFIRMED",
        "NEXT TRY",
        "SERVICES",
        "ENDPOINTS",
        "EXPIRES",
        "SOURCE",
        "REASON",
    ];
    let more = [
        "REGISTRIES",
        "GENERATION",
        "NEXT RUN",
        "ROTATIONS",
        "RENEWAL",
        "STALENESS",
        "IDENTITY",
        "CONDITIONS",
    ];
    let (mut table, now) = (Table::new(&heads, &more, wide), Timestamp::now());
    for one in all {
        table.row(vec![
            one.name.clone().into(),
            Cell(one.state.clone(), tone(&one.state)),
            one.since_millis_ago.map(age).unwrap_or_default().into(),
            one.confirmed_millis_ago.map(age).unwrap_or_default().into(),
            one.retry_in_millis.map(next_try).unwrap_or_default().into(),
            one.services.into(),
            one.endpoints.into(),
            expiry(one, now),
            one.source.clone().into(),
            reason(one).into(),
            each(&one.registries, |registry| registry.name.clone()),
            each(&one.registries, |registry| registry.generation.to_string()),
            each(&one.registries, |registry| {
                registry.next_generation.map(|next| next.to_string()).unwrap_or_default()
            }),
            one.rotations.into(),
            one.renewal.map(|at| renewal(at, now)).unwrap_or_default().into(),
            one.staleness.clone().into(),
            identity(one),
            one.conditions.iter().map(|one| one.kind.as_str()).collect::<Vec<_>>().join(",").into(),
        ]);
    }
    table
}

fn each(all: &[ClusterRegistryItem], text: impl Fn(&ClusterRegistryItem) -> String) -> Cell {
    let texts = all.iter().map(text).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join(",").into()
}

/// Returns why a cluster is in its state, then its conditions. Of a live one the conditions come first: its reason is a remark.
fn reason(one: &ClusterItem) -> String {
    let own = Some((&one.reason, &one.code)).filter(|(reason, _)| !reason.is_empty());
    let conditions = one.conditions.iter().map(|condition| (&condition.message, &condition.code));
    // the reason of a refused cluster is its first condition
    let others: Vec<_> = conditions.filter(|(message, _)| **message != one.reason).collect();
    let all: Vec<_> = match one.state.as_str() {
        "Live" => others.into_iter().chain(own).collect(),
        _ => own.into_iter().chain(others).collect(),
    };
    all.into_iter().map(|(text, code)| coded(text, code)).collect::<Vec<_>>().join("; ")
}

fn coded(text: &str, code: &str) -> String {
    if code.is_empty() { text.to_owned() } else { format!("{text} ({code})") }
}

/// Describes the time of an expiry.
pub(crate) fn expires(at: Timestamp, now: Timestamp) -> String {
    let left = age(at.as_millisecond().abs_diff(now.as_millisecond()));
    if at <= now { format!("{left} ago") } else { format!("in {left}") }
}

/// Returns when a token is renewed: one that should have been is not.
fn renewal(at: Timestamp, now: Timestamp) -> String {
    let left = age(at.as_millisecond().abs_diff(now.as_millisecond()));
    if at <= now { format!("overdue for {left}") } else { format!("in {left}") }
}

/// Returns the identity, or that it cannot be read.
fn identity(one: &ClusterItem) -> Cell {
    if one.unverified { Cell("unverified".to_owned(), Tone::Warn) } else { one.identity.clone().into() }
}

fn expiry(one: &ClusterItem, now: Timestamp) -> Cell {
    let Some(at) = one.credential_expires else { return "".into() };
    let is_reported = one.conditions.iter().any(|condition| condition.kind.starts_with("Credential"));
    Cell(expires(at, now), if is_reported { Tone::Bad } else { Tone::Plain })
}

/// Returns what is wrong with the sources of declarations.
pub(super) fn notes(metadata: &Metadata) -> Vec<String> {
    let reasons = metadata.sources.iter().filter(|source| !source.reason.is_empty());
    let reasons = reasons
        .map(|source| format!("{}: {}: {}", source.name, source.state, coded(&source.reason, &source.code)));
    let beyond = metadata.sources.iter().filter(|source| source.beyond > 0);
    let beyond = beyond
        .map(|source| format!("{}: {} more objects are not read; remove some", source.name, source.beyond));
    let faults = metadata.sources.iter().flat_map(|source| &source.faults);
    let mut faults: Vec<_> =
        faults.map(|fault| format!("{}: {}", fault.object, coded(&fault.message, &fault.code))).collect();
    // a Secret with both labels is in both sources
    faults.sort();
    faults.dedup();
    reasons.chain(beyond).chain(faults).collect()
}

/// Returns the table of the sources of declarations.
pub(super) fn sources(metadata: &Metadata, heads: bool, color: bool) -> String {
    let mut table = Table::new(&["SOURCE", "STATE", "OBJECTS", "NOT READ", "REASON"], &[], true);
    for source in &metadata.sources {
        let tone = if source.state == "Synced" { Tone::Plain } else { Tone::Warn };
        table.row(vec![
            source.name.clone().into(),
            Cell(source.state.clone(), tone),
            source.objects.into(),
            source.beyond.into(),
            source.reason.clone().into(),
        ]);
    }
    let text = table.render(heads, color);
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Renders one cluster: its fields, then its declarations, conditions and kinds.
pub(super) fn described(one: &ClusterItem, now: Timestamp, color: bool) -> String {
    let mut fields = Table::new(&["", ""], &[], true);
    let ago = |millis: Option<u64>| millis.map(|millis| format!("{} ago", age(millis))).unwrap_or_default();
    let expiry = one.credential_expires.map(|at| expires(at, now)).unwrap_or_default();
    let registry = |one: &ClusterRegistryItem| {
        let next = one.next_generation.map(|next| format!(", {next} is being read")).unwrap_or_default();
        format!("{} (generation {}{next})", one.name, one.generation)
    };
    let rows: [(&str, Cell); 17] = [
        ("Name:", one.name.clone().into()),
        ("State:", Cell(one.state.clone(), tone(&one.state))),
        ("Reason:", coded(&one.reason, &one.code).into()),
        ("Since:", ago(one.since_millis_ago).into()),
        ("Confirmed:", ago(one.confirmed_millis_ago).into()),
        ("Next try:", one.retry_in_millis.map(next_try).unwrap_or_default().into()),
        ("Source:", one.source.clone().into()),
        ("Credential expires:", expiry.into()),
        ("Renewal:", one.renewal.map(|at| renewal(at, now)).unwrap_or_default().into()),
        ("Rotations:", one.rotations.into()),
        ("Registries:", each(&one.registries, registry)),
        ("Services:", one.services.into()),
        ("Endpoints:", one.endpoints.into()),
        ("Workloads:", one.workloads.into()),
        ("Gateways:", one.gateways.into()),
        ("Staleness:", one.staleness.clone().into()),
        ("Identity:", identity(one)),
    ];
    rows.into_iter().for_each(|(name, cell)| fields.row(vec![name.into(), cell]));
    let tables = [conditions(&one.conditions), claims(&one.claims), kinds(&one.registries)];
    let below = tables.map(|table| table.render(true, color)).into_iter().filter(|text| !text.is_empty());
    std::iter::once(fields.render(false, color)).chain(below).collect::<Vec<_>>().join("\n")
}

fn conditions(all: &[ClusterConditionItem]) -> Table {
    let mut table = Table::new(&["CONDITION", "CODE", "MESSAGE"], &[], true);
    for one in all {
        let kind = Cell(one.kind.clone(), Tone::Warn);
        table.row(vec![kind, one.code.clone().into(), one.message.clone().into()]);
    }
    table
}

/// Draws one row for each declaration, or for each fault of one that is refused.
fn claims(all: &[ClaimItem]) -> Table {
    let mut table = Table::new(&["DECLARED BY", "OUTCOME", "FIELD", "REASON", "ALLOWED BY"], &[], true);
    for one in all {
        let tone = if one.outcome == "Used" { Tone::Plain } else { Tone::Warn };
        let head = || vec![one.object.clone().into(), Cell(one.outcome.clone(), tone)];
        if one.faults.is_empty() {
            table.row(head().into_iter().chain(["".into(), "".into(), "".into()]).collect());
        }
        for fault in &one.faults {
            let reason = coded(&fault.message, &fault.code);
            let rest = [fault.field.clone().into(), reason.into(), fault.opt_in.clone().into()];
            table.row(head().into_iter().chain(rest).collect());
        }
    }
    table
}

fn kinds(all: &[ClusterRegistryItem]) -> Table {
    let mut table = Table::new(&["REGISTRY", "KIND", "STATE", "SINCE", "NEXT TRY", "REASON"], &[], true);
    for (registry, part) in all.iter().flat_map(|one| one.parts.iter().map(move |part| (one, part))) {
        table.row(vec![
            registry.name.clone().into(),
            part.name.clone().into(),
            Cell(part.state.clone(), super::registries::tone(&part.state)),
            age(part.since_millis_ago).into(),
            part.retry_in_millis.map(next_try).unwrap_or_default().into(),
            part.reason.clone().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
