//! Rules and known faults of gateways (docs/reference/kubernetes.md), on an index that applies changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tributary_kube_client::Event;
use tributary_model::*;

use crate::Index;
use crate::fixtures::*;
use crate::kind::{Kind, Name, WatchScope};
use crate::options::Options;
use crate::project::{Gateway as GatewayObject, MeshConfig, Node, Object, Service};

const SELECTOR: &str = "traffic.istio.io/nodeSelector";

fn mk_east_west(over: Value) -> Object {
    let mut base = json!({
        "metadata": {"labels": {"topology.istio.io/network": "n2"}},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "tls", "port": 15443}, {"name": "hbone", "port": 15008}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}},
    });
    merge(&mut base, &over);
    mk_service("eastwest", base)
}
fn mk_on_nodes(selector: &str) -> Object {
    let ports = json!([{"name": "tls", "port": 15443, "nodePort": 31443}, {"name": "hbone", "port": 15008}]);
    mk_east_west(json!({
        "metadata": {"annotations": {SELECTOR: selector}},
        "spec": {"type": "NodePort", "ports": ports},
        "status": null,
    }))
}
fn mk_outer_node(name: &str, role: &str, external: &[&str]) -> Object {
    let addresses: Vec<Value> =
        external.iter().map(|ip| json!({"type": "ExternalIP", "address": ip})).collect();
    let mut addresses = addresses;
    addresses.push(json!({"type": "InternalIP", "address": "10.9.9.9"}));
    let object =
        json!({"metadata": {"name": name, "labels": {"role": role}}, "status": {"addresses": addresses}});
    Node::parse(&object.to_string()).unwrap().into()
}
fn mk_gateway(over: Value) -> Object {
    let mut base = json!({
        "metadata": {"name": "eastwest", "namespace": "shop", "labels": {"topology.istio.io/network": "n2"}},
        "spec": {
            "gatewayClassName": "istio-remote",
            "addresses": [{"value": "203.0.113.9"}, {"type": "Hostname", "value": "gw.test"}],
            "listeners": [
                {"name": "pass", "port": 15443, "protocol": "TLS", "tls": {"options": {"gateway.istio.io/listener-protocol": "auto-passthrough"}}},
                {"name": "mesh", "port": 15008, "protocol": "HBONE"},
                {"name": "web", "port": 80, "protocol": "HTTP"},
            ],
        },
    });
    merge(&mut base, &over);
    GatewayObject::parse(&base.to_string()).unwrap().into()
}
pub(crate) fn mk_mesh(mesh: &str, networks: &str) -> Object {
    let object = json!({"metadata": {"name": "istio", "namespace": "tributary-system"}, "data": {"mesh": mesh, "meshNetworks": networks}});
    MeshConfig::parse(&object.to_string()).unwrap().into()
}

/// Gateways after the updates, as texts, and problems by object.
#[derive(Default)]
struct Follower(BTreeSet<(GatewayKey, String)>, BTreeMap<String, Problem>);

impl Follower {
    fn apply(&mut self, updates: Vec<RegistryUpdate>) -> Vec<String> {
        for update in updates {
            match update {
                RegistryUpdate::Put(_, Fact::Gateway(key, gateway), _) => {
                    self.0.retain(|(known, _)| *known != key);
                    let port =
                        |port: Option<PortNumber>| port.map_or_else(|| "-".into(), |port| port.to_string());
                    let address = match &gateway.address {
                        Some(GatewayAddress::Ip(ip)) => ip.to_string(),
                        Some(GatewayAddress::Name(name)) => name.to_string(),
                        None => "-".into(),
                    };
                    let ports = format!("{}/{}", port(gateway.mtls_port), port(gateway.hbone_port));
                    self.0.insert((key.clone(), format!("{} {address} {ports}", key.network)));
                }
                RegistryUpdate::Remove(FactKey { item: FactId::Gateway(key), .. }, _) => {
                    self.0.retain(|(known, _)| *known != key)
                }
                RegistryUpdate::Problem(_, object, problem) => {
                    let object = object.id.to_string();
                    match problem {
                        Some(problem) => self.1.insert(object, problem),
                        None => self.1.remove(&object),
                    };
                }
                _ => {}
            }
        }
        let gateways: BTreeSet<&String> = self.0.iter().map(|(_, gateway)| gateway).collect();
        gateways.into_iter().cloned().collect()
    }
}

/// Returns the gateways that a new index of these objects publishes.
fn published(options: Options, objects: Vec<Object>) -> Vec<String> {
    Follower::default().apply(mk_listed_with(options, objects).flush())
}
fn mk_listed_with(options: Options, objects: Vec<Object>) -> Index {
    let mut index = Index::new(options);
    objects.into_iter().for_each(|object| index.apply_put(object));
    list_all(&mut index);
    index
}
/// Returns an index of these objects that has published nothing yet.
fn mk_listed(objects: Vec<Object>) -> Index {
    mk_listed_with(mk_options(), objects)
}
fn of(objects: Vec<Object>) -> Vec<String> {
    published(mk_options(), objects)
}
fn no(name: &str) -> [&str; 0] {
    assert!(!name.is_empty());
    []
}

#[test]
fn labelled_service_leads_into_its_network() {
    assert_eq!(of(vec![mk_east_west(json!({}))]), ["n2 203.0.113.9 15443/15008"]);
    let more = json!({
        "spec": {"externalIPs": ["198.51.100.7"]},
        "status": {"loadBalancer": {"ingress": [{"hostname": "gw.test"}, {"ip": "203.0.113.9"}]}},
    });
    let want = ["n2 198.51.100.7 15443/15008", "n2 203.0.113.9 15443/15008", "n2 gw.test 15443/15008"];
    assert_eq!(of(vec![mk_east_west(more)]), want);
    let unlabelled = mk_east_west(json!({"metadata": {"labels": {"topology.istio.io/network": ""}}}));
    assert_eq!(of(vec![unlabelled]), no("an empty label names no network"));
}

#[test]
fn only_exposed_ports_lead_into_a_network() {
    let ports = |ports: Value, label: Option<&str>| {
        let mut over = json!({"spec": {"ports": ports}});
        if let Some(label) = label {
            over["metadata"] = json!({"labels": {"networking.istio.io/gatewayPort": label}});
        }
        of(vec![mk_east_west(over)])
    };
    let web = json!([{"name": "web", "port": 80}, {"name": "tls", "port": 443}]);
    assert_eq!(ports(web.clone(), None), no("neither port is exposed"));
    assert_eq!(ports(web.clone(), Some("443")), ["n2 203.0.113.9 443/-"]);
    assert_eq!(ports(web, Some("444")), no("the labelled port is not exposed"));
    let usual = json!([{"name": "tls", "port": 15443}]);
    for bad in ["0", "x", "70000", ""] {
        assert_eq!(
            ports(usual.clone(), Some(bad)),
            ["n2 203.0.113.9 15443/-"],
            "{bad:?} means the default port"
        );
    }
    assert_eq!(ports(json!([{"name": "hbone", "port": 15008}]), None), ["n2 203.0.113.9 -/15008"]);
}

#[test]
fn node_port_gateway_has_the_external_addresses_of_its_nodes() {
    let nodes = || {
        vec![
            mk_outer_node("a", "edge", &["198.51.100.1", "2001:db8::1"]),
            mk_outer_node("b", "edge", &[]),
            mk_outer_node("c", "inner", &["198.51.100.3"]),
        ]
    };
    let among = |selector| of(nodes().into_iter().chain([mk_on_nodes(selector)]).collect());
    let edge = ["n2 198.51.100.1 31443/-", "n2 2001:db8::1 31443/-"];
    assert_eq!(among(r#"{"role":"edge"}"#), edge, "a port without a node port does not lead in");
    assert_eq!(among("{}").len(), 3, "no pairs select every node");
    assert_eq!(among(r#"{"role":"none"}"#), ["n2 - 31443/-"], "no node");
    let cluster_ip = mk_on_nodes("{}");
    let Object::Service(service) = &cluster_ip else { panic!() };
    let balanced = Service { node_selector: None, ..Service::clone(service) };
    assert_eq!(
        of(nodes().into_iter().chain([balanced.into()]).collect()),
        ["n2 - 15443/15008"],
        "it has no address of its own"
    );
}

#[test]
fn gateways_follow_their_nodes() {
    let mut index = mk_listed(vec![mk_on_nodes(r#"{"role":"edge"}"#)]);
    let mut follower = Follower::default();
    let none = ["n2 - 31443/-"];
    assert_eq!(follower.apply(index.flush()), none, "no node yet");
    let mut put = |index: &mut Index, node: Object| {
        index.apply_put(node);
        follower.apply(index.flush())
    };
    assert_eq!(put(&mut index, mk_outer_node("a", "edge", &["198.51.100.1"])), ["n2 198.51.100.1 31443/-"]);
    let both = put(&mut index, mk_outer_node("b", "edge", &["198.51.100.2"]));
    assert_eq!(both, ["n2 198.51.100.1 31443/-", "n2 198.51.100.2 31443/-"]);
    // trap (a): the address must disappear with the node's event, not with a later one
    assert_eq!(put(&mut index, mk_outer_node("a", "edge", &[])), ["n2 198.51.100.2 31443/-"]);
    assert_eq!(put(&mut index, mk_outer_node("b", "inner", &["198.51.100.2"])), none, "it is not selected");
    put(&mut index, mk_outer_node("a", "edge", &["198.51.100.1"]));
    // trap (b): gateways at nodes survive a new reading of the networks
    assert_eq!(put(&mut index, mk_mesh("", "networks: {n9: {}}")), ["n2 198.51.100.1 31443/-"]);
    index.apply_delete(Kind::Node, Name::new("", "a"));
    assert_eq!(follower.apply(index.flush()), none, "the node is deleted");
}

#[test]
fn gateway_without_its_label_is_removed() {
    let unlabelled = json!({"metadata": {"labels": null}});
    for (labelled, unlabelled) in [
        (mk_east_west(json!({})), mk_east_west(unlabelled.clone())),
        (mk_gateway(json!({})), mk_gateway(unlabelled)),
    ] {
        let mut index = Index::new(mk_options());
        let mut follower = Follower::default();
        list_all(&mut index);
        index.apply_put(labelled);
        assert!(!follower.apply(index.flush()).is_empty());
        index.apply_put(unlabelled);
        assert_eq!(follower.apply(index.flush()), no("trap (c)"));
    }
}

#[test]
fn gateway_object_combines_addresses_and_listeners() {
    let want = ["n2 203.0.113.9 15443/15008", "n2 gw.test 15443/15008"];
    assert_eq!(of(vec![mk_gateway(json!({}))]), want);
    let by_port = json!([{"name": "a", "port": 15443, "protocol": "TLS", "tls": {}}, {"name": "b", "port": 443, "protocol": "TLS", "tls": {}}]);
    let by_port =
        mk_gateway(json!({"spec": {"addresses": [{"value": "203.0.113.9"}], "listeners": by_port}}));
    assert_eq!(of(vec![by_port]), ["n2 203.0.113.9 15443/-"], "the default port passes without the option");
    let labelled = json!({"metadata": {"labels": {"networking.istio.io/gatewayPort": "443"}}, "spec": {"addresses": [{"value": "203.0.113.9"}], "listeners": [{"name": "b", "port": 443, "protocol": "TLS", "tls": {}}]}});
    assert_eq!(of(vec![mk_gateway(labelled)]), ["n2 203.0.113.9 443/-"]);
    let none = json!({"spec": {"listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]}});
    assert_eq!(of(vec![mk_gateway(none)]), no("no listener leads in"));
}

#[test]
fn waypoint_is_no_gateway() {
    // trap (d)
    let class = mk_gateway(json!({"spec": {"gatewayClassName": "istio-waypoint"}}));
    let label = mk_gateway(json!({"metadata": {"labels": {"istio.io/waypoint-for": "all"}}}));
    assert_eq!(of(vec![class]), no("by class"));
    assert_eq!(of(vec![label]), no("by label"));
}

#[test]
fn remote_gateway_is_read_in_the_config_cluster_only() {
    let remote = Options { is_config: false, ..mk_options() };
    assert_eq!(published(remote.clone(), vec![mk_gateway(json!({}))]), no("a remote"));
    let own = mk_gateway(json!({"spec": {"gatewayClassName": "istio"}}));
    assert_eq!(published(remote, vec![own]).len(), 2, "its own gateways are read everywhere");
}

#[test]
fn mesh_networks_name_gateways_by_address_and_by_service() {
    let networks = "
networks:
  n3:
    endpoints: [{fromRegistry: c1}]
    gateways: [{address: 192.0.2.1, port: 15443}, {registryServiceName: web.shop.svc.cluster.local, port: 443}]
  n4:
    endpoints: [{fromRegistry: other}]
    gateways: [{address: gw.test, port: 443}, {registryServiceName: web.shop.svc.cluster.local, port: 443}]
";
    let web = |port: u32| {
        mk_service(
            "web",
            json!({
                "spec": {"type": "LoadBalancer", "ports": [{"name": "tls", "port": port}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}]}},
            }),
        )
    };
    let addresses = ["n3 - 443/-", "n3 192.0.2.1 15443/-", "n4 - 443/-", "n4 gw.test 443/-"];
    let [of_service, first, rest @ ..] = addresses;
    let with = |one| [&[of_service, first, one][..], &rest].concat();
    let all = with("n3 203.0.113.5 443/-");
    assert_eq!(of(vec![mk_mesh("", networks)]), addresses, "the Service is missing");
    assert_eq!(of(vec![web(443), mk_mesh("", networks)]), all, "n4 does not claim this cluster");
    assert_eq!(of(vec![web(80), mk_mesh("", networks)]), with("n3 203.0.113.5 -/-"), "it lacks the port");
    let mut index = mk_synced(vec![web(443)]);
    let mut follower = Follower::default();
    index.apply_put(mk_mesh("", networks));
    assert_eq!(follower.apply(index.flush()), all, "the configuration may arrive last");
    index.apply_put(mk_mesh("", "networks: []"));
    assert_eq!(follower.apply(index.flush()), all, "an invalid value changes nothing");
    index.apply_delete(Kind::MeshConfig, Name::new("tributary-system", "istio"));
    assert_eq!(follower.apply(index.flush()), no("no network names one"));
}

#[test]
fn listener_without_tls_is_no_gateway() {
    let plain = json!({"spec": {"listeners": [{"name": "a", "port": 15443, "protocol": "TCP"}]}});
    assert_eq!(of(vec![mk_gateway(plain)]), no("the default port alone is not enough"));
}

#[test]
fn service_gateways_follow_the_selection_of_their_namespace() {
    let mesh = mk_mesh("discoverySelectors: [{matchLabels: {team: shop}}]", "");
    let objects = || vec![mk_east_west(json!({})), mesh.clone(), mk_namespace("shop", json!({}))];
    assert_eq!(of(objects()), no("not selected"));
    let mut index = mk_synced(objects());
    let mut follower = Follower::default();
    index.apply_put(mk_namespace("shop", json!({"metadata": {"labels": {"team": "shop"}}})));
    assert_eq!(follower.apply(index.flush()).len(), 1, "it appears with its namespace");
    index.apply(&WatchScope::all(Kind::Namespace), Event::Init);
    index.apply(&WatchScope::all(Kind::Namespace), Event::InitDone);
    assert_eq!(follower.apply(index.flush()), no("a deleted namespace is not selected"));
}

#[test]
fn gateway_objects_are_read_in_every_namespace() {
    let mesh = mk_mesh("discoverySelectors: [{matchLabels: {team: shop}}]", "");
    let want = ["n2 203.0.113.9 15443/15008", "n2 gw.test 15443/15008"];
    assert_eq!(of(vec![mk_gateway(json!({})), mesh, mk_namespace("shop", json!({}))]), want);
}

/// Returns what a gateway leads into, and the problem, if any.
fn judged(objects: Vec<Object>) -> (Vec<String>, Vec<String>) {
    let mut index = mk_listed(objects);
    let mut follower = Follower::default();
    let gateways = follower.apply(index.flush());
    let problems = follower.1.into_iter().filter(|(_, problem)| problem.code == Code::GATEWAY_UNUSABLE);
    (gateways, problems.map(|(object, problem)| format!("{object}: {}", problem.message)).collect())
}

#[test]
fn gateway_that_cannot_be_used_is_declared_and_has_a_problem() {
    let unready = mk_east_west(json!({"status": null}));
    let hbone = mk_east_west(json!({"spec": {"ports": [{"name": "hbone", "port": 15008}]}}));
    let empty = mk_gateway(json!({"spec": {"addresses": []}}));
    let (service, gateway) = ("Service shop/eastwest#gateway", "Gateway shop/eastwest#gateway");
    let rows = [
        (unready, "n2 - 15443/15008", service, "it has no address: wait for its load balancer"),
        (hbone, "n2 203.0.113.9 -/15008", service, "no port for mesh TLS: expose port 15443"),
        (mk_on_nodes("{}"), "n2 - 31443/-", service, "give a selected node an ExternalIP"),
        (empty, "n2 - 15443/15008", gateway, "add an IP address to spec.addresses"),
    ];
    for (object, want, named, why) in rows {
        let (gateways, problems) = judged(vec![object]);
        assert_eq!(gateways, [want]);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.starts_with(named) && problem.contains(why), "{problem}");
        assert!(problem.contains("to enter network n2"), "{problem}");
    }
    assert_eq!(judged(vec![mk_east_west(json!({}))]).1, no("it can be used"));
    assert_eq!(judged(vec![mk_gateway(json!({}))]).1, no("one of its addresses can be used"));
}

#[test]
fn gateway_with_a_host_name_is_declared_complete() {
    let named = mk_east_west(json!({"status": {"loadBalancer": {"ingress": [{"hostname": "gw.test"}]}}}));
    let networks = "networks: {n2: {endpoints: [], gateways: [{address: gw.test, port: 443}]}}";
    for (object, want) in [(named, "n2 gw.test 15443/15008"), (mk_mesh("", networks), "n2 gw.test 443/-")] {
        let (gateways, problems) = judged(vec![object]);
        assert_eq!(gateways, [want]);
        assert_eq!(problems, no("its name is resolved elsewhere"));
    }
}

#[test]
fn gateway_that_loses_its_last_address_stays_declared_until_it_is_deleted() {
    let mut index = mk_listed(vec![mk_east_west(json!({}))]);
    let mut follower = Follower::default();
    assert_eq!(follower.apply(index.flush()), ["n2 203.0.113.9 15443/15008"]);
    index.apply_put(mk_east_west(json!({"status": null})));
    assert_eq!(follower.apply(index.flush()), ["n2 - 15443/15008"]);
    assert_eq!(follower.1.len(), 1);
    index.apply_put(mk_east_west(json!({})));
    assert_eq!(follower.apply(index.flush()), ["n2 203.0.113.9 15443/15008"]);
    assert_eq!(follower.1.len(), 0);
    index.apply_put(mk_east_west(json!({"status": null})));
    follower.apply(index.flush());
    index.apply_delete(Kind::Service, Name::new("shop", "eastwest"));
    assert_eq!(follower.apply(index.flush()), no("it is deleted"));
    assert_eq!(follower.1.len(), 0, "so is its problem");
}

#[test]
fn gateway_without_addresses_is_the_service_that_implements_it() {
    let implementing = |over: Value| {
        let mut base =
            json!({"metadata": {"labels": {"gateway.networking.k8s.io/gateway-name": "eastwest"}}});
        merge(&mut base, &over);
        mk_east_west(base)
    };
    let empty = || mk_gateway(json!({"spec": {"addresses": []}}));
    let mut index = mk_listed(vec![empty()]);
    let mut follower = Follower::default();
    assert_eq!(follower.apply(index.flush()), ["n2 - 15443/15008"]);
    index.apply_put(implementing(json!({})));
    assert_eq!(follower.apply(index.flush()), ["n2 203.0.113.9 15443/15008"]);
    assert_eq!(follower.1.len(), 0);
    index.apply_put(implementing(json!({"metadata": {"labels": {"topology.istio.io/network": ""}}})));
    assert_eq!(follower.apply(index.flush()), ["n2 - 15443/15008"], "it leads into no network");
}
