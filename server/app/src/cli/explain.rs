//! `tributary explain` and `why-not`: the decisions, in the order of the way.

use super::get::{document, parse};
use super::table::{Tone, paint};
use super::{Console, Server};
use crate::args::{ExplainArgs, Output, WhyNotArgs};
use crate::document::{ExplainItem, List};
use crate::environment::Environment;
use crate::exit::{Exit, Failure};

/// How an endpoint came to be served. Exit 3 when no candidate is.
pub async fn explain(
    args: &ExplainArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let query = [
        ("endpoint", Some(args.endpoint.as_str())),
        ("host", args.host.as_deref()),
        ("client", args.for_client.as_deref()),
    ];
    let body = Server::find(&args.server, env)?.get("/debug/explain", &query).await?;
    show(&parse(&body)?, args.output, console)
}

/// Why a client is not given a host's endpoints. Exit 3 when it is given none, 0 when it is.
pub async fn why_not(
    args: &WhyNotArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let query = [("host", Some(args.host.as_str())), ("client", Some(args.from_client.as_str()))];
    let body = Server::find(&args.server, env)?.get("/debug/why-not", &query).await?;
    show(&parse(&body)?, args.output, console)
}

fn show(list: &List<ExplainItem>, output: Output, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let text = match output {
        Output::Json | Output::Yaml => document(output, list)?,
        Output::Name => list.items.iter().map(|item| format!("{}\n", item.endpoint)).collect(),
        Output::Table | Output::Wide => prose(&list.items, output == Output::Wide, console.color),
    };
    console.data(&text)?;
    if list.metadata.partial {
        console
            .say("something may be missing: a registry has not synced yet, see `tributary get registries`");
    }
    let served = list.items.iter().any(ExplainItem::is_served);
    Ok(if served { Exit::Ok } else { Exit::No })
}

fn prose(items: &[ExplainItem], wide: bool, color: bool) -> String {
    let mut out = String::new();
    for item in items {
        let tone = if item.is_served() { Tone::Plain } else { Tone::Bad };
        let verdict = paint(&item.verdict, tone, color);
        let endpoint = if item.endpoint.is_empty() { "-" } else { &item.endpoint };
        out.push_str(&format!("{endpoint}  {verdict}  service {}", item.service));
        if !item.client.is_empty() {
            out.push_str(&format!("  for {}", item.client));
        }
        out.push('\n');
        for step in &item.steps {
            let tone = match step.verdict.as_str() {
                "drop" => Tone::Bad,
                "warn" => Tone::Warn,
                _ => Tone::Plain,
            };
            let word = paint(&format!("{:<4}", step.verdict.to_uppercase()), tone, color);
            out.push_str(&format!("  {:<8} {word} {}  {}\n", step.stage, step.code, line(step, wide)));
        }
    }
    out.chars()
        .map(|c| if c.is_control() && c != '\n' && !(color && c == '\u{1b}') { ' ' } else { c })
        .collect()
}

fn line(step: &crate::document::StepItem, wide: bool) -> String {
    let mut out = step.detail.clone();
    if !step.registry.is_empty() {
        out.push_str(&format!("  [{}]", step.registry));
    }
    if let Some(object) = &step.object {
        out.push_str(&format!("  {object}"));
        if wide && !object.place.is_empty() {
            out.push_str(&format!(" ({})", object.place));
        }
    }
    out
}
