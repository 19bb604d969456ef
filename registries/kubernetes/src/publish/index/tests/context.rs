//! Context of all objects: namespace selection, networks, mesh values; alone, and in any order with other objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tributary_kube_client::Event;
use tributary_model::*;

use super::texts;
use crate::Index;
use crate::fixtures::*;
use crate::kind::{Kind, Name, WatchScope};
use crate::options::{Mcs, Options};
use crate::project::{Export, Gateway as GatewayObject, Import, MeshConfig, Object};

pub(super) fn mk_mesh(mesh: &str, networks: &str) -> Object {
    let object = json!({"metadata": {"name": "istio", "namespace": "tributary-system"}, "data": {"mesh": mesh, "meshNetworks": networks}});
    MeshConfig::parse(&object.to_string()).unwrap().into()
}
fn labelled(name: &str, labels: Value) -> Object {
    mk_namespace(name, json!({"metadata": {"labels": labels}}))
}
pub(super) fn team(name: &str) -> Object {
    labelled("shop", json!({"team": name}))
}
pub(super) const SHOP_ONLY: &str = "discoverySelectors: [{matchLabels: {team: shop}}]";

pub(super) fn updates(index: &mut Index) -> Vec<String> {
    let mut texts = texts(&index.flush());
    texts.retain(|text| !text.starts_with("progress") && text != "put Settings");
    texts
}
pub(super) fn mk_shop() -> Vec<Object> {
    let slice = mk_slice("s1", "pay", json!([of("10.0.0.1", "p1")]), json!({}));
    vec![team("shop"), mk_service("pay", json!({})), slice, mk_pod("p1", "10.0.0.1", json!({}))]
}

#[test]
fn namespace_is_deselected_and_selected_while_running() {
    let mut index = mk_synced(mk_shop());
    index.apply_put(mk_mesh(SHOP_ONLY, ""));
    assert_eq!(updates(&mut index), [""; 0], "it is selected, and the rest of the cluster is empty");
    index.apply_put(team("web"));
    let by = "changed Namespace shop";
    let gone = [
        format!("drop Service shop/pay: {by}"),
        format!("drop Workload p1: {by}"),
        format!("drop EndpointSlice shop/s1: {by}"),
        "left out 1".to_owned(),
    ];
    assert_eq!(updates(&mut index), gone);
    // objects that change meanwhile return with their current values
    index.apply_put(mk_service("cart", json!({})));
    index.apply_delete(Kind::Slice, shop("s1"));
    assert_eq!(updates(&mut index), [""; 0]);
    index.apply_put(team("shop"));
    let back = ["put Service shop/cart", "put Service shop/pay", "put Workload p1", "left out 0"];
    assert_eq!(updates(&mut index), back);
}

#[test]
fn changed_selectors_move_only_what_they_select_otherwise() {
    let mut index = mk_synced(mk_shop());
    index.apply_put(mk_mesh("discoverySelectors: [{matchLabels: {team: web}}]", ""));
    let texts = updates(&mut index);
    assert_eq!(
        texts.iter().filter(|text| text.contains("changed ConfigMap tributary-system/istio")).count(),
        3
    );
    index.apply_put(mk_mesh("discoverySelectors: [{matchLabels: {team: [web]}}]", ""));
    let texts = updates(&mut index);
    assert_eq!(texts.len(), 1, "an invalid selector keeps what was selected: {texts:?}");
    assert!(texts[0].starts_with("problem ConfigMap tributary-system/istio: TRB0319"), "{texts:?}");
    index.apply_delete(Kind::MeshConfig, Name::new("tributary-system", "istio"));
    assert_eq!(updates(&mut index).iter().filter(|text| text.starts_with("put")).count(), 3);
}

#[test]
fn deleted_namespace_takes_its_objects_out_of_scope() {
    let objects = mk_shop().into_iter().chain([mk_mesh(SHOP_ONLY, "")]).collect();
    let mut index = mk_synced(objects);
    index.apply_delete(Kind::Namespace, Name::new("", "shop"));
    let texts = updates(&mut index);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts.iter().all(|text| text.ends_with("deleted Namespace shop")), "{texts:?}");
}

#[test]
fn unnamed_namespaces_are_excluded_with_the_reason() {
    let options = Options { namespaces: vec![Namespace::new("web").unwrap()], ..mk_options() };
    let mut index = Index::new(options);
    mk_shop().into_iter().for_each(|object| index.apply_put(object));
    index.apply_put(labelled("web", json!({})));
    list_all(&mut index);
    let left_out = index.flush().into_iter().find_map(|update| match update {
        RegistryUpdate::Excluded(_, list) => Some(list),
        _ => None,
    });
    let list = left_out.unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].code, &*list[0].object.id.name), (Code::NAMESPACE_NOT_SELECTED, "shop"));
    assert!(list[0].explains(&Hostname::new("pay.shop.svc.cluster.local").unwrap()));
    assert!(!list[0].explains(&Hostname::new("pay.web.svc.cluster.local").unwrap()));
}

fn network(index: &Index) -> (String, String) {
    let own = index.objects().networks().own();
    own.map(|own| (own.network.to_string(), own.origin.to_string())).unwrap_or_default()
}

#[test]
fn network_of_the_cluster_comes_from_the_first_source() {
    let mut index = mk_synced(Vec::new());
    let net = |name: &str| json!({"topology.istio.io/network": name});
    assert_eq!(network(&index).0, "");
    index.apply_put(mk_mesh("", "networks: {of-mesh: {endpoints: [{fromRegistry: c1}]}}"));
    assert_eq!(
        network(&index),
        ("of-mesh".into(), "meshNetworks of ConfigMap tributary-system/istio".into())
    );
    index.apply_put(labelled("istio-system", net("of-istio")));
    assert_eq!(network(&index).0, "of-istio");
    index.apply_put(labelled("tributary-system", net("of-own")));
    let place = "label topology.istio.io/network of namespace tributary-system";
    assert_eq!(network(&index), ("of-own".into(), place.into()));
    let details = index.details();
    assert_eq!(details, [SourceDetail::text("network", format!("of-own ({place})"))]);
    index.apply_put(labelled("tributary-system", net("")));
    assert_eq!(network(&index).0, "of-istio", "an empty label names no network");
}

/// Returns the networks of all published endpoints and workloads.
fn networks(updates: &[RegistryUpdate]) -> Vec<String> {
    let place = |place: &Topology| place.network.as_ref().map_or("-", |n| n.as_str()).to_owned();
    let of = |update: &RegistryUpdate| match update {
        RegistryUpdate::Put(_, Fact::Group(_, group), _) => {
            group.addresses.iter().map(|a| place(&a.topology)).collect()
        }
        RegistryUpdate::Put(_, Fact::Workload(_, workload), _) => {
            vec![format!("w {}", place(&workload.topology))]
        }
        _ => Vec::new(),
    };
    updates.iter().flat_map(of).collect()
}

#[test]
fn changed_network_changes_everything_in_one_flush() {
    let bare = mk_slice("s2", "pay", json!([at("10.7.0.1")]), json!({}));
    let own =
        mk_pod("p2", "10.0.0.2", json!({"metadata": {"labels": {"topology.istio.io/network": "of-pod"}}}));
    let mut index = mk_synced(mk_shop().into_iter().chain([bare, own]).collect());
    index.apply_put(labelled("istio-system", json!({"topology.istio.io/network": "n1"})));
    assert_eq!(networks(&index.flush()), ["w n1", "n1", "n1"], "an own label takes precedence");
    index.apply_delete(Kind::Namespace, Name::new("", "istio-system"));
    assert_eq!(networks(&index.flush()), ["w -", "-", "-"]);
    index.apply_put(mk_mesh(
        "",
        "networks: {n7: {endpoints: [{fromCidr: 10.7.0.0/16}]}, n0: {endpoints: [{fromCidr: 10.0.0.0/8}]}}",
    ));
    assert_eq!(networks(&index.flush()), ["w n0", "n0", "n7"], "the longest prefix wins");
}

#[test]
fn ranges_of_the_configuration_file_take_precedence() {
    let range = |text: &str| text.parse().unwrap();
    let named = |name: &str, text: &str| (NetworkId::new(name).unwrap(), [range(text)].into());
    let options = Options { networks: [named("file", "10.7.0.0/16")].into(), ..mk_options() };
    let mut index = Index::new(options);
    index.apply_put(mk_mesh(
        "",
        "networks: {mesh: {endpoints: [{fromCidr: 10.7.0.0/16}, {fromCidr: 10.7.1.0/24}]}}",
    ));
    let at = |index: &Index, ip: &str| {
        index.objects().network(&Labels::default(), ip.parse().ok()).map(|n| n.to_string())
    };
    assert_eq!(at(&index, "10.7.0.1").as_deref(), Some("file"));
    assert_eq!(at(&index, "10.7.1.1").as_deref(), Some("mesh"), "the longer prefix wins");
}

#[test]
fn contested_claims_are_reported_and_withhold_nothing() {
    let mut index = mk_synced(Vec::new());
    index.apply_put(mk_mesh(
        "",
        "networks: {b: {endpoints: [{fromRegistry: c1}]}, a: {endpoints: [{fromRegistry: c1}]}}",
    ));
    assert_eq!(network(&index).0, "a");
    let texts = updates(&mut index);
    assert!(
        texts[0].starts_with("problem ConfigMap tributary-system/istio#meshNetworks: TRB0320 registry c1"),
        "{texts:?}"
    );
    index.apply_put(mk_mesh("", "networks: {b: {endpoints: [{fromRegistry: c1}]}}"));
    assert_eq!(updates(&mut index), ["good ConfigMap tributary-system/istio#meshNetworks"]);
    assert_eq!(network(&index).0, "b");
}

fn settings(index: &mut Index) -> Option<Settings> {
    index.flush().into_iter().find_map(|update| match update {
        RegistryUpdate::Put(_, Fact::Settings(settings), _) => Some(Settings::clone(&settings)),
        _ => None,
    })
}

#[test]
fn mesh_values_become_settings_with_default_local_hosts() {
    let mut index = Index::new(mk_options());
    list_all(&mut index);
    let local = |settings: &Settings, host: &str| settings.is_cluster_local(&Hostname::new(host).unwrap());
    let usual = settings(&mut index).unwrap();
    assert_eq!(local(&usual, "dns.kube-system.svc.cluster.local"), Some(true));
    assert_eq!(local(&usual, "kubernetes.default.svc.cluster.local"), Some(true));
    assert_eq!(local(&usual, "pay.shop.svc.cluster.local"), None);
    let mesh = "
trustDomain: a.test
trustDomainAliases: [old.test, '']
rootNamespace: mesh
connectTimeout: 3s
defaultHttpRetryPolicy: {attempts: 4}
accessLogFile: /dev/stdout
serviceSettings:
- {settings: {clusterLocal: true}, hosts: ['*.shop.svc.cluster.local']}
- {settings: {clusterLocal: false}, hosts: ['*.kube-system.svc.cluster.local']}
serviceEntryVisibility:
  applyToSidecars: true
  defaultVisibility: NAMESPACE
  policies: [{visibility: PUBLIC, matchingRules: [{namespaceSelector: {matchLabels: {team: shop}}}]}]
";
    index.apply_put(mk_mesh(mesh, ""));
    let set = settings(&mut index).unwrap();
    assert_eq!((set.trust_domain(), set.connect_timeout().as_secs()), ("a.test", 3));
    assert_eq!(set.http_retries.as_ref().map(|retries| retries.attempts), Some(4));
    assert_eq!(set.access_log.as_ref().map(|log| &*log.file), Some("/dev/stdout"));
    let root = |set: &Settings| set.root_namespace().map(|root| root.to_string());
    assert_eq!((root(&usual).as_deref(), root(&set).as_deref()), (Some("istio-system"), Some("mesh")));
    assert_eq!(
        ["a.test", "old.test", "cluster.local", ""].map(|domain| set.trusts(domain)),
        [true, true, false, false]
    );
    assert_eq!(local(&set, "dns.kube-system.svc.cluster.local"), Some(false), "the mesh's own pattern wins");
    assert_eq!(local(&set, "pay.shop.svc.cluster.local"), Some(true));
    assert_eq!(set.entry_visibility.as_ref().unwrap().default, Visibility::Own);
    index.apply_put(team("shop"));
    let caps = settings(&mut index).unwrap().entry_visibility.unwrap();
    assert_eq!(
        caps.of(&Namespace::new("shop").unwrap()),
        &Visibility::Public,
        "by the labels of the namespace"
    );
    index.apply_put(labelled("other", json!({})));
    assert_eq!(settings(&mut index), None, "equal values are not published again");
}

#[test]
fn identities_use_the_files_trust_domain_then_the_meshs() {
    for (file, want) in [
        (None, "spiffe://mesh.test/ns/shop/sa/pay"),
        (Some("file.test"), "spiffe://file.test/ns/shop/sa/pay"),
    ] {
        let mut index = Index::new(Options { trust_domain: file.map(Into::into), ..mk_options() });
        mk_shop().into_iter().for_each(|object| index.apply_put(object));
        list_all(&mut index);
        index.flush();
        index.apply_put(mk_mesh("trustDomain: mesh.test", ""));
        let identity = index.objects().trust_domain().to_owned();
        let put = index.flush().into_iter().find_map(|update| match update {
            RegistryUpdate::Put(_, Fact::Group(_, group), _) => group.addresses[0].identity.clone(),
            _ => None,
        });
        assert_eq!(put.map(|i| i.to_string()), file.is_none().then(|| want.to_owned()), "of {identity}");
        assert!(want.contains(&identity));
    }
}

#[derive(Debug, Clone)]
enum Op {
    Put(Object),
    Gone(Kind, Name),
    /// A value of the config cluster's mesh configuration.
    Home(Object),
    Flush,
}

fn any_of(texts: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(texts.to_vec())
}
fn any_namespace() -> impl Strategy<Value = Object> {
    let name = any_of(&["shop", "tributary-system", "istio-system"]);
    (name, any_of(&["", "n1", "n2"]), any_of(&["shop", "web"])).prop_map(|(name, network, team)| {
        labelled(name, json!({"topology.istio.io/network": network, "team": team}))
    })
}
fn any_mesh() -> impl Strategy<Value = Object> {
    let mesh = any_of(&[
        "",
        SHOP_ONLY,
        "trustDomain: b.test",
        "discoverySelectors: [{matchLabels: {team: web}}]\nconnectTimeout: 2s",
    ]);
    let networks = any_of(&[
        "",
        "networks: {n1: {endpoints: [{fromRegistry: c1}]}, n3: {endpoints: [{fromCidr: 10.0.0.0/8}], gateways: [{address: 192.0.2.1, port: 443}]}}",
        "networks: {n4: {endpoints: [{fromRegistry: c1}], gateways: [{registryServiceName: web.shop.svc.cluster.local, port: 80}]}}",
    ]);
    (mesh, networks).prop_map(|(mesh, networks)| mk_mesh(mesh, networks))
}
fn any_service() -> impl Strategy<Value = Object> {
    let parts = (any_of(&["pay", "web"]), any_of(&["", "n2"]), any::<bool>());
    parts.prop_map(|(name, network, on_nodes)| {
        let over = json!({
            "metadata": {"labels": {"topology.istio.io/network": network, "networking.istio.io/gatewayPort": "80"}, "annotations": {"traffic.istio.io/nodeSelector": "{\"zone\":\"a\"}"}},
            "spec": {"type": if on_nodes { "NodePort" } else { "LoadBalancer" }, "ports": [{"name": "http", "port": 80, "nodePort": 30080}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}},
        });
        mk_service(name, over)
    })
}
fn any_node() -> impl Strategy<Value = Object> {
    (any_of(&["a", "b"]), any_of(&["198.51.100.1", "198.51.100.2", "junk"])).prop_map(|(zone, ip)| {
        let object = json!({"metadata": {"name": "n1", "labels": {"zone": zone}}, "status": {"addresses": [{"type": "ExternalIP", "address": ip}]}});
        crate::project::Node::parse(&object.to_string()).unwrap().into()
    })
}
fn any_mcs() -> impl Strategy<Value = Object> {
    (any_of(&["pay", "web"]), any::<bool>(), any_of(&["10.9.0.1", "junk"])).prop_map(|(name, export, ip)| {
        let meta = json!({"name": name, "namespace": "shop"});
        if export {
            return Export::parse(&json!({"metadata": meta}).to_string()).unwrap().into();
        }
        Import::parse(&json!({"metadata": meta, "spec": {"ips": [ip]}}).to_string()).unwrap().into()
    })
}
fn any_gateway() -> impl Strategy<Value = Object> {
    (any_of(&["", "n2", "n5"]), any_of(&["istio", "istio-waypoint"])).prop_map(|(network, class)| {
        let object = json!({
            "metadata": {"name": "gw", "namespace": "shop", "labels": {"topology.istio.io/network": network}},
            "spec": {"gatewayClassName": class, "addresses": [{"value": "192.0.2.9"}], "listeners": [{"port": 15443, "tls": {}}, {"port": 15008, "protocol": "HBONE"}]},
        });
        GatewayObject::parse(&object.to_string()).unwrap().into()
    })
}
fn any_pod() -> impl Strategy<Value = Object> {
    (any_of(&["10.0.0.1", "10.0.0.2"]), any_of(&["", "n6"])).prop_map(|(ip, network)| {
        mk_pod("p1", ip, json!({"metadata": {"labels": {"topology.istio.io/network": network}}}))
    })
}
fn any_slice() -> impl Strategy<Value = Object> {
    (any_of(&["pay", "web"]), any::<bool>()).prop_map(|(service, bare)| {
        let endpoint = if bare { at("10.7.0.1") } else { of("10.0.0.1", "p1") };
        mk_slice("s1", service, json!([endpoint]), json!({}))
    })
}
fn any_object() -> impl Strategy<Value = Object> {
    prop_oneof![
        3 => any_namespace(),
        3 => any_mesh(),
        2 => any_service(),
        2 => any_node(),
        2 => any_mcs(),
        2 => any_gateway(),
        1 => any_pod(),
        1 => any_slice(),
    ]
}
fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any_object().prop_map(Op::Put),
        2 => any_object().prop_map(|object| Op::Gone(object.kind(), object.name().clone())),
        1 => any_mesh().prop_map(Op::Home),
        1 => Just(Op::Flush),
    ]
}

/// Facts, excluded objects and problems of a core that applies the updates of an index.
#[derive(Default, Debug, PartialEq)]
struct Held {
    facts: BTreeMap<FactId, Fact>,
    left_out: Vec<ExcludedObject>,
    problems: BTreeMap<ObjectRef, Problem>,
}

impl Held {
    fn apply(&mut self, updates: Vec<RegistryUpdate>) {
        for update in updates {
            match update {
                RegistryUpdate::Put(_, fact, _) => {
                    let known = self.facts.insert(fact.item(), fact.clone());
                    assert_ne!(known.as_ref(), Some(&fact), "published again");
                }
                RegistryUpdate::Remove(key, _) => {
                    assert!(self.facts.remove(&key.item).is_some(), "never published: {key:?}")
                }
                RegistryUpdate::Excluded(_, list) => self.left_out = list.to_vec(),
                RegistryUpdate::Problem(_, object, Some(problem)) => {
                    drop(self.problems.insert(object, problem))
                }
                RegistryUpdate::Problem(_, object, None) => drop(self.problems.remove(&object)),
                _ => {}
            }
        }
    }
}

fn mk_index(follows_mesh: bool) -> Index {
    let mcs = Mcs { discovery: true, host: true, ..Mcs::default() };
    Index::new(Options { mcs, follows_mesh, is_config: !follows_mesh, ..mk_options() })
}
/// Lets an index follow a mesh configuration, if it does so.
pub(super) fn follow(index: &mut Index, mesh: &Object) {
    if let Object::MeshConfig(config) = mesh
        && index.objects().options.follows_mesh
    {
        index.follow_mesh(Arc::new(config.mesh.clone()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_event_order_gives_the_facts_of_a_fresh_build(follows in any::<bool>(), before in prop::collection::vec(any_op(), 0..10), after in prop::collection::vec(any_op(), 0..25)) {
        let (mut index, mut held) = (mk_index(follows), Held::default());
        let mut home: Option<Object> = None;
        let mut world: BTreeMap<(Kind, Name), Object> = BTreeMap::new();
        let mut run = |index: &mut Index, held: &mut Held, op: &Op| match op {
            Op::Put(object) => {
                index.apply_put(object.clone());
                world.insert((object.kind(), object.name().clone()), object.clone());
            }
            Op::Gone(kind, name) => {
                index.apply_delete(*kind, name.clone());
                world.remove(&(*kind, name.clone()));
            }
            Op::Home(mesh) => {
                follow(index, mesh);
                home = Some(mesh.clone());
            }
            Op::Flush => held.apply(index.flush()),
        };
        before.iter().for_each(|op| run(&mut index, &mut held, op));
        list_all(&mut index);
        after.iter().for_each(|op| run(&mut index, &mut held, op));
        held.apply(index.flush());

        let (mut fresh, mut want) = (mk_index(follows), Held::default());
        home.iter().for_each(|mesh| follow(&mut fresh, mesh));
        world.values().rev().for_each(|object| fresh.apply_put(object.clone()));
        list_all(&mut fresh);
        want.apply(fresh.flush());
        prop_assert_eq!(held, want);
    }
}

#[test]
fn list_without_the_configuration_ends_its_values() {
    let mut index = mk_synced(vec![mk_mesh("connectTimeout: 2s", "")]);
    let scope = WatchScope { kind: Kind::MeshConfig, namespace: Namespace::new("tributary-system").ok() };
    index.apply(&scope, Event::Init);
    index.apply(&scope, Event::InitDone);
    assert_eq!(settings(&mut index).unwrap().connect_timeout, None);
}

#[test]
fn cluster_context_is_published_once_known_and_on_change() {
    let range = |text: &str| -> tributary_model::settings::Cidrs { [text.parse().unwrap()].into() };
    let networks = [(NetworkId::new("file").unwrap(), range("10.7.0.0/16"))].into();
    let mut index = Index::new(Options { networks, ..mk_options() });
    let near = json!({"metadata": {"labels": {"team": "shop"}, "annotations": {"networking.istio.io/traffic-distribution": "PreferClose"}}});
    index.apply_put(mk_namespace("shop", near));
    index.apply_put(labelled("web", json!({})));
    assert_eq!(index.cluster_context(), None, "not all namespaces are known");
    list_all(&mut index);
    let around = index.cluster_context().unwrap();
    let shop = Namespace::new("shop").unwrap();
    assert_eq!((around.selected, around.network), (None, None));
    assert_eq!(around.traffic.get(&shop), Some(&TrafficDistribution::SameZone));
    assert_eq!(index.cluster_context(), None, "nothing has changed");
    let claims = "networks: {mesh: {endpoints: [{fromCidr: 10.7.0.0/16}, {fromCidr: 10.8.0.0/16}]}, own: {endpoints: [{fromRegistry: c1}]}}";
    index.apply_put(mk_mesh(&format!("{SHOP_ONLY}\ntrustDomain: a.test"), claims));
    let around = index.cluster_context().unwrap();
    assert_eq!(around.selected, Some([shop].into()));
    assert_eq!(
        (around.network, around.trust_domain.as_deref()),
        (NetworkId::new("own").ok(), Some("a.test"))
    );
    let at = |ip: &str| around.networks.at(ip.parse().unwrap()).map(NetworkId::as_str);
    assert_eq!(at("10.7.0.1"), Some("file"), "the mesh cannot reassign a range of the file");
    assert_eq!(at("10.8.0.1"), Some("mesh"));
}
