//! Verdicts by the hash of their token. Bounded; the entry that ends first makes way for a new one, so refused tokens, which end soon,
//! do not displace granted ones.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use tributary_model::{ClusterId, Mono};

use super::verdict::Verdict;

/// Most entries: as many as the default limit of connections.
const MAX: usize = 20_000;

/// Cluster and hash of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(ClusterId, [u8; SHA256_OUTPUT_LEN]);

impl Key {
    pub(super) fn of(cluster: ClusterId, token: &[u8]) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, token).as_ref());
        Self(cluster, hash)
    }
    pub(super) const fn cluster(&self) -> &ClusterId {
        &self.0
    }
}

/// Verdicts that still count.
pub(super) struct TokenCache<G> {
    entries: HashMap<Key, (Mono, Verdict<G>)>,
    by_end: BTreeSet<(Mono, Key)>,
    max: usize,
}

impl<G> Default for TokenCache<G> {
    fn default() -> Self {
        Self { entries: HashMap::new(), by_end: BTreeSet::new(), max: MAX }
    }
}

impl<G: Clone> TokenCache<G> {
    /// Returns the verdict on a token, if it still counts.
    pub(super) fn get(&self, now: Mono, key: &Key) -> Option<Verdict<G>> {
        self.entries.get(key).filter(|(end, _)| now < *end).map(|(_, verdict)| verdict.clone())
    }
    /// Keeps a verdict for a time.
    pub(super) fn put(&mut self, now: Mono, key: Key, verdict: Verdict<G>, lasting: Duration) {
        self.remove(&key);
        while let Some(first) =
            self.by_end.first().filter(|(end, _)| *end <= now || self.entries.len() >= self.max)
        {
            let first = first.1.clone();
            self.remove(&first);
        }
        let end = now.plus(lasting);
        self.by_end.insert((end, key.clone()));
        self.entries.insert(key, (end, verdict));
    }
    fn remove(&mut self, key: &Key) {
        if let Some((end, _)) = self.entries.remove(key) {
            self.by_end.remove(&(end, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cluster: &str, token: &str) -> Key {
        Key::of(ClusterId::new(cluster).unwrap(), token.as_bytes())
    }

    fn no(why: &str) -> Verdict<()> {
        Err(why.to_owned())
    }

    #[test]
    fn verdict_counts_for_its_token_in_its_cluster_until_its_end() {
        let mut cache = TokenCache::default();
        cache.put(Mono(0), key("a", "1"), no("first"), Duration::from_millis(10));
        assert_eq!(cache.get(Mono(9), &key("a", "1")), Some(no("first")));
        assert_eq!(cache.get(Mono(10), &key("a", "1")), None);
        assert_eq!((cache.get(Mono(0), &key("b", "1")), cache.get(Mono(0), &key("a", "2"))), (None, None));
        cache.put(Mono(5), key("a", "1"), no("second"), Duration::from_millis(10));
        assert_eq!(cache.get(Mono(14), &key("a", "1")), Some(no("second")));
        assert_eq!((cache.entries.len(), cache.by_end.len()), (1, 1));
    }

    #[test]
    fn full_cache_drops_what_ends_first() {
        let mut cache = TokenCache { max: 2, ..TokenCache::default() };
        let ms = Duration::from_millis;
        cache.put(Mono(0), key("a", "long"), no("long"), ms(300));
        for garbage in 0..100 {
            cache.put(Mono(0), key("a", &format!("garbage {garbage}")), no("short"), ms(10));
        }
        assert_eq!((cache.entries.len(), cache.by_end.len()), (2, 2));
        assert!(cache.get(Mono(1), &key("a", "long")).is_some(), "short entries do not displace it");
        cache.put(Mono(400), key("a", "new"), no("new"), ms(10));
        assert_eq!(cache.entries.len(), 1, "ended entries are dropped");
    }
}
