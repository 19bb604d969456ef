//! The core's public interface: adds registries, begins and ends runs, applies batches, publishes catalogs.
//!
//! The task that owns it may call the methods in any order. Every call that changes something returns an
//! [`ApplyOutcome`]; the next catalog is then complete, and [`Core::publish`] returns it. Only this
//! module uses both halves, the ledgers and the state; it passes them to the phases of a batch.

mod operator;
mod orders;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Catalog, CatalogChanges, Code, ConfirmRequest, Evidence, Mono, Record, Recorder, RegistryName,
    RegistrySpec, RegistryUpdate, ResolvedName, Scope, ServiceKey, ShardPriority, Stamped,
};

use crate::config::CoreConfig;
use crate::counters::Counters;
use crate::ingest;
use crate::ledger::{Registries, Registry};
use crate::merge::merge;
use crate::state::State;
#[cfg(test)]
use crate::state::shards::ShardId;

pub use operator::EndPlan;
pub use orders::{Begun, OrderRefused, RunOrder};

/// Result of a call that may change the state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyOutcome {
    /// Confirm requests for the sources.
    pub confirms: Vec<ConfirmRequest>,
    /// Accepted changes, for the journal.
    pub records: Vec<Record>,
    /// Differences between the next catalog and the state before the call.
    pub changed: CatalogChanges,
    /// True if clients lose endpoints or are redirected, so publication must not be delayed.
    pub urgent: bool,
    /// True if a changed policy leaves a route without its subset: the change that completes it may follow at once.
    pub incomplete: bool,
    /// Registries whose status may have changed: freshness, sources, conditions, priorities,
    /// problems of objects or the obstacle of a shadow. Counts of facts and holds are not included.
    pub statuses: BTreeSet<RegistryName>,
}

/// Error of [`Core::add_registry`]: a different registry has the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry {name:?} already exists as {known}; rename one of the two")]
pub struct AddRegistryError {
    /// Name of the rejected registry.
    pub name: RegistryName,
    /// Identity of the registry that has the name.
    pub known: String,
}

impl AddRegistryError {
    /// Returns the error's code.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::REGISTRY_NAME_TAKEN
    }
}

/// Ledgers of all registries and the state that is built from them.
#[derive(Debug)]
pub struct Core {
    pub(crate) config: CoreConfig,
    pub(crate) registries: Registries,
    pub(crate) membership_known: bool,
    pub(crate) state: State,
    published: Arc<Catalog>,
    unpublished: bool,
}

impl Default for Core {
    fn default() -> Self {
        Self::new(CoreConfig::default())
    }
}

impl Core {
    /// Creates a core without registries.
    #[must_use]
    pub fn new(config: CoreConfig) -> Self {
        Self {
            config,
            registries: Registries::new(),
            membership_known: true,
            state: State::default(),
            published: Arc::default(),
            unpublished: false,
        }
    }

    /// Adds a registry. It is Unknown until its first run has synced or its journal was restored.
    /// Adding it again with the same identity changes nothing. Fails if a different registry has the name.
    pub fn add_registry(&mut self, spec: &RegistrySpec) -> Result<ApplyOutcome, AddRegistryError> {
        let name = &spec.id.name;
        if let Some(known) = self.registries.get(name) {
            return if known.info.id == spec.id {
                Ok(ApplyOutcome::default())
            } else {
                Err(AddRegistryError { name: name.clone(), known: known.info.id.to_string() })
            };
        }
        self.begin(self.state.now);
        self.registries.insert(name.clone(), Registry::new(spec));
        self.state.dirty.registries.insert(name.clone());
        Ok(self.finish())
    }

    /// Restores one registry's part of a journal, in one call or several; list records come before facts.
    /// Restored facts are stale until a run lists them. If the source's configuration has changed since
    /// (`changed`), the first run begins in a shadow.
    pub fn restore(
        &mut self,
        now: Mono,
        name: &RegistryName,
        records: Vec<Record>,
        changed: bool,
    ) -> ApplyOutcome {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.source_changed |= changed;
            registry.restored = now;
            ingest::restore(registry, &mut self.state, records);
        }
        self.finish_unrecorded()
    }

    /// Reverts the restored facts of a scope, as if the journal had not contained it: unknown, not empty.
    pub fn forget(&mut self, name: &RegistryName, scope: &Scope) -> ApplyOutcome {
        self.begin(self.state.now);
        if let Some(registry) = self.registries.get_mut(name) {
            ingest::forget(registry, &mut self.state, scope);
        }
        self.finish_unrecorded()
    }

    /// Ends a batch of facts from the journal, without records: the journal has them already.
    fn finish_unrecorded(&mut self) -> ApplyOutcome {
        let outcome = self.finish();
        ApplyOutcome { records: Vec::new(), ..outcome }
    }

    /// Records that a registry's run failed: its facts stay served and are stale since `now`.
    pub fn fail(&mut self, now: Mono, name: &RegistryName, why: &Arc<str>) -> ApplyOutcome {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.ledger.fail(now, why);
            self.state.dirty.registries.insert(name.clone());
            // a run that reads less may replace a failed one
            ingest::adopt_ready(&mut self.registries, &mut self.state, &BTreeSet::from([name.clone()]));
        }
        self.state.judge();
        self.finish()
    }

    /// Removes a registry and all its facts.
    pub fn remove_registry(&mut self, name: &RegistryName, evidence: &Evidence) -> ApplyOutcome {
        self.remove_registries(std::slice::from_ref(name), evidence)
    }
    /// Removes registries and all their facts in one turn. Unknown names are skipped.
    pub fn remove_registries(&mut self, names: &[RegistryName], evidence: &Evidence) -> ApplyOutcome {
        self.begin(self.state.now);
        for name in names {
            let Some(mut registry) = self.registries.remove(name) else { continue };
            self.state.counters.full_passes.departure += 1;
            ingest::leave(&mut registry, &mut self.state, evidence);
            self.state.dirty.registries.insert(name.clone());
            self.state.dirty.records.push(Record::Left(name.clone()));
        }
        self.continue_without(names);
        self.finish()
    }

    /// Sets the priority at which a registry's facts are served.
    pub fn set_priority(&mut self, now: Mono, name: &RegistryName, priority: ShardPriority) -> ApplyOutcome {
        self.set_priorities(now, std::slice::from_ref(name), priority)
    }
    /// Sets the priority at which the facts of registries are served, in one turn. Unknown names are skipped.
    pub fn set_priorities(
        &mut self,
        now: Mono,
        names: &[RegistryName],
        priority: ShardPriority,
    ) -> ApplyOutcome {
        self.begin(now);
        for name in names {
            let Some(registry) = self.registries.get_mut(name) else { continue };
            if std::mem::replace(&mut registry.info.priority, priority) != priority {
                self.state.dirty.registries.insert(name.clone());
            }
        }
        self.finish()
    }

    /// Whether all registries are known.
    #[must_use]
    pub const fn is_membership_known(&self) -> bool {
        self.membership_known
    }
    /// Sets whether the list of registries is known; no catalog is complete until it is.
    pub fn set_membership_known(&mut self, known: bool) -> ApplyOutcome {
        self.begin(self.state.now);
        self.membership_known = known;
        self.finish()
    }

    /// Applies updates as one batch. Updates of one registry must be in the order of its run.
    pub fn apply(&mut self, now: Mono, deltas: Vec<Stamped<RegistryUpdate>>) -> ApplyOutcome {
        self.begin(now);
        self.state.counters.batches += 1;
        let touched = ingest::take(&mut self.registries, &mut self.state, deltas);
        ingest::end_batches(&mut self.registries, &mut self.state, &touched);
        ingest::adopt_ready(&mut self.registries, &mut self.state, &touched.all);
        self.state.judge();
        self.finish()
    }

    /// Applies a slice of a batch that continues: only the ledgers read it, except for a first list,
    /// which only adds facts. The batch ends with [`Core::apply`].
    pub fn apply_part(&mut self, now: Mono, deltas: Vec<Stamped<RegistryUpdate>>) -> ApplyOutcome {
        self.begin(now);
        if ingest::take_part(&mut self.registries, &mut self.state, deltas) {
            return self.finish();
        }
        ApplyOutcome::default()
    }

    /// Applies what time alone changes: due confirm requests, staleness policies and standby members.
    pub fn tick(&mut self, now: Mono) -> ApplyOutcome {
        self.begin(now);
        self.finish()
    }

    /// Returns when [`Core::tick`] must be called next; `None` if time alone changes nothing.
    #[must_use]
    pub fn next_tick(&self) -> Option<Mono> {
        let state = &self.state;
        [state.guard.due(), state.context.outages.due(), state.policy_due].into_iter().flatten().min()
    }

    pub(crate) fn begin(&mut self, now: Mono) {
        self.state.begin(now);
    }

    pub(crate) fn finish(&mut self) -> ApplyOutcome {
        let state = &mut self.state;
        state.apply_policies(&self.registries);
        let changed = state.build(&self.registries, self.membership_known);
        state.record_holds();
        state.free_shards();
        for name in &state.dirty.statuses {
            if let Some(registry) = self.registries.get_mut(name) {
                registry.date_states(state.now);
            }
        }
        self.unpublished |= !changed.is_empty();
        state.dirty.explained = None;
        state.dirty.implied.clear();
        ApplyOutcome {
            confirms: state.take_confirms(&self.config, &self.registries),
            records: std::mem::take(&mut state.dirty.records),
            urgent: std::mem::take(&mut state.dirty.urgent),
            incomplete: std::mem::take(&mut state.dirty.incomplete),
            statuses: std::mem::take(&mut state.dirty.statuses),
            changed,
        }
    }

    /// Returns the current catalog: the previous one if nothing has changed since.
    pub fn publish(&mut self) -> Arc<Catalog> {
        if std::mem::take(&mut self.unpublished) {
            self.state.draft.generation += 1;
            self.state.counters.published += 1;
            self.published = Arc::new(self.state.draft.clone());
        }
        Arc::clone(&self.published)
    }

    /// Returns the addresses of the host names of gateways that are served, also of a catalog that is not published yet.
    #[must_use]
    pub fn gateway_names(&self) -> Vec<(Arc<str>, Arc<ResolvedName>)> {
        let names = self.state.draft.gateway_names.iter();
        names.map(|(name, resolved)| (Arc::clone(name), Arc::new(ResolvedName::clone(resolved)))).collect()
    }

    /// Returns counts of what the core has done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state.counters
    }

    /// Merges a service again for explain, with the function that serves and a recorder.
    pub fn trace<R: Recorder>(&self, key: &ServiceKey, rec: &mut R) {
        if let Some(service) = self.state.hosts.get(key) {
            merge(&self.state.context, &self.state.hosts, service, rec);
        }
    }
}

#[cfg(test)]
impl Core {
    /// Returns every served fact with its registry.
    pub(crate) fn facts(&self) -> Vec<(RegistryName, tributary_model::Fact)> {
        use tributary_model::Fact;
        let state = &self.state;
        let registry_of = |shard: ShardId| state.source_of(shard).unwrap().0;
        let mut out = Vec::new();
        for service in state.hosts.iter() {
            for shard in &service.shards {
                for d in &shard.declarations {
                    let key = crate::state::services::decl_key(&service.key, &d.object);
                    out.push((registry_of(shard.id), Fact::Service(key, Arc::clone(&d.declaration))));
                }
                for g in &shard.groups {
                    let key = crate::state::services::group_key(&service.key, g);
                    out.push((registry_of(shard.id), Fact::Group(key, Arc::clone(&g.group))));
                }
            }
        }
        for (_, slot) in state.context.workloads.iter() {
            let facts = slot.facts.iter();
            out.extend(
                facts.map(|f| {
                    (registry_of(f.shard), Fact::Workload(slot.key.clone(), Arc::clone(&f.workload)))
                }),
            );
        }
        let policies = state.context.policies.facts();
        out.extend(policies.map(|(shard, key, value)| (registry_of(shard), Fact::Policy(key, value))));
        out
    }
    /// Returns whether every index is empty: a removed registry must leave nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.is_empty()
    }
}
