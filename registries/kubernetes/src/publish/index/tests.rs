//! The index as a whole: events in, updates out.

use serde_json::json;
use tributary_kube_client::Event;
use tributary_model::*;

use super::*;
use crate::fixtures::*;

/// Formats each update as a short text.
pub(crate) fn texts(updates: &[RegistryUpdate]) -> Vec<String> {
    let object = |key: &FactKey| match &key.item {
        FactId::Service(key) => key.object.to_string(),
        FactId::Group(key) => key.object.to_string(),
        FactId::Workload(key) => format!("Workload {}", key.name),
        other => format!("{other:?}"),
    };
    let of = |collection: &Collection| match collection.scope.as_str() {
        "cluster" => format!("{:?}", collection.kind),
        scope => format!("{scope} {:?}", collection.kind),
    };
    let text = |update: &RegistryUpdate| match update {
        RegistryUpdate::Put(scope, fact, basis) => {
            let doubted = if *basis == Basis::Authoritative { "" } else { " in doubt" };
            format!("put {}{doubted}", object(&FactKey { scope: scope.clone(), item: fact.item() }))
        }
        RegistryUpdate::Remove(key, evidence) => {
            let why = match evidence {
                Evidence::Deleted(by) => format!("deleted {by}"),
                Evidence::Changed(by) => format!("changed {by}"),
                other => format!("{other:?}"),
            };
            format!("drop {}: {why}", object(key))
        }
        RegistryUpdate::Problem(_, object, problem) => match problem {
            Some(problem) => format!("problem {object}: {} {}", problem.code, problem.message),
            None => format!("good {object}"),
        },
        RegistryUpdate::ListEnded(collection, _) => format!("synced {}", of(collection)),
        RegistryUpdate::ListStarted(collection) => format!("restart {}", of(collection)),
        RegistryUpdate::Progress(collection) => format!("progress {}", of(collection)),
        RegistryUpdate::Follows { required: list, .. } => format!("required {}", list.len()),
        RegistryUpdate::Status(..) => "status".to_owned(),
        RegistryUpdate::Withheld(collection, _) => format!("withheld {}", of(collection)),
        RegistryUpdate::Identity(identity) => format!("identity {identity}"),
        RegistryUpdate::End(..) => format!("{update:?}"),
        RegistryUpdate::Excluded(_, list) => format!("left out {}", list.len()),
    };
    updates.iter().map(text).collect()
}
fn updates(index: &mut Index) -> Vec<String> {
    let mut texts = texts(&index.flush());
    texts.retain(|text| !text.starts_with("progress"));
    texts
}

#[test]
fn service_is_published_once_all_joined_kinds_have_listed() {
    let mut index = Index::new(mk_options());
    assert_eq!(updates(&mut index)[0], "required 7");
    index.apply_put(mk_service("pay", json!({})));
    index.apply(&WatchScope::all(Kind::Service), Event::InitDone);
    assert!(updates(&mut index).is_empty(), "its namespace may still affect it");
    let others = mk_options().watch_scopes().into_iter();
    for scope in others.filter(|scope| matches!(scope.kind, Kind::Namespace | Kind::MeshConfig)) {
        index.apply(&scope, Event::InitDone);
    }
    assert_eq!(
        updates(&mut index),
        [
            "put Service shop/pay",
            "put Settings",
            "synced Services",
            "synced configmaps Settings",
            "synced configmaps Gateways"
        ]
    );
    assert!(updates(&mut index).is_empty());
}

mod context;
mod followed_mesh;
mod naive;
mod properties;
mod unread;
mod waiting;

fn mk_pay(endpoints: serde_json::Value) -> Object {
    mk_slice("pay-1", "pay", endpoints, json!({}))
}
fn put(index: &mut Index, object: Object) -> Vec<String> {
    index.apply_put(object);
    updates(index)
}
/// Returns the last published addresses of a slice's group.
fn addresses(index: &mut Index, object: Object) -> Option<Vec<String>> {
    index.apply_put(object);
    index.flush().iter().find_map(|update| match update {
        RegistryUpdate::Put(_, Fact::Group(_, group), _) => Some(
            group.addresses.iter().map(|a| format!("{} {}", a.ip().unwrap(), a.health.as_str())).collect(),
        ),
        _ => None,
    })
}

#[test]
fn endpoint_is_released_when_its_pod_is_seen_ready_or_not() {
    let mut index = mk_synced(vec![mk_pay(json!([of("10.0.0.1", "web"), at("10.0.0.2")]))]);
    let unready = mk_pod("web", "10.0.0.1", json!({"status": {"phase": "Pending", "conditions": []}}));
    assert_eq!(addresses(&mut index, unready).unwrap(), ["10.0.0.1 HEALTHY", "10.0.0.2 HEALTHY"]);
    assert_eq!(
        addresses(&mut index, mk_pod("web", "10.0.0.1", json!({}))),
        None,
        "readiness changes nothing in the slice"
    );
}

/// kubernetes#105617: a partition makes every pod unready at once. Their endpoints stay, as unhealthy ones.
#[test]
fn mass_not_ready_is_demoted_not_deleted() {
    let slice = |ready: bool| {
        let endpoint = |n: u8| json!({"addresses": [format!("10.0.0.{n}")], "conditions": {"ready": ready}});
        mk_pay((1..=40).map(endpoint).collect())
    };
    let shown = |health: &str| (1..=40).map(|n| format!("10.0.0.{n} {health}")).collect::<Vec<_>>();
    let mut index = mk_synced(vec![mk_service("pay", json!({})), slice(true)]);
    assert_eq!(addresses(&mut index, slice(false)).unwrap(), shown("UNHEALTHY"));
    let all = updates(&mut index);
    assert!(all.is_empty(), "nothing else changes: {all:?}");
    assert_eq!(addresses(&mut index, slice(true)).unwrap(), shown("HEALTHY"), "all return at once");
}

#[test]
fn late_or_changed_node_moves_its_pods_and_bare_endpoints() {
    let bare = json!({"addresses": ["10.0.0.2"], "nodeName": "n1"});
    let objects = vec![
        mk_pay(json!([of("10.0.0.1", "web")])),
        mk_slice("cart-1", "cart", json!([bare]), json!({})),
        mk_slice("till-1", "till", json!([at("10.0.0.3")]), json!({})),
        mk_pod("web", "10.0.0.1", json!({})),
    ];
    let mut index = mk_synced(objects);
    let moved = ["put Workload web", "put EndpointSlice shop/cart-1", "put EndpointSlice shop/pay-1"];
    assert_eq!(put(&mut index, mk_node("n1", "a")), moved);
    assert_eq!(put(&mut index, mk_node("n1", "b")), moved);
    assert!(put(&mut index, mk_node("n2", "b")).is_empty());
    index.apply_delete(Kind::Node, Name::new("", "n1"));
    assert_eq!(updates(&mut index), moved);
}

#[test]
fn enabled_sessions_change_terminating_endpoints() {
    let mut leaving = at("10.0.0.1");
    leaving["conditions"] = json!({"ready": false, "terminating": true});
    let mut index = mk_synced(vec![mk_service("pay", json!({})), mk_pay(json!([leaving]))]);
    let bound = mk_service("pay", json!({"metadata": {"labels": {"istio.io/persistent-session": "c"}}}));
    assert_eq!(addresses(&mut index, bound).unwrap(), ["10.0.0.1 DRAINING"]);
    index.apply_delete(Kind::Service, shop("pay"));
    let gone = ["put EndpointSlice shop/pay-1", "drop Service shop/pay: deleted Service shop/pay"];
    assert_eq!(
        updates(&mut index),
        gone,
        "draining endpoints are no longer bound, and the slice still exists"
    );
}

#[test]
fn evicted_pod_without_an_address_is_no_workload() {
    let mut index = mk_synced(vec![mk_pod("web", "10.0.0.1", json!({}))]);
    let evicted = mk_pod("web", "", json!({"status": {"phase": "Failed", "podIP": null}}));
    assert_eq!(put(&mut index, evicted), ["drop Workload web: changed Pod shop/web"]);
    assert!(
        put(&mut index, mk_pod("web", "", json!({"status": {"phase": "Failed", "podIP": null, "x": 1}})))
            .is_empty()
    );
}

#[test]
fn reused_address_belongs_to_the_new_pod() {
    let mut index = mk_synced(vec![
        mk_pay(json!([at("10.0.0.1")])),
        mk_pod("old", "10.0.0.1", json!({"spec": {"serviceAccountName": "a"}})),
    ]);
    let both = put(&mut index, mk_pod("new", "10.0.0.1", json!({"spec": {"serviceAccountName": "b"}})));
    assert_eq!(
        both,
        ["put Workload new", "put Workload old", "put EndpointSlice shop/pay-1"],
        "two pods claim it, so it belongs to neither"
    );
    index.apply_delete(Kind::Pod, shop("old"));
    let after =
        ["put Workload new", "put EndpointSlice shop/pay-1", "drop Workload old: deleted Pod shop/old"];
    assert_eq!(updates(&mut index), after);
    index.apply_delete(Kind::Pod, shop("old"));
    assert!(updates(&mut index).is_empty(), "a late event of the old pod does not affect the new one");
}

#[test]
fn slice_moved_to_another_service_leaves_after_it_arrives() {
    let mut index = mk_synced(vec![mk_pay(json!([at("10.0.0.1")]))]);
    let moved = mk_slice("pay-1", "cart", json!([at("10.0.0.1")]), json!({}));
    let want =
        ["put EndpointSlice shop/pay-1", "drop EndpointSlice shop/pay-1: changed EndpointSlice shop/pay-1"];
    assert_eq!(put(&mut index, moved), want);
}

#[test]
fn unchanged_relist_publishes_and_derives_nothing() {
    let objects = vec![
        mk_service("pay", json!({})),
        mk_pay(json!([of("10.0.0.1", "web")])),
        mk_pod("web", "10.0.0.1", json!({})),
    ];
    let mut index = mk_synced(objects.clone());
    let before = index.counts();
    for kind in [Kind::Service, Kind::Slice, Kind::Pod] {
        index.apply(&WatchScope::all(kind), Event::Init);
    }
    index.apply(&WatchScope::all(Kind::Pod), Event::Unchanged(shop("web")));
    objects.into_iter().take(2).for_each(|object| index.apply_put(object));
    list_all(&mut index);
    assert!(updates(&mut index).is_empty());
    let after = index.counts();
    assert_eq!((after.derived, after.unchanged), (before.derived, before.unchanged + 2));
}

#[test]
fn complete_list_removes_missing_objects_and_a_torn_one_none() {
    let mut index = mk_synced(vec![mk_service("pay", json!({})), mk_service("cart", json!({}))]);
    let services = || WatchScope::all(Kind::Service);
    index.apply(&services(), Event::Init);
    index.apply(&WatchScope::all(Kind::Service), Event::Unchanged(shop("pay")));
    assert!(updates(&mut index).is_empty());
    index.apply(&services(), Event::Init);
    index.apply(&WatchScope::all(Kind::Service), Event::Unchanged(shop("cart")));
    index.apply(&services(), Event::InitDone);
    assert_eq!(updates(&mut index), ["drop Service shop/pay: AbsentFromList"]);
    index.apply(&services(), Event::Unavailable(Withheld::forbidden("403")));
    let withheld = ["withheld Services", "withheld Gateways"];
    assert_eq!(updates(&mut index), withheld, "an unreadable kind is not deleted");
    index.apply(&services(), Event::NotServed);
    let back = ["drop Service shop/cart: AbsentFromList", "synced Services", "synced Gateways"];
    assert_eq!(updates(&mut index), back);
}

#[test]
fn list_of_one_namespace_affects_no_other() {
    let mut options = mk_options();
    options.namespaces = vec![Namespace::new("shop").unwrap(), Namespace::new("web").unwrap()];
    let scopes = options.watch_scopes();
    let mut index = Index::new(options);
    index.apply_put(mk_service("pay", json!({})));
    scopes.iter().for_each(|scope| index.apply(scope, Event::InitDone));
    updates(&mut index);
    let web = WatchScope { kind: Kind::Service, namespace: Some(Namespace::new("web").unwrap()) };
    index.apply(&web, Event::Init);
    index.apply(&web, Event::InitDone);
    assert!(updates(&mut index).is_empty());
}

#[test]
fn invalid_object_is_reported_and_its_last_version_stays() {
    let mut index = mk_synced(vec![mk_service("pay", json!({}))]);
    let services = WatchScope::all(Kind::Service);
    let bad = || Event::Invalid(shop("pay"), "spec.ports: no".into());
    index.apply(&services, bad());
    assert_eq!(updates(&mut index), ["problem Service shop/pay: TRB0321 spec.ports: no"]);
    index.apply(&services, Event::Init);
    index.apply(&services, bad());
    index.apply(&services, Event::InitDone);
    assert!(updates(&mut index).is_empty(), "it is in the list, and still invalid");
    assert_eq!(put(&mut index, mk_service("pay", json!({}))), ["good Service shop/pay"]);
    index.apply(&services, Event::Invalid(shop("new"), "no".into()));
    updates(&mut index);
    index.apply(&services, Event::Init);
    index.apply(&services, Event::Unchanged(shop("pay")));
    index.apply(&services, Event::InitDone);
    assert_eq!(updates(&mut index), ["good Service shop/new"], "a deleted object is not invalid");
}

#[test]
fn slice_of_names_is_a_problem_until_it_is_deleted() {
    let names = mk_slice("pay-1", "pay", json!([]), json!({"addressType": "FQDN"}));
    let mut index = mk_synced(vec![]);
    assert!(put(&mut index, names)[0].starts_with("problem EndpointSlice shop/pay-1: TRB0308"));
    index.apply_delete(Kind::Slice, shop("pay-1"));
    assert_eq!(updates(&mut index), ["good EndpointSlice shop/pay-1"]);
}

#[test]
fn namespace_annotation_touches_only_its_services() {
    let mut index = mk_synced(vec![
        mk_service("pay", json!({})),
        mk_pay(json!([at("10.0.0.1")])),
        mk_namespace("shop", json!({})),
    ]);
    let before = index.counts().derived;
    let annotated =
        json!({"metadata": {"annotations": {"networking.istio.io/traffic-distribution": "PreferClose"}}});
    assert_eq!(put(&mut index, mk_namespace("shop", annotated)), ["put Service shop/pay"]);
    assert_eq!(index.counts().derived, before + 1);
}

#[test]
fn namespace_without_effect_derives_nothing() {
    let mut index = mk_synced(vec![mk_service("pay", json!({})), mk_pay(json!([at("10.0.0.1")]))]);
    let before = index.counts().derived;
    let labelled = json!({"metadata": {"labels": {"team": "shop"}}});
    for event in [
        Event::Apply(mk_namespace("shop", json!({}))),
        Event::Apply(mk_namespace("shop", labelled)),
        Event::Delete(Name::new("", "shop")),
        Event::Apply(mk_namespace("other", json!({}))),
    ] {
        index.apply(&WatchScope::all(Kind::Namespace), event);
        assert!(updates(&mut index).is_empty());
    }
    assert_eq!(index.counts().derived, before, "no selector and no annotation changed");
}

#[test]
fn shared_values_shrink_after_a_scale_down() {
    let pods = 3_000;
    let name = |i: usize| format!("web-{i}");
    let pod = |i: usize| {
        let labels = json!({"instance": name(i)});
        mk_pod(
            &name(i),
            &format!("10.{}.{}.{}", i / 60_000, i / 250, i % 250 + 1),
            json!({"metadata": {"labels": labels}}),
        )
    };
    let mut index = mk_synced((0..pods).map(pod).collect());
    while index.is_behind() {
        index.flush();
    }
    assert!(index.counts().shared > pods as u64);
    (0..pods).for_each(|i| index.apply_delete(Kind::Pod, shop(&name(i))));
    while index.is_behind() {
        index.flush();
    }
    assert!(index.counts().shared < 100, "{}", index.counts().shared);
}

#[test]
fn changed_pod_derives_only_itself_and_its_slices() {
    let mut objects: Vec<Object> = (0..20)
        .map(|i| {
            mk_slice(
                &format!("s-{i}"),
                &format!("s{i}"),
                json!([of("10.0.0.1", &format!("p{i}"))]),
                json!({}),
            )
        })
        .collect();
    objects.extend((0..20).map(|i| mk_pod(&format!("p{i}"), &format!("10.0.1.{i}"), json!({}))));
    let mut index = mk_synced(objects);
    let before = index.counts().derived;
    let changed = mk_pod("p7", "10.0.1.7", json!({"metadata": {"labels": {"v": "2"}}}));
    assert_eq!(put(&mut index, changed), ["put Workload p7", "put EndpointSlice shop/s-7"]);
    assert_eq!(index.counts().derived, before + 2);
}

#[test]
fn endpoints_of_a_pod_share_an_origin_until_it_changes() {
    let pod = |workload: &str, version: &str| {
        let labels = json!({labels::WORKLOAD_NAME: workload, "v": version});
        mk_pod("web", "10.0.0.1", json!({"metadata": {"labels": labels}}))
    };
    let slice = |name: &str| mk_slice(name, "pay", json!([of("10.0.0.1", "web")]), json!({}));
    let mut index = mk_synced(vec![pod("web", "1")]);
    let mut origin = |object| {
        index.apply_put(object);
        let group = index.flush().into_iter().find_map(|update| match update {
            RegistryUpdate::Put(_, Fact::Group(_, group), _) => Some(group),
            _ => None,
        });
        group.unwrap().addresses[0].origin.clone().unwrap()
    };
    let first = origin(slice("pay-1"));
    assert!(Arc::ptr_eq(&first, &origin(slice("pay-2"))));
    assert!(Arc::ptr_eq(&first, &origin(pod("web", "2"))), "only its labels and its groups changed");
    assert_eq!(&*origin(pod("cart", "2")).workload, "cart");
}

#[test]
fn losing_all_endpoints_leaves_an_empty_group() {
    let mut index = mk_synced(vec![mk_service("pay", json!({})), mk_pay(json!([at("10.0.0.1")]))]);
    assert_eq!(addresses(&mut index, mk_pay(json!([]))), Some(Vec::new()));
}

#[test]
fn confirmation_of_every_watch_confirms_collections_once() {
    let mut index = mk_synced(vec![]);
    let mut scopes = index.objects().options.watch_scopes();
    let last = scopes.pop().unwrap();
    scopes.into_iter().for_each(|scope| index.apply(&scope, Event::Confirmed));
    assert_eq!(index.flush().len(), 5, "groups and workloads wait for the slices");
    index.apply(&last, Event::Confirmed);
    let last = ["progress Groups", "progress Workloads"];
    assert_eq!(texts(&index.flush()), last);
    assert!(index.flush().is_empty());
}

#[test]
fn large_first_list_is_published_in_parts() {
    let mut index = Index::new(mk_options());
    let names = || (0..Index::PART + 10).map(|i| format!("s{i}"));
    names().for_each(|name| index.apply_put(mk_service(&name, json!({}))));
    list_all(&mut index);
    let first = index.flush();
    assert!(index.is_behind());
    assert!(!first.iter().any(|update| matches!(update, RegistryUpdate::ListEnded(..))));
    index.apply_delete(Kind::Service, shop("s999")); // the last in order
    let mut rest = Vec::new();
    while index.is_behind() {
        rest.extend(index.flush());
    }
    let puts = first
        .iter()
        .chain(&rest)
        .filter(|update| matches!(update, RegistryUpdate::Put(_, Fact::Service(..), _)))
        .count();
    assert_eq!(puts, Index::PART + 9, "an object deleted meanwhile is never published");
    assert_eq!(rest.iter().filter(|update| matches!(update, RegistryUpdate::ListEnded(..))).count(), 7);
}
