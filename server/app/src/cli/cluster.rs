//! `tributary cluster`: checks kubeconfigs of remote clusters before a server reads them; needs no server.
//!
//! `tributary_remote` decides; this module reads files and draws. Nothing that it prints holds a credential.

use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use tributary_model::Code;
use tributary_registry_api::Credential;
use tributary_remote::{MAX_FILE_BYTES, read_file};

use super::Console;
use super::get::document;
use super::table::{Cell, Table, Tone, age};
use crate::args::{ClusterCheckArgs, ClusterCommand, Output};
use crate::document::{CheckedCluster, List, Metadata, Verdict, timestamp};
use crate::exit::{CommandError, Exit};

/// Runs the command.
pub fn run(command: &ClusterCommand, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    match command {
        ClusterCommand::Check(args) => check(args, console),
    }
}

/// Checks every cluster of the files. Ends with 3 if one is not accepted.
fn check(args: &ClusterCheckArgs, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let (allowed, now) = (args.allowed(), Timestamp::now());
    let mut all = Vec::new();
    for path in &args.files {
        let (bytes, file) = (read(path)?, path.display().to_string());
        let found = read_file(bytes.expose(), &name(path), &allowed);
        all.extend(found.into_iter().map(|declared| CheckedCluster::new(declared, &file, now)));
    }
    console.data(&render(args, &all, now, console.color)?)?;
    conclude(args, &all, console)
}

/// Returns the bytes of a file, or of standard input, up to the limit and one more.
fn read(path: &Path) -> Result<Credential, CommandError> {
    let most = MAX_FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    let content = Credential::new(bytes);
    read.map(|_| content).map_err(|error| {
        let message = format!("{} cannot be read: {error}", path.display());
        CommandError::new(Exit::Usage, Code::FILE_UNREADABLE, message)
            .next("name a kubeconfig, a manifest of a Secret, or - for standard input")
    })
}

/// Returns the name of a kubeconfig's cluster: that of its file, without the extension.
fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn render(
    args: &ClusterCheckArgs,
    all: &[CheckedCluster],
    now: Timestamp,
    color: bool,
) -> Result<String, CommandError> {
    match args.output {
        Output::Json | Output::Yaml => {
            let metadata = Metadata { as_of: timestamp(now), ..Metadata::default() };
            document(args.output, &List::new("ClusterCheckList", all.to_vec(), metadata, usize::MAX))
        }
        Output::Name => Ok(all.iter().map(|one| format!("{}\n", one.cluster)).collect()),
        Output::Table | Output::Wide => {
            Ok(table(all, now, args.output == Output::Wide).render(!args.no_headers, color))
        }
    }
}

/// Draws one row for each cluster, or for each reason of one that is not accepted.
fn table(all: &[CheckedCluster], now: Timestamp, wide: bool) -> Table {
    let heads = ["CLUSTER", "VERDICT", "SERVER", "AUTHENTICATION", "EXPIRES", "REASON"];
    let mut table = Table::new(&heads, &["SOURCE"], wide);
    for one in all {
        let mut reasons = one.reasons.iter().map(|reason| format!("{} ({})", reason.message, reason.code));
        table.row(row(one, reasons.next().unwrap_or_default(), now));
        reasons.for_each(|reason| table.row(row(one, reason, now)));
    }
    table
}

fn row(one: &CheckedCluster, reason: String, now: Timestamp) -> Vec<Cell> {
    let (verdict, tone) = match one.verdict {
        Verdict::Accepted => ("Accepted", Tone::Plain),
        Verdict::Expired => ("Expired", Tone::Bad),
        Verdict::Refused => ("Refused", Tone::Bad),
    };
    vec![
        one.cluster.clone().into(),
        Cell(verdict.to_owned(), tone),
        one.server.clone().unwrap_or_default().into(),
        one.authentication.join(" and ").into(),
        one.expires.map(|at| expiry(at, now)).unwrap_or_default().into(),
        reason.into(),
        one.source.clone().into(),
    ]
}

fn expiry(at: Timestamp, now: Timestamp) -> String {
    let left = age(at.as_millisecond().abs_diff(now.as_millisecond()));
    if at <= now { format!("{left} ago") } else { format!("in {left}") }
}

fn conclude(
    args: &ClusterCheckArgs,
    all: &[CheckedCluster],
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let count = |verdict| all.iter().filter(|one| one.verdict == verdict).count();
    let [accepted, expired, refused] = [Verdict::Accepted, Verdict::Expired, Verdict::Refused].map(count);
    if matches!(args.output, Output::Table | Output::Wide) {
        console.note(&format!("accepted: {accepted}, expired: {expired}, refused: {refused}"));
    }
    if all.is_empty() {
        let message = "the files declare no cluster";
        let next = "name a kubeconfig, or Secrets with the label istio/multiCluster=true or tributary.dev/cluster=true";
        return Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message).next(next));
    }
    Ok(if accepted == all.len() { Exit::Ok } else { Exit::No })
}
