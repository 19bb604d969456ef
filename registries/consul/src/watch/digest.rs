//! What a loop remembers of an answer: enough to see that it is the same, and what it lacks.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tributary_model::Version;

/// The hashed names of what an answer holds, sorted. Eight bytes for each instance are all that is kept of it.
pub type Keys = Arc<[u64]>;

/// An answer's content as far as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Of all that is used of the content; the order of things in the answer does not matter.
    pub hash: Version,
    /// What it holds.
    pub keys: Keys,
}

impl Digest {
    /// Of parts that are in a fixed order, each with its name.
    pub fn of<'a, K: Hash + 'a, V: Hash + 'a>(parts: impl IntoIterator<Item = (K, &'a V)>) -> Self {
        let mut all = Bytes::default();
        let mut keys = Vec::new();
        for (key, value) in parts {
            let key = key_of(&key);
            keys.push(key);
            (key, value).hash(&mut all);
        }
        keys.sort_unstable();
        keys.dedup();
        Self { hash: Version::of(&all.0), keys: keys.into() }
    }
}

/// What can be followed.
pub trait Content: Clone {
    /// What is remembered of it.
    fn digest(&self) -> Digest;
}

/// The hash of a name.
pub fn key_of<K: Hash + ?Sized>(key: &K) -> u64 {
    let mut bytes = Bytes::default();
    key.hash(&mut bytes);
    Version::of(&bytes.0).0
}

/// Whether `now` lacks one of `before`. Both are sorted.
pub(super) fn lacks(before: &[u64], now: &[u64]) -> bool {
    let mut now = now.iter();
    before.iter().any(|key| !now.by_ref().take_while(|own| *own <= key).any(|own| own == key))
}

/// All of both.
pub(super) fn union(a: &Keys, b: &Keys) -> Keys {
    if !lacks(a, b) {
        return Arc::clone(b);
    }
    let mut all: Vec<u64> = a.iter().chain(b.iter()).copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// Gathers what is hashed, so that the one hash is taken of it.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn finish(&self) -> u64 {
        Version::of(&self.0).0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_digest_knows_names_and_content_apart() {
        let one = Digest::of([("a", &1), ("b", &2)]);
        let two = Digest::of([("a", &1), ("b", &3)]);
        assert_eq!(one.keys, two.keys);
        assert_ne!(one.hash, two.hash);
        assert_eq!(one, Digest::of([("a", &1), ("b", &2)]));
    }

    proptest! {
        #[test]
        fn what_is_lacking_is_what_sets_say(
            a in prop::collection::btree_set(0_u64..12, 0..8),
            b in prop::collection::btree_set(0_u64..12, 0..8),
        ) {
            let keys = |set: &BTreeSet<u64>| -> Keys { set.iter().copied().collect() };
            prop_assert_eq!(lacks(&keys(&a), &keys(&b)), !a.is_subset(&b));
            let all: Vec<u64> = a.union(&b).copied().collect();
            let joined = union(&keys(&a), &keys(&b));
            prop_assert_eq!(joined.as_ref(), all.as_slice());
        }
    }
}
