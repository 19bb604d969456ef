//! `tributary get overview`, `get map` and the table of `get timeline`.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::get::{document, parse, path};
use super::http::of_server;
use super::table::{Cell, Table, Tone, age};
use super::{Console, Server};
use crate::args::{GetArgs, Output, Resource};
use crate::document::overview::OverviewCounts;
use crate::document::timeline::TimelineSeverity;
use crate::document::{API_VERSION, Map as MapDocument, Overview, TimelineItem};
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// Whether this is a document of its own, not a list.
pub(super) const fn is_document(what: Resource) -> bool {
    matches!(what, Resource::Overview | Resource::Map)
}

/// Checks the flags of a list that has only some of them.
pub(super) fn check(args: &GetArgs) -> Result<(), CommandError> {
    let wrong = |message: &str| {
        Err(CommandError::new(Exit::Usage, Code::FLAG_INVALID, message).next("see `tributary get --help`"))
    };
    if args.since.is_some() && args.what != Resource::Timeline {
        return wrong("--since is for `get timeline`");
    }
    let has_search = matches!(
        args.what,
        Resource::Services | Resource::Endpoints | Resource::Clients | Resource::Policies
    );
    if args.search.is_some() && !has_search {
        return wrong("--search is for services, endpoints, clients and policies");
    }
    if args.limit.is_some() && matches!(args.what, Resource::Resources | Resource::Routes) {
        return wrong("resources and routes take no --limit");
    }
    let filters = [&args.name, &args.namespace, &args.registry, &args.search];
    let is_filtered = filters.iter().any(|one| one.is_some());
    if args.what == Resource::Timeline && is_filtered {
        return wrong("the timeline is filtered by --host and --since only");
    }
    if is_document(args.what) && (is_filtered || args.host.is_some()) {
        return wrong("the overview and the map are not filtered");
    }
    if is_document(args.what) && (args.watch || args.limit.is_some() || args.output == Output::Name) {
        return wrong("the overview and the map take neither --watch, --limit nor `-o name`");
    }
    Ok(())
}

/// Writes the document of each replica: tables one after another, JSON and YAML as one document.
pub(super) async fn run(
    args: &GetArgs,
    server: &Server,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let replicas = server.split().await?;
    if replicas.len() > 1 && matches!(args.output, Output::Json | Output::Yaml) {
        return together(args, &replicas, console).await;
    }
    let mut exit = Exit::Ok;
    for (number, replica) in replicas.iter().enumerate() {
        if replicas.len() > 1 && matches!(args.output, Output::Table | Output::Wide) {
            let space = if number > 0 { "\n" } else { "" };
            console.data(&format!("{space}replica {}\n", replica.url()))?;
        }
        match one(args, replica, console).await {
            Ok(Exit::Ok) => {}
            Ok(_) => exit = Exit::Partial,
            Err(failure) if replicas.len() == 1 => return Err(of_server(failure, &replica.url())),
            Err(failure) => {
                console.silent(&replica.url(), &failure);
                exit = Exit::Partial;
            }
        }
    }
    Ok(exit)
}

async fn read(args: &GetArgs, server: &Server) -> Result<Bytes, CommandError> {
    server.exchange((Method::GET, Duration::ZERO), &path(args.what), &[]).await
}

/// Writes one document with that of each replica, under its address. Fields that this version does not know stay.
async fn together(
    args: &GetArgs,
    replicas: &[Server],
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let (mut exit, mut all) = (Exit::Ok, Vec::new());
    for (replica, answer) in replicas.iter().zip(join_all(replicas.iter().map(|one| read(args, one))).await) {
        let mut fields = Map::from_iter([("replica".to_owned(), Value::from(replica.url()))]);
        match answer.and_then(|body| parse::<Map<String, Value>>(&body)) {
            Ok(document) => {
                let is_partial = document.get("metadata").and_then(|of| of.get("partial"));
                exit = if is_partial == Some(&true.into()) { Exit::Partial } else { exit };
                fields.extend(document);
            }
            Err(failure) => {
                console.silent(&replica.url(), &failure);
                fields.insert("silent".to_owned(), failure.message.into());
                exit = Exit::Partial;
            }
        }
        all.push(Value::Object(fields));
    }
    let kind = if args.what == Resource::Map { "ReplicaMaps" } else { "ReplicaOverviews" };
    let whole = json!({"apiVersion": API_VERSION, "kind": kind, "replicas": all});
    console.data(&document(args.output, &whole)?)?;
    Ok(exit)
}

async fn one(args: &GetArgs, server: &Server, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let body = read(args, server).await?;
    let (is_partial, text) = if args.what == Resource::Map {
        let map: MapDocument = parse(&body)?;
        (map.metadata.partial, render(args, &map, || of_map(args, &map, console.color))?)
    } else {
        let overview: Overview = parse(&body)?;
        (overview.metadata.partial, render(args, &overview, || of_overview(args, &overview, console.color))?)
    };
    console.data(&text)?;
    Ok(if is_partial { Exit::Partial } else { Exit::Ok })
}

fn render(
    args: &GetArgs,
    whole: &impl serde::Serialize,
    tables: impl FnOnce() -> String,
) -> Result<String, CommandError> {
    match args.output {
        Output::Json | Output::Yaml => document(args.output, whole),
        Output::Table | Output::Wide | Output::Name => Ok(tables()),
    }
}

fn of_overview(args: &GetArgs, overview: &Overview, color: bool) -> String {
    let ready = if overview.ready { "ready" } else { "not ready" };
    let mut out = format!(
        "{} {}, {ready}, up {}\n{}\n",
        overview.server.name,
        overview.server.version,
        age(overview.server.uptime_millis),
        numbers(&overview.counts)
    );
    let mut tables = vec![registries(args, overview)];
    if !overview.findings.is_empty() {
        tables.push(findings(args, overview));
    }
    for table in tables {
        out.push('\n');
        out.push_str(&table.render(!args.no_headers, color));
    }
    if overview.more_findings > 0 {
        out.push_str(&format!("{} further findings; see `tributary check`\n", overview.more_findings));
    }
    out
}

fn numbers(of: &OverviewCounts) -> String {
    let by = |counts: &std::collections::BTreeMap<String, u64>| {
        let each: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        if each.is_empty() { "0".to_owned() } else { each.join(", ") }
    };
    format!(
        "{} services; endpoints: {}; clients: {}; {} registries; {} clusters; {} policies; {} held removals; {} problems",
        of.services,
        by(&of.endpoints),
        by(&of.clients),
        of.registries,
        of.clusters,
        of.policies,
        of.held_removals,
        of.problems
    )
}

fn registries(args: &GetArgs, overview: &Overview) -> Table {
    let heads =
        ["REGISTRY", "KIND", "STATE", "CONFIRMED", "SERVICES", "ENDPOINTS", "HELD", "PROBLEMS", "REASON"];
    let mut table = Table::new(&heads, &[], args.output == Output::Wide);
    for row in &overview.registries {
        let tone = if row.state == "Live" { Tone::Plain } else { Tone::Bad };
        let confirmed = row.confirmed_millis_ago.map(|millis| format!("{} ago", age(millis)));
        table.row(vec![
            row.name.clone().into(),
            row.kind.clone().into(),
            Cell(row.state.clone(), tone),
            confirmed.unwrap_or_default().into(),
            row.services.into(),
            row.endpoints.into(),
            row.held.into(),
            row.problems.into(),
            row.reason.clone().into(),
        ]);
    }
    table
}

fn findings(args: &GetArgs, overview: &Overview) -> Table {
    let heads = ["SEVERITY", "CODE", "OBJECT", "FINDING"];
    let mut table = Table::new(&heads, &["SINCE", "NEXT"], args.output == Output::Wide);
    for one in &overview.findings {
        let object = one.object.as_ref().map(|object| format!("{} {}", object.kind, object.name));
        table.row(vec![
            Cell(one.severity.clone(), tone(&one.severity)),
            one.code.clone().into(),
            object.unwrap_or_default().into(),
            format!("{}: {}", one.title, one.message).into(),
            one.since.clone().unwrap_or_default().into(),
            one.next.clone().into(),
        ]);
    }
    table
}

fn tone(severity: &str) -> Tone {
    match severity {
        "error" => Tone::Bad,
        "warning" => Tone::Warn,
        _ => Tone::Plain,
    }
}

fn of_map(args: &GetArgs, map: &MapDocument, color: bool) -> String {
    let wide = args.output == Output::Wide;
    let mut nodes = Table::new(&["KIND", "NAME", "STATE", "SERVICES", "ENDPOINTS", "REASON"], &[], wide);
    for node in &map.nodes {
        let is_bad = !matches!(&*node.state, "" | "Live" | "Used");
        nodes.row(vec![
            node.kind.clone().into(),
            node.name.clone().into(),
            Cell(node.state.clone(), if is_bad { Tone::Bad } else { Tone::Plain }),
            node.services.into(),
            node.endpoints.into(),
            node.reason.clone().into(),
        ]);
    }
    let mut edges = Table::new(&["FROM", "EDGE", "TO", "SERVICES", "ENDPOINTS"], &[], wide);
    for edge in &map.edges {
        edges.row(vec![
            edge.from.clone().into(),
            edge.kind.clone().into(),
            edge.to.clone().into(),
            edge.services.into(),
            edge.endpoints.into(),
        ]);
    }
    format!("{}\n{}", nodes.render(!args.no_headers, color), edges.render(!args.no_headers, color))
}

/// Returns the table of a timeline.
pub(super) fn timeline(items: &[TimelineItem], wide: bool) -> Table {
    let mut table = Table::new(&["AT", "KIND", "OBJECT", "CHANGE"], &["CODE", "GENERATION", "HOSTS"], wide);
    for item in items {
        let hosts = named(&item.hosts, item.more_hosts);
        let tone = match item.severity {
            TimelineSeverity::Error => Tone::Bad,
            TimelineSeverity::Warning => Tone::Warn,
            TimelineSeverity::Info => Tone::Plain,
        };
        let object = item.object.as_ref().map(|object| format!("{} {}", object.kind, object.name));
        table.row(vec![
            item.at.clone().into(),
            item.kind.as_str().into(),
            object.unwrap_or_else(|| hosts.clone()).into(),
            Cell(item.message.clone(), tone),
            item.code.clone().into(),
            item.generation.map(|generation| generation.to_string()).unwrap_or_default().into(),
            hosts.into(),
        ]);
    }
    table
}

/// Names hosts, and the number of those that the entry does not name.
fn named(hosts: &[String], more: usize) -> String {
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    hosts.join(", ") + &more
}
