//! Unreadable kinds: from the start, while running, and in a run that follows another one.

use serde_json::json;
use tributary_kube_client::Event;
use tributary_model::*;

use super::{put, texts};
use crate::fixtures::*;
use crate::kind::{Kind, Name, WatchScope};
use crate::options::{Mcs, Options};
use crate::project::{Export, Gateway as GatewayObject, Import, MeshConfig, Object};
use crate::publish::Index;

/// Returns the published updates without followed collections and confirmations.
fn updates(index: &mut Index) -> Vec<String> {
    let mut texts = super::updates(index);
    texts.retain(|text| !text.starts_with("required"));
    texts
}
fn mk_mesh(mesh: &str) -> Object {
    let object =
        json!({"metadata": {"name": "istio", "namespace": "tributary-system"}, "data": {"mesh": mesh}});
    MeshConfig::parse(&object.to_string()).unwrap().into()
}
fn mk_export(name: &str) -> Object {
    Export::parse(&json!({"metadata": {"name": name, "namespace": "shop"}}).to_string()).unwrap().into()
}
fn mk_import(name: &str) -> Object {
    let object = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"ips": ["10.9.0.1"]}});
    Import::parse(&object.to_string()).unwrap().into()
}
fn mk_gateway() -> Object {
    let object = json!({
        "metadata": {"name": "gw", "namespace": "shop", "labels": {"topology.istio.io/network": "n2"}},
        "spec": {"gatewayClassName": "istio", "addresses": [{"value": "192.0.2.9"}], "listeners": [{"port": 15443, "tls": {}}]},
    });
    GatewayObject::parse(&object.to_string()).unwrap().into()
}
fn mk_identity(uid: &str) -> Fingerprint {
    Fingerprint::new(uid).unwrap()
}
fn scope(index: &Index, kind: Kind) -> WatchScope {
    index.objects().options.watch_scopes().into_iter().find(|scope| scope.kind == kind).unwrap()
}
fn withhold(index: &mut Index, kind: Kind) {
    let scope = scope(index, kind);
    index.apply(&scope, Event::Unavailable(Withheld::forbidden("list: 403")));
}
fn mcs() -> Options {
    Options { mcs: Mcs { discovery: true, host: true, ..Mcs::default() }, ..mk_options() }
}
/// Builds a run that reads all of these objects but those of one kind.
fn mk_without(kind: Kind, objects: &[Object]) -> Index {
    let mut index = Index::new(mcs());
    objects.iter().filter(|object| object.kind() != kind).for_each(|o| index.apply_put(o.clone()));
    let scopes = index.objects().options.watch_scopes().into_iter();
    scopes.filter(|scope| scope.kind != kind).for_each(|scope| index.apply(&scope, Event::InitDone));
    index
}
fn world() -> Vec<Object> {
    vec![
        mk_namespace("shop", json!({})),
        mk_service("pay", json!({})),
        mk_service("cart", json!({})),
        mk_slice("pay-1", "pay", json!([of("10.0.0.1", "p1"), at("10.0.0.9")]), json!({})),
        mk_slice("cart-1", "cart", json!([at("10.0.0.2")]), json!({})),
        mk_pod("p1", "10.0.0.1", json!({})),
        mk_node("n1", "a"),
        mk_export("pay"),
        mk_import("pay"),
        mk_gateway(),
        mk_mesh("defaultServiceExportTo: [\".\"]"),
    ]
}
const KINDS: [Kind; 9] = Kind::ALL;

#[test]
fn refused_kind_drops_nothing_and_returns_without_a_change() {
    for kind in KINDS {
        let mut index = mk_without(Kind::Node, &[]);
        world().into_iter().for_each(|object| index.apply_put(object));
        list_all(&mut index);
        index.flush();
        withhold(&mut index, kind);
        let refused = updates(&mut index);
        assert!(refused.iter().all(|text| text.starts_with("withheld")), "{kind:?}: {refused:?}");
        let scope = scope(&index, kind);
        index.apply(&scope, Event::Resumed);
        let back = updates(&mut index);
        assert!(back.iter().all(|text| text.starts_with("synced")), "{kind:?}: {back:?}");
        assert_eq!(back.len(), refused.len(), "{kind:?}");
        // recovery by a list
        withhold(&mut index, kind);
        updates(&mut index);
        index.apply(&scope, Event::Init);
        world()
            .into_iter()
            .filter(|o| o.kind() == kind)
            .for_each(|o| index.apply(&WatchScope::all(kind), Event::Unchanged(o.name().clone())));
        index.apply(&scope, Event::InitDone);
        assert_eq!(updates(&mut index), back, "{kind:?}");
    }
}

#[test]
fn unread_kind_ends_none_of_its_facts() {
    for kind in KINDS.into_iter().filter(|kind| !matches!(kind, Kind::MeshConfig | Kind::Namespace)) {
        let mut index = mk_without(kind, &world());
        withhold(&mut index, kind);
        let mut full = mk_without(Kind::Node, &[]);
        world().into_iter().for_each(|object| full.apply_put(object));
        list_all(&mut full);
        let (part, whole) = (index.flush(), full.flush());
        let closed = |updates: &[RegistryUpdate]| -> Vec<Collection> {
            let of = |update: &RegistryUpdate| match update {
                RegistryUpdate::ListEnded(collection, Completeness::Complete) => Some(collection.clone()),
                _ => None,
            };
            updates.iter().filter_map(of).collect()
        };
        let closed = closed(&part);
        for update in &whole {
            let RegistryUpdate::Put(scope, fact, _) = update else { continue };
            if matches!(fact, Fact::Waiting(..)) {
                continue;
            }
            let key = FactKey { scope: scope.clone(), item: fact.item() };
            let is_kept = part.iter().any(
                |update| matches!(update, RegistryUpdate::Put(s, f, _) if s == scope && f.item() == key.item),
            );
            assert!(is_kept || !closed.contains(&key.collection()), "{kind:?} ends {key:?}");
        }
    }
}

#[test]
fn endpoints_of_unread_pods_are_in_doubt_until_pods_are_read() {
    let mut index = mk_without(Kind::Pod, &world());
    withhold(&mut index, Kind::Pod);
    let texts = updates(&mut index);
    assert!(texts.contains(&"put EndpointSlice shop/pay-1 in doubt".to_owned()), "{texts:?}");
    assert!(texts.contains(&"put EndpointSlice shop/cart-1".to_owned()), "it names no pod: {texts:?}");
    assert!(texts.contains(&"withheld Workloads".to_owned()) && texts.contains(&"synced Groups".to_owned()));
    index.apply_put(mk_pod("p1", "10.0.0.1", json!({})));
    let pods = scope(&index, Kind::Pod);
    index.apply(&pods, Event::InitDone);
    let texts = updates(&mut index);
    assert!(texts.contains(&"put EndpointSlice shop/pay-1".to_owned()), "{texts:?}");
    assert!(texts.contains(&"synced Workloads".to_owned()), "{texts:?}");
}

#[test]
fn equal_endpoints_are_in_doubt_from_the_first_unread_pod_on() {
    let mut index = mk_without(Kind::Pod, &world());
    withhold(&mut index, Kind::Pod);
    updates(&mut index);
    let more = json!([at("10.0.0.2"), of("10.0.0.3", "p9")]);
    index.apply_put(mk_slice("cart-1", "cart", more, json!({})));
    let texts = updates(&mut index);
    assert!(
        texts.contains(&"put EndpointSlice shop/cart-1 in doubt".to_owned()),
        "the address of an unread pod waits, so the group is equal and not complete: {texts:?}"
    );
    index.apply_put(mk_slice("cart-1", "cart", json!([at("10.0.0.2")]), json!({})));
    let texts = updates(&mut index);
    assert!(texts.contains(&"put EndpointSlice shop/cart-1".to_owned()), "{texts:?}");
}

#[test]
fn endpoints_of_a_deleted_pod_are_confirmed_by_the_list_of_pods() {
    let mut index = mk_without(Kind::Pod, &world());
    withhold(&mut index, Kind::Pod);
    updates(&mut index);
    let pods = scope(&index, Kind::Pod);
    index.apply(&pods, Event::InitDone);
    let texts = updates(&mut index);
    assert!(
        texts.contains(&"put EndpointSlice shop/pay-1".to_owned()),
        "equal, and no longer in doubt: {texts:?}"
    );
}

#[test]
fn refused_slices_leave_endpoints_in_doubt() {
    let mut index = mk_without(Kind::Slice, &[]);
    world().into_iter().for_each(|object| index.apply_put(object));
    list_all(&mut index);
    index.flush();
    withhold(&mut index, Kind::Slice);
    updates(&mut index);
    index.apply_delete(Kind::Pod, shop("p1"));
    let texts = updates(&mut index);
    assert!(texts.contains(&"put EndpointSlice shop/pay-1 in doubt".to_owned()), "{texts:?}");
    assert!(texts.contains(&"drop Workload p1: deleted Pod shop/p1".to_owned()), "{texts:?}");
}

#[test]
fn services_without_exports_are_in_doubt_and_offers_stay() {
    let mut index = mk_without(Kind::Export, &world());
    withhold(&mut index, Kind::Export);
    let texts = updates(&mut index);
    assert!(texts.contains(&"put Service shop/pay in doubt".to_owned()), "{texts:?}");
    let withheld = ["withheld serviceexports Services", "withheld serviceexports Groups"];
    assert!(withheld.iter().all(|text| texts.contains(&(*text).to_owned())), "{texts:?}");
}

#[test]
fn exports_of_an_earlier_run_keep_services_exported() {
    let mut index = mk_without(Kind::Export, &world());
    let exports = scope(&index, Kind::Export);
    index.recall(&exports, vec![mk_export("pay")]);
    withhold(&mut index, Kind::Export);
    let declared: Vec<(String, bool)> = index
        .flush()
        .iter()
        .filter_map(|update| match update {
            RegistryUpdate::Put(scope, Fact::Service(key, declaration), _) => {
                Some((format!("{scope} {}", key.service.host), declaration.attributes.own_cluster_only))
            }
            _ => None,
        })
        .collect();
    assert!(declared.contains(&("cluster pay.shop.svc.cluster.local".into(), false)), "{declared:?}");
    assert!(declared.contains(&("cluster cart.shop.svc.cluster.local".into(), true)), "{declared:?}");
    assert!(declared.contains(&("serviceexports pay.shop.svc.clusterset.local".into(), false)));
}

#[test]
fn refused_nodes_delay_nothing() {
    let mut index = mk_without(Kind::Node, &world());
    assert!(updates(&mut index).iter().all(|text| text != "synced Groups"), "groups wait at first");
    withhold(&mut index, Kind::Node);
    let texts = updates(&mut index);
    assert!(texts.contains(&"synced Groups".to_owned()) && texts.contains(&"synced Workloads".to_owned()));
    assert!(
        texts.iter().all(|text| !text.ends_with("in doubt") && !text.starts_with("withheld")),
        "{texts:?}"
    );
    index.apply_delete(Kind::Slice, shop("cart-1"));
    let gone = "drop EndpointSlice shop/cart-1: deleted EndpointSlice shop/cart-1".to_owned();
    assert!(updates(&mut index).contains(&gone));
}

fn reported(texts: &[String]) -> bool {
    texts.iter().any(|text| text.starts_with("put") || text.starts_with("synced"))
}

#[test]
fn nothing_is_published_while_the_mesh_configuration_is_unknown() {
    let mut index = mk_without(Kind::MeshConfig, &world());
    withhold(&mut index, Kind::MeshConfig);
    let flushed = index.flush();
    let all = texts(&flushed);
    assert!(!reported(&all), "{all:?}");
    let why = flushed.iter().find_map(|update| match update {
        RegistryUpdate::Withheld(_, why) => Some(why.why.to_string()),
        _ => None,
    });
    let why = why.unwrap();
    assert!(why.contains("meshConfig: none") && why.ends_with("list: 403"), "{why}");
    assert_eq!(all.iter().filter(|text| text.starts_with("withheld")).count(), 10, "{all:?}");
    assert!(!index.is_behind(), "nothing can be derived before it is known");
    assert_eq!(index.cluster_context().unwrap().withheld.map(|w| w.cause), Some(WithheldCause::Forbidden));
    put(&mut index, mk_service("late", json!({})));
    index.apply_put(mk_mesh("defaultServiceExportTo: [\".\"]"));
    let mesh = scope(&index, Kind::MeshConfig);
    index.apply(&mesh, Event::InitDone);
    let texts = updates(&mut index);
    assert!(texts.contains(&"put Service shop/late".to_owned()), "{texts:?}");
    assert_eq!(texts.iter().filter(|text| text.starts_with("synced")).count(), 10, "{texts:?}");
    assert_eq!(index.cluster_context().unwrap().withheld, None);
}

fn settings(updates: Vec<RegistryUpdate>) -> Option<Settings> {
    updates.into_iter().find_map(|update| match update {
        RegistryUpdate::Put(_, Fact::Settings(settings), _) => Some(Settings::clone(&settings)),
        _ => None,
    })
}

#[test]
fn mesh_configuration_of_an_earlier_run_stays_in_force() {
    let closed = mk_mesh(
        "defaultServiceExportTo: [\".\"]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\ndiscoverySelectors: [{matchLabels: {team: shop}}]",
    );
    let mut index = mk_without(Kind::MeshConfig, &world());
    let mesh = scope(&index, Kind::MeshConfig);
    index.recall(&mesh, vec![closed]);
    withhold(&mut index, Kind::MeshConfig);
    let updates = index.flush();
    let texts = texts(&updates);
    assert!(!texts.contains(&"put Service shop/pay".to_owned()), "shop is not selected: {texts:?}");
    assert!(texts.contains(&"withheld configmaps Settings".to_owned()), "{texts:?}");
    assert!(texts.contains(&"synced Services".to_owned()), "{texts:?}");
    let settings = settings(updates).unwrap();
    assert_eq!((settings.block_unknown, settings.default_export), (Some(true), Some(Visibility::Own)));
}

#[test]
fn invalid_field_keeps_the_value_of_an_earlier_run() {
    let mut index = Index::new(mk_options());
    index.remember_mesh(vec![mk_mesh("connectTimeout: 3s")]);
    index.apply_put(mk_mesh("connectTimeout: soon"));
    list_all(&mut index);
    assert_eq!(settings(index.flush()).unwrap().connect_timeout.map(|t| t.as_secs()), Some(3));
    // a value of an earlier run is dropped once the object was read
    index.apply_delete(Kind::MeshConfig, Name::new("tributary-system", "istio"));
    index.flush();
    index.apply_put(mk_mesh("connectTimeout: soon"));
    assert_eq!(index.objects().mesh().connect_timeout, None);
}

#[test]
fn absent_mesh_configuration_counts_as_empty() {
    let mut index = mk_without(Kind::MeshConfig, &world());
    let mesh = scope(&index, Kind::MeshConfig);
    index.apply(&mesh, Event::InitDone);
    assert!(reported(&updates(&mut index)));
}

#[test]
fn selection_by_unknown_labels_withholds_everything() {
    let mut index = mk_without(Kind::Namespace, &world());
    withhold(&mut index, Kind::Namespace);
    assert!(reported(&updates(&mut index)), "without selectors every namespace is in scope");
    index.apply_put(mk_mesh("discoverySelectors: [{matchLabels: {team: web}}]"));
    let texts = updates(&mut index);
    assert!(texts.iter().all(|text| text.starts_with("withheld")) && !texts.is_empty(), "{texts:?}");
    let namespaces = scope(&index, Kind::Namespace);
    index.apply_put(mk_namespace("shop", json!({"metadata": {"labels": {"team": "shop"}}})));
    index.apply(&namespaces, Event::InitDone);
    let texts = updates(&mut index);
    assert!(texts.iter().any(|text| text.starts_with("drop Service shop/pay")), "{texts:?}");
}

#[test]
fn unread_system_namespace_beside_named_ones_decides_nothing() {
    let mut options = Options { namespaces: vec![Namespace::new("shop").unwrap()], ..mk_options() };
    options.mcs.auto_export = true;
    let mut index = Index::new(options);
    world().into_iter().for_each(|object| index.apply_put(object));
    index.apply_put(mk_namespace("shop", json!({"metadata": {"labels": {"team": "shop"}}})));
    index.apply_put(mk_mesh("discoverySelectors: [{matchLabels: {team: shop}}]"));
    for scope in index.objects().options.watch_scopes() {
        let is_extra = scope.kind == Kind::Namespace && !scope.covers(&Name::new("", "shop"));
        let refused = Event::Unavailable(Withheld::forbidden("list: 403"));
        index.apply(&scope, if is_extra { refused } else { Event::InitDone });
    }
    let texts = updates(&mut index);
    assert!(reported(&texts), "no label of theirs is selected: {texts:?}");
    assert!(index.knows_exports(), "none of their Services is read");
    let shop = WatchScope { kind: Kind::Namespace, namespace: Namespace::new("shop").ok() };
    index.apply(&shop, Event::Unavailable(Withheld::forbidden("list: 403")));
    assert!(!index.knows_exports());
}

#[test]
fn identity_of_the_cluster_precedes_every_fact() {
    let mut index = mk_without(Kind::Namespace, &world());
    updates(&mut index);
    index.learn(mk_identity("uid-1"));
    let namespaces = scope(&index, Kind::Namespace);
    index.apply(&namespaces, Event::InitDone);
    let texts = updates(&mut index);
    assert_eq!(texts[0], "identity uid-1", "{texts:?}");
    assert_eq!(index.cluster_context().unwrap().identity, Some(mk_identity("uid-1")));
    index.learn(mk_identity("uid-2"));
    assert_eq!(updates(&mut index)[0], "identity uid-2");
    // a run that learns it late does not publish it
    let mut late = mk_without(Kind::Namespace, &world());
    withhold(&mut late, Kind::Namespace);
    updates(&mut late);
    late.learn(mk_identity("uid-1"));
    late.apply(&namespaces, Event::InitDone);
    assert!(updates(&mut late).iter().all(|text| !text.starts_with("identity")));
}
