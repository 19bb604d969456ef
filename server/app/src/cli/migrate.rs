//! `tributary migrate check`: reads an istiod from a file or a cluster and lists what becomes of it. `crate::migrate` decides.

use std::io::Read as _;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use tributary_kube_client::{ApiFailure, ObjectName, Resource};

use super::Console;
use super::cluster::{Operator, right};
use super::get::document;
use super::table::{Cell, Table, Tone};
use crate::args::{MigrateCheckArgs, MigrateCommand, Output};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::migrate::tasks::{KINDS, UnservedKind};
use crate::migrate::{Counted, Istiod, Item, MeshTexts, Outcome, check};

/// Size limit of a file.
const MOST_BYTES: u64 = 16 << 20;
/// Label and value of the Deployments of an istiod.
const LABEL: (&str, &str) = ("app", "istiod");
const NEXT: &str = "give a file with the Deployment of the istiod (-f FILE), such as the output of `kubectl -n istio-system get deployment istiod -o yaml`";

/// Answer in JSON and YAML.
#[derive(Serialize)]
struct Report<'a> {
    deployment: &'a str,
    lost: usize,
    unknown: usize,
    items: Vec<&'a Item>,
}

/// What the report is about.
struct Found {
    istiod: Istiod,
    texts: MeshTexts,
    counts: Vec<Counted>,
}

/// Runs the command.
pub async fn run(
    command: &MigrateCommand,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let MigrateCommand::Check(args) = command;
    let mut found = match &args.file {
        Some(file) => of_file(file, args.revision.as_deref())?,
        None => of_cluster(args, env).await?,
    };
    if let Some(file) = &args.mesh_config {
        found.texts = mesh_of(file)?;
    }
    let items = check(&found.istiod, &found.texts, &found.counts);
    let number = |is: fn(&Item) -> bool| items.iter().filter(|item| is(item)).count();
    let (lost, unknown) = (number(|item| item.lost), number(is_unknown));
    let shown = items.iter().filter(|item| !args.lost || item.lost || is_unknown(item)).collect();
    let report = Report { deployment: &found.istiod.name, lost, unknown, items: shown };
    console.data(&render(args.output, &report, console.color)?)?;
    if matches!(args.output, Output::Table | Output::Wide) {
        conclude(&found, &report, console);
    }
    Ok(if lost + unknown > 0 { Exit::No } else { Exit::Ok })
}

fn is_unknown(item: &Item) -> bool {
    item.outcome == Outcome::Unknown
}

fn conclude(found: &Found, report: &Report<'_>, console: &mut Console<'_>) {
    if found.texts == MeshTexts::default() {
        console.note("no mesh configuration was given: its fields are not in the list (--mesh-config FILE)");
    }
    if found.counts.is_empty() {
        console.note("objects of kinds that are not served are counted in a cluster only: leave -f out");
    }
    let Report { deployment, lost, unknown, .. } = report;
    console.note(&match (lost, unknown) {
        (0, 0) => format!("{deployment}: nothing would be lost"),
        (lost, 0) => format!("{deployment}: {lost} lines are in use and would be lost without an istiod"),
        (lost, unknown) => format!(
            "{deployment}: {lost} lines are in use and would be lost without an istiod, and {unknown} are unknown"
        ),
    });
}

fn render(output: Output, report: &Report<'_>, color: bool) -> Result<String, CommandError> {
    match output {
        Output::Json | Output::Yaml => document(output, report),
        Output::Name => {
            Ok(report.items.iter().map(|item| format!("{}/{}\n", item.what, item.name)).collect())
        }
        Output::Table | Output::Wide => {
            let mut table =
                Table::new(&["WHAT", "NAME", "VALUE", "OUTCOME", "HERE"], &[], output == Output::Wide);
            report.items.iter().for_each(|item| table.row(cells(item)));
            Ok(table.render(true, color))
        }
    }
}

fn cells(item: &Item) -> Vec<Cell> {
    let tone = match (item.lost, item.outcome) {
        (true, Outcome::Refused) => Tone::Bad,
        (true, _) => Tone::Warn,
        (false, _) => Tone::Plain,
    };
    let outcome = Cell(item.outcome.as_str().to_owned(), tone);
    vec![item.what.into(), (&item.name).into(), (&item.value).into(), outcome, (&item.here).into()]
}

/// Reads a file, or standard input.
fn text_of(file: &Path) -> Result<String, CommandError> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(MOST_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(MOST_BYTES + 1).read_to_string(&mut text))
    };
    read.map_err(|why| CommandError::plain(format!("{}: {why}", file.display())).next("check the path"))?;
    if text.len() as u64 > MOST_BYTES {
        let why = format!("{}: larger than {MOST_BYTES} bytes", file.display());
        return Err(CommandError::plain(why).next(NEXT));
    }
    Ok(text)
}

/// Returns the documents of a text; a list counts as its items.
fn documents(text: &str, file: &Path) -> Result<Vec<Value>, CommandError> {
    let read: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
    let all = read.map_err(|why| {
        let why = why.to_string();
        CommandError::plain(format!("{}: {}", file.display(), why.lines().next().unwrap_or_default()))
            .next(NEXT)
    })?;
    let items = |document: Value| match document["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![document],
    };
    Ok(all.into_iter().flat_map(items).collect())
}

fn of_file(file: &Path, revision: Option<&str>) -> Result<Found, CommandError> {
    let all = documents(&text_of(file)?, file)?;
    let deployments = all.iter().filter(|document| Istiod::is_in(document)).cloned().collect();
    let place = Place { name: file.display().to_string(), what: "Deployment of an istiod", otherwise: NEXT };
    let istiod = Istiod::of(&place.only(deployments, revision)?).map_err(CommandError::plain)?;
    let named =
        |document: &&Value| document.pointer("/metadata/name").is_some_and(|name| *name == istiod.mesh_map());
    let maps = || all.iter().filter(|document| mesh_in(document).is_some());
    let texts = maps().find(named).or_else(|| maps().next()).and_then(mesh_in).unwrap_or_default();
    Ok(Found { istiod, texts, counts: Vec::new() })
}

/// Where Deployments come from.
struct Place {
    name: String,
    what: &'static str,
    /// What to do if it has no Deployment.
    otherwise: &'static str,
}

impl Place {
    /// Returns the only Deployment, or that of a revision.
    fn only(&self, mut found: Vec<Value>, revision: Option<&str>) -> Result<Value, CommandError> {
        let Self { name, what, otherwise } = self;
        let revisions: Vec<String> = found.iter().map(|one| Istiod::revision_of(one).to_owned()).collect();
        let revisions = revisions.join(", ");
        let with = revision.map(|revision| format!(" with revision {revision}")).unwrap_or_default();
        if let Some(revision) = revision {
            found.retain(|one| Istiod::revision_of(one) == revision);
        }
        let end = |exit, why, next: &str| CommandError { exit, ..CommandError::plain(why).next(next) };
        match (found.pop(), found.len()) {
            (Some(one), 0) => Ok(one),
            (None, _) if revisions.is_empty() => {
                Err(end(Exit::NotFound, format!("{name} has no {what}"), otherwise))
            }
            (None, _) => {
                let why = format!("{name} has no {what}{with}; its revisions are {revisions}");
                Err(end(Exit::NotFound, why, "name one of them with --revision"))
            }
            (Some(_), _) => {
                let why = format!("{name} has more than one {what}{with}; their revisions are {revisions}");
                Err(end(Exit::Usage, why, "name one with --revision"))
            }
        }
    }
}

/// Returns the mesh configuration of a ConfigMap.
fn mesh_in(document: &Value) -> Option<MeshTexts> {
    // A value that is no text is a fault of the ConfigMap, which the reader reports.
    let text = |key: &str| match &document["data"][key] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let texts = MeshTexts { mesh: text("mesh"), networks: text("meshNetworks") };
    (document["kind"] == "ConfigMap" && texts.mesh.is_some()).then_some(texts)
}

/// Reads a mesh configuration: a ConfigMap, or the text of its key `mesh`.
fn mesh_of(file: &Path) -> Result<MeshTexts, CommandError> {
    let text = text_of(file)?;
    let in_map = documents(&text, file)?.iter().find_map(mesh_in);
    Ok(in_map.unwrap_or(MeshTexts { mesh: Some(text), networks: None }))
}

async fn of_cluster(args: &MigrateCheckArgs, env: &Environment) -> Result<Found, CommandError> {
    let operator = Operator::open(args.options(), env).await?;
    let istiod = Istiod::of(&deployment(&operator, args).await?).map_err(CommandError::plain)?;
    let maps = resource("", "configmaps", "ConfigMap", true);
    let name = ObjectName::new(&args.namespace, &istiod.mesh_map());
    let texts = match operator.writer().get(&maps, "v1", &name).await {
        Ok(map) => mesh_in(&map).unwrap_or_default(),
        Err(ApiFailure::NotFound(_)) => MeshTexts::default(),
        Err(why) => return Err(failed(&operator, "get", &maps, &args.namespace, why)),
    };
    let mut counts = Vec::new();
    for kind in KINDS {
        counts.push((kind, count(&operator, kind).await));
    }
    Ok(Found { istiod, texts, counts })
}

/// Returns the only Deployment with the label of an istiod, or that of a revision.
async fn deployment(operator: &Operator, args: &MigrateCheckArgs) -> Result<Value, CommandError> {
    let kind = resource("apps", "deployments", "Deployment", true);
    let read = operator.writer().read_labelled(&kind, "v1", &args.namespace, LABEL).await;
    let text = read.map_err(|why| failed(operator, "list", &kind, &args.namespace, why))?;
    let list: Value = serde_json::from_slice(&text)
        .map_err(|why| CommandError::plain(format!("the list of Deployments cannot be read: {why}")))?;
    let place = Place {
        name: format!("namespace {}", args.namespace),
        what: "Deployment labelled app=istiod",
        otherwise: "name its namespace with -n, or its revision with --revision",
    };
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let mut one = place.only(items, args.revision.as_deref())?;
    // Items of a list have no kind of their own.
    one["kind"] = "Deployment".into();
    Ok(one)
}

async fn count(operator: &Operator, kind: &UnservedKind) -> Result<Option<u64>, String> {
    let (group, version, plural, name) = kind.api;
    let resource = resource(group, plural, name, false);
    operator.writer().count(&resource, version).await.map_err(|why| why.to_string())
}

fn resource(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Resource {
    Resource { group: group.into(), versions: &["v1"], plural, kind, namespaced, optional: true }
}

fn failed(
    operator: &Operator,
    verb: &str,
    kind: &Resource,
    namespace: &str,
    why: ApiFailure,
) -> CommandError {
    let object = format!("{} of namespace {namespace}", kind.plural);
    operator.failed(&right(verb, kind, Some(namespace)), &object, why)
}
