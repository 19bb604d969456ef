//! Orders that begin runs, either on the served facts or in a shadow.
//!
//! Called by the core task when a registry starts or restarts. An order names the generation that it
//! replaces and is refused if a different one is served: an order that was queued before an adoption
//! cannot renumber the adopted run.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{Fingerprint, Generation, Mono, RegistryName, RegistrySpec, RestartMode, Scope};

use super::{ApplyOutcome, Core};
use crate::ingest;
use crate::ledger::{Registry, RunGroup, Shadow};

/// Order to begin a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOrder {
    /// Registry, as currently configured.
    pub spec: RegistrySpec,
    /// Generation of the new run.
    pub generation: Generation,
    /// Generation that the sender believes is served.
    pub replaces: Generation,
    /// Runs that begin to serve in one turn with this one.
    pub group: Option<RunGroup>,
}

impl RunOrder {
    /// Returns the order for the first run of a registry without restored facts.
    #[must_use]
    pub const fn first(spec: RegistrySpec) -> Self {
        Self { spec, generation: Generation(1), replaces: Generation(0), group: None }
    }
}

/// Information for a run that begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Begun {
    /// Scopes with facts in the ledger.
    pub held: Arc<[Scope]>,
    /// True if the run fills a shadow.
    pub in_shadow: bool,
}

/// Error of an order that names a generation other than the served one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry {name}: generation {in_force} is served, not {expected}; begin the run again")]
pub struct OrderRefused {
    /// Name of the registry.
    pub name: RegistryName,
    /// Served generation.
    pub in_force: Generation,
    /// Generation that the order names.
    pub expected: Generation,
}

impl Core {
    /// Begins a run on the served facts: they stay, stale until the run lists them. Updates of the previous
    /// run are fenced from now on. The run begins in a shadow if the registry restarts in shadows or its
    /// source changed, and it has facts or a pinned identity; the same holds if another registry of its group must wait so, as the
    /// group begins to serve as a whole. Fails if a different generation is served.
    pub fn serve(&mut self, now: Mono, order: &RunOrder) -> Result<(ApplyOutcome, Begun), OrderRefused> {
        self.check(order)?;
        let known = self.registries.get(&order.spec.id.name);
        let waits = known.is_some_and(Registry::holds) || self.group_holds(order);
        let in_shadow =
            order.spec.restart == RestartMode::Shadow || known.is_some_and(|known| known.source_changed);
        if waits && in_shadow {
            let (outcome, begun) = self.begin_shadows(now, std::slice::from_ref(order))?;
            return Ok((outcome, begun.into_iter().next().unwrap_or_default()));
        }
        self.begin(now);
        let mut held = Vec::new();
        if let Some(registry) = self.registries.get_mut(&order.spec.id.name) {
            registry.describe(&order.spec);
            registry.scopes.clone_from(&order.spec.scopes);
            registry.ledger.restart(order.generation, now, &restarting());
            registry.rejected_identity = None;
            if order.group.is_some() {
                registry.group.clone_from(&order.group);
            }
            held = registry.ledger.held_scopes();
            let (mut out, ..) = registry.writer(&mut self.state);
            out.request_again(now);
            self.state.dirty.registries.insert(order.spec.id.name.clone());
        }
        Ok((self.finish(), Begun { held: held.into(), in_shadow: false }))
    }

    /// Whether another registry of an order's group serves what its own run of the group must replace.
    fn group_holds(&self, order: &RunOrder) -> bool {
        let Some(group) = &order.group else { return false };
        let mut others = group.names.iter().filter_map(|name| self.registries.get(name));
        others.any(|other| other.group.as_ref() != Some(group) && other.holds())
    }

    /// Begins runs in shadows, which replace the served runs together once each of them may, and together with those of the group
    /// that an order names. Existing shadows are dropped. Returns one [`Begun`] per run. Fails if a different generation is served.
    pub fn begin_shadows(
        &mut self,
        now: Mono,
        orders: &[RunOrder],
    ) -> Result<(ApplyOutcome, Vec<Begun>), OrderRefused> {
        orders.iter().try_for_each(|order| self.check(order))?;
        self.begin(now);
        let names: Arc<[RegistryName]> = orders.iter().map(|order| order.spec.id.name.clone()).collect();
        let alone = RunGroup { number: orders.first().map_or(0, |order| order.generation.0), names };
        let mut begun = Vec::new();
        for order in orders {
            let name = &order.spec.id.name;
            let Some(registry) = self.registries.get_mut(name) else { continue };
            registry.describe(&order.spec);
            let group = order.group.clone().unwrap_or_else(|| alone.clone());
            registry.shadow = Some(Shadow::new(order.generation, group, order.spec.scopes.clone()));
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

    /// Drops a shadow whose run ended. The others of its group wait for its next run: a rotation succeeds as a whole or not at all.
    pub fn drop_shadow(&mut self, name: &RegistryName) -> ApplyOutcome {
        self.begin(self.state.now);
        if self.registries.get_mut(name).is_some_and(|registry| registry.shadow.take().is_some()) {
            self.state.dirty.registries.insert(name.clone());
        }
        self.finish()
    }

    /// Lets groups of which a registry was removed continue with the others.
    pub(super) fn continue_without(&mut self, removed: &[RegistryName]) {
        let mut rest = BTreeSet::new();
        for (name, registry) in &mut self.registries {
            let groups = [registry.group.as_mut(), registry.shadow.as_mut().map(|shadow| &mut shadow.group)];
            for group in
                groups.into_iter().flatten().filter(|group| group.names.iter().any(|n| removed.contains(n)))
            {
                group.names = group.names.iter().filter(|other| !removed.contains(other)).cloned().collect();
                rest.insert(name.clone());
            }
        }
        ingest::adopt_ready(&mut self.registries, &mut self.state, &rest);
        self.state.judge();
    }

    /// Returns whether the updates of a registry's served run are refused, because its source has another identity.
    #[must_use]
    pub fn refuses_updates(&self, name: &RegistryName) -> bool {
        self.registries.get(name).is_some_and(|registry| registry.rejected_identity.is_some())
    }
    /// Sets the identity that the source of a registry may have in place of the pinned one, and whether a run that can read less may
    /// replace the served one. A shadow that is accepted so waits no longer; one with a third identity does.
    pub fn set_accepted(
        &mut self,
        now: Mono,
        names: &[RegistryName],
        (identity, fewer_rights): (Option<&Fingerprint>, bool),
    ) -> ApplyOutcome {
        self.begin(now);
        for name in names {
            let Some(registry) = self.registries.get_mut(name) else { continue };
            registry.accepted_identity = identity.cloned();
            registry.accepts_fewer_rights = fewer_rights;
            self.state.dirty.registries.insert(name.clone());
        }
        ingest::adopt_ready(&mut self.registries, &mut self.state, &names.iter().cloned().collect());
        self.state.judge();
        self.finish()
    }
    /// Accepts a shadow that holds less, or a source whose identity changed, at an operator's request.
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

/// Returns why facts are stale between two runs.
fn restarting() -> Arc<str> {
    "its run ended and the next has not listed it yet".into()
}
