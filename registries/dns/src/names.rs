//! The names: which are asked for, when, and what is reported of their answers.
//!
//! Called by [`run`](crate::run()) with the time. Pure. The order of answers and of changes of gateways does not matter: what is reported
//! follows from the last answer of each name and from the names that gateways have.
//!
//! A name is asked for again when its records expire, at least every five minutes and at most every half minute. A name that fails is
//! asked for with the backoff of all retries, and keeps the addresses of its last answer without a time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, Evidence, Fact, FactId, FactKey, Mono, NameFailure,
    ObjectRef, RegistryUpdate, ResolvedName, Scope,
};
use tributary_registry_api::{Backoff, BackoffPolicy, RandomSource};

use crate::answer::Answer;
use crate::problems::{Current, Problems};

/// Names that gateways have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Each name with the objects that have it.
    pub names: BTreeMap<Arc<str>, BTreeSet<ObjectRef>>,
    /// Whether the gateways of every source are known: no name is forgotten before.
    pub complete: bool,
}

/// State of all names.
pub struct Names {
    scope: Scope,
    entries: BTreeMap<Arc<str>, Entry>,
    /// Names beyond the bound, with their objects.
    unasked: BTreeMap<Arc<str>, BTreeSet<ObjectRef>>,
    problems: Problems,
    asking: usize,
    random: Box<dyn RandomSource>,
}

/// One name.
#[derive(Debug)]
struct Entry {
    /// Objects that have it; empty if no gateway has it any more.
    objects: BTreeSet<ObjectRef>,
    /// Last reported value.
    reported: Option<Arc<ResolvedName>>,
    backoff: Backoff,
    is_asking: bool,
    /// Time of the next lookup.
    due: Mono,
    /// Time at which a name is forgotten that no gateway has.
    forget: Option<Mono>,
}

impl Entry {
    fn new(now: Mono) -> Self {
        Self {
            objects: BTreeSet::new(),
            reported: None,
            backoff: Backoff::new(BackoffPolicy::default()),
            is_asking: false,
            due: now,
            forget: None,
        }
    }
    fn is_wanted(&self) -> bool {
        !self.objects.is_empty()
    }
    fn has_addresses(&self) -> bool {
        self.reported.as_ref().is_some_and(|of| !of.addresses.is_empty())
    }
}

impl Names {
    /// Most names that are asked for: those with addresses first, then by name.
    pub const MAX: usize = 512;
    /// Most lookups at a time.
    pub const MAX_ASKING: usize = 16;
    /// Shortest time between two lookups of a name that is resolved.
    pub const SHORTEST: Duration = Duration::from_secs(30);
    /// Longest time between two lookups.
    pub const LONGEST: Duration = Duration::from_secs(300);
    /// Time between two lookups of a name whose records have no time to live.
    pub const USUAL: Duration = Duration::from_secs(60);
    /// Time for which a name is remembered that no gateway has any more.
    pub const REMEMBERED: Duration = Duration::from_secs(600);

    /// Creates the state of a source that reports in this scope.
    pub fn new(scope: Scope, random: Box<dyn RandomSource>) -> Self {
        let (entries, unasked) = (BTreeMap::new(), BTreeMap::new());
        Self { scope, entries, unasked, problems: Problems::default(), asking: 0, random }
    }
    /// Returns the first updates: a complete list of the names that an earlier process resolved, which stay in use.
    pub fn begin(
        &mut self,
        now: Mono,
        known: impl IntoIterator<Item = (Arc<str>, Arc<ResolvedName>)>,
    ) -> Vec<RegistryUpdate> {
        let collection = Collection { scope: self.scope.clone(), kind: CollectionKind::Gateways };
        let (required, optional) = (vec![collection.clone()], Vec::new());
        let mut out = vec![
            RegistryUpdate::Follows { required, optional },
            RegistryUpdate::ListStarted(collection.clone()),
        ];
        for (name, resolved) in known {
            out.push(self.put(&name, &resolved));
            let entry = Entry { reported: Some(resolved), ..Entry::new(now) };
            self.entries.insert(name, entry);
        }
        out.push(RegistryUpdate::ListEnded(collection, Completeness::Complete));
        out
    }
    /// Sets the names that gateways have. New ones are asked for at once.
    pub fn want(&mut self, now: Mono, wanted: &Wanted) -> Vec<RegistryUpdate> {
        let (asked, unasked) = self.split(&wanted.names);
        self.unasked = unasked;
        for (name, objects) in &asked {
            let entry = self.entries.entry(Arc::clone(name)).or_insert_with(|| Entry::new(now));
            if !entry.is_wanted() {
                entry.due = now;
            }
            entry.forget = None;
            entry.objects.clone_from(objects);
        }
        for (_, entry) in self.entries.iter_mut().filter(|(name, _)| !asked.contains_key(*name)) {
            entry.objects.clear();
        }
        let undeclared = self.entries.iter_mut().filter(|(name, _)| !wanted.names.contains_key(*name));
        for (_, entry) in undeclared.filter(|_| wanted.complete) {
            entry.forget.get_or_insert_with(|| now.plus(Self::REMEMBERED));
        }
        self.forget(now)
    }
    /// Takes the answer of a lookup.
    pub fn answer(&mut self, now: Mono, name: &Arc<str>, answer: &Answer) -> Vec<RegistryUpdate> {
        self.asking = self.asking.saturating_sub(1);
        let Some(entry) = self.entries.get_mut(name) else { return Vec::new() };
        entry.is_asking = false;
        let before = entry.reported.clone().unwrap_or_default();
        let found = answer.addresses(&before.addresses);
        // the source answers, also with what is known
        let collection = Collection { scope: self.scope.clone(), kind: CollectionKind::Gateways };
        let mut out: Vec<_> =
            found.is_ok().then_some(RegistryUpdate::Progress(collection)).into_iter().collect();
        let value = match found {
            Ok(addresses) => {
                entry.backoff.reset();
                let ttl = answer.ttl.unwrap_or(Self::USUAL).clamp(Self::SHORTEST, Self::LONGEST);
                entry.due = now.plus(ttl);
                ResolvedName::new(addresses)
            }
            Err(reason) => {
                entry.due = now.plus(entry.backoff.next(&mut *self.random));
                let since = before.failure.as_ref().map_or(now, |failure| failure.since);
                before.failing(NameFailure { since, reason })
            }
        };
        if entry.reported.as_deref() == Some(&value) {
            return out;
        }
        let value = Arc::new(value);
        entry.reported = Some(Arc::clone(&value));
        out.push(self.put(name, &value));
        out.extend(self.compare());
        out
    }
    /// Returns the names to ask for now, the longest due first; each gets one answer.
    pub fn due(&mut self, now: Mono) -> Vec<Arc<str>> {
        let free = Self::MAX_ASKING.saturating_sub(self.asking);
        let is_due = |entry: &Entry| entry.is_wanted() && !entry.is_asking && entry.due <= now;
        let due = self.entries.iter().filter(|(_, entry)| is_due(entry));
        let mut due: Vec<(Mono, Arc<str>)> = due.map(|(name, entry)| (entry.due, Arc::clone(name))).collect();
        due.sort();
        due.truncate(free);
        for (_, name) in &due {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.is_asking = true;
            }
        }
        self.asking += due.len();
        due.into_iter().map(|(_, name)| name).collect()
    }
    /// Returns when time alone changes something; a lookup that waits for others is due when one of them ends.
    #[must_use]
    pub fn next(&self) -> Option<Mono> {
        let is_free = self.asking < Self::MAX_ASKING;
        let waits = |entry: &&Entry| is_free && entry.is_wanted() && !entry.is_asking;
        let due = self.entries.values().filter(waits).map(|entry| entry.due);
        let quiet = self.entries.values().filter(|entry| !entry.is_asking);
        due.chain(quiet.filter_map(|entry| entry.forget)).min()
    }
    /// Removes names that no gateway has had for long, or that had no address then. Returns the updates, with those of problems.
    pub fn forget(&mut self, now: Mono) -> Vec<RegistryUpdate> {
        let is_over = |entry: &Entry| {
            entry.forget.is_some_and(|at| at <= now || !entry.has_addresses()) && !entry.is_asking
        };
        let over = self.entries.iter().filter(|(_, entry)| is_over(entry));
        let over: Vec<Arc<str>> = over.map(|(name, _)| Arc::clone(name)).collect();
        let mut out = Vec::new();
        for name in over {
            let was = self.entries.remove(&name).is_some_and(|entry| entry.reported.is_some());
            let key = FactKey { scope: self.scope.clone(), item: FactId::GatewayName(name) };
            out.extend(was.then_some(RegistryUpdate::Remove(key, Evidence::AbsentFromList)));
        }
        out.extend(self.compare());
        out
    }
    /// Splits the names into those that are asked for and those beyond the bound. A name with addresses keeps its place.
    fn split(&self, names: &Objects) -> (Objects, Objects) {
        let named = names.iter().filter(|(_, objects)| !objects.is_empty());
        let mut all: Vec<(&Arc<str>, &BTreeSet<ObjectRef>)> = named.collect();
        all.sort_by_key(|(name, _)| !self.has_addresses(name));
        let unasked = all.split_off(all.len().min(Self::MAX));
        let owned = |all: Vec<(&Arc<str>, &BTreeSet<ObjectRef>)>| -> Objects {
            all.into_iter().map(|(name, objects)| (Arc::clone(name), objects.clone())).collect()
        };
        (owned(all), owned(unasked))
    }
    fn has_addresses(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(Entry::has_addresses)
    }
    fn compare(&mut self) -> Vec<RegistryUpdate> {
        let mut current = Current::default();
        for (name, entry) in &self.entries {
            if let Some(resolved) = &entry.reported {
                current.add_failing(name, resolved, &entry.objects);
            }
        }
        for (name, objects) in &self.unasked {
            current.add_unasked(name, Self::MAX, objects);
        }
        self.problems.compare(&self.scope, &current)
    }
    fn put(&self, name: &Arc<str>, resolved: &Arc<ResolvedName>) -> RegistryUpdate {
        let fact = Fact::GatewayName(Arc::clone(name), Arc::clone(resolved));
        RegistryUpdate::Put(self.scope.clone(), fact, Basis::Authoritative)
    }
}

type Objects = BTreeMap<Arc<str>, BTreeSet<ObjectRef>>;

#[cfg(test)]
mod tests;
