//! What an operator may do by hand: let a held removal happen, or end a scope that is really gone.

use tributary_model::{CollectionKind, Evidence, FactKey, Mono, RegistryName, Scope};

use super::{ApplyOutcome, Core};
use crate::ingest;
use crate::ledger::Registry;

/// Facts that would end.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct EndPlan {
    /// The scope.
    pub scope: Scope,
    /// The kind of facts.
    pub kind: CollectionKind,
    /// How many facts of it are served.
    pub facts: u64,
    /// Whether the source still confirms them: then they would only come back.
    pub live: bool,
}

impl Core {
    /// Lets a held removal happen; `None` when it is not held.
    pub fn release(&mut self, now: Mono, registry: &RegistryName, key: &FactKey) -> Option<ApplyOutcome> {
        self.begin(now);
        let released = self.state.release(registry, key);
        let turn = self.finish();
        released.then_some(turn)
    }

    /// What ending a registry, one scope of it, or one kind of facts in a scope, would remove.
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

    /// Ends what [`Core::end_plan`] shows for the same arguments.
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
    /// Accepts what keeps its shadow from serving; whether there was anything. A shadow that has not listed everything
    /// yet waits for its source: what it will report is not known, and not accepted beforehand.
    pub(crate) fn accept(&mut self) -> bool {
        if let Some(stranger) = self.stranger.take() {
            // its updates were refused so far; its next run reports everything again
            self.ledger.identity = Some(stranger);
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
