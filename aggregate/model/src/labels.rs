//! Labels, and the well-known ones.

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
/// Whether a workload speaks mesh TLS.
pub const TLS_MODE: &str = "security.istio.io/tlsMode";
/// Locality of a workload as one value.
pub const LOCALITY: &str = "topology.istio.io/locality";
/// The older spelling of [`LOCALITY`].
pub const LOCALITY_LEGACY: &str = "istio-locality";
/// The workload's own name.
pub const WORKLOAD_NAME: &str = "service.istio.io/workload-name";
/// The canonical service's name.
pub const CANONICAL_NAME: &str = "service.istio.io/canonical-name";
/// The canonical service's revision.
pub const CANONICAL_REVISION: &str = "service.istio.io/canonical-revision";
/// The control plane revision that an object is meant for.
pub const REVISION: &str = "istio.io/rev";
/// Whose word an endpoint of an alias is: the registry's name.
pub const REGISTRY: &str = "tributary.io/registry";
/// The datacenter of an endpoint, where its source has such.
pub const DATACENTER: &str = "tributary.io/datacenter";
/// Takes an endpoint out of rotation while its sessions last.
pub const DRAINING: &str = "istio.io/draining";

/// A sorted, shared set of labels; one pointer wide, because every address carries one. At most 256 pairs are kept.
///
/// A set may lie over another one, as the topology of a node lies over the labels of each of its pods: then it
/// costs two pointers and no copy. What is compared, hashed and shown are the pairs alone.
#[derive(Debug, Clone, Default)]
pub struct Labels(Option<Arc<Set>>);

type Pair = (Arc<str>, Arc<str>);
type Pairs = Box<[Pair]>;

#[derive(Debug)]
enum Set {
    /// Never empty.
    Plain(Pairs),
    /// Neither is empty, and both are plain.
    Layers { upper: Labels, lower: Labels },
}

impl Labels {
    /// How many pairs are kept; more are dropped, last in order first.
    pub const MAX: usize = 256;

    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.0.as_deref()? {
            Set::Plain(pairs) => pairs.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &*pairs[i].1),
            Set::Layers { upper, lower } => upper.get(key).or_else(|| lower.get(key)),
        }
    }
    /// The pairs, sorted by key.
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
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    /// Whether every pair of `self` is in `other`. No pairs are contained in everything: a caller
    /// that selects must ask [`Labels::is_empty`] first.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.pairs().all(|(k, v)| other.get(k) == Some(v))
    }
    /// Whether another handle to the same labels exists, for tables that forget what only they hold.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|set| Arc::strong_count(set) > 1)
    }
    /// Whether they lie in layers, so that the texts are those of the layers.
    #[must_use]
    pub fn is_layered(&self) -> bool {
        matches!(self.0.as_deref(), Some(Set::Layers { .. }))
    }
    /// The upper and the lower set of labels that lie in layers, so that each can be stored once.
    #[must_use]
    pub fn split(&self) -> Option<(&Self, &Self)> {
        match self.0.as_deref() {
            Some(Set::Layers { upper, lower }) => Some((upper, lower)),
            _ => None,
        }
    }
    /// Whether both are one set in memory, for those who answer for what is shared.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
    /// These labels with `more` over them.
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
    /// Keeps the handles that it is given. The last value of a key wins.
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
    fn subset_is_by_pair() {
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
    fn labels_of_shared_texts_equal_labels_of_texts_and_know_who_holds_them() {
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
        fn layers_are_what_their_pairs_would_be_as_one(
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
    fn layers_split_into_the_sets_that_they_were_made_of() {
        let (upper, lower) = (labels(&[("a", "1")]), labels(&[("a", "0"), ("b", "2")]));
        let layered = upper.over(&lower);
        let (above, below) = layered.split().unwrap();
        assert!(above.is_same(&upper) && below.is_same(&lower));
        assert!(upper.split().is_none());
    }

    #[test]
    fn no_labels_cost_no_allocation() {
        assert_eq!(labels(&[]), Labels::default());
        assert_eq!(size_of::<Labels>(), size_of::<usize>());
    }
}
