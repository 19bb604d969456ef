//! Versions that a client holds, by name, where no base records them.
//!
//! Sessions with few names use only this. Other sessions use it for the versions that a reconnecting client
//! claims, and while a client does not read, so as not to pin a catalog. It takes eight bytes a name beside the
//! names, which all clients with the same subscription share.

use std::sync::Arc;

use tributary_model::{Version, VersionSum};

use crate::answers::Subscription;
use crate::answers::subscription::Position;

/// What a client holds of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Nothing was sent.
    NotSent,
    /// The resource was reported as absent.
    Absent,
    /// The resource in this version.
    Version(Version),
}

/// What a client holds of the names of one type.
#[derive(Debug, Clone)]
pub(crate) struct HeldVersions {
    names: Arc<Subscription>,
    /// Versions of each run of names. They are shared with the status that readers see until they change, and a changed
    /// subscription keeps those of its unchanged runs.
    runs: Arc<[Arc<[u64]>]>,
    /// The client claimed these versions; names may be unknown to the server.
    pub(crate) claimed: bool,
}

impl Holding {
    /// A version that differs from every resource.
    pub(crate) const FOREIGN: Self = Self::Version(Version(FOREIGN));
}

const NOT_SENT: u64 = 0;
const ABSENT: u64 = 1;
/// A version that no resource has: 0 and 1 are reserved, and hashes that equal them are moved here.
const FOREIGN: u64 = 2;

impl HeldVersions {
    /// Creates a list in which nothing was sent.
    pub(crate) fn none_sent(names: Arc<Subscription>) -> Self {
        let runs = names.runs().map(|run| vec![NOT_SENT; run.len()].into()).collect();
        Self { names, runs, claimed: false }
    }
    /// Parses what a client claims to hold. A version of a foreign format differs from every version.
    pub(crate) fn claims<'a>(
        names: Arc<Subscription>,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut out = Self { claimed: true, ..Self::none_sent(names) };
        for (name, version) in pairs {
            out.set(name, Version::parse(version).map_or(Holding::FOREIGN, Holding::Version));
        }
        out
    }
    pub(crate) fn names(&self) -> &Arc<Subscription> {
        &self.names
    }
    pub(crate) fn get(&self, name: &str) -> Holding {
        unpack(self.held(name))
    }
    /// Looks up names that come roughly in list order: tries the next position first.
    pub(crate) fn walk(&self) -> impl FnMut(&str) -> Holding + '_ {
        let mut next = (0, 0);
        move |name| {
            let guess = self.names.at(next).is_some_and(|n| **n == *name).then_some(next);
            let found = guess.or_else(|| self.names.find(name));
            if let Some((run, at)) = found {
                let is_last = self.runs.get(run).is_some_and(|versions| at + 1 == versions.len());
                next = if is_last { (run + 1, 0) } else { (run, at + 1) };
            }
            unpack(found.map_or(NOT_SENT, |at| self.at(at)))
        }
    }
    /// Records what a client holds; ignores names outside the list.
    pub(crate) fn set(&mut self, name: &str, holding: Holding) {
        let Some((run, at)) = self.names.find(name) else { return };
        if let Some(versions) = Arc::make_mut(&mut self.runs).get_mut(run) {
            Arc::make_mut(versions)[at] = pack(holding);
        }
    }
    /// Records all names as absent.
    pub(crate) fn all_absent(&mut self) {
        let runs = Arc::make_mut(&mut self.runs).iter_mut();
        runs.for_each(|versions| Arc::make_mut(versions).fill(ABSENT));
    }
    /// Returns names with their holdings, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Holding)> {
        self.names.iter().zip(self.versions()).map(|(name, &v)| (&**name, unpack(v)))
    }
    /// Returns the version of all held resources, equal to that of a set of the same resources.
    pub(crate) fn version(&self) -> Version {
        self.versions().filter(|v| **v > ABSENT).map(|v| Version(*v)).collect::<VersionSum>().version()
    }
    /// Returns the same holdings over another list of names.
    pub(crate) fn over(&self, names: &Arc<Subscription>) -> Self {
        let mut held = self.names.runs().zip(self.runs.iter()).peekable();
        let last = |run: &[Arc<str>]| run.last().cloned();
        let runs = names.runs().map(|run| {
            while held.next_if(|(old, _)| !Arc::ptr_eq(old, run) && last(old) < last(run)).is_some() {}
            match held.next_if(|(old, _)| Arc::ptr_eq(old, run)) {
                Some((_, versions)) => Arc::clone(versions),
                None => run.iter().map(|name| self.held(name)).collect(),
            }
        });
        Self { runs: runs.collect(), names: Arc::clone(names), claimed: self.claimed }
    }
    fn versions(&self) -> impl Iterator<Item = &u64> {
        self.runs.iter().flat_map(|versions| versions.iter())
    }
    fn held(&self, name: &str) -> u64 {
        self.names.find(name).map_or(NOT_SENT, |at| self.at(at))
    }
    fn at(&self, (run, at): Position) -> u64 {
        self.runs.get(run).and_then(|versions| versions.get(at)).copied().unwrap_or(NOT_SENT)
    }
}

fn pack(holding: Holding) -> u64 {
    match holding {
        Holding::NotSent => NOT_SENT,
        Holding::Absent => ABSENT,
        Holding::Version(version) => version.0.max(FOREIGN),
    }
}

fn unpack(value: u64) -> Holding {
    match value {
        NOT_SENT => Holding::NotSent,
        ABSENT => Holding::Absent,
        version => Holding::Version(Version(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::Subscriptions;

    fn mk_names(names: &[&str]) -> Arc<Subscription> {
        Arc::new(Subscription::new(names.iter().map(|&n| Arc::from(n))))
    }

    #[test]
    fn claims_are_kept_by_name() {
        let names = mk_names(&["b", "a"]);
        let known = HeldVersions::claims(names, [("a", "00000000000000ff"), ("b", "their own")].into_iter());
        assert_eq!(known.get("a"), Holding::Version(Version(255)));
        assert_eq!(
            known.get("b"),
            Holding::Version(Version(FOREIGN)),
            "a foreign version differs from every resource"
        );
        assert_eq!(known.get("c"), Holding::NotSent);
    }

    #[test]
    fn walk_equals_look_up_in_any_order() {
        let mut known = HeldVersions::none_sent(mk_names(&["a", "b", "c", "d"]));
        ["a", "b", "c", "d"].iter().zip(10..).for_each(|(n, v)| known.set(n, Holding::Version(Version(v))));
        let mut walk = known.walk();
        for name in ["a", "b", "x", "c", "a", "d", "d", "y"] {
            assert_eq!(walk(name), known.get(name), "{name}");
        }
    }

    #[test]
    fn held_versions_follow_a_changed_subscription() {
        let mut known = HeldVersions::none_sent(mk_names(&["a", "b"]));
        known.set("b", Holding::Absent);
        known.set("c", Holding::Absent);
        let over = known.over(&mk_names(&["b", "c"]));
        let all: Vec<_> = over.iter().collect();
        assert_eq!(all, [("b", Holding::Absent), ("c", Holding::NotSent)]);
    }

    #[test]
    fn one_name_more_copies_few_versions() {
        let (table, names) = (Subscriptions::default(), (0..20_000).map(|n| format!("s{n:05}")));
        let names: Vec<String> = names.collect();
        let many = table.named(names.iter().map(String::as_str));
        let mut known = HeldVersions::none_sent(Arc::clone(&many));
        let version = |n: &str| Holding::Version(Version::of(n.as_bytes()));
        names.iter().for_each(|name| known.set(name, version(name)));
        let mut more = known.over(&table.changed(&many, ["s10000a"], ["s00000"]));
        let copied = |more: &HeldVersions| {
            let is_new = |run: &&Arc<[u64]>| !known.runs.iter().any(|old| Arc::ptr_eq(old, run));
            more.runs.iter().filter(is_new).count()
        };
        assert!(copied(&more) <= 4 && more.runs.len() > 20, "{} of {}", copied(&more), more.runs.len());
        more.set("s10000a", version("s10000a"));
        assert!(copied(&more) <= 4, "setting one copies its run");
        for (name, holding) in more.iter() {
            assert_eq!(holding, version(name));
            assert!(name == "s10000a" || known.get(name) == holding);
        }
        assert_eq!((more.iter().count(), more.get("s00000")), (20_000, Holding::NotSent));
    }
}
