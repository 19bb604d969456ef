//! `get routes`: the routes of a client to a host.

use super::resources::rules;
use super::table::{Cell, Table, Tone};
use crate::args::{GetArgs, Resource};
use crate::document::RouteItem;
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// Checks flags that belong to some lists only.
pub(super) fn check(args: &GetArgs) -> Result<(), CommandError> {
    let wrong = |message: &str, next: &str| {
        Err(CommandError::new(Exit::Usage, Code::FLAG_INVALID, message).next(next.to_owned()))
    };
    let is_routes = args.what == Resource::Routes;
    if !is_routes && args.for_client.is_some() {
        return wrong("--for-client belongs to `get routes`, `explain` and `why-not`", "omit it");
    }
    if is_routes && (args.name.is_none() || args.for_client.is_none()) {
        return wrong(
            "`get routes` needs a host and a client: tributary get routes HOST --for-client CLIENT",
            "list hosts with `tributary get services` and clients with `tributary get clients`",
        );
    }
    if is_routes && (args.namespace.is_some() || args.registry.is_some() || args.host.is_some()) {
        return wrong("routes have no namespace and no registry", "name the host and the client only");
    }
    Ok(())
}

/// Returns the filter of the list.
#[must_use]
pub(super) fn query(args: &GetArgs) -> Vec<(&str, Option<&str>)> {
    vec![("host", args.name.as_deref()), ("client", args.for_client.as_deref())]
}

/// Returns the table of routes.
#[must_use]
pub(super) fn table(items: &[RouteItem], wide: bool) -> Table {
    let heads = ["PORT", "ORDER", "MATCH", "TO", "RULE", "STATE"];
    let mut table = Table::new(&heads, &["SETTINGS", "NAME", "TABLE", "VIRTUAL HOST"], wide);
    for item in items {
        let any = if item.kind == "connections" { "any connection" } else { "any request" };
        let found = if item.conditions.is_empty() { any.to_owned() } else { item.conditions.join(", ") };
        let tone = match item.state.as_str() {
            "SYNCED" => Tone::Plain,
            "ERROR" => Tone::Bad,
            _ => Tone::Warn,
        };
        table.row(vec![
            item.port.map(|port| port.to_string()).unwrap_or_default().into(),
            item.order.to_string().into(),
            found.into(),
            item.to.clone().into(),
            rules(&item.rules, wide).into(),
            Cell(item.state.clone(), tone),
            item.settings.join(", ").into(),
            item.name.clone().into(),
            item.table.clone().into(),
            item.virtual_host.clone().into(),
        ]);
    }
    table
}
