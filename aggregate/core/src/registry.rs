//! One registry as the core sees it: its served run, the shadow that may replace it, its problems.
//!
//! Owned by [`Core`](crate::Core). A run knows which collections it must have synced and how fresh
//! each is; unknown is not empty (law 1), and a run that failed leaves everything stale, not gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Basis, Collection, Completeness, Fact, Freshness, Generation, Item, Key, LeftOut, Mono, ObjectId,
    ObjectRef, Problem, RegistryId, Scope, SinceMono, SourceState, SourceStatus, Standing, Sweep,
};

use crate::precedence::RESTORED;

/// A collection within a run.
#[derive(Debug, Default)]
pub(crate) struct CollectionState {
    /// How fresh.
    pub(crate) freshness: Freshness,
    /// Whether, and how completely, this run has listed it.
    pub(crate) synced: Option<Completeness>,
    /// When the source last confirmed it.
    pub(crate) confirmed: Option<Mono>,
    /// What a list that is under way has not named yet.
    pub(crate) sweep: Sweep<Item>,
    /// Whether a list is under way. A list that was not complete leaves its sweep open and is over all the same.
    pub(crate) listing: bool,
    /// Whether this run has said anything of it.
    pub(crate) heard: bool,
}

impl CollectionState {
    fn is_known(&self) -> bool {
        matches!(self.freshness, Freshness::Live | Freshness::Stale { .. })
    }
    /// A list begins: what was followed is no more, until the list ends.
    pub(crate) fn restart(&mut self, at: Mono) {
        (self.heard, self.listing) = (true, true);
        self.freshness = match std::mem::take(&mut self.freshness) {
            Freshness::Unknown => Freshness::Syncing,
            Freshness::Live => {
                Freshness::Stale { since: SinceMono(at), why: "it is being listed again".into() }
            }
            other => other,
        };
    }
    fn go_stale(&mut self, since: Mono, why: &Arc<str>) -> bool {
        let next = match self.freshness {
            Freshness::Live => Freshness::Stale { since: SinceMono(since), why: Arc::clone(why) },
            Freshness::Syncing => Freshness::Unknown,
            Freshness::Unknown | Freshness::Stale { .. } => return false,
        };
        self.freshness = next;
        true
    }
}

/// An open problem of an object.
#[derive(Debug, Clone)]
pub(crate) struct OpenProblem {
    /// Where a person finds the object.
    pub(crate) object: ObjectRef,
    /// What is wrong.
    pub(crate) problem: Problem,
    /// The run that said so last.
    pub(crate) said_in: Generation,
    /// Since when.
    pub(crate) since: Mono,
}

/// A source's word about itself, and when it was said.
pub(crate) type SaidStatus = (SourceStatus, Mono);

/// One run: its generation, collections and problems.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Fences its words from those of other runs.
    pub(crate) generation: Generation,
    /// What must be synced before its facts count as all; `None` until it has said so.
    pub(crate) required: Option<BTreeSet<Collection>>,
    /// All collections that it has spoken of.
    pub(crate) collections: BTreeMap<Collection, CollectionState>,
    /// The sources' own words about themselves, with when they were said.
    pub(crate) status: BTreeMap<Scope, SaidStatus>,
    /// Bad objects.
    pub(crate) problems: BTreeMap<ObjectId, OpenProblem>,
    /// Keys that a list did not name and that stay because their object is bad.
    pub(crate) spared: BTreeMap<ObjectId, BTreeSet<Key>>,
    /// What its sources have and it leaves out on purpose.
    pub(crate) left_out: BTreeMap<Scope, Arc<[LeftOut]>>,
    /// Whether all required collections have been synced in this run.
    pub(crate) settled: bool,
}

impl Run {
    /// How many collections a run may speak of.
    const MAX_COLLECTIONS: usize = 8192;
    /// How many problems are kept.
    const MAX_PROBLEMS: usize = 100_000;

    /// A run that has said nothing.
    pub(crate) fn new(generation: Generation) -> Self {
        Self { generation, ..Self::default() }
    }
    /// Continues with a new generation on the same shards: what it served stays, stale.
    pub(crate) fn restart(&mut self, generation: Generation, now: Mono, why: &Arc<str>) {
        self.generation = generation;
        self.settled = false;
        self.left_out.clear();
        for state in self.collections.values_mut() {
            state.go_stale(now, why);
            (state.synced, state.heard, state.listing) = (None, false, false);
        }
    }
    /// Marks what was live as stale; whether anything was.
    pub(crate) fn go_stale(&mut self, scope: Option<&Scope>, since: Mono, why: &Arc<str>) -> bool {
        let of_scope = |c: &Collection| scope.is_none_or(|s| *s == c.scope);
        let touched = self.collections.iter_mut().filter(|(c, _)| of_scope(c));
        touched.fold(false, |any, (_, state)| state.go_stale(since, why) || any)
    }
    /// A collection's state, made when it is new; `None` when there are too many.
    pub(crate) fn collection(&mut self, collection: &Collection) -> Option<&mut CollectionState> {
        if !self.collections.contains_key(collection) && self.collections.len() >= Self::MAX_COLLECTIONS {
            return None;
        }
        Some(self.collections.entry(collection.clone()).or_default())
    }
    /// This run names a fact of a collection; whether it had never spoken of that collection.
    pub(crate) fn hear(&mut self, collection: &Collection, item: &Item) -> bool {
        let is_new = !self.collections.contains_key(collection);
        if let Some(state) = self.collection(collection) {
            state.heard = true;
            state.sweep.see(item);
        }
        is_new
    }
    /// What must be synced; replaces what was said before.
    pub(crate) fn require(&mut self, list: Vec<Collection>) {
        let list: BTreeSet<Collection> = list.into_iter().take(Self::MAX_COLLECTIONS).collect();
        for collection in &list {
            self.collection(collection);
        }
        self.required = Some(list);
    }
    /// A list ended.
    pub(crate) fn synced(&mut self, collection: &Collection, how: Completeness, at: Mono) {
        let restored = self.generation == RESTORED;
        let Some(state) = self.collection(collection) else { return };
        (state.heard, state.listing) = (true, false);
        state.synced = Some(how);
        state.confirmed = Some(at);
        state.freshness = if restored { restored_at(at) } else { Freshness::Live };
    }
    /// The source confirmed that it is followed; whether that made it live again.
    pub(crate) fn progress(&mut self, collection: &Collection, at: Mono) -> bool {
        let Some(state) = self.collections.get_mut(collection) else { return false };
        state.confirmed = Some(at);
        revive(state)
    }
    /// A fact came from the journal: its collection is stale, which is more than unknown.
    pub(crate) fn restored(&mut self, collection: &Collection, at: Mono) {
        if let Some(state) = self.collection(collection)
            && !state.is_known()
        {
            state.freshness = restored_at(at);
        }
    }
    /// The source's word about itself; whether it changed a freshness.
    pub(crate) fn note(&mut self, scope: &Scope, status: SourceStatus, at: Mono) -> bool {
        use SourceState::{AuthFailed, Broken, Forbidden, Live, Syncing, Unreachable};
        let changed = match status.state {
            Syncing => false,
            Unreachable | AuthFailed | Forbidden | Broken => self.go_stale(Some(scope), at, &status.reason),
            Live => {
                let own = self.collections.iter_mut().filter(|(c, _)| c.scope == *scope);
                own.fold(false, |any, (_, state)| revive(state) || any)
            }
        };
        if self.status.len() < Self::MAX_COLLECTIONS || self.status.contains_key(scope) {
            self.status.insert(scope.clone(), (status.bounded(), at));
        }
        changed
    }
    /// What a scope's source has and is left out; no more of it than is kept.
    pub(crate) fn leave_out(&mut self, scope: &Scope, list: Arc<[LeftOut]>) {
        self.left_out.remove(scope);
        let list = if list.len() > LeftOut::MAX { list[..LeftOut::MAX].into() } else { list };
        if !list.is_empty() && self.left_out.len() < Self::MAX_COLLECTIONS {
            self.left_out.insert(scope.clone(), list);
        }
    }
    /// An object is bad.
    pub(crate) fn problem(&mut self, object: ObjectRef, problem: Problem, at: Mono) -> bool {
        let since = self.problems.get(&object.id).map_or(at, |known| known.since);
        if self.problems.len() >= Self::MAX_PROBLEMS && !self.problems.contains_key(&object.id) {
            return false;
        }
        let open = OpenProblem { object, problem, said_in: self.generation, since };
        self.problems.insert(open.object.id.clone(), open);
        true
    }
    /// Whether this run says that the object is bad.
    pub(crate) fn is_bad(&self, object: Option<&ObjectId>) -> bool {
        object.and_then(|o| self.problems.get(o)).is_some_and(|p| p.said_in == self.generation)
    }
    /// Whether all that it requires has been listed.
    pub(crate) fn is_synced(&self) -> bool {
        let listed = |c: &Collection| self.collections.get(c).is_some_and(|s| s.synced.is_some());
        self.required.as_ref().is_some_and(|all| all.iter().all(listed))
    }
    /// Whether nothing is known yet of something that counts.
    pub(crate) fn is_unknown(&self) -> bool {
        match &self.required {
            None => !self.collections.values().any(CollectionState::is_known),
            Some(all) => !all.iter().all(|c| self.collections.get(c).is_some_and(CollectionState::is_known)),
        }
    }
}

fn restored_at(at: Mono) -> Freshness {
    Freshness::Stale { since: SinceMono(at), why: "restored; the source has not been listed yet".into() }
}

fn revive(state: &mut CollectionState) -> bool {
    let was_listed = state.synced.is_some() && !state.listing;
    let stale = matches!(state.freshness, Freshness::Stale { .. });
    if was_listed && stale {
        state.freshness = Freshness::Live;
    }
    was_listed && stale
}

/// A run that is not served yet, with its facts.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// The run.
    pub(crate) run: Run,
    /// Its facts, with their bases and times.
    pub(crate) facts: BTreeMap<Key, (Fact, Basis, Mono)>,
}

impl Shadow {
    /// A run that has said nothing.
    pub(crate) fn new(generation: Generation) -> Self {
        Self { run: Run::new(generation), facts: BTreeMap::new() }
    }
    /// A list of the shadow's own facts begins.
    pub(crate) fn open_sweep(&mut self, collection: &Collection, at: Mono) {
        let live = self.facts.keys().filter(|k| k.collection() == *collection).map(|k| k.item.clone());
        let live: Vec<Item> = live.collect();
        if let Some(state) = self.run.collection(collection) {
            state.sweep.open(live);
            state.restart(at);
        }
    }
    /// A list of the shadow's own facts ended.
    pub(crate) fn synced(&mut self, collection: &Collection, how: Completeness, at: Mono) {
        self.run.synced(collection, how, at);
        let state = self.run.collections.get_mut(collection);
        let (Completeness::Complete, Some(state)) = (how, state) else { return };
        for item in state.sweep.close() {
            let key = Key { scope: collection.scope.clone(), item };
            let object = self.facts.get(&key).and_then(|(fact, ..)| fact.object()).cloned();
            match object.filter(|o| self.run.is_bad(Some(o))) {
                Some(object) => {
                    self.run.spared.entry(object).or_default().insert(key);
                }
                None => {
                    self.facts.remove(&key);
                }
            }
        }
    }
}

/// A registry.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Its name, provider and cluster.
    pub(crate) id: Arc<RegistryId>,
    /// Its rank within its provider; 0 is the config cluster.
    pub(crate) rank: u16,
    /// Whether it answers a question about a removal.
    pub(crate) can_confirm: bool,
    /// Normal, or demoted by policy.
    pub(crate) standing: Standing,
    /// The run that is served.
    pub(crate) run: Run,
    /// The run that may replace it.
    pub(crate) shadow: Option<Shadow>,
}
