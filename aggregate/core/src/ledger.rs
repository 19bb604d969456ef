//! The ledger of one run: everything that a generation of a registry has reported.
//!
//! Pure; depends only on the model. It contains the only rules for what a list, a refusal, a failure,
//! an ended scope, a restart and a rotation do to facts. The served run and a shadow are both
//! ledgers: a shadow's output changes no fact, and adoption applies the difference of two ledgers ([`adopt`]).
//! [`ingest`](crate::ingest) calls it for each update in order, with an [`Output`] that applies the
//! effects. The lack of updates never removes a fact: only a [`Remove`](RegistryUpdate::Remove), a
//! complete list or the end of a scope does.

mod adopt;
mod behind;
mod completeness;
mod follows;
mod list;
mod problems;
mod registry;
mod restore;
mod shown;
mod slices;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tributary_model::{
    Collection, CollectionKind, Completeness, EndEvidence, Evidence, ExcludedObject, Fact, FactId, FactKey,
    Fingerprint, Freshness, Generation, ListResult, Mono, ObjectId, ProblemRecord, RegistryUpdate, Scope,
    Scopes, SourceState, SourceStatus, Withheld,
};

pub(crate) use adopt::Obstacle;
pub(crate) use follows::Follows;
pub(crate) use list::List;
pub(crate) use problems::Problems;
pub use registry::RunGroup;
pub(crate) use registry::{Registries, Registry, RegistryInfo, Shadow};
pub(crate) use shown::ShownStates;
pub(crate) use slices::{Deferred, SlicedBatch};
pub(crate) use tables::{BasisKind, Change, Mark, Tables};

/// Receives the effects that a ledger accepts. A shadow's output only notes status changes.
pub(crate) trait Output {
    /// Sets a fact. It equals the previous one if `change` is [`Change::Same`] or [`Change::Moved`].
    fn put(&mut self, scope: &Scope, fact: Fact, basis: BasisKind, at: Mono, change: Change);
    /// Removes a fact.
    fn remove(&mut self, key: &FactKey, evidence: &Evidence);
    /// Records that the source confirmed a collection.
    fn confirm(&mut self, collection: &Collection, at: Mono);
    /// Returns whether any removal of a scope is held or proposed.
    fn holds(&self, _: &Scope) -> bool {
        false
    }
    /// Frees an ended or empty scope: facts of it that are still served are removed with this evidence.
    fn free(&mut self, scope: &Scope, evidence: &Evidence, at: Mono);
    /// Records a problem of an object, or its end (`None`).
    fn problem(&mut self, scope: &Scope, object: &ObjectId, problem: Option<&ProblemRecord>);
    /// Counts an update that was refused because a bound was reached.
    fn refuse(&mut self);
    /// Notes a change of freshness or conditions.
    fn note(&mut self);
    /// Notes a changed status of a source.
    fn note_status(&mut self);
}

/// Status that a source reported.
#[derive(Debug, Clone)]
pub(crate) struct DatedStatus {
    pub(crate) status: SourceStatus,
    /// Time of the report.
    pub(crate) at: Mono,
}

/// Everything that a run has reported for one scope.
#[derive(Debug, Default)]
pub(crate) struct Scoped {
    /// Facts.
    pub(crate) tables: Tables,
    lists: [List; CollectionKind::ALL.len()],
    /// Problems, and the facts that stay because of them.
    pub(crate) problems: Problems,
    /// Last status of the source.
    pub(crate) status: Option<DatedStatus>,
    /// Objects that the configuration excludes.
    pub(crate) excluded: Option<Arc<[ExcludedObject]>>,
}

impl Scoped {
    /// Returns the list state of a collection.
    pub(crate) fn list(&self, kind: CollectionKind) -> &List {
        &self.lists[kind.index()]
    }
    fn list_mut(&mut self, kind: CollectionKind) -> &mut List {
        &mut self.lists[kind.index()]
    }
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.problems.is_empty()
    }
}

/// Ended scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Scope.
    pub(crate) scope: Scope,
    /// Evidence of the end.
    pub(crate) evidence: Evidence,
    /// Time of the end.
    pub(crate) at: Mono,
}

/// Everything that one run has reported.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Generation of the run; updates of other generations are fenced.
    pub(crate) generation: Generation,
    /// Identity of the source, if it has one.
    pub(crate) identity: Option<Fingerprint>,
    /// Collections that it follows; those of the previous run until it has reported its own.
    pub(crate) follows: Option<Follows>,
    /// Whether this run has reported what it follows.
    reported: bool,
    /// Reported state by scope.
    pub(crate) scopes: BTreeMap<Scope, Scoped>,
    /// Most recently ended scopes, oldest first.
    pub(crate) ended: VecDeque<Ended>,
    /// Whether scopes may have to be freed.
    untidy: bool,
    /// Scopes in which a problem ended in this batch.
    repaired: BTreeSet<Scope>,
    /// Scopes that could not be restored from the journal: unknown until a run lists them or does not follow them.
    lost: BTreeSet<Scope>,
}

/// Returns whether a fact is a policy that stands in for one of which no version is valid. It does not replace the last version of
/// its key that was, which may be of an earlier run.
fn stands_in(fact: &Fact) -> bool {
    if let Fact::Policy(_, declared) = fact { declared.policy.is_stand_in() } else { false }
}

impl Ledger {
    /// Most scopes of a run; facts of further scopes are refused and counted.
    pub(crate) const MOST_SCOPES: usize = 4096;
    /// Most ended scopes that are kept.
    const MOST_ENDED: usize = 256;

    /// Creates the ledger of a run that has reported nothing.
    pub(crate) fn new(generation: Generation) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Returns the list state of a collection; `None` if the scope is unknown.
    pub(crate) fn list(&self, collection: &Collection) -> Option<&List> {
        self.scopes.get(&collection.scope).map(|scoped| scoped.list(collection.kind))
    }
    /// Returns the collections that are followed or known, in order.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (Collection, &List)> {
        self.scopes.iter().flat_map(|(scope, scoped)| self.collections_in(scope, scoped))
    }
    fn collections_in<'a>(
        &'a self,
        scope: &'a Scope,
        scoped: &'a Scoped,
    ) -> impl Iterator<Item = (Collection, &'a List)> {
        CollectionKind::ALL.into_iter().filter_map(move |kind| {
            let list = scoped.list(kind);
            let collection = Collection { scope: scope.clone(), kind };
            let shown = list.freshness != Freshness::Unknown || self.follows(&collection);
            shown.then_some((collection, list))
        })
    }
    fn follows(&self, collection: &Collection) -> bool {
        let of = |all: &Follows| all.required.contains(collection) || all.optional.contains(collection);
        self.follows.as_ref().is_some_and(of)
    }
    fn has_ended(&self, scope: &Scope) -> bool {
        self.ended.iter().any(|ended| ended.scope == *scope)
    }
    /// Returns the scopes with facts.
    pub(crate) fn held_scopes(&self) -> Vec<Scope> {
        let held = self.scopes.iter().filter(|(_, scoped)| !scoped.tables.is_empty());
        held.map(|(scope, _)| scope.clone()).collect()
    }
    /// Returns every problem, each object once even if several scopes have facts of it.
    pub(crate) fn problems(&self) -> impl Iterator<Item = &ProblemRecord> {
        let mut seen = BTreeSet::new();
        let all = self.scopes.values().flat_map(|scoped| scoped.problems.iter());
        all.filter(move |record| seen.insert(&record.object.id))
    }
    /// Returns whether the ledger has any fact.
    pub(crate) fn holds_facts(&self) -> bool {
        self.scopes.values().any(|scoped| !scoped.tables.is_empty())
    }
    /// Returns the number of objects with a problem.
    pub(crate) fn problem_count(&self) -> usize {
        let mut bad = self.scopes.values().filter(|scoped| !scoped.problems.is_empty());
        match (bad.next(), bad.next()) {
            (Some(only), None) => only.problems.len(),
            _ => self.problems().count(),
        }
    }

    fn scoped(&mut self, scope: &Scope) -> Option<&mut Scoped> {
        if !self.scopes.contains_key(scope) {
            if self.scopes.len() >= Self::MOST_SCOPES {
                return None;
            }
            self.scopes.insert(scope.clone(), Scoped::default());
            self.untidy = true;
        }
        self.scopes.get_mut(scope)
    }

    /// Applies one update.
    pub(crate) fn apply(&mut self, at: Mono, delta: RegistryUpdate, out: &mut impl Output) {
        match delta {
            RegistryUpdate::Put(scope, fact, basis) => {
                return self.put(&scope, fact, (&basis).into(), at, out);
            }
            RegistryUpdate::Remove(key, evidence) => return self.remove(&key, &evidence, out),
            RegistryUpdate::Progress(collection) => return self.progress(&collection, at, out),
            RegistryUpdate::Problem(scope, object, problem) => {
                let generation = self.generation;
                if problem.is_none() {
                    self.repaired.insert(scope.clone());
                }
                let Some(scoped) = self.scoped(&scope) else { return out.refuse() };
                scoped.problems.report(&scope, object, problem, (generation, at), out);
            }
            RegistryUpdate::Status(scope, status) => return self.status(&scope, status, at, out),
            RegistryUpdate::ListStarted(collection) => match self.scoped(&collection.scope) {
                Some(scoped) => scoped.list_mut(collection.kind).begin(at),
                None => return out.refuse(),
            },
            RegistryUpdate::ListEnded(collection, how) => self.synced(&collection, how, at, out),
            RegistryUpdate::Withheld(collection, withheld) => self.withhold(&collection, &withheld, at, out),
            RegistryUpdate::Follows { required, optional } => self.follow(required, optional),
            RegistryUpdate::Excluded(scope, list) => self.exclude(&scope, &list),
            RegistryUpdate::End(scope, evidence) => self.end_scope(&scope, evidence, at, out),
            RegistryUpdate::Identity(identity) => self.identity = Some(identity),
        }
        out.note();
    }

    fn put(&mut self, scope: &Scope, fact: Fact, basis: BasisKind, at: Mono, out: &mut impl Output) {
        let Some(scoped) = self.scoped(scope) else { return out.refuse() };
        let item = fact.item();
        let held = if stands_in(&fact) { scoped.tables.get(&item) } else { None };
        let fact = held.map(|(held, _)| held).filter(|held| !stands_in(held)).unwrap_or(fact);
        let list = scoped.list(item.kind());
        let mark = Mark { changed: at, seen: list.epoch, basis };
        let (change, before) = scoped.tables.put(&fact, mark);
        // the state may serve more than a partial value had
        let was_doubted = before.is_some_and(|before| before.basis != BasisKind::Authoritative);
        let change = if was_doubted { Change::Changed } else { change };
        if !change.is_same() {
            scoped.list_mut(item.kind()).change(at);
        }
        scoped.problems.unspare(fact.object(), &item);
        scoped.problems.release(scope, fact.object(), out);
        if before.is_some_and(|before| scoped.list(item.kind()).lacks(before.seen))
            && scoped.list_mut(item.kind()).found()
        {
            out.note();
        }
        out.put(scope, fact, basis, at, change);
    }

    fn remove(&mut self, key: &FactKey, evidence: &Evidence, out: &mut impl Output) {
        if let Some(scoped) = self.scopes.get_mut(&key.scope) {
            let kind = key.item.kind();
            let gone = scoped.tables.remove(&key.item);
            if gone.is_some_and(|mark| scoped.list(kind).lacks(mark.seen)) && scoped.list_mut(kind).found() {
                out.note();
            }
            self.untidy |= gone.is_some() && scoped.tables.is_empty();
        }
        // the state may hold a removal that this one confirms
        out.remove(key, evidence);
    }

    fn progress(&mut self, collection: &Collection, at: Mono, out: &mut impl Output) {
        let Some(scoped) = self.scopes.get_mut(&collection.scope) else { return };
        let list = scoped.list_mut(collection.kind);
        let revived = list.progress(at);
        if list.confirmed == Some(at) {
            out.confirm(collection, at);
        }
        if revived {
            out.note();
        }
    }

    fn status(&mut self, scope: &Scope, status: SourceStatus, at: Mono, out: &mut impl Output) {
        use SourceState::{AuthFailed, Broken, Forbidden, Live, Syncing, Unreachable};
        let Some(scoped) = self.scoped(scope) else { return out.refuse() };
        let mut changed = false;
        for list in &mut scoped.lists {
            changed |= match status.state {
                Syncing => false,
                Unreachable | AuthFailed | Forbidden | Broken => list.go_stale(at, &status.reason),
                Live => list.revive(),
            };
        }
        let status = status.bounded();
        let known = scoped.status.as_ref();
        if known.is_none_or(|known| known.status != status) {
            out.note_status();
        }
        scoped.status = Some(DatedStatus { status, at });
        if changed {
            out.note();
        }
    }

    fn follow(&mut self, required: Vec<Collection>, optional: Vec<Collection>) {
        let bounded = |list: Vec<Collection>| {
            let most = Self::MOST_SCOPES * CollectionKind::ALL.len();
            list.into_iter().take(most).collect::<BTreeSet<Collection>>()
        };
        let follows = Follows { required: bounded(required), optional: bounded(optional) };
        for collection in follows.required.iter().chain(&follows.optional) {
            self.scoped(&collection.scope);
        }
        self.follows = Some(follows);
        (self.reported, self.untidy) = (true, true);
    }

    fn exclude(&mut self, scope: &Scope, list: &Arc<[ExcludedObject]>) {
        let Some(scoped) = self.scoped(scope) else { return };
        let kept = if list.len() > ExcludedObject::MAX {
            list[..ExcludedObject::MAX].into()
        } else {
            Arc::clone(list)
        };
        scoped.excluded = (!kept.is_empty()).then_some(kept);
    }

    /// Ends a list. A complete one removes the facts that it lacks, except those of objects with a problem.
    fn synced(&mut self, collection: &Collection, how: Completeness, at: Mono, out: &mut impl Output) {
        let generation = self.generation;
        let Some(scoped) = self.scoped(&collection.scope) else { return out.refuse() };
        let list = scoped.list(collection.kind);
        let open = list.open;
        let unseen = if open { scoped.tables.unseen(collection.kind, list.epoch) } else { Vec::new() };
        let removes = scoped.list_mut(collection.kind).end(how, unseen.len(), at);
        if scoped.list(collection.kind).confirmed == Some(at) {
            out.confirm(collection, at);
        }
        if how == Completeness::ExceptInvalid {
            let kept = unseen.iter().filter_map(|(_, object)| object.clone());
            scoped.problems.keep(&collection.scope, kept, (generation, at), out);
        }
        if removes {
            scoped.problems.release_all(&collection.scope, out);
        }
        for (item, object) in unseen.into_iter().filter(|_| removes) {
            if !scoped.problems.spare(object.as_ref(), &item, generation) {
                scoped.tables.remove(&item);
                out.remove(&FactKey { scope: collection.scope.clone(), item }, &Evidence::AbsentFromList);
            }
        }
        self.untidy = true;
        self.end_old_problems(&collection.scope, out);
    }

    fn withhold(&mut self, collection: &Collection, withheld: &Withheld, at: Mono, out: &mut impl Output) {
        let Some(scoped) = self.scoped(&collection.scope) else { return out.refuse() };
        scoped.list_mut(collection.kind).withhold(withheld, at);
        self.untidy = true;
    }

    /// Ends problems that only earlier runs reported, once this run has listed their scope.
    fn end_old_problems(&mut self, scope: &Scope, out: &mut impl Output) {
        let generation = self.generation;
        let Some(follows) = self.follows.as_ref().filter(|_| self.reported) else { return };
        let Some(scoped) = self.scopes.get_mut(scope) else { return };
        let listed = |kind: CollectionKind| {
            scoped.list(kind).result.is_some_and(|result| result > ListResult::Withheld)
        };
        if follows.kinds(scope).all(listed) {
            scoped.problems.end_older(scope, generation, out);
            self.repaired.insert(scope.clone());
        }
    }

    /// Ends a whole scope.
    fn end_scope(&mut self, scope: &Scope, evidence: EndEvidence, at: Mono, out: &mut impl Output) {
        let evidence = Evidence::from(evidence);
        if let Some(scoped) = self.scopes.remove(scope) {
            for item in scoped.tables.items() {
                out.remove(&FactKey { scope: scope.clone(), item }, &evidence);
            }
        }
        out.free(scope, &evidence, at);
        self.ended.retain(|ended| ended.scope != *scope);
        self.ended.push_back(Ended { scope: scope.clone(), evidence, at });
        if self.ended.len() > Self::MOST_ENDED {
            self.ended.pop_front();
        }
        out.note();
    }

    /// Reverts a restored scope that cannot be trusted, as if nothing had been reported for it.
    pub(crate) fn forget(&mut self, scope: &Scope, out: &mut impl Output) {
        self.lost.insert(scope.clone());
        let Some(scoped) = self.scopes.remove(scope) else { return };
        for item in scoped.tables.items() {
            out.remove(&FactKey { scope: scope.clone(), item }, &Evidence::Operator);
        }
        out.free(scope, &Evidence::Operator, Mono::default());
    }

    /// Removes one kind of facts of a scope.
    pub(crate) fn end_part(
        &mut self,
        scope: &Scope,
        kind: CollectionKind,
        evidence: &Evidence,
        out: &mut impl Output,
    ) {
        let Some(scoped) = self.scopes.get_mut(scope) else { return };
        let items: Vec<FactId> = scoped.tables.iter(kind).map(|(fact, _)| fact.item()).collect();
        for item in items {
            self.remove(&FactKey { scope: scope.clone(), item }, evidence, out);
        }
    }

    /// Ends a batch: removes facts that a repaired object did not report again, scopes that the configuration
    /// excludes, and empty scopes that are not followed.
    pub(crate) fn end_batch(&mut self, scopes: &Scopes, now: Mono, out: &mut impl Output) {
        for scope in std::mem::take(&mut self.repaired) {
            let Some(scoped) = self.scopes.get_mut(&scope) else { continue };
            for item in scoped.problems.take_unrepeated() {
                scoped.tables.remove(&item);
                out.remove(&FactKey { scope: scope.clone(), item }, &Evidence::AbsentFromList);
            }
        }
        self.settle_lost();
        if std::mem::take(&mut self.untidy) && self.is_synced() {
            self.tidy(scopes, now, out);
        }
    }

    fn tidy(&mut self, scopes: &Scopes, now: Mono, out: &mut impl Output) {
        let followed = |scope: &Scope| self.follows.as_ref().is_some_and(|all| all.scope(scope));
        let over = self
            .scopes
            .iter()
            .filter(|(scope, scoped)| !scopes.allow(scope) || (scoped.is_empty() && !followed(scope)));
        let over: Vec<Scope> = over.map(|(scope, _)| scope.clone()).collect();
        for scope in over {
            if !scopes.allow(&scope) {
                self.end_scope(&scope, EndEvidence::Operator, now, out);
            } else if out.holds(&scope) {
                self.untidy = true;
            } else {
                self.scopes.remove(&scope);
                out.free(&scope, &Evidence::AbsentFromList, now);
                out.note();
            }
        }
    }

    /// Begins the next run on the same facts, which are stale until that run lists them.
    pub(crate) fn restart(&mut self, generation: Generation, now: Mono, why: &Arc<str>) {
        (self.generation, self.reported) = (generation, false);
        for scoped in self.scopes.values_mut() {
            scoped.excluded = None;
            scoped.lists.iter_mut().for_each(|list| list.restart(now, why));
        }
    }
    /// Marks the run as ended: its facts are stale for this reason, and its statuses are removed.
    pub(crate) fn fail(&mut self, now: Mono, why: &Arc<str>) {
        for scoped in self.scopes.values_mut() {
            scoped.status = None;
            scoped.lists.iter_mut().for_each(|list| list.fail(now, why));
        }
    }
    /// Makes live collections stale, since the source is not followed.
    pub(crate) fn go_stale(&mut self, since: Mono, why: &Arc<str>) {
        for list in self.scopes.values_mut().flat_map(|scoped| &mut scoped.lists) {
            list.go_stale(since, why);
        }
    }
    /// Removes every fact, since the registry is removed.
    pub(crate) fn leave(&mut self, evidence: &Evidence, now: Mono, out: &mut impl Output) {
        for (scope, scoped) in std::mem::take(&mut self.scopes) {
            for item in scoped.tables.items() {
                out.remove(&FactKey { scope: scope.clone(), item }, evidence);
            }
            out.free(&scope, evidence, now);
        }
    }
}
