//! Status of the source, from the state of each kind: the worst of the required kinds.
//!
//! A refused or failing optional kind degrades alone: it shows as a part, and in the reason of a source that is
//! otherwise live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;
use tributary_model::{SourceDetail, SourcePart, SourceState, SourceStatus};

use super::watches::WatchSet;
use crate::collections::{Listing, Part};
use crate::kind::{Kind, WatchScope};

/// Detail of a cluster that follows the mesh configuration of the config cluster and whose own may not be read.
const SPARED: &str = "it may not be read; of it only the trust domain would count";

/// Last status of a watch, and its time.
struct PartReport {
    part: SourcePart,
    at: Instant,
}

impl PartReport {
    /// Returns the status at this time: it has lasted longer, and the next attempt is nearer.
    fn by(&self, now: Instant) -> SourcePart {
        let passed = now.saturating_duration_since(self.at);
        SourcePart {
            lasted: self.part.lasted.saturating_add(passed),
            retry_in: self.part.retry_in.map(|left| left.saturating_sub(passed)),
            ..self.part.clone()
        }
    }
}

/// Last status of each watch.
pub(super) struct SourceHealth {
    parts: BTreeMap<WatchScope, PartReport>,
    optional: BTreeSet<WatchScope>,
    /// Kind that may be refused without an effect, if there is one.
    spare: Option<Kind>,
    server: Arc<str>,
    credential: Arc<str>,
    recovered: u64,
    /// Whether a status was reported since the last call.
    changed: bool,
}

impl SourceHealth {
    pub(super) fn new(set: &WatchSet) -> Self {
        let at = Instant::now();
        let part = |plural: &str| PartReport {
            part: SourcePart { name: plural.into(), ..SourcePart::default() },
            at,
        };
        Self {
            parts: set.planned.iter().map(|p| (p.scope.clone(), part(p.resource.plural))).collect(),
            optional: set.planned.iter().filter(|p| p.resource.optional).map(|p| p.scope.clone()).collect(),
            spare: None,
            server: set.server.as_str().into(),
            credential: set.credential.as_str().into(),
            recovered: 0,
            changed: true,
        }
    }
    /// Shows a refused kind as a detail, not as a failed part.
    pub(super) const fn spare(&mut self, kind: Kind) {
        self.spare = Some(kind);
    }
    fn is_spared(&self, scope: &WatchScope, part: &SourcePart) -> bool {
        self.spare == Some(scope.kind) && part.state == SourceState::Forbidden
    }
    /// Records the status of a watch.
    pub(super) fn report(&mut self, scope: &WatchScope, part: SourcePart) {
        self.parts.insert(scope.clone(), PartReport { part, at: Instant::now() });
        self.changed = true;
    }
    /// Records recovered events of an audit.
    pub(super) const fn recovered(&mut self, lost: u64) {
        self.changed = true;
        self.recovered = self.recovered.saturating_add(lost);
    }
    /// Lets the status count as changed.
    pub(super) const fn report_again(&mut self) {
        self.changed = true;
    }
    /// Whether a status was reported since the last call.
    pub(super) const fn take_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }
    /// Returns the watch scopes.
    pub(super) fn watch_scopes(&self) -> impl Iterator<Item = &WatchScope> {
        self.parts.keys()
    }
    /// Whether a watch is followed.
    pub(super) fn is_live(&self, scope: &WatchScope) -> bool {
        self.parts.get(scope).is_some_and(|reported| reported.part.state == SourceState::Live)
    }
    /// Whether any other watch is followed.
    pub(super) fn is_any_live_but(&self, scope: &WatchScope) -> bool {
        self.parts.keys().any(|other| other != scope && self.is_live(other))
    }
    /// Returns the status of a part. The cluster shows every kind. An optional kind has the state of the required kinds: its
    /// own failure shows in its collections, and in the parts of the cluster.
    pub(super) fn of_part(&self, part: Part, whole: &SourceStatus) -> SourceStatus {
        part.kind().map_or_else(|| whole.clone(), |kind| self.beside(kind))
    }
    fn beside(&self, kind: Kind) -> SourceStatus {
        let joined = Listing::ALL.into_iter().filter(|listing| listing.part.kind() == Some(kind));
        let joined: BTreeSet<Kind> = joined.flat_map(|listing| listing.joined().iter().copied()).collect();
        let required = self
            .parts
            .iter()
            .filter(|(scope, _)| joined.contains(&scope.kind) && !self.optional.contains(scope));
        // a kind that is refused alone is withheld, which its own collections show
        let counted = required.filter(|(_, reported)| reported.part.state != SourceState::Forbidden);
        let worst = counted.map(|(_, reported)| &reported.part).max_by_key(|part| part.state);
        let state = worst.map_or(SourceState::Live, |part| part.state);
        let reason = worst.map(|part| Arc::clone(&part.reason)).unwrap_or_default();
        SourceStatus::new(state, reason)
    }
    /// Returns the status as reported, with details of the cluster; equal as long as no watch reports.
    pub(super) fn status(&self, of_cluster: Vec<SourceDetail>) -> SourceStatus {
        self.whole(of_cluster, |reported| reported.part.clone())
    }
    /// Returns the status as of now.
    pub(super) fn now(&self, of_cluster: Vec<SourceDetail>) -> SourceStatus {
        let now = Instant::now();
        self.whole(of_cluster, |reported| reported.by(now))
    }
    fn whole(&self, of_cluster: Vec<SourceDetail>, part: impl Fn(&PartReport) -> SourcePart) -> SourceStatus {
        let required = self.kinds(&part, |scope| !self.optional.contains(scope));
        let worst = required.values().max_by_key(|part| part.state);
        let optional = self.kinds(&part, |scope| self.optional.contains(scope));
        let mut status = worst.map_or_else(SourceStatus::default, |worst| SourceStatus {
            retry_in: worst.retry_in,
            ..SourceStatus::new(worst.state, Arc::clone(&worst.reason))
        });
        if status.state == SourceState::Live {
            let without: Vec<&str> = optional
                .values()
                .filter(|part| part.state.is_failure())
                .map(|part| part.reason.as_ref())
                .collect();
            status.reason = without.join("; ").into();
        }
        status.parts = self.kinds(&part, |_| true).into_values().collect();
        status.details = self.details().into_iter().chain(of_cluster).collect();
        status
    }

    fn details(&self) -> Vec<SourceDetail> {
        let mut details = vec![
            SourceDetail::text("server", Arc::clone(&self.server)),
            SourceDetail::text("credential", Arc::clone(&self.credential)),
        ];
        if self.recovered > 0 {
            details.push(SourceDetail::number("healed", self.recovered));
        }
        if self.parts.iter().any(|(scope, reported)| self.is_spared(scope, &reported.part)) {
            details.push(SourceDetail::text("own mesh configuration", SPARED));
        }
        details
    }

    /// Returns a part per kind: the worst of its watches, with its namespace if there are several.
    fn kinds(
        &self,
        part: impl Fn(&PartReport) -> SourcePart,
        counts: impl Fn(&WatchScope) -> bool,
    ) -> BTreeMap<Kind, SourcePart> {
        let mut kinds: BTreeMap<Kind, SourcePart> = BTreeMap::new();
        let shown = |scope: &WatchScope, part: &SourcePart| counts(scope) && !self.is_spared(scope, part);
        for (scope, reported) in self.parts.iter().filter(|(scope, one)| shown(scope, &one.part)) {
            let named = || match (&scope.namespace, part(reported)) {
                (Some(namespace), part) if part.state.is_failure() => {
                    let reason = format!("{} (in {namespace})", part.reason).into();
                    SourcePart { reason, ..part }
                }
                (_, part) => part,
            };
            match kinds.get_mut(&scope.kind) {
                Some(held) if held.state >= reported.part.state => {}
                Some(held) => *held = named(),
                None => drop(kinds.insert(scope.kind, named())),
            }
        }
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_model::Namespace;

    fn mk_health(scopes: &[(WatchScope, bool)]) -> SourceHealth {
        SourceHealth {
            parts: BTreeMap::new(),
            spare: None,
            optional: scopes
                .iter()
                .filter(|(_, optional)| *optional)
                .map(|(scope, _)| scope.clone())
                .collect(),
            server: "https://api".into(),
            credential: "a token".into(),
            recovered: 0,
            changed: true,
        }
    }

    fn mk_part(name: &str, state: SourceState, reason: &str) -> SourcePart {
        SourcePart { name: name.into(), state, reason: reason.into(), ..SourcePart::default() }
    }

    #[test]
    fn worst_required_kind_decides_the_status() {
        let (pods, services) = (WatchScope::all(Kind::Pod), WatchScope::all(Kind::Service));
        let mut health = mk_health(&[(pods.clone(), false), (services.clone(), false)]);
        health.report(&pods, mk_part("pods", SourceState::Unreachable, "away"));
        health.report(&services, mk_part("services", SourceState::AuthFailed, "401"));
        let status = health.status(Vec::new());
        assert_eq!((status.state, &*status.reason), (SourceState::AuthFailed, "401"));
        assert_eq!(status.parts.len(), 2);
    }

    #[test]
    fn optional_kind_degrades_alone() {
        let (pods, gateways) = (WatchScope::all(Kind::Pod), WatchScope::all(Kind::Gateway));
        let mut health = mk_health(&[(pods.clone(), false), (gateways.clone(), true)]);
        health.report(&pods, mk_part("pods", SourceState::Live, ""));
        health.report(&gateways, mk_part("gateways", SourceState::Forbidden, "list of gateways: 403"));
        let status = health.status(Vec::new());
        assert_eq!((status.state, &*status.reason), (SourceState::Live, "list of gateways: 403"));
        health.report(&gateways, mk_part("gateways", SourceState::Live, "not served"));
        assert_eq!(&*health.status(Vec::new()).reason, "", "an unserved kind is no failure");
    }

    #[test]
    fn worst_namespace_of_a_kind_is_named() {
        let of = |name: &str| WatchScope { kind: Kind::Pod, namespace: Some(Namespace::new(name).unwrap()) };
        let mut health = mk_health(&[(of("a"), false)]);
        for (name, state) in
            [("a", SourceState::Live), ("b", SourceState::Forbidden), ("c", SourceState::Live)]
        {
            health.report(&of(name), mk_part("pods", state, "403"));
        }
        let status = health.status(Vec::new());
        assert_eq!((status.parts.len(), &*status.reason), (1, "403 (in b)"));
    }

    #[tokio::test(start_paused = true)]
    async fn part_ages_when_another_watch_reports() {
        let secs = std::time::Duration::from_secs;
        let (pods, services) = (WatchScope::all(Kind::Pod), WatchScope::all(Kind::Service));
        let mut health = mk_health(&[(pods.clone(), false), (services.clone(), false)]);
        let refused = mk_part("pods", SourceState::AuthFailed, "401");
        health.report(&pods, SourcePart { lasted: secs(5), retry_in: Some(secs(12)), ..refused });
        let before = health.status(Vec::new());
        tokio::time::advance(secs(10)).await;
        assert_eq!(health.status(Vec::new()), before, "passed time alone changes nothing");
        health.report(&services, mk_part("services", SourceState::Live, ""));
        let now = health.now(Vec::new());
        let part = now.parts.iter().find(|part| &*part.name == "pods").unwrap();
        assert_eq!((part.lasted, part.retry_in), (secs(15), Some(secs(2))));
        assert_eq!((now.state, now.retry_in), (SourceState::AuthFailed, Some(secs(2))));
    }

    #[test]
    fn recovered_events_are_counted() {
        let mut health = mk_health(&[]);
        health.recovered(2);
        health.recovered(1);
        assert!(health.status(Vec::new()).details.contains(&SourceDetail::number("healed", 3)));
    }
}
