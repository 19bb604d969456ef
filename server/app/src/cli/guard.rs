//! `tributary guard`: lists held removals and releases one.

use super::get::{document, parse};
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

async fn release(
    args: &GuardReleaseArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let server = Server::find(&args.server, env)?;
    let body = server.post("/debug/guard/release", &[("id", Some(args.id.as_str()))]).await;
    let body = body.map_err(|failure| match failure.exit {
        Exit::NotFound => failure.next("list held removals with `tributary guard list`"),
        _ => failure,
    })?;
    let released: List<HeldItem> = parse(&body)?;
    for item in &released.items {
        console.data(&format!("released: {} of registry {}\n", item.what, item.registry))?;
    }
    Ok(conclude(&released.metadata, Exit::Ok, console))
}
