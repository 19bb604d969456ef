//! Removal guard: what it doubts, what it applies, and how a hold ends.

use super::fixtures::*;
use proptest::prelude::*;
use tributary_model::{
    Code, Collection, CollectionKind, Completeness, Declaration, Evidence, ExportTo, Fact, FactKey, Mono,
    PortName, ProviderId, RegistrySpec, RegistryUpdate, Resolution, ServicePort, Target, Visibility,
};

const A: &str = "10.0.0.1:http=80";
const FIVE: &str = "10.0.0.1:http=80 10.0.0.2:http=80 10.0.0.3:http=80 10.0.0.4:http=80 10.0.0.5:http=80";

fn decl() -> Fact {
    mk_service("shop/pay.shop", mk_decl("pay", "80 http"))
}
fn group(object: &str, endpoints: &str) -> Fact {
    mk_group("shop/pay.shop", "pay", object, endpoints)
}
fn absent(fact: &Fact) -> RegistryUpdate {
    mk_drop(fact, Evidence::AbsentFromList)
}
/// Returns ten addresses of a different service: one address is then a small part of the scope.
fn ballast() -> Vec<Fact> {
    let endpoints: Vec<String> = (1..=10).map(|i| format!("10.9.0.{i}:http=80")).collect();
    vec![
        mk_service("shop/other.shop", mk_decl("other", "80 http")),
        mk_group("shop/other.shop", "other", "ballast", &endpoints.join(" ")),
    ]
}
fn mk_world(facts: impl IntoIterator<Item = Fact>) -> World {
    let mut world = World::confirming();
    world.put("east", ballast());
    world.put("east", facts);
    world
}
fn held(world: &World) -> Vec<FactKey> {
    world.core.held().map(|h| h.key).collect()
}

#[test]
fn absence_does_not_empty_a_host() {
    let mut world = mk_world([decl(), group("a", A)]);
    let outcome = world.report("east", [absent(&group("a", A))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80?"]);
    assert_eq!(outcome.confirms.len(), 1);
    assert_eq!(outcome.confirms[0].confirm, mk_fact_key(&group("a", A)));
    assert_eq!(outcome.confirms[0].generation, world.generation("east"));
    assert_eq!(world.codes("shop/pay.shop"), [Code::REMOVAL_HELD]);
    assert!(fact_records(&outcome).is_empty(), "no record of a held removal");
}

#[test]
fn absence_is_applied_while_an_endpoint_remains() {
    let mut world = mk_world([decl(), group("a", A), group("b", "10.0.0.2:http=80")]);
    let outcome = world.report("east", [absent(&group("a", A))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"]);
    assert!(outcome.confirms.is_empty() && outcome.urgent);
}

#[test]
fn replacement_in_the_same_batch_does_not_empty_a_host() {
    let mut world = mk_world([decl(), group("a", A)]);
    world.report("east", [absent(&group("a", A)), mk_put(group("b", "10.0.0.2:http=80"))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"]);
}

#[test]
fn two_batches_do_not_empty_a_host() {
    let mut world = mk_world([decl(), group("a", FIVE), group("b", "10.0.0.6:http=80")]);
    world.report("east", [absent(&group("a", FIVE))]);
    assert_eq!(held(&world).len(), 1, "five of sixteen are more than thirty percent");
    world.report("east", [absent(&group("b", ""))]);
    assert_eq!(held(&world).len(), 2, "held endpoints do not count as remaining");
    assert_eq!(world.served("shop/pay.shop", 80).len(), 6);
}

#[test]
fn removed_facts_do_not_count_in_the_weight() {
    let mut world = mk_world([decl(), group("a", A)]);
    for _ in 0..5 {
        world.put("east", [group("b", FIVE), mk_workload("w", "10.0.0.7", "")]);
        world.report("east", [mk_deleted(&group("b", "")), mk_deleted(&mk_workload("w", "10.0.0.7", ""))]);
    }
    assert_eq!(world.core.status()[0].weight, 11);
    world.put("east", [mk_workload("w", "10.0.0.7", ""), mk_workload("w", "10.0.0.8", "")]);
    world.put("east", [group("a", FIVE)]);
    assert_eq!(world.core.status()[0].weight, 16);
    world.core.remove_registry(&mk_name("east"), &Evidence::Operator);
    assert!(world.core.status().is_empty() && world.core.next_tick().is_none());
}

#[test]
fn absence_does_not_remove_a_service() {
    let mut world = mk_world([decl()]);
    world.report("east", [absent(&decl())]);
    assert!(world.view("shop/pay.shop").is_some());
    assert_eq!(held(&world), [mk_fact_key(&decl())]);
}

#[test]
fn loss_of_more_than_thirty_percent_is_doubted() {
    for (going, left) in [(6, 4), (7, 10)] {
        let some = |n: usize| (0..n).map(|i| group(&format!("g{i}"), &format!("10.0.1.{i}:http=80")));
        let mut world = mk_world(std::iter::once(decl()).chain(some(10)));
        world.report("east", some(going).map(|g| absent(&g)));
        assert_eq!(world.served("shop/pay.shop", 80).len(), left, "{going} of 20 go");
    }
}

#[test]
fn only_absence_at_confirming_registries_is_doubted() {
    for evidence in [Evidence::Confirmed, Evidence::Operator, Evidence::Withdrawn] {
        let mut world = mk_world([decl(), group("a", A)]);
        world.report("east", [mk_drop(&group("a", A), evidence)]);
        assert!(world.served("shop/pay.shop", 80).is_empty());
    }
    let mut world = World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY)]);
    world.put("file", [decl(), group("a", A)]);
    world.report("file", [absent(&group("a", A)), absent(&decl())]);
    assert!(world.view("shop/pay.shop").is_none());
}

#[test]
fn known_partial_answer_removes_nothing() {
    let mut world = mk_world([decl(), group("a", FIVE)]);
    let four = "10.0.0.1:http=80 10.0.0.2:http=80 10.0.0.3:http=80 10.0.0.4:http=80";
    let outcome = world.report("east", [mk_doubted(group("a", &format!("{four} 10.0.0.6:http=80")))]);
    assert_eq!(world.served("shop/pay.shop", 80).len(), 6, "adds one and removes none");
    assert_eq!((held(&world).len(), outcome.confirms.len()), (1, 1));
    world.report("east", [mk_unsure(group("a", &format!("{four} 10.0.0.6:http=80")))]);
    assert_eq!(held(&world).len(), 1, "the hold waits for an authoritative value");
    world.report("east", [mk_put(group("a", four))]);
    assert_eq!((world.served("shop/pay.shop", 80).len(), held(&world).len()), (4, 0));
}

#[test]
fn many_small_batches_do_not_lose_a_scope() {
    let services: Vec<String> = (0..10).map(|i| format!("shop/s{i}.shop")).collect();
    let mut world = World::confirming();
    let group = |at: usize, endpoints: usize| {
        let endpoints: Vec<String> = (0..endpoints).map(|i| format!("10.{at}.0.{i}:http=80")).collect();
        mk_group(&services[at], "s", "g", &endpoints.join(" "))
    };
    for (at, service) in services.iter().enumerate() {
        world.put("east", [mk_service(service, mk_decl("s", "80 http")), group(at, 10)]);
    }
    for at in 0..10 {
        world.report("east", [mk_unsure(group(at, 1))]);
    }
    let left: usize = services.iter().map(|service| world.served(service, 80).len()).sum();
    assert_eq!(
        (left, held(&world).len()),
        (73, 7),
        "three of ten services may lose nine of ten endpoints each"
    );
}

#[test]
fn partial_answer_removes_little_and_holds_much() {
    let mut world = mk_world([decl(), group("a", FIVE)]);
    let four = FIVE.rsplit_once(' ').unwrap().0;
    world.report("east", [mk_unsure(group("a", four))]);
    assert_eq!(world.served("shop/pay.shop", 80).len(), 4, "one of fifteen");
    let outcome = world.report("east", [mk_unsure(group("a", "10.0.0.8:http=80"))]);
    let want = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80", "10.0.0.8:80"];
    assert_eq!(world.served("shop/pay.shop", 80).len(), 5);
    for (served, want) in world.served("shop/pay.shop", 80).iter().zip(want) {
        assert_eq!(served.trim_end_matches('?'), want);
    }
    assert!(
        world.served("shop/pay.shop", 80).contains(&"10.0.0.8:80".to_owned()),
        "the reported endpoint is served"
    );
    assert!(world.served("shop/pay.shop", 80).contains(&"10.0.0.1:80?".to_owned()));
    assert_eq!(outcome.confirms.len(), 1);
    world.report("east", [mk_unsure(group("a", "10.0.0.8:http=80 10.0.0.1:http=80"))]);
    assert!(
        world.served("shop/pay.shop", 80).contains(&"10.0.0.1:80".to_owned()),
        "a reported endpoint is not held"
    );
    assert_eq!(held(&world).len(), 1, "the others are held");
    world.report("east", [mk_put(group("a", "10.0.0.8:http=80"))]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.8:80"]);
    assert!(held(&world).is_empty());
}

#[test]
fn equal_value_ends_a_hold() {
    let mut world = mk_world([decl(), group("a", A)]);
    world.report("east", [absent(&group("a", A))]);
    let outcome = world.report("east", [mk_put(group("a", A))]);
    assert!(held(&world).is_empty());
    assert_eq!(outcome.changed.hosts.len(), 1, "the end of a hold changes the view");
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    world.report("east", [absent(&group("a", A))]);
    world.report("east", [mk_drop(&group("a", A), Evidence::Confirmed)]);
    assert!(world.served("shop/pay.shop", 80).is_empty() && held(&world).is_empty());
}

#[test]
fn confirm_requests_repeat_with_growing_delays() {
    let mut world = mk_world([decl(), group("a", A)]);
    world.report("east", [absent(&group("a", A))]);
    let begun = world.now;
    let mut requests = Vec::new();
    for second in 0..20 {
        let now = Mono(begun + second * 1000 + 1);
        requests.extend(world.core.tick(now).confirms.iter().map(|_| second));
    }
    assert_eq!(requests, [1, 3, 7, 15]);
    assert_eq!(world.core.held().next().unwrap().confirm_attempts, 5);
    world.now = begun + 20_000;
    let outcome = world.restart("east");
    assert_eq!(outcome.confirms.len(), 1, "a new run receives the request at once");
    assert_eq!(outcome.confirms[0].generation, world.generation("east"));
    assert_eq!(world.core.next_tick(), Some(Mono(world.now + 1000)), "the delays start again");
    world.put("east", [group("a", A)]);
    assert_eq!(world.core.next_tick(), None);
}

/// Returns a declaration and a group derived from instances, half of them at a second port.
fn instances(ids: std::ops::Range<u8>) -> [Fact; 2] {
    let port = |i: u8| if i < 5 { 8080 } else { 9090 };
    let endpoints: Vec<String> = ids.clone().map(|i| format!("10.0.0.{i}:default={}", port(i))).collect();
    let ports: std::collections::BTreeSet<String> = ids.map(|i| format!("{} default", port(i))).collect();
    let ports = ports.into_iter().collect::<Vec<_>>().join(", ");
    let declared = mk_service("shop/pay.shop", mk_decl("pay", &ports));
    [declared, group("all", &endpoints.join(" "))]
}
fn ports(world: &mut World) -> Vec<u16> {
    world.view("shop/pay.shop").unwrap().ports.iter().map(|port| port.number.get()).collect()
}

#[test]
fn false_large_loss_is_held_with_its_ports() {
    let mut world = mk_world(instances(0..10));
    let outcome = world.report("east", instances(0..1).map(mk_unsure));
    assert_eq!(outcome.confirms.len(), 1);
    assert_eq!(ports(&mut world), [8080, 9090], "ports of held endpoints stay");
    for port in [8080, 9090] {
        assert_eq!(world.served("shop/pay.shop", port).len(), 10, "{port}");
    }
    assert_eq!(world.served("shop/pay.shop", 9090).iter().filter(|e| e.ends_with('?')).count(), 9);
    world.report("east", instances(0..10).map(mk_unsure));
    assert!(held(&world).is_empty());
    assert_eq!(world.served("shop/pay.shop", 9090).iter().filter(|e| e.ends_with('?')).count(), 0);
}

#[test]
fn confirmed_large_loss_is_applied() {
    let mut world = mk_world(instances(0..10));
    world.report("east", instances(0..1).map(mk_unsure));
    let outcome = world.report("east", instances(0..1).map(mk_put));
    assert!(outcome.urgent && held(&world).is_empty());
    assert_eq!(ports(&mut world), [8080]);
    assert_eq!(world.served("shop/pay.shop", 8080), ["10.0.0.0:8080"]);
}

#[test]
fn declaration_only_gains_ports_while_endpoints_are_held() {
    let mut world = mk_world(instances(0..10));
    let other =
        Declaration { resolution: Resolution::DnsStrict, ..mk_decl("pay", "8080 default, 7070 default") };
    let few = group("all", "10.0.0.0:default=8080");
    world.report("east", [mk_unsure(mk_service("shop/pay.shop", other.clone())), mk_unsure(few.clone())]);
    assert_eq!(ports(&mut world), [7070, 8080, 9090]);
    assert_eq!(
        world.view("shop/pay.shop").unwrap().declarations[0].declaration.resolution,
        Resolution::ClientSide
    );
    world.report("east", [mk_put(mk_service("shop/pay.shop", other)), mk_put(few)]);
    assert_eq!(ports(&mut world), [7070, 8080]);
    assert_eq!(
        world.view("shop/pay.shop").unwrap().declarations[0].declaration.resolution,
        Resolution::DnsStrict
    );
}

#[test]
fn released_removal_takes_its_ports_too() {
    let mut world = mk_world(instances(0..10));
    world.report("east", instances(0..1).map(mk_unsure));
    let key = held(&world).remove(0);
    world.core.release(Mono(world.now), &mk_name("east"), &key).unwrap();
    assert_eq!(ports(&mut world), [8080]);
    assert_eq!(world.served("shop/pay.shop", 8080), ["10.0.0.0:8080"]);
}

#[test]
fn partial_answer_removes_a_port_without_held_endpoints() {
    let mut world = mk_world(instances(2..6));
    assert_eq!(ports(&mut world), [8080, 9090]);
    world.report("east", instances(2..5).map(mk_unsure));
    assert_eq!(ports(&mut world), [8080], "one of fourteen is less than thirty percent");
    assert!(held(&world).is_empty());
}

#[test]
fn changed_readiness_in_a_partial_answer_is_served() {
    let mut world = mk_world(instances(0..10));
    let flipped = group("all", "10.0.0.0:default=8080!");
    world.report("east", [mk_unsure(flipped)]);
    let served = world.served("shop/pay.shop", 8080);
    assert_eq!(served[0], "10.0.0.0:8080!");
    assert_eq!(served.iter().filter(|e| e.ends_with('?')).count(), 9);
}

#[test]
fn operator_releases_a_held_removal() {
    let six = format!("{FIVE} 10.0.0.6:http=80");
    let mut world = mk_world([decl(), group("a", &six)]);
    world.report("east", [mk_unsure(group("a", A))]);
    assert_eq!(world.served("shop/pay.shop", 80).len(), 6, "five of sixteen are too many at once");
    let (name, key) = (mk_name("east"), mk_fact_key(&group("a", A)));
    assert!(world.core.release(Mono(world.now), &name, &key).unwrap().urgent);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    assert!(world.core.release(Mono(world.now), &name, &key).is_none());
    world.report("east", [absent(&group("a", A))]);
    world.core.release(Mono(world.now), &name, &key);
    assert!(world.served("shop/pay.shop", 80).is_empty());
}

#[test]
fn selected_workload_is_held_like_a_listed_endpoint() {
    let selecting =
        tributary_model::Declaration { selector: Some(mk_selector("app=w")), ..mk_decl("pay", "80 http") };
    let workload = mk_workload("w", "10.0.0.7", "app=w");
    let mut world = mk_world([mk_service("shop/pay.shop", selecting), workload.clone()]);
    world.report("east", [absent(&workload)]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.7:80?"]);
    world.report("east", [mk_put(workload.clone())]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.7:80"]);
    world.report("east", [absent(&workload)]);
    world.report("east", [mk_drop(&workload, Evidence::Confirmed)]);
    assert!(world.served("shop/pay.shop", 80).is_empty());
}

/// Action of a source on its four groups of one address each.
#[derive(Debug, Clone)]
enum Act {
    Put(usize),
    Absent(usize),
    List(Vec<bool>),
    Answer,
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..4_usize).prop_map(Act::Put),
        (0..4_usize).prop_map(Act::Absent),
        proptest::collection::vec(any::<bool>(), 4).prop_map(Act::List),
        Just(Act::Answer),
    ]
}

fn nth(i: usize) -> Fact {
    group(&format!("g{i}"), &format!("10.0.0.{i}:http=80"))
}

fn answer(world: &mut World, truth: &[bool]) {
    let keys = held(world);
    let updates = (0..truth.len())
        .filter(|&i| keys.contains(&mk_fact_key(&nth(i))))
        .map(|i| if truth[i] { mk_put(nth(i)) } else { mk_drop(&nth(i), Evidence::Confirmed) });
    let mut updates: Vec<RegistryUpdate> = updates.collect();
    if keys.contains(&mk_fact_key(&decl())) {
        updates.push(mk_put(decl()));
    }
    world.report("east", updates);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn host_is_emptied_only_by_evidence_and_holds_converge(acts in proptest::collection::vec(any_act(), 1..20)) {
        let mut world = World::confirming();
        world.put("east", [decl()]);
        let mut truth = [false; 4];
        for act in acts {
            let before = world.served("shop/pay.shop", 80).len();
            let proof = matches!(act, Act::Answer);
            match act {
                Act::Put(i) => { truth[i] = true; world.put("east", [nth(i)]); }
                Act::Absent(i) => { truth[i] = false; world.report("east", [absent(&nth(i))]); }
                Act::List(is) => {
                    truth.copy_from_slice(&is);
                    let facts = (0..4).filter(|&i| is[i]).map(nth);
                    world.list("east", std::iter::once(decl()).chain(facts));
                }
                Act::Answer => answer(&mut world, &truth),
            }
            let after = world.served("shop/pay.shop", 80).len();
            prop_assert!(proof || before == 0 || after > 0, "emptied without evidence");
            for (i, there) in truth.iter().enumerate() {
                let there_now = world.served("shop/pay.shop", 80).iter().any(|s| s.contains(&format!("10.0.0.{i}:")));
                prop_assert!(!there || there_now, "an existing endpoint is not served");
            }
        }
        answer(&mut world, &truth);
        let want: Vec<String> = (0..4).filter(|&i| truth[i]).map(|i| format!("10.0.0.{i}:80")).collect();
        prop_assert_eq!(world.served("shop/pay.shop", 80), want);
        prop_assert!(held(&world).is_empty());
    }
}

#[test]
fn known_partial_declaration_only_gains_ports() {
    let mut world = World::of_files();
    let wide = mk_decl("pay", "80 http,81 tcp");
    let narrow = Declaration { export: ExportTo::Set(Visibility::Hidden), ..mk_decl("pay", "82 tcp") };
    let service = |decl: &Declaration| mk_service("shop/pay.shop", decl.clone());
    world.list("file", [service(&wide), mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=80")]);
    let ports = |world: &mut World| -> Vec<u16> {
        world.view("shop/pay.shop").unwrap().ports.iter().map(|port| port.number.get()).collect()
    };
    let visibility =
        |world: &mut World| world.view("shop/pay.shop").unwrap().declarations[0].visibility.clone();
    let before = visibility(&mut world);
    world.report("file", [mk_doubted(service(&narrow))]);
    assert_eq!((ports(&mut world), visibility(&mut world)), (vec![80, 81, 82], before));
    world.report("file", [mk_put(service(&narrow))]);
    assert_eq!((ports(&mut world), visibility(&mut world)), (vec![82], Visibility::Hidden));
}

#[test]
fn partial_declaration_then_absent_in_one_batch_is_held() {
    let mut world = World::confirming();
    world.put("east", [decl(), nth(0)]);
    let other = mk_service("shop/pay.shop", mk_decl("pay", "80 http,81 tcp"));
    world.report("east", [mk_unsure(other), absent(&decl())]);
    assert_eq!(held(&world), [mk_fact_key(&decl())], "a served declaration without a fact must be held");
    world.report("east", [mk_drop(&decl(), Evidence::Confirmed)]);
    assert!(world.view("shop/pay.shop").is_none());
}

#[test]
fn held_facts_of_an_unfollowed_scope_stay_held() {
    let mut world = World::confirming();
    world.put("east", [decl(), nth(0)]);
    let other = Collection { scope: mk_scope("other"), kind: CollectionKind::Services };
    let follows = RegistryUpdate::Follows { required: vec![other.clone()], optional: Vec::new() };
    let listed = [
        RegistryUpdate::ListStarted(other.clone()),
        RegistryUpdate::ListEnded(other, Completeness::Complete),
    ];
    world.report("east", mk_list([]).into_iter().chain([follows]).chain(listed));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.0:80?"]);
    assert_eq!(held(&world), [mk_fact_key(&decl()), mk_fact_key(&nth(0))]);
    world.report("east", [mk_drop(&decl(), Evidence::Confirmed), mk_drop(&nth(0), Evidence::Confirmed)]);
    assert!(world.view("shop/pay.shop").is_none());
    let shard = world.core.state.context.shards.find(&mk_name("east"), &mk_scope(SCOPE));
    assert!(shard.is_none(), "an empty scope is freed");
}

#[test]
fn unreachable_endpoints_do_not_count_as_remaining() {
    let resolution = Resolution::Alias(mk_host("other.shop"));
    let alias = Declaration { resolution, ..mk_decl("other", "80 http") };
    for other in [alias, mk_decl("other", ""), mk_decl("other", "80 web,81 grpc")] {
        let mut world = World::confirming();
        world.put("east", [decl(), nth(0), mk_service("shop/pay.shop", mk_decl("empty", "80 http"))]);
        world.put("east", [mk_service("shop/pay.shop", other)]);
        world.put("east", [mk_group("shop/pay.shop", "other", "of-other", "10.0.1.1:http=80")]);
        world.put("east", ballast());
        world.report("east", [absent(&decl())]);
        assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.0:80"]);
        assert_eq!(held(&world), [mk_fact_key(&decl())]);
    }
}

#[test]
fn workload_without_the_port_does_not_count_as_remaining() {
    let mut world = World::confirming();
    let selector = Some(mk_selector("app=w"));
    let mut selecting = Declaration { selector, ..mk_decl("other", "81 admin") };
    let unnamed =
        ServicePort { target: Target::Name(PortName::new("web").unwrap()), ..selecting.ports[0].clone() };
    selecting.ports = [unnamed].into();
    world.put("east", [decl(), nth(0), mk_workload("w", "10.0.0.7", "app=w")]);
    world.put("east", [mk_service("shop/pay.shop", selecting)]);
    world.put("east", ballast());
    world.report("east", [absent(&decl())]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.0:80"], "the workload has no port `web`");
    assert_eq!(held(&world), [mk_fact_key(&decl())]);
}

#[test]
fn workload_without_the_label_does_not_count_as_remaining() {
    let confirming = |name| RegistrySpec { can_confirm: true, ..mk_spec(name, ProviderId::KUBERNETES) };
    let mut world = World::with(&[confirming("east"), confirming("west")]);
    let selecting = Declaration { selector: Some(mk_selector("app=w")), ..mk_decl("pay", "80 http") };
    let workload = mk_workload("w", "10.0.0.7", "app=w");
    world.put("east", [mk_service("shop/pay.shop", selecting), workload.clone()]);
    world.put("east", ballast());
    world.put("west", [mk_workload("w", "10.0.0.7", "")]);
    world.report("east", [absent(&workload)]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.7:80?"]);
    assert_eq!(held(&world), [mk_fact_key(&workload)]);
}
