//! Waits for the state of a cluster of a running server.
//!
//! `cluster wait`, `cluster remove` and `cluster rotate` call it. A verdict is a function of what the server shows; [`waiting`] has the
//! loop.

use super::super::get::{items, parse, path};
use super::super::waiting::{self, REQUEST};
use super::super::{Console, Server};
use crate::args::{ClusterWaitArgs, Resource as Listed, WaitFor};
use crate::config::Span;
use crate::document::{ClusterItem, List};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

pub(super) use super::super::waiting::Pending;

/// State of a cluster whose connections are closed on request.
pub(super) const PAUSED: &str = "Paused";
/// State of a cluster that leaves.
pub(super) const REMOVING: &str = "Removing";

/// What a server shows of one cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// The cluster, if the server knows it.
    pub(super) cluster: Option<ClusterItem>,
    /// Whether a source of declarations was not read yet or cannot be read, so that unknown clusters may be declared.
    pub(super) is_partial: bool,
}

/// Requests every cluster.
pub(super) async fn see_all(server: &Server) -> Result<Vec<ClusterItem>, CommandError> {
    let list: List<serde_json::Value> = parse(&server.get(&path(Listed::Clusters), &[]).await?)?;
    items(&list)
}

/// Requests one cluster.
pub(super) async fn see(server: &Server, name: &str) -> Result<Seen, CommandError> {
    let body = server.get(&path(Listed::Clusters), &[("name", Some(name))]).await?;
    let list: List<serde_json::Value> = parse(&body)?;
    let all: Vec<ClusterItem> = items(&list)?;
    let is_unread = |state: &str| matches!(state, "Syncing" | "Failed");
    let is_partial = list.metadata.sources.iter().any(|source| is_unread(&source.state));
    Ok(Seen { cluster: all.into_iter().find(|one| one.name == name), is_partial })
}

/// Runs `cluster wait`.
pub(super) async fn run(
    args: &ClusterWaitArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let server = Server::at(&args.connection, REQUEST.min(args.timeout.get()), env)?;
    until(&server, &args.name, args.timeout, |seen| verdict(seen, args.goal)).await?;
    console.data(&format!("cluster {} is {}\n", args.name, args.goal.as_str()))?;
    Ok(Exit::Ok)
}

/// Waits until the test holds; it returns why it does not.
pub(super) async fn until<W: Into<Pending>>(
    server: &Server,
    name: &str,
    limit: Span,
    mut test: impl FnMut(&Seen) -> Result<(), W>,
) -> Result<(), CommandError> {
    let end = tokio::time::Instant::now() + limit.get();
    let looked = waiting::until(end, || see(server, name), |seen| test(&seen).map_err(Into::into));
    looked.await.map_err(|pending| match pending {
        Pending::Never(failure) => failure,
        Pending::NotYet(why) => timed_out(name, limit, &why),
    })
}

fn timed_out(name: &str, limit: Span, why: &str) -> CommandError {
    let message = format!("cluster `{name}`: {limit} passed, and {why}");
    CommandError { exit: Exit::TimedOut, code: None, message, next: String::new() }
        .next(format!("see `tributary cluster describe {name}`, or increase the time"))
}

/// Returns why the goal is not reached.
pub(super) fn verdict(seen: &Seen, goal: WaitFor) -> Result<(), String> {
    match (goal, &seen.cluster) {
        (WaitFor::Removed, _) => removed(seen),
        (_, None) => Err("the server knows no such cluster".to_owned()),
        (_, Some(one)) if one.state == goal.as_str() => Ok(()),
        (_, Some(one)) => Err(described(one)),
    }
}

/// A cluster that stays declared with the annotation `remove` is shown after its registries are gone.
pub(super) fn removed(seen: &Seen) -> Result<(), String> {
    match &seen.cluster {
        None if seen.is_partial => Err("the server has not read all declarations".to_owned()),
        None => Ok(()),
        Some(one) if one.state == REMOVING && one.registries.is_empty() => Ok(()),
        Some(one) => Err(described(one)),
    }
}

/// Returns why the credential that followed `before` is not in use.
pub(super) fn rotated(seen: &Seen, before: &ClusterItem) -> Result<(), String> {
    let Some(one) = &seen.cluster else { return Err("the server knows no such cluster".to_owned()) };
    let trouble = one.conditions.iter().find(|of| matches!(of.kind.as_str(), "NewCredential" | "NotChanged"));
    if let Some(trouble) = trouble {
        return Err(trouble.message.clone());
    }
    let generation = |one: &ClusterItem| one.registries.iter().map(|registry| registry.generation).min();
    let is_filling = one.registries.iter().any(|registry| registry.next_generation.is_some());
    match () {
        () if one.state == PAUSED => {
            Err(format!("it is paused; `tributary cluster resume {}` resumes it", one.name))
        }
        () if one.rotations <= before.rotations => Err("the server has not read the Secret yet".to_owned()),
        () if is_filling || generation(one) <= generation(before) => {
            Err("the new credential does not serve yet".to_owned())
        }
        () => verdict(seen, WaitFor::Live),
    }
}

fn described(one: &ClusterItem) -> String {
    let reason = if one.reason.is_empty() { String::new() } else { format!(": {}", one.reason) };
    format!("it is {}{reason}", one.state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::clusters::{ClusterConditionItem, ClusterRegistryItem};

    fn mk(state: &str, generations: &[(u64, Option<u64>)]) -> ClusterItem {
        let registry = |(generation, next): &(u64, Option<u64>)| ClusterRegistryItem {
            generation: *generation,
            next_generation: *next,
            ..ClusterRegistryItem::default()
        };
        let registries = generations.iter().map(registry).collect();
        ClusterItem { state: state.into(), reason: "why".into(), registries, ..ClusterItem::default() }
    }

    fn seen(cluster: Option<ClusterItem>) -> Seen {
        Seen { cluster, is_partial: false }
    }

    #[test]
    fn state_is_reached_or_the_shown_one_is_the_reason() {
        assert_eq!(verdict(&seen(Some(mk("Live", &[]))), WaitFor::Live), Ok(()));
        assert_eq!(verdict(&seen(Some(mk("Stale", &[]))), WaitFor::Live), Err("it is Stale: why".to_owned()));
        assert!(verdict(&seen(None), WaitFor::Live).is_err());
    }

    #[test]
    fn removed_is_a_cluster_without_registries() {
        let is_removed = |seen: &Seen| verdict(seen, WaitFor::Removed).is_ok();
        assert!(is_removed(&seen(None)));
        assert!(!is_removed(&Seen { cluster: None, is_partial: true }), "it may be declared");
        assert!(is_removed(&seen(Some(mk("Removing", &[])))));
        assert!(!is_removed(&seen(Some(mk("Removing", &[(1, None)])))), "it drains");
        assert!(!is_removed(&seen(Some(mk("Syncing", &[])))), "it joins");
    }

    #[test]
    fn new_credential_is_in_use_when_both_registries_serve_with_it() {
        let before = mk("Live", &[(3, None), (3, None)]);
        let after = |rotations, generations: &[(u64, Option<u64>)]| ClusterItem {
            rotations,
            ..mk("Live", generations)
        };
        let is_rotated = |item: ClusterItem| rotated(&seen(Some(item)), &before).is_ok();
        assert!(!is_rotated(after(0, &[(3, None), (3, None)])));
        assert!(!is_rotated(after(1, &[(3, None), (3, None)])), "it is declared and no run began");
        assert!(!is_rotated(after(1, &[(3, Some(4)), (3, Some(4))])));
        assert!(is_rotated(after(1, &[(4, None), (4, None)])));
        let paused = ClusterItem { name: "east".into(), rotations: 0, ..mk("Paused", &[(3, None)]) };
        let why = rotated(&seen(Some(paused)), &before).unwrap_err();
        assert_eq!(why, "it is paused; `tributary cluster resume east` resumes it");
        let condition = ClusterConditionItem {
            kind: "NewCredential".into(),
            message: "it may read less".into(),
            ..ClusterConditionItem::default()
        };
        let failing = ClusterItem { conditions: vec![condition], ..after(1, &[(3, Some(4)), (3, Some(4))]) };
        assert_eq!(rotated(&seen(Some(failing)), &before), Err("it may read less".to_owned()));
    }
}
