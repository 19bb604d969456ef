//! Pending entries: present while something waits, and without effect on clients.

use std::sync::Arc;

use super::fixtures::*;
use tributary_model::{
    CatalogChanges, CollectionKind, Declaration, EndEvidence, Evidence, Fact, Mono, ObjectId, Pending,
    PendingCause, RegistryUpdate, WaitingAddress,
};

const PAY: &str = "shop/pay.shop";

/// Parses waiting addresses such as `10.0.0.1=pod-1`, separated by blanks.
pub(super) fn mk_waiting(service: &str, declaration: &str, object: &str, addresses: &str) -> Fact {
    let address = |text: &str| {
        let (ip, pod) = text.split_once('=').unwrap();
        WaitingAddress { ip: ip.parse().unwrap(), waits_for: Arc::new(ObjectId::new("Pod", "shop", pod)) }
    };
    let addresses = addresses.split_whitespace().map(address).collect();
    Fact::Waiting(mk_group_key(service, declaration, object), addresses)
}
fn waiting(addresses: &str) -> Fact {
    mk_waiting(PAY, "pay", "a", addresses)
}
fn decl() -> Fact {
    mk_service(PAY, mk_decl("pay", "80 http"))
}
fn group() -> Fact {
    mk_group(PAY, "pay", "a", "10.0.0.1:http=80")
}
fn pending(world: &mut World) -> Vec<Pending> {
    let catalog = world.catalog();
    catalog.pending.get("pay.shop").map(|list| list.to_vec()).unwrap_or_default()
}
/// Returns each entry as registry, object, cause and start time.
fn shown(world: &mut World) -> Vec<String> {
    let line = |one: Pending| {
        let cause = match one.cause {
            PendingCause::Objects(all) => {
                let all: Vec<_> = all.iter().map(|a| format!("{} for {}", a.ip, a.waits_for)).collect();
                all.join(", ")
            }
            PendingCause::Declaration(of, group) => format!("{} for {of}", group.addresses.len()),
            PendingCause::Held(kind, why) => format!("{kind:?} held: {why}"),
        };
        format!("{} {}: {cause}, since {}", one.shard.registry.name, one.object, one.since.0)
    };
    pending(world).into_iter().map(line).collect()
}

#[test]
fn waiting_address_is_pending_and_concerns_no_client() {
    let mut world = World::of_files();
    world.list("file", [decl()]);
    let before = world.core.status();
    let outcome = world.put("file", [waiting("10.0.0.7=w7 10.0.0.8=w8")]);
    let at = world.now;
    let line = format!("file Slice shop/a: 10.0.0.7 for Pod shop/w7, 10.0.0.8 for Pod shop/w8, since {at}");
    assert_eq!(shown(&mut world), [line]);
    assert_eq!(outcome.changed, CatalogChanges { pending: true, ..CatalogChanges::default() });
    assert!(!outcome.changed.concerns_clients() && !outcome.urgent);
    assert!(outcome.records.is_empty(), "{:?}", outcome.records);
    assert_eq!(world.core.status(), before, "counts and weight do not include it");
    let catalog = world.catalog();
    world.put("file", [waiting("10.0.0.7=w7 10.0.0.8=w8")]);
    assert!(Arc::ptr_eq(&catalog, &world.catalog()), "an equal value changes nothing");
}

#[test]
fn waiting_address_keeps_its_start_time() {
    let mut world = World::of_files();
    world.put("file", [waiting("10.0.0.7=w7 10.0.0.8=w8")]);
    let first = world.now;
    world.put("file", [waiting("10.0.0.8=w8")]);
    assert_eq!(shown(&mut world), [format!("file Slice shop/a: 10.0.0.8 for Pod shop/w8, since {first}")]);
}

#[test]
fn pending_entry_ends_with_its_cause() {
    type End = fn(&mut World);
    let ends: [(&str, End); 6] = [
        ("it is served", |w| drop(w.put("file", [waiting("")]))),
        ("it is deleted", |w| drop(w.report("file", [mk_deleted(&waiting(""))]))),
        ("a list lacks it", |w| drop(w.list("file", [decl()]))),
        ("its scope ended", |w| {
            w.report("file", [RegistryUpdate::End(mk_scope(SCOPE), EndEvidence::Confirmed("gone".into()))]);
        }),
        ("its registry is removed", |w| drop(w.core.remove_registry(&mk_name("file"), &Evidence::Operator))),
        ("a new run lacks it", |w| {
            let shadow = w.shadow("file");
            w.report_in("file", shadow, mk_list([decl()]));
            assert_eq!(w.generation("file"), shadow, "adopted");
        }),
    ];
    for (why, end) in ends {
        let mut world = World::of_files();
        world.list("file", [decl(), waiting("10.0.0.7=w7")]);
        assert_eq!(pending(&mut world).len(), 1);
        end(&mut world);
        assert_eq!(shown(&mut world), Vec::<String>::new(), "{why}");
        world.core.remove_registry(&mk_name("file"), &Evidence::Operator);
        assert!(world.core.is_empty(), "{why}");
    }
}

#[test]
fn new_run_keeps_waiting_addresses_until_it_lists() {
    let mut world = World::of_files();
    world.list("file", [decl(), waiting("10.0.0.7=w7")]);
    let before = shown(&mut world);
    world.restart("file");
    world.report("file", [mk_required(), RegistryUpdate::ListStarted(mk_collection(CollectionKind::Groups))]);
    assert_eq!(shown(&mut world), before);
}

#[test]
fn absence_of_a_waiting_address_is_not_doubted() {
    let mut world = World::confirming();
    world.list("east", [decl(), group(), waiting("10.0.0.7=w7")]);
    let absent = |fact: &Fact| mk_drop(fact, Evidence::AbsentFromList);
    let outcome = world.report("east", [absent(&group()), absent(&waiting(""))]);
    let held: Vec<_> = world.core.held().map(|held| held.key).collect();
    assert_eq!(
        (held, outcome.confirms.len()),
        (vec![mk_fact_key(&group())], 1),
        "the group is more than thirty percent of the scope"
    );
    assert!(pending(&mut world).iter().all(|one| matches!(one.cause, PendingCause::Held(..))));
}

#[test]
fn group_is_pending_until_its_declaration_exists() {
    let mut world = World::of_files();
    world.put("file", [group()]);
    let at = world.now;
    assert_eq!(shown(&mut world), [format!("file Slice shop/a: 1 for ServiceEntry shop/pay, since {at}")]);
    world.put("file", [mk_group(PAY, "pay", "a", "10.0.0.1:http=80 10.0.0.2:http=80")]);
    assert_eq!(shown(&mut world), [format!("file Slice shop/a: 2 for ServiceEntry shop/pay, since {at}")]);
    world.put("file", [decl()]);
    assert_eq!(shown(&mut world), Vec::<String>::new());
    assert_eq!(world.served(PAY, 80).len(), 2);
    world.report("file", [mk_deleted(&decl())]);
    let at = world.now;
    assert_eq!(shown(&mut world), [format!("file Slice shop/a: 2 for ServiceEntry shop/pay, since {at}")]);
    world.report("file", [mk_deleted(&group())]);
    world.core.remove_registry(&mk_name("file"), &Evidence::Operator);
    assert!(world.core.is_empty());
}

#[test]
fn held_removal_is_pending_until_it_is_settled() {
    let mut world = World::confirming();
    world.put("east", [decl(), group()]);
    world.report("east", [mk_drop(&group(), Evidence::AbsentFromList)]);
    let at = world.now;
    let why = "the host would have no endpoint left";
    assert_eq!(shown(&mut world), [format!("east Slice shop/a: Groups held: {why}, since {at}")]);
    world.report("east", [mk_drop(&decl(), Evidence::AbsentFromList)]);
    let why = "the service would vanish";
    let later = world.now;
    assert_eq!(
        shown(&mut world)[0],
        format!("east ServiceEntry shop/pay: Services held: {why}, since {later}")
    );
    world.put("east", [decl()]);
    assert_eq!(shown(&mut world).len(), 1, "the source lists the declaration again");
    world.core.release(Mono(world.now), &mk_name("east"), &mk_fact_key(&group())).unwrap();
    assert_eq!(shown(&mut world), Vec::<String>::new());
}

#[test]
fn held_workload_is_pending_at_its_selecting_host() {
    let mut world = World::confirming();
    let selecting = Declaration { selector: Some(mk_selector("app=pay")), ..mk_decl("pay", "80 http") };
    let workload = mk_workload("w", "10.0.0.7", "app=pay");
    world.put("east", [mk_service(PAY, selecting), workload.clone()]);
    world.report("east", [mk_drop(&workload, Evidence::AbsentFromList)]);
    let (at, why) = (world.now, "the host would have no endpoint left");
    assert_eq!(shown(&mut world), [format!("east WorkloadEntry shop/w: Workloads held: {why}, since {at}")]);
    world.put("east", [workload]);
    assert_eq!(shown(&mut world), Vec::<String>::new());
}

#[test]
fn pending_entries_are_sorted_for_any_order_of_updates() {
    let facts = [
        mk_waiting(PAY, "pay", "b", "10.0.0.8=w8"),
        mk_waiting(PAY, "pay", "a", "10.0.0.7=w7"),
        mk_waiting("web/pay.shop", "pay", "a", "10.0.0.7=w7"),
    ];
    let order = |facts: Vec<Fact>| {
        let mut world = World::of_files();
        world.put("file", facts);
        pending(&mut world)
    };
    let there = order(facts.to_vec());
    assert_eq!(there, order(facts.into_iter().rev().collect()));
    assert!(there.is_sorted_by(|a, b| a.key() <= b.key()) && there.len() == 3);
}
