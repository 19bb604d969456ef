//! Rules of workloads (docs/reference/kubernetes.md, docs/explanation/model.md).

use serde_json::{Value, json};

use super::*;
use crate::fixtures::*;

fn workload(over: Value) -> Option<Arc<Workload>> {
    among(over, Vec::new())
}
fn among(over: Value, others: Vec<crate::Object>) -> Option<Arc<Workload>> {
    let mut objects = mk_objects(others);
    objects.put(mk_pod("web", "10.0.0.1", over));
    match derive(&objects, &mut Interner::default(), &shop("web")).facts.pop() {
        Some(Fact::Workload(key, workload)) => {
            assert_eq!((key.kind, &*key.name, key.cluster.as_str()), (WorkloadKind::Pod, "web", "c1"));
            Some(workload)
        }
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ended_pod_or_pod_without_address_is_no_workload() {
    for over in [
        json!({"status": {"phase": "Succeeded"}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"status": {"podIP": null, "podIPs": []}}),
    ] {
        assert_eq!(workload(over.clone()), None, "{over}");
    }
}

#[test]
fn unready_or_terminating_pod_is_a_workload_without_traffic() {
    let health = |over: Value| workload(over).unwrap().health;
    assert_eq!(health(json!({})), Health::Healthy);
    assert_eq!(health(json!({"status": {"conditions": []}})), Health::Unhealthy);
    assert_eq!(
        health(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        Health::Terminating
    );
}

#[test]
fn identity_comes_from_the_account_and_mesh_tls_from_the_label() {
    let plain = workload(json!({})).unwrap();
    assert_eq!(
        plain.identity.as_ref().map(ToString::to_string).as_deref(),
        Some("spiffe://cluster.local/ns/shop/sa/pay")
    );
    assert!(!plain.mtls, "only the label enables it");
    assert!(workload(json!({"metadata": {"labels": {"security.istio.io/tlsMode": "istio"}}})).unwrap().mtls);
    assert!(
        !workload(json!({"metadata": {"labels": {"security.istio.io/tlsMode": "disabled"}}})).unwrap().mtls
    );
    assert_eq!(workload(json!({"spec": {"serviceAccountName": ""}})).unwrap().identity, None);
}

#[test]
fn locality_is_the_pods_label_then_the_nodes() {
    let locality = |over: Value, nodes| among(over, nodes).unwrap().topology.locality.to_string();
    let node = || vec![mk_node("n1", "b")];
    assert_eq!(locality(json!({}), node()), "eu/b");
    assert_eq!(locality(json!({}), Vec::new()), "", "an unknown node");
    let label = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    assert_eq!(locality(label("topology.istio.io/locality", "us.1.r"), node()), "us/1/r");
    assert_eq!(locality(label("istio-locality", "us/1.a"), node()), "us/1.a");
    assert_eq!(locality(label("istio-locality", ""), node()), "eu/b");
}

#[test]
fn labels_are_augmented_with_topology() {
    let with = among(
        json!({"metadata": {"labels": {"app": "web", "topology.istio.io/network": "net"}}}),
        vec![mk_node("n1", "b")],
    )
    .unwrap();
    let get = |key| with.augmented.get(key);
    assert_eq!(get("app"), Some("web"));
    assert_eq!(get("topology.kubernetes.io/region"), Some("eu"));
    assert_eq!(get("topology.kubernetes.io/zone"), Some("b"));
    assert_eq!(get("topology.istio.io/subzone"), None);
    assert_eq!(get("topology.istio.io/cluster"), Some("c1"));
    assert_eq!(get("kubernetes.io/hostname"), Some("n1"));
    assert_eq!(get("topology.istio.io/network"), Some("net"));
    assert_eq!(with.labels.pairs().count(), 2, "its own labels are unchanged");
    assert_eq!(with.topology.network.as_ref().map(ToString::to_string).as_deref(), Some("net"));
}

#[test]
fn both_families_are_addresses_of_one_workload() {
    let dual = workload(json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]}})).unwrap();
    assert_eq!(dual.addresses.len(), 2);
}

#[test]
fn workload_lists_the_services_of_its_pod() {
    let slices = |of_pod: Value| {
        vec![
            mk_slice("pay-1", "pay", json!([of_pod]), json!({})),
            mk_slice("cart-1", "cart", json!([of("10.0.0.9", "other")]), json!({})),
        ]
    };
    let listed =
        |slices| among(json!({}), slices).unwrap().listed.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(listed(slices(of("10.0.0.1", "web"))), ["shop/pay.shop.svc.cluster.local"]);
    assert_eq!(listed(slices(at("10.0.0.1"))), ["shop/pay.shop.svc.cluster.local"], "by its address");
    assert!(listed(slices(of("10.0.0.1", "gone"))).is_empty());
}
