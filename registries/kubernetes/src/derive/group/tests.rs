//! Rules of the endpoint join (docs/reference/kubernetes.md); tests of [T] rows are named after the fault.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::*;

/// Formats each address as `10.0.0.1 HEALTHY of pod`.
fn shown(group: &EndpointGroup) -> Vec<String> {
    let one = |address: &Address| {
        let mut text = format!("{} {}", address.ip().unwrap(), address.health.as_str());
        if let Some(origin) = &address.origin {
            text += &format!(" of {}", origin.object.name);
        }
        text
    };
    group.addresses.iter().map(one).collect()
}
fn only(group: &EndpointGroup) -> &Address {
    assert_eq!(group.addresses.len(), 1);
    &group.addresses[0]
}
fn health(service: Value, conditions: Value) -> Health {
    let mut endpoint = at("10.0.0.1");
    endpoint["conditions"] = conditions;
    let objects = vec![mk_service("pay", service), mk_slice("pay-1", "pay", json!([endpoint]), json!({}))];
    only(&grouped("pay-1", objects)).health
}

#[test]
fn slice_without_pods_gives_endpoints_without_guesses() {
    let group = grouped("pay-1", vec![mk_slice("pay-1", "pay", json!([at("10.0.0.1")]), json!({}))]);
    let address = only(&group);
    assert_eq!((address.identity.clone(), address.mtls, address.origin.clone()), (None, false, None));
    assert!(address.topology.locality.is_empty() && address.topology.node.is_none());
    assert_eq!(address.topology.cluster.as_ref().map(ToString::to_string).as_deref(), Some("c1"));
    assert_eq!(group.port_sets.len(), 1);
    assert_eq!(group.ports(address)[0].name.as_str(), "http");
}

#[test]
fn group_belongs_to_its_slice_and_service() {
    let objects = mk_objects(vec![mk_slice("pay-1", "pay", json!([]), json!({}))]);
    let derived = derive(&objects, &mut Interner::default(), &shop("pay-1"));
    let [Fact::Group(key, group)] = &derived.facts[..] else { panic!("{derived:?}") };
    assert_eq!(key.service.to_string(), "shop/pay.shop.svc.cluster.local");
    assert_eq!(key.declaration.to_string(), "Service shop/pay");
    assert_eq!(key.object.to_string(), "EndpointSlice shop/pay-1");
    assert!(group.addresses.is_empty(), "a service without endpoints still exists");
}

#[test]
fn slice_with_only_not_ready_is_unhealthy_and_not_terminating() {
    assert_eq!(health(json!({}), json!({"ready": false})), Health::Unhealthy);
}

#[test]
fn terminating_endpoint_drains_for_cookie_and_header_sessions() {
    let leaving = || json!({"ready": false, "serving": true, "terminating": true});
    let bound = |label: &str| json!({"metadata": {"labels": {label: "x"}}});
    assert_eq!(health(json!({}), leaving()), Health::Terminating);
    assert_eq!(health(bound("istio.io/persistent-session"), leaving()), Health::Draining);
    assert_eq!(health(bound("istio.io/persistent-session-header"), leaving()), Health::Draining);
    let left = json!({"ready": false, "serving": false, "terminating": true});
    assert_eq!(health(bound("istio.io/persistent-session"), left), Health::Terminating);
    assert_eq!(health(bound("istio.io/persistent-session"), json!({"ready": false})), Health::Unhealthy);
    assert_eq!(
        health(json!({}), json!({"ready": true, "terminating": true})),
        Health::Healthy,
        "publishNotReadyAddresses"
    );
}

#[test]
fn pod_supplies_identity_topology_labels_and_origin() {
    let pod = mk_pod(
        "web",
        "10.0.0.1",
        json!({"metadata": {"labels": {"app": "web", "security.istio.io/tlsMode": "istio"}}}),
    );
    let group = grouped(
        "pay-1",
        vec![mk_slice("pay-1", "pay", json!([of("10.0.0.1", "web")]), json!({})), pod, mk_node("n1", "b")],
    );
    let address = only(&group);
    assert_eq!(
        address.identity.as_ref().map(ToString::to_string).as_deref(),
        Some("spiffe://cluster.local/ns/shop/sa/pay")
    );
    assert!(address.mtls);
    assert_eq!(address.topology.locality.to_string(), "eu/b");
    assert_eq!(address.topology.node.as_ref().map(ToString::to_string).as_deref(), Some("n1"));
    assert_eq!(address.labels.get("app"), Some("web"));
    assert_eq!(address.labels.get("topology.kubernetes.io/zone"), Some("b"));
    assert_eq!(address.origin.as_ref().unwrap().object.to_string(), "Pod shop/web");
    assert_eq!(group.summary.identities.len(), 1);
}

#[test]
fn endpoint_of_an_unseen_pod_is_withheld() {
    let slice = || mk_slice("pay-1", "pay", json!([of("10.0.0.1", "web"), at("10.0.0.2")]), json!({}));
    assert_eq!(shown(&grouped("pay-1", vec![slice()])), ["10.0.0.2 HEALTHY"]);
    let elsewhere = mk_pod("other", "10.0.0.1", json!({}));
    assert_eq!(
        shown(&grouped("pay-1", vec![slice(), elsewhere])),
        ["10.0.0.2 HEALTHY"],
        "not guessed by its address"
    );
}

#[test]
fn ready_endpoint_of_an_unseen_pod_is_reported() {
    let problem = |endpoints: Value, pods: &[&str]| {
        let mut objects = vec![mk_slice("pay-1", "pay", endpoints, json!({}))];
        objects.extend(pods.iter().map(|pod| mk_pod(pod, "10.0.0.1", json!({}))));
        let derived = derive(&mk_objects(objects), &mut Interner::default(), &shop("pay-1"));
        derived.problem.map(|problem| format!("{} {}", problem.code, problem.message))
    };
    let two = || json!([of("10.0.0.1", "web"), of("10.0.0.2", "api")]);
    let waits = "TRB0324 endpoint 10.0.0.1 waits for Pod shop/web, which has not been seen";
    assert_eq!(problem(two(), &["api"]).as_deref(), Some(waits));
    assert_eq!(problem(two(), &[]), Some(format!("{waits}; 1 more wait so")));
    assert_eq!(problem(two(), &["api", "web"]), None);
    let mut leaving = of("10.0.0.1", "web");
    leaving["conditions"] = json!({"ready": false, "terminating": true});
    assert_eq!(problem(json!([leaving]), &[]), None, "its pod may be deleted first");
}

#[test]
fn unready_pod_counts_as_seen() {
    let slice = mk_slice("pay-1", "pay", json!([of("10.0.0.1", "web")]), json!({}));
    let pod = mk_pod("web", "10.0.0.1", json!({"status": {"phase": "Pending", "conditions": []}}));
    assert_eq!(shown(&grouped("pay-1", vec![slice, pod])), ["10.0.0.1 HEALTHY of web"]);
}

#[test]
fn address_without_a_target_is_its_pods_where_unambiguous() {
    let slice = || mk_slice("pay-1", "pay", json!([at("10.0.0.1")]), json!({}));
    let pod = |name: &str, over: Value| mk_pod(name, "10.0.0.1", over);
    let lone = |pods: Vec<crate::Object>| {
        shown(&grouped("pay-1", pods.into_iter().chain([slice()]).collect())).remove(0)
    };
    assert_eq!(lone(vec![pod("a", json!({}))]), "10.0.0.1 HEALTHY of a");
    assert_eq!(
        lone(vec![pod("a", json!({})), pod("b", json!({"status": {"phase": "Failed"}}))]),
        "10.0.0.1 HEALTHY of a",
        "an ended pod has no address"
    );
    assert_eq!(lone(vec![pod("a", json!({})), pod("b", json!({}))]), "10.0.0.1 HEALTHY", "two claim it");
    assert_eq!(
        lone(vec![pod("a", json!({"spec": {"hostNetwork": true}}))]),
        "10.0.0.1 HEALTHY",
        "the address is the node's"
    );
    assert_eq!(lone(vec![pod("a", json!({"metadata": {"namespace": "other"}}))]), "10.0.0.1 HEALTHY");
}

#[test]
fn host_network_pods_share_an_address_and_keep_identities() {
    let slice = |name: &str, service: &str, pod: &str| {
        mk_slice(name, service, json!([of("10.9.0.1", pod)]), json!({}))
    };
    let host = |name: &str, account: &str| {
        mk_pod(name, "10.9.0.1", json!({"spec": {"hostNetwork": true, "serviceAccountName": account}}))
    };
    let objects =
        || vec![slice("a-1", "a", "pa"), slice("b-1", "b", "pb"), host("pa", "one"), host("pb", "two")];
    let identity = |slice: &str| only(&grouped(slice, objects())).identity.as_ref().unwrap().to_string();
    assert!(identity("a-1").ends_with("/sa/one"));
    assert!(identity("b-1").ends_with("/sa/two"));
}

#[test]
fn address_without_a_pod_has_its_nodes_or_slices_locality() {
    let locality = |endpoint: Value, nodes: Vec<crate::Object>| {
        let slice = mk_slice("pay-1", "pay", json!([endpoint]), json!({}));
        let group = grouped("pay-1", nodes.into_iter().chain([slice]).collect());
        let address = only(&group);
        (
            address.topology.locality.to_string(),
            address.labels.get("topology.kubernetes.io/zone").map(str::to_owned),
        )
    };
    let with = |node: Value, zone: Value| json!({"addresses": ["10.0.0.1"], "nodeName": node, "zone": zone});
    let node = || vec![mk_node("n1", "b")];
    assert_eq!(locality(with(json!("n1"), json!("z")), node()), ("eu/b".into(), Some("b".into())));
    assert_eq!(locality(with(json!("n2"), json!("z")), node()), ("/z".into(), Some("z".into())));
    assert_eq!(locality(with(json!(null), json!("z")), node()), ("/z".into(), Some("z".into())));
    assert_eq!(locality(with(json!(null), json!(null)), node()), (String::new(), None));
}

#[test]
fn pod_on_an_unknown_node_has_its_slices_zone() {
    let mut endpoint = of("10.0.0.1", "web");
    endpoint["zone"] = json!("z");
    let slice = mk_slice("pay-1", "pay", json!([endpoint]), json!({}));
    let objects = vec![slice, mk_pod("web", "10.0.0.1", json!({}))];
    assert_eq!(only(&grouped("pay-1", objects.clone())).topology.locality.to_string(), "/z");
    let known = objects.into_iter().chain([mk_node("n1", "b")]).collect();
    assert_eq!(
        only(&grouped("pay-1", known)).topology.locality.to_string(),
        "eu/b",
        "the node has precedence"
    );
}

#[test]
fn slice_of_names_is_skipped_and_reported() {
    let slice =
        mk_slice("pay-1", "pay", json!([{"addresses": ["a.example"]}]), json!({"addressType": "FQDN"}));
    let derived = derive(&mk_objects(vec![slice]), &mut Interner::default(), &shop("pay-1"));
    assert!(derived.facts.is_empty());
    assert_eq!(derived.problem.unwrap().code, Code::INVALID_ADDRESS);
}

#[test]
fn slice_of_mcs_or_without_a_service_gives_nothing() {
    for label in
        [json!({"multicluster.kubernetes.io/service-name": "pay"}), json!({"kubernetes.io/service-name": ""})]
    {
        let slice = mk_slice("pay-1", "pay", json!([at("10.0.0.1")]), json!({"metadata": {"labels": label}}));
        assert_eq!(
            derive(&mk_objects(vec![slice]), &mut Interner::default(), &shop("pay-1")),
            Derived::default()
        );
    }
}

#[test]
fn all_ports_of_a_slice_apply_to_every_address() {
    let ports = json!([{"name": "http", "port": 8080}, {"name": "admin", "port": 9090}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
    let group = grouped(
        "pay-1",
        vec![mk_slice("pay-1", "pay", json!([at("10.0.0.1"), at("10.0.0.2")]), json!({"ports": ports}))],
    );
    assert_eq!(group.port_sets.len(), 1, "one set for all");
    for address in group.addresses.iter() {
        let ports: Vec<_> =
            group.ports(address).iter().map(|p| (p.name.as_str(), p.number.unwrap().get())).collect();
        assert_eq!(ports, [("http", 8080), ("admin", 9090), ("dns", 53)]);
    }
}

#[test]
fn each_family_of_a_pod_is_an_endpoint_of_its_slice() {
    let pod =
        mk_pod("web", "10.0.0.1", json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]}}));
    let v4 = mk_slice("pay-4", "pay", json!([of("10.0.0.1", "web")]), json!({}));
    let v6 = mk_slice("pay-6", "pay", json!([of("2001:db8::1", "web")]), json!({"addressType": "IPv6"}));
    let objects = vec![pod, v4, v6];
    assert_eq!(shown(&grouped("pay-4", objects.clone())), ["10.0.0.1 HEALTHY of web"]);
    let six = grouped("pay-6", objects);
    assert_eq!(shown(&six), ["2001:db8::1 HEALTHY of web"]);
    assert!(six.summary.v6 && !six.summary.v4);
}

#[test]
fn common_values_of_pods_are_shared() {
    let pods = (1..=3).map(|i| {
        mk_pod(&format!("web-{i}"), &format!("10.0.0.{i}"), json!({"metadata": {"labels": {"app": "web"}}}))
    });
    let endpoints: Vec<Value> = (1..=3).map(|i| of(&format!("10.0.0.{i}"), &format!("web-{i}"))).collect();
    let objects: Vec<_> = pods.chain([mk_slice("pay-1", "pay", json!(endpoints), json!({}))]).collect();
    let group = grouped("pay-1", objects);
    let [a, b, c] = &group.addresses[..] else { panic!() };
    assert!(Arc::ptr_eq(&a.topology, &b.topology) && Arc::ptr_eq(&b.topology, &c.topology));
    assert!(a.labels.is_same(&b.labels));
    assert!(std::ptr::eq(a.identity.as_ref().unwrap().as_str(), b.identity.as_ref().unwrap().as_str()));
}
