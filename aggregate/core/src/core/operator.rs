//! Operator commands: release a held removal, end a scope that no longer exists, accept a waiting run.
//!
//! Called by the core task for admin requests.

use tributary_model::{CollectionKind, Evidence, FactKey, Mono, RegistryName, Scope};

use super::{ApplyOutcome, Core};
use crate::ingest;
use crate::ledger::Registry;

/// Facts that [`Core::end`] would remove.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EndPlan {
    /// The scope.
    pub scope: Scope,
    /// Kind of the facts.
    pub kind: CollectionKind,
    /// Number of served facts.
    pub facts: u64,
    /// True if the source still confirms them: the next list would add them again.
    pub live: bool,
}

impl Core {
    /// Applies a held removal; `None` if the removal is not held.
    pub fn release(&mut self, now: Mono, registry: &RegistryName, key: &FactKey) -> Option<ApplyOutcome> {
        self.begin(now);
        let released = self.state.release(registry, key);
        let outcome = self.finish();
        released.then_some(outcome)
    }

    /// Returns what ending a registry, one of its scopes, or one kind of facts in a scope would remove.
    #[must_use]
    pub fn end_plan(
        &self,
        name: &RegistryName,
        scope: Option<&Scope>,
        kind: Option<CollectionKind>,
    ) -> Vec<EndPlan> {
        let Some(registry) = self.registries.get(name) else { return Vec::new() };
        let scopes = registry.ledger.scopes.iter().filter(|(of, _)| scope.is_none_or(|only| only == *of));
        let kinds = || CollectionKind::ALL.into_iter().filter(move |of| kind.is_none_or(|only| only == *of));
        scopes
            .flat_map(|(scope, scoped)| {
                kinds().map(move |kind| EndPlan {
                    scope: scope.clone(),
                    kind,
                    facts: scoped.tables.len(kind) as u64,
                    live: scoped.list(kind).freshness == tributary_model::Freshness::Live,
                })
            })
            .filter(|plan| plan.facts > 0)
            .collect()
    }

    /// Removes what [`Core::end_plan`] returns for the same arguments.
    pub fn end(
        &mut self,
        now: Mono,
        name: &RegistryName,
        scope: Option<&Scope>,
        kind: Option<CollectionKind>,
    ) -> ApplyOutcome {
        self.begin(now);
        let plan = self.end_plan(name, scope, kind);
        if let Some(registry) = self.registries.get_mut(name) {
            for part in plan {
                ingest::end_part(registry, &mut self.state, &part.scope, part.kind, &Evidence::Operator);
            }
            self.state.dirty.registries.insert(name.clone());
        }
        self.finish()
    }
}

impl Registry {
    /// Accepts the identity or the weaker lists that keep a run from serving. Returns whether there was anything to
    /// accept: a shadow that has not listed everything waits for its source, since its facts are not known yet.
    pub(crate) fn accept(&mut self) -> bool {
        if let Some(rejected_identity) = self.rejected_identity.take() {
            // its updates were refused so far, so the caller of `Core::accept` begins a run that lists everything
            self.ledger.identity = Some(rejected_identity);
            return true;
        }
        let is_acceptable = self.obstacle().is_some_and(|it| it.is_acceptable());
        match &mut self.shadow {
            Some(shadow) if is_acceptable => {
                shadow.accepted = true;
                true
            }
            _ => false,
        }
    }
}
