//! Kinds that cannot be read: from the start, while running, and in a run that follows another one.

use serde_json::json;
use tributary_model::*;

use super::{put, words};
use crate::fixtures::*;
use crate::index::Index;
use crate::input::{Input, Kind, Name, Object, WatchScope};
use crate::options::{Mcs, Options};
use crate::project::{Export, Gateway as GatewayObject, Import, MeshConfig};

/// What is reported, but for what is followed and confirmed.
fn said(index: &mut Index) -> Vec<String> {
    let mut words = super::said(index);
    words.retain(|word| !word.starts_with("required"));
    words
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
        "spec": {"gatewayClassName": "istio", "addresses": [{"value": "192.0.2.9"}], "listeners": [{"port": 15443}]},
    });
    GatewayObject::parse(&object.to_string()).unwrap().into()
}
fn mk_identity(uid: &str) -> Fingerprint {
    Fingerprint::new(uid).unwrap()
}
fn feed(index: &Index, kind: Kind) -> WatchScope {
    index.inputs().options.feeds().into_iter().find(|feed| feed.kind == kind).unwrap()
}
fn withhold(index: &mut Index, kind: Kind) {
    let feed = feed(index, kind);
    index.apply(Input::Withheld(feed, Withheld::forbidden("list: 403")));
}
fn mcs() -> Options {
    Options { mcs: Mcs { discovery: true, host: true, ..Mcs::default() }, ..mk_options() }
}
/// A run that reads all of these but one kind.
fn mk_without(kind: Kind, objects: &[Object]) -> Index {
    let mut index = Index::new(mcs());
    objects.iter().filter(|object| object.kind() != kind).for_each(|o| index.apply(Input::Put(o.clone())));
    let feeds = index.inputs().options.feeds().into_iter();
    feeds.filter(|feed| feed.kind != kind).for_each(|feed| index.apply(Input::Listed(feed)));
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
fn kind_that_is_refused_while_running_drops_nothing_and_returns_without_a_flap() {
    for kind in KINDS {
        let mut index = mk_without(Kind::Node, &[]);
        world().into_iter().for_each(|object| index.apply(Input::Put(object)));
        list_all(&mut index);
        index.flush();
        withhold(&mut index, kind);
        let refused = said(&mut index);
        assert!(refused.iter().all(|word| word.starts_with("withheld")), "{kind:?}: {refused:?}");
        let feed = feed(&index, kind);
        index.apply(Input::Resumed(feed.clone()));
        let back = said(&mut index);
        assert!(back.iter().all(|word| word.starts_with("synced")), "{kind:?}: {back:?}");
        assert_eq!(back.len(), refused.len(), "{kind:?}");
        // as a list instead
        withhold(&mut index, kind);
        said(&mut index);
        index.apply(Input::Restart(feed.clone()));
        world()
            .into_iter()
            .filter(|o| o.kind() == kind)
            .for_each(|o| index.apply(Input::Seen(kind, o.name().clone())));
        index.apply(Input::Listed(feed));
        assert_eq!(said(&mut index), back, "{kind:?}");
    }
}

#[test]
fn kind_that_a_run_never_reads_ends_no_fact_of_it_by_silence() {
    for kind in KINDS.into_iter().filter(|kind| !matches!(kind, Kind::MeshConfig | Kind::Namespace)) {
        let mut index = mk_without(kind, &world());
        withhold(&mut index, kind);
        let mut full = mk_without(Kind::Node, &[]);
        world().into_iter().for_each(|object| full.apply(Input::Put(object)));
        list_all(&mut full);
        let (part, whole) = (index.flush(), full.flush());
        let closed = |deltas: &[RegistryUpdate]| -> Vec<Collection> {
            let of = |delta: &RegistryUpdate| match delta {
                RegistryUpdate::ListEnded(collection, Completeness::Complete) => Some(collection.clone()),
                _ => None,
            };
            deltas.iter().filter_map(of).collect()
        };
        let closed = closed(&part);
        for delta in &whole {
            let RegistryUpdate::Put(scope, fact, _) = delta else { continue };
            if matches!(fact, Fact::Waiting(..)) {
                continue;
            }
            let key = FactKey { scope: scope.clone(), item: fact.item() };
            let is_kept = part.iter().any(
                |delta| matches!(delta, RegistryUpdate::Put(s, f, _) if s == scope && f.item() == key.item),
            );
            assert!(is_kept || !closed.contains(&key.collection()), "{kind:?} ends {key:?}");
        }
    }
}

#[test]
fn endpoints_without_their_pods_are_reported_in_doubt_until_pods_are_read() {
    let mut index = mk_without(Kind::Pod, &world());
    withhold(&mut index, Kind::Pod);
    let words = said(&mut index);
    assert!(words.contains(&"put EndpointSlice shop/pay-1 in doubt".to_owned()), "{words:?}");
    assert!(words.contains(&"put EndpointSlice shop/cart-1".to_owned()), "it names no pod: {words:?}");
    assert!(words.contains(&"withheld Workloads".to_owned()) && words.contains(&"synced Groups".to_owned()));
    index.apply(Input::Put(mk_pod("p1", "10.0.0.1", json!({}))));
    let pods = feed(&index, Kind::Pod);
    index.apply(Input::Listed(pods));
    let words = said(&mut index);
    assert!(words.contains(&"put EndpointSlice shop/pay-1".to_owned()), "{words:?}");
    assert!(words.contains(&"synced Workloads".to_owned()), "{words:?}");
}

#[test]
fn endpoints_whose_pod_is_gone_are_confirmed_by_the_list_of_pods() {
    let mut index = mk_without(Kind::Pod, &world());
    withhold(&mut index, Kind::Pod);
    said(&mut index);
    let pods = feed(&index, Kind::Pod);
    index.apply(Input::Listed(pods));
    let words = said(&mut index);
    assert!(
        words.contains(&"put EndpointSlice shop/pay-1".to_owned()),
        "equal, and no longer in doubt: {words:?}"
    );
}

#[test]
fn slices_that_are_refused_leave_endpoints_in_doubt() {
    let mut index = mk_without(Kind::Slice, &[]);
    world().into_iter().for_each(|object| index.apply(Input::Put(object)));
    list_all(&mut index);
    index.flush();
    withhold(&mut index, Kind::Slice);
    said(&mut index);
    index.apply(Input::Gone(Kind::Pod, shop("p1")));
    let words = said(&mut index);
    assert!(words.contains(&"put EndpointSlice shop/pay-1 in doubt".to_owned()), "{words:?}");
    assert!(words.contains(&"drop Workload p1: deleted Pod shop/p1".to_owned()), "{words:?}");
}

#[test]
fn services_without_their_exports_are_reported_in_doubt_and_offers_stay() {
    let mut index = mk_without(Kind::Export, &world());
    withhold(&mut index, Kind::Export);
    let words = said(&mut index);
    assert!(words.contains(&"put Service shop/pay in doubt".to_owned()), "{words:?}");
    let withheld = ["withheld serviceexports Services", "withheld serviceexports Groups"];
    assert!(withheld.iter().all(|word| words.contains(&(*word).to_owned())), "{words:?}");
}

#[test]
fn exports_of_an_earlier_run_keep_what_was_exported() {
    let mut index = mk_without(Kind::Export, &world());
    let exports = feed(&index, Kind::Export);
    index.apply(Input::Recall(exports, vec![mk_export("pay")]));
    withhold(&mut index, Kind::Export);
    let declared: Vec<(String, bool)> = index
        .flush()
        .iter()
        .filter_map(|delta| match delta {
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
fn nodes_that_are_refused_hold_nothing_up() {
    let mut index = mk_without(Kind::Node, &world());
    assert!(said(&mut index).iter().all(|word| word != "synced Groups"), "waited for at first");
    withhold(&mut index, Kind::Node);
    let words = said(&mut index);
    assert!(words.contains(&"synced Groups".to_owned()) && words.contains(&"synced Workloads".to_owned()));
    assert!(
        words.iter().all(|word| !word.ends_with("in doubt") && !word.starts_with("withheld")),
        "{words:?}"
    );
    index.apply(Input::Gone(Kind::Slice, shop("cart-1")));
    let gone = "drop EndpointSlice shop/cart-1: deleted EndpointSlice shop/cart-1".to_owned();
    assert!(said(&mut index).contains(&gone));
}

fn reported(words: &[String]) -> bool {
    words.iter().any(|word| word.starts_with("put") || word.starts_with("synced"))
}

#[test]
fn nothing_is_reported_while_the_mesh_configuration_is_unknown() {
    let mut index = mk_without(Kind::MeshConfig, &world());
    withhold(&mut index, Kind::MeshConfig);
    let deltas = index.flush();
    let all = words(&deltas);
    assert!(!reported(&all), "{all:?}");
    let why = deltas.iter().find_map(|delta| match delta {
        RegistryUpdate::Withheld(_, why) => Some(why.why.to_string()),
        _ => None,
    });
    let why = why.unwrap();
    assert!(why.contains("meshConfig: none") && why.ends_with("list: 403"), "{why}");
    assert_eq!(all.iter().filter(|word| word.starts_with("withheld")).count(), 10, "{all:?}");
    assert!(!index.is_behind(), "nothing is to be done before it is known");
    assert_eq!(index.cluster_context().unwrap().withheld.map(|w| w.cause), Some(WithheldCause::Forbidden));
    put(&mut index, mk_service("late", json!({})));
    index.apply(Input::Put(mk_mesh("defaultServiceExportTo: [\".\"]")));
    let mesh = feed(&index, Kind::MeshConfig);
    index.apply(Input::Listed(mesh));
    let words = said(&mut index);
    assert!(words.contains(&"put Service shop/late".to_owned()), "{words:?}");
    assert_eq!(words.iter().filter(|word| word.starts_with("synced")).count(), 10, "{words:?}");
    assert_eq!(index.cluster_context().unwrap().withheld, None);
}

fn settings(deltas: Vec<RegistryUpdate>) -> Option<Settings> {
    deltas.into_iter().find_map(|delta| match delta {
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
    let mesh = feed(&index, Kind::MeshConfig);
    index.apply(Input::Recall(mesh, vec![closed]));
    withhold(&mut index, Kind::MeshConfig);
    let deltas = index.flush();
    let words = words(&deltas);
    assert!(!words.contains(&"put Service shop/pay".to_owned()), "shop is not selected: {words:?}");
    assert!(words.contains(&"withheld configmaps Settings".to_owned()), "{words:?}");
    assert!(words.contains(&"synced Services".to_owned()), "{words:?}");
    let settings = settings(deltas).unwrap();
    assert_eq!((settings.block_unknown, settings.default_export), (Some(true), Some(Visibility::Own)));
}

#[test]
fn invalid_part_keeps_what_an_earlier_run_knew() {
    let mut index = Index::new(mk_options());
    index.remember_mesh(vec![mk_mesh("connectTimeout: 3s")]);
    index.apply(Input::Put(mk_mesh("connectTimeout: soon")));
    list_all(&mut index);
    assert_eq!(settings(index.flush()).unwrap().connect_timeout.map(|t| t.as_secs()), Some(3));
    // what was read once is not remembered beyond its object
    index.apply(Input::Gone(Kind::MeshConfig, Name::new("tributary-system", "istio")));
    index.flush();
    index.apply(Input::Put(mk_mesh("connectTimeout: soon")));
    assert_eq!(index.inputs().mesh().connect_timeout, None);
}

#[test]
fn absent_mesh_configuration_is_none() {
    let mut index = mk_without(Kind::MeshConfig, &world());
    let mesh = feed(&index, Kind::MeshConfig);
    index.apply(Input::Listed(mesh));
    assert!(reported(&said(&mut index)));
}

#[test]
fn selection_by_unknown_labels_holds_everything_back() {
    let mut index = mk_without(Kind::Namespace, &world());
    withhold(&mut index, Kind::Namespace);
    assert!(reported(&said(&mut index)), "without selectors every namespace counts");
    index.apply(Input::Put(mk_mesh("discoverySelectors: [{matchLabels: {team: web}}]")));
    let words = said(&mut index);
    assert!(words.iter().all(|word| word.starts_with("withheld")) && !words.is_empty(), "{words:?}");
    let namespaces = feed(&index, Kind::Namespace);
    index.apply(Input::Put(mk_namespace("shop", json!({"metadata": {"labels": {"team": "shop"}}}))));
    index.apply(Input::Listed(namespaces));
    let words = said(&mut index);
    assert!(words.iter().any(|word| word.starts_with("drop Service shop/pay")), "{words:?}");
}

#[test]
fn identity_of_the_cluster_goes_before_every_fact() {
    let mut index = mk_without(Kind::Namespace, &world());
    said(&mut index);
    index.learn(mk_identity("uid-1"));
    let namespaces = feed(&index, Kind::Namespace);
    index.apply(Input::Listed(namespaces.clone()));
    let words = said(&mut index);
    assert_eq!(words[0], "identity uid-1", "{words:?}");
    assert_eq!(index.cluster_context().unwrap().identity, Some(mk_identity("uid-1")));
    index.learn(mk_identity("uid-2"));
    assert_eq!(said(&mut index)[0], "identity uid-2");
    // a run that learns it late keeps it to itself
    let mut late = mk_without(Kind::Namespace, &world());
    withhold(&mut late, Kind::Namespace);
    said(&mut late);
    late.learn(mk_identity("uid-1"));
    late.apply(Input::Listed(namespaces));
    assert!(said(&mut late).iter().all(|word| !word.starts_with("identity")));
}
