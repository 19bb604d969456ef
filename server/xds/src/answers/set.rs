//! Sets of resources and differences between them, as sessions get them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tributary_model::{EncodedResource, Version};

use super::{Form, Rope};

/// Resources in order of name, with what all clients that get them share.
#[derive(Debug, Default)]
pub struct ResourceSet {
    members: Box<[Arc<EncodedResource>]>,
    version: Version,
    sotw: OnceLock<Arc<Rope>>,
    delta: OnceLock<Arc<Rope>>,
}

impl ResourceSet {
    /// From resources in order of name. The version is the hash over the members' versions.
    #[must_use]
    pub fn new(members: Vec<Arc<EncodedResource>>) -> Self {
        debug_assert!(members.is_sorted_by(|a, b| a.name < b.name), "members are not in order");
        let version = Version::of_all(members.iter().map(|m| m.version));
        Self { members: members.into(), version, ..Self::default() }
    }
    /// The resources, by name.
    #[must_use]
    pub fn members(&self) -> &[Arc<EncodedResource>] {
        &self.members
    }
    /// The hash over the members' versions.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }
    /// A member by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<EncodedResource>> {
        self.members.binary_search_by(|m| (*m.name).cmp(name)).ok().map(|i| &self.members[i])
    }
    /// The rope of this form, made by whoever asks first.
    pub fn rope_or_make(&self, form: Form, make: impl FnOnce() -> Rope) -> Arc<Rope> {
        let cell = match form {
            Form::Sotw => &self.sotw,
            Form::Delta => &self.delta,
        };
        Arc::clone(cell.get_or_init(|| Arc::new(make())))
    }
}

/// What differs between two generations for one class and kind.
#[derive(Debug, Default)]
pub struct ChangedSet {
    /// Resources that are new or have another version, by name.
    pub upserted: Vec<Arc<EncodedResource>>,
    /// Names that are gone, sorted.
    pub removed: Vec<Arc<str>>,
}

impl ChangedSet {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upserted.is_empty() && self.removed.is_empty()
    }
}

/// The names that a follower has subscribed to; equal subscriptions are one allocation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    names: Box<[Box<str>]>,
}

impl Subscription {
    /// From names in any order.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = Box<str>>) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self { names: names.into() }
    }
    /// The names, sorted.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }
    /// Whether a name is subscribed.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.names.binary_search_by(|n| (**n).cmp(name)).is_ok()
    }
}

/// The table of live subscriptions, by hash of their names. Holds no subscription alive.
#[derive(Debug, Default)]
pub struct Subscriptions {
    table: Mutex<HashMap<u64, Vec<Weak<Subscription>>>>,
}

impl Subscriptions {
    /// The one allocation of these names, given in any order. Nothing is allocated per name where
    /// somebody holds the same list.
    pub fn named<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Arc<Subscription> {
        let mut names: Vec<&str> = names.into_iter().collect();
        if !names.is_sorted_by(|a, b| a < b) {
            names.sort_unstable();
            names.dedup();
        }
        let hash = Version::of_all(names.iter().map(|name| Version::of(name.as_bytes()))).0;
        let mut table = self.table.lock();
        let bucket = table.entry(hash).or_default();
        bucket.retain(|held| held.strong_count() > 0);
        let same = |held: &Arc<Subscription>| held.names.iter().map(|n| &**n).eq(names.iter().copied());
        if let Some(found) = bucket.iter().filter_map(Weak::upgrade).find(same) {
            return found;
        }
        let fresh = Arc::new(Subscription { names: names.into_iter().map(Box::from).collect() });
        bucket.push(Arc::downgrade(&fresh));
        if table.len().is_power_of_two() {
            table.retain(|_, held| held.iter().any(|s| s.strong_count() > 0));
        }
        fresh
    }
    /// How many distinct hashes of names the table holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }
    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_subscriptions_are_one_allocation_while_somebody_holds_them() {
        let table = Subscriptions::default();
        let a = table.named(["b", "a"]);
        assert!(Arc::ptr_eq(&a, &table.named(["a", "b", "a"])));
        assert!(!Arc::ptr_eq(&a, &table.named(["a"])));
        assert!(a.contains("b") && !a.contains("c"));
    }

    #[test]
    fn subscriptions_that_nobody_holds_are_swept() {
        let table = Subscriptions::default();
        for n in 0..5_000 {
            table.named([n.to_string().as_str()]);
        }
        assert!(table.len() < 100, "{} held", table.len());
    }

    #[test]
    fn a_set_finds_its_members_and_its_version_follows_them() {
        let mk = |name: &str, body: &'static str| Arc::new(EncodedResource::new(name.into(), body.into()));
        let set = ResourceSet::new(vec![mk("a", "1"), mk("b", "2")]);
        assert_eq!(set.get("b").map(|m| &*m.name), Some("b"));
        assert!(set.get("c").is_none());
        assert_ne!(set.version(), ResourceSet::new(vec![mk("a", "1"), mk("b", "3")]).version());
    }
}
