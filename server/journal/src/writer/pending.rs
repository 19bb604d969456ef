//! Changes recorded since the last commit, one value a key.
//!
//! The core task fills it, the writer empties it as a whole between two calls: so each commit is a state that
//! the core had. Ending a scope or removing a registry costs the same however much was recorded of
//! it.

use rapidhash::RapidHashMap;
use tributary_model::{CollectionKind, Evidence, FactId, Fingerprint, Mono, Record, RegistryName, Scope};

use crate::codec::Member;
use crate::codec::entry::{EntryKey, EntryValue};

/// Changes since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Registries that were added or changed, or (with `None`) removed.
    pub(crate) members: RapidHashMap<RegistryName, Option<Box<Member>>>,
    /// Changes of facts and of the state beside them.
    pub(crate) registries: RapidHashMap<RegistryName, RegistryChanges>,
    /// Whether the process has become ready.
    pub(crate) ready: bool,
    /// Whether the membership was synced.
    pub(crate) membership_synced: bool,
    /// Whether the remote clusters that are declared outside the configuration were known, if that changes.
    pub(crate) remotes_known: Option<bool>,
    keys: usize,
}

/// Changes of one registry.
#[derive(Debug, Default)]
pub(crate) struct RegistryChanges {
    /// Whether existing content is removed first.
    pub(crate) cleared: bool,
    /// Whether the registry was removed, so that only the clearing remains.
    pub(crate) left: bool,
    /// Whether the previous pinned identity is removed too: the registry was removed, even if a new one has its name.
    pub(crate) forget: bool,
    /// Whether the journal is complete after this commit, if that changes.
    pub(crate) whole: Option<bool>,
    /// Pinned identity.
    pub(crate) identity: Option<Fingerprint>,
    /// Changes by scope.
    pub(crate) scopes: RapidHashMap<Scope, ScopeChanges>,
}

/// Changes of one scope.
#[derive(Debug, Default)]
pub(crate) struct ScopeChanges {
    /// Whether existing content is removed first.
    pub(crate) cleared: bool,
    /// End of the scope.
    pub(crate) ended: Option<(Evidence, Mono)>,
    /// Values by key; `None` removes.
    pub(crate) entries: RapidHashMap<EntryKey, Option<EntryValue>>,
}

impl Pending {
    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.registries.is_empty() && self.process_values() == 0
    }
    /// Returns the number of changed keys.
    pub(crate) const fn keys(&self) -> usize {
        self.keys
    }
    /// Returns the number of values that a commit would write: keys, members, and process state.
    pub(crate) fn values(&self) -> usize {
        self.keys + self.members.len() + self.process_values()
    }
    fn process_values(&self) -> usize {
        let set = [self.ready, self.membership_synced, self.remotes_known.is_some()];
        set.into_iter().filter(|is_set| *is_set).count()
    }
    /// Returns the registries that changed.
    pub(crate) fn names(&self) -> impl Iterator<Item = &RegistryName> {
        self.registries.keys().chain(self.members.keys())
    }
    /// Adds a record.
    pub(crate) fn add(&mut self, record: Record) {
        match record {
            Record::Put(_, _, tributary_model::Fact::Waiting(..)) => {}
            Record::Put(name, scope, fact) => {
                let key = EntryKey::Fact(fact.item());
                self.set(name, scope, key, Some(EntryValue::Fact(fact)));
            }
            Record::Remove(_, key, _) if matches!(key.item, FactId::Waiting(_)) => {}
            Record::Remove(name, key, _) => self.set(name, key.scope, EntryKey::Fact(key.item), None),
            Record::List(name, of, list) => {
                self.set(name, of.scope, EntryKey::List(of.kind), Some(EntryValue::List(list)));
            }
            Record::Problem(name, scope, object, problem) => {
                self.set(name, scope, EntryKey::Problem(object), problem.map(EntryValue::Problem));
            }
            Record::Hold(_, key, _) if matches!(key.item, FactId::Waiting(_)) => {}
            Record::Hold(name, key, hold) => {
                self.set(name, key.scope, EntryKey::Hold(key.item), hold.map(EntryValue::Hold));
            }
            Record::Ended(name, scope, evidence, at) => self.end(name, scope, evidence, at),
            Record::Identity(name, identity) => self.of(name).identity = Some(identity),
            Record::Left(name) => {
                self.members.insert(name.clone(), None);
                let changes = self.clear(name);
                (changes.left, changes.forget, changes.identity) = (true, true, None);
            }
        }
    }
    /// Drops recorded changes of a registry; the next commit removes its content on disk.
    pub(crate) fn clear(&mut self, name: RegistryName) -> &mut RegistryChanges {
        self.keys = self.keys.saturating_sub(self.registries.get(&name).map_or(0, RegistryChanges::len));
        let changes = self.registries.entry(name).or_default();
        let (identity, forget) = (changes.identity.take(), changes.forget);
        *changes = RegistryChanges { cleared: true, identity, forget, ..RegistryChanges::default() };
        changes
    }
    /// Makes the next commit remove a scope's content on disk.
    pub(crate) fn clear_scope(&mut self, name: RegistryName, scope: Scope) {
        let changes = self.of(name).scopes.entry(scope).or_default();
        let removed = changes.entries.len();
        *changes = ScopeChanges { cleared: true, ..ScopeChanges::default() };
        self.keys -= removed;
    }
    /// Removes the list of a collection.
    pub(crate) fn forget_list(&mut self, name: RegistryName, scope: Scope, kind: CollectionKind) {
        self.set(name, scope, EntryKey::List(kind), None);
    }
    /// Returns the changes of a registry.
    pub(crate) fn of(&mut self, name: RegistryName) -> &mut RegistryChanges {
        let changes = self.registries.entry(name).or_default();
        changes.left = false;
        changes
    }
    fn set(&mut self, name: RegistryName, scope: Scope, key: EntryKey, value: Option<EntryValue>) {
        let changes = self.of(name).scopes.entry(scope).or_default();
        if matches!(value, Some(EntryValue::Fact(_))) {
            // The scope exists again.
            changes.ended = None;
        }
        let added = changes.entries.insert(key, value).is_none();
        self.keys += usize::from(added);
    }
    fn end(&mut self, name: RegistryName, scope: Scope, evidence: Evidence, at: Mono) {
        let changes = self.of(name).scopes.entry(scope).or_default();
        let removed = changes.entries.len();
        *changes = ScopeChanges { cleared: true, ended: Some((evidence, at)), ..ScopeChanges::default() };
        self.keys -= removed;
    }
    /// Returns these changes followed by `later` ones.
    pub(crate) fn then(mut self, later: Self) -> Self {
        self.members.extend(later.members);
        self.ready |= later.ready;
        self.membership_synced |= later.membership_synced;
        self.remotes_known = later.remotes_known.or(self.remotes_known);
        for (name, changes) in later.registries {
            match self.registries.get_mut(&name) {
                Some(earlier) if !changes.cleared => earlier.follow(changes),
                Some(earlier) => {
                    let (identity, forget) = (earlier.identity.take(), earlier.forget);
                    *earlier = changes;
                    if !earlier.forget {
                        (earlier.identity, earlier.forget) = (earlier.identity.take().or(identity), forget);
                    }
                }
                None => drop(self.registries.insert(name, changes)),
            }
        }
        self.keys = self.registries.values().map(RegistryChanges::len).sum();
        self
    }
}

impl RegistryChanges {
    fn len(&self) -> usize {
        self.scopes.values().map(|scope| scope.entries.len()).sum()
    }
    fn follow(&mut self, later: Self) {
        self.left = later.left;
        self.whole = later.whole.or(self.whole);
        self.identity = later.identity.or_else(|| self.identity.take());
        for (scope, changes) in later.scopes {
            match self.scopes.get_mut(&scope) {
                Some(earlier) if !changes.cleared => {
                    let again =
                        changes.entries.values().any(|value| matches!(value, Some(EntryValue::Fact(_))));
                    earlier.ended = if again { None } else { earlier.ended.take() };
                    earlier.entries.extend(changes.entries);
                }
                _ => drop(self.scopes.insert(scope, changes)),
            }
        }
    }
}
