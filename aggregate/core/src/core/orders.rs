//! Runs begin: on the served facts, or in a shadow.
//!
//! An order names the generation that it replaces and is refused when a different one is in force, so
//! that one that was queued before an adoption cannot renumber what was adopted.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Generation, Mono, RegistryName, RegistrySpec, RestartMode, Scope};

use super::{ApplyOutcome, Core};
use crate::ingest;
use crate::ledger::{Ledger, Registry, Shadow};

/// A run that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOrder {
    /// The registry, as its configuration describes it now.
    pub spec: RegistrySpec,
    /// The run.
    pub generation: Generation,
    /// The served run that the sender knows of.
    pub replaces: Generation,
}

impl RunOrder {
    /// The first run of a registry of which nothing is known.
    #[must_use]
    pub const fn first(spec: RegistrySpec) -> Self {
        Self { spec, generation: Generation(1), replaces: Generation(0) }
    }
}

/// What a run that begins needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Begun {
    /// Scopes of which facts are held.
    pub held: Arc<[Scope]>,
    /// Whether the run fills a shadow.
    pub in_shadow: bool,
}

/// An order names another generation than the one in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry {name}: generation {in_force} is in force, not {expected}; begin the run again")]
pub struct OrderRefused {
    /// The registry.
    pub name: RegistryName,
    /// The served run.
    pub in_force: Generation,
    /// What the order names.
    pub expected: Generation,
}

impl Core {
    /// A run begins on the served facts: they stay, stale until the run lists them. Updates of the run
    /// before are late from now on. A registry that restarts in a shadow gets one instead, where facts of
    /// it are held or its source is pinned: what another source reports waits for the operator.
    pub fn serve(&mut self, now: Mono, order: &RunOrder) -> Result<(ApplyOutcome, Begun), OrderRefused> {
        self.check(order)?;
        let known = self.registries.get(&order.spec.id.name);
        let holds = known.is_some_and(|known| known.ledger.identity.is_some() || known.ledger.holds_facts());
        let in_shadow = order.spec.restart == RestartMode::Shadow || known.is_some_and(|known| known.moved);
        if holds && in_shadow {
            let (turn, begun) = self.begin_shadows(now, std::slice::from_ref(order))?;
            return Ok((turn, begun.into_iter().next().unwrap_or_default()));
        }
        self.begin(now);
        let mut held = Vec::new();
        if let Some(registry) = self.registries.get_mut(&order.spec.id.name) {
            registry.describe(&order.spec);
            registry.ledger.restart(order.generation, now, &restarting());
            registry.stranger = None;
            held = registry.ledger.held_scopes();
            let (mut out, ..) = registry.writer(&mut self.state);
            out.ask_again(now);
            self.state.dirty.registries.insert(order.spec.id.name.clone());
        }
        Ok((self.finish(), Begun { held: held.into(), in_shadow: false }))
    }

    /// Runs begin in shadows, which replace what is served together, once each may. Shadows that were
    /// there are dropped. Returns what each run needs to know.
    pub fn begin_shadows(
        &mut self,
        now: Mono,
        orders: &[RunOrder],
    ) -> Result<(ApplyOutcome, Vec<Begun>), OrderRefused> {
        orders.iter().try_for_each(|order| self.check(order))?;
        self.begin(now);
        let set: Arc<[RegistryName]> = orders.iter().map(|order| order.spec.id.name.clone()).collect();
        let mut begun = Vec::new();
        for order in orders {
            let name = &order.spec.id.name;
            let Some(registry) = self.registries.get_mut(name) else { continue };
            registry.describe(&order.spec);
            let (ledger, accepted) = (Ledger::new(order.generation), false);
            registry.shadow = Some(Shadow { ledger, set: Arc::clone(&set), accepted });
            begun.push(Begun { held: registry.ledger.held_scopes().into(), in_shadow: true });
            self.state.dirty.registries.insert(name.clone());
        }
        Ok((self.finish(), begun))
    }

    fn check(&self, order: &RunOrder) -> Result<(), OrderRefused> {
        let name = &order.spec.id.name;
        let in_force = self.registries.get(name).map_or(order.replaces, |known| known.ledger.generation);
        if in_force == order.replaces {
            return Ok(());
        }
        Err(OrderRefused { name: name.clone(), in_force, expected: order.replaces })
    }

    /// Drops the shadow of a rotation that was given up. The others of its set go on without it.
    pub fn drop_shadow(&mut self, name: &RegistryName) -> ApplyOutcome {
        self.begin(self.state.now);
        let dropped = self.registries.get_mut(name).and_then(|registry| registry.shadow.take());
        if let Some(shadow) = dropped {
            let rest: Arc<[RegistryName]> =
                shadow.set.iter().filter(|other| *other != name).cloned().collect();
            for other in rest.iter() {
                if let Some(shadow) = self.registries.get_mut(other).and_then(|r| r.shadow.as_mut()) {
                    shadow.set = Arc::clone(&rest);
                }
            }
            self.state.dirty.registries.insert(name.clone());
            ingest::adopt_ready(&mut self.registries, &mut self.state, &rest.iter().cloned().collect());
            self.state.judge();
        }
        self.finish()
    }

    /// Takes a shadow that holds less, or whose source's identity changed, at an operator's request.
    /// Returns whether there was anything to accept.
    pub fn accept(&mut self, now: Mono, name: &RegistryName) -> (bool, ApplyOutcome) {
        self.begin(now);
        let accepted = self.registries.get_mut(name).is_some_and(Registry::accept);
        if accepted {
            self.state.dirty.registries.insert(name.clone());
            ingest::adopt_ready(&mut self.registries, &mut self.state, &BTreeSet::from([name.clone()]));
            self.state.judge();
        }
        (accepted, self.finish())
    }
}

/// Why the facts of a run that is over are stale.
fn restarting() -> Arc<str> {
    "its run ended and the next has not listed it yet".into()
}
