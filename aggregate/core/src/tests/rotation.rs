//! Orders, rotations, identities and ended scopes: which run may replace the served one, and when.

use super::fixtures::*;
use super::generations::{freshness, pay};
use super::journal::Journal;
use crate::RunOrder;
use std::time::Duration;
use tributary_model::{
    Basis, CollectionKind, Completeness, Declaration, EndEvidence, Evidence, Fingerprint, Freshness,
    Generation, Mono, ProviderId, Record, RegistryUpdate, ShardPriority, SourcePart, SourceState,
    SourceStatus, StalePolicy, Withheld,
};

#[test]
fn order_for_a_replaced_generation_is_refused() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let queued = world.order("file");
    let shadow = world.shadow("file");
    world.report_in("file", shadow, mk_list(pay("10.0.0.2:http=80")));
    let refused = world.core.serve(Mono(700), &queued).unwrap_err();
    assert_eq!((refused.in_force, refused.expected), (shadow, queued.replaces));
    assert!(world.core.begin_shadows(Mono(700), &[queued]).is_err());
    assert_eq!(freshness(&mut world, KINDS[0]), Freshness::Live, "the adopted run is unchanged");
    let outcome = world.report_in("file", shadow, [mk_put(pay("10.0.0.3:http=80")[1].clone())]);
    assert!(!outcome.changed.hosts.is_empty(), "updates of the adopted run are accepted");
}

/// Two registries with an address each, and shadows of both that are adopted together.
fn mk_two_shadows() -> (World, [RunOrder; 2]) {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("file", ProviderId::SERVICE_ENTRY)]);
    world.list("east", pay("10.0.0.1:http=80"));
    world.list("file", pay("10.1.0.1:http=80"));
    let orders = [world.order("east"), world.order("file")];
    world.core.begin_shadows(Mono(400), &orders).unwrap();
    (world, orders)
}

#[test]
fn shadows_of_one_set_are_adopted_together() {
    let (mut world, orders) = mk_two_shadows();
    world.report_in("east", orders[0].generation, mk_list(pay("10.0.0.2:http=80")));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80", "10.1.0.1:80"], "one of two is not enough");
    world.report_in("file", orders[1].generation, mk_list(pay("10.1.0.2:http=80")));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80", "10.1.0.2:80"]);
}

#[test]
fn weaker_run_waits_for_a_failure_or_for_acceptance() {
    let weaker = || {
        let mut world = World::of_files();
        world.list("file", pay("10.0.0.1:http=80"));
        let shadow = world.shadow("file");
        let mut updates = mk_list([pay("")[0].clone()]);
        updates.retain(|w| !matches!(w, RegistryUpdate::ListEnded(c, _) if c.kind == CollectionKind::Groups));
        updates.push(RegistryUpdate::Withheld(
            mk_collection(CollectionKind::Groups),
            Withheld::forbidden("403"),
        ));
        world.report_in("file", shadow, updates);
        assert_eq!(world.generation("file"), Generation(1), "it can read less");
        let waits_for = world.core.status()[0].waits_for.clone().unwrap();
        assert!(waits_for.contains("the endpoints of scope "), "{waits_for}");
        assert!(world.core.status()[0].needs_accept);
        (world, shadow)
    };
    let (mut world, shadow) = weaker();
    world.core.fail(Mono(800), &mk_name("file"), &"401".into());
    assert_eq!(world.generation("file"), shadow);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "unreadable facts stay");
    let Freshness::Stale { why, .. } = freshness(&mut world, CollectionKind::Groups) else { panic!() };
    assert_eq!(&*why, "403");

    let (mut world, shadow) = weaker();
    assert!(world.core.accept(Mono(800), &mk_name("file")).0);
    assert_eq!(world.generation("file"), shadow);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    assert!(!world.core.accept(Mono(801), &mk_name("file")).0, "nothing remains to accept");
}

#[test]
fn run_that_lost_its_source_after_its_list_waits_until_it_is_followed() {
    let (mut world, orders) = mk_two_shadows();
    let (east, file) = (orders[0].generation, orders[1].generation);
    let status = |state| RegistryUpdate::Status(mk_scope(SCOPE), SourceStatus::new(state, "401"));
    world.report_in("east", east, mk_list(pay("10.0.0.1:http=80")));
    world.report_in("east", east, [status(SourceState::AuthFailed)]);
    // the served run sees an endpoint meanwhile
    world.report("east", [mk_put(pay("10.0.0.1:http=80 10.0.0.2:http=80")[1].clone())]);
    world.report_in("file", file, mk_list(pay("10.1.0.1:http=80")));
    let served = ["10.0.0.1:80", "10.0.0.2:80", "10.1.0.1:80"];
    assert_eq!(world.served("shop/pay.shop", 80), served, "it may lack endpoints");
    let status_of = world.core.status().swap_remove(0);
    let waits_for = status_of.waits_for.as_deref();
    assert_eq!(waits_for, Some("the new run does not follow everything that it has listed: 401"));
    assert!(!status_of.needs_accept && !world.core.accept(Mono(800), &mk_name("east")).0);
    let both = mk_put(pay("10.0.0.1:http=80 10.0.0.2:http=80")[1].clone());
    world.report_in("east", east, [both, status(SourceState::Live)]);
    assert_eq!((world.generation("east"), world.generation("file")), (east, file));
    assert_eq!(world.served("shop/pay.shop", 80), served);
}

/// A kind that nothing waits for gives attributes, such as the zones of endpoints.
#[test]
fn run_that_may_not_read_a_part_that_the_served_run_reads_waits_for_acceptance() {
    let status = |state| {
        let part = SourcePart { name: "nodes".into(), state, ..SourcePart::default() };
        let status = SourceStatus { parts: [part].into(), ..SourceStatus::new(SourceState::Live, "") };
        RegistryUpdate::Status(mk_scope(SCOPE), status)
    };
    let begins = |served: SourceState| {
        let mut world = World::of_files();
        world.list("file", pay("10.0.0.1:http=80"));
        world.report("file", [status(served)]);
        let shadow = world.shadow("file");
        let mut updates = mk_list(pay("10.0.0.1:http=80"));
        updates.insert(0, status(SourceState::Forbidden));
        world.report_in("file", shadow, updates);
        (world, shadow)
    };
    let (mut world, shadow) = begins(SourceState::Live);
    let shown = world.core.status().swap_remove(0);
    assert_eq!(
        (shown.waits_for.as_deref(), shown.needs_accept),
        (Some("the new run may not read nodes"), true)
    );
    assert!(world.core.accept(Mono(900), &mk_name("file")).0);
    assert_eq!(world.generation("file"), shadow);
    for served in [SourceState::Forbidden, SourceState::Unreachable] {
        let (world, shadow) = begins(served);
        assert_eq!(world.generation("file"), shadow, "nothing is lost: {served:?}");
    }
}

/// An event reaches the served run first, or a watch of the new run is broken for a moment.
#[test]
fn run_waits_for_changes_that_the_served_run_has_seen_since_its_list_began() {
    let begins = || {
        let mut world = World::of_files();
        world.list("file", pay("10.0.0.1:http=80"));
        let shadow = world.shadow("file");
        let mut list = mk_list(pay("10.0.0.1:http=80"));
        let rest = list.split_off(list.len() - 1);
        world.report_in("file", shadow, list);
        world.report("file", [mk_put(pay("10.0.0.1:http=80 10.0.0.2:http=80")[1].clone())]);
        world.report_in("file", shadow, rest);
        assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80", "10.0.0.2:80"], "it lacks an endpoint");
        let status = world.core.status().swap_remove(0);
        let waits_for = "the last changes have not reached the new run yet";
        assert_eq!((status.waits_for.as_deref(), status.needs_accept), (Some(waits_for), false));
        (world, shadow)
    };
    let adopted = |world: &mut World, shadow, expected: &[&str]| {
        assert_eq!(world.generation("file"), shadow);
        assert_eq!(world.served("shop/pay.shop", 80), expected);
    };
    // the change reaches it
    let (mut world, shadow) = begins();
    world.report_in("file", shadow, [mk_put(pay("10.0.0.1:http=80 10.0.0.2:http=80")[1].clone())]);
    adopted(&mut world, shadow, &["10.0.0.1:80", "10.0.0.2:80"]);
    // the served run sees it go again
    let (mut world, shadow) = begins();
    world.report("file", [mk_put(pay("10.0.0.1:http=80")[1].clone())]);
    adopted(&mut world, shadow, &["10.0.0.1:80"]);
    // its source confirms the collection later
    let progress = || RegistryUpdate::Progress(mk_collection(CollectionKind::Groups));
    let (mut world, shadow) = begins();
    world.report_in("file", shadow, [progress()]);
    assert_ne!(world.generation("file"), shadow, "a confirmation that was under way covers nothing");
    world.now += 1_000;
    world.report_in("file", shadow, [progress()]);
    adopted(&mut world, shadow, &["10.0.0.1:80"]);
    // the served run fails: what it has seen is older than the list
    let (mut world, shadow) = begins();
    world.core.fail(Mono(world.now), &mk_name("file"), &"401".into());
    adopted(&mut world, shadow, &["10.0.0.1:80"]);
    // a source that changes all the time has always a change under way
    let (mut world, shadow) = begins();
    world.now += 30_000;
    world.report("file", [mk_put(pay("10.0.0.1:http=80 10.0.0.3:http=80")[1].clone())]);
    adopted(&mut world, shadow, &["10.0.0.1:80"]);
}

#[test]
fn run_that_has_not_listed_cannot_be_accepted() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let mut world = World::of_files();
    world.report("file", [identity("uid-1")]);
    world.list("file", pay("10.0.0.1:http=80"));
    let shadow = world.shadow("file");
    assert!(!world.core.accept(Mono(800), &mk_name("file")).0, "its facts are not known yet");
    world.report_in(
        "file",
        shadow,
        std::iter::once(identity("uid-2")).chain(mk_list([])).collect::<Vec<_>>(),
    );
    assert_eq!(
        world.served("shop/pay.shop", 80),
        ["10.0.0.1:80"],
        "a different cluster that no operator accepted"
    );
}

#[test]
fn empty_registry_with_a_pinned_source_waits_for_acceptance() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let mut world = World::of_files();
    world.report("file", [identity("uid-1")]);
    world.list("file", []);
    let mut order = world.order("file");
    order.spec = order.spec.shadowing();
    assert!(world.core.serve(Mono(500), &order).unwrap().1.in_shadow);
    let updates = std::iter::once(identity("uid-2")).chain(mk_list(pay("10.0.0.1:http=80")));
    world.report_in("file", order.generation, updates.collect::<Vec<_>>());
    assert!(world.view("shop/pay.shop").is_none(), "facts of a different cluster must wait");
    assert!(world.core.accept(Mono(800), &mk_name("file")).0);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
}

#[test]
fn stale_scope_is_served_by_its_policy_until_it_is_live() {
    let table = [
        (StalePolicy::Hold, Some(ShardPriority::Normal)),
        (StalePolicy::Degrade(Duration::from_secs(60)), Some(ShardPriority::Demoted)),
        (StalePolicy::Withdraw(Duration::from_secs(60)), None),
    ];
    for (policy, then) in table {
        let mut world = World::with(&[mk_spec("file", ProviderId::SERVICE_ENTRY).when_stale(policy)]);
        let selecting = Declaration { selector: Some(mk_selector("app=pay")), ..mk_decl("sel", "80 http") };
        let more = [mk_service("shop/sel.shop", selecting), mk_workload("w", "10.0.0.5", "app=pay")];
        world.list("file", pay("10.0.0.1:http=80").into_iter().chain(more));
        let priority = |world: &mut World, service: &str| {
            let view = world.view(service)?;
            view.ports[0].endpoints.inputs.sources.first().map(|source| source.priority)
        };
        world.core.fail(Mono(1_000), &mk_name("file"), &"401".into());
        world.core.tick(Mono(60_000));
        assert_eq!(
            priority(&mut world, "shop/pay.shop"),
            Some(ShardPriority::Normal),
            "{policy:?}: it is not due"
        );
        if policy != StalePolicy::Hold {
            assert_eq!(world.core.next_tick(), Some(Mono(61_000)));
        }
        let outcome = world.core.tick(Mono(61_000));
        for service in ["shop/pay.shop", "shop/sel.shop"] {
            assert_eq!(priority(&mut world, service), then, "{policy:?}");
        }
        assert_eq!(outcome.urgent, policy != StalePolicy::Hold);
        assert!(fact_records(&outcome).is_empty(), "the journal keeps the facts");
        world.now = 62_000;
        world.restart("file");
        world.list("file", pay("10.0.0.1:http=80"));
        assert_eq!(
            priority(&mut world, "shop/pay.shop"),
            Some(ShardPriority::Normal),
            "{policy:?}: it is back"
        );
    }
}

#[test]
fn staleness_policy_counts_from_the_restart() {
    let policy = StalePolicy::Withdraw(Duration::from_secs(60));
    let spec = mk_spec("file", ProviderId::SERVICE_ENTRY).when_stale(policy);
    let (mut before, mut journal) = (World::with(std::slice::from_ref(&spec)), Journal::default());
    journal.take(before.report("file", mk_list(pay("10.0.0.1:http=80"))).records);
    let mut world = World::default();
    world.add_registry(&spec);
    let down_for_an_hour = Mono(3_600_000);
    world.core.restore(down_for_an_hour, &spec.id.name, journal.records(&spec.id.name), false);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "its source had no time to answer");
    world.core.tick(down_for_an_hour.plus(Duration::from_secs(59)));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    world.core.tick(down_for_an_hour.plus(Duration::from_secs(60)));
    assert!(world.view("shop/pay.shop").is_none());
}

#[test]
fn source_with_a_changed_identity_waits_for_acceptance() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let mut world = World::of_files();
    world.report("file", [identity("uid-1")]);
    world.list("file", pay("10.0.0.1:http=80"));
    let shadow = world.shadow("file");
    world.report_in(
        "file",
        shadow,
        std::iter::once(identity("uid-2")).chain(mk_list([])).collect::<Vec<_>>(),
    );
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "an empty cluster with the same name");
    assert!(world.core.accept(Mono(800), &mk_name("file")).0);
    assert!(world.view("shop/pay.shop").is_none());

    let mut world = World::of_files();
    world.report("file", [identity("uid-1")]);
    world.list("file", pay("10.0.0.1:http=80"));
    world.restart("file");
    world.report("file", std::iter::once(identity("uid-2")).chain(mk_list([])).collect::<Vec<_>>());
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "the same without a shadow");
}

#[test]
fn named_identity_alone_is_accepted() {
    let uid = |text: &str| Fingerprint::new(text).unwrap();
    let mut world = World::of_files();
    world.report("file", [RegistryUpdate::Identity(uid("uid-1"))]);
    world.list("file", pay("10.0.0.1:http=80"));
    let swapped = |world: &mut World, text: &str| {
        let shadow = world.shadow("file");
        let updates =
            std::iter::once(RegistryUpdate::Identity(uid(text))).chain(mk_list(pay("10.0.0.2:http=80")));
        world.report_in("file", shadow, updates.collect::<Vec<_>>());
    };
    let name = [mk_name("file")];
    swapped(&mut world, "uid-2");
    world.core.set_accepted(Mono(800), &name, (Some(&uid("uid-3")), false));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "another one was named");
    assert!(world.core.status()[0].needs_accept);
    let outcome = world.core.set_accepted(Mono(801), &name, (Some(&uid("uid-2")), false));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"]);
    assert!(
        outcome.records.contains(&Record::Identity(name[0].clone(), uid("uid-2"))),
        "the journal pins it"
    );

    // named before the run begins
    world.core.set_accepted(Mono(802), &name, (Some(&uid("uid-4")), false));
    swapped(&mut world, "uid-4");
    assert_eq!(world.core.status()[0].identity, Some(uid("uid-4")));
    // a right that is less is no matter of the identity
    world.core.set_accepted(Mono(803), &name, (Some(&uid("uid-5")), false));
    let shadow = world.shadow("file");
    let listed = [RegistryUpdate::Identity(uid("uid-5"))].into_iter().chain(mk_list([pay("")[0].clone()]));
    let is_groups =
        |w: &RegistryUpdate| matches!(w, RegistryUpdate::ListEnded(c, _) if c.kind == CollectionKind::Groups);
    let withheld =
        RegistryUpdate::Withheld(mk_collection(CollectionKind::Groups), Withheld::forbidden("403"));
    let updates: Vec<_> = listed.filter(|w| !is_groups(w)).chain([withheld]).collect();
    world.report_in("file", shadow, updates);
    assert_eq!(world.core.status()[0].identity, Some(uid("uid-4")), "it can read less");
    // both are accepted at once
    world.core.set_accepted(Mono(804), &name, (Some(&uid("uid-5")), true));
    assert_eq!(world.core.status()[0].identity, Some(uid("uid-5")));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80"], "what it may not read stays");
    assert!(!world.core.status()[0].needs_accept);
}

#[test]
fn identity_that_is_pinned_from_outside_counts_until_one_is_known() {
    let uid = |text: &str| Fingerprint::new(text).unwrap();
    let pinned = |text: &str| mk_spec("file", ProviderId::SERVICE_ENTRY).shadowing().pinned(Some(uid(text)));
    let listed = |text: &str| {
        let identity = [RegistryUpdate::Identity(uid(text))];
        identity.into_iter().chain(mk_list(pay("10.0.0.1:http=80"))).collect::<Vec<_>>()
    };
    let mut world = World::with(&[pinned("uid-1")]);
    let mut order = world.order("file");
    order.spec = pinned("uid-1");
    assert!(world.core.serve(Mono(500), &order).unwrap().1.in_shadow, "nothing is served before it is known");
    world.report_in("file", order.generation, listed("uid-2"));
    assert!(world.view("shop/pay.shop").is_none(), "another cluster answers");
    assert_eq!(world.core.status()[0].found_identity, Some(uid("uid-2")));
    world.core.set_accepted(Mono(800), &[mk_name("file")], (Some(&uid("uid-2")), false));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    // a later run with another pin: what the source reported counts
    let mut order = world.order("file");
    order.spec = pinned("uid-3");
    world.core.serve(Mono(900), &order).unwrap();
    world.report_in("file", order.generation, listed("uid-2"));
    assert_eq!(world.generation("file"), order.generation);
}

#[test]
fn ended_run_leaves_its_reason_and_shows_the_next_status() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let scope = || mk_collection(KINDS[0]).scope;
    let status = |state, why: &str| RegistryUpdate::Status(scope(), SourceStatus::new(state, why));
    let mut world = World::of_files();
    world.report("file", [identity("uid-1")]);
    world.list("file", pay("10.0.0.1:http=80"));
    world.report("file", [status(SourceState::Forbidden, "403")]);
    world.core.fail(Mono(700), &mk_name("file"), &"another cluster answers".into());
    assert!(world.core.status()[0].sources.is_empty(), "an ended run has no status");
    for kind in KINDS {
        let Freshness::Stale { why, .. } = freshness(&mut world, kind) else { panic!("{kind:?}") };
        assert_eq!(&*why, "another cluster answers");
    }
    let shadow = world.shadow("file");
    world.report_in("file", shadow, [identity("uid-2"), status(SourceState::Live, "")]);
    let shown = world.core.status().remove(0);
    let waits_for = shown.waits_for.unwrap();
    assert!(waits_for.starts_with("the source's identity changed"), "{waits_for}");
    assert_eq!(shown.sources[&scope()].status.state, SourceState::Live);
}

#[test]
fn shadow_takes_over_collections_that_it_cannot_read() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    world.core.fail(Mono(300), &mk_name("file"), &"gone".into());
    let shadow = world.shadow("file");
    let [decl, group] = pay("10.0.0.1:http=80");
    let follows = RegistryUpdate::Follows {
        required: vec![mk_collection(KINDS[0])],
        optional: vec![mk_collection(KINDS[1]), mk_collection(KINDS[2])],
    };
    let withheld = RegistryUpdate::Withheld(mk_collection(KINDS[1]), Withheld::forbidden("403"));
    let synced = RegistryUpdate::ListEnded(mk_collection(KINDS[0]), Completeness::Complete);
    world.report_in(
        "file",
        shadow,
        [follows, RegistryUpdate::ListStarted(mk_collection(KINDS[0])), mk_put(decl), withheld, synced],
    );
    assert_eq!(world.generation("file"), shadow);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    // the permission is restored: the list confirms the facts without a removal
    let begin = RegistryUpdate::ListStarted(mk_collection(KINDS[1]));
    let end = RegistryUpdate::ListEnded(mk_collection(KINDS[1]), Completeness::Complete);
    let outcome = world.report_in("file", shadow, [begin.clone(), mk_put(group), end.clone()]);
    assert!(outcome.changed.hosts.is_empty());
    assert_eq!(freshness(&mut world, KINDS[1]), Freshness::Live);
    world.report_in("file", shadow, [begin, end]);
    assert!(world.served("shop/pay.shop", 80).is_empty(), "absence from a complete list is evidence");
}

#[test]
fn ended_scopes_are_freed() {
    let mut world = World::of_files();
    let most = 4_096;
    for i in 0..2 * most + 10 {
        let scope = mk_scope(&format!("scope-{i}"));
        let [decl, _] = pay("");
        let end = RegistryUpdate::End(scope.clone(), EndEvidence::Confirmed("it is gone".into()));
        world.report("file", [RegistryUpdate::Put(scope, decl, Basis::Authoritative)]);
        world.report("file", [end]);
    }
    assert_eq!(world.core.counters().refused, 0);
    assert!(world.catalog().hosts.is_empty() && world.core.is_empty());
    assert_eq!(world.core.status()[0].ended.len(), 256, "the last ended scopes are kept");
}

#[test]
fn excluded_scope_ends_once_the_run_has_synced() {
    let mut world = World::of_files();
    world.list("file", pay("10.0.0.1:http=80"));
    let kept = mk_scope("kept");
    let mut order = world.order("file");
    order.spec = order.spec.configured([kept.clone()]);
    world.core.serve(Mono(500), &order).unwrap();
    let collection = tributary_model::Collection { scope: kept, kind: CollectionKind::Services };
    let required = vec![collection.clone()];
    world.report_in("file", order.generation, [RegistryUpdate::Follows { required, optional: Vec::new() }]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "the run has not synced");
    let synced = RegistryUpdate::ListEnded(collection, Completeness::Complete);
    let outcome = world.report_in("file", order.generation, [synced]);
    assert!(world.view("shop/pay.shop").is_none());
    let by_operator = |r: &Record| matches!(r, Record::Remove(_, _, Evidence::Operator));
    assert!(outcome.records.iter().any(by_operator), "{:?}", outcome.records);
}
