//! Runs, rotations and priorities: generations fence, unknown is not empty.

use super::fixtures::*;
use super::journal::Journal;
use std::sync::Arc;
use tributary_model::{
    Basis, Collection, CollectionKind, Completeness, Evidence, Fact, Freshness, Generation, ListRecord,
    ListResult, Mono, Namespace, ProviderId, Record, RegistrySpec, RegistryUpdate, Scopes, ShardPriority,
    SourceState, SourceStatus, Visibility, Withheld,
};

pub(super) fn pay(endpoints: &str) -> [tributary_model::Fact; 2] {
    [mk_service("shop/pay.shop", mk_decl("pay", "80 http")), mk_group("shop/pay.shop", "pay", "a", endpoints)]
}
pub(super) fn freshness(world: &mut World, kind: CollectionKind) -> Freshness {
    let catalog = world.catalog();
    let (_, registry) = catalog.registries.iter().next().unwrap();
    registry.collections.iter().find(|(c, _)| c.kind == kind).map(|(_, f)| f.clone()).unwrap_or_default()
}

#[test]
fn catalog_is_complete_when_no_registry_is_unknown() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("file", ProviderId::SERVICE_ENTRY)]);
    assert!(!world.core.tick(Mono(1)).changed.hosts.iter().any(|_| true));
    assert!(!world.catalog().complete, "no registry has reported");
    world.list("east", []);
    assert!(!world.catalog().complete, "the file registry is unknown");
    world.report(
        "file",
        [mk_required(), RegistryUpdate::ListEnded(mk_collection(KINDS[0]), Completeness::Complete)],
    );
    assert!(!world.catalog().complete, "one required collection of three is synced");
    let outcome = world.list("file", []);
    assert!(world.catalog().complete && outcome.changed.complete);
    assert!(!world.list("file", []).changed.concerns_clients(), "clients do not read freshness");
    world.core.set_membership_known(false);
    assert!(!world.catalog().complete, "the list of registries is not known");
}

#[test]
fn update_of_an_old_generation_is_fenced() {
    let mut world = World::of_files();
    let old = world.generation("file");
    world.list("file", pay("10.0.0.1:http=80"));
    world.restart("file");
    let outcome =
        world.report_in("file", old, [mk_deleted(&pay("")[1]), mk_put(pay("10.0.0.9:http=80")[1].clone())]);
    assert!(outcome.changed.is_empty() && outcome.records.is_empty());
    assert_eq!(world.core.counters().fenced, 2);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
}

#[test]
fn failed_run_leaves_its_facts_served_and_stale() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    assert_eq!(freshness(&mut world, KINDS[1]), Freshness::Live);
    world.core.fail(Mono(500), &mk_name("file"), &Arc::from("it broke"));
    world.restart("file");
    let Freshness::Stale { since, why } = freshness(&mut world, KINDS[1]) else { panic!("not stale") };
    assert_eq!((since.0, &*why), (Mono(500), "it broke"));
    assert!(world.catalog().complete, "stale is not unknown");
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    world.list("file", pay("10.0.0.2:http=80"));
    assert_eq!(freshness(&mut world, KINDS[1]), Freshness::Live);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"]);
}

#[test]
fn unreachable_source_makes_its_scope_stale() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let status =
        |state| RegistryUpdate::Status(mk_scope(SCOPE), SourceStatus { state, ..SourceStatus::default() });
    world.report("file", [status(SourceState::Unreachable)]);
    assert!(matches!(freshness(&mut world, KINDS[0]), Freshness::Stale { .. }));
    world.report("file", [RegistryUpdate::Progress(mk_collection(KINDS[0]))]);
    assert_eq!(freshness(&mut world, KINDS[0]), Freshness::Live);
    assert!(matches!(freshness(&mut world, KINDS[1]), Freshness::Stale { .. }));
    world.report("file", [status(SourceState::Live)]);
    assert_eq!(freshness(&mut world, KINDS[1]), Freshness::Live);
}

#[test]
fn partial_list_ends_but_stays_open() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let collection = mk_collection(KINDS[0]);
    let partial = RegistryUpdate::ListEnded(collection.clone(), Completeness::Partial);
    world.report(
        "file",
        [RegistryUpdate::ListStarted(collection.clone()), mk_put(pay("")[0].clone()), partial],
    );
    let down = SourceStatus { state: SourceState::Unreachable, ..SourceStatus::default() };
    world.report("file", [RegistryUpdate::Status(mk_scope(SCOPE), down)]);
    world.report("file", [RegistryUpdate::Progress(collection.clone())]);
    assert_eq!(
        freshness(&mut world, KINDS[0]),
        Freshness::Live,
        "the list has ended, although it stays open"
    );
    world.report(
        "file",
        [RegistryUpdate::ListStarted(collection.clone()), RegistryUpdate::Progress(collection)],
    );
    assert!(matches!(freshness(&mut world, KINDS[0]), Freshness::Stale { .. }), "a list is under way");
}

#[test]
fn waiting_run_shows_why_it_fails() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let shadow = world.shadow("file");
    let waits_for =
        |world: &World| world.core.status()[0].waits_for.as_deref().unwrap_or_default().to_owned();
    assert_eq!(waits_for(&world), "the new run has not listed everything yet");
    let status = SourceStatus::new(SourceState::Unreachable, "no kubeconfig");
    world.report_in("file", shadow, [RegistryUpdate::Status(mk_scope(SCOPE), status)]);
    assert_eq!(waits_for(&world), "the new run has not listed everything yet: no kubeconfig");
    let failure = |world: &World| world.core.status()[0].shadow_failure.clone();
    assert_eq!(failure(&world), None, "no served run reports: this is the state of the registry");
    let live = SourceStatus::new(SourceState::Live, "");
    world.report("file", [RegistryUpdate::Status(mk_scope(SCOPE), live)]);
    assert_eq!(failure(&world).as_deref(), Some("no kubeconfig"));
}

#[test]
fn shadow_is_adopted_in_one_batch_once_it_is_synced() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    world.put("file", [mk_service("shop/old.shop", mk_decl("old", "80 http"))]);
    let shadow = world.shadow("file");
    world.put("file", pay("10.0.0.3:http=80"));
    assert_eq!(
        world.served("shop/pay.shop", 80),
        ["10.0.0.3:80"],
        "the served run is followed until the adoption"
    );
    let mut updates = mk_list(pay("10.0.0.2:http=80"));
    let last = updates.pop().unwrap();
    for update in updates {
        let outcome = world.report_in("file", shadow, [update]);
        assert!(outcome.changed.hosts.is_empty(), "the old generation serves until the adoption");
    }
    let outcome = world.report_in("file", shadow, [last]);
    assert_eq!(outcome.changed.hosts.len(), 2);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"]);
    assert!(world.view("shop/old.shop").is_none(), "the new run did not list it");
    let superseded = |r: &Record| matches!(r, Record::Remove(_, _, Evidence::Superseded(g)) if *g == shadow);
    assert!(outcome.records.iter().any(superseded));
    let late = world.report_in("file", Generation(1), [mk_deleted(&pay("")[0])]);
    assert!(late.changed.is_empty(), "the old run is fenced");
}

#[test]
fn rotation_with_equal_facts_changes_no_view() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let before = world.view("shop/pay.shop").unwrap();
    let shadow = world.shadow("file");
    let outcome = world.report_in("file", shadow, mk_list(pay("10.0.0.1:http=80")));
    assert!(outcome.changed.hosts.is_empty() && fact_records(&outcome).is_empty());
    assert!(Arc::ptr_eq(&before, &world.view("shop/pay.shop").unwrap()));
}

#[test]
fn adopted_run_removes_only_what_it_listed_completely() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let shadow = world.shadow("file");
    let mut updates = mk_list([]);
    for update in &mut updates {
        if let RegistryUpdate::ListEnded(c, how) = update
            && c.kind == CollectionKind::Groups
        {
            *how = Completeness::Filtered;
        }
    }
    updates.push(mk_put(pay("")[0].clone()));
    world.report_in("file", shadow, updates);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
}

#[test]
fn restored_facts_are_stale_until_the_first_list() {
    let mut world = World::default();
    world.add_registry(&mk_spec("file", ProviderId::SERVICE_ENTRY));
    let [decl, group] = pay("10.0.0.1:http=80");
    let gone = mk_service("shop/gone.shop", mk_decl("gone", "80 http"));
    let list = |kind, count| {
        let (required, result, confirmed) = (true, Some(ListResult::Complete), Some(Mono(3)));
        let list = ListRecord { required, result, count, confirmed };
        Record::List(mk_name("file"), mk_collection(kind), list)
    };
    let put = |fact: &Fact| Record::Put(mk_name("file"), mk_scope(SCOPE), fact.clone());
    let records = vec![list(KINDS[0], 2), list(KINDS[1], 1), put(&decl), put(&group), put(&gone)];
    let outcome = world.core.restore(Mono(50), &mk_name("file"), records, false);
    assert!(outcome.records.is_empty(), "the journal has them already");
    assert!(world.catalog().complete, "restored facts count as known");
    let Freshness::Stale { since, .. } = freshness(&mut world, KINDS[0]) else { panic!("not stale") };
    assert_eq!(since.0, Mono(3), "the age counts from the last confirmation");
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    world.restart("file");
    world.list("file", [decl, group]);
    assert!(world.view("shop/gone.shop").is_none());
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
}

#[test]
fn unrestored_scope_is_unknown_until_it_is_listed() {
    let (mut world, name) = (World::default(), mk_name("file"));
    world.add_registry(&mk_spec("file", ProviderId::SERVICE_ENTRY));
    let (required, result, confirmed) = (true, Some(ListResult::Complete), Some(Mono(3)));
    let list = ListRecord { required, result, count: 0, confirmed };
    let other = tributary_model::Collection { scope: mk_scope("other"), kind: KINDS[0] };
    world.core.restore(Mono(50), &name, vec![Record::List(name.clone(), other, list)], false);
    assert!(world.catalog().complete, "everything was restored");
    world.core.forget(&name, &mk_scope(SCOPE));
    assert!(!world.catalog().complete, "the scope is unknown, not empty");
    world.restart("file");
    assert!(!world.catalog().complete, "the run has reported nothing");
    let optional = KINDS.map(mk_collection).to_vec();
    let refused = optional.iter().map(|of| RegistryUpdate::Withheld(of.clone(), Withheld::forbidden("403")));
    let refused: Vec<RegistryUpdate> = refused.collect();
    let follows = RegistryUpdate::Follows { required: Vec::new(), optional };
    world.report("file", std::iter::once(follows).chain(refused).collect::<Vec<_>>());
    assert!(!world.catalog().complete, "an unreadable collection stays unknown");
    world.list("file", pay("10.0.0.1:http=80"));
    assert!(world.catalog().complete);
}

#[test]
fn held_removal_keeps_its_reason_over_a_restart() {
    let spec = RegistrySpec { can_confirm: true, ..mk_spec("file", ProviderId::SERVICE_ENTRY) };
    let (mut world, mut journal) = (World::with(std::slice::from_ref(&spec)), Journal::default());
    let [decl, group] = pay("10.0.0.1:http=80");
    let gone = mk_drop(&group, Evidence::AbsentFromList);
    journal.take(world.report("file", [mk_put(decl), mk_put(group)]).records);
    journal.take(world.report("file", [gone]).records);
    let held = |world: &World| world.core.held().map(|held| (held.key, held.reason)).collect::<Vec<_>>();
    assert_eq!(held(&world).len(), 1);
    assert_eq!(held(&journal.restored(&[spec])), held(&world));
}

#[test]
fn unreported_scope_stays_stale_until_an_operator_ends_it() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let other = mk_scope("elsewhere");
    let [decl, _] = pay("");
    world.restart("file");
    let collection = tributary_model::Collection { scope: other.clone(), kind: CollectionKind::Services };
    let required = vec![collection.clone()];
    world.report(
        "file",
        [
            RegistryUpdate::Follows { required, optional: Vec::new() },
            RegistryUpdate::ListStarted(collection.clone()),
            RegistryUpdate::Put(other, decl, Basis::Authoritative),
            RegistryUpdate::ListEnded(collection, Completeness::Complete),
        ],
    );
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "a scope without updates keeps its facts");
    assert!(matches!(freshness(&mut world, KINDS[1]), Freshness::Stale { .. }));
    let (name, scope) = (mk_name("file"), mk_scope(SCOPE));
    let plan = world.core.end_plan(&name, Some(&scope), None);
    assert_eq!(plan.iter().map(|part| part.facts).sum::<u64>(), 2);
    world.core.end(Mono(900), &name, Some(&scope), None);
    let view = world.view("shop/pay.shop").unwrap();
    assert_eq!((view.declarations.len(), view.addresses), (1, 0));
}

#[test]
fn removed_registry_takes_only_its_own_facts() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("west", ProviderId::KUBERNETES)]);
    world.list("east", pay("10.0.0.1:http=80"));
    world.list("west", pay("10.1.0.1:http=80"));
    let outcome = world.core.remove_registry(&mk_name("east"), &Evidence::Operator);
    assert!(outcome.urgent && fact_records(&outcome).len() == 2);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.1.0.1:80"]);
    assert_eq!(world.catalog().registries.len(), 1);
    world.add_registry(&mk_spec("north", ProviderId::KUBERNETES));
    world.restart("north");
    world.list("north", pay("10.2.0.1:http=80"));
    assert_eq!(
        world.served("shop/pay.shop", 80),
        ["10.1.0.1:80", "10.2.0.1:80"],
        "a freed shard number is reused"
    );
}

#[test]
fn second_registry_of_a_name_is_rejected() {
    let mut world = World::of_files();
    assert!(world.core.add_registry(&mk_spec("file", ProviderId::SERVICE_ENTRY)).unwrap().changed.is_empty());
    let error = world.core.add_registry(&mk_spec("file", ProviderId::CONSUL)).unwrap_err();
    assert_eq!(error.code().number(), 110);
    assert!(error.to_string().contains("ServiceEntry/file"), "{error}");
}

#[test]
fn demoted_registry_is_served_at_lower_priority() {
    let mut world = World::of_files();
    let decl =
        tributary_model::Declaration { selector: Some(mk_selector("app=pay")), ..mk_decl("sel", "80 http") };
    world.list(
        "file",
        pay("10.0.0.1:http=80")
            .into_iter()
            .chain([mk_service("shop/sel.shop", decl), mk_workload("w", "10.0.0.5", "app=pay")]),
    );
    world.core.set_priority(Mono(50), &mk_name("file"), ShardPriority::Demoted);
    for service in ["shop/pay.shop", "shop/sel.shop"] {
        let view = world.view(service).unwrap();
        assert_eq!(view.ports[0].endpoints.inputs.sources[0].priority, ShardPriority::Demoted, "{service}");
    }
    assert_eq!(world.core.counters().full_passes.priority, 1);
}

#[test]
fn namespace_has_its_own_and_its_exported_hosts() {
    let mut world = World::of_files();
    let exported = tributary_model::Declaration {
        export: tributary_model::ExportTo::Set(Visibility::Namespaces([mk_ns("web")].into())),
        ..mk_decl("pay", "80 http")
    };
    world.list(
        "file",
        [mk_service("shop/pay.shop", exported), mk_service("shop/cart.shop", mk_decl("cart", "80 http"))],
    );
    let hosts = |world: &mut World, ns: &str| -> Vec<String> {
        let key: Namespace = mk_ns(ns);
        world
            .catalog()
            .scoped
            .get(&key)
            .map(|s| s.iter().map(ToString::to_string).collect())
            .unwrap_or_default()
    };
    assert_eq!(hosts(&mut world, "shop"), ["cart.shop", "pay.shop"]);
    assert_eq!(hosts(&mut world, "web"), ["pay.shop"]);
    world.list("file", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    assert_eq!(hosts(&mut world, "shop"), ["pay.shop"]);
    assert!(hosts(&mut world, "web").is_empty());
}

#[test]
fn list_open_at_adoption_removes_old_facts_when_it_ends() {
    let mut world = World::of_files();
    let workload = mk_workload("w", "10.0.0.7", "");
    world.list("file", pay("10.0.0.1:http=80").into_iter().chain([workload]));
    let shadow = world.shadow("file");
    let mut updates = mk_list(pay("10.0.0.1:http=80"));
    updates[0] = RegistryUpdate::Follows {
        required: vec![mk_collection(KINDS[0]), mk_collection(KINDS[1])],
        optional: Vec::new(),
    };
    let is_last = |update: &RegistryUpdate| matches!(update, RegistryUpdate::ListEnded(collection, _) if collection.kind == KINDS[2]);
    let last = updates.remove(updates.iter().position(is_last).unwrap());
    world.core.fail(Mono(world.now), &mk_name("file"), &"it broke".into());
    world.report_in("file", shadow, updates);
    assert_eq!(world.catalog().workloads.len(), 1, "adopted; workloads are not listed yet");
    assert_eq!(world.catalog().registries.get(&mk_name("file")).unwrap().generation, shadow);
    world.report_in("file", shadow, [last]);
    assert!(world.catalog().workloads.is_empty());
}

#[test]
fn unfollowed_collection_stays_while_it_is_listed() {
    let mut world = World::of_files();
    let workload = mk_workload("w", "10.0.0.7", "");
    world.list("file", [workload.clone()]);
    world.restart("file");
    let synced = |kind| RegistryUpdate::ListEnded(mk_collection(kind), Completeness::Complete);
    world.report(
        "file",
        [
            RegistryUpdate::Follows { required: vec![mk_collection(KINDS[0])], optional: Vec::new() },
            RegistryUpdate::ListStarted(mk_collection(KINDS[2])),
            synced(KINDS[0]),
        ],
    );
    assert_eq!(world.catalog().workloads.len(), 1);
    world.report("file", [mk_put(workload), synced(KINDS[2])]);
    assert_eq!(world.catalog().workloads.len(), 1);
}

#[test]
fn number_of_scopes_is_bounded() {
    let mut world = World::of_files();
    let scope = |i: usize| mk_scope(&format!("scope-{i}"));
    let restart = |i| {
        let collection = tributary_model::Collection { scope: scope(i), kind: CollectionKind::Services };
        RegistryUpdate::ListStarted(collection)
    };
    world.report("file", (0..4_200).map(restart));
    assert_eq!(world.core.status()[0].collections.len(), 4_096);
    assert_eq!(world.core.counters().refused, 104);
    let mut world = World::of_files();
    let put = |i| {
        let decl = mk_service(&format!("shop/s{i}.shop"), mk_decl("x", "80 http"));
        RegistryUpdate::Put(scope(i), decl, Basis::Authoritative)
    };
    world.report("file", (0..4_100).map(put));
    assert_eq!((world.catalog().hosts.len(), world.core.counters().refused), (4_096, 4));
}

/// A registry with another folder: the served run reads its own until the new one has listed.
#[test]
fn scope_of_the_served_run_stays_until_a_run_with_another_one_serves() {
    let configured = |scope: &str| Scopes::Configured([mk_scope(scope)].into());
    let spec =
        RegistrySpec { scopes: configured(SCOPE), ..mk_spec("file", ProviderId::SERVICE_ENTRY).shadowing() };
    let mut world = World::with(&[spec]);
    world.list("file", pay("10.0.0.1:http=80"));
    let mut order = world.order("file");
    order.spec.scopes = configured("another");
    world.core.begin_shadows(Mono(world.now), std::slice::from_ref(&order)).unwrap();
    world.list("file", pay("10.0.0.2:http=80"));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"], "the served run goes on");
    world.core.drop_shadow(&mk_name("file"));
    world.list("file", pay("10.0.0.3:http=80"));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.3:80"], "also between two runs");

    world.core.begin_shadows(Mono(world.now), std::slice::from_ref(&order)).unwrap();
    let elsewhere = |update: RegistryUpdate| match update {
        RegistryUpdate::Put(_, fact, basis) => RegistryUpdate::Put(mk_scope("another"), fact, basis),
        RegistryUpdate::ListStarted(of) => {
            RegistryUpdate::ListStarted(Collection { scope: mk_scope("another"), ..of })
        }
        RegistryUpdate::ListEnded(of, how) => {
            RegistryUpdate::ListEnded(Collection { scope: mk_scope("another"), ..of }, how)
        }
        RegistryUpdate::Follows { required, optional } => {
            let of = |one: Collection| Collection { scope: mk_scope("another"), ..one };
            RegistryUpdate::Follows { required: required.into_iter().map(of).collect(), optional }
        }
        other => other,
    };
    let list = mk_list(pay("10.0.0.9:http=80")).into_iter().map(elsewhere).collect::<Vec<_>>();
    world.report_in("file", order.generation, list);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.9:80"]);
}
