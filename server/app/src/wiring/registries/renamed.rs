//! When a registry may take the place of one with the same source under another name.
//!
//! A reload calls it before it removes the old name. Pure: a decision over the statuses of both.

use tributary_core::{CollectionStatus, RegistryStatus};
use tributary_model::Freshness;

/// Whether a registry serves all that the other one serves. An invalid object, whose last valid version only the other one has, and a
/// removal that the other one holds back count as missing, as long as the other one still reads the source.
pub(super) fn has_all_of(new: &RegistryStatus, old: &RegistryStatus) -> bool {
    new.shadow.is_none() && old.collections.iter().filter(|own| own.facts > 0).all(|own| has(new, own))
}

fn has(new: &RegistryStatus, own: &CollectionStatus) -> bool {
    let same = new.collections.iter().find(|other| other.collection == own.collection);
    same.is_some_and(|same| {
        same.freshness == Freshness::Live && (same.facts >= own.facts || own.freshness != Freshness::Live)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_core::{Core, RunOrder};
    use tributary_model::{
        ClusterId, Collection, CollectionKind, Generation, Mono, ProviderId, RegistryId, RegistryName,
        RegistrySpec, Scope, SinceMono,
    };

    use super::*;

    fn mk_status() -> RegistryStatus {
        let (name, cluster) = (RegistryName::new("home").unwrap(), ClusterId::new("k").unwrap());
        let id = RegistryId { name, provider: ProviderId::CONSUL, cluster };
        let spec = RegistrySpec::new(Arc::new(id), 0);
        let mut core = Core::default();
        core.add_registry(&spec).unwrap();
        core.serve(Mono(1), &RunOrder::first(spec)).unwrap();
        core.status().remove(0)
    }

    /// Returns a registry with scopes, each with its freshness and number of services.
    fn mk_registry(scopes: &[(&str, bool, u64)]) -> RegistryStatus {
        let status = mk_status();
        let stale = Freshness::Stale { since: SinceMono(Mono(1)), why: "it is away".into() };
        let collection = |&(scope, live, facts): &(&str, bool, u64)| CollectionStatus {
            collection: Collection { scope: Scope::new(scope).unwrap(), kind: CollectionKind::Services },
            required: true,
            freshness: if live { Freshness::Live } else { stale.clone() },
            synced: true,
            complete: true,
            withheld: false,
            facts,
            confirmed: None,
            known: true,
        };
        RegistryStatus { collections: scopes.iter().map(collection).collect(), shadow: None, ..status }
    }

    #[test]
    fn registry_is_replaced_by_one_that_serves_all_of_it() {
        let old = mk_registry(&[("dc1", true, 3), ("dc2", true, 2), ("dc3", true, 0)]);
        for (new, may, why) in [
            (
                mk_registry(&[("dc1", true, 3), ("dc2", true, 2)]),
                true,
                "a scope without facts has nothing to lose",
            ),
            (mk_registry(&[("dc1", true, 3), ("dc2", false, 0)]), false, "a scope cannot be read"),
            (mk_registry(&[("dc1", true, 3)]), false, "a scope is not listed"),
            (
                mk_registry(&[("dc1", true, 2), ("dc2", true, 2)]),
                false,
                "the last valid version of an object",
            ),
        ] {
            assert_eq!(has_all_of(&new, &old), may, "{why}");
        }
        let away = mk_registry(&[("dc1", false, 3)]);
        assert!(
            has_all_of(&mk_registry(&[("dc1", true, 2)]), &away),
            "the other one may not know of a removal"
        );
        let waiting = RegistryStatus { shadow: Some(Generation(2)), ..mk_registry(&[("dc1", true, 3)]) };
        assert!(!has_all_of(&waiting, &away), "it serves another source until its new run does");
    }
}
