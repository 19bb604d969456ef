//! Decoding of slices.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::*;

fn slice(endpoints: Value, over: Value) -> Slice {
    match mk_slice("pay-1", "pay", endpoints, over) {
        Object::Slice(slice) => Slice::clone(&slice),
        other => panic!("{other:?}"),
    }
}
use crate::project::Object;

fn read(json: &Value) -> Result<Slice, String> {
    let mut object = json!({"metadata": {"name": "pay-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "pay"}}});
    merge(&mut object, json);
    Slice::parse(&object.to_string())
}

#[test]
fn entry_fits_its_memory_budget() {
    assert!(size_of::<Entry>() <= 40, "{} bytes", size_of::<Entry>());
}

#[test]
fn missing_conditions_have_kubernetes_defaults() {
    let state = |conditions: Value| {
        slice(json!([{"addresses": ["10.0.0.1"], "conditions": conditions}]), json!({})).entries[0].state
    };
    let cases = [
        (json!(null), State::Ready),
        (json!({}), State::Ready),
        (json!({"ready": true, "serving": false, "terminating": true}), State::Ready),
        (json!({"ready": false}), State::NotReady),
        (json!({"ready": false, "terminating": null, "serving": true}), State::NotReady),
        (json!({"ready": false, "serving": false, "terminating": false}), State::NotReady),
        (json!({"ready": false, "terminating": true}), State::Leaving),
        (json!({"ready": false, "terminating": true, "serving": true}), State::Leaving),
        (json!({"ready": false, "terminating": true, "serving": false}), State::Left),
    ];
    for (conditions, want) in cases {
        assert_eq!(state(conditions.clone()), want, "{conditions}");
    }
}

#[test]
fn each_address_is_an_entry_and_lists_may_be_null() {
    let two = slice(json!([{"addresses": ["10.0.0.1", "10.0.0.2"]}, {"addresses": null}]), json!({}));
    assert_eq!(two.entries.len(), 2);
    assert!(slice(json!(null), json!({"ports": null})).entries.is_empty());
}

#[test]
fn ports_without_a_number_are_excluded_and_names_are_optional() {
    let ports = slice(json!([]), json!({"ports": [{"name": "a"}, {"name": "b", "port": 0}, {"port": 53, "protocol": "UDP"}, {"name": "c", "port": 9}]})).ports;
    let ports: Vec<_> = ports.iter().map(|p| (p.name.as_str(), p.number.map(PortNumber::get))).collect();
    assert_eq!(ports, [("", Some(53)), ("c", Some(9))]);
}

#[test]
fn only_a_pod_target_names_a_pod() {
    let pod = |target: Value| {
        slice(json!([{"addresses": ["10.0.0.1"], "targetRef": target}]), json!({})).entries[0].pod.clone()
    };
    assert_eq!(
        pod(json!({"kind": "Pod", "name": "web-0"})).map(|pod| pod.to_string()).as_deref(),
        Some("web-0")
    );
    assert_eq!(pod(json!({"kind": "Node", "name": "n1"})), None);
    assert_eq!(pod(json!(null)), None);
}

#[test]
fn slice_without_a_service_or_of_mcs_names_no_service() {
    let labels = |labels: Value| slice(json!([]), json!({"metadata": {"labels": labels}})).service;
    assert_eq!(labels(json!({})).as_deref(), Some("pay"));
    assert_eq!(labels(json!({"kubernetes.io/service-name": ""})), None);
    assert_eq!(labels(json!({"multicluster.kubernetes.io/service-name": "pay"})), None);
}

#[test]
fn impossible_value_is_rejected_with_its_field() {
    for (bad, field) in [
        (json!({"endpoints": [{"addresses": ["pay.example"]}]}), "endpoints.addresses"),
        (json!({"ports": [{"port": 70000}]}), "ports"),
        (json!({"ports": [{"port": 80, "name": "a b"}]}), "port name"),
        (json!({"endpoints": 7}), "endpoints"),
        (json!({"metadata": {"name": ""}}), "metadata.name"),
        (json!({"metadata": {"namespace": "a/b"}}), "metadata.namespace"),
    ] {
        let why = read(&bad).map(|slice| slice.meta.name).expect_err(&bad.to_string());
        assert!(why.contains(field) || why.contains("invalid type"), "{bad}: {why}");
    }
    let many: Vec<Value> = (0..=MOST_ENTRIES).map(|_| json!({"addresses": ["10.0.0.1"]})).collect();
    assert!(read(&json!({"endpoints": many})).is_err());
    assert!(
        read(&json!({"endpoints": [{"addresses": ["pay.example"]}], "addressType": "FQDN"})).unwrap().names
    );
}

#[test]
fn escapes_are_decoded_and_unknown_fields_are_skipped() {
    let json = r#"{"kind":"EndpointSlice","x":{"y":[1,{}]},"metadata":{"name":"pay\u002d1","namespace":"shop","labels":{"kubernetes.io\/service-name":"p\u0061y"}},"endpoints":[{"addresses":["10.0.0.1"],"zone":"\u0062","hints":{"forZones":[{"name":"z"}]}}]}"#;
    let slice = Slice::parse(json).unwrap();
    assert_eq!((&*slice.meta.name.name, slice.service.as_deref()), ("pay-1", Some("pay")));
    assert_eq!(
        slice.entries[0].topology.as_ref().and_then(|own| own.zone.as_deref()),
        Some("b"),
        "hints are not read"
    );
}
