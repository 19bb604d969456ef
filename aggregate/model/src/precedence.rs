//! Precedence (law 11): the one order of declarations, shards and claimants of a host.
//!
//! Merges, look-ups, selection, gateways, settings and the claims of different hosts on one domain or
//! listener all compare [`PrecedenceKey`]s; no other code orders by registry or age. The order is total
//! over the facts of a catalog.

use std::cmp::Ordering;

use crate::object::ObjectId;
use crate::time::Timestamp;
use crate::view::ShardRef;

/// Values that decide the precedence of one source object.
#[derive(Debug, Clone, Copy)]
pub struct PrecedenceKey<'a> {
    /// Shard that reports the object.
    pub shard: &'a ShardRef,
    /// Rank of the registry within its provider; 0 is the config cluster.
    pub rank: u16,
    /// Creation time of the object; `None` sorts last.
    pub created: Option<Timestamp>,
    /// Object.
    pub object: &'a ObjectId,
    /// Whether a federated service claims through its member; the member itself then precedes it.
    pub federated: bool,
}

impl PrecedenceKey<'_> {
    /// Compares by provider, config cluster first, older first, then names, so all replicas agree.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let rank_and_age = |c: &Self| (c.shard.registry.provider, c.rank, c.created.is_none(), c.created);
        let (a, b) = (&*self.shard.registry, &*other.shard.registry);
        rank_and_age(self)
            .cmp(&rank_and_age(other))
            .then_with(|| a.cluster.cmp(&b.cluster))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| self.shard.scope.cmp(&other.shard.scope))
            .then_with(|| self.object.namespace.cmp(&other.object.namespace))
            .then_with(|| self.object.name.cmp(&other.object.name))
            .then_with(|| self.object.kind.cmp(other.object.kind))
            .then_with(|| self.federated.cmp(&other.federated))
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
        fn key(&self) -> PrecedenceKey<'_> {
            let Self { shard, rank, created, object, joined } = self;
            PrecedenceKey { shard, rank: *rank, created: *created, object, federated: *joined }
        }
    }

    fn mk_owned(provider: Provider, rank: u16, created: Option<i64>, cluster: &str, object: &str) -> Owned {
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
    fn each_rule_outranks_the_later_rules() {
        use Provider::{Kubernetes, ServiceEntry};
        let falling = [
            mk_owned(Kubernetes, 0, Some(9), "z", "z"),
            mk_owned(Kubernetes, 1, Some(1), "z", "z"),
            mk_owned(Kubernetes, 1, Some(2), "a", "z"),
            mk_owned(Kubernetes, 1, Some(2), "b", "a"),
            mk_owned(Kubernetes, 1, Some(2), "b", "b"),
            Owned { joined: true, ..mk_owned(Kubernetes, 1, Some(2), "b", "b") },
            mk_owned(Kubernetes, 1, None, "a", "a"),
            mk_owned(ServiceEntry, 0, Some(0), "a", "a"),
        ];
        for pair in falling.windows(2) {
            assert_eq!(pair[0].key().order(&pair[1].key()), Ordering::Less, "{pair:?}");
        }
    }

    fn any_owned() -> impl Strategy<Value = Owned> {
        let provider = prop_oneof![Just(Provider::Kubernetes), Just(Provider::ServiceEntry)];
        (provider, 0_u16..2, proptest::option::of(0_i64..3), "[ab]", "[ab]", any::<bool>()).prop_map(
            |(p, rank, created, cluster, object, joined)| Owned {
                joined,
                ..mk_owned(p, rank, created, &cluster, &object)
            },
        )
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in any_owned(), b in any_owned(), c in any_owned()) {
            let (x, y, z) = (a.key(), b.key(), c.key());
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
