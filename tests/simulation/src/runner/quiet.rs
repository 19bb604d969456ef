//! Quiet times: rotations that must send nothing, and the end of a run, where the truth must be served.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Run;
use super::act::claim;
use crate::invariants::Shown;
use crate::observer::Model;
use crate::secrets::{Claims, Kubeconfig};
use crate::site::Link;
use crate::world::HOME;

/// Time within which the truth is served after everything is healed.
const CONVERGES: Duration = Duration::from_secs(240);
/// The same where events were lost: an audit finds them.
const CONVERGES_BY_AUDIT: Duration = Duration::from_secs(600);

/// Time within which a kind that could not be read before is read.
const SETTLES: Duration = Duration::from_secs(35);
/// Time that is then watched.
const STAYS: Duration = Duration::from_secs(10);

impl Run {
    /// Whether a cluster is served as it is, and nothing about it changes.
    pub(super) async fn is_quiet(&self, cluster: &str) -> bool {
        let shown = self.shown().await;
        let is_live = shown.iter().any(|one| one.name == cluster && one.state == "Live");
        let runs = self.handle().runs();
        let is_filling =
            runs.iter().any(|(name, run)| name.as_str().starts_with(cluster) && run.shadow.is_some());
        let model = self.model.lock();
        let truth = &model.clusters[cluster];
        is_live
            && model.is_ready
            && !is_filling
            && truth.site.link() == Link::Up
            && model.clusters[HOME].site.link() == Link::Up
            && truth.incarnation == truth.accepted
            && !truth.is_restricted
            && model.served.cluster(cluster) == truth.truth()
    }
    /// Notes a violation if a cluster is not served as it is.
    pub(super) fn must_be_served(&self, invariant: &'static str, cluster: &str) {
        let mut model = self.model.lock();
        let (served, truth) = (model.served.cluster(cluster), model.clusters[cluster].truth());
        if served != truth {
            model.violated(invariant, format!("{cluster} serves {served:?}, not {truth:?}"));
        }
    }
    /// Rotates while nothing else happens: no resource may be sent.
    pub(super) async fn rotate_quietly(&mut self, cluster: &str) {
        if !self.is_quiet(cluster).await || !is_calm(&self.model.lock()) {
            return;
        }
        self.model.lock().take_changes();
        let before = self.generation(cluster);
        claim(&mut self.model.lock(), cluster, true, true);
        for _ in 0..60 {
            self.wait(Duration::from_millis(500)).await;
            if self.generation(cluster) != before {
                break;
            }
        }
        self.wait(Duration::from_secs(1)).await;
        let mut model = self.model.lock();
        let own: Vec<String> = model.clusters[cluster].services.keys().cloned().collect();
        let mut changed = model.take_changes();
        changed.retain(|host| own.iter().any(|service| host.starts_with(service.as_str())));
        if !changed.is_empty() && is_calm(&model) {
            let text = format!("a rotation of {cluster} changed {changed:?}");
            model.violated("equal_facts_send_nothing", text);
        }
    }
    fn generation(&self, cluster: &str) -> Option<tributary_model::Generation> {
        self.model.lock().generations.get(cluster).copied()
    }
    /// Heals everything, and waits until the truth is served and shown as live.
    pub(super) async fn converge(&mut self) {
        self.model.lock().note("heal");
        self.heal();
        let limit = if self.silent { CONVERGES_BY_AUDIT } else { CONVERGES };
        let mut waited = Duration::ZERO;
        while !self.is_converged().await {
            if waited >= limit {
                return self.report_divergence().await;
            }
            let step = Duration::from_secs(if waited < Duration::from_secs(10) { 1 } else { 5 });
            self.wait(step).await;
            waited += step;
            self.check().await;
            if !self.model.lock().violations.is_empty() {
                return;
            }
        }
        self.model.lock().note(&format!("converged after {} s", waited.as_secs()));
        self.stay().await;
    }
    /// Waits until attributes that came late are served too; then nothing may change any more.
    async fn stay(&mut self) {
        if self.model.lock().was_impaired {
            self.wait(SETTLES).await;
        }
        self.model.lock().take_changes();
        self.wait(STAYS).await;
        self.check().await;
        let mut model = self.model.lock();
        let changed = model.take_changes();
        if !changed.is_empty() {
            model.violated("equal_facts_send_nothing", format!("{changed:?} changed although nothing did"));
        }
    }
    fn heal(&self) {
        self.disk.set_failing(false);
        let mut guard = self.model.lock();
        let model = &mut *guard;
        let mut lost = Vec::new();
        for (name, truth) in &mut model.clusters {
            truth.site.set_link(Link::Up);
            truth.lift();
            truth.refused_since = None;
            if truth.incarnation != truth.accepted {
                truth.swap();
            }
            // a run can begin with the credential in use before the next one is read
            truth.site.last_token().iter().for_each(|token| truth.allow(token));
            let claims = model.roster.claims.get(name).cloned().unwrap_or_default();
            match claims.best() {
                Some(Kubeconfig::For { site, token }) if site == name => truth.allow(token),
                None if !claims.is_any() => {}
                _ => lost.push(name.clone()),
            }
        }
        for name in lost {
            claim(model, &name, true, true);
        }
    }
    async fn is_converged(&self) -> bool {
        self.differences().await.is_empty()
    }
    /// Returns what differs from the truth.
    async fn differences(&self) -> Vec<String> {
        let shown = self.shown().await;
        let model = self.model.lock();
        let mut out: Vec<String> =
            model.clusters.keys().filter_map(|name| difference(&model, &shown, name)).collect();
        out.extend((!model.is_ready).then(|| "the process is not ready".to_owned()));
        out
    }
    async fn report_divergence(&self) {
        let mut text = self.differences().await.join("; ");
        if let Some(process) = &self.process {
            let view = process.board.view();
            text.push_str(&format!("; claims {:?}; {:?}", self.model.lock().roster.claims, view.roster));
        }
        let is_claim = text.contains("is read with");
        let name = if is_claim { "best_claim_serves" } else { "truth_is_served_after_healing" };
        self.model.lock().violated(name, text);
    }
}

/// Whether no other cluster can change what is served.
fn is_calm(model: &Model) -> bool {
    let is_calm = |(name, truth): (&String, &crate::world::ClusterTruth)| {
        truth.site.link() == Link::Up && model.served.cluster(name) == truth.truth()
    };
    model.clusters.iter().all(is_calm)
}

/// Returns in what a cluster differs from the truth.
fn difference(model: &Model, shown: &[Shown], name: &str) -> Option<String> {
    let truth = &model.clusters[name];
    let shown = shown.iter().find(|one| one.name == name);
    let state = shown.map(|one| format!("{} ({})", one.state, one.reason)).unwrap_or_default();
    let claims = model.roster.claims.get(name);
    let is_declared = name == HOME || claims.is_some_and(Claims::is_any);
    let expected = if is_declared { truth.truth() } else { BTreeSet::new() };
    let served = model.served.cluster(name);
    let best = claims.and_then(Claims::best);
    if let Some(Kubeconfig::For { token, .. }) = best
        && truth.site.last_token().as_ref() != Some(token)
    {
        return Some(format!("{name} is read with {:?}, not {token}", truth.site.last_token()));
    }
    if served != expected {
        return Some(format!("{name} {state} serves {served:?}, not {expected:?}"));
    }
    if is_declared && !state.starts_with("Live") {
        return Some(format!("{name} is {state}"));
    }
    (!is_declared && !state.is_empty()).then(|| format!("{name} was removed and is {state}"))
}
