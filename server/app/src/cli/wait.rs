//! `tributary wait`: waits until a running server has what `--for` names.
//!
//! Goals about the catalog use the parameter `after`, with which the server answers when a generation is published; the others are
//! requested at the pace of [`super::waiting`]. Several goals hold if each held at the last look in one pass over all of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::get::parse;
use super::waiting::{Pending, REQUEST, until};
use super::{Console, Server};
use crate::args::{WaitArgs, WaitGoal};
use crate::document::{ClientItem, ClusterItem, EndpointItem, List, ReadinessDocument, RegistryItem};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// How long the server may hold a request with `after`, and some time for its answer.
const HELD: Duration = Duration::from_secs(25);

/// Runs the command.
pub async fn run(
    args: &WaitArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let limit = args.timeout.get();
    let server = Server::at(&args.connection, REQUEST.min(limit), env)?;
    let replicas = server.split().await?;
    let end = Instant::now() + limit;
    let mut waiting = Vec::new();
    for goal in &args.goals {
        // a client is connected to one replica; everything else must hold on each
        let on =
            if matches!(goal, WaitGoal::Client(..)) { std::slice::from_ref(&server) } else { &*replicas };
        waiting.extend(on.iter().map(|server| (server, Waiting::new(goal))));
    }
    loop {
        for (server, one) in &mut waiting {
            one.wait(server, end).await.map_err(|pending| failed(args, one.goal, pending))?;
        }
        // an earlier goal may have ended while a later one was waited for
        let mut all_hold = true;
        for (server, one) in waiting.iter().filter(|_| waiting.len() > 1) {
            all_hold &= one.look(server).await.is_ok();
        }
        if all_hold {
            break;
        }
    }
    for goal in &args.goals {
        console.data(&format!("{goal}\n"))?;
    }
    Ok(Exit::Ok)
}

fn failed(args: &WaitArgs, goal: &WaitGoal, pending: Pending) -> CommandError {
    match pending {
        Pending::Never(failure) => failure,
        Pending::NotYet(why) => {
            let message = format!("{goal}: {} passed, and {why}", args.timeout);
            let next = "see `tributary check`, or increase --timeout".to_owned();
            CommandError { exit: Exit::TimedOut, code: None, message, next }
        }
    }
}

/// Goal with the generation that it was looked at last.
struct Waiting<'a> {
    goal: &'a WaitGoal,
    after: Option<u64>,
}

/// What a look showed: why the goal does not hold, and the generation of the catalog.
type Looked = (Result<(), String>, Option<u64>);
/// Generation of a goal that was not looked at, or that is not about the catalog.
const UNKNOWN: u64 = u64::MAX;

impl<'a> Waiting<'a> {
    const fn new(goal: &'a WaitGoal) -> Self {
        Self { goal, after: None }
    }
    async fn wait(&mut self, server: &Server, end: Instant) -> Result<(), Pending> {
        // the closures share it
        let after = AtomicU64::new(self.after.unwrap_or(UNKNOWN));
        let known = || Some(after.load(Ordering::Relaxed)).filter(|generation| *generation != UNKNOWN);
        let test = |(result, generation): Looked| {
            after.store(generation.unwrap_or(UNKNOWN), Ordering::Relaxed);
            result.map_err(Pending::from)
        };
        until(end, || look(server, self.goal, known()), test).await?;
        self.after = known();
        Ok(())
    }
    async fn look(&self, server: &Server) -> Result<(), Pending> {
        let (result, _) = look(server, self.goal, None).await.map_err(Pending::of)?;
        result.map_err(Pending::from)
    }
}

async fn look(server: &Server, goal: &WaitGoal, after: Option<u64>) -> Result<Looked, CommandError> {
    let plain = |result: Result<(), String>| Ok((result, None));
    match goal {
        WaitGoal::Ready => {
            let readiness: ReadinessDocument = parse(&server.get("/debug/readiness", &[]).await?)?;
            plain(ready(&readiness))
        }
        WaitGoal::Registry(name, state) => {
            let list: List<RegistryItem> = named(server, "/debug/registries", name).await?;
            let found = list.items.iter().find(|one| one.name == *name);
            plain(in_state(found.map(|one| (&*one.state, &*one.reason)), state, "registry"))
        }
        WaitGoal::Cluster(name, state) => {
            let list: List<ClusterItem> = named(server, "/debug/clusters", name).await?;
            let found = list.items.iter().find(|one| one.name == *name);
            plain(in_state(found.map(|one| (&*one.state, &*one.reason)), state, "cluster"))
        }
        WaitGoal::Client(id, state) => {
            let list: List<ClientItem> = named(server, "/debug/clients", id).await?;
            plain(clients(&list.items, state))
        }
        WaitGoal::Service(host) => {
            let list: List<Value> = catalog(server, "/debug/services", Some(host), after).await?;
            let found =
                if list.items.is_empty() { Err("no service has the host".to_owned()) } else { Ok(()) };
            Ok((found, generation(&list)))
        }
        WaitGoal::Endpoints(host, least) => {
            let list: List<EndpointItem> = catalog(server, "/debug/endpoints", Some(host), after).await?;
            Ok((endpoints(&list.items, *least), generation(&list)))
        }
        WaitGoal::Generation(least) => {
            let list: List<Value> = catalog(server, "/debug/services", None, after).await?;
            let now = generation(&list);
            let is_reached = now.is_some_and(|now| now >= *least);
            let why = format!("the generation is {}", list.metadata.resource_version);
            Ok((if is_reached { Ok(()) } else { Err(why) }, now))
        }
    }
}

async fn named<T: serde::de::DeserializeOwned>(
    server: &Server,
    path: &str,
    name: &str,
) -> Result<List<T>, CommandError> {
    parse(&server.get(path, &[("name", Some(name))]).await?)
}

/// Requests a list of the catalog; with `after`, the server answers when the generation differs, or after some seconds. A host that
/// is not found is an empty list of a generation that is not known.
async fn catalog<T: serde::de::DeserializeOwned>(
    server: &Server,
    path: &str,
    host: Option<&str>,
    after: Option<u64>,
) -> Result<List<T>, CommandError> {
    let after = after.map(|generation| generation.to_string());
    // without a host, one item is enough to see the generation
    let limit = host.is_none().then_some("1");
    let query = [("host", host), ("after", after.as_deref()), ("limit", limit)];
    let held = if after.is_some() { HELD } else { Duration::ZERO };
    match server.get_held(held, path, &query).await {
        Ok(body) => parse(&body),
        Err(failure) if failure.exit == Exit::NotFound => {
            Ok(List::new("", Vec::new(), crate::document::Metadata::default(), 0))
        }
        Err(failure) => Err(failure),
    }
}

fn generation<T>(list: &List<T>) -> Option<u64> {
    list.metadata.resource_version.parse().ok()
}

fn ready(readiness: &ReadinessDocument) -> Result<(), String> {
    if readiness.ready {
        return Ok(());
    }
    let failed: Vec<&str> =
        readiness.checks.iter().filter(|check| !check.ok).map(|check| &*check.name).collect();
    Err(format!("the server is not ready: {}", failed.join(", ")))
}

fn in_state(found: Option<(&str, &str)>, wanted: &str, kind: &str) -> Result<(), String> {
    match found {
        None => Err(format!("the server knows no such {kind}")),
        Some((state, _)) if state.eq_ignore_ascii_case(wanted) => Ok(()),
        Some((state, "")) => Err(format!("it is {state}")),
        Some((state, reason)) => Err(format!("it is {state}: {reason}")),
    }
}

/// All streams of a client must have the state.
fn clients(all: &[ClientItem], wanted: &str) -> Result<(), String> {
    let Some(other) = all.iter().find(|one| !one.state.eq_ignore_ascii_case(wanted)) else {
        return if all.is_empty() { Err("no such client is connected".to_owned()) } else { Ok(()) };
    };
    Err(format!("{} is {}", other.connection, other.state))
}

/// Counts addresses: one with several ports counts once.
fn endpoints(all: &[EndpointItem], least: usize) -> Result<(), String> {
    let healthy = all.iter().filter(|one| one.health == "HEALTHY");
    let address = |one: &EndpointItem| {
        let address = one.endpoint.rsplit_once(':').map_or(&*one.endpoint, |(address, _)| address);
        address.to_owned()
    };
    let count = healthy.map(address).collect::<BTreeSet<_>>().len();
    if count >= least { Ok(()) } else { Err(format!("it has {count} healthy endpoints")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_every_stream_of_a_client_counts() {
        let client = |state: &str| ClientItem { state: state.into(), ..ClientItem::default() };
        assert!(clients(&[], "SYNCED").is_err());
        assert!(clients(&[client("SYNCED"), client("STALE")], "SYNCED").is_err());
        assert_eq!(clients(&[client("SYNCED")], "synced"), Ok(()));
    }

    #[test]
    fn state_that_is_not_reached_is_described() {
        assert_eq!(in_state(Some(("Live", "")), "live", "registry"), Ok(()));
        assert_eq!(in_state(Some(("Stale", "why")), "Live", "registry"), Err("it is Stale: why".to_owned()));
        assert_eq!(in_state(None, "Live", "cluster"), Err("the server knows no such cluster".to_owned()));
    }
}
