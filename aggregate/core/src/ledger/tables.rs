//! Facts of one scope, by kind and key: what a run has reported, whether it is served or not.
//!
//! Owned by [`Scoped`](super::Scoped). A table shares the handles of keys and values with the state,
//! so that a fact costs it a few machine words and an address nothing. Order within a table is that of keys.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tributary_model::{
    Basis, CollectionKind, DeclKey, Declaration, EndpointGroup, EndpointGroupKey, Fact, FactId,
    FederatedService, Gateway, GatewayKey, Hostname, Mono, ObjectId, Settings, WaitingAddress, Workload,
    WorkloadKey,
};

/// How certain the last report of a fact was; the reason is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BasisKind {
    /// Exactly this.
    Authoritative,
    /// The answer may have been short.
    PossiblyPartial,
    /// The answer was known to be short or old.
    KnownPartial,
}

impl From<&Basis> for BasisKind {
    fn from(basis: &Basis) -> Self {
        match basis {
            Basis::Authoritative => Self::Authoritative,
            Basis::PossiblyPartial(_) => Self::PossiblyPartial,
            Basis::KnownPartial(_) => Self::KnownPartial,
        }
    }
}

/// What a table keeps with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// When the value last changed.
    pub(crate) changed: Mono,
    /// Epoch of the list that last held it.
    pub(crate) seen: u32,
    /// How certain the last report was.
    pub(crate) basis: BasisKind,
}

/// One fact.
#[derive(Debug, Clone)]
pub(crate) struct Entry<V: ?Sized> {
    /// The value.
    pub(crate) value: Arc<V>,
    /// What is kept with it.
    pub(crate) mark: Mark,
}

/// What a put changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The key is new.
    New,
    /// The value differs from the one before.
    Changed,
    /// The value is the one before; its handle was kept.
    Same,
}

/// Facts of one kind.
#[derive(Debug)]
pub(crate) struct Table<K, V: ?Sized>(BTreeMap<K, Entry<V>>);

impl<K, V: ?Sized> Default for Table<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone, V: ?Sized + PartialEq> Table<K, V> {
    /// Takes a value; an equal one keeps the old handle and the old time. Returns the change, and the mark before.
    fn put(&mut self, key: &K, value: &Arc<V>, mark: Mark) -> (Change, Option<Mark>) {
        let Some(known) = self.0.get_mut(key) else {
            self.0.insert(key.clone(), Entry { value: Arc::clone(value), mark });
            return (Change::New, None);
        };
        let before = known.mark;
        if Arc::ptr_eq(&known.value, value) || known.value == *value {
            known.mark = Mark { changed: before.changed, ..mark };
            return (Change::Same, Some(before));
        }
        *known = Entry { value: Arc::clone(value), mark };
        (Change::Changed, Some(before))
    }
    /// The items of the keys after an item: `own` is that item's key where it belongs to this table.
    fn after(
        &self,
        after: Option<&FactId>,
        own: Option<&K>,
        item: fn(K) -> FactId,
    ) -> impl Iterator<Item = FactId> + use<'_, K, V> {
        let comes_later = |key: &K| after.is_none_or(|after| item(key.clone()) > *after);
        let whole = own.is_none() && self.0.keys().next().is_some_and(comes_later);
        let start = match own {
            Some(own) => Some(Bound::Excluded(own.clone())),
            None => whole.then_some(Bound::Unbounded),
        };
        let rest = start.map(|start| self.0.range((start, Bound::Unbounded)));
        rest.into_iter().flatten().map(move |(key, _)| item(key.clone()))
    }
    fn prefer(&mut self, key: &K, old: &Arc<V>, before: Mark) -> bool {
        let Some(known) = self.0.get_mut(key) else { return false };
        if known.value == *old {
            known.value = Arc::clone(old);
            known.mark.changed = before.changed;
        }
        true
    }
}

macro_rules! tables {
    ($($field:ident: $variant:ident($key:ty, $value:ty), $kind:ident;)*) => {
        /// The facts of one scope.
        #[derive(Debug, Default)]
        pub(crate) struct Tables {
            $($field: Table<$key, $value>,)*
            settings: Table<(), Settings>,
        }

        impl Tables {
            /// Takes a fact. Returns the change, and the mark that its key had before.
            pub(crate) fn put(&mut self, fact: &Fact, mark: Mark) -> (Change, Option<Mark>) {
                match fact {
                    $(Fact::$variant(key, value) => self.$field.put(key, value, mark),)*
                    Fact::Settings(value) => self.settings.put(&(), value, mark),
                }
            }
            /// Takes a fact out; returns its mark where it was there.
            pub(crate) fn remove(&mut self, item: &FactId) -> Option<Mark> {
                match item {
                    $(FactId::$variant(key) => self.$field.0.remove(key).map(|entry| entry.mark),)*
                    FactId::Settings => self.settings.0.remove(&()).map(|entry| entry.mark),
                }
            }
            /// A fact.
            pub(crate) fn get(&self, item: &FactId) -> Option<(Fact, Mark)> {
                match item {
                    $(FactId::$variant(key) => self.$field.0.get(key).map(|entry| {
                        (Fact::$variant(key.clone(), Arc::clone(&entry.value)), entry.mark)
                    }),)*
                    FactId::Settings => {
                        let entry = self.settings.0.get(&())?;
                        Some((Fact::Settings(Arc::clone(&entry.value)), entry.mark))
                    }
                }
            }
            /// The facts of a kind, by key.
            pub(crate) fn iter(&self, kind: CollectionKind) -> impl Iterator<Item = (Fact, Mark)> + '_ {
                let none: Box<dyn Iterator<Item = (Fact, Mark)> + '_> = Box::new(std::iter::empty());
                let out = none;
                $(let out: Box<dyn Iterator<Item = (Fact, Mark)> + '_> = if kind == CollectionKind::$kind {
                    Box::new(out.chain(self.$field.0.iter().map(|(key, entry)| {
                        (Fact::$variant(key.clone(), Arc::clone(&entry.value)), entry.mark)
                    })))
                } else {
                    out
                };)*
                let settings = (kind == CollectionKind::Settings).then(|| self.settings.0.values());
                out.chain(settings.into_iter().flatten().map(|entry| {
                    (Fact::Settings(Arc::clone(&entry.value)), entry.mark)
                }))
            }
            /// Keeps the handle and the time of an older fact where this one equals it; whether its key is here.
            pub(crate) fn prefer(&mut self, old: &Fact, before: Mark) -> bool {
                match old {
                    $(Fact::$variant(key, value) => self.$field.prefer(key, value, before),)*
                    Fact::Settings(value) => self.settings.prefer(&(), value, before),
                }
            }
            /// How many facts of a kind there are.
            pub(crate) fn len(&self, kind: CollectionKind) -> usize {
                let mut count = 0;
                $(if kind == CollectionKind::$kind {
                    count += self.$field.0.len();
                })*
                if kind == CollectionKind::Settings { count + self.settings.0.len() } else { count }
            }
            /// The keys of a kind that the list of this epoch has not held, with their source objects.
            pub(crate) fn unseen(&self, kind: CollectionKind, epoch: u32) -> Vec<(FactId, Option<ObjectId>)> {
                let mut out = Vec::new();
                $(if kind == CollectionKind::$kind {
                    let old = self.$field.0.iter().filter(|(_, entry)| entry.mark.seen < epoch);
                    out.extend(old.map(|(key, entry)| {
                        let fact = Fact::$variant(key.clone(), Arc::clone(&entry.value));
                        (FactId::$variant(key.clone()), fact.object().cloned())
                    }));
                })*
                let settings = self.settings.0.get(&()).filter(|entry| entry.mark.seen < epoch);
                if kind == CollectionKind::Settings && settings.is_some() {
                    out.push((FactId::Settings, None));
                }
                out
            }
        }
    };
}

tables! {
    services: Service(DeclKey, Declaration), Services;
    groups: Group(EndpointGroupKey, EndpointGroup), Groups;
    waiting: Waiting(EndpointGroupKey, [WaitingAddress]), Groups;
    workloads: Workload(WorkloadKey, Workload), Workloads;
    gateways: Gateway(GatewayKey, Gateway), Gateways;
    aliases: Alias(Hostname, FederatedService), Settings;
}

/// The items of one table after an item.
macro_rules! after {
    ($tables:ident.$field:ident, $variant:ident, $after:ident) => {{
        let own = $after.and_then(|item| match item {
            FactId::$variant(key) => Some(key),
            _ => None,
        });
        $tables.$field.after($after, own, FactId::$variant)
    }};
}

impl Tables {
    /// The items after one, in order; the cost is that of what is taken. Waiting addresses are excluded:
    /// no journal keeps them.
    pub(crate) fn items_after(&self, after: Option<&FactId>) -> impl Iterator<Item = FactId> + use<'_> {
        let settings = (!self.settings.0.is_empty()).then_some(FactId::Settings);
        let settings = settings.filter(|item| after.is_none_or(|after| item > after));
        after!(self.services, Service, after)
            .chain(after!(self.groups, Group, after))
            .chain(after!(self.workloads, Workload, after))
            .chain(after!(self.gateways, Gateway, after))
            .chain(settings)
            .chain(after!(self.aliases, Alias, after))
    }
    /// Whether nothing is reported.
    pub(crate) fn is_empty(&self) -> bool {
        CollectionKind::ALL.into_iter().all(|kind| self.len(kind) == 0)
    }
    /// Every key.
    pub(crate) fn items(&self) -> Vec<FactId> {
        CollectionKind::ALL
            .into_iter()
            .flat_map(|kind| self.iter(kind))
            .map(|(fact, _)| fact.item())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::mk_workload;

    fn mark(at: u64, seen: u32) -> Mark {
        Mark { changed: Mono(at), seen, basis: BasisKind::Authoritative }
    }

    #[test]
    fn an_equal_value_keeps_its_handle_and_time() {
        let mut tables = Tables::default();
        let (first, again) = (mk_workload("w", "10.0.0.1", ""), mk_workload("w", "10.0.0.1", ""));
        assert_eq!(tables.put(&first, mark(1, 0)).0, Change::New);
        assert_eq!(tables.put(&again, mark(2, 1)), (Change::Same, Some(mark(1, 0))));
        let (kept, now) = tables.get(&first.item()).unwrap();
        assert_eq!((now.changed, now.seen), (Mono(1), 1));
        let (Fact::Workload(_, kept), Fact::Workload(_, first)) = (kept, first) else { panic!() };
        assert!(Arc::ptr_eq(&kept, &first));
    }

    #[test]
    fn unseen_names_what_the_list_lacks() {
        let mut tables = Tables::default();
        let (old, new) = (mk_workload("a", "10.0.0.1", ""), mk_workload("b", "10.0.0.2", ""));
        tables.put(&old, mark(1, 0));
        tables.put(&new, mark(1, 1));
        let unseen: Vec<FactId> =
            tables.unseen(CollectionKind::Workloads, 1).into_iter().map(|(item, _)| item).collect();
        assert_eq!(unseen, [old.item()]);
        assert!(tables.unseen(CollectionKind::Groups, 1).is_empty());
    }
}
