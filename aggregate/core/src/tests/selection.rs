//! Selection of workloads: the index equals a scan, and buckets contain their members.

use super::fixtures::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use tributary_model::{
    ClusterId, Code, Declaration, Fact, Health, Labels, Selector, Workload, WorkloadKey, WorkloadKind,
};

fn selecting(name: &str, selector: Selector) -> Fact {
    let decl = Declaration { selector: Some(selector), ..mk_decl(name, "80 http") };
    mk_service(&format!("shop/{name}.shop"), decl)
}

#[test]
fn selector_without_pairs_selects_nothing() {
    let mut world = World::of_files();
    world.put("file", [selecting("pay", mk_selector("")), mk_workload("w", "10.0.0.7", "app=pay")]);
    assert!(world.served("shop/pay.shop", 80).is_empty());
}

#[test]
fn selected_workload_is_served_and_lists_its_services() {
    let mut world = World::of_files();
    world.put("file", [mk_workload("w", "10.0.0.7", "app=pay")]);
    world.put("file", [selecting("pay", mk_selector("app=pay")), selecting("all", mk_selector("app=pay"))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.7:80"]);
    let catalog = world.catalog();
    let view = catalog.workloads.get(&mk_workload_key("w")).unwrap();
    assert_eq!(
        view.services.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["shop/all.shop", "shop/pay.shop"]
    );
    let ips = catalog.workload_ips.get(&std::net::IpAddr::from([10, 0, 0, 7])).unwrap();
    assert_eq!(***ips, [mk_workload_key("w")]);
    let view = world.view("shop/pay.shop").unwrap();
    let source = &view.ports[0].endpoints.inputs.sources[0];
    let origin = source.group.addresses[0].origin.as_ref().unwrap();
    assert_eq!((origin.object.to_string().as_str(), &*origin.workload), ("WorkloadEntry shop/w", "w"));
}

#[test]
fn changed_label_removes_the_workload_from_the_service() {
    let mut world = World::of_files();
    world.put("file", [selecting("pay", mk_selector("app=pay")), mk_workload("w", "10.0.0.7", "app=pay")]);
    let outcome = world.put("file", [mk_workload("w", "10.0.0.7", "app=cart")]);
    assert!(outcome.urgent && outcome.changed.workloads.contains(&mk_workload_key("w")));
    assert!(world.served("shop/pay.shop", 80).is_empty());
    assert!(world.catalog().workloads.get(&mk_workload_key("w")).unwrap().services.is_empty());
}

#[test]
fn changed_address_leaves_the_index() {
    let mut world = World::of_files();
    world.put("file", [mk_workload("w", "10.0.0.7", "")]);
    world.put("file", [mk_workload("w", "10.0.0.8", "")]);
    let ips: Vec<String> = world.catalog().workload_ips.keys().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.0.0.8"]);
    world.report("file", [mk_deleted(&mk_workload("w", "10.0.0.8", ""))]);
    assert!(world.catalog().workload_ips.is_empty() && world.catalog().workloads.is_empty());
}

#[test]
fn selector_matches_by_kind_cluster_and_name() {
    let taken = |selector: Selector| {
        let mut world = World::of_files();
        let mut pod = mk_workload_value("p", "10.0.0.1", "app=pay");
        pod.health = Health::Unhealthy;
        let pod_key = WorkloadKey::from(tributary_model::WorkloadName {
            kind: WorkloadKind::Pod,
            ..(*mk_workload_key("p")).clone()
        });
        let far = WorkloadKey::from(tributary_model::WorkloadName {
            cluster: ClusterId::new("west").unwrap(),
            ..(*mk_workload_key("f")).clone()
        });
        let far_value = mk_workload_value("f", "10.0.0.2", "app=pay");
        let mut raw = mk_workload_value("r", "10.0.0.3", "app=cart");
        raw.augmented = mk_labels("app=pay");
        world.put(
            "file",
            [
                Fact::Workload(pod_key, Arc::new(pod)),
                Fact::Workload(far, Arc::new(far_value)),
                Fact::Workload(mk_workload_key("r"), Arc::new(raw)),
                mk_workload("n", "pay.example", "app=pay"),
                selecting("pay", selector),
            ],
        );
        world.served("shop/pay.shop", 80).join(" ")
    };
    let all = mk_selector("app=pay");
    assert_eq!(taken(all.clone()), "10.0.0.1:80! 10.0.0.2:80 10.0.0.3:80");
    assert_eq!(
        taken(Selector { names: true, ..all.clone() }),
        "10.0.0.1:80! 10.0.0.2:80 10.0.0.3:80 pay.example:80"
    );
    assert_eq!(taken(Selector { kinds: Arc::from([WorkloadKind::Pod]), ..all.clone() }), "10.0.0.1:80!");
    assert_eq!(taken(Selector { cluster: ClusterId::new("west").ok(), ..all.clone() }), "10.0.0.2:80");
    assert_eq!(taken(Selector { augmented: false, ..all }), "10.0.0.1:80! 10.0.0.2:80");
}

#[test]
fn workload_without_the_target_port_is_a_condition() {
    let mut world = World::of_files();
    let decl = Declaration {
        selector: Some(mk_selector("app=pay")),
        ..mk_decl("pay", "80 http > web, 81 admin > 9000")
    };
    let mut with = mk_workload_value("with", "10.0.0.1", "app=pay");
    with.ports = [(tributary_model::PortName::new("web").unwrap(), mk_port(8080))].into();
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", decl),
            Fact::Workload(mk_workload_key("with"), Arc::new(with)),
            mk_workload("without", "10.0.0.2", "app=pay"),
        ],
    );
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:8080"]);
    assert_eq!(world.served("shop/pay.shop", 81), ["10.0.0.1:9000", "10.0.0.2:9000"]);
    assert_eq!(world.codes("shop/pay.shop"), [Code::NO_TARGET_PORT]);
    let view = world.view("shop/pay.shop").unwrap();
    assert_eq!(view.conditions[0].objects[0].to_string(), "WorkloadEntry shop/without");
}

#[test]
fn selector_matches_workloads_of_a_second_registry() {
    use tributary_model::ProviderId;
    let mut world =
        World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY), mk_spec("east", ProviderId::KUBERNETES)]);
    world.put("file", [selecting("pay", mk_selector("app=pay"))]);
    world.put("east", [mk_workload("w", "10.0.0.7", "app=pay")]);
    let view = world.view("shop/pay.shop").unwrap();
    let source = &view.ports[0].endpoints.inputs.sources[0];
    assert_eq!(
        source.shard.registry.name.as_str(),
        "file",
        "the source has the selecting declaration's shard"
    );
    world.core.remove_registry(&mk_name("east"), &tributary_model::Evidence::Operator);
    assert!(world.served("shop/pay.shop", 80).is_empty());
}

#[test]
fn workload_value_first_in_precedence_is_selected() {
    use tributary_model::ProviderId;
    let mut world =
        World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY), mk_spec("east", ProviderId::KUBERNETES)]);
    world.put("file", [selecting("pay", mk_selector("app=pay")), mk_workload("w", "10.0.0.1", "app=pay")]);
    world.put("east", [mk_workload("w", "10.0.0.2", "app=pay")]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"]);
    world.report("east", [mk_deleted(&mk_workload("w", "10.0.0.2", ""))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "the second value takes over");
}

fn any_labels() -> impl Strategy<Value = Labels> {
    proptest::collection::btree_map("[abc]", "[12]", 0..3)
        .prop_map(|map| map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect())
}

#[derive(Debug, Clone)]
enum Act {
    Select(usize, Option<Labels>),
    Work(usize, Option<Labels>),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..4_usize, proptest::option::weighted(0.8, any_labels())).prop_map(|(i, l)| Act::Select(i, l)),
        (0..8_usize, proptest::option::weighted(0.8, any_labels())).prop_map(|(i, l)| Act::Work(i, l)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn selection_equals_a_full_scan(acts in proptest::collection::vec(any_act(), 1..40)) {
        let mut world = World::of_files();
        let mut selectors: [Option<Labels>; 4] = Default::default();
        let mut workloads: [Option<Labels>; 8] = Default::default();
        for act in acts {
            let delta = match act {
                Act::Select(i, labels) => {
                    selectors[i] = labels.clone();
                    let with = |l: Labels| Selector { labels: l, ..mk_selector("") };
                    let fact = selecting(&format!("s{i}"), with(labels.clone().unwrap_or_default()));
                    if labels.is_some() { mk_put(fact) } else { mk_deleted(&fact) }
                }
                Act::Work(i, labels) => {
                    workloads[i] = labels.clone();
                    let mut value = mk_workload_value(&format!("w{i}"), &format!("10.0.0.{i}"), "");
                    value.augmented = labels.clone().unwrap_or_default();
                    let fact = Fact::Workload(mk_workload_key(&format!("w{i}")), Arc::new(value));
                    if labels.is_some() { mk_put(fact) } else { mk_deleted(&fact) }
                }
            };
            world.report("file", [delta]);
            for (s, selector) in selectors.iter().enumerate() {
                let scan = workloads.iter().enumerate().filter(|(_, w)| {
                    let (Some(selector), Some(labels)) = (selector, w) else { return false };
                    !selector.is_empty() && selector.pairs().all(|p| labels.pairs().any(|own| own == p))
                });
                let scan: BTreeSet<String> = scan.map(|(w, _)| format!("10.0.0.{w}:80")).collect();
                let index: BTreeSet<String> = world.served(&format!("shop/s{s}.shop"), 80).into_iter().collect();
                prop_assert_eq!(index, scan);
            }
        }
    }

}
proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn buckets_do_not_depend_on_history(come in 1..1500_usize, go in 0..1500_usize) {
        let mut world = World::of_files();
        let workload = |i: usize| mk_workload(&format!("w{i}"), &format!("10.0.{}.{}", i / 250, i % 250), "app=pay");
        world.put("file", std::iter::once(selecting("pay", mk_selector("app=pay"))).chain((0..come).map(workload)));
        world.report("file", (0..go.min(come)).map(|i| mk_deleted(&workload(i))));
        let mut direct = World::of_files();
        direct.put("file", (go.min(come)..come).map(workload).chain([selecting("pay", mk_selector("app=pay"))]));
        let sources = |world: &mut World| {
            let view = world.view("shop/pay.shop").unwrap();
            view.ports[0].endpoints.inputs.clone_sources()
        };
        let (a, b) = (sources(&mut world), sources(&mut direct));
        prop_assert_eq!(a.iter().map(Vec::len).sum::<usize>(), come - go.min(come));
        prop_assert!(a.iter().all(|bucket| bucket.len() <= 512));
        prop_assert_eq!(a, b);
    }
}

trait Sources {
    fn clone_sources(&self) -> Vec<Vec<String>>;
}
impl Sources for tributary_model::EndpointInputs {
    fn clone_sources(&self) -> Vec<Vec<String>> {
        let texts = |s: &tributary_model::EndpointSource| {
            s.group.addresses.iter().map(|a| a.ip().unwrap().to_string()).collect()
        };
        self.sources.iter().map(texts).collect()
    }
}

#[test]
fn workload_has_its_listing_and_its_selecting_services() {
    let mut world = World::of_files();
    let mut workload = mk_workload_value("w", "10.0.0.7", "app=pay");
    workload.listed = [mk_key("shop/cart.shop"), mk_key("shop/pay.shop")].into();
    world.put(
        "file",
        [Fact::Workload(mk_workload_key("w"), Arc::new(workload)), selecting("pay", mk_selector("app=pay"))],
    );
    let catalog = world.catalog();
    let services = &catalog.workloads.get(&mk_workload_key("w")).unwrap().services;
    assert_eq!(**services, [mk_key("shop/cart.shop"), mk_key("shop/pay.shop")]);
}

fn listed(world: &mut World) -> Vec<String> {
    let catalog = world.catalog();
    catalog.workloads[&mk_workload_key("w1")].services.iter().map(|key| key.host.to_string()).collect()
}

#[test]
fn known_partial_workload_keeps_its_services() {
    let workload = |listed: &[&str]| {
        let listed = listed.iter().map(|key| mk_key(key)).collect();
        Fact::Workload(
            mk_workload_key("w1"),
            Arc::new(Workload { listed, ..mk_workload_value("w1", "10.0.0.1", "") }),
        )
    };
    let mut world = World::of_files();
    world.put("file", [workload(&["shop/a.shop", "shop/b.shop"])]);
    world.report("file", [mk_doubted(workload(&["shop/b.shop", "shop/c.shop"]))]);
    assert_eq!(listed(&mut world), ["a.shop", "b.shop", "c.shop"]);
    world.report("file", [mk_doubted(workload(&[]))]);
    assert_eq!(listed(&mut world), ["a.shop", "b.shop", "c.shop"]);
    world.put("file", [workload(&[])]);
    assert!(listed(&mut world).is_empty());
}
