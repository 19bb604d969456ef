//! What has been said and not been taken, conflated: a log whose places keep the order.
//!
//! Used by the inlet under its lock. The order of words about different things is that of the
//! source. Of words about one thing, those go that a later word makes superfluous; what may go, and
//! to which place the later word may move, is decided here and in `words`, in such a way that the
//! end state is the same. One thing is given up: of two complete lists of a collection with a
//! Restart between them only the second judges, so a key that the first did not hold is spared when
//! its object has gone bad before the second. Nothing is ever lost by that.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use smallvec::SmallVec;
use tributary_model::{
    Basis, Collection, Completeness, FactId, FactKey, Mono, ObjectId, RegistryUpdate, Scope, SourceState,
};

use super::pending_update::{Fences, PendingUpdates};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Restart,
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
        let Some(open) = self.last(Mark::Restart) else { return Fences::default() };
        let (before, _) = self.marks.split_at(open);
        let ended = before.iter().rev().find(|(_, m)| *m == Mark::Complete);
        Fences {
            fence: ended.map_or(0, |(place, _)| *place),
            open: self.marks.get(open).map_or(0, |(place, _)| *place),
        }
    }
}

/// How a status bears on freshness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Bad,
    Neither,
}

impl Tone {
    const fn of(state: SourceState) -> Self {
        match state {
            SourceState::Live => Self::Good,
            SourceState::Syncing => Self::Neither,
            SourceState::Unreachable
            | SourceState::AuthFailed
            | SourceState::Forbidden
            | SourceState::Broken => Self::Bad,
        }
    }
}

#[derive(Debug, Default)]
struct ScopeWords {
    /// Places of pending statuses, one of each tone at most.
    statuses: SmallVec<[(u64, Tone); 3]>,
    /// The place of what is left out.
    left_out: Option<u64>,
    /// The place where the scope ended.
    end: Option<u64>,
    /// The last place where the source was heard to be well.
    heard: u64,
}

/// What is pending.
#[derive(Debug, Default)]
pub(super) struct Pending {
    last: u64,
    log: BTreeMap<u64, (Mono, RegistryUpdate)>,
    listings: HashMap<Collection, Listing>,
    /// Complete ends of lists, of any collection: problems said before one count for it.
    ends: BTreeSet<u64>,
    problems: HashMap<(Scope, ObjectId), SmallVec<[u64; 1]>>,
    scopes: HashMap<Scope, ScopeWords>,
    follows: Option<u64>,
    identity: Option<u64>,
    conflated: u64,
}

impl Pending {
    /// How many words have gone so far.
    pub(super) const fn conflated(&self) -> u64 {
        self.conflated
    }
    /// The words in order.
    pub(super) fn into_words(self) -> impl Iterator<Item = (Mono, RegistryUpdate)> {
        self.log.into_values()
    }
    /// Takes one word.
    pub(super) fn push(&mut self, at: Mono, delta: RegistryUpdate) {
        match &delta {
            RegistryUpdate::Put(scope, fact, basis) => {
                let key = FactKey { scope: scope.clone(), item: fact.item() };
                self.word(at, key, *basis == Basis::Authoritative, delta);
            }
            RegistryUpdate::Remove(key, evidence) => {
                let (key, sure) = (key.clone(), !evidence.is_absence());
                self.word(at, key, sure, delta);
            }
            RegistryUpdate::ListStarted(collection) => self.restart(at, collection.clone()),
            RegistryUpdate::ListEnded(collection, how) => self.synced(at, collection.clone(), *how),
            RegistryUpdate::Progress(collection) => self.progress(at, collection.clone()),
            RegistryUpdate::Follows { .. } => self.follows(at, delta),
            RegistryUpdate::Identity(_) => self.identity(at, delta),
            RegistryUpdate::Withheld(collection, _) => self.withheld(at, collection.clone(), delta),
            RegistryUpdate::End(scope, _) => self.end(at, scope.clone(), delta),
            RegistryUpdate::Problem(scope, object, _) => {
                let object = (scope.clone(), object.id.clone());
                self.problem(at, object, delta);
            }
            RegistryUpdate::Excluded(scope, _) => self.left_out(at, scope.clone(), delta),
            RegistryUpdate::Status(scope, status) => {
                let (scope, state) = (scope.clone(), status.state);
                self.status(at, scope, state, delta);
            }
        }
    }

    fn append(&mut self, at: Mono, delta: RegistryUpdate) -> u64 {
        self.last += 1;
        self.log.insert(self.last, (at, delta));
        self.last
    }
    fn discard(&mut self, place: u64) {
        if self.log.remove(&place).is_some() {
            self.conflated += 1;
        }
    }

    fn word(&mut self, at: Mono, key: FactKey, sure: bool, delta: RegistryUpdate) {
        let listing = self.listings.entry(key.collection()).or_default();
        let fences = listing.fences();
        let words = listing.keys.entry(key.item).or_default();
        let before = words.places();
        let place = words.say(sure, fences, self.last + 1);
        words.fold(fences);
        let after = words.places();
        self.last = self.last.max(place);
        for gone in before.iter().filter(|p| !after.contains(p)) {
            self.discard(*gone);
        }
        if self.log.insert(place, (at, delta)).is_some() {
            self.conflated += 1;
        }
    }

    /// A list begins. Of several that did not end the first and the last are kept: the core knows
    /// by the first that it is not followed, and by the last what has to be named again.
    fn restart(&mut self, at: Mono, collection: Collection) {
        let place = self.append(at, RegistryUpdate::ListStarted(collection.clone()));
        let listing = self.listings.entry(collection.clone()).or_default();
        let from = listing.last(Mark::Complete).map_or(0, |end| end + 1);
        let begun = |(index, (_, mark)): &(usize, &(u64, Mark))| *index >= from && *mark == Mark::Restart;
        let middle = listing.marks.iter().enumerate().filter(begun).map(|(index, _)| index).nth(1);
        let gone = middle.map(|middle| listing.marks.remove(middle).0);
        listing.marks.push((place, Mark::Restart));
        if let Some(gone) = gone {
            self.discard(gone);
        }
        self.fold(&collection);
    }

    fn synced(&mut self, at: Mono, collection: Collection, how: Completeness) {
        let place = self.append(at, RegistryUpdate::ListEnded(collection.clone(), how));
        self.scopes.entry(collection.scope.clone()).or_default().heard = place;
        let complete = how == Completeness::Complete;
        let mark = if complete { Mark::Complete } else { Mark::Incomplete };
        let listing = self.listings.entry(collection.clone()).or_default();
        let gone = superseded_marks(listing, complete);
        listing.marks.push((place, mark));
        if complete {
            self.ends.insert(place);
        }
        if !gone.is_empty() {
            self.forget_marks(&collection, &gone);
        }
    }

    fn forget_marks(&mut self, collection: &Collection, gone: &[u64]) {
        let mut ends_gone = false;
        for place in gone {
            ends_gone |= self.ends.remove(place);
            self.discard(*place);
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
        for words in listing.keys.values_mut() {
            let before = words.places();
            words.fold(fences);
            let after = words.places();
            gone.extend(before.iter().filter(|place| !after.contains(place)));
        }
        for place in gone {
            self.discard(place);
        }
    }

    fn progress(&mut self, at: Mono, collection: Collection) {
        let place = self.append(at, RegistryUpdate::Progress(collection.clone()));
        self.scopes.entry(collection.scope.clone()).or_default().heard = place;
        let older = self.listings.entry(collection).or_default().progress.replace(place);
        if let Some(older) = older {
            self.discard(older);
        }
    }

    /// Collections that are followed: the last value counts, wherever it stands.
    fn follows(&mut self, at: Mono, delta: RegistryUpdate) {
        let place = self.append(at, delta);
        if let Some(older) = self.follows.replace(place) {
            self.discard(older);
        }
    }

    /// The source's identity: the last value counts, from where the first one stood.
    fn identity(&mut self, at: Mono, delta: RegistryUpdate) {
        match self.identity {
            Some(place) => {
                self.log.insert(place, (at, delta));
                self.conflated += 1;
            }
            None => self.identity = Some(self.append(at, delta)),
        }
    }

    /// A collection cannot be read: one such update is pending at most, as old as the first of them.
    fn withheld(&mut self, at: Mono, collection: Collection, delta: RegistryUpdate) {
        let next = self.last + 1;
        let listing = self.listings.entry(collection).or_default();
        let older = listing.marks.iter().position(|(_, mark)| *mark == Mark::Withheld);
        let older = older.map(|index| listing.marks.remove(index).0);
        listing.marks.push((next, Mark::Withheld));
        let at = older.and_then(|place| self.log.get(&place)).map_or(at, |(since, _)| *since);
        self.append(at, delta);
        if let Some(older) = older {
            self.discard(older);
        }
    }

    /// A scope is gone: what was pending of it goes, and later updates stay behind its end.
    fn end(&mut self, at: Mono, scope: Scope, delta: RegistryUpdate) {
        let mut gone: Vec<u64> = Vec::new();
        for (_, listing) in self.listings.extract_if(|collection, _| collection.scope == scope) {
            let keys = listing.keys.values().flat_map(|words| words.places());
            gone.extend(keys.chain(listing.marks.iter().map(|(place, _)| *place)).chain(listing.progress));
        }
        for (_, places) in self.problems.extract_if(|(of, _), _| *of == scope) {
            gone.extend(places);
        }
        if let Some(words) = self.scopes.remove(&scope) {
            gone.extend(
                words.statuses.iter().map(|(place, _)| *place).chain(words.left_out).chain(words.end),
            );
        }
        for place in gone {
            self.ends.remove(&place);
            self.discard(place);
        }
        let place = self.append(at, delta);
        self.scopes.entry(scope).or_default().end = Some(place);
    }

    fn problem(&mut self, at: Mono, object: (Scope, ObjectId), delta: RegistryUpdate) {
        let seen_by_an_end = |place: u64| self.ends.range(place..).next().is_some();
        let last = self.problems.get(&object).and_then(|places| places.last().copied());
        if let Some(last) = last.filter(|place| !seen_by_an_end(*place)) {
            self.log.insert(last, (at, delta));
            self.conflated += 1;
        } else {
            let place = self.append(at, delta);
            self.problems.entry(object).or_default().push(place);
        }
    }

    /// The last word is all of it, and bears on nothing else.
    fn left_out(&mut self, at: Mono, scope: Scope, delta: RegistryUpdate) {
        let place = self.append(at, delta);
        let older = self.scopes.entry(scope).or_default().left_out.replace(place);
        if let Some(older) = older {
            self.discard(older);
        }
    }

    fn fold_problems(&mut self) {
        let mut gone: Vec<u64> = Vec::new();
        for places in self.problems.values_mut() {
            let mut kept: SmallVec<[u64; 1]> = SmallVec::new();
            for place in places.drain(..) {
                let superfluous =
                    kept.last().is_some_and(|last| self.ends.range(*last..place).next().is_none());
                if superfluous {
                    gone.extend(kept.pop());
                }
                kept.push(place);
            }
            *places = kept;
        }
        for place in gone {
            self.discard(place);
        }
    }

    /// The last status of each tone counts: a source that connects again is not back yet. A second
    /// bad one keeps the first one's time.
    fn status(&mut self, at: Mono, scope: Scope, state: SourceState, delta: RegistryUpdate) {
        let tone = Tone::of(state);
        let words = self.scopes.entry(scope).or_default();
        let older = words.statuses.iter().position(|(_, older)| *older == tone);
        let older = older.map(|index| words.statuses.remove(index).0);
        let good = words.statuses.iter().filter(|(_, t)| *t == Tone::Good).map(|(place, _)| *place).max();
        let well = words.heard.max(good.unwrap_or(0));
        let since = older.filter(|place| tone == Tone::Bad && *place > well);
        let at = since.and_then(|place| self.log.get(&place)).map_or(at, |(since, _)| *since);
        self.last += 1;
        words.statuses.push((self.last, tone));
        self.log.insert(self.last, (at, delta));
        if let Some(older) = older {
            self.discard(older);
        }
    }
}

/// Which marks of a listing a new end makes superfluous, taken out of it. Any end supersedes those
/// that were not complete. A complete one supersedes all lists before the one that it ends. The
/// first complete end of a list judges and stays; the last one stays beside it, because it may say
/// that the source is back.
fn superseded_marks(listing: &mut Listing, complete: bool) -> SmallVec<[u64; 4]> {
    let open = listing.last(Mark::Restart);
    let from = open.map_or(0, |open| open + 1);
    let ends = listing.marks.iter().skip(from).filter(|(_, mark)| *mark == Mark::Complete).count();
    let refreshed = if ends > 1 { listing.last(Mark::Complete) } else { None };
    let mut gone = SmallVec::new();
    let mut index = 0;
    listing.marks.retain(|(place, mark)| {
        let older_list = open.is_some_and(|open| index < open);
        let superseded = matches!(mark, Mark::Incomplete | Mark::Withheld)
            || (complete && (older_list || refreshed == Some(index)));
        index += 1;
        if superseded {
            gone.push(*place);
        }
        !superseded
    });
    gone
}
