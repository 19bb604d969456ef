//! Decoding of pods.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::*;
use crate::project::Object;

fn pod(over: Value) -> Pod {
    named("web-7f-x", over)
}
fn named(name: &str, over: Value) -> Pod {
    match mk_pod(name, "10.0.0.1", over) {
        Object::Pod(pod) => Pod::clone(&pod),
        other => panic!("{other:?}"),
    }
}

#[test]
fn workload_name_is_the_label_or_the_owners_creator() {
    let owned = |kind: &str, owner: &str, labels: Value| {
        let owners =
            json!([{"kind": "Other", "name": "o"}, {"kind": kind, "name": owner, "controller": true}]);
        pod(json!({"metadata": {"labels": labels, "ownerReferences": owners}})).workload.to_string()
    };
    let cases = [
        ("ReplicaSet", "web-7f", json!({"pod-template-hash": "7f"}), "web"),
        ("ReplicaSet", "web-7f", json!({"rollouts-pod-template-hash": "7f"}), "web"),
        ("ReplicaSet", "web-7f", json!({"pod-template-hash": "8a"}), "web-7f"),
        ("ReplicaSet", "-7f", json!({"pod-template-hash": "7f"}), "-7f"),
        ("ReplicationController", "web-3", json!({"deploymentconfig": "web"}), "web"),
        ("ReplicationController", "web-3", json!({}), "web-3"),
        ("Job", "tidy-28000000", json!({}), "tidy"),
        ("Job", "tidy-280", json!({}), "tidy-280"),
        ("Job", "tidy-2800000x", json!({}), "tidy-2800000x"),
        ("StatefulSet", "db", json!({}), "db"),
        ("StatefulSet", "db", json!({"service.istio.io/workload-name": "base"}), "base"),
    ];
    for (kind, owner, labels, want) in cases {
        assert_eq!(owned(kind, owner, labels.clone()), want, "{kind} {owner} {labels}");
    }
    assert_eq!(&*pod(json!({})).workload, "web-7f-x", "without an owner");
}

#[test]
fn named_tcp_ports_include_restartable_init_containers() {
    let spec = json!({
        "containers": [
            {"ports": [{"name": "web", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}, {"containerPort": 9}]},
            {"ports": [{"name": "web", "containerPort": 8081, "protocol": "TCP"}, {"name": "bad", "containerPort": 0}]},
            {"ports": null},
        ],
        "initContainers": [
            {"restartPolicy": "Always", "ports": [{"name": "proxy", "containerPort": 15001}]},
            {"ports": [{"name": "once", "containerPort": 1}]},
        ],
    });
    let ports = pod(json!({"spec": spec})).ports;
    let ports: Vec<_> = ports.iter().map(|(name, number)| (name.as_str(), number.get())).collect();
    assert_eq!(ports, [("proxy", 15001), ("web", 8080)]);
}

#[test]
fn phase_prefers_ended_then_leaving_then_ready() {
    let phase = |over: Value| pod(over).phase;
    assert_eq!(phase(json!({})), Phase::Ready);
    assert_eq!(phase(json!({"status": {"conditions": null}})), Phase::NotReady);
    assert_eq!(
        phase(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})),
        Phase::NotReady
    );
    assert_eq!(phase(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), Phase::Leaving);
    for ended in ["Succeeded", "Failed"] {
        let over =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": ended}});
        assert_eq!(phase(over), Phase::Ended);
    }
}

#[test]
fn canonical_address_comes_first_and_once() {
    let status =
        json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]}});
    let ips: Vec<String> = pod(status).ips.iter().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.0.0.1", "2001:db8::1"]);
    assert!(pod(json!({"status": {"podIP": "", "podIPs": null}})).ips.is_empty());
}
