//! `tributary guard`: lists held removals and releases one.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use reqwest::Method;

use super::get::{document, parse};
use super::http::of_server;
use super::server::conclude;
use super::table::{Table, age};
use super::{Console, Server};
use crate::args::{GuardCommand, GuardListArgs, GuardReleaseArgs, Output};
use crate::document::{HeldItem, List};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Runs the command.
pub async fn run(
    command: &GuardCommand,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    match command {
        GuardCommand::List(args) => list(args, env, console).await,
        GuardCommand::Release(args) => release(args, env, console).await,
    }
}

async fn list(
    args: &GuardListArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let query = [("registry", args.registry.as_deref())];
    let body = Server::find(&args.server, env)?.get("/debug/guard", &query).await?;
    let held: List<HeldItem> = parse(&body)?;
    match args.output {
        Output::Json | Output::Yaml => console.data(&document(args.output, &held)?)?,
        Output::Name => {
            console.data(&held.items.iter().map(|i| format!("{}\n", i.id)).collect::<String>())?
        }
        Output::Table | Output::Wide => {
            let table = table(&held.items, args.output == Output::Wide);
            console.data(&table.render(!args.no_headers, console.color))?;
        }
    }
    if held.items.is_empty() {
        console.note("no removals are held");
    }
    if held.metadata.remaining > 0 {
        console.note(&format!("{} more are not shown: narrow with --registry", held.metadata.remaining));
    }
    Ok(conclude(&held.metadata, Exit::Ok, console))
}

fn table(items: &[HeldItem], wide: bool) -> Table {
    let mut table =
        Table::new(&["ID", "REGISTRY", "HELD", "WHAT", "WHY"], &["SCOPE", "CONFIRM ATTEMPTS"], wide);
    for item in items {
        table.row(vec![
            item.id.clone().into(),
            item.registry.clone().into(),
            age(item.since_millis_ago).into(),
            item.what.clone().into(),
            item.reason.clone().into(),
            item.scope.clone().into(),
            item.confirm_attempts.into(),
        ]);
    }
    table
}

/// Releases the removal on every replica that holds it. One that does not answer is reported, and keeps none of the others from it.
async fn release(
    args: &GuardReleaseArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let replicas = Server::replicas(&args.server, env).await?;
    let answers = join_all(replicas.iter().map(|replica| release_on(replica, &args.id).boxed())).await;
    let several = replicas.len() > 1;
    let (mut released, mut unknown, mut silent) = (0, None, Vec::new());
    for (replica, answer) in replicas.iter().map(Server::url).zip(answers) {
        match answer {
            Ok(items) => {
                let on = if several { format!(" on {replica}") } else { String::new() };
                for item in &items {
                    console.data(&format!("released: {} of registry {}{on}\n", item.what, item.registry))?;
                }
                released += 1;
            }
            Err(failure) if failure.exit == Exit::NotFound => unknown = Some(failure),
            Err(failure) if several => {
                console.silent(&replica, &failure);
                silent.push(of_server(failure, &replica));
            }
            Err(failure) => return Err(of_server(failure, &replica)),
        }
    }
    match (released, unknown, silent.into_iter().next()) {
        (0, None, Some(failure)) => Err(failure),
        // a replica that is silent may hold it
        (_, _, Some(_)) => Ok(Exit::Partial),
        (0, Some(failure), None) => Err(failure.next("list held removals with `tributary guard list`")),
        (_, _, None) => Ok(Exit::Ok),
    }
}

async fn release_on(replica: &Server, id: &str) -> Result<Vec<HeldItem>, CommandError> {
    let query = [("id", Some(id))];
    let body = replica.exchange((Method::POST, Duration::ZERO), "/debug/guard/release", &query).await?;
    Ok(parse::<List<HeldItem>>(&body)?.items)
}
