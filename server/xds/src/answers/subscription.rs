//! Names that clients subscribe to, in sorted runs that subscriptions share.
//!
//! The names alone decide where a run ends, so a subscription with one name more shares all runs but one with the
//! earlier one: changing it costs a pointer per run and the names of one run, however it came about. Sessions build
//! subscriptions through [`Subscriptions`]; equal ones share one allocation while they are in use.

use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tributary_model::Version;

/// One name in this many ends a run.
const ENDS: u64 = 256;
/// A run of this many names always ends.
const LONGEST: usize = 1_024;

/// Names in order, never empty.
#[derive(Debug, Clone)]
struct Run {
    names: Arc<[Arc<str>]>,
    /// Whether its last name ends a run; otherwise the run is at its longest or the last.
    ends: bool,
}

impl Run {
    fn last(&self) -> &str {
        self.names.last().map_or("", |name| name)
    }
}

/// The names that a client subscribes to.
#[derive(Debug, Default)]
pub struct Subscription {
    runs: Vec<Run>,
    len: usize,
    /// Sum over the names, so that a change costs only its own names.
    hash: u64,
}

impl PartialEq for Subscription {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Run, &Run)| Arc::ptr_eq(&a.names, &b.names) || a.names == b.names;
        self.len == other.len && self.hash == other.hash && self.runs.iter().zip(&other.runs).all(same)
    }
}

/// Position of a name: its run, and its place in the run.
pub(crate) type Position = (usize, usize);

impl Subscription {
    /// Builds a subscription from names in any order.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut names: Vec<Arc<str>> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let (len, hash) = (names.len(), sum(names.iter().map(|name| &**name)));
        let mut runs = Vec::new();
        split(names, &mut runs);
        Self { runs, len, hash }
    }
    /// Returns the names, sorted.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<str>> {
        self.runs.iter().flat_map(|run| run.names.iter())
    }
    /// Returns the number of names.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }
    /// Whether there is no name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether a name is subscribed.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
    /// Returns the nth name.
    pub(crate) fn nth(&self, mut n: usize) -> Option<&Arc<str>> {
        for run in &self.runs {
            match run.names.get(n) {
                Some(name) => return Some(name),
                None => n -= run.names.len(),
            }
        }
        None
    }
    pub(crate) fn find(&self, name: &str) -> Option<Position> {
        let run = self.runs.partition_point(|run| run.last() < name);
        let at = self.runs.get(run)?.names.binary_search_by(|held| (**held).cmp(name)).ok()?;
        Some((run, at))
    }
    /// Returns the name at a position.
    pub(crate) fn at(&self, (run, at): Position) -> Option<&Arc<str>> {
        self.runs.get(run)?.names.get(at)
    }
    /// Returns the names of each run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<[Arc<str>]>> {
        self.runs.iter().map(|run| &run.names)
    }
    /// Returns the subscription with these names added and removed. Both are sorted; the added ones are not subscribed,
    /// the removed ones are.
    fn changed(&self, added: &[&str], removed: &[&str]) -> Self {
        let mut out = Self {
            runs: Vec::with_capacity(self.runs.len() + 1),
            len: self.len + added.len() - removed.len(),
            hash: self
                .hash
                .wrapping_add(sum(added.iter().copied()))
                .wrapping_sub(sum(removed.iter().copied())),
        };
        let mut edit = Edit { added: added.iter().peekable(), removed: removed.iter().peekable() };
        let mut open = Vec::new();
        let mut rest = &self.runs[..];
        while !rest.is_empty() {
            let len = rest.iter().position(|run| run.ends).map_or(rest.len(), |at| at + 1);
            let (segment, more) = rest.split_at(len);
            rest = more;
            let last = (!rest.is_empty()).then(|| segment.last().map_or("", Run::last));
            if open.is_empty() && !edit.touches(last) {
                out.runs.extend_from_slice(segment);
                continue;
            }
            edit.merge(segment, last, &mut open);
            if rest.is_empty() || open.last().is_none_or(|name: &Arc<str>| ends_run(name)) {
                split(std::mem::take(&mut open), &mut out.runs);
            }
        }
        split(edit.added.map(|name| Arc::from(*name)).collect(), &mut out.runs);
        out
    }
}

/// Changes that are not applied yet.
struct Edit<'a, I: Iterator<Item = &'a &'a str>> {
    added: Peekable<I>,
    removed: Peekable<I>,
}

impl<'a, I: Iterator<Item = &'a &'a str>> Edit<'a, I> {
    /// Whether a change comes before the end of a segment that ends with this name; `None` is the end of all.
    fn touches(&mut self, last: Option<&str>) -> bool {
        let within = |name: Option<&&&str>| name.is_some_and(|name| last.is_none_or(|last| **name <= last));
        within(self.added.peek()) || within(self.removed.peek())
    }
    /// Appends the changed names of a segment.
    fn merge(&mut self, segment: &[Run], last: Option<&str>, out: &mut Vec<Arc<str>>) {
        for name in segment.iter().flat_map(|run| run.names.iter()) {
            while let Some(added) = self.added.next_if(|added| ***added < **name) {
                out.push(Arc::from(*added));
            }
            if self.removed.next_if(|removed| ***removed == **name).is_none() {
                out.push(Arc::clone(name));
            }
        }
        while let Some(added) = self.added.next_if(|added| last.is_none_or(|last| **added <= last)) {
            out.push(Arc::from(*added));
        }
    }
}

fn hash_of(name: &str) -> u64 {
    Version::of(name.as_bytes()).0
}

fn ends_run(name: &str) -> bool {
    hash_of(name).is_multiple_of(ENDS)
}

fn sum<'n>(names: impl Iterator<Item = &'n str>) -> u64 {
    names.fold(0, |sum, name| sum.wrapping_add(hash_of(name)))
}

/// Appends the runs of these sorted names.
fn split(names: Vec<Arc<str>>, runs: &mut Vec<Run>) {
    let mut rest = &names[..];
    while !rest.is_empty() {
        let end = rest.iter().take(LONGEST).position(|name| ends_run(name));
        let (run, more) = rest.split_at(end.map_or_else(|| rest.len().min(LONGEST), |at| at + 1));
        runs.push(Run { names: run.into(), ends: end.is_some() });
        rest = more;
    }
}

/// Subscriptions in use, by hash of their names. Holds only weak references.
#[derive(Debug, Default)]
pub struct Subscriptions {
    table: Mutex<HashMap<u64, Vec<Weak<Subscription>>>>,
}

impl Subscriptions {
    /// Returns the shared allocation of these names, given in any order. Allocates nothing per name if the
    /// same list is in use.
    pub fn named<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Arc<Subscription> {
        let names = sorted(names);
        let same = |held: &Subscription| held.iter().map(|n| &**n).eq(names.iter().copied());
        self.shared(sum(names.iter().copied()), same, || {
            Subscription::new(names.iter().map(|n| Arc::from(*n)))
        })
    }
    /// Returns the shared allocation of a subscription to these names, given in any order, which the client had
    /// before in another form. Names of the earlier one are not copied.
    pub fn replaced<'n>(
        &self,
        earlier: &Arc<Subscription>,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Arc<Subscription> {
        let names = sorted(names);
        let mut later = names.iter().copied().peekable();
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for held in earlier.iter() {
            while let Some(name) = later.next_if(|name| *name < &**held) {
                added.push(name);
            }
            if later.next_if(|name| *name == &**held).is_none() {
                removed.push(&**held);
            }
        }
        added.extend(later);
        self.edited(earlier, &added, &removed)
    }
    /// Returns the shared allocation of a subscription with these names added, then these removed. Costs only the
    /// changed names.
    pub fn changed<'n>(
        &self,
        earlier: &Arc<Subscription>,
        add: impl IntoIterator<Item = &'n str>,
        remove: impl IntoIterator<Item = &'n str>,
    ) -> Arc<Subscription> {
        let remove = sorted(remove);
        let mut added = sorted(add);
        added.retain(|name| !earlier.contains(name) && remove.binary_search(name).is_err());
        let removed: Vec<&str> = remove.into_iter().filter(|name| earlier.contains(name)).collect();
        self.edited(earlier, &added, &removed)
    }
    fn edited(&self, earlier: &Arc<Subscription>, added: &[&str], removed: &[&str]) -> Arc<Subscription> {
        if added.is_empty() && removed.is_empty() {
            return Arc::clone(earlier);
        }
        let fresh = earlier.changed(added, removed);
        let hash = fresh.hash;
        let found = self.find(hash, |held| *held == fresh);
        found.unwrap_or_else(|| self.shared(hash, |_| false, || fresh))
    }
    fn find(&self, hash: u64, same: impl Fn(&Subscription) -> bool) -> Option<Arc<Subscription>> {
        self.table.lock().get(&hash)?.iter().filter_map(Weak::upgrade).find(|held| same(held))
    }
    fn shared(
        &self,
        hash: u64,
        same: impl Fn(&Subscription) -> bool,
        make: impl FnOnce() -> Subscription,
    ) -> Arc<Subscription> {
        let mut table = self.table.lock();
        let bucket = table.entry(hash).or_default();
        bucket.retain(|held| held.strong_count() > 0);
        if let Some(found) = bucket.iter().filter_map(Weak::upgrade).find(|held| same(held)) {
            return found;
        }
        let fresh = Arc::new(make());
        bucket.push(Arc::downgrade(&fresh));
        if table.len().is_power_of_two() {
            table.retain(|_, held| held.iter().any(|s| s.strong_count() > 0));
        }
        fresh
    }
    /// Returns the number of distinct hashes of names in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }
    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn sorted<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<&str> = names.into_iter().collect();
    if !names.is_sorted_by(|a, b| a < b) {
        names.sort_unstable();
        names.dedup();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn mk_names(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|n| format!("outbound|80||s{n:06}.shop.svc.cluster.local")).collect()
    }
    fn refs(names: &[String]) -> impl Iterator<Item = &str> {
        names.iter().map(String::as_str)
    }
    fn pointers(of: &Subscription) -> BTreeSet<*const u8> {
        of.iter().map(|name| name.as_ptr()).collect()
    }

    #[test]
    fn equal_subscriptions_share_one_allocation_while_in_use() {
        let table = Subscriptions::default();
        let a = table.named(["b", "a"]);
        assert!(Arc::ptr_eq(&a, &table.named(["a", "b", "a"])));
        assert!(!Arc::ptr_eq(&a, &table.named(["a"])));
        assert!(Arc::ptr_eq(&a, &table.changed(&table.named(["b"]), ["a", "c", "a"], ["c"])));
        assert!(Arc::ptr_eq(&a, &table.replaced(&table.named(["c"]), ["b", "a"])));
        assert!(a.contains("b") && !a.contains("c"));
    }

    #[test]
    fn unused_subscriptions_are_removed() {
        let table = Subscriptions::default();
        for n in 0..5_000 {
            table.named([n.to_string().as_str()]);
        }
        assert!(table.len() < 100, "{} held", table.len());
    }

    #[test]
    fn one_name_more_copies_none() {
        let table = Subscriptions::default();
        let names = mk_names(0..262_143);
        let many = table.named(refs(&names));
        let more = table.changed(&many, ["outbound|80||s100000a.shop"], ["outbound|80||nowhere"]);
        assert_eq!((many.len(), more.len()), (262_143, 262_144));
        assert_eq!(pointers(&more).difference(&pointers(&many)).count(), 1);
        let runs = |of: &Subscription| of.runs().map(|run| run.as_ptr()).collect::<BTreeSet<_>>();
        let fresh = runs(&more).difference(&runs(&many)).count();
        assert!(fresh <= 2 && more.runs.len() > 500, "{fresh} of {} runs are new", more.runs.len());
        let listed = table.replaced(&many, refs(&names).chain(["outbound|80||s100000a.shop"]));
        assert!(Arc::ptr_eq(&listed, &more), "the list of all names gives the same");
        let back = table.changed(&more, [], ["outbound|80||s100000a.shop"]);
        assert!(Arc::ptr_eq(&back, &many));
    }

    proptest! {
        #[test]
        fn changes_give_the_same_runs_as_all_names(
            before in prop::collection::btree_set(0usize..3_000, 0..900),
            add in prop::collection::btree_set(0usize..3_000, 0..40),
            remove in prop::collection::btree_set(0usize..3_000, 0..400),
        ) {
            let all = mk_names(0..3_000);
            let of = |set: &BTreeSet<usize>| set.iter().map(|&n| all[n].as_str()).collect::<Vec<_>>();
            let table = Subscriptions::default();
            let earlier = table.named(of(&before));
            let later = table.changed(&earlier, of(&add), of(&remove));
            let expected: BTreeSet<usize> = before.union(&add).filter(|n| !remove.contains(n)).copied().collect();
            let plain = Subscription::new(of(&expected).into_iter().map(Arc::from));
            prop_assert_eq!(later.iter().map(|n| &**n).collect::<Vec<_>>(), of(&expected));
            prop_assert!(*later == plain && later.hash == plain.hash && later.runs.len() == plain.runs.len());
            prop_assert_eq!(later.len(), expected.len());
            for (n, name) in later.iter().enumerate() {
                prop_assert_eq!(later.nth(n), Some(name));
                prop_assert_eq!(later.find(name).and_then(|at| later.at(at)), Some(name));
            }
        }
    }
}
