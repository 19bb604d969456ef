//! `tributary state`: shows the kept state, checks or clears a directory, and ends facts that are gone for
//! good.
//!
//! `show`, `end` and `accept` send requests to the running server, which holds its directory. `show` reads a
//! directory itself if no server answers; `verify` and `clear` always do, and fail while a server holds it.

use std::path::{Path, PathBuf};

use tributary_journal::inspect::{self, InspectError};
use tributary_journal::{DirectoryError, Now};
use tributary_model::{Code, Mono, Timestamp};

use super::get::{document, parse};
use super::table::{Cell, Table, Tone, age};
use super::{Console, Server};
use crate::args::{Output, StateAcceptArgs, StateCommand, StateDirectoryArgs, StateEndArgs, StateShowArgs};
use crate::document::List;
use crate::document::state::{EndItem, Part, StateDocument, StateItem, StateListItem};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::ops::state::of_directory;
use crate::wiring::journal::choose;

/// Runs the command.
pub async fn run(
    command: &StateCommand,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    match command {
        StateCommand::Show(args) => show(args, env, console).await,
        StateCommand::Verify(args) => verify(args, env, console).await,
        StateCommand::Clear(args) => clear(args, env, console).await,
        StateCommand::End(args) => end(args, env, console).await,
        StateCommand::Accept(args) => accept(args, env, console).await,
    }
}

async fn show(
    args: &StateShowArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let answer = Server::find(&args.server, env)?.get("/debug/state", &[]).await;
    let state: StateDocument = match (answer, &args.state_dir) {
        (Ok(body), _) => parse(&body)?,
        (Err(failure), Some(path)) if failure.code == Some(Code::SERVER_UNREACHABLE) => {
            read(path).await?.map_err(|error| failed(path, error))?.0
        }
        (Err(failure), _) => return Err(failure),
    };
    write(&state, args.output, console)?;
    Ok(if state.fault.is_empty() { Exit::Ok } else { Exit::No })
}

async fn verify(
    args: &StateDirectoryArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let path = directory(args, env);
    let (state, is_sound) = match read(&path).await? {
        Ok(read) => read,
        Err(error) if error.is_damage() => {
            console.note(&format!("a restart would restore nothing: {}: {error}", path.display()));
            return Ok(Exit::No);
        }
        Err(error) => return Err(failed(&path, error)),
    };
    write(&state, args.output, console)?;
    console.note(if is_sound { "every record is valid" } else { "a restart would not restore everything" });
    Ok(if is_sound { Exit::Ok } else { Exit::No })
}

async fn clear(
    args: &StateDirectoryArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let path = directory(args, env);
    let clearing = path.clone();
    let files = beside(move || inspect::clear(&clearing)).await?.map_err(|error| failed(&path, error))?;
    if matches!(args.output, Output::Json | Output::Yaml) {
        console.data(&document(args.output, &files)?)?;
    } else {
        console.data(&files.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    }
    if files.is_empty() {
        console.note("no state was kept");
    }
    Ok(Exit::Ok)
}

async fn end(
    args: &StateEndArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if let Err(why) = args.part.parse::<Part>() {
        let message = format!("`{}` is not REGISTRY[/SCOPE[/KIND]]: {why}", args.part);
        let failure = CommandError::new(Exit::Usage, Code::FLAG_INVALID, message);
        return Err(failure.next("list registries, scopes and kinds with `tributary state show`"));
    }
    let server = Server::find(&args.server, env)?;
    let query = [("part", Some(args.part.as_str()))];
    let body = if args.yes {
        server.post("/debug/state/end", &query).await
    } else {
        server.get("/debug/state/plan", &query).await
    };
    let body = body.map_err(hint)?;
    let ended: List<EndItem> = parse(&body)?;
    match args.output {
        Output::Json | Output::Yaml => console.data(&document(args.output, &ended)?)?,
        Output::Name => console.data(&ended.items.iter().map(name).collect::<String>())?,
        Output::Table | Output::Wide => console.data(&plan(&ended.items).render(true, console.color))?,
    }
    if ended.items.is_empty() {
        let message = format!("no facts of `{}` are served", args.part);
        return Err(hint(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message)));
    }
    let live = ended.items.iter().any(|item| item.live);
    if live {
        console.note("a source confirms some of these facts now: they return with its next list");
    }
    if !args.yes {
        console.note("nothing was changed; add --yes to end them");
    }
    Ok(Exit::Ok)
}

fn hint(failure: CommandError) -> CommandError {
    match failure.exit {
        Exit::NotFound => failure.next("list the kept state with `tributary state show`"),
        _ => failure,
    }
}

fn name(item: &EndItem) -> String {
    format!("{}/{}/{}\n", item.registry, item.scope, item.kind)
}

fn plan(items: &[EndItem]) -> Table {
    let mut table = Table::new(&["REGISTRY", "SCOPE", "KIND", "FACTS", "CONFIRMED NOW"], &[], false);
    for item in items {
        let live = if item.live { "yes" } else { "no" };
        let tone = if item.live { Tone::Warn } else { Tone::Plain };
        table.row(vec![
            item.registry.clone().into(),
            item.scope.clone().into(),
            item.kind.clone().into(),
            item.facts.into(),
            Cell(live.to_owned(), tone),
        ]);
    }
    table
}

async fn accept(
    args: &StateAcceptArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let query = [("registry", Some(args.registry.as_str()))];
    let answer = Server::find(&args.server, env)?.post("/debug/state/accept", &query).await;
    answer.map_err(hint)?;
    console.data(&format!("accepted: the next run of registry {} will serve\n", args.registry))?;
    Ok(Exit::Ok)
}

/// Returns the directory that `serve` would choose.
fn directory(args: &StateDirectoryArgs, env: &Environment) -> PathBuf {
    let of_variable = || env.get("TRIBUTARY_STATE_DIR").map(PathBuf::from);
    choose(args.state_dir.clone().or_else(of_variable), env).path
}

/// Returns a directory's content, and whether a restart would restore all of it.
async fn read(path: &Path) -> Result<Result<(StateDocument, bool), InspectError>, CommandError> {
    let now = Now { mono: Mono::START, wall: Timestamp::now() };
    let reading = path.to_owned();
    let report = beside(move || inspect::show(&reading, now)).await?;
    Ok(report.map(|report| (of_directory(path, &report, now), report.is_sound())))
}

/// Runs disk I/O on a blocking thread.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CommandError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| CommandError::plain(format!("reading the state directory failed: {error}")))
}

fn failed(path: &Path, error: InspectError) -> CommandError {
    let message = format!("{}: {error}", path.display());
    match error {
        InspectError::Empty => CommandError::new(Exit::NotFound, Code::NOT_FOUND, message)
            .next("name a server's directory with --state-dir"),
        InspectError::Directory(DirectoryError::Held { .. }) => {
            CommandError::new(Exit::Failed, Code::STATE_UNUSABLE, message)
                .next("run `tributary state show` against that server, or stop it")
        }
        InspectError::Directory(_) | InspectError::Store(_) => {
            CommandError::new(Exit::Failed, Code::STATE_UNUSABLE, message)
        }
    }
}

fn write(state: &StateDocument, output: Output, console: &mut Console<'_>) -> Result<(), CommandError> {
    match output {
        Output::Json | Output::Yaml => console.data(&document(output, state)?),
        Output::Name => {
            console.data(&state.registries.iter().map(|item| format!("{}\n", item.name)).collect::<String>())
        }
        Output::Table | Output::Wide => {
            console.data(&format!("{}\n", summary(state)))?;
            console.data(&table(state, output == Output::Wide).render(true, console.color))?;
            for name in &state.set_aside {
                console.note(&format!("set aside as unusable: {name}"));
            }
            Ok(())
        }
    }
}

/// Summarizes directory, size and age in one line.
fn summary(state: &StateDocument) -> String {
    let place = if state.directory.is_empty() { "no directory" } else { &state.directory };
    let Some(journal) = &state.journal else {
        let why = if state.fault.is_empty() { "disabled" } else { &state.fault };
        return format!("{place}: state is not kept: {why}");
    };
    let mut out = format!("{place}: {} bytes, {} in use", journal.bytes, journal.live_bytes);
    if let Some(millis) = journal.last_commit_millis_ago {
        out.push_str(&format!(", written {} ago", age(millis)));
    }
    if journal.pending_keys > 0 {
        out.push_str(&format!(", {} changes not written yet", journal.pending_keys));
    }
    if !journal.last_error.is_empty() {
        out.push_str(&format!("; last error: {}", journal.last_error));
    }
    if !state.fault.is_empty() {
        out.push_str(&format!("; {}", state.fault));
    }
    out
}

fn table(state: &StateDocument, wide: bool) -> Table {
    let heads = ["REGISTRY", "SCOPE", "KIND", "FACTS", "CONFIRMED", "REMEMBERED"];
    let mut table = Table::new(&heads, &["FRESHNESS", "IDENTITY"], wide);
    for item in &state.registries {
        for list in &item.lists {
            table.row(row(item, list));
        }
        if item.lists.is_empty() {
            table.row(row(item, &StateListItem::default()));
        }
    }
    table
}

fn row(item: &StateItem, list: &StateListItem) -> Vec<Cell> {
    vec![
        item.name.clone().into(),
        list.scope.clone().into(),
        list.kind.clone().into(),
        list.facts.into(),
        list.confirmed_millis_ago.map(age).unwrap_or_default().into(),
        remembered(item, list.never_read),
        list.freshness.clone().into(),
        item.identity.clone().into(),
    ]
}

/// Describes whether a restart would restore a registry, and why its next run does not serve. What was never read is unknown,
/// also after a restart.
fn remembered(item: &StateItem, never_read: bool) -> Cell {
    let (mut text, mut tone) = match item.whole {
        true if never_read => ("never read".to_owned(), Tone::Warn),
        true => ("whole".to_owned(), Tone::Plain),
        false => (format!("not whole: {}", item.reason), Tone::Bad),
    };
    if !item.waits_for.is_empty() {
        text.push_str(&format!("; its next run does not serve: {}", item.waits_for));
        tone = if item.whole { Tone::Warn } else { tone };
    }
    Cell(text, tone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::state::JournalItem;

    #[test]
    fn summary_names_the_directory_or_why_state_is_not_kept() {
        let state = |fault: &str, journal| StateDocument {
            directory: "/d".into(),
            fault: fault.into(),
            journal,
            ..StateDocument::default()
        };
        let journal = JournalItem { bytes: 9, live_bytes: 4, ..JournalItem::default() };
        assert_eq!(summary(&state("", Some(journal.clone()))), "/d: 9 bytes, 4 in use");
        let deleted = summary(&state("it was deleted", Some(journal)));
        assert_eq!(deleted, "/d: 9 bytes, 4 in use; it was deleted");
        assert_eq!(summary(&state("read-only", None)), "/d: state is not kept: read-only");
        assert!(summary(&StateDocument::default()).ends_with("disabled"));
    }

    #[test]
    fn what_was_never_read_is_not_called_whole() {
        let item = |whole, reason: &str| StateItem { whole, reason: reason.into(), ..StateItem::default() };
        assert_eq!(remembered(&item(true, ""), false).0, "whole");
        assert_eq!(remembered(&item(true, ""), true).0, "never read");
        assert_eq!(remembered(&item(false, "x"), true).0, "not whole: x");
    }
}
