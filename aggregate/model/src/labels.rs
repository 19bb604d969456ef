//! Label sets and well-known label keys.

use std::sync::Arc;

/// Region of a node or workload.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Zone of a node or workload.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Subzone of a node or workload.
pub const SUBZONE: &str = "topology.istio.io/subzone";
/// Cluster of a workload.
pub const CLUSTER: &str = "topology.istio.io/cluster";
/// Network of a workload.
pub const NETWORK: &str = "topology.istio.io/network";
/// Node of a workload.
pub const NODE: &str = "kubernetes.io/hostname";
/// Whether a workload accepts mesh TLS.
pub const TLS_MODE: &str = "security.istio.io/tlsMode";
/// Locality of a workload as one value.
pub const LOCALITY: &str = "topology.istio.io/locality";
/// Older key of [`LOCALITY`].
pub const LOCALITY_LEGACY: &str = "istio-locality";
/// Name of a workload.
pub const WORKLOAD_NAME: &str = "service.istio.io/workload-name";
/// Name of the canonical service.
pub const CANONICAL_NAME: &str = "service.istio.io/canonical-name";
/// Revision of the canonical service.
pub const CANONICAL_REVISION: &str = "service.istio.io/canonical-revision";
/// Control plane revision that an object belongs to.
pub const REVISION: &str = "istio.io/rev";
/// Name of the registry that reports an endpoint of a federated service.
pub const REGISTRY: &str = "tributary.io/registry";
/// Datacenter of an endpoint, if its source has datacenters.
pub const DATACENTER: &str = "tributary.io/datacenter";
/// Marks an endpoint as draining: it keeps existing sessions only.
pub const DRAINING: &str = "istio.io/draining";

/// Sorted, shared set of labels; one pointer wide, because every address carries one. At most 256 pairs are kept.
///
/// A set may consist of two layers, such as the topology of a node over the labels of each of its pods; layers
/// cost two pointers and no copy. Comparison, hash and output use the pairs only.
#[derive(Debug, Clone, Default)]
pub struct Labels(Option<Arc<Set>>);

type Pair = (Arc<str>, Arc<str>);
type Pairs = Box<[Pair]>;

#[derive(Debug)]
enum Set {
    /// Never empty.
    Plain(Pairs),
    /// Both are plain and not empty.
    Layers { upper: Labels, lower: Labels },
}

impl Labels {
    /// Maximum number of kept pairs; pairs with the greatest keys are removed first.
    pub const MAX: usize = 256;

    /// Returns the value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.0.as_deref()? {
            Set::Plain(pairs) => pairs.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &*pairs[i].1),
            Set::Layers { upper, lower } => upper.get(key).or_else(|| lower.get(key)),
        }
    }
    /// Iterates over the pairs, sorted by key.
    pub fn pairs(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        let (upper, lower) = self.layers();
        let (mut upper, mut lower) = (upper.iter().peekable(), lower.iter().peekable());
        std::iter::from_fn(move || {
            let below = match (upper.peek(), lower.peek()) {
                (Some((above, _)), Some((below, _))) => {
                    if above == below {
                        lower.next();
                    }
                    below < above
                }
                (above, _) => above.is_none(),
            };
            let (key, value) = if below { lower.next()? } else { upper.next()? };
            Some((key, value))
        })
    }
    fn layers(&self) -> (&[Pair], &[Pair]) {
        match self.0.as_deref() {
            None => (&[], &[]),
            Some(Set::Plain(pairs)) => (pairs, &[]),
            Some(Set::Layers { upper, lower }) => (upper.layers().0, lower.layers().0),
        }
    }
    /// Whether the set has no pairs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    /// Whether `other` contains every pair of `self`. The empty set is a subset of every set, so a
    /// selecting caller must check [`Labels::is_empty`] first.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.pairs().all(|(k, v)| other.get(k) == Some(v))
    }
    /// Whether another handle to the same labels exists. Intern tables drop labels that only they hold.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|set| Arc::strong_count(set) > 1)
    }
    /// Whether the set consists of layers.
    #[must_use]
    pub fn is_layered(&self) -> bool {
        matches!(self.0.as_deref(), Some(Set::Layers { .. }))
    }
    /// Returns the upper and the lower layer; `None` for a set without layers.
    #[must_use]
    pub fn split(&self) -> Option<(&Self, &Self)> {
        match self.0.as_deref() {
            Some(Set::Layers { upper, lower }) => Some((upper, lower)),
            _ => None,
        }
    }
    /// Whether both handles point to the same set in memory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
    /// Whether a service with these labels keeps the sessions of draining endpoints, by cookie or by header. An empty
    /// label names neither.
    #[must_use]
    pub fn keep_sessions(&self) -> bool {
        const LABELS: [&str; 2] = ["istio.io/persistent-session", "istio.io/persistent-session-header"];
        LABELS.iter().any(|label| self.get(label).is_some_and(|value| !value.is_empty()))
    }
    /// Returns these labels, with pairs of `more` added or replaced.
    #[must_use]
    pub fn with<'a>(&'a self, more: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let own = self.pairs().map(|(k, v)| (&**k, &**v));
        own.chain(more).collect()
    }
    /// These labels over `lower`, without a copy of either.
    #[must_use]
    pub fn over(&self, lower: &Self) -> Self {
        match (self.0.as_deref(), lower.0.as_deref()) {
            (None, _) => lower.clone(),
            (_, None) => self.clone(),
            (Some(Set::Plain(_)), Some(Set::Plain(_))) => {
                Self(Some(Arc::new(Set::Layers { upper: self.clone(), lower: lower.clone() })))
            }
            _ => lower.with(self.pairs().map(|(k, v)| (&**k, &**v))),
        }
    }
    fn plain(pairs: Pairs) -> Self {
        Self((!pairs.is_empty()).then(|| Arc::new(Set::Plain(pairs))))
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.pairs().eq(other.pairs())
    }
}

impl Eq for Labels {}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.pairs().cmp(other.pairs())
    }
}

impl std::hash::Hash for Labels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for pair in self.pairs() {
            pair.hash(state);
        }
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    /// The last value of a key wins.
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let map: std::collections::BTreeMap<&str, &str> = pairs.into_iter().collect();
        Self::plain(map.into_iter().take(Self::MAX).map(|(k, v)| (k.into(), v.into())).collect())
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    /// Keeps the given handles. The last value of a key wins.
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(pairs: I) -> Self {
        let map: std::collections::BTreeMap<Arc<str>, Arc<str>> = pairs.into_iter().collect();
        Self::plain(map.into_iter().take(Self::MAX).collect())
    }
}

impl serde::Serialize for Labels {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.pairs().map(|(k, v)| (&**k, &**v)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    #[test]
    fn subset_compares_pairs() {
        let all = labels(&[("app", "pay"), ("v", "1")]);
        assert!(labels(&[("app", "pay")]).is_subset_of(&all));
        assert!(!labels(&[("app", "cart")]).is_subset_of(&all));
        assert!(!all.is_subset_of(&labels(&[("app", "pay")])));
    }

    #[test]
    fn later_pairs_win() {
        assert_eq!(labels(&[("a", "1")]).with([("a", "2"), ("b", "3")]), labels(&[("b", "3"), ("a", "2")]));
    }

    #[test]
    fn labels_of_shared_texts_equal_labels_of_plain_texts() {
        let shared = |text: &str| -> Arc<str> { text.into() };
        let made: Labels =
            [(shared("b"), shared("2")), (shared("a"), shared("0")), (shared("a"), shared("1"))]
                .into_iter()
                .collect();
        assert_eq!(made, labels(&[("a", "1"), ("b", "2")]));
        assert!(!made.is_shared());
        let copy = made.clone();
        assert!(made.is_shared() && copy.is_shared());
    }

    proptest::proptest! {
        #[test]
        fn layered_labels_equal_plain_labels(
            upper in proptest::collection::btree_map("[a-d]", "[xy]", 0..4),
            lower in proptest::collection::btree_map("[a-d]", "[xy]", 0..4),
            top in proptest::collection::btree_map("[a-d]", "[xy]", 0..2),
        ) {
            let all = |map: &std::collections::BTreeMap<String, String>| -> Labels {
                map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()
            };
            let layered = all(&top).over(&all(&upper).over(&all(&lower)));
            let mut whole = lower;
            whole.extend(upper);
            whole.extend(top);
            let whole = all(&whole);
            let hash = |labels: &Labels| {
                let mut state = std::hash::DefaultHasher::new();
                std::hash::Hash::hash(labels, &mut state);
                std::hash::Hasher::finish(&state)
            };
            proptest::prop_assert_eq!(&layered, &whole);
            proptest::prop_assert_eq!(hash(&layered), hash(&whole));
            for key in ["a", "b", "c", "d"] {
                proptest::prop_assert_eq!(layered.get(key), whole.get(key));
            }
            proptest::prop_assert!(layered.pairs().is_sorted());
        }
    }

    #[test]
    fn split_returns_the_original_layers() {
        let (upper, lower) = (labels(&[("a", "1")]), labels(&[("a", "0"), ("b", "2")]));
        let layered = upper.over(&lower);
        let (above, below) = layered.split().unwrap();
        assert!(above.is_same(&upper) && below.is_same(&lower));
        assert!(upper.split().is_none());
    }

    #[test]
    fn empty_labels_need_no_allocation() {
        assert_eq!(labels(&[]), Labels::default());
        assert_eq!(size_of::<Labels>(), size_of::<usize>());
    }
}
