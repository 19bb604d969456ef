//! `tributary check`: judges a running installation, or what an installation needs before it runs.
//!
//! [`read`] requests the documents of each replica, [`before`] collects facts on this machine, `crate::check` judges them and
//! [`shown`] draws the result. The command ends with 7 if a replica is silent, else with 3 if a finding counts.

mod before;
pub(super) mod read;
mod shown;

use std::time::Duration;

use jiff::Timestamp;

use super::get::document;
use super::{Console, Server};
use crate::args::{CheckArgs, DocumentOutput, Output, ServeArgs};
use crate::check::{self, CheckItem, Documents, Severity};
use crate::document::{List, Metadata, timestamp};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Pause between two rounds of `--wait`.
const PACE: Duration = Duration::from_secs(1);

/// One round of checks.
struct Round {
    items: Vec<CheckItem>,
    metadata: Metadata,
    /// Exit code of what could not be requested.
    refused: Option<Exit>,
}

/// Runs the command.
pub async fn run(
    args: &CheckArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let end = args.wait.map(|wait| tokio::time::Instant::now() + wait.get());
    loop {
        let round = match args.before {
            true => facts(args, env).await,
            // pods come and go while it waits
            false => documents(args, &servers(args, env).await?).await,
        };
        let is_healthy = round.refused.is_none() && count(&round.items, Severity::Error) == 0;
        let next = tokio::time::Instant::now() + PACE;
        let is_over = end.is_some_and(|end| next >= end);
        if end.is_none() || is_healthy || is_over {
            show(args, &round, console)?;
            return Ok(if is_over && !is_healthy { Exit::TimedOut } else { conclude(args, &round) });
        }
        tokio::time::sleep_until(next).await;
    }
}

async fn servers(args: &CheckArgs, env: &Environment) -> Result<Vec<Server>, CommandError> {
    // flags of `serve` would have no effect
    if args.serve != ServeArgs::default() {
        return Err(CommandError {
            exit: Exit::Usage,
            ..CommandError::plain("flags of `serve` need --before")
        }
        .next("add --before to check what `serve` needs, or leave them out to check a running server"));
    }
    Server::replicas(&args.server, env).await
}

async fn facts(args: &CheckArgs, env: &Environment) -> Round {
    let found = before::collect(&args.serve, env).await;
    let metadata = Metadata { as_of: timestamp(found.now), ..Metadata::default() };
    Round { items: check::before::judge(&found), metadata, refused: None }
}

async fn documents(args: &CheckArgs, servers: &[Server]) -> Round {
    let all = read::all(servers, args.connect).await;
    let refused = refused(&all);
    let documents: Vec<Documents> = all.into_iter().map(|one| one.documents).collect();
    let observed_from = documents.iter().filter(|one| one.silent.is_none()).map(|one| one.server.clone());
    let metadata = Metadata {
        observed_from: observed_from.collect(),
        partial: documents.iter().any(|one| one.silent.is_some()),
        as_of: timestamp(Timestamp::now()),
        ..Metadata::default()
    };
    Round { items: check::merge(&documents), metadata, refused }
}

/// Returns the exit code of servers that did not answer: refused, or some of several silent. One server alone that is silent is an
/// error of its check.
fn refused(all: &[read::Answer]) -> Option<Exit> {
    if all.iter().any(|one| one.exit == Some(Exit::NotAuthorised)) {
        return Some(Exit::NotAuthorised);
    }
    let silent = all.iter().filter(|one| one.exit.is_some()).count();
    (all.len() > 1 && silent > 0).then_some(Exit::Partial)
}

fn count(items: &[CheckItem], severity: Severity) -> usize {
    items.iter().map(|item| item.count(severity)).sum()
}

fn conclude(args: &CheckArgs, round: &Round) -> Exit {
    if let Some(exit) = round.refused {
        return exit;
    }
    let severities = [Severity::Error, Severity::Warning].into_iter().filter(|one| args.fail_on.counts(*one));
    let counted: usize = severities.map(|severity| count(&round.items, severity)).sum();
    if counted > 0 { Exit::No } else { Exit::Ok }
}

fn show(args: &CheckArgs, round: &Round, console: &mut Console<'_>) -> Result<(), CommandError> {
    let list = || List::new("CheckList", round.items.clone(), round.metadata.clone(), usize::MAX);
    let text = match args.output {
        DocumentOutput::Json => document(Output::Json, &list())?,
        DocumentOutput::Yaml => document(Output::Yaml, &list())?,
        DocumentOutput::Table => shown::text(&round.items, console.color),
    };
    console.data(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(exit: Option<Exit>) -> read::Answer {
        read::Answer { documents: Documents::default(), exit }
    }

    #[test]
    fn silent_replica_is_partial_and_a_silent_server_is_not() {
        let silent = || answer(Some(Exit::Failed));
        assert_eq!(refused(&[silent()]), None);
        assert_eq!(refused(&[answer(None), silent()]), Some(Exit::Partial));
        assert_eq!(refused(&[answer(None), answer(Some(Exit::NotAuthorised))]), Some(Exit::NotAuthorised));
        assert_eq!(refused(&[answer(None), answer(None)]), None);
    }
}
