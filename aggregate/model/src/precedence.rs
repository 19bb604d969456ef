//! Precedence (law 11): the one order of declarations, shards and claimants of a host.
//!
//! Merges, look-ups, selection, gateways, settings and the claims of different hosts on one domain or
//! listener all compare [`PrecedenceKey`]s; no other code orders by registry or age. The order is total
//! over the facts of a catalog.

use std::cmp::Ordering;

use crate::id::ProviderId;
use crate::object::ObjectId;
use crate::time::Timestamp;
use crate::view::ShardRef;

/// Position of a registry in the order of all registries; the lowest values come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub struct Precedence {
    /// Position of its provider. Providers in one position are ordered by name.
    pub provider: u16,
    /// Rank among registries of one provider: 0 for the config cluster, 1 for all others.
    pub rank: u16,
}

impl Precedence {
    /// Position of providers that this repository does not contain.
    pub const OTHERS: u16 = 4;

    /// Returns the position that a provider has unless its adapter chooses one: Kubernetes first, so that another
    /// source cannot take over a cluster's own names.
    #[must_use]
    pub fn of_provider(provider: &ProviderId) -> u16 {
        let first =
            [ProviderId::KUBERNETES, ProviderId::SERVICE_ENTRY, ProviderId::CONSUL, ProviderId::CONFIG];
        let at = (0..).zip(&first).find(|(_, known)| *known == provider);
        at.map_or(Self::OTHERS, |(at, _)| at)
    }
}

/// Values that decide the precedence of one source object.
#[derive(Debug, Clone, Copy)]
pub struct PrecedenceKey<'a> {
    /// Shard that reports the object.
    pub shard: &'a ShardRef,
    /// Position of the registry.
    pub precedence: Precedence,
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
        self.order_of_registry(other)
            .then_with(|| self.shard.scope.cmp(&other.shard.scope))
            .then_with(|| self.object.namespace.cmp(&other.object.namespace))
            .then_with(|| self.object.name.cmp(&other.object.name))
            .then_with(|| self.object.kind.cmp(other.object.kind))
            .then_with(|| self.federated.cmp(&other.federated))
    }
    /// Compares as [`PrecedenceKey::order`] does, but objects of one age by name before namespace.
    #[must_use]
    pub fn order_by_name(&self, other: &Self) -> Ordering {
        self.order_of_registry(other)
            .then_with(|| self.object.name.cmp(&other.object.name))
            .then_with(|| self.order(other))
    }
    fn order_of_registry(&self, other: &Self) -> Ordering {
        let (a, b) = (&*self.shard.registry, &*other.shard.registry);
        let rank_and_age = |c: &Self| (c.precedence.rank, c.created.is_none(), c.created);
        (self.precedence.provider.cmp(&other.precedence.provider))
            .then_with(|| a.provider.cmp(&b.provider))
            .then_with(|| rank_and_age(self).cmp(&rank_and_age(other)))
            .then_with(|| a.cluster.cmp(&b.cluster))
            .then_with(|| a.name.cmp(&b.name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::id::{ClusterId, RegistryId, RegistryName, Scope};

    #[derive(Debug, Clone)]
    struct Owned {
        shard: ShardRef,
        precedence: Precedence,
        created: Option<Timestamp>,
        object: ObjectId,
        joined: bool,
    }

    impl Owned {
        fn key(&self) -> PrecedenceKey<'_> {
            let Self { shard, precedence, created, object, joined } = self;
            PrecedenceKey { shard, precedence: *precedence, created: *created, object, federated: *joined }
        }
    }

    fn mk_owned(provider: ProviderId, rank: u16, created: Option<i64>, cluster: &str, object: &str) -> Owned {
        let position = Precedence { provider: Precedence::of_provider(&provider), rank };
        let registry = RegistryId {
            name: RegistryName::new(format!("r-{cluster}")).unwrap(),
            provider,
            cluster: ClusterId::new(cluster).unwrap(),
        };
        Owned {
            shard: ShardRef { registry: Arc::new(registry), scope: Scope::new("all").unwrap() },
            precedence: position,
            created: created.map(|s| Timestamp::from_second(s).unwrap()),
            object: ObjectId::new("X", "ns", object),
            joined: false,
        }
    }

    #[test]
    fn each_rule_outranks_the_later_rules() {
        let falling = [
            mk_owned(ProviderId::KUBERNETES, 0, Some(9), "z", "z"),
            mk_owned(ProviderId::KUBERNETES, 1, Some(1), "z", "z"),
            mk_owned(ProviderId::KUBERNETES, 1, Some(2), "a", "z"),
            mk_owned(ProviderId::KUBERNETES, 1, Some(2), "b", "a"),
            mk_owned(ProviderId::KUBERNETES, 1, Some(2), "b", "b"),
            Owned { joined: true, ..mk_owned(ProviderId::KUBERNETES, 1, Some(2), "b", "b") },
            mk_owned(ProviderId::KUBERNETES, 1, None, "a", "a"),
            mk_owned(ProviderId::SERVICE_ENTRY, 0, Some(0), "a", "a"),
            mk_owned(ProviderId::CONSUL, 0, Some(0), "a", "a"),
            mk_owned(ProviderId::CONFIG, 0, Some(0), "a", "a"),
            mk_owned(ProviderId::new("Eureka").unwrap(), 1, None, "z", "z"),
            mk_owned(ProviderId::new("Nacos").unwrap(), 0, Some(0), "a", "a"),
        ];
        for pair in falling.windows(2) {
            assert_eq!(pair[0].key().order(&pair[1].key()), Ordering::Less, "{pair:?}");
        }
    }

    fn any_owned() -> impl Strategy<Value = Owned> {
        let other = |name| Just(ProviderId::new(name).unwrap());
        let provider = prop_oneof![Just(ProviderId::KUBERNETES), other("Eureka"), other("Nacos")];
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
            let object = |o: &Owned| (o.shard.clone(), o.precedence, o.created, o.object.clone(), o.joined);
            let same = object(&a) == object(&b);
            prop_assert_eq!(x.order(&y) == Ordering::Equal, same);
        }
    }
}
