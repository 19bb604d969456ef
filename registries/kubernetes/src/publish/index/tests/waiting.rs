//! Addresses that wait for their pod, and pods of another namespace.

use serde_json::{Value, json};
use tributary_model::*;

use super::{put, updates};
use crate::fixtures::*;
use crate::kind::{Kind, Name};
use crate::project::{Object, Pod};
use crate::publish::Index;
use crate::state::DerivedKey;

fn waiting(index: &mut Index) -> Vec<String> {
    let of = |update: RegistryUpdate| match update {
        RegistryUpdate::Put(_, Fact::Waiting(_, all), _) => {
            Some(all.iter().map(|one| format!("{} {}", one.ip, one.waits_for)).collect::<Vec<_>>().join(", "))
        }
        RegistryUpdate::Remove(FactKey { item: FactId::Waiting(_), .. }, _) => Some("none".to_owned()),
        _ => None,
    };
    index.flush().into_iter().filter_map(of).collect()
}

#[test]
fn addresses_wait_until_their_pod_is_seen() {
    let mut index = mk_synced(Vec::new());
    let mut unready = of("10.0.0.3", "late");
    unready["conditions"] = json!({"ready": false});
    let endpoints = json!([of("10.0.0.1", "web"), at("10.0.0.2"), unready]);
    index.apply_put(mk_slice("pay-1", "pay", endpoints, json!({})));
    assert_eq!(waiting(&mut index), ["10.0.0.1 Pod shop/web, 10.0.0.3 Pod shop/late"]);
    index.apply_put(mk_pod("web", "10.0.0.1", json!({})));
    assert_eq!(waiting(&mut index), ["10.0.0.3 Pod shop/late"]);
    index.apply_put(mk_pod("late", "10.0.0.3", json!({})));
    assert_eq!(waiting(&mut index), ["none"]);
}

#[test]
fn waiting_addresses_beyond_the_limit_are_counted() {
    let mut index = mk_synced(Vec::new());
    let slice = |number: usize, count: usize| {
        let one = |at: usize| of(&format!("10.{number}.{}.{}", at / 250, at % 250 + 1), "web");
        let endpoints: Vec<Value> = (0..count).map(one).collect();
        mk_slice(&format!("pay-{number}"), "pay", json!(endpoints), json!({}))
    };
    let counted = |index: &Index| {
        index.details().into_iter().find(|detail| *detail.name == *Index::WAITING).map(|detail| detail.value)
    };
    (0..7).for_each(|number| index.apply_put(slice(number, 9_000)));
    assert_eq!((waiting(&mut index).len(), counted(&index)), (7, None));
    index.apply_put(slice(7, 9_000));
    assert_eq!((waiting(&mut index).len(), counted(&index)), (0, Some(DetailValue::Number(9_000))));
    index.apply_delete(Kind::Slice, shop("pay-0"));
    index.apply_put(slice(7, 8_999));
    assert_eq!((waiting(&mut index).len(), counted(&index)), (2, None), "a removed one makes room");
}

fn elsewhere(name: &str, ip: &str, account: &str) -> Object {
    let object = json!({
        "metadata": {"name": name, "namespace": "web"},
        "spec": {"nodeName": "n1", "serviceAccountName": account},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]},
    });
    Pod::parse(&object.to_string()).unwrap().into()
}
fn across(ip: &str, namespace: &str, pod: &str) -> Value {
    let mut endpoint = of(ip, pod);
    endpoint["targetRef"]["namespace"] = json!(namespace);
    endpoint
}

#[test]
fn target_of_another_namespace_is_looked_up_there() {
    let slice = mk_slice("pay-1", "pay", json!([across("10.0.0.1", "web", "api")]), json!({}));
    // the pod of that name in the slice's own namespace is a different one
    let mut index = mk_synced(vec![slice, mk_pod("api", "10.0.0.9", json!({}))]);
    let released = ["put Workload api", "put EndpointSlice shop/pay-1", "drop Waiting(EndpointGroupKey"]
        .map(str::to_owned);
    let mut texts = put(&mut index, elsewhere("api", "10.0.0.1", "of-web"));
    texts.retain(|text| !text.starts_with("good"));
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts.iter().zip(&released).all(|(text, want)| text.starts_with(want.as_str())), "{texts:?}");
    let listed = index.objects().listing(index.objects().pods.get(&Name::new("web", "api")).unwrap());
    assert_eq!(listed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["shop/pay"]);
    let own = index.objects().listing(index.objects().pods.get(&shop("api")).unwrap());
    assert!(own.is_empty(), "{own:?}");
    let derived = crate::derive::derive(
        index.objects(),
        &mut crate::Interner::default(),
        &DerivedKey::Group(shop("pay-1")),
    );
    let Fact::Group(_, group) = &derived.facts[0] else { panic!("{derived:?}") };
    let identity = group.addresses[0].identity.as_ref().unwrap().to_string();
    assert_eq!(identity, "spiffe://cluster.local/ns/web/sa/of-web");
    index.apply_delete(Kind::Pod, Name::new("web", "api"));
    assert!(updates(&mut index).iter().any(|text| text.starts_with("put EndpointSlice shop/pay-1")));
}

#[test]
fn target_with_its_own_namespace_equals_one_without() {
    let parse = |endpoint: Value| match mk_slice("pay-1", "pay", json!([endpoint]), json!({})) {
        Object::Slice(slice) => slice,
        other => panic!("{other:?}"),
    };
    assert_eq!(parse(across("10.0.0.1", "shop", "api")), parse(of("10.0.0.1", "api")));
}
