//! `tributary diff`: what one client gets and another does not.

use serde_json::Value;

use super::console::one_line;
use super::get::{document, items, parse};
use super::table::Table;
use super::{Console, Server};
use crate::args::{DiffArgs, Output};
use crate::document::{DiffItem, List};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Exit code of clients that differ, as of diff(1).
const DIFFERENT: Exit = Exit::Failed;

/// Compares two clients. Exit codes as diff's: 0 if they hold the same, 1 if they differ, 2 on failure; 4 for an unknown
/// client.
pub async fn run(
    args: &DiffArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let failed = |failure: CommandError| match failure.exit {
        Exit::Failed => CommandError { exit: Exit::Usage, ..failure },
        _ => failure,
    };
    compare(args, env, console).await.map_err(failed)
}

async fn compare(
    args: &DiffArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let query = [
        ("a", Some(args.a.as_str())),
        ("b", Some(args.b.as_str())),
        ("type", args.kind.map(|kind| kind.as_str())),
    ];
    let answer = Server::find(&args.server, env)?.get("/debug/diff", &query).await;
    let body = answer.map_err(|failure| failure.listing("hosts with `tributary get services`"))?;
    let list: List<Value> = parse(&body)?;
    console.data(&render(args, &list, console.color)?)?;
    list.metadata.notes.iter().for_each(|note| console.note(note));
    if list.metadata.remaining > 0 {
        console.note(&format!("{} more are not shown; narrow the list with --type", list.metadata.remaining));
    }
    if list.items.is_empty() && matches!(args.output, Output::Table | Output::Wide) {
        console.note("the clients hold the same resources");
    }
    Ok(if list.items.is_empty() { Exit::Ok } else { DIFFERENT })
}

fn render(args: &DiffArgs, list: &List<Value>, color: bool) -> Result<String, CommandError> {
    match args.output {
        Output::Json | Output::Yaml => document(args.output, list),
        Output::Name => {
            let all: Vec<DiffItem> = items(list)?;
            Ok(all.iter().map(|item| format!("{}/{}\n", item.kind, one_line(&item.name))).collect())
        }
        Output::Table | Output::Wide => {
            let table = table(&items(list)?, args.output == Output::Wide).render(!args.no_headers, color);
            let is_headed = !args.no_headers && !list.items.is_empty();
            let clients =
                if is_headed { format!("a is {}, b is {}\n", args.a, args.b) } else { String::new() };
            Ok(clients + &table)
        }
    }
}

fn table(items: &[DiffItem], wide: bool) -> Table {
    let mut table =
        Table::new(&["TYPE", "NAME", "HELD BY", "WHY"], &["FIELDS", "VERSION A", "VERSION B"], wide);
    for item in items {
        table.row(vec![
            item.kind.clone().into(),
            item.name.clone().into(),
            item.held_by.clone().into(),
            item.why.join(", ").into(),
            item.fields.join(", ").into(),
            item.a.clone().into(),
            item.b.clone().into(),
        ]);
    }
    table
}
