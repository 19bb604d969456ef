//! What a client holds, name by name, where no base says it.
//!
//! Pickers live on this alone; followers use it for what a reconnecting client claims to hold, and
//! while a client does not read, so that it pins no catalog. Eight bytes a name beside the names,
//! which are shared by all clients with the same subscription.

use std::sync::Arc;

use tributary_model::Version;

use crate::answers::Subscription;

/// What a client holds of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It has not been told anything.
    Untold,
    /// It has been told that there is no such resource.
    Absent,
    /// This version.
    Version(Version),
}

/// What a client holds of the names of one type.
#[derive(Debug, Clone)]
pub(crate) struct HeldVersions {
    names: Arc<Subscription>,
    versions: Box<[u64]>,
    /// The client's own word, not ours: a name that the server has never had may be in it.
    pub(crate) claimed: bool,
}

impl Holding {
    /// Something that no generation has.
    pub(crate) const OTHER: Self = Self::Version(Version(OTHER));
}

const UNTOLD: u64 = 0;
const ABSENT: u64 = 1;
/// A version that no resource has: 0 and 1 are taken, and hashes that hit them are moved here.
const OTHER: u64 = 2;

impl HeldVersions {
    /// Nothing is known of these names.
    pub(crate) fn untold(names: Arc<Subscription>) -> Self {
        let versions = vec![UNTOLD; names.names().len()].into();
        Self { names, versions, claimed: false }
    }
    /// What a client claims to hold. Versions that are not ours differ from every version.
    pub(crate) fn claims<'a>(
        names: Arc<Subscription>,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut out = Self { claimed: true, ..Self::untold(names) };
        for (name, version) in pairs {
            out.set(name, Version::parse(version).map_or(Holding::OTHER, Holding::Version));
        }
        out
    }
    pub(crate) fn names(&self) -> &Arc<Subscription> {
        &self.names
    }
    pub(crate) fn get(&self, name: &str) -> Holding {
        self.find(name).map_or(Holding::Untold, |at| unpack(self.versions[at]))
    }
    /// Looks names up that come in about the order of the list: the next one is tried first.
    pub(crate) fn walk(&self) -> impl FnMut(&str) -> Holding + '_ {
        let mut next = 0;
        move |name| {
            let guess = self.names.names().get(next).is_some_and(|n| **n == *name).then_some(next);
            let found = guess.or_else(|| self.find(name));
            next = found.map_or(next, |at| at + 1);
            found.map_or(Holding::Untold, |at| unpack(self.versions[at]))
        }
    }
    /// Notes what a client was told; names outside the list are not kept.
    pub(crate) fn set(&mut self, name: &str, holding: Holding) {
        if let Some(at) = self.find(name) {
            self.versions[at] = pack(holding);
        }
    }
    /// Of all names the client has been told that there is no such resource.
    pub(crate) fn all_absent(&mut self) {
        self.versions.fill(ABSENT);
    }
    /// Names with what is held of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Holding)> {
        self.names.names().iter().zip(&self.versions).map(|(name, &v)| (&**name, unpack(v)))
    }
    /// The version of all that the client holds: that of a set of the same resources.
    pub(crate) fn version(&self) -> Version {
        Version::of_all(self.versions.iter().filter(|v| **v > ABSENT).map(|v| Version(*v)))
    }
    /// The same knowledge over another list of names.
    pub(crate) fn over(&self, names: &Arc<Subscription>) -> Self {
        let mut out = Self { claimed: self.claimed, ..Self::untold(Arc::clone(names)) };
        for (at, name) in names.names().iter().enumerate() {
            out.versions[at] = self.find(name).map_or(UNTOLD, |found| self.versions[found]);
        }
        out
    }
    fn find(&self, name: &str) -> Option<usize> {
        self.names.names().binary_search_by(|n| (**n).cmp(name)).ok()
    }
}

fn pack(holding: Holding) -> u64 {
    match holding {
        Holding::Untold => UNTOLD,
        Holding::Absent => ABSENT,
        Holding::Version(version) => version.0.max(OTHER),
    }
}

fn unpack(value: u64) -> Holding {
    match value {
        UNTOLD => Holding::Untold,
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
            Holding::Version(Version(OTHER)),
            "a foreign version differs from all of ours"
        );
        assert_eq!(known.get("c"), Holding::Untold);
    }

    #[test]
    fn a_walk_finds_what_a_look_up_finds_in_any_order() {
        let mut known = HeldVersions::untold(mk_names(&["a", "b", "c", "d"]));
        ["a", "b", "c", "d"].iter().zip(10..).for_each(|(n, v)| known.set(n, Holding::Version(Version(v))));
        let mut walk = known.walk();
        for name in ["a", "b", "x", "c", "a", "d", "d", "y"] {
            assert_eq!(walk(name), known.get(name), "{name}");
        }
    }

    #[test]
    fn knowledge_follows_a_changed_subscription() {
        let mut known = HeldVersions::untold(mk_names(&["a", "b"]));
        known.set("b", Holding::Absent);
        known.set("c", Holding::Absent);
        let over = known.over(&mk_names(&["b", "c"]));
        let all: Vec<_> = over.iter().collect();
        assert_eq!(all, [("b", Holding::Absent), ("c", Holding::Untold)]);
    }
}
