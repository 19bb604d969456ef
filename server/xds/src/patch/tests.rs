//! Patches over resources of pilot-discovery, compared with what it made of them, and hostile patches.

mod facts;
mod hostile;
mod left_out;
mod sources;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tributary_answer::{ProxyFacts, filters_of};
use tributary_descriptors::{Decoder, Types};
use tributary_model::{Catalog, ClientKind, ClusterId, Fact, Labels, Namespace, Policy};
use tributary_service_entry::{Context, convert, load_str};

use super::*;

/// Returns a catalog with the EnvoyFilters of a text, which are valid.
pub(crate) fn mk_catalog(text: &str) -> Catalog {
    let load = load_str(text, "f.yaml");
    let context = Context::new(ClusterId::new("c1").unwrap());
    let facts = load.documents.iter().flat_map(|object| convert(object, &context));
    let policies = facts.filter_map(|fact| match fact {
        Fact::Policy(key, declared) => {
            let Policy::EnvoyFilter(filter) = &declared.policy else { return None };
            let policy = Policy::EnvoyFilter(filter.clone());
            let (key, view) = tributary_fixtures::mk_policy(key.namespace.as_str(), &key.name, policy);
            let declared = Arc::new(tributary_model::DeclaredPolicy {
                created: declared.created,
                ..(*view.declared).clone()
            });
            let view = tributary_model::PolicyView { declared, ..(*view).clone() };
            Some((key, tributary_model::Shared::new(view)))
        }
        _ => None,
    });
    Catalog { policies: policies.collect(), ..Catalog::default() }
}

/// Returns a catalog with a filter of the root namespace with these patches.
pub(crate) fn mk_filter_catalog(patches: &Json) -> Catalog {
    let filter = json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "a", "namespace": "istio-system"},
        "spec": {"configPatches": patches},
    });
    mk_catalog(&filter.to_string())
}

/// Returns what clients of namespace `shop` have of a filter of the root namespace with these patches.
pub(crate) fn mk_client_patches(patches: &Json) -> tributary_answer::ClientPatches {
    let catalog = mk_filter_catalog(patches);
    let shop = Namespace::new("shop").unwrap();
    let labels = Labels::default();
    filters_of(&catalog, ClientKind::Sidecar, Some(&shop), &labels).patches(&ProxyFacts::default()).unwrap()
}

/// Returns these patches, decoded.
pub(crate) fn mk_patches(patches: &Json) -> Patches {
    Patches::new(&mk_client_patches(patches)).unwrap()
}

fn encoded(of: ApplyTo, value: &Json) -> Vec<u8> {
    Types::shared().unwrap().read(of.message(), value).unwrap().bytes
}

#[test]
fn patch_that_merges_no_known_field_changes_nothing() {
    let patches = |value: &Json| {
        mk_patches(&json!([{"applyTo": "CLUSTER", "patch": {"operation": "MERGE", "value": value}}]))
    };
    let body = encoded(ApplyTo::Cluster, &json!({"name": "outbound|80||pay.shop"}));
    let unknown = patches(&json!({"lb_polic": "RANDOM"}));
    assert_eq!(unknown.cluster("outbound|80||pay.shop", &body), Outcome::Same);
    assert!(!unknown.may_change_cluster("outbound|80||pay.shop"));
    assert_eq!((unknown.used().count(), unknown.take_sources().len()), (0, 0));
    let known = patches(&json!({"lb_polic": "RANDOM", "lb_policy": "RANDOM"}));
    assert!(matches!(known.cluster("outbound|80||pay.shop", &body), Outcome::Changed(_)));
    assert_eq!(known.used().count(), 1);
}

fn decoded(of: ApplyTo, bytes: &[u8]) -> Json {
    Decoder::shared().unwrap().decode(of.message(), bytes)
}
