//! Takes one step.

use std::time::Duration;

use tokio::time::Instant;

use super::Run;
use crate::bugs::Bug;
use crate::invariants::LEAVING;
use crate::observer::Model;
use crate::plan::{Rotation, Step};
use crate::secrets::{Claims, Kubeconfig};
use crate::served::Served;
use crate::site::{Grant, Link};
use crate::world::{ClusterTruth, HOME};

impl Run {
    /// Takes a step.
    pub(super) async fn act(&mut self, step: Step) {
        match step {
            Step::Restart(loses_power) => self.restart(loses_power).await,
            Step::RotateQuietly(cluster) => self.rotate_quietly(&cluster).await,
            Step::Isolate(frozen, other) => self.isolate(&frozen, &other).await,
            Step::Wait(time) => self.wait(time).await,
            Step::Outage(cluster, time, breaks) => self.outage(&cluster, time, breaks).await,
            Step::Rotate(cluster, Rotation::Valid) if self.bug == Some(Bug::AdoptedAlone) => {
                self.rotate_alone(&cluster).await;
            }
            Step::Disk(fails) => self.disk.set_failing(fails),
            Step::Clock(hours) => self.disk.skew(hours),
            Step::Disconnect(cluster) => self.sites[&cluster].disconnect(),
            Step::Expire(cluster) => {
                self.sites[&cluster].server.compact();
                self.sites[&cluster].disconnect();
            }
            step => {
                let mut model = self.model.lock();
                model.was_impaired |= matches!(
                    step,
                    Step::Link(_, Link::Flaky) | Step::Deny(..) | Step::Rotate(_, Rotation::Weaker)
                );
                change(&mut model, step);
            }
        }
    }
    /// Rotates one registry of a cluster without the other, as a bug would.
    async fn rotate_alone(&self, cluster: &str) {
        let alone = self.process.as_ref().and_then(|process| process.platform.entries_alone(cluster));
        let Some(alone) = alone else { return };
        // the cluster may not have joined
        let _ = self.handle().rotate(alone).await;
    }
    /// Whether another cluster answers in place of one, or a claim leads to another one.
    fn is_astray(&self) -> bool {
        let model = self.model.lock();
        let mut claims = model.roster.claims.iter();
        let leads_away = claims.any(|(name, claims)| {
            [&claims.first, &claims.second]
                .into_iter()
                .flatten()
                .any(|claim| matches!(claim, Kubeconfig::For { site, .. } if site != name))
        });
        leads_away || model.clusters.values().any(|truth| truth.incarnation != truth.accepted)
    }
    /// Kills the process and starts it again.
    async fn restart(&mut self, loses_power: bool) {
        self.process = None;
        tokio::task::yield_now().await;
        if loses_power {
            self.disk.lose_power(&mut self.numbers);
        }
        if self.is_astray() {
            // a process without its journal would pin the identity of the cluster that answers now
            self.disk.set_failing(false);
        }
        self.model.lock().restarted();
        let down = self.dice.millis(5_000);
        self.wait(down).await;
        self.start().await;
    }
    /// Freezes a cluster for a time, and checks meanwhile.
    async fn outage(&self, cluster: &str, time: Duration, breaks: bool) {
        let before = self.sites[cluster].link();
        change(&mut self.model.lock(), Step::Link(cluster.to_owned(), Link::Frozen));
        let mut left = time;
        while !left.is_zero() {
            let part = left.min(Duration::from_secs(20));
            self.wait(part).await;
            self.check().await;
            left -= part;
        }
        if breaks {
            self.sites[cluster].disconnect();
        }
        self.sites[cluster].set_link(before);
    }
    /// Freezes one cluster; a change of another one must be served soon.
    async fn isolate(&self, frozen: &str, other: &str) {
        if frozen == other || !self.is_quiet(other).await {
            return;
        }
        let before = self.sites[frozen].link();
        self.sites[frozen].set_link(Link::Frozen);
        self.wait(Duration::from_secs(40)).await;
        if self.is_quiet(other).await {
            self.model.lock().clusters.get_mut(other).expect("a cluster").add_endpoint("own", false, false);
            self.wait(Duration::from_secs(5)).await;
            self.must_be_served("one_cluster_costs_others_nothing", other);
        }
        self.sites[frozen].set_link(before);
    }
}

/// Takes a step that only changes the model.
fn change(model: &mut Model, step: Step) {
    match step {
        Step::Add(cluster, service, has_pod, silently) => {
            truth(model, &cluster).add_endpoint(&service, has_pod, silently);
        }
        Step::Remove(cluster, service, ip, silently) => {
            truth(model, &cluster).remove_endpoint(&service, ip, silently);
        }
        Step::RemoveService(cluster, service) => truth(model, &cluster).remove_service(&service),
        Step::Link(cluster, link) => {
            truth(model, &cluster).refused_since = None;
            truth(model, &cluster).site.set_link(link);
        }
        Step::Refuse(cluster, refuses) => refuse(model, &cluster, refuses),
        Step::Deny(cluster, kind) => deny(model, &cluster, kind),
        Step::Rotate(cluster, rotation) => rotate(model, &cluster, rotation),
        Step::Claim(cluster, comes) => claim(model, &cluster, comes, true),
        Step::Second(cluster, comes) => claim(model, &cluster, comes, false),
        Step::Swap(cluster) => swap(model, &cluster),
        _ => {}
    }
}

pub(super) fn truth<'m>(model: &'m mut Model, cluster: &str) -> &'m mut ClusterTruth {
    model.clusters.get_mut(cluster).expect("a cluster of the world")
}

/// Returns the credential of the claim that must serve a cluster at its own site.
fn token(model: &Model, cluster: &str) -> Option<String> {
    match model.roster.claims.get(cluster)?.best()? {
        Kubeconfig::For { site, token } if site == cluster => Some(token.clone()),
        _ => None,
    }
}

fn refuse(model: &mut Model, cluster: &str, refuses: bool) {
    let Some(token) = token(model, cluster) else { return };
    let truth = truth(model, cluster);
    if refuses {
        truth.site.revoke_all();
    } else {
        let grant = truth.site.granted(&token).unwrap_or_default();
        truth.site.grant(&token, Grant { revoked: false, ..grant });
    }
    let is_up = truth.site.link() == Link::Up;
    truth.refused_since = (refuses && is_up).then(Instant::now);
}

fn deny(model: &mut Model, cluster: &str, kind: Option<&'static str>) {
    let Some(token) = token(model, cluster) else { return };
    let truth = truth(model, cluster);
    let grant = truth.site.granted(&token).unwrap_or_default();
    truth.restrict(kind.is_some());
    let denied = kind.into_iter().map(str::to_owned).collect();
    truth.site.grant(&token, Grant { denied, ..grant });
}

fn rotate(model: &mut Model, cluster: &str, rotation: Rotation) {
    let token = model.roster.token(cluster);
    let is_other = |name: &&String| *name != HOME && *name != cluster;
    let other = model.clusters.keys().find(is_other).map_or(HOME, String::as_str).to_owned();
    if rotation == Rotation::WrongCluster && !is_pinned(model, cluster) {
        return;
    }
    let truth = truth(model, cluster);
    truth.refused_since = None;
    let claim = match rotation {
        Rotation::Garbage => Kubeconfig::Garbage,
        Rotation::WrongCluster => {
            model.clusters[&other].allow(&token);
            Kubeconfig::For { site: other, token }
        }
        Rotation::Valid | Rotation::Refused | Rotation::Weaker => {
            let is_weaker = rotation == Rotation::Weaker;
            truth.restrict(is_weaker);
            let denied = is_weaker.then(|| "pods".to_owned()).into_iter().collect();
            truth.site.grant(&token, Grant { revoked: rotation == Rotation::Refused, denied });
            Kubeconfig::For { site: cluster.to_owned(), token }
        }
    };
    let home = model.clusters[HOME].site.clone();
    model.roster.set_first(&home, cluster, Some(claim));
}

/// Removes or writes a claim with a valid credential. Never while another cluster answers: without a claim the identity would be
/// forgotten.
pub(super) fn claim(model: &mut Model, cluster: &str, comes: bool, is_first: bool) {
    let truth = truth(model, cluster);
    if truth.incarnation != truth.accepted {
        return;
    }
    truth.refused_since = None;
    let claim = comes.then(|| {
        let token = model.roster.token(cluster);
        model.clusters[cluster].allow(&token);
        Kubeconfig::For { site: cluster.to_owned(), token }
    });
    let home = model.clusters[HOME].site.clone();
    if is_first {
        model.roster.set_first(&home, cluster, claim);
    } else {
        model.roster.set_second(&home, cluster, claim);
    }
}

/// Whether the identity of a cluster is pinned, also on disk, so that the next contact cannot pin another one.
fn is_pinned(model: &Model, cluster: &str) -> bool {
    let has = |served: &Served| !served.cluster(cluster).is_empty();
    let stays = |claims: &Claims| claims.is_any() && claims.returned.is_none_or(|at| at.elapsed() > LEAVING);
    has(&model.served)
        && model.commits.len() == 2
        && model.commits.iter().all(|commit| has(&commit.served))
        && model.roster.claims.get(cluster).is_some_and(stays)
}

/// Lets another cluster answer.
fn swap(model: &mut Model, cluster: &str) {
    let is_known = is_pinned(model, cluster);
    let truth = truth(model, cluster);
    if is_known || truth.incarnation != truth.accepted {
        truth.swap();
    }
}
