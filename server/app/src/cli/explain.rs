//! `tributary explain` and `why-not`: decisions in pipeline order.

use jiff::Timestamp;
use serde_json::Value;

use super::console::one_line;
use super::get::{document, parse};
use super::server::conclude;
use super::table::{Tone, age, paint};
use super::{Console, Server};
use crate::args::{ExplainArgs, Output, WhyNotArgs};
use crate::document::explain::{ReasonItem, StepItem, StepObject};
use crate::document::{ExplainItem, List, Metadata, WhyNotItem};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// Explains how an endpoint came to be served. Exit 3 if no candidate is served, 4 if no source lists it.
pub async fn explain(
    args: &ExplainArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    has_no_names(args.output)?;
    let query = [
        ("endpoint", Some(args.endpoint.as_str())),
        ("host", args.host.as_deref()),
        ("subset", args.subset.as_deref()),
        ("client", args.for_client.as_deref()),
    ];
    let answer = Server::find(&args.server, env)?.get("/debug/explain", &query).await;
    let body = answer.map_err(|failure| failure.listing("endpoints with `tributary get endpoints`"))?;
    show(&body, args.output, console)
}

/// Explains why a client does not receive a host's endpoints. Exit 3 if it receives none and needs some, or if nothing leads
/// it to them, else 0.
pub async fn why_not(
    args: &WhyNotArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    has_no_names(args.output)?;
    if args.host.trim().is_empty() {
        let error = CommandError::new(Exit::Usage, Code::FLAG_INVALID, "`why-not` needs a host");
        return Err(error.next("list hosts with `tributary get services`"));
    }
    let query = [
        ("host", Some(args.host.as_str())),
        ("subset", args.subset.as_deref()),
        ("client", Some(args.for_client.as_str())),
    ];
    let answer = Server::find(&args.server, env)?.get("/debug/why-not", &query).await;
    let body = answer.map_err(|failure| failure.listing("hosts with `tributary get services`"))?;
    show_why_not(&body, args.output, console)
}

/// Refuses `-o name`: an explanation has no name.
fn has_no_names(output: Output) -> Result<(), CommandError> {
    if output != Output::Name {
        return Ok(());
    }
    let error = CommandError::new(
        Exit::Usage,
        Code::FLAG_INVALID,
        "-o name is for lists; an explanation has no name",
    );
    Err(error.next("use `-o json` in scripts"))
}

fn show(body: &[u8], output: Output, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let list: List<ExplainItem> = parse(body)?;
    let (color, wide) = (console.color, output == Output::Wide);
    let as_of = list.metadata.as_of.as_str();
    let text = || list.items.iter().map(|item| prose(item, (wide, as_of), color)).collect();
    write(body, &list.metadata, output, console, text)?;
    let exit = explained(&list);
    Ok(conclude(&list.metadata, exit, console))
}

fn explained(list: &List<ExplainItem>) -> Exit {
    let is_gateway =
        |item: &ExplainItem| item.steps.iter().any(|step| step.code == Code::GATEWAY.to_string());
    let listed = list.items.iter().any(|item| item.service.is_some() || is_gateway(item));
    let served = list.items.iter().any(ExplainItem::is_served);
    match (listed, served) {
        (false, _) => Exit::NotFound,
        (true, true) => Exit::Ok,
        (true, false) => Exit::No,
    }
}

fn show_why_not(body: &[u8], output: Output, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let list: List<WhyNotItem> = parse(body)?;
    let (color, wide) = (console.color, output == Output::Wide);
    let as_of = list.metadata.as_of.as_str();
    let text = || list.items.iter().map(|item| reasons(item, (wide, as_of), color)).collect();
    write(body, &list.metadata, output, console, text)?;
    let served = list.items.iter().any(WhyNotItem::is_served);
    Ok(conclude(&list.metadata, if served { Exit::Ok } else { Exit::No }, console))
}

/// Writes the answer. JSON and YAML keep fields that this version does not know.
fn write(
    body: &[u8],
    metadata: &Metadata,
    output: Output,
    console: &mut Console<'_>,
    prose: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    let text = match output {
        Output::Json | Output::Yaml => document(output, &parse::<List<Value>>(body)?)?,
        Output::Table | Output::Wide | Output::Name => prose(),
    };
    console.data(&text)?;
    metadata.notes.iter().for_each(|note| console.note(note));
    if metadata.partial && metadata.silent.is_empty() {
        console
            .note("the answer may be incomplete: a registry has not synced; see `tributary get registries`");
    }
    Ok(())
}

/// Whether positions are shown, and the time of the answer, by which ages are computed.
type Shown<'a> = (bool, &'a str);

fn prose(item: &ExplainItem, shown: Shown<'_>, color: bool) -> String {
    let tone = if item.is_served() { Tone::Plain } else { Tone::Bad };
    let mut out = format!("{}  {}", one_line(&item.endpoint), paint(&item.verdict, tone, color));
    if let Some(service) = &item.service {
        out.push_str(&format!("  service {}", one_line(service)));
    }
    if let Some(client) = &item.client {
        out.push_str(&format!("  for {}", one_line(client)));
    }
    out.push_str(&on(&item.replicas));
    out.push('\n');
    item.steps.iter().for_each(|one| step(one, shown, color, &mut out));
    out
}

/// Returns the time between two timestamps as people read it; `None` unless both are.
fn between(from: &str, to: &str) -> Option<String> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    Some(age(u64::try_from(to.duration_since(from).as_millis()).unwrap_or_default()))
}

/// Returns a detail with the age of its confirmation, or of its wait.
fn aged(detail: &str, confirmed: Option<&str>, since: Option<&str>, as_of: &str) -> String {
    let confirmed = confirmed.and_then(|at| between(at, as_of)).map(|age| format!(", confirmed {age} ago"));
    let since = since.and_then(|at| between(at, as_of)).map(|age| format!(", for {age}"));
    one_line(&format!("{detail}{}{}", confirmed.unwrap_or_default(), since.unwrap_or_default()))
}

fn step(step: &StepItem, (wide, as_of): Shown<'_>, color: bool, out: &mut String) {
    let tone = match step.verdict.as_str() {
        "drop" => Tone::Bad,
        "warn" => Tone::Warn,
        _ => Tone::Plain,
    };
    let verdict = paint(&format!("{:<4}", step.verdict.to_uppercase()), tone, color);
    let object = step.object.as_ref().map(|object| source(object, wide)).unwrap_or_default();
    let detail = aged(&step.detail, step.confirmed_at.as_deref(), step.since.as_deref(), as_of);
    out.push_str(&format!("  {:<10} {verdict} {}  {detail}{object}\n", step.stage, step.code));
}

fn reasons(item: &WhyNotItem, shown: Shown<'_>, color: bool) -> String {
    let tone = if item.is_served() { Tone::Plain } else { Tone::Bad };
    let noun = if item.served == 1 { "endpoint" } else { "endpoints" };
    let text = match item.served {
        0 if item.unreached => "served without endpoints, but not reached".to_owned(),
        0 if item.any_destination => "served without endpoints".to_owned(),
        0 if has_rejection(item) => "not served: the client rejected what it was sent".to_owned(),
        count if item.unreached => format!("{count} {noun} served, but not reached"),
        count => format!("{count} {noun} served"),
    };
    let served = paint(&text, tone, color);
    let service = item.service.as_deref().map(|s| format!("  service {}", one_line(s))).unwrap_or_default();
    let (host, client) = (one_line(&item.host), one_line(&item.client));
    let mut out = format!("{host}  {served}{service}  for {client}{}\n", on(&item.replicas));
    item.reached.iter().for_each(|one| step(one, shown, color, &mut out));
    item.reasons.iter().for_each(|one| reason(one, "dropped", shown, &mut out));
    item.held.iter().for_each(|one| reason(one, "held", shown, &mut out));
    out
}

/// Names the replicas that give an item which others do not.
fn on(replicas: &[String]) -> String {
    if replicas.is_empty() { String::new() } else { format!("  on {}", replicas.join(", ")) }
}

/// Whether the client rejected a resource; the reason has its text.
fn has_rejection(item: &WhyNotItem) -> bool {
    item.reasons.iter().any(|reason| reason.code == Code::NACKED.to_string())
}

/// Rules about something that does not exist, so that they exclude nothing that could be counted.
const NOTHING_EXISTS: [Code; 8] = [
    Code::NO_SUCH_HOST,
    Code::NO_SUCH_PORT,
    Code::NO_SUCH_SUBSET,
    Code::NO_ENDPOINTS,
    Code::ALIAS_LOOP,
    Code::UDP_NOT_SERVED,
    Code::REMOVED_BY_SOURCE,
    Code::FEDERATED_MEMBER_MISSING,
];

fn reason(reason: &ReasonItem, outcome: &str, (wide, as_of): Shown<'_>, out: &mut String) {
    let count = match NOTHING_EXISTS.iter().any(|code| code.to_string() == reason.code) {
        true => String::new(),
        false => format!(": {} {outcome}", reason.count),
    };
    out.push_str(&format!("  {:<10} {} {}{count}\n", reason.stage, reason.code, reason.title));
    for dropped in &reason.dropped {
        let object = dropped.object.as_ref().map(|object| source(object, wide)).unwrap_or_default();
        let space = if dropped.endpoint.is_empty() { "" } else { "  " };
        let detail = aged(&dropped.detail, None, dropped.since.as_deref(), as_of);
        let endpoint = one_line(&dropped.endpoint);
        out.push_str(&format!("             {endpoint}{space}{detail}{object}\n"));
    }
    if reason.count > reason.dropped.len() {
        out.push_str(&format!("             and {} more\n", reason.count - reason.dropped.len()));
    }
    if reason.next != "nothing" {
        out.push_str(&format!("             next: {}\n", reason.next));
    }
}

fn source(object: &StepObject, wide: bool) -> String {
    let registry = object.registry.as_deref().unwrap_or_default();
    if object.name.is_empty() {
        return format!("  [{registry}]");
    }
    let registry = if registry.is_empty() { String::new() } else { format!("{registry}: ") };
    let place =
        if wide && !object.position.is_empty() { format!(" ({})", object.position) } else { String::new() };
    one_line(&format!("  [{registry}{object}{place}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::explain::RefusedItem;

    fn mk_reason(code: Code) -> ReasonItem {
        ReasonItem {
            stage: "merge".into(),
            code: code.to_string(),
            title: "a rule".into(),
            next: "nothing".into(),
            count: 1,
            dropped: Vec::new(),
        }
    }

    #[test]
    fn what_does_not_exist_is_not_counted() {
        let shown = |code, count| {
            let mut out = String::new();
            let dropped = vec![RefusedItem { detail: "it is".into(), ..RefusedItem::default() }];
            reason(&ReasonItem { count, dropped, ..mk_reason(code) }, "dropped", (false, ""), &mut out);
            out
        };
        let detail = "             it is\n";
        assert_eq!(shown(Code::NO_SUCH_PORT, 1), format!("  merge      TRB0525 a rule\n{detail}"));
        assert_eq!(shown(Code::NOT_IMPORTED, 1), format!("  merge      TRB0530 a rule: 1 dropped\n{detail}"));
        let more = format!("  merge      TRB0530 a rule: 3 dropped\n{detail}             and 2 more\n");
        assert_eq!(shown(Code::NOT_IMPORTED, 3), more);
    }

    #[test]
    fn name_with_a_line_end_makes_no_line() {
        let object =
            StepObject { kind: "Pod".into(), name: "a\n  deliver    PASS".into(), ..StepObject::default() };
        let item = StepItem {
            stage: "source".into(),
            verdict: "drop".into(),
            detail: "a client\n  deliver    PASS".into(),
            object: Some(object.clone()),
            ..StepItem::default()
        };
        let (client, endpoint) = (Some("c\nx".into()), "10.0.0.1:80\nx".into());
        let explained = ExplainItem { endpoint, client, steps: vec![item], ..ExplainItem::default() };
        assert_eq!(prose(&explained, (true, ""), false).lines().count(), 2);
        let dropped = RefusedItem {
            endpoint: "e\nx".into(),
            detail: "d\nx".into(),
            object: Some(object),
            ..RefusedItem::default()
        };
        let reasons = vec![ReasonItem { dropped: vec![dropped], ..mk_reason(Code::NOT_IMPORTED) }];
        let (host, client) = ("h\nx".into(), "c\nx".into());
        let missing = WhyNotItem { host, client, reasons, ..WhyNotItem::default() };
        assert_eq!(super::reasons(&missing, (true, ""), false).lines().count(), 3);
    }

    #[test]
    fn age_is_that_at_the_time_of_the_answer() {
        let (at, now) = ("2026-01-01T10:00:00.000Z", "2026-01-01T10:00:06.500Z");
        assert_eq!(aged("listed", Some(at), None, now), "listed, confirmed 6s ago");
        assert_eq!(aged("waits", None, Some(at), now), "waits, for 6s");
        assert_eq!(
            aged("listed", Some(now), None, at),
            "listed, confirmed 0ms ago",
            "of a clock that is ahead"
        );
        assert_eq!(aged("listed", Some("x"), None, now), "listed");
    }

    #[test]
    fn source_without_an_object_is_its_registry() {
        let object = |name: &str| StepObject {
            registry: Some("east".into()),
            kind: if name.is_empty() { String::new() } else { "Pod".into() },
            namespace: String::new(),
            name: name.into(),
            position: String::new(),
        };
        assert_eq!(source(&object(""), true), "  [east]");
        assert_eq!(source(&object("a"), true), "  [east: Pod a]");
    }
}
