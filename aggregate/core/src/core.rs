//! The core's public face: registries join, runs begin and end, turns are applied, catalogs come out.
//!
//! Called by the one task that owns it, in any order. Every call that changes something returns a
//! [`ApplyOutcome`]; the catalog of the moment is ready when it returns, and [`Core::publish`] hands it out.
//! It alone names both halves, the ledgers and the state, and passes them to the phases of a turn.

mod operator;
mod orders;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Catalog, CatalogChanges, Code, ConfirmRequest, Evidence, Mono, Record, Recorder, RegistryName,
    RegistrySpec, RegistryUpdate, Scope, ServiceKey, ShardPriority, Stamped,
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

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApplyOutcome {
    /// Questions for the sources.
    pub confirms: Vec<ConfirmRequest>,
    /// Accepted changes, for the journal.
    pub records: Vec<Record>,
    /// What the next catalog changes.
    pub changed: CatalogChanges,
    /// Whether clients lose something or are sent elsewhere, so that publication may not wait.
    pub urgent: bool,
}

/// Two registries have one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry {name:?} is already there as {known}; give one of the two another name")]
pub struct AddRegistryError {
    /// The name.
    pub name: RegistryName,
    /// What has it.
    pub known: String,
}

impl AddRegistryError {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::REGISTRY_NAME_TAKEN
    }
}

/// The owner's state.
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
    /// Without registries.
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

    /// Adds a registry. It is Unknown until its first run has synced, or until what a journal kept of
    /// it was restored. Adding it again with the same identity changes nothing.
    pub fn add_registry(&mut self, spec: &RegistrySpec) -> Result<ApplyOutcome, AddRegistryError> {
        let name = &spec.id.name;
        if let Some(known) = self.registries.get(name) {
            return if known.face.id == spec.id {
                Ok(ApplyOutcome::default())
            } else {
                Err(AddRegistryError { name: name.clone(), known: known.face.id.to_string() })
            };
        }
        self.begin(self.state.now);
        self.registries.insert(name.clone(), Registry::new(spec));
        self.state.dirty.registries.insert(name.clone());
        Ok(self.finish())
    }

    /// Gives back one registry's part of a journal, in one piece or several; lists before facts. What
    /// it serves is stale until a run lists it. Where its source is configured otherwise now (`changed`),
    /// its first run begins in a shadow.
    pub fn restore(
        &mut self,
        now: Mono,
        name: &RegistryName,
        records: Vec<Record>,
        changed: bool,
    ) -> ApplyOutcome {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.moved |= changed;
            registry.restored = now;
            ingest::restore(registry, &mut self.state, records);
        }
        self.finish_unrecorded()
    }

    /// Takes back what was restored of a scope, as if the journal had not had it: unknown, not empty.
    pub fn forget(&mut self, name: &RegistryName, scope: &Scope) -> ApplyOutcome {
        self.begin(self.state.now);
        if let Some(registry) = self.registries.get_mut(name) {
            ingest::forget(registry, &mut self.state, scope);
        }
        self.finish_unrecorded()
    }

    /// Ends a turn whose facts came from the journal, which need not take them again.
    fn finish_unrecorded(&mut self) -> ApplyOutcome {
        let turn = self.finish();
        ApplyOutcome { records: Vec::new(), ..turn }
    }

    /// A registry's run failed: what it served stays, stale since now.
    pub fn fail(&mut self, now: Mono, name: &RegistryName, why: &Arc<str>) -> ApplyOutcome {
        self.begin(now);
        if let Some(registry) = self.registries.get_mut(name) {
            registry.ledger.fail(now, why);
            self.state.dirty.registries.insert(name.clone());
            // a weaker run may replace one that has failed
            ingest::adopt_ready(&mut self.registries, &mut self.state, &BTreeSet::from([name.clone()]));
        }
        self.state.judge();
        self.finish()
    }

    /// Removes a registry with all its facts.
    pub fn remove_registry(&mut self, name: &RegistryName, evidence: &Evidence) -> ApplyOutcome {
        self.begin(self.state.now);
        if let Some(mut registry) = self.registries.remove(name) {
            self.state.counters.full_passes.departure += 1;
            ingest::leave(&mut registry, &mut self.state, evidence);
            self.state.dirty.registries.insert(name.clone());
            self.state.dirty.records.push(Record::Left(name.clone()));
        }
        self.finish()
    }

    /// Serves a registry as it is, or one priority lower.
    pub fn set_priority(&mut self, now: Mono, name: &RegistryName, standing: ShardPriority) -> ApplyOutcome {
        self.begin(now);
        let Some(registry) = self.registries.get_mut(name) else { return self.finish() };
        if std::mem::replace(&mut registry.face.standing, standing) != standing {
            self.state.dirty.registries.insert(name.clone());
        }
        self.finish()
    }

    /// Whether it is known which registries there are; until then no catalog is complete.
    pub fn set_membership_known(&mut self, known: bool) -> ApplyOutcome {
        self.begin(self.state.now);
        self.membership_known = known;
        self.finish()
    }

    /// Takes updates, whole, as one turn. Those of one registry are in the order of its run.
    pub fn apply(&mut self, now: Mono, deltas: Vec<Stamped<RegistryUpdate>>) -> ApplyOutcome {
        self.begin(now);
        self.state.counters.batches += 1;
        let touched = ingest::take(&mut self.registries, &mut self.state, deltas);
        ingest::end_takes(&mut self.registries, &mut self.state, &touched);
        ingest::adopt_ready(&mut self.registries, &mut self.state, &touched.all);
        self.state.judge();
        self.finish()
    }

    /// Takes a slice of updates of which more follow: only ledgers read it, except for a first list,
    /// which merely adds. The take ends with [`Core::apply`].
    pub fn apply_part(&mut self, now: Mono, deltas: Vec<Stamped<RegistryUpdate>>) -> ApplyOutcome {
        self.begin(now);
        if ingest::take_part(&mut self.registries, &mut self.state, deltas) {
            return self.finish();
        }
        ApplyOutcome::default()
    }

    /// Time passed: asks again what is due, and lets aliases take over from sources that are silent.
    pub fn tick(&mut self, now: Mono) -> ApplyOutcome {
        self.begin(now);
        self.finish()
    }

    /// When [`Core::tick`] has something to do, if nothing else happens.
    #[must_use]
    pub fn next_tick(&self) -> Option<Mono> {
        let state = &self.state;
        [state.guard.due(), state.world.outages.due(), state.policy_due].into_iter().flatten().min()
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
        self.unpublished |= !changed.is_empty();
        state.dirty.explained = None;
        state.dirty.implied.clear();
        ApplyOutcome {
            confirms: state.take_asks(&self.config, &self.registries),
            records: std::mem::take(&mut state.dirty.records),
            urgent: std::mem::take(&mut state.dirty.urgent),
            changed,
        }
    }

    /// The catalog of the moment: the last one again when nothing has changed since.
    pub fn publish(&mut self) -> Arc<Catalog> {
        if std::mem::take(&mut self.unpublished) {
            self.state.draft.generation += 1;
            self.state.counters.published += 1;
            self.published = Arc::new(self.state.draft.clone());
        }
        Arc::clone(&self.published)
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state.counters
    }

    /// Merges a service again, for explain: the very function that serves, with a recorder.
    pub fn trace<R: Recorder>(&self, key: &ServiceKey, rec: &mut R) {
        if let Some(service) = self.state.hosts.get(key) {
            merge(&self.state.world, &self.state.hosts, service, rec);
        }
    }
}

#[cfg(test)]
impl Core {
    /// Every fact that is held, with its registry.
    pub(crate) fn facts(&self) -> Vec<(RegistryName, tributary_model::Fact)> {
        use tributary_model::Fact;
        let state = &self.state;
        let whose = |shard: ShardId| state.place_of(shard).unwrap().0;
        let mut out = Vec::new();
        for service in state.hosts.iter() {
            for shard in &service.shards {
                for d in &shard.declarations {
                    let key = crate::state::services::decl_key(&service.key, &d.object);
                    out.push((whose(shard.id), Fact::Service(key, Arc::clone(&d.declaration))));
                }
                for g in &shard.groups {
                    let key = crate::state::services::group_key(&service.key, g);
                    out.push((whose(shard.id), Fact::Group(key, Arc::clone(&g.group))));
                }
            }
        }
        for (_, slot) in state.world.workloads.iter() {
            let facts = slot.facts.iter();
            out.extend(
                facts.map(|f| (whose(f.shard), Fact::Workload(slot.key.clone(), Arc::clone(&f.workload)))),
            );
        }
        out
    }
    /// Whether no index holds anything: what leaves must leave nothing behind.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.is_empty()
    }
}
