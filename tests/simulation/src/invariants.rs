//! The invariants, one function each, named after what holds.
//!
//! [`of_catalog`] and [`of_change`] run at every publication, also of states that last no time; [`of_step`] runs after every step,
//! because some states become wrong by time alone.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tributary_model::Generation;

use crate::observer::Model;
use crate::platform::LaneRun;
use crate::served::{Endpoint, Served};
use crate::world::{ENDPOINT_KINDS, HIDDEN, HOME};

/// Time after which a cluster whose declarations are gone may be removed.
pub const GRACE: Duration = Duration::from_secs(30);
/// Age of an answer from which a cluster must not be shown as live: the bound of the product, and the slack of a request in flight.
const LIVE_BOUND: Duration = Duration::from_secs(155);
/// Time within which a refused credential must show, beyond two probes.
const REFUSAL_SLACK: Duration = Duration::from_secs(5);
/// Time within which a removed cluster is gone: grace, drain, stop, and a watch of the Secrets that was silent before.
const REMOVAL_BOUND: Duration = Duration::from_secs(300);
/// Time that the removal of a cluster may take after its claim is back.
pub const LEAVING: Duration = Duration::from_secs(120);

/// Checks what holds of each catalog; `before` and `runs` are those of the previous one.
pub fn of_catalog(model: &mut Model, before: &Served, runs: &BTreeMap<String, Generation>) {
    for check in [no_fact_before_the_mesh, no_fact_of_another_uid] {
        let found = check(model);
        for text in found {
            model.violated(name_of(check), text);
        }
    }
    for text in both_registries_serve_one_lane(model) {
        model.violated("both_registries_serve_one_lane", text);
    }
    for text in adopted_only_when_complete(model, before, runs) {
        model.violated("adopted_only_when_complete", text);
    }
}

type Check = fn(&Model) -> Vec<String>;

fn name_of(check: Check) -> &'static str {
    if std::ptr::fn_addr_eq(check, no_fact_before_the_mesh as Check) {
        "no_fact_before_the_mesh"
    } else {
        "no_fact_of_another_uid"
    }
}

/// Checks what holds of a change that clients see.
pub fn of_change(model: &mut Model, now: &Served) {
    for text in decreases_have_evidence(model, now) {
        model.violated("decreases_have_evidence", text);
    }
    for text in content_never_returns(model, now) {
        model.violated("content_never_returns", text);
    }
}

/// G7, G13: an address that clients saw go is never served again.
fn content_never_returns(model: &Model, now: &Served) -> Vec<String> {
    let returned = now.iter().filter(|(cluster, endpoint)| {
        !model.seen.has(cluster, endpoint)
            && model.gone.contains(&((*cluster).to_owned(), (*endpoint).clone()))
    });
    returned.map(|(cluster, endpoint)| format!("{cluster} {endpoint:?} is served again")).collect()
}

/// G1, G2, G3, G6, G9: an address that goes was deleted, and the cluster answered since; or its cluster was removed.
fn decreases_have_evidence(model: &Model, now: &Served) -> Vec<String> {
    let went = model.seen.iter().filter(|(cluster, endpoint)| !now.has(cluster, endpoint));
    let unexplained = went.filter(|(cluster, endpoint)| !is_explained(model, cluster, endpoint));
    unexplained.map(|(cluster, endpoint)| format!("{cluster} {endpoint:?} went without evidence")).collect()
}

fn is_explained(model: &Model, cluster: &str, (_, ip): &Endpoint) -> bool {
    let Some(truth) = model.clusters.get(cluster) else { return false };
    let Some(life) = truth.lives.get(ip) else { return true };
    let answered = truth.site.delivered(&ENDPOINT_KINDS);
    let was_deleted = life.deleted.is_some_and(|at| answered.is_some_and(|answered| answered >= at));
    was_deleted || life.incarnation != truth.accepted || may_leave(model, cluster)
}

/// Whether a cluster may be removed: no claim for the grace, and the list of Secrets was read since.
#[must_use]
pub fn may_leave(model: &Model, cluster: &str) -> bool {
    let Some(claims) = model.roster.claims.get(cluster) else { return false };
    let secrets = model.clusters[HOME].site.delivered(&["secrets"]);
    let was_read = |since: Instant| secrets.is_some_and(|read| read >= since);
    let is_gone = |since: Instant| since.elapsed() >= GRACE && was_read(since);
    claims.gone.is_some_and(is_gone) || claims.returned.is_some_and(|at| at.elapsed() < LEAVING)
}

/// G19: what is served exists in the incarnation of the cluster that the operator accepts.
fn no_fact_of_another_uid(model: &Model) -> Vec<String> {
    let wrong = model.served.iter().filter(|(cluster, (_, ip))| {
        let life =
            model.clusters.get(*cluster).and_then(|truth| Some((truth.lives.get(ip)?, truth.accepted)));
        life.is_none_or(|(life, accepted)| life.incarnation > accepted)
    });
    wrong.map(|(cluster, endpoint)| format!("{cluster} {endpoint:?} belongs to another cluster")).collect()
}

/// Nothing is served that the mesh configuration excludes, also before it is known.
fn no_fact_before_the_mesh(model: &Model) -> Vec<String> {
    let excluded = format!(".{HIDDEN}.");
    let wrong = model.served.iter().filter(|(_, (host, _))| host.contains(&excluded));
    wrong.map(|(cluster, endpoint)| format!("{cluster} {endpoint:?} is not selected")).collect()
}

/// Both registries of a remote cluster are served by runs of one lane. A journal is restored one registry after the other, before
/// clients are answered.
fn both_registries_serve_one_lane(model: &Model) -> Vec<String> {
    let Some(platform) = model.platform.as_ref().filter(|_| model.is_ready) else { return Vec::new() };
    let runs = platform.runs();
    let lane = |registry: String| -> Option<Option<LaneRun>> {
        let generation = model.generations.get(&registry)?;
        Some(runs.get(&(registry, *generation)).copied())
    };
    let mut wrong = Vec::new();
    for cluster in model.clusters.keys().filter(|name| *name != HOME) {
        let (objects, entries) = (lane(cluster.clone()), lane(format!("{cluster}-entries")));
        let lanes = [objects, entries].map(|run| run.map(|run| run.map(|run| run.lane)));
        let was_restored = model.restored.contains(cluster);
        let is_wrong = match lanes {
            [Some(Some(objects)), Some(Some(entries))] => objects != entries,
            [Some(objects), Some(entries)] => was_restored && objects.is_some() != entries.is_some(),
            // nothing was served before it joined
            _ => false,
        };
        if is_wrong {
            wrong.push(format!("{cluster} is served by the lanes {lanes:?}"));
        }
    }
    wrong
}

/// G4: a run that takes over has every endpoint that existed when it began, if it could read all of them.
fn adopted_only_when_complete(
    model: &Model,
    before: &Served,
    served_by: &BTreeMap<String, Generation>,
) -> Vec<String> {
    let Some(platform) = &model.platform else { return Vec::new() };
    let runs = platform.runs();
    let mut wrong = Vec::new();
    for (cluster, truth) in &model.clusters {
        let now = model.generations.get(cluster);
        let Some(generation) = now.filter(|now| served_by.get(cluster) != Some(*now)) else { continue };
        let Some(run) = runs.get(&(cluster.clone(), *generation)) else { continue };
        let could_read = truth.site.up_since().is_some_and(|up| up <= run.began)
            && !truth.is_restricted
            && truth.unrestricted <= run.began;
        if !could_read || before.cluster(cluster).is_empty() {
            continue;
        }
        let lacks = truth.lives.iter().filter(|(ip, life)| {
            let must = life.incarnation == truth.accepted
                && life.deleted.is_none()
                && life.created < run.began
                && !life.host.contains(HIDDEN);
            must && !model.served.has(cluster, &(life.host.clone(), **ip))
        });
        wrong.extend(lacks.map(|(ip, _)| format!("{cluster} was taken over without {ip}")));
    }
    wrong
}

/// State of a cluster as the process shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Name.
    pub name: String,
    /// State.
    pub state: String,
    /// Reason.
    pub reason: String,
}

/// Checks what holds after each step.
pub fn of_step(model: &mut Model, shown: &[Shown]) {
    for text in live_only_if_confirmed(model, shown) {
        model.violated("live_only_if_confirmed", text);
    }
    for text in refusals_show_in_time(model, shown) {
        model.violated("refusals_show_in_time", text);
    }
    for text in removed_clusters_are_gone(model, shown) {
        model.violated("removed_clusters_are_gone", text);
    }
}

/// G24: a cluster is shown as live only while its answers are young, and never before this process received one.
fn live_only_if_confirmed(model: &Model, shown: &[Shown]) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in shown.iter().filter(|one| one.state == "Live") {
        let Some(truth) = model.clusters.get(&one.name) else { continue };
        let answered = truth.site.delivered(&["endpointslices"]);
        if answered.is_none_or(|at| at.elapsed() > LIVE_BOUND) {
            let ago = answered.map(|at| at.elapsed());
            wrong.push(format!("{} is shown as live, {ago:?} after its last answer", one.name));
        }
    }
    wrong
}

/// G20: a refused credential shows within two probes, by default a minute.
fn refusals_show_in_time(model: &Model, shown: &[Shown]) -> Vec<String> {
    let bound = model.probe * 2 + REFUSAL_SLACK;
    let late = shown.iter().filter(|one| {
        let since = model.clusters.get(&one.name).and_then(|truth| truth.refused_since);
        let is_late = since.is_some_and(|at| at.max(model.process_start).elapsed() > bound);
        is_late && one.state == "Live"
    });
    late.map(|one| format!("{} is shown as live although its credential is refused", one.name)).collect()
}

/// G7: nothing of a removed cluster is left after the grace, the drain and the stop of its runs.
fn removed_clusters_are_gone(model: &Model, shown: &[Shown]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (cluster, claims) in &model.roster.claims {
        let Some(since) = claims.gone else { continue };
        let Some(up) = model.clusters[HOME].site.up_since() else { continue };
        if since.max(up).max(model.process_start).elapsed() < REMOVAL_BOUND {
            continue;
        }
        let is_shown = shown.iter().any(|one| one.name == *cluster);
        if is_shown || !model.served.cluster(cluster).is_empty() {
            wrong.push(format!("{cluster} is still there, {:?} after its last claim", since.elapsed()));
        }
    }
    wrong
}
