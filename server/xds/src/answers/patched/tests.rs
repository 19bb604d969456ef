//! Clients with patches: what they share, what is made again, and that sets and differences agree.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tributary_model::{ClientKind, Protocol, Version};

use super::*;
use crate::answers::ClientClass;
use crate::fixtures::*;
use crate::patch::tests::mk_client_patches;

const KINDS: [ResourceType; 2] = [ResourceType::Cluster, ResourceType::Listener];

fn merge(service: &str) -> Json {
    let matched = json!({"context": "SIDECAR_OUTBOUND", "cluster": {"service": service}});
    let patch = json!({"operation": "MERGE", "value": {"connect_timeout": "1.5s"}});
    json!({"applyTo": "CLUSTER", "match": matched, "patch": patch})
}
fn remove(service: &str) -> Json {
    let matched = json!({"cluster": {"service": service}});
    json!({"applyTo": "CLUSTER", "match": matched, "patch": {"operation": "REMOVE"}})
}
fn add(name: &str) -> Json {
    let patch = json!({"operation": "ADD", "value": {"name": name, "type": "STATIC"}});
    json!({"applyTo": "CLUSTER", "match": {"context": "SIDECAR_OUTBOUND"}, "patch": patch})
}
fn lua() -> Json {
    let filter = json!({"name": "envoy.filters.network.http_connection_manager"});
    let matched = json!({"context": "SIDECAR_OUTBOUND", "listener": {"filterChain": {"filter": filter}}});
    let config = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"});
    let patch = json!({"operation": "INSERT_FIRST", "value": {"name": "lua", "typed_config": config}});
    json!({"applyTo": "HTTP_FILTER", "match": matched, "patch": patch})
}
fn host(port: u32) -> Json {
    let matched = json!({"routeConfiguration": {"portNumber": port}});
    let patch = json!({"operation": "ADD", "value": {"name": "mine", "domains": ["mine.x"]}});
    json!({"applyTo": "VIRTUAL_HOST", "match": matched, "patch": patch})
}

fn mk_patched(namespace: &str, patches: &[Json]) -> ClientClassKey {
    let class = (*mk_class(ClientKind::Sidecar, namespace)).clone();
    let patches = (!patches.is_empty()).then(|| Arc::new(mk_client_patches(&json!(patches))));
    ClientClassKey::alone(ClientClass { patches, ..class })
}
fn versions(set: &ResourceSet) -> BTreeMap<Arc<str>, Version> {
    set.iter().map(|member| (Arc::clone(&member.name), member.version)).collect()
}
fn hosts(count: usize) -> Vec<Svc> {
    (0..count).map(|n| mk_svc(&format!("s{n}.shop"))).collect()
}

#[test]
fn only_matched_resources_are_made_again_and_clients_with_equal_patches_share_them() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(50));
    let plain = mk_patched("shop", &[]);
    let base = answers.all(&catalog, &plain, ResourceType::Cluster);
    let encoded = answers.plain().counters().encodes(ResourceType::Cluster);
    let patches = [merge("s7.shop")];
    let all =
        ["shop", "web"].map(|ns| answers.all(&catalog, &mk_patched(ns, &patches), ResourceType::Cluster));
    assert_eq!(answers.applied.get(), 1, "one cluster, once for both namespaces");
    assert_eq!(
        answers.plain().counters().encodes(ResourceType::Cluster),
        encoded,
        "nothing is encoded again"
    );
    let name = "outbound|80||s7.shop";
    for set in &all {
        for member in set.iter() {
            let own = base.get(&member.name).unwrap();
            assert_eq!(Arc::ptr_eq(own, member), &*member.name != name, "{}", member.name);
        }
        assert!(Arc::ptr_eq(set.get(name).unwrap(), all[0].get(name).unwrap()));
    }
    assert!(
        Arc::ptr_eq(&answers.all(&catalog, &plain, ResourceType::Cluster), &base),
        "others keep their set"
    );
    assert_eq!(answers.table.len(), 1, "equal patches are one");
}

#[test]
fn edit_of_a_filter_changes_what_its_patches_match_and_its_end_restores_the_shared_set() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(50));
    let plain = answers.all(&catalog, &mk_patched("shop", &[]), ResourceType::Cluster);
    let encoded = answers.plain().counters().encodes(ResourceType::Cluster);
    let of = |patches: &[Json]| answers.all(&catalog, &mk_patched("shop", patches), ResourceType::Cluster);
    let before = of(&[merge("s1.shop"), merge("s2.shop")]);
    let after = of(&[merge("s1.shop"), remove("s2.shop"), add("mine")]);
    let (old, new) = (versions(&before), versions(&after));
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let changed: Vec<&str> =
        names.into_iter().filter(|name| old.get(*name) != new.get(*name)).map(|name| &**name).collect();
    assert_eq!(changed, ["mine", "outbound|80||s2.shop"]);
    assert!(Arc::ptr_eq(&of(&[]), &plain), "without patches it is the shared set again");
    assert_eq!(
        answers.plain().counters().encodes(ResourceType::Cluster),
        encoded,
        "nothing is encoded again"
    );
}

#[test]
fn changed_and_added_resources_name_their_filters() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(3));
    let class = mk_patched("shop", &[merge("s1.shop"), add("mine"), lua()]);
    let by = |kind, name: &str| {
        let found = answers.all(&catalog, &class, kind).get(name).cloned().unwrap();
        let keys = answers.patched_by(&class, kind, name, found.version);
        keys.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let filter = ["EnvoyFilter istio-system/a"];
    assert_eq!(by(ResourceType::Cluster, "outbound|80||s1.shop"), filter);
    assert_eq!(by(ResourceType::Cluster, "mine"), filter);
    assert_eq!(by(ResourceType::Listener, "0.0.0.0_80"), filter);
    assert_eq!(by(ResourceType::Cluster, "outbound|80||s2.shop"), [""; 0]);
    assert_eq!(by(ResourceType::Listener, "virtualOutbound"), [""; 0], "it has no HTTP");
}

#[test]
fn removed_resource_names_its_filter() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(3));
    let class = mk_patched("shop", &[merge("s1.shop"), remove("s2.shop")]);
    let _all = answers.all(&catalog, &class, ResourceType::Cluster);
    let by = |name: &str| answers.removed_by(&class, ResourceType::Cluster, name).map(|key| key.to_string());
    assert_eq!(by("outbound|80||s2.shop").as_deref(), Some("EnvoyFilter istio-system/a"));
    assert_eq!(by("outbound|80||s1.shop"), None, "it is changed");
    assert_eq!(by("outbound|80||s0.shop"), None);
}

#[test]
fn removed_resources_of_a_class_are_listed() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(3));
    let class = mk_patched("shop", &[remove("s2.shop"), remove("s1.shop")]);
    let removed = |catalog: &Arc<Catalog>, kind| {
        let all = answers.removed(catalog, &class, kind);
        all.into_iter().map(|(name, by)| format!("{name} {by}")).collect::<Vec<_>>()
    };
    assert_eq!(removed(&catalog, ResourceType::Cluster), [""; 0], "nothing is made yet");
    drop(answers.all(&catalog, &class, ResourceType::Cluster));
    let line = |name: &str| format!("outbound|80||{name}.shop EnvoyFilter istio-system/a");
    assert_eq!(removed(&catalog, ResourceType::Cluster), [line("s1"), line("s2")]);
    assert_eq!(removed(&catalog, ResourceType::Listener), [""; 0]);
    let without = world.next(&hosts(2));
    assert_eq!(removed(&without, ResourceType::Cluster), [line("s1")], "the service is gone");
}

#[test]
fn patches_that_change_nothing_are_not_used() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let taken = add("outbound|80||s2.shop");
    let patches = json!([merge("none.shop"), merge("s1.shop"), add("mine"), lua(), taken]);
    let plain = world.next(&hosts(3));
    let catalog = Arc::new(with_filter(&plain, &patches));
    let class = mk_patched("shop", patches.as_array().unwrap());
    let used = |catalog: &Catalog| answers.used(catalog).into_values().flatten().collect::<Vec<_>>();
    drop(answers.all(&catalog, &class, ResourceType::Cluster));
    assert_eq!(used(&catalog), [1, 2]);
    drop(answers.all(&catalog, &class, ResourceType::Listener));
    assert_eq!(used(&catalog), [1, 2, 3]);
    assert_eq!(used(&with_filter(&plain, &json!([add("mine")]))), [0; 0], "another version");
    drop(class);
    assert_eq!(used(&catalog), [0; 0], "no client has them");
}

#[test]
fn patches_that_are_left_out_are_those_of_the_current_filter_and_resource() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let socket = json!({"operation": "MERGE", "value": {"transport_socket": {"name": ""}}});
    let patches = json!([lua(), {"applyTo": "CLUSTER", "patch": socket}]);
    let plain = world.next(&hosts(3));
    let catalog = Arc::new(with_filter(&plain, &patches));
    let class = mk_patched("shop", patches.as_array().unwrap());
    drop(answers.all(&catalog, &class, ResourceType::Cluster));
    let all: Vec<_> = answers.refused_patches(&catalog).into_values().flatten().collect();
    let [(1, (ResourceType::Cluster, name, rule))] = &*all else { panic!("{all:?}") };
    assert!(name.starts_with("BlackHole") || name.contains("s0.shop"), "the first of them: {name}");
    assert_eq!(&**rule, "name has 0 characters; it must have at least 1");
    assert!(answers.refused_patches(&with_filter(&plain, &json!([lua()]))).is_empty(), "another version");
    drop(class);
    assert!(answers.refused_patches(&catalog).is_empty(), "no client has them");
}

fn with_filter(catalog: &Catalog, patches: &Json) -> Catalog {
    let policies = crate::patch::tests::mk_filter_catalog(patches).policies;
    Catalog { policies, ..catalog.clone() }
}

/// Time that a thousand patches take for a client; lax, because tests share the machine.
#[test]
fn thousand_patches_over_a_thousand_clusters_end_soon() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(1000));
    let patches: Vec<Json> = (0..1000).map(|n| merge(&format!("s{n}.shop"))).collect();
    let class = mk_patched("shop", &patches);
    let start = std::time::Instant::now();
    let set = answers.all(&catalog, &class, ResourceType::Cluster);
    let taken = start.elapsed();
    println!("1,000 patches over {} xDS clusters: {taken:?}", set.len());
    assert_eq!(answers.applied.get(), 1000);
    assert!(taken < std::time::Duration::from_secs(30), "{taken:?}");
    // another client with the same patches
    drop(answers.all(&catalog, &mk_patched("web", &patches), ResourceType::Cluster));
    assert_eq!(answers.applied.get(), 1000);
}

#[test]
fn change_of_a_service_patches_that_alone() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let mut services = hosts(30);
    let first = world.next(&services);
    let class = mk_patched("shop", &[merge("s1.shop"), merge("s2.shop"), lua()]);
    KINDS.iter().for_each(|kind| drop(answers.all(&first, &class, *kind)));
    let before = answers.applied.get();
    services[1] = mk_svc("s1.shop").on(&[(80, Protocol::Grpc)]);
    services[9] = mk_svc("s9.shop").on(&[(80, Protocol::Grpc)]);
    let second = world.next(&services);
    let changed = answers.changed(&first, &second, &class, ResourceType::Cluster);
    let names: Vec<&str> = changed.upserted.iter().map(|member| &*member.name).collect();
    assert_eq!(names, ["outbound|80||s1.shop", "outbound|80||s9.shop"]);
    assert_eq!(answers.applied.get(), before + 1, "of two changed clusters one is patched");
    drop(answers.all(&second, &class, ResourceType::Cluster));
    assert_eq!(answers.applied.get(), before + 1);
}

#[test]
fn service_precedes_an_added_resource_of_its_name() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let name = "outbound|80||s0.shop";
    let class = mk_patched("shop", &[add(name), add("mine")]);
    let (with, without) = (world.next(&hosts(2)), world.next(&hosts(2)[1..]));
    let own = answers.plain().one(&with, &class.plain(), ResourceType::Cluster, name).unwrap();
    let of = |catalog| answers.all(catalog, &class, ResourceType::Cluster);
    assert_eq!(of(&with).get(name).map(|found| found.version), Some(own.version));
    assert!(of(&with).get("mine").is_some());
    let changed = answers.changed(&with, &without, &class, ResourceType::Cluster);
    assert_eq!((changed.upserted.len(), changed.removed.len()), (1, 0), "the added one takes its place");
    assert_ne!(of(&without).get(name).unwrap().version, own.version);
    assert!(answers.one(&without, &class, ResourceType::Cluster, "mine").is_some());
}

#[test]
fn tables_are_patched_by_subscription_and_by_name() {
    let (mut world, answers) = (World::default(), PatchedAnswers::default());
    let catalog = world.next(&hosts(3));
    let class = mk_patched("shop", &[host(80)]);
    let names = Arc::new(Subscription::new(["80"].into_iter().map(Arc::from)));
    let set = answers.many(&catalog, &class, ResourceType::Route, &names);
    let one = answers.one(&catalog, &class, ResourceType::Route, "80").unwrap();
    assert_eq!(set.get("80").map(|found| found.version), Some(one.version));
    let body = answers.body(&catalog, &class, ResourceType::Route, &one).unwrap().concat();
    assert!(body.windows(6).any(|part| part == b"mine.x"));
    let plain = answers.one(&catalog, &mk_patched("shop", &[]), ResourceType::Route, "80").unwrap();
    assert_ne!(plain.version, one.version);
}

#[test]
fn inbound_resources_are_patched_by_context() {
    let answers = PatchedAnswers::default();
    let catalog = World::default().next(&[mk_svc("pay.shop").at(&["10.0.0.1"])]);
    let (catalog, own) = mk_with_workload(&catalog, "10.0.0.1", &["pay.shop"]);
    let of = |context: &str| {
        let patch = json!({"operation": "MERGE", "value": {"connect_timeout": "1.5s"}});
        let class = mk_patched(
            "shop",
            &[json!({"applyTo": "CLUSTER", "match": {"context": context}, "patch": patch})],
        );
        let own = OwnSide { workloads: std::slice::from_ref(&own), ips: &[] };
        let all = answers.private(&catalog, &class, ResourceType::Cluster, own);
        all.iter().map(|resource| resource.version).collect::<Vec<_>>()
    };
    let plain = of("SIDECAR_OUTBOUND");
    assert!(!plain.is_empty());
    assert_ne!(of("SIDECAR_INBOUND"), plain);
    assert_eq!(of("ANY"), of("SIDECAR_INBOUND"));
}

#[test]
fn inbound_virtual_hosts_are_found_by_the_port_of_their_service() {
    let answers = PatchedAnswers::default();
    let catalog = World::default().next(&[mk_svc("pay.shop").at(&["10.0.0.1"])]);
    let (catalog, own) = mk_with_workload(&catalog, "10.0.0.1", &["pay.shop"]);
    let of = |port: u16| {
        let host = json!({"name": format!("inbound|http|{port}")});
        let matched = json!({"context": "SIDECAR_INBOUND", "routeConfiguration": {"vhost": host}});
        let patch = json!({"operation": "MERGE", "value": {"require_tls": "ALL"}});
        let class =
            mk_patched("shop", &[json!({"applyTo": "VIRTUAL_HOST", "match": matched, "patch": patch})]);
        let own = OwnSide { workloads: std::slice::from_ref(&own), ips: &[] };
        let all = answers.private(&catalog, &class, ResourceType::Listener, own);
        all.iter().map(|resource| resource.version).collect::<Vec<_>>()
    };
    assert!(!of(81).is_empty());
    assert_ne!(of(80), of(81));
    assert_ne!(of(0), of(81), "that of ports without a service");
}

#[test]
fn entries_without_clients_are_removed() {
    let table = PatchingTable::default();
    for n in 0..1000 {
        let patches = Arc::new(mk_client_patches(&json!([merge(&format!("s{n}.shop"))])));
        assert!(table.get(&patches).is_some());
    }
    assert!(table.len() <= 130, "{} entries", table.len());
}

fn some_patches() -> impl Strategy<Value = Vec<Json>> {
    let one = prop_oneof![
        (0..4_u8).prop_map(|n| merge(&format!("s{n}.shop"))),
        (0..4_u8).prop_map(|n| remove(&format!("s{n}.shop"))),
        (0..4_u8).prop_map(|n| add(&format!("outbound|80||s{n}.shop"))),
        Just(add("mine")),
        Just(lua()),
        Just(host(80)),
    ];
    prop::collection::vec(one, 0..4)
}
fn some_services() -> impl Strategy<Value = Vec<Svc>> {
    let protocols =
        prop::sample::select(vec![None, Some(Protocol::Http), Some(Protocol::Tcp), Some(Protocol::Grpc)]);
    prop::collection::vec(protocols, 4).prop_map(|all| {
        let all = all.into_iter().enumerate();
        all.filter_map(|(n, of)| Some(mk_svc(&format!("s{n}.shop")).on(&[(80, of?)]))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The set of a generation, from nothing, equals the one before it with its difference applied; and each member is what
    /// the patches make of the plain one.
    #[test]
    fn differences_lead_from_one_set_to_the_next(
        generations in prop::collection::vec(some_services(), 2..4),
        patches in some_patches(),
    ) {
        let (mut world, answers) = (World::default(), PatchedAnswers::default());
        let class = mk_patched("shop", &patches);
        let all: Vec<_> = generations.iter().map(|services| world.next(services)).collect();
        for pair in all.windows(2) {
            for kind in KINDS {
                let mut held = versions(&answers.all(&pair[0], &class, kind));
                let changed = answers.changed(&pair[0], &pair[1], &class, kind);
                for name in &changed.removed {
                    held.remove(name);
                }
                held.extend(changed.upserted.iter().map(|member| (Arc::clone(&member.name), member.version)));
                let afresh = PatchedAnswers::default();
                let now = afresh.all(&pair[1], &class, kind);
                prop_assert_eq!(&held, &versions(&now));
                prop_assert_eq!(versions(&answers.all(&pair[1], &class, kind)), held);
                for member in now.iter() {
                    let one = answers.one(&pair[1], &class, kind, &member.name).unwrap();
                    prop_assert_eq!(one.version, member.version);
                }
            }
        }
    }
}
