//! `get resources`: what a client was sent. Names in tables, decoded resources in JSON and YAML.

use super::table::{Cell, Table, Tone};
use crate::args::{GetArgs, Output, Resource};
use crate::document::{ObjectItem, ResourceItem};
use crate::exit::{CommandError, Exit};
use tributary_model::{Code, PolicyKind};

/// Most rules in a cell.
const MAX_RULES: usize = 8;

/// Checks flags that belong to some lists only.
pub fn check(args: &GetArgs) -> Result<(), CommandError> {
    let wrong = |message: &str| CommandError::new(Exit::Usage, Code::FLAG_INVALID, message);
    let is_resources = args.what == Resource::Resources;
    if is_resources && args.name.is_none() {
        let next = "list the clients with `tributary get clients`";
        return Err(wrong("`get resources` needs a client: tributary get resources CLIENT").next(next));
    }
    if is_resources && (args.namespace.is_some() || args.registry.is_some()) {
        return Err(
            wrong("resources have no namespace and no registry").next("use --type, --resource or --host")
        );
    }
    if !is_resources && (args.kind.is_some() || args.resource.is_some()) {
        return Err(wrong("--type and --resource belong to `get resources`").next("omit them"));
    }
    let has_host = !matches!(args.what, Resource::Clients | Resource::Registries | Resource::Clusters);
    if !has_host && args.host.is_some() {
        return Err(wrong("clients, registries and clusters have no host").next("omit --host"));
    }
    Ok(())
}

/// Returns the filter of the list.
#[must_use]
pub fn query(args: &GetArgs) -> Vec<(&str, Option<&str>)> {
    let bodies = matches!(args.output, Output::Json | Output::Yaml);
    vec![
        ("client", args.name.as_deref()),
        ("type", args.kind.map(|kind| kind.as_str())),
        ("name", args.resource.as_deref()),
        ("host", args.host.as_deref()),
        ("bodies", bodies.then_some("true")),
    ]
}

/// Returns the table of resources.
#[must_use]
pub fn table(items: &[ResourceItem], wide: bool) -> Table {
    let mut table = Table::new(&["TYPE", "NAME", "STATE", "BYTES", "RULE", "WHY"], &["VERSION"], wide);
    for item in items {
        let why = if item.error.is_empty() { &item.note } else { &item.error };
        let tone = match item.state.as_str() {
            "SYNCED" => Tone::Plain,
            "ERROR" => Tone::Bad,
            _ => Tone::Warn,
        };
        table.row(vec![
            item.kind.clone().into(),
            item.name.clone().into(),
            Cell(item.state.clone(), tone),
            item.bytes.map(|bytes| bytes.to_string()).unwrap_or_default().into(),
            rules(&item.rules, wide).into(),
            why.clone().into(),
            item.version.clone().into(),
        ]);
    }
    table
}

/// Returns rules as `namespace/name`, with their positions in a wide table, and with their kind unless it is DestinationRule.
pub(super) fn rules(all: &[ObjectItem], wide: bool) -> String {
    let one = |rule: &ObjectItem| {
        let is_usual = rule.kind == PolicyKind::DestinationRule.as_str();
        let kind = if is_usual { String::new() } else { format!("{} ", rule.kind) };
        let position = rule.position.as_str();
        let at = if wide && !position.is_empty() { format!(" ({position})") } else { String::new() };
        format!("{kind}{}/{}{at}", rule.namespace, rule.name)
    };
    let shown = all.iter().take(MAX_RULES).map(one).collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(MAX_RULES);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}
