//! Policies: published with their conditions, kept while their source is unread, restored from a journal.

use tributary_model::{
    Code, Completeness, Evidence, Fact, FactId, Freshness, PolicyKey, PolicyView, ProviderId, RegistryUpdate,
    Shared, SourceState, SourceStatus, Withheld,
};

use super::fixtures::*;
use super::generations::freshness;
use super::journal::Journal;

fn key(fact: &Fact) -> PolicyKey {
    let Fact::Policy(key, _) = fact else { panic!("not a policy") };
    key.clone()
}
fn view(world: &mut World, fact: &Fact) -> Option<Shared<PolicyView>> {
    world.catalog().policies.get(&key(fact)).cloned()
}
fn codes(world: &mut World, fact: &Fact) -> Vec<Code> {
    let view = view(world, fact).unwrap();
    view.conditions.iter().map(|condition| condition.code).collect()
}

#[test]
fn policy_is_published_named_as_changed_and_taken_back() {
    let mut world = World::of_files();
    world.list("file", []);
    let sidecar = mk_sidecar("shop/a", "app=pay", Some(1));
    let outcome = world.put("file", [sidecar.clone()]);
    assert!(outcome.changed.policies.contains(&key(&sidecar)) && outcome.changed.concerns_clients());
    assert!(outcome.changed.hosts.is_empty(), "no service changed");
    let before = view(&mut world, &sidecar).unwrap();
    assert!(before.sidecar().unwrap().selector.get("app") == Some("pay") && before.conditions.is_empty());
    assert!(world.put("file", [sidecar.clone()]).changed.is_empty());
    assert_eq!(view(&mut world, &sidecar), Some(before), "an equal value keeps its handle");
    let outcome = world.report("file", [mk_deleted(&sidecar)]);
    assert!(outcome.changed.policies.contains(&key(&sidecar)));
    assert!(view(&mut world, &sidecar).is_none());
}

#[test]
fn oldest_policy_without_selector_applies() {
    let mut world = World::of_files();
    let (old, new) = (mk_sidecar("shop/z", "", Some(1)), mk_sidecar("shop/a", "", Some(2)));
    let (other, selecting) = (mk_sidecar("web/a", "", Some(9)), mk_sidecar("shop/s", "a=1", Some(0)));
    world.list("file", [new.clone(), old.clone(), other.clone(), selecting.clone()]);
    for loser in [&old, &new] {
        let view = view(&mut world, loser).unwrap();
        let condition = view.conditions.first().unwrap();
        assert_eq!((condition.code, &*condition.objects[0].id.name), (Code::POLICY_CONFLICT, "z"));
    }
    assert!(codes(&mut world, &other).is_empty() && codes(&mut world, &selecting).is_empty());
    world.report("file", [mk_deleted(&old)]);
    assert!(codes(&mut world, &new).is_empty(), "the next one applies alone");
}

#[test]
fn authorization_policies_apply_together() {
    let mut world = World::of_files();
    let all = [("shop/a", ""), ("shop/b", ""), ("shop/c", "a=1"), ("shop/d", "b=1")];
    let all = all.map(|(name, labels)| mk_authorization(name, labels, true));
    world.list("file", all.iter().cloned().chain([mk_workload("w", "10.0.0.1", "a=1,b=1")]));
    for policy in &all {
        assert_eq!(codes(&mut world, policy), [], "{policy:?}");
    }
}

#[test]
fn policy_that_stands_in_has_a_condition() {
    let mut world = World::of_files();
    world.put("file", [mk_authorization("shop/a", "", false)]);
    let policy = mk_authorization("shop/a", "", true);
    assert_eq!(codes(&mut world, &policy), [Code::AUTHORIZATION_UNREADABLE]);
    world.put("file", [policy.clone()]);
    assert_eq!(codes(&mut world, &policy), []);
    world.put("file", [mk_authorization("shop/a", "", false)]);
    assert_eq!(codes(&mut world, &policy), [], "the last valid one stays");
    let tokens = mk_tokens("shop/a", "", false);
    world.put("file", [tokens.clone()]);
    assert_eq!(codes(&mut world, &tokens), [Code::TOKENS_UNREADABLE]);
    world.put("file", [mk_tokens("shop/a", "", true)]);
    world.put("file", [tokens.clone()]);
    assert_eq!(codes(&mut world, &tokens), [], "the last valid one stays");
}

#[test]
fn request_authentications_apply_together() {
    let mut world = World::of_files();
    let all = [("shop/a", ""), ("shop/b", ""), ("shop/c", "a=1"), ("shop/d", "b=1")];
    let all = all.map(|(name, labels)| mk_tokens(name, labels, true));
    world.list("file", all.iter().cloned().chain([mk_workload("w", "10.0.0.1", "a=1,b=1")]));
    for policy in &all {
        assert_eq!(codes(&mut world, policy), [], "{policy:?}");
    }
}

#[test]
fn peer_authentications_conflict_among_themselves() {
    let mut world = World::of_files();
    let (old, new) = (mk_peer("shop/z", "", Some(1)), mk_peer("shop/a", "", Some(2)));
    let (a, b) = (mk_peer("shop/s", "a=1", Some(2)), mk_peer("shop/t", "b=1", Some(1)));
    let (other, sidecar) = (mk_peer("web/a", "", None), mk_sidecar("shop/a", "", Some(0)));
    let selecting = mk_sidecar("shop/s", "a=1", Some(0));
    let all = [&old, &new, &a, &b, &other, &sidecar, &selecting];
    world.list("file", all.into_iter().cloned().chain([mk_workload("w", "10.0.0.1", "a=1,b=1")]));
    assert!(codes(&mut world, &other).is_empty());
    for (policy, first) in [(&old, "z"), (&new, "z"), (&a, "t"), (&b, "t")] {
        assert_eq!(codes(&mut world, policy), [Code::POLICY_CONFLICT]);
        let conditions = view(&mut world, policy).unwrap().conditions.to_vec();
        assert_eq!(&*conditions[0].objects[0].id.name, first, "the oldest one");
    }
    assert!(codes(&mut world, &sidecar).is_empty() && codes(&mut world, &selecting).is_empty());
}

#[test]
fn selectors_conflict_only_if_a_workload_has_both() {
    let mut world = World::of_files();
    let (a, b) = (mk_sidecar("shop/a", "a=1", Some(2)), mk_sidecar("shop/b", "b=1", Some(1)));
    world.list("file", [a.clone(), b.clone(), mk_workload("w", "10.0.0.1", "a=1")]);
    assert!(codes(&mut world, &a).is_empty() && codes(&mut world, &b).is_empty());
    let outcome = world.put("file", [mk_workload("w", "10.0.0.1", "a=1,b=1")]);
    assert!(
        outcome.changed.policy_facts && outcome.changed.policies.is_empty(),
        "clients have what they had"
    );
    let conditions = view(&mut world, &a).unwrap().conditions.to_vec();
    assert_eq!(conditions[0].code, Code::POLICY_CONFLICT);
    assert_eq!(&*conditions[0].message, "Sidecar shop/b applies to workloads that it also selects");
    assert_eq!(&*conditions[0].objects[0].id.name, "b", "the older one");
    // only the creation time changes: the other one applies now
    world.put("file", [mk_sidecar("shop/b", "b=1", Some(3))]);
    assert_eq!(&*view(&mut world, &b).unwrap().conditions[0].objects[0].id.name, "a");
    world.put("file", [mk_workload("w", "10.0.0.1", "b=1")]);
    assert!(codes(&mut world, &a).is_empty() && codes(&mut world, &b).is_empty());
}

#[test]
fn policy_of_two_registries_is_served_by_precedence() {
    let mut world = World::with(&[
        mk_spec("file", ProviderId::SERVICE_ENTRY),
        mk_spec_of(mk_registry("crd", ProviderId::SERVICE_ENTRY), 0),
    ]);
    let (first, second) = (mk_sidecar("shop/a", "a=1", Some(1)), mk_sidecar("shop/a", "a=2", Some(2)));
    world.list("file", [first.clone()]);
    world.list("crd", [second]);
    let served = view(&mut world, &first).unwrap();
    assert_eq!(served.shard.registry.name.as_str(), "crd", "its rank precedes age");
    assert_eq!(codes(&mut world, &first), [Code::POLICY_CONFLICT]);
    let message = "2 sources declare it: registry crd, registry file; that of registry crd applies";
    assert_eq!(&*served.conditions[0].message, message);
    world.report("crd", [mk_deleted(&first)]);
    assert_eq!(view(&mut world, &first).unwrap().shard.registry.name.as_str(), "file");
    assert!(codes(&mut world, &first).is_empty());
}

#[test]
fn policy_without_a_valid_version_does_not_replace_a_valid_one() {
    let mut world = World::with(&[
        mk_spec("file", ProviderId::SERVICE_ENTRY),
        mk_spec_of(mk_registry("crd", ProviderId::SERVICE_ENTRY), 0),
    ]);
    let (valid, invalid) = (mk_authorization("shop/a", "a=1", true), mk_authorization("shop/a", "", false));
    world.list("crd", [invalid]);
    assert_eq!(codes(&mut world, &valid), [Code::AUTHORIZATION_UNREADABLE]);
    world.list("file", [valid.clone()]);
    let served = view(&mut world, &valid).unwrap();
    assert_eq!(served.shard.registry.name.as_str(), "file", "although the rank of the other one precedes");
    let message = "2 sources declare it: registry crd, registry file; that of registry file applies, because one without a valid version comes last";
    assert_eq!(codes(&mut world, &valid), [Code::POLICY_CONFLICT]);
    assert_eq!(&*served.conditions[0].message, message);
    world.put("crd", [valid.clone()]);
    assert_eq!(view(&mut world, &valid).unwrap().shard.registry.name.as_str(), "crd");
    world.report("crd", [mk_deleted(&valid)]);
    world.put("file", [valid.clone()]);
    assert_eq!(codes(&mut world, &valid), []);
}

#[test]
fn withheld_policies_stay_published() {
    let mut world = World::of_files();
    let sidecar = mk_sidecar("shop/a", "", Some(1));
    world.list("file", [sidecar.clone()]);
    let withheld = RegistryUpdate::Withheld(mk_collection(KINDS[3]), Withheld::forbidden("403"));
    let changed = world.report("file", [withheld]).changed;
    assert!(changed.policies.is_empty());
    assert!(matches!(freshness(&mut world, KINDS[3]), Freshness::Stale { .. }));
    assert_eq!(freshness(&mut world, KINDS[0]), Freshness::Live);
    world.restart("file");
    assert!(view(&mut world, &sidecar).is_some(), "a new run has listed nothing yet");
    let status = SourceStatus { state: SourceState::Unreachable, ..SourceStatus::default() };
    world.report("file", [RegistryUpdate::Status(mk_scope(SCOPE), status)]);
    assert!(view(&mut world, &sidecar).is_some());
}

#[test]
fn policies_are_restored_from_the_journal() {
    let specs = [mk_spec("file", ProviderId::SERVICE_ENTRY)];
    let mut world = World::with(&specs);
    let mut journal = Journal::default();
    let (kept, gone) = (mk_sidecar("shop/a", "", Some(1)), mk_sidecar("shop/b", "", Some(2)));
    journal.take(world.list("file", [kept.clone(), gone.clone()]).records);
    journal.take(world.report("file", [mk_deleted(&gone)]).records);
    assert_eq!(journal.miscounted(), Vec::<String>::new());
    let mut restored = journal.restored(&specs);
    assert_eq!(restored.catalog().policies.keys().collect::<Vec<_>>(), [&key(&kept)]);
    assert_eq!(view(&mut restored, &kept).unwrap().declared, view(&mut world, &kept).unwrap().declared);
    restored.restart("file");
    assert!(view(&mut restored, &kept).is_some(), "the source is not read yet");
}

#[test]
fn large_loss_of_policies_is_held_until_confirmed() {
    let mut world = World::confirming();
    let all = [mk_sidecar("shop/a", "a=1", None), mk_sidecar("shop/b", "a=2", None)];
    world.list("east", all.clone());
    world.restart("east");
    let asked = world.list("east", []).confirms;
    assert_eq!(world.catalog().policies.len(), 2, "an empty list removes nothing yet");
    assert!(asked.iter().all(|one| matches!(one.confirm.item, FactId::Policy(_))) && asked.len() == 2);
    world.report("east", [mk_drop(&all[0], Evidence::Confirmed)]);
    assert_eq!(world.catalog().policies.len(), 1);
    world.put("east", [all[1].clone()]);
    assert_eq!(world.core.held().count(), 0);
}

#[test]
fn problem_keeps_the_policy_of_its_object() {
    let mut world = World::of_files();
    let sidecar = mk_sidecar("shop/a", "", None);
    world.list("file", [sidecar.clone()]);
    let object = tributary_model::ObjectRef::new(sidecar.object().unwrap().clone());
    let problem = tributary_model::Problem { code: Code::UNKNOWN_FIELD, message: "x".into() };
    let collection = || mk_collection(KINDS[3]);
    world.report(
        "file",
        [
            RegistryUpdate::Problem(mk_scope(SCOPE), object.clone(), Some(problem)),
            RegistryUpdate::ListStarted(collection()),
            RegistryUpdate::ListEnded(collection(), Completeness::Complete),
        ],
    );
    assert!(view(&mut world, &sidecar).is_some());
    world.report("file", [RegistryUpdate::Problem(mk_scope(SCOPE), object, None)]);
    assert!(view(&mut world, &sidecar).is_none(), "the list lacked the repaired object");
}
