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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(Option<Arc<Pairs>>);

type Pairs = Box<[(Arc<str>, Arc<str>)]>;

impl Labels {
    /// How many pairs are kept; more are dropped, last in order first.
    pub const MAX: usize = 256;

    /// The value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let pairs = self.pairs();
        pairs.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &*pairs[i].1)
    }
    /// The pairs, sorted by key.
    #[must_use]
    pub fn pairs(&self) -> &[(Arc<str>, Arc<str>)] {
        self.0.as_ref().map_or(&[][..], |pairs| &pairs[..])
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }
    /// Whether nothing else holds these pairs; for tables that share them.
    #[must_use]
    pub fn is_sole(&self) -> bool {
        self.0.as_ref().is_none_or(|pairs| Arc::strong_count(pairs) == 1)
    }
    /// Whether every pair of `self` is in `other`. No pairs are contained in everything: a caller
    /// that selects must ask [`Labels::is_empty`] first.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.pairs().iter().all(|(k, v)| other.get(k) == Some(v))
    }
    /// Whether another handle to the same labels exists, for tables that forget what only they hold.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|pairs| Arc::strong_count(pairs) > 1)
    }
    /// These labels with `more` over them.
    #[must_use]
    pub fn with<'a>(&'a self, more: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let own = self.pairs().iter().map(|(k, v)| (&**k, &**v));
        own.chain(more).collect()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    /// The last value of a key wins.
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let map: std::collections::BTreeMap<&str, &str> = pairs.into_iter().collect();
        if map.is_empty() {
            return Self(None);
        }
        let pairs: Pairs = map.into_iter().take(Self::MAX).map(|(k, v)| (k.into(), v.into())).collect();
        Self(Some(Arc::new(pairs)))
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    /// Keeps the handles that it is given. The last value of a key wins.
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(pairs: I) -> Self {
        let map: std::collections::BTreeMap<Arc<str>, Arc<str>> = pairs.into_iter().collect();
        let pairs: Pairs = map.into_iter().take(Self::MAX).collect();
        Self((!pairs.is_empty()).then(|| Arc::new(pairs)))
    }
}

impl serde::Serialize for Labels {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.pairs().iter().map(|(k, v)| (&**k, &**v)))
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

    #[test]
    fn no_labels_cost_no_allocation() {
        assert_eq!(labels(&[]), Labels::default());
        assert_eq!(size_of::<Labels>(), size_of::<usize>());
    }
}
