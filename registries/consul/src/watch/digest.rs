//! What a loop remembers of an answer: enough to compare it and to find what it lacks.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tributary_model::Version;

/// Hashed names of an answer's entries, sorted; eight bytes for each instance.
pub type Keys = Arc<[u64]>;

/// Comparable summary of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Hash of all used content; the order in the answer does not matter.
    pub hash: Version,
    /// Names.
    pub keys: Keys,
}

impl Digest {
    /// Builds a digest from named parts in a fixed order.
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

/// Content that can be followed.
pub trait Content: Clone {
    /// Returns the digest.
    fn digest(&self) -> Digest;
}

/// Hashes a name.
pub fn key_of<K: Hash + ?Sized>(key: &K) -> u64 {
    let mut bytes = Bytes::default();
    key.hash(&mut bytes);
    Version::of(&bytes.0).0
}

/// Returns whether `now` lacks one of `before`. Both are sorted.
pub(super) fn lacks(before: &[u64], now: &[u64]) -> bool {
    let mut now = now.iter();
    before.iter().any(|key| !now.by_ref().take_while(|own| *own <= key).any(|own| own == key))
}

/// Returns the union of two sorted lists.
pub(super) fn union(a: &Keys, b: &Keys) -> Keys {
    if !lacks(a, b) {
        return Arc::clone(b);
    }
    let mut all: Vec<u64> = a.iter().chain(b.iter()).copied().collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// Collects the bytes to hash, so that one hash covers them.
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
    fn digest_separates_names_from_content() {
        let one = Digest::of([("a", &1), ("b", &2)]);
        let two = Digest::of([("a", &1), ("b", &3)]);
        assert_eq!(one.keys, two.keys);
        assert_ne!(one.hash, two.hash);
        assert_eq!(one, Digest::of([("a", &1), ("b", &2)]));
    }

    proptest! {
        #[test]
        fn lacks_and_union_agree_with_sets(
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
