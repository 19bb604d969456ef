//! Orders, rotations, identities and ended scopes: who may replace what is served, and when.

use super::fixtures::*;
use super::generations::{freshness, pay};
use super::journal::Journal;
use std::time::Duration;
use tributary_model::{
    Basis, CollectionKind, Completeness, Declaration, EndEvidence, Evidence, Fingerprint, Freshness,
    Generation, Mono, Provider, Record, RegistryUpdate, ShardPriority, SourceState, SourceStatus,
    StalePolicy, Withheld,
};

#[test]
fn an_order_that_names_another_generation_is_refused() {
    let mut world = World::of_files();
    world.lists("file", pay("10.0.0.1:http=80"));
    let queued = world.order("file");
    let shadow = world.shadow("file");
    world.says_in("file", shadow, mk_list(pay("10.0.0.2:http=80")));
    let refused = world.core.serve(Mono(700), &queued).unwrap_err();
    assert_eq!((refused.in_force, refused.expected), (shadow, queued.replaces));
    assert!(world.core.begin_shadows(Mono(700), &[queued]).is_err());
    assert_eq!(freshness(&mut world, KINDS[0]), Freshness::Live, "what was adopted is untouched");
    let turn = world.says_in("file", shadow, [mk_put(pay("10.0.0.3:http=80")[1].clone())]);
    assert!(!turn.changed.hosts.is_empty(), "and its run is accepted");
}

#[test]
fn shadows_of_one_set_are_adopted_together() {
    let mut world =
        World::with(&[mk_spec("east", Provider::Kubernetes), mk_spec("file", Provider::ServiceEntry)]);
    world.lists("east", pay("10.0.0.1:http=80"));
    world.lists("file", pay("10.1.0.1:http=80"));
    let orders = [world.order("east"), world.order("file")];
    world.core.begin_shadows(Mono(400), &orders).unwrap();
    world.says_in("east", orders[0].generation, mk_list(pay("10.0.0.2:http=80")));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80", "10.1.0.1:80"], "one of two is not enough");
    world.says_in("file", orders[1].generation, mk_list(pay("10.1.0.2:http=80")));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.2:80", "10.1.0.2:80"]);
}

#[test]
fn a_weaker_run_waits_until_the_served_one_fails_or_an_operator_accepts_it() {
    let weaker = || {
        let mut world = World::of_files();
        world.lists("file", pay("10.0.0.1:http=80"));
        let shadow = world.shadow("file");
        let mut words = mk_list([pay("")[0].clone()]);
        words.retain(|w| !matches!(w, RegistryUpdate::ListEnded(c, _) if c.kind == CollectionKind::Groups));
        words.push(RegistryUpdate::Withheld(
            mk_collection(CollectionKind::Groups),
            Withheld::forbidden("403"),
        ));
        world.says_in("file", shadow, words);
        assert_eq!(world.in_force("file"), Generation(1), "it would know less");
        let waits_for = world.core.status()[0].waits_for.clone().unwrap();
        assert!(waits_for.contains("Groups of "), "{waits_for}");
        assert!(world.core.status()[0].needs_accept);
        (world, shadow)
    };
    let (mut world, shadow) = weaker();
    world.core.fail(Mono(800), &mk_name("file"), &"401".into());
    assert_eq!(world.in_force("file"), shadow);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "what it may not read stays");
    let Freshness::Stale { why, .. } = freshness(&mut world, CollectionKind::Groups) else { panic!() };
    assert_eq!(&*why, "403");

    let (mut world, shadow) = weaker();
    assert!(world.core.accept(Mono(800), &mk_name("file")).0);
    assert_eq!(world.in_force("file"), shadow);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    assert!(!world.core.accept(Mono(801), &mk_name("file")).0, "there is nothing left to accept");
}

#[test]
fn run_that_has_not_listed_yet_leaves_nothing_to_accept() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let mut world = World::of_files();
    world.says("file", [identity("uid-1")]);
    world.lists("file", pay("10.0.0.1:http=80"));
    let shadow = world.shadow("file");
    assert!(!world.core.accept(Mono(800), &mk_name("file")).0, "what it will report is not known");
    world.says_in("file", shadow, std::iter::once(identity("uid-2")).chain(mk_list([])).collect::<Vec<_>>());
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "another cluster that nobody accepted");
}

#[test]
fn registry_that_holds_nothing_of_its_pinned_source_waits_for_the_operator_too() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let mut world = World::of_files();
    world.says("file", [identity("uid-1")]);
    world.lists("file", []);
    let mut order = world.order("file");
    order.spec = order.spec.shadowing();
    assert!(world.core.serve(Mono(500), &order).unwrap().1.in_shadow);
    let words = std::iter::once(identity("uid-2")).chain(mk_list(pay("10.0.0.1:http=80")));
    world.says_in("file", order.generation, words.collect::<Vec<_>>());
    assert!(world.view("shop/pay.shop").is_none(), "services of another cluster beside those of the first");
    assert!(world.core.accept(Mono(800), &mk_name("file")).0);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
}

#[test]
fn a_stale_scope_is_served_as_its_policy_says_until_it_is_followed_again() {
    let table = [
        (StalePolicy::Hold, Some(ShardPriority::Normal)),
        (StalePolicy::Degrade(Duration::from_secs(60)), Some(ShardPriority::Demoted)),
        (StalePolicy::Withdraw(Duration::from_secs(60)), None),
    ];
    for (policy, then) in table {
        let mut world = World::with(&[mk_spec("file", Provider::ServiceEntry).when_stale(policy)]);
        let selecting = Declaration { selector: Some(mk_selector("app=pay")), ..mk_decl("sel", "80 http") };
        let more = [mk_service("shop/sel.shop", selecting), mk_workload("w", "10.0.0.5", "app=pay")];
        world.lists("file", pay("10.0.0.1:http=80").into_iter().chain(more));
        let standing = |world: &mut World, service: &str| {
            let view = world.view(service)?;
            view.ports[0].endpoints.inputs.sources.first().map(|source| source.priority)
        };
        world.core.fail(Mono(1_000), &mk_name("file"), &"401".into());
        world.core.tick(Mono(60_000));
        assert_eq!(
            standing(&mut world, "shop/pay.shop"),
            Some(ShardPriority::Normal),
            "{policy:?}: it is not due"
        );
        if policy != StalePolicy::Hold {
            assert_eq!(world.core.next_tick(), Some(Mono(61_000)));
        }
        let turn = world.core.tick(Mono(61_000));
        for service in ["shop/pay.shop", "shop/sel.shop"] {
            assert_eq!(standing(&mut world, service), then, "{policy:?}");
        }
        assert_eq!(turn.urgent, policy != StalePolicy::Hold);
        assert!(fact_records(&turn).is_empty(), "the journal keeps what the policy hides");
        world.now = 62_000;
        world.restart("file");
        world.lists("file", pay("10.0.0.1:http=80"));
        assert_eq!(
            standing(&mut world, "shop/pay.shop"),
            Some(ShardPriority::Normal),
            "{policy:?}: it is back"
        );
    }
}

#[test]
fn staleness_policy_counts_from_the_restart_where_the_process_was_down_for_longer() {
    let policy = StalePolicy::Withdraw(Duration::from_secs(60));
    let spec = mk_spec("file", Provider::ServiceEntry).when_stale(policy);
    let (mut before, mut journal) = (World::with(std::slice::from_ref(&spec)), Journal::default());
    journal.take(before.says("file", mk_list(pay("10.0.0.1:http=80"))).records);
    let mut world = World::default();
    world.joins(&spec);
    let down_for_an_hour = Mono(3_600_000);
    world.core.restore(down_for_an_hour, &spec.id.name, journal.records(&spec.id.name), false);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "its source had no chance to answer");
    world.core.tick(down_for_an_hour.plus(Duration::from_secs(59)));
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    world.core.tick(down_for_an_hour.plus(Duration::from_secs(60)));
    assert!(world.view("shop/pay.shop").is_none());
}

#[test]
fn a_source_that_is_another_one_is_refused_until_it_is_accepted() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let mut world = World::of_files();
    world.says("file", [identity("uid-1")]);
    world.lists("file", pay("10.0.0.1:http=80"));
    let shadow = world.shadow("file");
    world.says_in("file", shadow, std::iter::once(identity("uid-2")).chain(mk_list([])).collect::<Vec<_>>());
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "an empty cluster under the same name");
    assert!(world.core.accept(Mono(800), &mk_name("file")).0);
    assert!(world.view("shop/pay.shop").is_none());

    let mut world = World::of_files();
    world.says("file", [identity("uid-1")]);
    world.lists("file", pay("10.0.0.1:http=80"));
    world.restart("file");
    world.says("file", std::iter::once(identity("uid-2")).chain(mk_list([])).collect::<Vec<_>>());
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "in place too");
}

#[test]
fn run_that_ended_leaves_its_reason_and_shows_what_the_next_one_reports() {
    let identity = |text: &str| RegistryUpdate::Identity(Fingerprint::new(text).unwrap());
    let scope = || mk_collection(KINDS[0]).scope;
    let status = |state, why: &str| RegistryUpdate::Status(scope(), SourceStatus::new(state, why));
    let mut world = World::of_files();
    world.says("file", [identity("uid-1")]);
    world.lists("file", pay("10.0.0.1:http=80"));
    world.says("file", [status(SourceState::Forbidden, "403")]);
    world.core.fail(Mono(700), &mk_name("file"), &"another cluster answers".into());
    assert!(world.core.status()[0].sources.is_empty(), "what ended tries nothing again");
    for kind in KINDS {
        let Freshness::Stale { why, .. } = freshness(&mut world, kind) else { panic!("{kind:?}") };
        assert_eq!(&*why, "another cluster answers");
    }
    let shadow = world.shadow("file");
    world.says_in("file", shadow, [identity("uid-2"), status(SourceState::Live, "")]);
    let shown = world.core.status().remove(0);
    let waits_for = shown.waits_for.unwrap();
    assert!(waits_for.starts_with("the source's identity changed"), "{waits_for}");
    assert_eq!(shown.sources[&scope()].status.state, SourceState::Live);
}

#[test]
fn a_shadow_takes_over_what_it_may_not_read() {
    let mut world = World::of_files();
    world.lists("file", pay("10.0.0.1:http=80"));
    world.core.fail(Mono(300), &mk_name("file"), &"gone".into());
    let shadow = world.shadow("file");
    let [decl, group] = pay("10.0.0.1:http=80");
    let follows = RegistryUpdate::Follows {
        required: vec![mk_collection(KINDS[0])],
        optional: vec![mk_collection(KINDS[1]), mk_collection(KINDS[2])],
    };
    let withheld = RegistryUpdate::Withheld(mk_collection(KINDS[1]), Withheld::forbidden("403"));
    let synced = RegistryUpdate::ListEnded(mk_collection(KINDS[0]), Completeness::Complete);
    world.says_in(
        "file",
        shadow,
        [follows, RegistryUpdate::ListStarted(mk_collection(KINDS[0])), mk_put(decl), withheld, synced],
    );
    assert_eq!(world.in_force("file"), shadow);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"]);
    // the right is given back: the list decides, without a flap
    let begin = RegistryUpdate::ListStarted(mk_collection(KINDS[1]));
    let end = RegistryUpdate::ListEnded(mk_collection(KINDS[1]), Completeness::Complete);
    let turn = world.says_in("file", shadow, [begin.clone(), mk_put(group), end.clone()]);
    assert!(turn.changed.hosts.is_empty());
    assert_eq!(freshness(&mut world, KINDS[1]), Freshness::Live);
    world.says_in("file", shadow, [begin, end]);
    assert!(world.served("shop/pay.shop", 80).is_empty(), "absence from a complete list is evidence");
}

#[test]
fn scopes_that_ended_are_freed() {
    let mut world = World::of_files();
    let most = 4_096;
    for i in 0..2 * most + 10 {
        let scope = mk_scope(&format!("scope-{i}"));
        let [decl, _] = pay("");
        let end = RegistryUpdate::End(scope.clone(), EndEvidence::Confirmed("it is gone".into()));
        world.says("file", [RegistryUpdate::Put(scope, decl, Basis::Authoritative)]);
        world.says("file", [end]);
    }
    assert_eq!(world.core.counters().refused, 0);
    assert!(world.catalog().hosts.is_empty() && world.core.is_empty());
    assert_eq!(world.core.status()[0].ended.len(), 256, "the last of them are remembered");
}

#[test]
fn a_scope_that_is_configured_away_ends_once_the_run_has_synced() {
    let mut world = World::of_files();
    world.lists("file", pay("10.0.0.1:http=80"));
    let kept = mk_scope("kept");
    let mut order = world.order("file");
    order.spec = order.spec.configured([kept.clone()]);
    world.core.serve(Mono(500), &order).unwrap();
    let collection = tributary_model::Collection { scope: kept, kind: CollectionKind::Services };
    let required = vec![collection.clone()];
    world.says_in("file", order.generation, [RegistryUpdate::Follows { required, optional: Vec::new() }]);
    assert_eq!(world.served("shop/pay.shop", 80), ["10.0.0.1:80"], "the run has not synced");
    let synced = RegistryUpdate::ListEnded(collection, Completeness::Complete);
    let turn = world.says_in("file", order.generation, [synced]);
    assert!(world.view("shop/pay.shop").is_none());
    let by_operator = |r: &Record| matches!(r, Record::Drop(_, _, Evidence::Operator));
    assert!(turn.records.iter().any(by_operator), "{:?}", turn.records);
}
