//! Pending updates of a channel, conflated: a log whose positions keep the order.
//!
//! The update channel uses it under its lock. Updates about different subjects keep the order of the source. A
//! later update about the same subject repositions earlier ones; this module and `pending_update` decide which
//! updates are superseded and to which position the later one may move, so the final state stays the same. One
//! difference remains: of two complete lists of a collection with a `ListStarted` between them only the second
//! removes facts, so a key missing from the first list stays if its object became invalid before the second. This
//! never loses a fact.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use smallvec::SmallVec;
use tributary_model::{
    Basis, Collection, Completeness, FactId, FactKey, Mono, ObjectId, RegistryUpdate, Scope, SourceState,
};

use super::pending_update::{Fences, PendingUpdates};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Started,
    Complete,
    Incomplete,
    Withheld,
}

#[derive(Debug, Default)]
struct Listing {
    keys: HashMap<FactId, PendingUpdates>,
    marks: SmallVec<[(u64, Mark); 4]>,
    progress: Option<u64>,
}

impl Listing {
    fn last(&self, mark: Mark) -> Option<usize> {
        self.marks.iter().rposition(|(_, m)| *m == mark)
    }
    fn fences(&self) -> Fences {
        let Some(open) = self.last(Mark::Started) else { return Fences::default() };
        let (before, _) = self.marks.split_at(open);
        let ended = before.iter().rev().find(|(_, m)| *m == Mark::Complete);
        Fences {
            fence: ended.map_or(0, |(position, _)| *position),
            open: self.marks.get(open).map_or(0, |(position, _)| *position),
        }
    }
}

/// Effect of a status on freshness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Recovers,
    Degrades,
    Neutral,
}

impl Effect {
    const fn of(state: SourceState) -> Self {
        match state {
            SourceState::Live => Self::Recovers,
            SourceState::Syncing => Self::Neutral,
            SourceState::Unreachable
            | SourceState::AuthFailed
            | SourceState::Forbidden
            | SourceState::Broken => Self::Degrades,
        }
    }
}

#[derive(Debug, Default)]
struct ScopeUpdates {
    /// Positions of pending statuses, at most one of each effect.
    statuses: SmallVec<[(u64, Effect); 3]>,
    /// Position of the excluded objects.
    excluded: Option<u64>,
    /// Position of the scope's end.
    end: Option<u64>,
    /// Last position that shows a working source.
    confirmed: u64,
}

/// Pending updates of a channel.
#[derive(Debug, Default)]
pub(super) struct Pending {
    last: u64,
    log: BTreeMap<u64, (Mono, RegistryUpdate)>,
    listings: HashMap<Collection, Listing>,
    /// Positions of complete list ends of any collection. Problems before such an end affect it.
    ends: BTreeSet<u64>,
    problems: HashMap<(Scope, ObjectId), SmallVec<[u64; 1]>>,
    scopes: HashMap<Scope, ScopeUpdates>,
    follows: Option<u64>,
    identity: Option<u64>,
    conflated: u64,
}

impl Pending {
    /// Returns the number of superseded updates so far.
    pub(super) const fn conflated(&self) -> u64 {
        self.conflated
    }
    /// Returns the updates in order.
    pub(super) fn into_updates(self) -> impl Iterator<Item = (Mono, RegistryUpdate)> {
        self.log.into_values()
    }
    /// Adds one update.
    pub(super) fn push(&mut self, at: Mono, update: RegistryUpdate) {
        match &update {
            RegistryUpdate::Put(scope, fact, basis) => {
                let key = FactKey { scope: scope.clone(), item: fact.item() };
                self.fact(at, key, *basis == Basis::Authoritative, update);
            }
            RegistryUpdate::Remove(key, evidence) => {
                let (key, sure) = (key.clone(), !evidence.is_absence());
                self.fact(at, key, sure, update);
            }
            RegistryUpdate::ListStarted(collection) => self.list_started(at, collection.clone()),
            RegistryUpdate::ListEnded(collection, how) => self.list_ended(at, collection.clone(), *how),
            RegistryUpdate::Progress(collection) => self.progress(at, collection.clone()),
            RegistryUpdate::Follows { .. } => self.follows(at, update),
            RegistryUpdate::Identity(_) => self.identity(at, update),
            RegistryUpdate::Withheld(collection, _) => self.withheld(at, collection.clone(), update),
            RegistryUpdate::End(scope, _) => self.end(at, scope.clone(), update),
            RegistryUpdate::Problem(scope, object, _) => {
                let object = (scope.clone(), object.id.clone());
                self.problem(at, object, update);
            }
            RegistryUpdate::Excluded(scope, _) => self.excluded(at, scope.clone(), update),
            RegistryUpdate::Status(scope, status) => {
                let (scope, state) = (scope.clone(), status.state);
                self.status(at, scope, state, update);
            }
        }
    }

    fn append(&mut self, at: Mono, update: RegistryUpdate) -> u64 {
        self.last += 1;
        self.log.insert(self.last, (at, update));
        self.last
    }
    fn discard(&mut self, position: u64) {
        if self.log.remove(&position).is_some() {
            self.conflated += 1;
        }
    }

    fn fact(&mut self, at: Mono, key: FactKey, sure: bool, update: RegistryUpdate) {
        let listing = self.listings.entry(key.collection()).or_default();
        let fences = listing.fences();
        let updates = listing.keys.entry(key.item).or_default();
        let before = updates.positions();
        let position = updates.file(sure, fences, self.last + 1);
        updates.fold(fences);
        let after = updates.positions();
        self.last = self.last.max(position);
        for gone in before.iter().filter(|p| !after.contains(p)) {
            self.discard(*gone);
        }
        if self.log.insert(position, (at, update)).is_some() {
            self.conflated += 1;
        }
    }

    /// Adds the start of a list. Of several lists without an end it keeps the first start and the last: the
    /// first marks the collection as not followed, the last decides which facts the list must contain.
    fn list_started(&mut self, at: Mono, collection: Collection) {
        let position = self.append(at, RegistryUpdate::ListStarted(collection.clone()));
        let listing = self.listings.entry(collection.clone()).or_default();
        let from = listing.last(Mark::Complete).map_or(0, |end| end + 1);
        let unfinished =
            |(index, (_, mark)): &(usize, &(u64, Mark))| *index >= from && *mark == Mark::Started;
        let middle = listing.marks.iter().enumerate().filter(unfinished).map(|(index, _)| index).nth(1);
        let gone = middle.map(|middle| listing.marks.remove(middle).0);
        listing.marks.push((position, Mark::Started));
        if let Some(gone) = gone {
            self.discard(gone);
        }
        self.fold(&collection);
    }

    fn list_ended(&mut self, at: Mono, collection: Collection, how: Completeness) {
        let position = self.append(at, RegistryUpdate::ListEnded(collection.clone(), how));
        self.scopes.entry(collection.scope.clone()).or_default().confirmed = position;
        let complete = how == Completeness::Complete;
        let mark = if complete { Mark::Complete } else { Mark::Incomplete };
        let listing = self.listings.entry(collection.clone()).or_default();
        let gone = superseded_marks(listing, complete);
        listing.marks.push((position, mark));
        if complete {
            self.ends.insert(position);
        }
        if !gone.is_empty() {
            self.forget_marks(&collection, &gone);
        }
    }

    fn forget_marks(&mut self, collection: &Collection, gone: &[u64]) {
        let mut ends_gone = false;
        for position in gone {
            ends_gone |= self.ends.remove(position);
            self.discard(*position);
        }
        self.fold(collection);
        if ends_gone {
            self.fold_problems();
        }
    }

    fn fold(&mut self, collection: &Collection) {
        let Some(listing) = self.listings.get_mut(collection) else { return };
        let fences = listing.fences();
        let mut gone: Vec<u64> = Vec::new();
        for updates in listing.keys.values_mut() {
            let before = updates.positions();
            updates.fold(fences);
            let after = updates.positions();
            gone.extend(before.iter().filter(|position| !after.contains(position)));
        }
        for position in gone {
            self.discard(position);
        }
    }

    fn progress(&mut self, at: Mono, collection: Collection) {
        let position = self.append(at, RegistryUpdate::Progress(collection.clone()));
        self.scopes.entry(collection.scope.clone()).or_default().confirmed = position;
        let older = self.listings.entry(collection).or_default().progress.replace(position);
        if let Some(older) = older {
            self.discard(older);
        }
    }

    /// Adds the followed collections: the last value counts, at its own position.
    fn follows(&mut self, at: Mono, update: RegistryUpdate) {
        let position = self.append(at, update);
        if let Some(older) = self.follows.replace(position) {
            self.discard(older);
        }
    }

    /// Adds the source's identity: the last value counts, at the position of the first.
    fn identity(&mut self, at: Mono, update: RegistryUpdate) {
        match self.identity {
            Some(position) => {
                self.log.insert(position, (at, update));
                self.conflated += 1;
            }
            None => self.identity = Some(self.append(at, update)),
        }
    }

    /// Adds an unavailable collection: at most one such update is pending, with the time of the first.
    fn withheld(&mut self, at: Mono, collection: Collection, update: RegistryUpdate) {
        let next = self.last + 1;
        let listing = self.listings.entry(collection).or_default();
        let older = listing.marks.iter().position(|(_, mark)| *mark == Mark::Withheld);
        let older = older.map(|index| listing.marks.remove(index).0);
        listing.marks.push((next, Mark::Withheld));
        let at = older.and_then(|position| self.log.get(&position)).map_or(at, |(since, _)| *since);
        self.append(at, update);
        if let Some(older) = older {
            self.discard(older);
        }
    }

    /// Adds the end of a scope: discards its pending updates; later updates stay after the end.
    fn end(&mut self, at: Mono, scope: Scope, update: RegistryUpdate) {
        let mut gone: Vec<u64> = Vec::new();
        for (_, listing) in self.listings.extract_if(|collection, _| collection.scope == scope) {
            let keys = listing.keys.values().flat_map(|updates| updates.positions());
            gone.extend(
                keys.chain(listing.marks.iter().map(|(position, _)| *position)).chain(listing.progress),
            );
        }
        for (_, positions) in self.problems.extract_if(|(of, _), _| *of == scope) {
            gone.extend(positions);
        }
        if let Some(updates) = self.scopes.remove(&scope) {
            gone.extend(
                updates
                    .statuses
                    .iter()
                    .map(|(position, _)| *position)
                    .chain(updates.excluded)
                    .chain(updates.end),
            );
        }
        for position in gone {
            self.ends.remove(&position);
            self.discard(position);
        }
        let position = self.append(at, update);
        self.scopes.entry(scope).or_default().end = Some(position);
    }

    fn problem(&mut self, at: Mono, object: (Scope, ObjectId), update: RegistryUpdate) {
        let is_before_an_end = |position: u64| self.ends.range(position..).next().is_some();
        let last = self.problems.get(&object).and_then(|positions| positions.last().copied());
        if let Some(last) = last.filter(|position| !is_before_an_end(*position)) {
            self.log.insert(last, (at, update));
            self.conflated += 1;
        } else {
            let position = self.append(at, update);
            self.problems.entry(object).or_default().push(position);
        }
    }

    /// Adds the excluded objects of a scope. The last list counts; its position does not matter.
    fn excluded(&mut self, at: Mono, scope: Scope, update: RegistryUpdate) {
        let position = self.append(at, update);
        let older = self.scopes.entry(scope).or_default().excluded.replace(position);
        if let Some(older) = older {
            self.discard(older);
        }
    }

    fn fold_problems(&mut self) {
        let mut gone: Vec<u64> = Vec::new();
        for positions in self.problems.values_mut() {
            let mut kept: SmallVec<[u64; 1]> = SmallVec::new();
            for position in positions.drain(..) {
                let superseded =
                    kept.last().is_some_and(|last| self.ends.range(*last..position).next().is_none());
                if superseded {
                    gone.extend(kept.pop());
                }
                kept.push(position);
            }
            *positions = kept;
        }
        for position in gone {
            self.discard(position);
        }
    }

    /// Adds a status. The last status of each effect counts, because a source that reconnects has not
    /// recovered yet. A second degrading status keeps the time of the first.
    fn status(&mut self, at: Mono, scope: Scope, state: SourceState, update: RegistryUpdate) {
        let effect = Effect::of(state);
        let updates = self.scopes.entry(scope).or_default();
        let older = updates.statuses.iter().position(|(_, older)| *older == effect);
        let older = older.map(|index| updates.statuses.remove(index).0);
        let good = updates
            .statuses
            .iter()
            .filter(|(_, t)| *t == Effect::Recovers)
            .map(|(position, _)| *position)
            .max();
        let recovered = updates.confirmed.max(good.unwrap_or(0));
        let since = older.filter(|position| effect == Effect::Degrades && *position > recovered);
        let at = since.and_then(|position| self.log.get(&position)).map_or(at, |(since, _)| *since);
        self.last += 1;
        updates.statuses.push((self.last, effect));
        self.log.insert(self.last, (at, update));
        if let Some(older) = older {
            self.discard(older);
        }
    }
}

/// Removes and returns the marks of a listing that a new end supersedes. Any end supersedes incomplete ends. A
/// complete end supersedes all lists before its own. The first complete end of a list removes facts and stays; the
/// last one stays as well, because it may report that the source has recovered.
fn superseded_marks(listing: &mut Listing, complete: bool) -> SmallVec<[u64; 4]> {
    let open = listing.last(Mark::Started);
    let from = open.map_or(0, |open| open + 1);
    let ends = listing.marks.iter().skip(from).filter(|(_, mark)| *mark == Mark::Complete).count();
    let refreshed = if ends > 1 { listing.last(Mark::Complete) } else { None };
    let mut gone = SmallVec::new();
    let mut index = 0;
    listing.marks.retain(|(position, mark)| {
        let older_list = open.is_some_and(|open| index < open);
        let superseded = matches!(mark, Mark::Incomplete | Mark::Withheld)
            || (complete && (older_list || refreshed == Some(index)));
        index += 1;
        if superseded {
            gone.push(*position);
        }
        !superseded
    });
    gone
}
