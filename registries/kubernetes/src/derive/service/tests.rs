//! Rules of Services (docs/reference/kubernetes.md).

use serde_json::{Value, json};
use tributary_model::{Labels, Namespace, Target, TrafficDistribution, Visibility};

use super::*;
use crate::fixtures::*;
use crate::project::Service;

fn pay(over: Value) -> Declaration {
    declared(mk_service("pay", over))
}
fn ips(declaration: &Declaration) -> Vec<String> {
    declaration.addresses.iter().map(|address| format!("{}/{}", address.ip, address.prefix)).collect()
}

#[test]
fn service_is_a_host_of_its_namespace_and_domain() {
    let object = mk_service("pay", json!({}));
    let mut options = mk_options();
    options.domain = "corp.local".into();
    let mut objects = ClusterObjects::new(options);
    objects.put(object);
    let derived = derive(&objects, &mut Interner::default(), &shop("pay"));
    let [Fact::Service(key, declaration)] = &derived.facts[..] else { panic!("{derived:?}") };
    assert_eq!(key.service.to_string(), "shop/pay.shop.svc.corp.local");
    assert_eq!(key.object.to_string(), "Service shop/pay");
    assert_eq!(declaration.created.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(&*declaration.source.version.0, "7");
}

#[test]
fn each_type_has_its_resolution_and_addresses() {
    let own = pay(json!({}));
    assert_eq!((own.resolution.clone(), ips(&own)), (Resolution::ClientSide, vec!["10.1.0.1/32".to_owned()]));
    assert_eq!(
        own.addresses[0].cluster.as_ref().unwrap().as_str(),
        "c1",
        "a ClusterIP belongs to its cluster"
    );
    let dual = pay(json!({"spec": {"clusterIP": "10.1.0.1", "clusterIPs": ["10.1.0.1", "fd00::1"]}}));
    assert_eq!(ips(&dual), ["10.1.0.1/32", "fd00::1/128"]);
    let none = pay(json!({"spec": {"clusterIP": ""}}));
    assert!(none.addresses.is_empty() && !none.attributes.headless);

    let headless = pay(json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}));
    assert_eq!(headless.resolution, Resolution::Passthrough);
    assert!(headless.attributes.headless && headless.addresses.is_empty());
    let both =
        pay(json!({"spec": {"type": "ExternalName", "clusterIP": "None", "externalName": "a.example"}}));
    assert_eq!(both.resolution, Resolution::Passthrough, "headless for any type");

    let other =
        pay(json!({"spec": {"type": "ExternalName", "clusterIP": "", "externalName": "Api.Example.com."}}));
    assert_eq!(other.resolution, Resolution::Alias(Hostname::new("api.example.com").unwrap()));
    assert!(other.attributes.mesh_external && other.addresses.is_empty());
}

#[test]
fn copy_of_a_directly_read_consul_declares_nothing() {
    let copy = || mk_service("pay", json!({"metadata": {"labels": {"consul": "true"}}}));
    assert_eq!(derive(&mk_objects(vec![copy()]), &mut Interner::default(), &shop("pay")).facts.len(), 1);
    let mut objects =
        ClusterObjects::new(crate::Options { consul_domains: Arc::from(["consul".into()]), ..mk_options() });
    objects.put(copy());
    assert_eq!(derive(&objects, &mut Interner::default(), &shop("pay")), Derived::default());
}

#[test]
fn invalid_external_name_is_a_problem_of_its_object() {
    let objects = mk_objects(vec![mk_service(
        "pay",
        json!({"spec": {"type": "ExternalName", "clusterIP": "", "externalName": "a b"}}),
    )]);
    let derived = derive(&objects, &mut Interner::default(), &shop("pay"));
    assert!(derived.facts.is_empty());
    let problem = derived.problem.unwrap();
    assert_eq!(problem.code, Code::INVALID_HOST);
    assert!(problem.message.contains("spec.externalName"), "{}", problem.message);
}

#[test]
fn ports_have_protocols_and_targets() {
    let ports = json!({"spec": {"ports": [
        {"port": 80, "name": "http-web", "targetPort": 8080},
        {"port": 81, "name": "x", "appProtocol": "grpc", "targetPort": "web"},
        {"port": 82, "targetPort": 0},
        {"port": 83, "name": "grpc-web-x"},
        {"port": 84, "name": "u", "protocol": "UDP"},
        {"port": 3306, "name": "main"},
        {"port": 85, "name": "y", "appProtocol": "kubernetes.io/h2c"},
    ]}});
    let shown: Vec<String> = pay(ports)
        .ports
        .iter()
        .map(|port| {
            let target = match &port.target {
                Target::Same => "same".to_owned(),
                Target::Number(number) => number.to_string(),
                Target::Name(name) => name.as_str().to_owned(),
                Target::NamedOr(_) => "other".to_owned(),
            };
            format!("{} {} {} {target}", port.number, port.name.as_str(), port.protocol.as_str())
        })
        .collect();
    let want = [
        "80 http-web HTTP 8080",
        "81 x GRPC web",
        "82  unspecified same",
        "83 grpc-web-x GRPC-Web same",
        "84 u UDP same",
        "3306 main TCP same",
        "85 y HTTP2 same",
    ];
    assert_eq!(shown, want);
}

#[test]
fn tcp_port_wins_over_a_udp_port_with_the_same_number() {
    let dns = |first: &str, second: &str| {
        let ports = json!([{"port": 53, "name": first, "protocol": first}, {"port": 53, "name": second, "protocol": second}]);
        pay(json!({"spec": {"ports": ports}}))
            .ports
            .iter()
            .map(|p| p.name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(dns("UDP", "TCP"), ["TCP"]);
    assert_eq!(dns("TCP", "UDP"), ["TCP"]);
}

#[test]
fn internal_traffic_policy_local_is_node_local() {
    assert!(pay(json!({"spec": {"internalTrafficPolicy": "Local"}})).attributes.node_local);
    assert!(
        !pay(json!({"spec": {"internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Local"}}))
            .attributes
            .node_local
    );
}

#[test]
fn traffic_distribution_order_is_spec_service_namespace() {
    use TrafficDistribution::{Any, SameNode, SameZone};
    let by = |spec: Value, service: Value, namespace: Value| {
        let annotation =
            |value: &Value| json!({"annotations": {"networking.istio.io/traffic-distribution": value}});
        let mut over = json!({"spec": {"trafficDistribution": spec}});
        if !service.is_null() {
            over["metadata"] = annotation(&service);
        }
        let mut ns = json!({});
        if !namespace.is_null() {
            ns["metadata"] = annotation(&namespace);
        }
        declared_among(mk_service("pay", over), vec![mk_namespace("shop", ns)]).attributes.traffic
    };
    let (none, zone, node) = (json!(null), json!("PreferSameZone"), json!("PreferSameNode"));
    assert_eq!(by(none.clone(), none.clone(), none.clone()), Any);
    assert_eq!(by(zone.clone(), node.clone(), node), SameZone);
    assert_eq!(by(json!("PreferClose"), none.clone(), none.clone()), SameZone);
    assert_eq!(by(none.clone(), json!("prefersamenode"), zone.clone()), SameNode);
    assert_eq!(by(none.clone(), none.clone(), zone.clone()), SameZone);
    assert_eq!(by(none, json!("nonsense"), zone), Any, "an unknown value counts as set");
}

#[test]
fn export_to_is_read_from_the_annotation() {
    let export =
        |list: &str| pay(json!({"metadata": {"annotations": {"networking.istio.io/exportTo": list}}})).export;
    assert_eq!(pay(json!({})).export, ExportTo::Default, "the mesh default applies");
    assert_eq!(export(" , "), ExportTo::Default);
    assert_eq!(export("~"), ExportTo::Set(Visibility::Hidden));
    assert_eq!(export("web, *"), ExportTo::Set(Visibility::Public));
    let some = [Namespace::new("shop").unwrap(), Namespace::new("web").unwrap()];
    assert_eq!(export(". ,web"), ExportTo::Set(Visibility::Namespaces(some.into())));
}

#[test]
fn invalid_annotation_is_ignored_and_reported() {
    let reported = |key: &str, value: &str| -> Vec<String> {
        let declaration = pay(json!({"metadata": {"annotations": {key: value}}}));
        declaration.attributes.warnings.iter().map(|warning| warning.message.to_string()).collect()
    };
    assert_eq!(
        reported("networking.istio.io/exportTo", ".,Not A Namespace,web"),
        [
            "annotation networking.istio.io/exportTo: \"Not A Namespace\" is not a namespace, `.`, `*` or `~`; it is ignored"
        ]
    );
    assert_eq!(reported("traffic.istio.io/nodeSelector", "zone=a").len(), 1);
    assert_eq!(reported("networking.istio.io/traffic-distribution", "nonsense").len(), 1);
    assert_eq!(reported("networking.istio.io/exportTo", &"?,".repeat(100)).len(), 8, "the number is bounded");
    for (key, value) in [
        ("networking.istio.io/exportTo", "*, ~ ,shop"),
        ("traffic.istio.io/nodeSelector", "{\"zone\": \"a\"}"),
        ("networking.istio.io/traffic-distribution", "preferclose"),
        ("alpha.istio.io/canonical-serviceaccounts", "spiffe://other.test/ns/a/sa/b, sa@example.com"),
        ("example.com/other", "?"),
    ] {
        assert_eq!(reported(key, value), [""; 0], "{key}: {value}");
    }
}

#[test]
fn annotated_accounts_become_identities() {
    let object = || {
        mk_service(
            "pay",
            json!({"metadata": {"annotations": {
                "alpha.istio.io/canonical-serviceaccounts": "spiffe://x/ns/a/sa/b , plain",
                "alpha.istio.io/kubernetes-serviceaccounts": "till,till",
            }}}),
        )
    };
    let texts = |d: &Declaration| d.attributes.identities.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        texts(&declared(object())),
        ["plain", "spiffe://cluster.local/ns/shop/sa/till", "spiffe://x/ns/a/sa/b"]
    );
    let mut options = mk_options();
    options.trust_domain = Some("east.example".into());
    let mut objects = ClusterObjects::new(options);
    objects.put(object());
    let derived = derive(&objects, &mut Interner::default(), &shop("pay"));
    let [Fact::Service(_, declaration)] = &derived.facts[..] else { panic!("{derived:?}") };
    assert_eq!(texts(declaration)[1], "spiffe://east.example/ns/shop/sa/till");
}

#[test]
fn service_with_virtual_addresses_selects_its_clusters_entries() {
    let selector = |over: Value| {
        pay(json!({"spec": {"selector": {"app": "pay"}}}))
            .selector
            .filter(|_| over.is_null())
            .or_else(|| pay(over).selector)
    };
    let own = selector(json!(null)).unwrap();
    assert_eq!(own.labels, [("app", "pay")].into_iter().collect::<Labels>());
    assert_eq!(*own.kinds, [WorkloadKind::Entry], "its pods come through slices");
    assert_eq!(own.cluster.as_ref().map(ClusterId::as_str), Some("c1"));
    assert!(own.augmented && !own.names);
    for none in [
        json!({"spec": {"selector": {}}}),
        json!({"spec": {"selector": {"app": "pay"}, "clusterIP": "None"}}),
        json!({"spec": {"selector": {"app": "pay"}, "type": "ExternalName", "clusterIP": "", "externalName": "a.example"}}),
    ] {
        assert_eq!(selector(none.clone()), None, "{none}");
    }
}
use tributary_model::ClusterId;

#[test]
fn both_labels_enable_persistent_sessions() {
    for label in ["istio.io/persistent-session", "istio.io/persistent-session-header"] {
        assert!(pay(json!({"metadata": {"labels": {label: "x"}}})).attributes.persistent_sessions, "{label}");
    }
    assert!(
        !pay(json!({"metadata": {"labels": {"istio.io/persistent-session": ""}}}))
            .attributes
            .persistent_sessions
    );
    assert!(pay(json!({"spec": {"publishNotReadyAddresses": true}})).attributes.publish_not_ready);
}

#[test]
fn external_addresses_serve_gateways_and_are_not_virtual() {
    let balanced = mk_service(
        "pay",
        json!({
            "spec": {"type": "LoadBalancer", "externalIPs": ["34.0.0.9", "34.0.0.1"], "ports": [{"port": 80, "nodePort": 30080}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "34.0.0.1"}, {"hostname": "lb.example"}, {}]}},
            "metadata": {"annotations": {"traffic.istio.io/nodeSelector": "{\"zone\":\"a\"}"}},
        }),
    );
    let crate::Object::Service(service) = &balanced else { panic!() };
    let external: Vec<&str> = service.external.iter().map(|text| &**text).collect();
    assert_eq!(external, ["34.0.0.1", "lb.example", "34.0.0.9"], "external IPs are appended");
    assert_eq!(service.ports[0].node.map(|n| n.get()), Some(30080));
    assert_eq!(service.node_selector, None, "a LoadBalancer is not reached through nodes");
    assert_eq!(ips(&declared(balanced)), ["10.1.0.1/32"]);
    let not = mk_service(
        "pay",
        json!({"spec": {"type": "NodePort"}, "status": {"loadBalancer": {"ingress": [{"ip": "34.0.0.1"}]}}, "metadata": {"annotations": {"traffic.istio.io/nodeSelector": "{}"}}}),
    );
    let crate::Object::Service(service) = &not else { panic!() };
    assert!(service.external.is_empty());
    assert_eq!(service.node_selector, Some(Labels::default()), "every node");
}

#[test]
fn impossible_value_is_rejected_with_its_field() {
    for (spec, field) in [
        (json!({"ports": [{"port": 0}]}), "spec.ports"),
        (json!({"ports": [{"port": 80, "targetPort": 99999}]}), "spec.ports.targetPort"),
        (json!({"clusterIP": "10.1.0"}), "spec.clusterIP"),
    ] {
        let json = json!({"metadata": {"name": "pay", "namespace": "shop"}, "spec": spec}).to_string();
        let why = Service::parse(&json).expect_err(&json);
        assert!(why.contains(field), "{why}");
    }
}

#[test]
fn ignored_fields_change_nothing() {
    let plain = pay(json!({}));
    let ignored = json!({"spec": {"sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local", "loadBalancerClass": "x", "ipFamilyPolicy": "PreferDualStack"}});
    assert_eq!(pay(ignored), plain);
}
