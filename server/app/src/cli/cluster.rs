//! `tributary cluster`: checks kubeconfigs of remote clusters before a server reads them, describes a cluster of a running server, and
//! edits the Secrets that declare clusters.
//!
//! `tributary_remote` decides and `tributary_kube_client` asks API servers; this module reads files and draws. Nothing that it prints
//! holds a credential, except the Secret of `add --print-secret`.

mod account;
mod add;
mod edit;
mod effect;
mod failures;
mod identity;
mod leftover;
mod merge;
mod printed;
mod remove;
mod rotate;
mod shown;
mod store;
mod wait;

pub(in crate::cli) use store::{Operator, right};

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use tributary_model::Code;
use tributary_registry_api::Credential;
use tributary_remote::{Allowed, Declared, MAX_FILE_BYTES, read_file};

use super::clusters::{described, expires, notes};
use super::get::{document, items, parse, path};
use super::table::{Cell, Table, Tone};
use super::{Console, Server};
use crate::args::{ClusterCheckArgs, ClusterCommand, ClusterDescribeArgs, Output, Resource as Listed};
use crate::document::cluster_check::{of_clusters, with_tries};
use crate::document::{CheckedCluster, ClusterItem, List, Metadata, TriedCluster, Verdict, timestamp};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::ops::clusters::findings;
use crate::ops::clusters::tries::ALL;

/// Most clusters that are asked at once.
const AT_ONCE: usize = 8;

/// Runs the command.
pub async fn run(
    command: &ClusterCommand,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    match command {
        ClusterCommand::Check(args) if args.all => check_all(args, env, console).await,
        ClusterCommand::Check(args) => check(args, console).await,
        ClusterCommand::Describe(args) => describe(args, env, console).await,
        ClusterCommand::Wait(args) => wait::run(args, env, console).await,
        ClusterCommand::Add(args) => add::run(args, env, console).await,
        ClusterCommand::Rotate(args) => rotate::run(args, env, console).await,
        ClusterCommand::Pause(args) => edit::pause(args, env, console).await,
        ClusterCommand::Resume(args) => edit::resume(args, env, console).await,
        ClusterCommand::Accept(args) => edit::accept(args, env, console).await,
        ClusterCommand::Remove(args) => remove::run(args, env, console).await,
    }
}

/// Checks every cluster of the files. Ends with 3 if one is not accepted.
async fn check(args: &ClusterCheckArgs, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let (allowed, now) = (args.allowed(), Timestamp::now());
    let mut declared = Vec::new();
    for path in &args.files {
        let (bytes, file) = (read(path)?, path.display().to_string());
        let found = read_file(bytes.expose(), &name(path), &allowed);
        declared.extend(found.into_iter().map(|one| (one, file.clone())));
    }
    let checks = declared.into_iter().map(|(one, file)| check_one(one, file, args, &allowed, now));
    let all: Vec<CheckedCluster> = futures::stream::iter(checks).buffered(AT_ONCE).collect().await;
    console.data(&render(args, &all, now, console.color)?)?;
    conclude(args, &all, console)
}

/// Shows every declaration that a running server reads, and with --connect what it finds when it tries each. Ends with 3 if one is refused or has expired, or a Secret has a fault.
async fn check_all(
    args: &ClusterCheckArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let server = Server::find(&args.server, env)?;
    let list: List<serde_json::Value> = parse(&server.get(&path(Listed::Clusters), &[]).await?)?;
    let (clusters, now): (Vec<ClusterItem>, _) = (items(&list)?, Timestamp::now());
    let mut all = of_clusters(&clusters, now);
    if args.connect {
        let body = server.get_held(ALL, "/debug/clusters/check", &[]).await?;
        let tried: List<TriedCluster> = parse(&body)?;
        all = with_tries(all, tried.items);
    }
    console.data(&render(args, &all, now, console.color)?)?;
    let notes = notes(&list.metadata);
    notes.iter().for_each(|note| console.note(note));
    if all.is_empty() {
        console.note(&none_declared(&list.metadata));
        return Ok(if notes.is_empty() { Exit::Ok } else { Exit::No });
    }
    let exit = conclude(args, &all, console)?;
    Ok(if notes.is_empty() { exit } else { Exit::No })
}

/// Describes a list without a declaration: what is not read may declare some.
fn none_declared(metadata: &Metadata) -> String {
    let unread = metadata.sources.iter().filter(|source| source.state != "Synced");
    let unread: Vec<&str> = unread.map(|source| source.name.as_str()).collect();
    if unread.is_empty() {
        return "no Secret and no file declares a cluster".to_owned();
    }
    format!("it is not known which clusters are declared: not read are {}", unread.join(" and "))
}

async fn check_one(
    declared: Declared,
    file: String,
    args: &ClusterCheckArgs,
    allowed: &Allowed,
    now: Timestamp,
) -> CheckedCluster {
    let vetted = declared.verdict.as_ref().ok().filter(|_| args.connect).cloned();
    let item = CheckedCluster::new(declared, &file, now);
    let Some(vetted) = vetted.filter(|_| item.verdict == Verdict::Accepted) else { return item };
    match vetted.connect(allowed) {
        Ok(connection) => item.found(findings::check(&connection, vetted.server(), Duration::ZERO).await),
        Err(error) => item.found(findings::unconnected(&error.to_string())),
    }
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
            let wide = args.output == Output::Wide;
            let tried = shown::tried(all, wide, color);
            Ok(table(all, now, wide).render(!args.no_headers, color) + &tried)
        }
    }
}

/// Draws one row for each cluster, or for each reason of one that is not accepted.
fn table(all: &[CheckedCluster], now: Timestamp, wide: bool) -> Table {
    let heads = ["CLUSTER", "VERDICT", "SERVER", "AUTHENTICATION", "EXPIRES", "REASON"];
    let mut table = Table::new(&heads, &["VERSION", "IDENTITY", "SOURCE"], wide);
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
        Verdict::Unusable => ("Unusable", Tone::Bad),
    };
    vec![
        one.cluster.clone().into(),
        Cell(verdict.to_owned(), tone),
        one.server.clone().unwrap_or_default().into(),
        one.authentication.join(" and ").into(),
        one.expires.map(|at| expires(at, now)).unwrap_or_default().into(),
        reason.into(),
        one.version.clone().unwrap_or_default().into(),
        one.identity.clone().unwrap_or_default().into(),
        one.source.clone().into(),
    ]
}

fn conclude(
    args: &ClusterCheckArgs,
    all: &[CheckedCluster],
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let count = |verdict| all.iter().filter(|one| one.verdict == verdict).count();
    let verdicts = [Verdict::Accepted, Verdict::Expired, Verdict::Refused, Verdict::Unusable];
    let [accepted, expired, refused, unusable] = verdicts.map(count);
    if matches!(args.output, Output::Table | Output::Wide) {
        let unusable = if args.connect { format!(", unusable: {unusable}") } else { String::new() };
        console.note(&format!("accepted: {accepted}, expired: {expired}, refused: {refused}{unusable}"));
    }
    if all.is_empty() {
        let message = "the files declare no cluster";
        let next = "name a kubeconfig, or Secrets with the label istio/multiCluster=true or tributary.dev/cluster=true";
        return Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message).next(next));
    }
    Ok(if accepted == all.len() { Exit::Ok } else { Exit::No })
}

/// Describes one cluster.
async fn describe(
    args: &ClusterDescribeArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let server = Server::find(&args.server, env)?;
    let body = server.get(&path(Listed::Clusters), &[("name", Some(&*args.name))]).await?;
    let mut list: List<serde_json::Value> = parse(&body)?;
    let all: Vec<ClusterItem> = items(&list)?;
    let Some(one) = all.first() else {
        let message = format!("cluster `{}` not found", args.name);
        return Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message)
            .next("list them with `tributary get clusters`"));
    };
    list.metadata.partial = is_partial(&list.metadata, one);
    console.data(&match args.output {
        Output::Json | Output::Yaml => document(args.output, &list)?,
        Output::Name => format!("clusters/{}\n", one.name),
        Output::Table | Output::Wide => described(one, Timestamp::now(), console.color),
    })?;
    Ok(if list.metadata.partial { Exit::Partial } else { Exit::Ok })
}

/// Returns true if facts of this cluster may be missing. That another one has not synced does not matter.
fn is_partial(metadata: &Metadata, one: &ClusterItem) -> bool {
    metadata.partial && one.confirmed_millis_ago.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ClusterSourceItem;

    #[test]
    fn described_cluster_is_partial_by_itself_only() {
        let metadata = |partial| Metadata { partial, ..Metadata::default() };
        let item = |confirmed_millis_ago| ClusterItem { confirmed_millis_ago, ..ClusterItem::default() };
        assert!(!is_partial(&metadata(true), &item(Some(3))), "another cluster has not synced");
        assert!(is_partial(&metadata(true), &item(None)));
        assert!(!is_partial(&metadata(false), &item(None)));
    }

    #[test]
    fn sources_that_are_not_read_may_declare_clusters() {
        let source = |name: &str, state: &str| ClusterSourceItem {
            name: name.into(),
            state: state.into(),
            ..ClusterSourceItem::default()
        };
        let shown = |sources| none_declared(&Metadata { sources, ..Metadata::default() });
        assert_eq!(shown(vec![source("Secrets a", "Synced")]), "no Secret and no file declares a cluster");
        let text = shown(vec![source("Secrets a", "Forbidden"), source("Secrets b", "Synced")]);
        assert_eq!(text, "it is not known which clusters are declared: not read are Secrets a");
    }
}
