//! Applies stamped updates to ledgers, and what ledgers accept to the state.
//!
//! Called by [`Core`](crate::Core) with a batch's updates in order. An update of a generation that is
//! neither served nor a shadow is dropped (law 3), and so is one of a source whose identity is not
//! the pinned one. A shadow's ledger has no output until it is adopted.

use std::collections::BTreeSet;

use tributary_model::{
    Collection, CollectionKind, Evidence, Fact, FactKey, Fingerprint, HoldRecord, Mono, ObjectId,
    ProblemRecord, Record, RegistryName, RegistryUpdate, Scope, Stamped,
};

use crate::ledger::{
    BasisKind, Change, Deferred, Ledger, Output, Registries, Registry, RunGroup, SlicedBatch,
};
use crate::removal::guard::reason;
use crate::state::State;
use crate::state::shards::ShardId;

/// Registries that a batch's updates concern.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// All of them.
    pub(crate) all: BTreeSet<RegistryName>,
    /// Those with updates of their served run.
    served: BTreeSet<RegistryName>,
}

/// Applies updates. Returns the registries that they concern.
pub(crate) fn take(
    registries: &mut Registries,
    state: &mut State,
    deltas: Vec<Stamped<RegistryUpdate>>,
) -> Touched {
    let mut touched = Touched::default();
    for Stamped { registry, generation, at, value } in deltas {
        let Some(known) = registries.get_mut(&registry).filter(|known| known.accepts(generation)) else {
            state.counters.fenced += 1;
            continue;
        };
        state.counters.updates += 1;
        let served = known.ledger.generation == generation;
        if served {
            known.take(state, at, value);
        } else if let Some(shadow) = &mut known.shadow {
            shadow.ledger.apply(at, value, &mut ShadowOutput(&registry, state));
        }
        if served && !touched.served.contains(&registry) {
            touched.served.insert(registry.clone());
        }
        if !touched.all.contains(&registry) {
            touched.all.insert(registry);
        }
    }
    touched
}

/// Ends the batch of these registries: deferred effects reach the state.
pub(crate) fn end_batches(registries: &mut Registries, state: &mut State, touched: &Touched) {
    for name in &touched.all {
        let Some(registry) = registries.get_mut(name) else { continue };
        if touched.served.contains(name) {
            registry.end_batch(state);
        }
        if let Some(shadow) = &mut registry.shadow {
            let now = state.now;
            shadow.ledger.end_batch(&shadow.scopes, now, &mut ShadowOutput(name, state));
        }
    }
}

/// Applies a slice of a batch that continues. Returns whether the state may have changed.
pub(crate) fn take_part(
    registries: &mut Registries,
    state: &mut State,
    deltas: Vec<Stamped<RegistryUpdate>>,
) -> bool {
    for delta in &deltas {
        if let Some(known) = registries.get_mut(&delta.registry)
            && known.ledger.generation == delta.generation
            && known.sliced.is_none()
        {
            let first = known.ledger.held_scopes().is_empty();
            known.sliced = Some(if first { SlicedBatch::First } else { SlicedBatch::Later(Vec::new()) });
        }
    }
    let touched = take(registries, state, deltas);
    let first = |name: &RegistryName| {
        registries.get(name).is_some_and(|r| matches!(r.sliced, Some(SlicedBatch::First)))
    };
    touched.all.iter().any(first)
}

/// Adopts every shadow among these registries that may replace what is served. Shadows of one group are
/// adopted together or not at all.
pub(crate) fn adopt_ready(registries: &mut Registries, state: &mut State, names: &BTreeSet<RegistryName>) {
    let group = |name| Some(registries.get(name)?.shadow.as_ref()?.group.clone());
    let groups: BTreeSet<RunGroup> = names.iter().filter_map(group).collect();
    for name in names {
        if let Some(registry) = registries.get_mut(name) {
            registry.await_changes(state.now);
        }
    }
    for group in groups {
        let is_ready = |name| registries.get(name).is_some_and(|one: &Registry| one.is_ready_for(&group));
        if !group.names.iter().all(is_ready) {
            continue;
        }
        for name in group.names.iter() {
            if let Some(registry) = registries.get_mut(name) {
                adopt(registry, state, &group);
            }
        }
    }
}

fn adopt(registry: &mut Registry, state: &mut State, group: &RunGroup) {
    let Some(shadow) = registry.shadow.take_if(|shadow| shadow.group == *group) else { return };
    if group.names.len() > 1 {
        registry.group = Some(group.clone());
    }
    // the state must have the deferred effects of the served ledger before the two are compared
    registry.end_batch(state);
    state.counters.full_passes.adoption += 1;
    let now = state.now;
    registry.scopes = shadow.scopes;
    let (mut out, ledger, scopes) = registry.writer(state);
    let identity = shadow.ledger.identity.clone();
    let served = std::mem::take(ledger);
    if identity.is_some() && served.identity != identity {
        out.pin(identity.as_ref());
    }
    *ledger = served.adopt(shadow.ledger, scopes, now, &mut out);
    ledger.end_batch(scopes, now, &mut out);
    out.request_again(now);
    registry.rejected_identity = None;
    registry.source_changed = false;
}

/// Restores a registry's part of a journal.
pub(crate) fn restore(registry: &mut Registry, state: &mut State, records: Vec<Record>) {
    let now = state.now;
    let mut holds = Vec::new();
    let (mut out, ledger, _) = registry.writer(state);
    for record in records {
        match record {
            Record::Hold(_, key, Some(hold)) => holds.push((key, hold)),
            record => ledger.restore(record, now, &mut out),
        }
    }
    for (key, hold) in holds {
        out.hold(&key, &hold);
    }
}

/// Reverts the restored facts of a scope.
pub(crate) fn forget(registry: &mut Registry, state: &mut State, scope: &Scope) {
    let (mut out, ledger, _) = registry.writer(state);
    ledger.forget(scope, &mut out);
    out.note();
}

/// Removes one kind of facts of a scope.
pub(crate) fn end_part(
    registry: &mut Registry,
    state: &mut State,
    scope: &Scope,
    kind: CollectionKind,
    evidence: &Evidence,
) {
    let (mut out, ledger, _) = registry.writer(state);
    ledger.end_part(scope, kind, evidence, &mut out);
}

/// Removes everything that a registry has reported.
pub(crate) fn leave(registry: &mut Registry, state: &mut State, evidence: &Evidence) {
    let now = state.now;
    let (mut out, ledger, _) = registry.writer(state);
    ledger.leave(evidence, now, &mut out);
    out.free_rest(evidence);
}

impl Registry {
    /// Returns the output that applies effects of the served ledger to the state, with its parts.
    pub(crate) fn writer<'a>(
        &'a mut self,
        state: &'a mut State,
    ) -> (Writer<'a>, &'a mut Ledger, &'a tributary_model::Scopes) {
        let Self { info, scopes, ledger, .. } = self;
        (Writer { state, registry: info }, ledger, scopes)
    }

    fn take(&mut self, state: &mut State, at: Mono, delta: RegistryUpdate) {
        if let RegistryUpdate::Identity(identity) = &delta {
            self.identify(identity, state);
        }
        if self.rejected_identity.is_some() {
            state.counters.fenced += 1;
            return;
        }
        if let Some(SlicedBatch::Later(effects)) = &mut self.sliced {
            let idle = state.guard.is_idle();
            let (unchanged, refused) = (&mut state.counters.unchanged, &mut state.counters.refused);
            return self.ledger.apply(at, delta, &mut Deferred { effects, idle, unchanged, refused });
        }
        let (mut out, ledger, _) = self.writer(state);
        ledger.apply(at, delta, &mut out);
    }

    /// Pins the first identity that the source of the served run reports, and refuses a different one.
    fn identify(&mut self, identity: &Fingerprint, state: &mut State) {
        let pinned = self.ledger.identity.clone();
        let (mut out, ledger, _) = self.writer(state);
        match pinned {
            None => out.pin(Some(identity)),
            Some(pinned) if pinned == *identity => {}
            Some(pinned) => {
                let why = format!("the source's identity changed from {pinned} to {identity}");
                ledger.go_stale(out.state.now, &why.into());
                out.note();
                self.rejected_identity = Some(identity.clone());
                return;
            }
        }
        self.rejected_identity = None;
    }

    fn end_batch(&mut self, state: &mut State) {
        let now = state.now;
        let taken = self.sliced.take();
        let (mut out, ledger, scopes) = self.writer(state);
        if let Some(SlicedBatch::Later(effects)) = taken {
            effects.into_iter().for_each(|effect| effect.apply(&mut out));
            out.note();
        }
        ledger.end_batch(scopes, now, &mut out);
    }
}

/// Output of a shadow's ledger: only notes that the registry's status may have changed.
struct ShadowOutput<'a>(&'a RegistryName, &'a mut State);

impl Output for ShadowOutput<'_> {
    fn put(&mut self, _: &Scope, _: Fact, _: BasisKind, _: Mono, _: Change) {}
    fn remove(&mut self, _: &FactKey, _: &Evidence) {}
    fn confirm(&mut self, _: &Collection, _: Mono) {}
    fn free(&mut self, _: &Scope, _: &Evidence, _: Mono) {}
    fn problem(&mut self, _: &Scope, _: &ObjectId, _: Option<&ProblemRecord>) {}
    fn refuse(&mut self) {}
    fn note(&mut self) {
        self.note_status();
    }
    fn note_status(&mut self) {
        self.1.note_status(self.0);
    }
}

/// Applies what one registry's served ledger accepts to the state.
pub(crate) struct Writer<'a> {
    state: &'a mut State,
    registry: &'a crate::ledger::RegistryInfo,
}

impl Writer<'_> {
    fn name(&self) -> RegistryName {
        self.registry.id.name.clone()
    }
    fn find(&self, scope: &Scope) -> Option<ShardId> {
        self.state.context.shards.find(&self.registry.id.name, scope)
    }
    fn intern(&mut self, scope: &Scope) -> Option<ShardId> {
        let shard = self.state.context.shards.intern(self.registry, scope);
        self.state.counters.refused += u64::from(shard.is_none());
        // a scope that ended in this batch begins again
        self.state.dirty.freed.retain(|freed| Some(*freed) != shard);
        shard
    }
    /// Records the identity of the source.
    fn pin(&mut self, identity: Option<&Fingerprint>) {
        if let Some(identity) = identity {
            self.state.dirty.records.push(Record::Identity(self.registry.id.name.clone(), identity.clone()));
        }
    }
    /// Makes open confirm requests due at once, since a new run serves.
    pub(crate) fn request_again(&mut self, now: Mono) {
        let shards = self.state.context.shards.of(&self.registry.id.name);
        let shards: Vec<ShardId> = shards.into_iter().map(|(_, id)| id).collect();
        self.state.guard.request_again(&shards, now);
    }
    /// Holds a removal that was held when the journal was written.
    fn hold(&mut self, key: &FactKey, hold: &HoldRecord) {
        if let Some(shard) = self.find(&key.scope) {
            self.state.hold_all((shard, key.item.clone()), reason::restored(&hold.reason), hold.since);
        }
    }
    /// Removes facts of scopes that no ledger has: their removals were held.
    fn free_rest(&mut self, evidence: &Evidence) {
        for (scope, _) in self.state.context.shards.of(&self.registry.id.name) {
            self.free(&scope, evidence, self.state.now);
        }
    }
}

impl Output for Writer<'_> {
    fn put(&mut self, scope: &Scope, fact: Fact, basis: BasisKind, at: Mono, change: Change) {
        let Some(shard) = self.intern(scope) else { return };
        if change == Change::Moved {
            self.state.note_put(shard, fact.clone());
        }
        if change.is_same() && self.state.guard.is_idle() {
            self.state.counters.unchanged += 1;
            return;
        }
        let doubted = basis == BasisKind::KnownPartial;
        if doubted || (self.registry.can_confirm && basis == BasisKind::PossiblyPartial) {
            self.state.put_unsure(shard, fact, doubted, at);
        } else {
            self.state.put(shard, fact, at);
        }
    }
    fn remove(&mut self, key: &FactKey, evidence: &Evidence) {
        if let Some(shard) = self.find(&key.scope) {
            self.state.withdraw(shard, &key.item, evidence);
        }
    }
    fn confirm(&mut self, collection: &Collection, at: Mono) {
        let Some(shard) = self.find(&collection.scope) else { return };
        if let Some(info) = self.state.context.shards.get_mut(shard) {
            info.confirm(collection.kind, at);
            self.state.dirty.lists.insert((shard, collection.kind));
        }
    }
    fn holds(&self, scope: &Scope) -> bool {
        self.find(scope).is_some_and(|shard| !self.state.guard.of_shard(shard).is_empty())
    }
    fn free(&mut self, scope: &Scope, evidence: &Evidence, at: Mono) {
        let name = self.name();
        if let Some(shard) = self.find(scope) {
            for item in self.state.guard.of_shard(shard) {
                self.state.remove(shard, &item, evidence.clone());
            }
            self.state.dirty.freed.insert(shard);
        }
        self.state.dirty.records.push(Record::Ended(name, scope.clone(), evidence.clone(), at));
    }
    fn problem(&mut self, scope: &Scope, object: &ObjectId, problem: Option<&ProblemRecord>) {
        let record = Record::Problem(self.name(), scope.clone(), object.clone(), problem.cloned());
        self.state.dirty.records.push(record);
    }
    fn refuse(&mut self) {
        self.state.counters.refused += 1;
    }
    fn note(&mut self) {
        let name = &self.registry.id.name;
        if !self.state.dirty.registries.contains(name) {
            self.state.dirty.registries.insert(name.clone());
        }
    }
    fn note_status(&mut self) {
        self.state.note_status(&self.registry.id.name);
    }
}
