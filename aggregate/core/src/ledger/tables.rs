//! Facts of one scope that a run has reported, by kind and key.
//!
//! Owned by [`Scoped`](super::Scoped). A table shares the handles of keys and values with the state: a
//! fact costs a few pointers, an address nothing. Tables are ordered by key.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tributary_model::{
    Basis, CollectionKind, DeclKey, Declaration, DeclaredPolicy, EndpointGroup, EndpointGroupKey, Fact,
    FactId, FederatedService, Gateway, GatewayKey, Hostname, Mono, ObjectId, PolicyKey, Position,
    ResolvedName, Settings, WaitingAddress, Workload, WorkloadKey,
};

/// Certainty of a fact's last report; the reason is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BasisKind {
    /// Exact value.
    Authoritative,
    /// The answer may have been incomplete.
    PossiblyPartial,
    /// The answer was known to be incomplete or old.
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

/// Metadata that a table keeps with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Time of the last change of the value.
    pub(crate) changed: Mono,
    /// Epoch of the last list that contained it.
    pub(crate) seen: u32,
    /// Certainty of the last report.
    pub(crate) basis: BasisKind,
}

/// Value of one fact.
#[derive(Debug, Clone)]
pub(crate) struct Entry<V: ?Sized> {
    /// The value.
    pub(crate) value: Arc<V>,
    /// Metadata.
    pub(crate) mark: Mark,
}

/// Effect of a put on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The key is new.
    New,
    /// The value differs from the previous one.
    Changed,
    /// The value equals the previous one, whose handle is kept.
    Same,
    /// As `Same`, and its object moved in its source.
    Moved,
}

impl Change {
    /// Whether the value equals the previous one.
    pub(crate) const fn is_same(self) -> bool {
        matches!(self, Self::Same | Self::Moved)
    }
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
    /// Sets a value; an equal one keeps the old handle and time. Returns the change and the previous mark.
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
    /// Returns the fact ids after `after`, in order; `own` is its key if it belongs to this table.
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

/// Returns the position of a fact's object, if its source has positions.
fn position(fact: &Fact) -> Option<&Position> {
    fact.source().map(|source| &source.position).filter(|position| !position.is_empty())
}

macro_rules! tables {
    ($($field:ident: $variant:ident($key:ty, $value:ty), $kind:ident;)*) => {
        /// Facts of one scope.
        #[derive(Debug, Default)]
        pub(crate) struct Tables {
            $($field: Table<$key, $value>,)*
            settings: Table<(), Settings>,
        }

        impl Tables {
            /// Sets a fact; an equal one moves its object. Returns the change and the previous mark of its key.
            pub(crate) fn put(&mut self, fact: &Fact, mark: Mark) -> (Change, Option<Mark>) {
                let out = match fact {
                    $(Fact::$variant(key, value) => self.$field.put(key, value, mark),)*
                    Fact::Settings(value) => self.settings.put(&(), value, mark),
                };
                if let Some(newer) = position(fact).filter(|_| out.0 == Change::Same)
                    && let Some((known, _)) = self.get(&fact.item())
                    && let Some(own) = position(&known).filter(|own| own.text() != newer.text())
                {
                    own.follow(newer);
                    return (Change::Moved, out.1);
                }
                out
            }
            /// Removes a fact. Returns its mark; `None` if it was absent.
            pub(crate) fn remove(&mut self, item: &FactId) -> Option<Mark> {
                match item {
                    $(FactId::$variant(key) => self.$field.0.remove(key).map(|entry| entry.mark),)*
                    FactId::Settings => self.settings.0.remove(&()).map(|entry| entry.mark),
                }
            }
            /// Returns a fact with its mark.
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
            /// Returns the facts of a kind, by key.
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
            /// Keeps the handle and time of an older fact if the own one equals it. Returns whether its key exists.
            pub(crate) fn prefer(&mut self, old: &Fact, before: Mark) -> bool {
                if let Some(older) = position(old)
                    && let Some((own, _)) = self.get(&old.item()).filter(|(own, _)| own == old)
                    && let Some(newer) = position(&own)
                {
                    older.follow(newer);
                }
                match old {
                    $(Fact::$variant(key, value) => self.$field.prefer(key, value, before),)*
                    Fact::Settings(value) => self.settings.prefer(&(), value, before),
                }
            }
            /// Returns the number of facts of a kind.
            pub(crate) fn len(&self, kind: CollectionKind) -> usize {
                let mut count = 0;
                $(if kind == CollectionKind::$kind {
                    count += self.$field.0.len();
                })*
                if kind == CollectionKind::Settings { count + self.settings.0.len() } else { count }
            }
            /// Returns the keys of a kind that the list of this epoch lacked, with their source objects.
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
    federated: FederatedService(Hostname, FederatedService), Settings;
    policies: Policy(PolicyKey, DeclaredPolicy), Policies;
    names: GatewayName(Arc<str>, ResolvedName), Gateways;
}

/// Returns the fact ids of one table after a fact id.
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
    /// Returns the fact ids after one, in order, lazily. Waiting addresses are excluded: no journal
    /// keeps them.
    pub(crate) fn items_after(&self, after: Option<&FactId>) -> impl Iterator<Item = FactId> + use<'_> {
        let settings = (!self.settings.0.is_empty()).then_some(FactId::Settings);
        let settings = settings.filter(|item| after.is_none_or(|after| item > after));
        after!(self.services, Service, after)
            .chain(after!(self.groups, Group, after))
            .chain(after!(self.workloads, Workload, after))
            .chain(after!(self.gateways, Gateway, after))
            .chain(settings)
            .chain(after!(self.federated, FederatedService, after))
            .chain(after!(self.policies, Policy, after))
            .chain(after!(self.names, GatewayName, after))
    }
    /// Returns whether there is no fact.
    pub(crate) fn is_empty(&self) -> bool {
        CollectionKind::ALL.into_iter().all(|kind| self.len(kind) == 0)
    }
    /// Returns every key.
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
    fn equal_value_keeps_its_handle_and_time() {
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
    fn unseen_returns_facts_that_the_list_lacks() {
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
