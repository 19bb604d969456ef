//! Result of each collection, from the state of the watches that it joins.
//!
//! Owned by the index. A collection starts when every watch that its derivations join has listed, is absent or is withheld;
//! earlier, an endpoint without its pods would look like a removed one. Later lists change nothing in that: the index keeps
//! what it knows and publishes differences. A collection whose own objects cannot be read is withheld: its facts stay, and
//! the other collections are confirmed. While the mesh configuration is unknown ([`Sync::hold_back`]), every collection is
//! withheld and nothing is published.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Collection, Completeness, RegistryUpdate, Withheld};

use crate::collections::{Listing, Part};
use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::state::DerivedKey;
use crate::state::invalidate::DirtyOutputs;

/// State of a watch.
#[derive(Debug, Default)]
struct WatchState {
    /// Whether it has listed in this run.
    listed: bool,
    /// Whether its objects are known, from this run or from an earlier one.
    known: bool,
    /// Reason why it cannot be read now.
    withheld: Option<Withheld>,
}

impl WatchState {
    /// Whether nothing waits for it.
    const fn is_settled(&self) -> bool {
        self.listed || self.withheld.is_some()
    }
}

/// Last reported result of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reported {
    Complete,
    Withheld(Withheld),
}

/// State of a collection.
#[derive(Debug)]
struct State {
    listing: Listing,
    collection: Collection,
    joined: BTreeSet<WatchScope>,
    made_of: BTreeSet<WatchScope>,
    begun: bool,
    reported: Option<Reported>,
    /// Watches that were confirmed since the collection was.
    confirmed: BTreeSet<WatchScope>,
}

impl State {
    /// Whether nothing waits for it now.
    fn is_optional(&self) -> bool {
        self.listing.part != Part::Cluster && matches!(self.reported, Some(Reported::Withheld(_)))
    }
}

/// State of the watches and of the collections.
#[derive(Debug)]
pub(super) struct Sync {
    watches: BTreeMap<WatchScope, WatchState>,
    states: Vec<State>,
    started: bool,
    /// Whether a watch cannot be read now.
    is_short: bool,
    /// Reason why nothing may be published.
    held_back: Option<Withheld>,
    /// Whether every collection waits for the config cluster's mesh configuration.
    waits_for_mesh: bool,
}

impl Sync {
    pub(super) fn new(options: &Options) -> Self {
        let watches: BTreeMap<WatchScope, WatchState> =
            options.watch_scopes().into_iter().map(|scope| (scope, WatchState::default())).collect();
        // without discovery by exports, all Services are offered
        let counts = |kind: &Kind| *kind != Kind::Export || options.mcs.discovery;
        let of = |kinds: &[Kind]| -> BTreeSet<WatchScope> {
            watches
                .keys()
                .filter(|scope| counts(&scope.kind) && kinds.contains(&scope.kind))
                .cloned()
                .collect()
        };
        let states = options.listings().map(|listing| State {
            collection: options.collection(listing),
            joined: of(listing.joined()),
            made_of: of(listing.made_of()),
            listing,
            begun: false,
            reported: None,
            confirmed: BTreeSet::new(),
        });
        let (states, waits_for_mesh) = (states.collect(), options.follows_mesh);
        Self { states, watches, started: false, is_short: false, held_back: None, waits_for_mesh }
    }

    /// Records that a watch has listed.
    pub(super) fn listed(&mut self, scope: &WatchScope) {
        let state = self.watches.entry(scope.clone()).or_default();
        (state.listed, state.known, state.withheld) = (true, true, None);
        self.resettle();
        self.confirmed(scope);
    }
    /// Records that a watch cannot be read.
    pub(super) fn withheld(&mut self, scope: &WatchScope, why: Withheld) {
        self.watches.entry(scope.clone()).or_default().withheld = Some(why);
        self.is_short = true;
    }
    /// Records that a watch can be read again without missed events.
    pub(super) fn resumed(&mut self, scope: &WatchScope) {
        self.watches.entry(scope.clone()).or_default().withheld = None;
        self.resettle();
        self.confirmed(scope);
    }
    fn resettle(&mut self) {
        self.is_short = self.watches.values().any(|state| state.withheld.is_some());
    }
    /// Records that the objects of a watch are known from an earlier run.
    pub(super) fn recalled(&mut self, scope: &WatchScope) {
        self.watches.entry(scope.clone()).or_default().known = true;
    }
    /// Records that a watch is current.
    pub(super) fn confirmed(&mut self, scope: &WatchScope) {
        for state in self.states.iter_mut().filter(|state| state.joined.contains(scope)) {
            state.confirmed.insert(scope.clone());
        }
    }

    /// Whether every watch of a kind has listed in this run.
    pub(super) fn has_listed(&self, kind: Kind) -> bool {
        self.watches.iter().filter(|(scope, _)| scope.kind == kind).all(|(_, state)| state.listed)
    }
    /// Whether the objects of a watch are known.
    pub(super) fn is_known(&self, scope: &WatchScope) -> bool {
        self.watches.get(scope).is_some_and(|state| state.known)
    }
    /// Returns why one of these watches is neither readable nor known from an earlier run.
    pub(super) fn unknown(&self, counts: impl Fn(&WatchScope) -> bool) -> Option<&Withheld> {
        let states = self.watches.iter().filter(|(scope, state)| !state.known && counts(scope));
        states.filter_map(|(_, state)| state.withheld.as_ref()).next()
    }
    /// Whether one of these watches cannot be read.
    pub(super) fn lacks(&self, counts: impl Fn(&WatchScope) -> bool) -> bool {
        self.watches.iter().any(|(scope, state)| state.withheld.is_some() && counts(scope))
    }
    /// Withholds every collection for this reason, or (with `None`) releases them.
    pub(super) fn hold_back(&mut self, why: Option<Withheld>) {
        self.held_back = why;
    }
    /// Lets every collection wait for the config cluster's mesh configuration, or ends the wait.
    pub(super) const fn wait_for_mesh(&mut self, waits: bool) {
        self.waits_for_mesh = waits;
    }
    /// Returns why nothing is published.
    pub(super) const fn held_back(&self) -> Option<&Withheld> {
        self.held_back.as_ref()
    }

    /// Returns why an output may be incomplete. Slices, pods and exports decide which addresses exist and which clients reach
    /// them; `lacks` is the object that the derivation missed.
    pub(super) fn doubt(&self, output: &DerivedKey, lacks: Option<&(Kind, Name)>) -> Option<Arc<str>> {
        if !self.is_short {
            return None;
        }
        let why = |kind: Kind, name: &Name| {
            let states = self.watches.iter().filter(|(scope, _)| scope.kind == kind && scope.covers(name));
            states.filter_map(|(_, state)| Some((state.known, state.withheld.as_ref()?))).next()
        };
        let missed = || lacks.and_then(|(kind, name)| why(*kind, name));
        let found = match output {
            DerivedKey::Group(name) => why(Kind::Slice, name).or_else(missed),
            // slices decide which Services list it
            DerivedKey::Workload(name) => why(Kind::Slice, name).filter(|(known, _)| !known),
            _ => missed(),
        };
        found.map(|(_, withheld)| Arc::clone(&withheld.why))
    }

    fn is_settled(&self, state: &State) -> bool {
        let is_settled = |scope| self.watches.get(scope).is_some_and(WatchState::is_settled);
        !self.waits_for_mesh && state.joined.iter().all(is_settled)
    }
    /// Whether all that a listing joins is settled, so that it may be published.
    pub(super) fn is_ready(&self, listing: Listing) -> bool {
        let state = self.states.iter().find(|state| state.listing == listing);
        self.held_back.is_none() && state.is_some_and(|state| state.begun || self.is_settled(state))
    }
    /// Whether all that every derivation reads is settled: namespaces and the mesh configuration.
    pub(super) fn is_context_known(&self) -> bool {
        let joined = Listing::SETTINGS.joined();
        let mut of_context = self.watches.iter().filter(|(scope, _)| joined.contains(&scope.kind));
        self.held_back.is_none() && !self.waits_for_mesh && of_context.all(|(_, state)| state.is_settled())
    }
    /// Returns the listings that became ready since the last call.
    pub(super) fn begun(&mut self) -> Vec<Listing> {
        if self.held_back.is_some() {
            return Vec::new();
        }
        let ready: Vec<bool> =
            self.states.iter().map(|state| !state.begun && self.is_settled(state)).collect();
        let new = self.states.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready);
        new.map(|(state, _)| {
            state.begun = true;
            state.listing
        })
        .collect()
    }
    fn is_begun(&self, listing: Listing) -> bool {
        self.states.iter().any(|state| state.listing == listing && state.begun)
    }
    /// Whether any collection has started; before that, marks are not needed.
    pub(super) fn has_begun(&self) -> bool {
        self.states.iter().any(|state| state.begun)
    }
    /// Drops marks of collections that have not started: they are derived completely when they start.
    pub(super) fn forget(&self, dirty: &mut DirtyOutputs) {
        if !self.states.iter().all(|state| state.begun) {
            dirty.retain(|output, _| self.is_begun(output.listing()));
        }
    }

    /// Returns the first updates of the run: the followed collections, and the start of their lists.
    pub(super) fn begin(&mut self) -> Vec<RegistryUpdate> {
        if std::mem::replace(&mut self.started, true) {
            return Vec::new();
        }
        let restarts = self.states.iter().map(|state| RegistryUpdate::ListStarted(state.collection.clone()));
        std::iter::once(self.follows()).chain(restarts).collect()
    }
    /// Returns the followed collections. Nothing waits for the collection of an unreadable optional kind.
    fn follows(&self) -> RegistryUpdate {
        let collections = |optional: bool| {
            let of = self.states.iter().filter(move |state| state.is_optional() == optional);
            of.map(|state| state.collection.clone()).collect()
        };
        RegistryUpdate::Follows { required: collections(false), optional: collections(true) }
    }

    /// Returns the result of a collection; `None` while it is unknown.
    fn result(&self, state: &State) -> Option<Reported> {
        if let Some(why) = &self.held_back {
            return Some(Reported::Withheld(why.clone()));
        }
        let own = state.made_of.iter().filter_map(|scope| self.watches.get(scope));
        if let Some(why) = own.filter_map(|state| state.withheld.as_ref()).next() {
            return Some(Reported::Withheld(why.clone()));
        }
        state.begun.then_some(Reported::Complete)
    }
    /// Returns the changed results, and the collections whose every watch has been confirmed.
    pub(super) fn end(&mut self) -> Vec<RegistryUpdate> {
        let results: Vec<Option<Reported>> = self.states.iter().map(|state| self.result(state)).collect();
        let withheld: BTreeSet<&WatchScope> = self
            .watches
            .iter()
            .filter(|(_, state)| state.withheld.is_some())
            .map(|(scope, _)| scope)
            .collect();
        let (mut ends, mut progress) = (Vec::new(), Vec::new());
        let mut moved = false;
        for (state, result) in self.states.iter_mut().zip(results) {
            let changed = result.is_some() && result != state.reported;
            match result.as_ref().filter(|_| changed) {
                Some(Reported::Complete) => {
                    ends.push(RegistryUpdate::ListEnded(state.collection.clone(), Completeness::Complete));
                }
                Some(Reported::Withheld(why)) => {
                    ends.push(RegistryUpdate::Withheld(state.collection.clone(), why.clone()));
                }
                None => {}
            }
            let was_optional = state.is_optional();
            state.reported = result.or_else(|| state.reported.take());
            moved |= state.is_optional() != was_optional;
            let quiet = |scope: &WatchScope| state.confirmed.contains(scope) || withheld.contains(scope);
            let is_complete = state.reported == Some(Reported::Complete);
            if is_complete && !state.confirmed.is_empty() && state.joined.iter().all(quiet) {
                state.confirmed.clear();
                progress.push(RegistryUpdate::Progress(state.collection.clone()));
            }
        }
        moved.then(|| self.follows()).into_iter().chain(ends).chain(progress).collect()
    }
    /// Returns the complete collections whose every readable watch is followed, as `follows` reports of each.
    pub(super) fn followed(
        &self,
        follows: impl Fn(&WatchScope) -> bool,
    ) -> impl Iterator<Item = &Collection> {
        let is_fine = move |scope: &WatchScope| {
            self.watches.get(scope).is_some_and(|state| state.withheld.is_some()) || follows(scope)
        };
        let complete = self.states.iter().filter(|state| state.reported == Some(Reported::Complete));
        complete.filter(move |state| state.joined.iter().all(&is_fine)).map(|state| &state.collection)
    }
}

#[cfg(test)]
mod tests;
