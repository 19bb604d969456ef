//! Versions that a client holds, by name, where no base records them.
//!
//! Sessions with few names use only this. Other sessions use it for the versions that a reconnecting client
//! claims, and while a client does not read, so as not to pin a catalog. It takes eight bytes a name beside the
//! names, which all clients with the same subscription share.

use std::sync::Arc;

use tributary_model::{Version, VersionSum};

use crate::answers::Subscription;

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
    /// Shared with the status that readers see until it changes.
    versions: Arc<[u64]>,
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
        let versions = vec![NOT_SENT; names.names().len()].into();
        Self { names, versions, claimed: false }
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
        self.find(name).map_or(Holding::NotSent, |at| unpack(self.versions[at]))
    }
    /// Looks up names that come roughly in list order: tries the next position first.
    pub(crate) fn walk(&self) -> impl FnMut(&str) -> Holding + '_ {
        let mut next = 0;
        move |name| {
            let guess = self.names.names().get(next).is_some_and(|n| **n == *name).then_some(next);
            let found = guess.or_else(|| self.find(name));
            next = found.map_or(next, |at| at + 1);
            found.map_or(Holding::NotSent, |at| unpack(self.versions[at]))
        }
    }
    /// Records what a client holds; ignores names outside the list.
    pub(crate) fn set(&mut self, name: &str, holding: Holding) {
        if let Some(at) = self.find(name) {
            Arc::make_mut(&mut self.versions)[at] = pack(holding);
        }
    }
    /// Records all names as absent.
    pub(crate) fn all_absent(&mut self) {
        Arc::make_mut(&mut self.versions).fill(ABSENT);
    }
    /// Returns names with their holdings, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Holding)> {
        self.names.names().iter().zip(self.versions.iter()).map(|(name, &v)| (&**name, unpack(v)))
    }
    /// Returns the version of all held resources, equal to that of a set of the same resources.
    pub(crate) fn version(&self) -> Version {
        self.versions.iter().filter(|v| **v > ABSENT).map(|v| Version(*v)).collect::<VersionSum>().version()
    }
    /// Returns the same holdings over another list of names.
    pub(crate) fn over(&self, names: &Arc<Subscription>) -> Self {
        let version = |name| self.find(name).map_or(NOT_SENT, |found| self.versions[found]);
        let versions = names.names().iter().map(|name| version(name)).collect();
        Self { names: Arc::clone(names), versions, claimed: self.claimed }
    }
    fn find(&self, name: &str) -> Option<usize> {
        self.names.names().binary_search_by(|n| (**n).cmp(name)).ok()
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

    fn mk_names(names: &[&str]) -> Arc<Subscription> {
        Arc::new(Subscription::new(names.iter().map(|&n| n.into())))
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
}
