//! Whose word wins (law 11): the one order of declarations, shards and claimants of a host.
//!
//! Merges, look-ups, selection, gateways, settings and the claims of different hosts on one domain or
//! listener all compare [`PrecedenceKey`]s; nothing else orders by registry or age. The order is total over
//! the facts of a catalog.

use std::cmp::Ordering;

use crate::object::ObjectId;
use crate::time::Timestamp;
use crate::view::ShardRef;

/// What decides the precedence of one source object's word.
#[derive(Debug, Clone, Copy)]
pub struct PrecedenceKey<'a> {
    /// Whose word.
    pub shard: &'a ShardRef,
    /// The registry's rank within its provider; 0 is the config cluster.
    pub rank: u16,
    /// When the object was created; none sorts last.
    pub created: Option<Timestamp>,
    /// The object.
    pub object: &'a ObjectId,
    /// Whether an alias claims by its member's word: then the member itself goes first.
    pub joined: bool,
}

impl PrecedenceKey<'_> {
    /// Provider, config cluster first, older first, then names, so that every replica agrees.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let place = |c: &Self| (c.shard.registry.provider, c.rank, c.created.is_none(), c.created);
        let (a, b) = (&*self.shard.registry, &*other.shard.registry);
        place(self)
            .cmp(&place(other))
            .then_with(|| a.cluster.cmp(&b.cluster))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| self.shard.scope.cmp(&other.shard.scope))
            .then_with(|| self.object.namespace.cmp(&other.object.namespace))
            .then_with(|| self.object.name.cmp(&other.object.name))
            .then_with(|| self.object.kind.cmp(other.object.kind))
            .then_with(|| self.joined.cmp(&other.joined))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::id::{ClusterId, Provider, RegistryId, RegistryName, Scope};

    #[derive(Debug, Clone)]
    struct Owned {
        shard: ShardRef,
        rank: u16,
        created: Option<Timestamp>,
        object: ObjectId,
        joined: bool,
    }

    impl Owned {
        fn claim(&self) -> PrecedenceKey<'_> {
            let Self { shard, rank, created, object, joined } = self;
            PrecedenceKey { shard, rank: *rank, created: *created, object, joined: *joined }
        }
    }

    fn mk_claim(provider: Provider, rank: u16, created: Option<i64>, cluster: &str, object: &str) -> Owned {
        let registry = RegistryId {
            name: RegistryName::new(format!("r-{cluster}")).unwrap(),
            provider,
            cluster: ClusterId::new(cluster).unwrap(),
        };
        Owned {
            shard: ShardRef { registry: Arc::new(registry), scope: Scope::new("all").unwrap() },
            rank,
            created: created.map(|s| Timestamp::from_second(s).unwrap()),
            object: ObjectId::new("X", "ns", object),
            joined: false,
        }
    }

    #[test]
    fn each_rule_beats_all_that_follow_it() {
        use Provider::{Kubernetes, ServiceEntry};
        let falling = [
            mk_claim(Kubernetes, 0, Some(9), "z", "z"),
            mk_claim(Kubernetes, 1, Some(1), "z", "z"),
            mk_claim(Kubernetes, 1, Some(2), "a", "z"),
            mk_claim(Kubernetes, 1, Some(2), "b", "a"),
            mk_claim(Kubernetes, 1, Some(2), "b", "b"),
            Owned { joined: true, ..mk_claim(Kubernetes, 1, Some(2), "b", "b") },
            mk_claim(Kubernetes, 1, None, "a", "a"),
            mk_claim(ServiceEntry, 0, Some(0), "a", "a"),
        ];
        for pair in falling.windows(2) {
            assert_eq!(pair[0].claim().order(&pair[1].claim()), Ordering::Less, "{pair:?}");
        }
    }

    fn any_claim() -> impl Strategy<Value = Owned> {
        let provider = prop_oneof![Just(Provider::Kubernetes), Just(Provider::ServiceEntry)];
        (provider, 0_u16..2, proptest::option::of(0_i64..3), "[ab]", "[ab]", any::<bool>()).prop_map(
            |(p, rank, created, cluster, object, joined)| Owned {
                joined,
                ..mk_claim(p, rank, created, &cluster, &object)
            },
        )
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in any_claim(), b in any_claim(), c in any_claim()) {
            let (x, y, z) = (a.claim(), b.claim(), c.claim());
            prop_assert_eq!(x.order(&y), y.order(&x).reverse());
            if x.order(&y).is_le() && y.order(&z).is_le() {
                prop_assert!(x.order(&z).is_le());
            }
            let object = |o: &Owned| (o.shard.clone(), o.rank, o.created, o.object.clone(), o.joined);
            let same = object(&a) == object(&b);
            prop_assert_eq!(x.order(&y) == Ordering::Equal, same);
        }
    }
}
