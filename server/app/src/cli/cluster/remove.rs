//! `cluster remove`: an annotation that removes the cluster from every server, and, after the receipt, the end of its declaration.
//!
//! The Secret goes last: a cluster whose Secret is deleted first would be removed without its plan being shown. The command can be run
//! again after an interruption and completes what is left. The account in the remote cluster goes after that.

use std::time::Duration;

use tributary_model::Code;
use tributary_remote::roster::{DRAIN, REMOVE};
use tributary_remote::{EditRefused, Removal, StoredSecret};

use super::super::get::parse;
use super::super::{Console, Server};
use super::edit::{Place, locate, not_edited, print};
use super::leftover::Leftover;
use super::printed;
use super::store::{Edit, Operator};
use super::wait::{Pending, REMOVING, Seen, removed, see, until};
use crate::args::ClusterRemoveArgs;
use crate::config::Span;
use crate::document::clusters::ClaimItem;
use crate::document::{ClusterItem, LeavePlan, List, PlanItem, ReceiptItem};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Runs the command.
pub(super) async fn run(
    args: &ClusterRemoveArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let (name, place) = (&args.edit.name, &args.edit.place);
    let secret = match locate(place, name, env).await? {
        Place::Secret(secret) => secret,
        Place::File(path) if args.cancel => return printed::policy((name, &path), REMOVE, None, console),
        Place::Configuration(_) if args.cancel => return Err(not_leaving(name, "the configuration file")),
        Place::File(path) => {
            note_plan(args, Some(&format!("file {path}")), env, console).await;
            let drain = args.drain.map(|drain| drain.to_string());
            return printed::removal((name, &path), drain, console);
        }
        Place::Configuration(registries) => {
            note_plan(args, None, env, console).await;
            return printed::configured(name, &registries, args.drain.is_some(), console);
        }
    };
    let operator = Operator::open(place.config.options(), env).await?;
    let stored = operator.secret(&secret).await.map_err(|failure| undeclared(name, failure))?;
    if args.cancel {
        return cancel(args, &operator, &stored, console).await;
    }
    let drain = args.drain.map(|drain| drain.to_string());
    let changes = drain.iter().map(|drain| (DRAIN, Some(drain.as_str()))).chain([(REMOVE, Some("true"))]);
    let changes: Vec<_> = changes.collect();
    let steps =
        |now: &StoredSecret| now.annotate(name, &changes).map_err(|refused| not_removed(name, &refused));
    let planned = steps(&stored)?;
    if args.edit.dry_run {
        console.note(&after(&stored, name));
        return print(&planned, console);
    }
    let begin = |now: &StoredSecret| steps(now).map(Edit::Patch);
    if args.no_wait {
        operator.edit(&stored, begin).await?;
        console.data(&format!("cluster {name} is being removed: Secret {secret}\n"))?;
        console
            .note(&format!("next: `tributary cluster remove {name}` deletes the Secret after the receipt"));
        return Ok(Exit::Ok);
    }
    // nothing is changed unless the end can be seen
    let server = Server::find(&place.server, env)?;
    let before = see(&server, name).await.map_err(without_server)?;
    let one = before.cluster.ok_or_else(|| unread(name, &stored))?;
    if let Some(other) = other_declaration(&one, &format!("Secret {secret}")) {
        console.note(&format!(
            "nothing was changed: {other} declares cluster {name} too, and would take its place"
        ));
        console.note(&format!(
            "next: delete {other} first, or delete Secret {secret} alone: {other} then takes its place"
        ));
        return Ok(Exit::No);
    }
    let plan = plan(&server, name).await?;
    console.note(&format!("with cluster {name} leave {}", described(&plan)));
    if plan.emptied > 0 && !args.yes {
        console.note("nothing was changed; add --yes to remove it although these hosts keep no endpoint");
        return Ok(Exit::No);
    }
    let leftover = Leftover::of(&stored, name);
    let remote = match (&args.from_context, &leftover) {
        (None, _) => None,
        (Some(_), None) => return Err(no_account(name)),
        (Some(context), Some(leftover)) => {
            let remote = leftover.open((context, args), (&stored, Some(&one)), (&operator, env)).await;
            Some((context, remote.map_err(without_account)?))
        }
    };
    let earlier = receipts(&server).await?;
    operator.edit(&stored, begin).await?;
    let drained = args.drain.map_or(Duration::ZERO, Span::get);
    let mut has_begun = false;
    let gone = |seen: &Seen| leaves(seen, name, &mut has_begun);
    until(&server, name, (args.wait.get() + drained).into(), gone).await?;
    end(&operator, &stored, name).await.map_err(|failure| {
        failure.next(format!("the cluster has left; run the command again, which deletes Secret {secret}"))
    })?;
    let mut all = receipts(&server).await?;
    all.retain(|receipt| !earlier.contains(receipt));
    console.data(&concluded(name, &all))?;
    match (leftover, remote) {
        (Some(leftover), Some((context, remote))) => {
            let deleted = leftover.delete(&remote, context, console).await;
            deleted.map_err(|failure| failure.next(leftover.commands(Some(context))))?;
        }
        (Some(leftover), None) => console.data(&leftover.commands(None))?,
        (None, _) => {}
    }
    Ok(Exit::Ok)
}

/// Returns why the cluster is not removed. A removal that has begun and is no longer shown was cancelled, unless the server has not read
/// the declarations again after a restart.
fn leaves(seen: &Seen, name: &str, has_begun: &mut bool) -> Result<(), Pending> {
    if seen.is_partial {
        return removed(seen).map_err(Pending::NotYet);
    }
    let state = seen.cluster.as_ref().map(|one| one.state.as_str());
    let was = std::mem::replace(has_begun, state == Some(REMOVING));
    match removed(seen) {
        Err(_) if was && state.is_some_and(|state| state != REMOVING) => {
            let message = format!("the removal of cluster `{name}` was cancelled meanwhile");
            Err(Pending::Never(CommandError::no(message)))
        }
        other => other.map_err(Pending::NotYet),
    }
}

/// Cancels a removal that has begun: takes back the annotations that it set.
async fn cancel(
    args: &ClusterRemoveArgs,
    operator: &Operator,
    stored: &StoredSecret,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let (name, secret) = (&args.edit.name, &stored.name);
    if stored.annotation(REMOVE) != Some("true") {
        return Err(not_leaving(name, &format!("Secret {secret}")));
    }
    let steps = |now: &StoredSecret| {
        let steps = now.annotate(name, &[(REMOVE, None), (DRAIN, None)]);
        steps.map_err(|refused| not_edited(name, &refused))
    };
    if args.edit.dry_run {
        return print(&steps(stored)?, console);
    }
    operator.edit(stored, |now| steps(now).map(Edit::Patch)).await?;
    console.data(&format!("the removal of cluster {name} is cancelled: Secret {secret}\n"))?;
    console.note(&format!("next: `tributary cluster wait {name}`"));
    Ok(Exit::Ok)
}

fn not_leaving(name: &str, declared: &str) -> CommandError {
    let message = format!("cluster `{name}` is not being removed: {declared} declares it");
    CommandError::no(message)
}

fn no_account(name: &str) -> CommandError {
    let message =
        format!("the credential of cluster `{name}` names no service account that could be deleted");
    CommandError::no(message).next("leave --from-context out")
}

/// Notes what a cluster that a declaration alone keeps leaves with: its plan, or the other declaration that would take its place.
async fn note_plan(
    args: &ClusterRemoveArgs,
    own: Option<&str>,
    env: &Environment,
    console: &mut Console<'_>,
) {
    let name = &args.edit.name;
    let note = match planned(args, own, env).await {
        Ok(Planned::Leaves(plan)) => format!("with cluster {name} leave {}", described(&plan)),
        Ok(Planned::Stays(other)) => {
            format!("{other} declares cluster {name} too, and takes its place: nothing leaves")
        }
        Err(failure) => format!("what leaves with cluster {name} is not known: {}", failure.message),
    };
    console.note(&note);
}

/// What becomes of a cluster whose declaration goes.
enum Planned {
    /// It leaves, with this.
    Leaves(LeavePlan),
    /// Another declaration takes its place.
    Stays(String),
}

async fn planned(
    args: &ClusterRemoveArgs,
    own: Option<&str>,
    env: &Environment,
) -> Result<Planned, CommandError> {
    let server = Server::find(&args.edit.place.server, env)?;
    if let Some(own) = own {
        let one = see(&server, &args.edit.name).await?.cluster;
        if let Some(other) = one.as_ref().and_then(|one| other_declaration(one, own)) {
            return Ok(Planned::Stays(other.to_owned()));
        }
    }
    plan(&server, &args.edit.name).await.map(Planned::Leaves)
}

/// Adds to the next step that a cluster whose Secret is gone leaves without a command.
fn undeclared(name: &str, failure: CommandError) -> CommandError {
    match failure.exit {
        Exit::NotFound => failure.next(format!(
            "if the Secret was deleted, the cluster leaves when the grace is over; else check that --context names the config cluster, and see `tributary cluster describe {name}`"
        )),
        _ => failure,
    }
}

/// Describes a removal that is refused.
fn not_removed(name: &str, refused: &EditRefused) -> CommandError {
    let failure = not_edited(name, refused);
    match refused {
        EditRefused::Shared { .. } => {
            let next =
                format!("{}; if nothing of {name} is served, deleting the key is enough", failure.next);
            failure.next(next)
        }
        EditRefused::Missing(..) => failure,
    }
}

/// Adds to the next step that the account may stay.
fn without_account(failure: CommandError) -> CommandError {
    const STAYS: &str = "leave --from-context out, and the account stays";
    if failure.next.contains("--from-context") {
        return failure;
    }
    let next =
        if failure.next.is_empty() { STAYS.to_owned() } else { format!("{}; or {STAYS}", failure.next) };
    failure.next(next)
}

fn without_server(failure: CommandError) -> CommandError {
    match failure.exit {
        Exit::Usage => failure,
        _ => failure.next("start the server, or use --no-wait, which only sets the annotation"),
    }
}

/// Ends the declaration, unless it changed since it was read.
async fn end(operator: &Operator, was: &StoredSecret, name: &str) -> Result<(), CommandError> {
    let stored = match operator.secret(&was.name).await {
        Ok(stored) => stored,
        // another one deleted it meanwhile
        Err(failure) if failure.exit == Exit::NotFound => return Ok(()),
        Err(failure) => return Err(failure),
    };
    let edit = |now: &StoredSecret| {
        if now.uid != was.uid || now.annotation(REMOVE) != Some("true") {
            let message = format!("Secret {} was changed meanwhile and stays", was.name);
            return Err(
                CommandError::plain(message).next("run the command again if the cluster is to be removed")
            );
        }
        Ok(match now.removal(name).map_err(|refused| not_edited(name, &refused))? {
            Removal::Secret => Edit::Delete,
            Removal::Key(steps) => Edit::Patch(steps),
        })
    };
    operator.edit(&stored, edit).await.map(drop)
}

/// Describes what follows the annotation, for `--dry-run`.
fn after(stored: &StoredSecret, name: &str) -> String {
    match stored.removal(name) {
        Ok(Removal::Key(_)) => format!("after the receipt, key {name} of Secret {} is removed", stored.name),
        _ => format!("after the receipt, Secret {} is deleted", stored.name),
    }
}

/// A server that does not read the Secret gives no receipt.
fn unread(name: &str, stored: &StoredSecret) -> CommandError {
    let label = if stored.is_read() { "" } else { ", whose label is missing" };
    let message =
        format!("the server does not read Secret {}{label}: it knows no cluster `{name}`", stored.name);
    let next = "name its server with --server, or use --no-wait and delete the Secret";
    CommandError::new(Exit::NotFound, Code::NOT_FOUND, message).next(next)
}

async fn plan(server: &Server, name: &str) -> Result<LeavePlan, CommandError> {
    let list: List<PlanItem> = parse(&server.get("/debug/plan", &[("name", Some(name))]).await?)?;
    Ok(list.items.into_iter().find(|one| one.cluster == name).map(|one| one.plan).unwrap_or_default())
}

/// Returns another declaration that would serve the cluster, which would then not be removed.
fn other_declaration<'c>(one: &'c ClusterItem, own: &str) -> Option<&'c str> {
    let serves = |claim: &&ClaimItem| claim.object != own && matches!(&*claim.outcome, "Used" | "Duplicate");
    one.claims.iter().find(serves).map(|claim| &*claim.object)
}

fn described(plan: &LeavePlan) -> String {
    let LeavePlan { services, endpoints, emptied, hosts } = plan;
    let count = |number: &u64, noun: &str| format!("{number} {noun}{}", if *number == 1 { "" } else { "s" });
    let hosts = if hosts.is_empty() { String::new() } else { format!(": {}", hosts.join(", ")) };
    let (services, endpoints) = (count(services, "service"), count(endpoints, "endpoint"));
    format!("{services}, {endpoints}, {} without an endpoint{hosts}", count(emptied, "host"))
}

async fn receipts(server: &Server) -> Result<Vec<ReceiptItem>, CommandError> {
    let list: List<ReceiptItem> = parse(&server.get("/debug/receipts", &[]).await?)?;
    Ok(list.items)
}

/// Describes the end. A cluster that was never read leaves without a receipt.
fn concluded(name: &str, receipts: &[ReceiptItem]) -> String {
    let Some(receipt) = receipts.iter().find(|one| one.cluster == name) else {
        return format!("cluster {name} removed\n");
    };
    format!("cluster {name} removed: {}\n", described(&receipt.plan))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn cancelled_removal_is_waited_for_no_longer() {
        let registry = crate::document::clusters::ClusterRegistryItem::default();
        let shown = |state: &str| Seen {
            cluster: Some(ClusterItem {
                state: state.to_owned(),
                registries: vec![registry.clone()],
                ..ClusterItem::default()
            }),
            is_partial: state == "Stale",
        };
        let mut has_begun = false;
        let mut step = |state: &str| leaves(&shown(state), "east", &mut has_begun).unwrap_err();
        assert!(matches!(step("Live"), Pending::NotYet(_)), "the server has not read the annotation yet");
        assert!(matches!(step("Removing"), Pending::NotYet(_)));
        assert!(
            matches!(step("Stale"), Pending::NotYet(_)),
            "the server was restarted and has not read the Secret"
        );
        let Pending::Never(failure) = step("Live") else { panic!("it waits for ever") };
        assert_eq!(
            (failure.exit, &*failure.message),
            (Exit::No, "the removal of cluster `east` was cancelled meanwhile")
        );
        let gone = Seen { cluster: None, is_partial: false };
        assert!(leaves(&gone, "east", &mut true).is_ok());
    }

    #[test]
    fn another_declaration_of_the_cluster_is_found() {
        let claim = |object: &str, outcome: &str| ClaimItem {
            object: object.to_owned(),
            outcome: outcome.to_owned(),
            ..ClaimItem::default()
        };
        let besides = |own: &str, claims: &[ClaimItem]| {
            let one = ClusterItem { claims: claims.to_vec(), ..ClusterItem::default() };
            other_declaration(&one, own).map(str::to_owned)
        };
        let other = |claims: &[ClaimItem]| besides("Secret system/east", claims);
        let own = claim("Secret system/east", "Used");
        assert_eq!(other(std::slice::from_ref(&own)), None);
        assert_eq!(other(&[own.clone(), claim("Secret system/dup", "Refused")]), None, "it would not serve");
        let second = claim("Secret system/dup", "Duplicate");
        assert_eq!(other(&[own, second]), Some("Secret system/dup".to_owned()));
        let first = [claim("file /c/east", "Used"), claim("Secret system/east", "Duplicate")];
        assert_eq!(other(&first), Some("file /c/east".to_owned()));
        assert_eq!(besides("file /c/east", &first), Some("Secret system/east".to_owned()));
    }

    #[test]
    fn end_names_what_left_by_the_newest_receipt() {
        let receipt = |cluster: &str, hosts: &[&str]| ReceiptItem {
            cluster: cluster.into(),
            registry: cluster.into(),
            object: String::new(),
            generation: 1,
            began: Timestamp::UNIX_EPOCH,
            plan: LeavePlan {
                services: 2,
                endpoints: 3,
                emptied: hosts.len() as u64,
                hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            },
            removed: Timestamp::UNIX_EPOCH,
        };
        let all = [receipt("west", &[]), receipt("east", &["a.test"]), receipt("east", &[])];
        assert_eq!(
            concluded("east", &all),
            "cluster east removed: 2 services, 3 endpoints, 1 host without an endpoint: a.test\n"
        );
        assert_eq!(concluded("north", &all), "cluster north removed\n");
    }
}
