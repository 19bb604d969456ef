//! `tributary get`: lists the contents of a running server.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::console::one_line;
use super::table::{Cell, Table, Tone, age};
use super::{Console, Server, clusters, overview, registries, resources, routes, watch};
use crate::args::{GetArgs, Output, Resource};
use crate::document::{
    ClientItem, EndpointItem, GatewayItem, List, MergeItem, NamedItem, PolicyItem, ServiceItem,
};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use tributary_model::{Code, PolicyKind};

/// Lists once, or watches.
pub async fn run(args: &GetArgs, env: &Environment, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let server = Server::find(&args.server, env)?;
    resources::check(args)?;
    routes::check(args)?;
    overview::check(args)?;
    if overview::is_document(args.what) {
        return overview::run(args, &server, console).await;
    }
    if args.watch {
        return watch::run(args, &server, console).await;
    }
    let answer = server.get(&path(args.what), &query(args)).await;
    let body = answer.map_err(|failure| failure.listing("hosts with `tributary get services`"))?;
    let list: List<Value> = parse(&body)?;
    console.data(&render(args, &list, console.color)?)?;
    conclude(args, &list, console)
}

/// Returns the path of a list.
#[must_use]
pub fn path(what: Resource) -> String {
    format!("/debug/{}", what.as_str())
}

/// Returns the filter of a list.
#[must_use]
pub fn query(args: &GetArgs) -> Vec<(&str, Option<&str>)> {
    if args.what == Resource::Resources {
        return resources::query(args);
    }
    if args.what == Resource::Routes {
        return routes::query(args);
    }
    if args.what == Resource::Timeline {
        let of_list = [("since", &args.since), ("host", &args.host), ("limit", &args.limit)];
        return of_list.map(|(name, value)| (name, value.as_deref())).to_vec();
    }
    vec![
        ("name", args.name.as_deref()),
        ("namespace", args.namespace.as_deref()),
        ("host", args.host.as_deref()),
        ("registry", args.registry.as_deref()),
        ("search", args.search.as_deref()),
        ("limit", args.limit.as_deref()),
    ]
}

/// Parses a document; one that does not parse comes from another version.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, CommandError> {
    serde_json::from_slice(body).map_err(|e| {
        CommandError::plain(format!("cannot read the server's answer: {e}"))
            .next("use the `tributary` of the server's version")
    })
}

fn conclude(args: &GetArgs, list: &List<Value>, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    list.metadata.notes.iter().for_each(|note| console.note(note));
    let what = args.what.as_str();
    let is_resources = args.what == Resource::Resources;
    let name = if is_resources { &args.resource } else { &args.name };
    let is_kind = |name: &str| args.what == Resource::Policies && PolicyKind::parse(name).is_some();
    if let (Some(name), true) = (name.as_deref().filter(|name| !is_kind(name)), list.items.is_empty()) {
        // a replica that is silent may have it
        if super::server::conclude(&list.metadata, Exit::NotFound, console) == Exit::Partial {
            return Ok(Exit::Partial);
        }
        let message = format!("{} `{name}` not found", one(args.what));
        let client = args.name.as_ref().filter(|_| is_resources).map(|client| format!(" {client}"));
        let next = format!("list them with `tributary get {what}{}`", client.unwrap_or_default());
        return Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message).next(next));
    }
    clusters::notes(&list.metadata).iter().for_each(|note| console.note(note));
    if list.metadata.remaining > 0 {
        let more = list.metadata.remaining;
        let advice = match args.what {
            Resource::Resources => "narrow the list with --type or --host",
            Resource::Timeline => "use --host, --since, or a larger --limit",
            _ => "narrow the list with --host, -n or --registry",
        };
        console.note(&format!("{more} more are not shown; {advice}"));
    }
    if list.items.is_empty() && matches!(args.output, Output::Table | Output::Wide) {
        console.note(&match (args.what, &args.host) {
            (Resource::Timeline, Some(host)) => {
                format!("no change of {host} is in the timeline; `tributary get services` lists hosts")
            }
            (Resource::Timeline, None) => "no change is in the timeline".to_owned(),
            _ => format!("no {what}"),
        });
        if args.what == Resource::Merges {
            console.note("only a configuration with `merge: {byName: report}` or `on` finds them");
        }
    }
    if args.what == Resource::Policies && args.output == Output::Table && list.items.iter().any(has_reason) {
        console.note("`-o wide` has the reason of each policy that is Quarantined or NotServed");
    }
    if list.metadata.partial && list.metadata.silent.is_empty() {
        console.note("the list may be incomplete: a registry has not synced; see `tributary get registries`");
        return Ok(Exit::Partial);
    }
    Ok(super::server::conclude(&list.metadata, Exit::Ok, console))
}

/// Returns the name of one item of a list.
const fn one(what: Resource) -> &'static str {
    match what {
        Resource::Services => "service",
        Resource::Endpoints => "endpoint",
        Resource::Clients => "client",
        Resource::Registries => "registry",
        Resource::Clusters => "cluster",
        Resource::Merges => "merge",
        Resource::Gateways => "gateway",
        Resource::Resources => "resource",
        Resource::Policies => "policy",
        Resource::Routes => "route",
        Resource::Overview | Resource::Map => "document",
        Resource::Timeline => "change",
    }
}

fn has_reason(policy: &Value) -> bool {
    policy.get("reason").is_some() || policy.get("status").is_some_and(|status| status == "NotServed")
}

/// Renders the list in the requested format.
pub fn render(args: &GetArgs, list: &List<Value>, color: bool) -> Result<String, CommandError> {
    match args.output {
        Output::Table | Output::Wide => {
            let wide = args.output == Output::Wide;
            let mut table = table(args.what, list, wide)?;
            if let Some(replicas) = replicas(list) {
                table.column("REPLICAS", replicas);
            }
            let mut text = table.render(!args.no_headers, color);
            if wide && args.what == Resource::Registries {
                text.push_str(&registries::more(&items(list)?, !args.no_headers, color));
            }
            if wide && args.what == Resource::Clusters {
                text.push_str(&clusters::sources(&list.metadata, !args.no_headers, color));
            }
            Ok(text)
        }
        Output::Name => {
            let names = list
                .items
                .iter()
                .map(|item| format!("{}/{}\n", args.what.as_str(), one_line(&name(args.what, item))));
            Ok(names.collect())
        }
        Output::Json | Output::Yaml => document(args.output, list),
    }
}

/// Returns the replicas of each item, if a document that was merged has items that only some replicas give.
fn replicas(list: &List<Value>) -> Option<Vec<Cell>> {
    let of = |item: &Value| item.get("replicas").and_then(Value::as_array).cloned();
    let all: Vec<Option<Vec<Value>>> = list.items.iter().map(of).collect();
    all.iter().any(Option::is_some).then(|| all.into_iter().map(|names| shown(names.as_deref())).collect())
}

fn shown(replicas: Option<&[Value]>) -> Cell {
    let names = replicas.map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","));
    names.unwrap_or_else(|| "all".to_owned()).into()
}

/// Renders a document as JSON or YAML.
pub fn document(output: Output, list: &impl serde::Serialize) -> Result<String, CommandError> {
    let unwritable =
        |e: &dyn std::fmt::Display| CommandError::plain(format!("cannot render the answer: {e}"));
    if output == Output::Yaml {
        return serde_saphyr::to_string(list).map_err(|e| unwritable(&e));
    }
    serde_json::to_string_pretty(list).map(|text| text + "\n").map_err(|e| unwritable(&e))
}

/// Returns the name of an item, unique among items of its kind.
#[must_use]
pub fn name(what: Resource, item: &Value) -> String {
    let text = |field: &str| item.get(field).and_then(Value::as_str).unwrap_or_default();
    match what {
        Resource::Services => format!("{}/{}", text("namespace"), text("host")),
        Resource::Endpoints => text("endpoint").to_owned(),
        Resource::Clients => text("id").to_owned(),
        Resource::Registries | Resource::Clusters | Resource::Merges => text("name").to_owned(),
        Resource::Gateways => format!("{}/{}/{}", text("network"), object_of(item), text("address")),
        Resource::Resources => format!("{}/{}", text("type"), text("name")),
        Resource::Policies => format!("{}/{}/{}", text("kind"), text("namespace"), text("name")),
        Resource::Routes => {
            let order = item.get("order").and_then(Value::as_u64).unwrap_or_default();
            let part = if text("virtualHost").is_empty() { text("kind") } else { text("virtualHost") };
            format!("{}/{part}/{order}", text("table"))
        }
        Resource::Timeline => item.get("sequence").and_then(Value::as_u64).unwrap_or_default().to_string(),
        Resource::Overview | Resource::Map => text("name").to_owned(),
    }
}

/// Returns `KIND/NAMESPACE/NAME` of the object that declares an item.
fn object_of(item: &Value) -> String {
    let part = |name| item.get("source")?.get(name)?.as_str();
    ["kind", "namespace", "name"].map(|name| part(name).unwrap_or_default()).join("/")
}

fn table(what: Resource, list: &List<Value>, wide: bool) -> Result<Table, CommandError> {
    Ok(match what {
        Resource::Services => services(&items(list)?, wide),
        Resource::Endpoints => endpoints(&items(list)?, wide),
        Resource::Clients => clients(&items(list)?, wide),
        Resource::Registries => registries::table(&items(list)?, wide),
        Resource::Clusters => clusters::table(&items(list)?, wide),
        Resource::Merges => merges(&items(list)?, wide),
        Resource::Gateways => gateways(&items(list)?, wide),
        Resource::Resources => resources::table(&items(list)?, wide),
        Resource::Policies => policies(&items(list)?, wide),
        Resource::Routes => routes::table(&items(list)?, wide),
        Resource::Timeline => overview::timeline(&items(list)?, wide),
        // written by `overview::run`
        Resource::Overview | Resource::Map => Table::new(&[], &[], wide),
    })
}

/// Reads the items of a list.
pub fn items<T: DeserializeOwned>(list: &List<Value>) -> Result<Vec<T>, CommandError> {
    let items = list.items.iter().cloned().map(serde_json::from_value);
    items.collect::<Result<_, _>>().map_err(|e| {
        CommandError::plain(format!("cannot read the server's answer: {e}"))
            .next("use the `tributary` of the server's version, or -o json")
    })
}

/// Returns the cell with the codes of conditions, each once, in order.
fn codes<'c>(all: impl Iterator<Item = &'c str>) -> Cell {
    let mut out: Vec<&str> = Vec::new();
    for code in all.filter(|code| !code.is_empty()) {
        if !out.contains(&code) {
            out.push(code);
        }
    }
    Cell(out.join(","), if out.is_empty() { Tone::Plain } else { Tone::Warn })
}

fn services(items: &[ServiceItem], wide: bool) -> Table {
    let heads = ["HOST", "NAMESPACE", "PORTS", "ENDPOINTS", "CONDITIONS"];
    let more = ["PRECEDENCE", "RESOLUTION", "ADDRESSES", "DECLARED BY", "EXPORTED TO"];
    let mut table = Table::new(&heads, &more, wide);
    for item in items {
        let ports: Vec<String> = item.ports.iter().map(|p| format!("{}/{}", p.number, p.protocol)).collect();
        let by: Vec<String> = item.declarations.iter().map(|d| format!("{} {}", d.shard, d.object)).collect();
        let exports: Vec<String> = item.declarations.iter().map(|d| d.export_to.join(",")).collect();
        table.row(vec![
            item.host.clone().into(),
            item.namespace.clone().into(),
            ports.join(",").into(),
            format!("{}/{}", item.endpoints.healthy, item.endpoints.total).into(),
            codes(item.conditions.iter().map(|condition| condition.code.as_str())),
            item.precedence.into(),
            item.resolution.clone().into(),
            item.addresses.join(",").into(),
            by.join("; ").into(),
            exports.join("; ").into(),
        ]);
    }
    table
}

fn endpoints(items: &[EndpointItem], wide: bool) -> Table {
    let heads = ["ENDPOINT", "SERVICE", "PORT", "HEALTH", "LOCALITY", "REGISTRY", "SOURCE"];
    let more = ["WEIGHT", "CLUSTER", "NETWORK", "FRESHNESS", "WORKLOAD", "POSITION", "VERSION", "LABELS"];
    let mut table = Table::new(&heads, &more, wide);
    for item in items {
        let held = if item.held { " (held)" } else { "" };
        let tone = if item.health == "HEALTHY" && !item.held { Tone::Plain } else { Tone::Warn };
        table.row(vec![
            item.endpoint.clone().into(),
            item.host.clone().into(),
            item.port.into(),
            Cell(format!("{}{held}", item.health), tone),
            item.locality.clone().into(),
            item.registry.clone().into(),
            item.source.clone().into(),
            item.weight.into(),
            item.cluster.clone().into(),
            item.network.clone().into(),
            freshness(&item.freshness),
            item.workload.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            item.source.position.clone().into(),
            item.source.resource_version.clone().into(),
            labels(item).into(),
        ]);
    }
    table
}

/// Returns the cell of a freshness; a policy that is not served has none.
fn freshness(text: &str) -> Cell {
    Cell(text.to_owned(), if matches!(text, "Live" | "") { Tone::Plain } else { Tone::Warn })
}

fn labels(item: &EndpointItem) -> String {
    item.labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn merges(items: &[MergeItem], wide: bool) -> Table {
    let heads = ["NAME", "STATE", "HOST", "SERVICES", "WHY NOT"];
    let mut table = Table::new(&heads, &["PORTS", "REGISTRIES"], wide);
    for item in items {
        let each = |text: &dyn Fn(&NamedItem) -> String| -> Cell {
            item.services.iter().map(text).collect::<Vec<_>>().join("; ").into()
        };
        let tone = if item.state == "separate" { Tone::Warn } else { Tone::Plain };
        table.row(vec![
            item.name.clone().into(),
            Cell(item.state.clone(), tone),
            item.host.clone().into(),
            each(&|service| format!("{}/{}", service.namespace, service.host)),
            item.message.clone().into(),
            each(&|service| service.ports.join(",")),
            each(&|service| service.registries.join(",")),
        ]);
    }
    table
}

fn gateways(items: &[GatewayItem], wide: bool) -> Table {
    let heads = ["NETWORK", "CLUSTER", "ADDRESS", "STATE", "SOURCE", "REASON"];
    let mut table = Table::new(&heads, &["HBONE", "POSITION", "VERSION"], wide);
    for item in items {
        let reason = gateway_reason(item);
        let tone = if reason.is_empty() { Tone::Plain } else { Tone::Warn };
        table.row(vec![
            item.network.clone().into(),
            item.cluster.clone().into(),
            gateway_address(item).into(),
            Cell(item.state.clone(), tone),
            item.source.clone().into(),
            reason.into(),
            item.hbone_port.map(|port| port.to_string()).unwrap_or_default().into(),
            item.source.position.clone().into(),
            item.source.resource_version.clone().into(),
        ]);
    }
    table
}

/// Returns the address of a gateway, with the first addresses that its host name has.
fn gateway_address(item: &GatewayItem) -> String {
    const MOST: usize = 4;
    if item.resolved.is_empty() {
        return item.address.clone();
    }
    let shown: Vec<&str> = item.resolved.iter().take(MOST).map(String::as_str).collect();
    let more = item.resolved.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} ({}{more})", item.address, shown.join(", "))
}

/// Returns what a gateway lacks, and since when its host name cannot be resolved.
fn gateway_reason(item: &GatewayItem) -> String {
    let since = item.failing_millis_ago.map(|millis| format!(" (for {})", age(millis))).unwrap_or_default();
    match (&*item.reason, &*item.failing) {
        (reason, "") => reason.to_owned(),
        ("", failing) => {
            format!("its host name cannot be resolved{since}, the last addresses stay in use: {failing}")
        }
        (reason, _) => format!("{reason}{since}"),
    }
}

fn policies(items: &[PolicyItem], wide: bool) -> Table {
    let heads = ["KIND", "NAMESPACE", "NAME", "STATUS", "HOST", "SELECTOR", "REGISTRY", "CONDITIONS"];
    let mut table = Table::new(&heads, &["POSITION", "VERSION", "CREATED", "FRESHNESS", "MESSAGES"], wide);
    for item in items {
        let labels = |labels: &BTreeMap<String, String>| {
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        };
        let selector = item.selector.as_ref().map_or_else(|| "unknown".to_owned(), labels);
        let all = std::iter::once(&item.code).chain(item.conditions.iter().map(|condition| &condition.code));
        let conditions: Vec<&str> = item.conditions.iter().map(|condition| &*condition.message).collect();
        let conditions = conditions.join("; ");
        let messages = [item.reason.clone(), conditions].into_iter().filter(|text| !text.is_empty());
        let messages = messages.collect::<Vec<_>>().join("; ");
        let is_bad = !item.reason.is_empty() || item.status == "NotServed";
        let status = format!("{}{}", item.status, if item.dry_run { " (dry run)" } else { "" });
        table.row(vec![
            item.kind.clone().into(),
            item.namespace.clone().into(),
            item.name.clone().into(),
            Cell(status, if is_bad { Tone::Bad } else { Tone::Plain }),
            item.host.clone().into(),
            selector.into(),
            item.registry.clone().into(),
            codes(all.map(String::as_str)),
            item.source.position.clone().into(),
            item.source.resource_version.clone().into(),
            item.created.clone().into(),
            freshness(&item.freshness),
            messages.into(),
        ]);
    }
    table
}

fn clients(items: &[ClientItem], wide: bool) -> Table {
    let heads = ["CLIENT", "KIND", "STATE", "TYPES", "CONNECTED", "NOTES"];
    let more = [
        "CONNECTION",
        "AGENT",
        "PEER",
        "PROTOCOL",
        "NAMESPACE",
        "CLUSTER",
        "LOCALITY",
        "IDENTITY",
        "PROOF",
        "SENT",
        "ACKED",
        "NACK",
    ];
    let mut table = Table::new(&heads, &more, wide);
    for item in items {
        let each = |text: &dyn Fn(&crate::document::clients::ClientTypeItem) -> String| -> Cell {
            let texts: Vec<String> = item.types.iter().map(text).filter(|t| !t.is_empty()).collect();
            texts.join("; ").into()
        };
        let tone = match item.state.as_str() {
            "ERROR" => Tone::Bad,
            "STALE" | "NOT SENT" => Tone::Warn,
            _ => Tone::Plain,
        };
        table.row(vec![
            item.id.clone().into(),
            item.kind.clone().into(),
            Cell(item.state.clone(), tone),
            each(&|t| if t.wildcard { format!("{} *", t.kind) } else { format!("{} {}", t.kind, t.names) }),
            age(item.connected_millis).into(),
            item.notes.join("; ").into(),
            item.connection.clone().into(),
            item.agent.clone().into(),
            item.peer.clone().into(),
            item.protocol.clone().into(),
            item.namespace.clone().into(),
            item.cluster.clone().into(),
            item.locality.clone().into(),
            item.identity.clone().into(),
            item.proof.clone().into(),
            each(&|t| format!("{} {}", t.kind, t.sent)),
            each(&|t| format!("{} {}", t.kind, t.acked)),
            each(&|t| if t.nack.is_empty() { String::new() } else { format!("{} {}", t.kind, t.nack) }),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_several_conditions_is_shown_once() {
        let shown = |all: &[&str]| codes(all.iter().copied()).0;
        assert_eq!(shown(&["TRB0412", "TRB0409", "", "TRB0412", "TRB0409"]), "TRB0412,TRB0409");
        assert_eq!(shown(&[""]), "");
    }
}
