//! Rule table of the ledger, row by row, and the comparison with a naive ledger.

mod naive;

use std::collections::BTreeMap;

use tributary_model::{
    Basis, Code, Collection, CollectionKind, Completeness, EndEvidence, Evidence, Fact, FactKey, Freshness,
    Generation, Mono, ObjectId, ProblemRecord, RegistryUpdate, Scope, Scopes, Withheld,
};

use super::{BasisKind, Change, Ledger, Output};
use crate::tests::fixtures::{SCOPE, mk_authorization, mk_drop, mk_put, mk_scope, mk_workload};

/// Applies effects to a plain map, and records the evidence of removals.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) facts: BTreeMap<FactKey, Fact>,
    pub(super) gone: Vec<(FactKey, Evidence)>,
    freed: Vec<Scope>,
}

impl Output for Applied {
    fn put(&mut self, scope: &Scope, fact: Fact, _: BasisKind, _: Mono, change: Change) {
        let key = FactKey { scope: scope.clone(), item: fact.item() };
        if change == Change::Same {
            assert_eq!(self.facts.get(&key), Some(&fact), "an unchanged fact is known");
        }
        self.facts.insert(key, fact);
    }
    fn remove(&mut self, key: &FactKey, evidence: &Evidence) {
        if self.facts.remove(key).is_some() {
            self.gone.push((key.clone(), evidence.clone()));
        }
    }
    fn confirm(&mut self, _: &Collection, _: Mono) {}
    fn free(&mut self, scope: &Scope, _: &Evidence, _: Mono) {
        self.freed.push(scope.clone());
    }
    fn problem(&mut self, _: &Scope, _: &ObjectId, _: Option<&ProblemRecord>) {}
    fn refuse(&mut self) {}
    fn note(&mut self) {}
    fn note_status(&mut self) {}
}

impl Output for () {
    fn put(&mut self, _: &Scope, _: Fact, _: BasisKind, _: Mono, _: Change) {}
    fn remove(&mut self, _: &FactKey, _: &Evidence) {}
    fn confirm(&mut self, _: &Collection, _: Mono) {}
    fn free(&mut self, _: &Scope, _: &Evidence, _: Mono) {}
    fn problem(&mut self, _: &Scope, _: &ObjectId, _: Option<&ProblemRecord>) {}
    fn refuse(&mut self) {}
    fn note(&mut self) {}
    fn note_status(&mut self) {}
}

const WORKLOADS: CollectionKind = CollectionKind::Workloads;

fn collection() -> Collection {
    Collection { scope: mk_scope(SCOPE), kind: WORKLOADS }
}
fn fact(name: &str) -> Fact {
    mk_workload(name, "10.0.0.1", "")
}
fn follows() -> RegistryUpdate {
    RegistryUpdate::Follows { required: vec![collection()], optional: Vec::new() }
}
fn restart() -> RegistryUpdate {
    RegistryUpdate::ListStarted(collection())
}
fn synced(how: Completeness) -> RegistryUpdate {
    RegistryUpdate::ListEnded(collection(), how)
}
fn withheld() -> RegistryUpdate {
    RegistryUpdate::Withheld(collection(), Withheld::forbidden("403"))
}

/// Returns a ledger whose run has completely listed `a` and `b`.
fn listed() -> (Ledger, Applied) {
    let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
    let updates =
        [follows(), restart(), mk_put(fact("a")), mk_put(fact("b")), synced(Completeness::Complete)];
    take(&mut ledger, updates, &mut out);
    (ledger, out)
}
fn take(ledger: &mut Ledger, updates: impl IntoIterator<Item = RegistryUpdate>, out: &mut Applied) {
    updates.into_iter().for_each(|update| ledger.apply(Mono(10), update, out));
    ledger.end_batch(&Scopes::Discovered, Mono(10), out);
}
fn names(out: &Applied) -> String {
    let name = |fact: &Fact| match fact {
        Fact::Workload(key, _) => key.name.to_string(),
        other => format!("{other:?}"),
    };
    out.facts.values().map(name).collect::<Vec<_>>().join(" ")
}
fn freshness(ledger: &Ledger) -> &'static str {
    match ledger.list(&collection()).map(|list| &list.freshness) {
        None | Some(Freshness::Unknown) => "unknown",
        Some(Freshness::Syncing) => "syncing",
        Some(Freshness::Live) => "live",
        Some(Freshness::Stale { .. }) => "stale",
    }
}

#[test]
fn each_list_event_follows_the_rule_table() {
    let complete = || synced(Completeness::Complete);
    let partial = || synced(Completeness::Partial);
    let filtered = || synced(Completeness::Filtered);
    let put = |name: &str| mk_put(fact(name));
    let end = RegistryUpdate::End(mk_scope(SCOPE), EndEvidence::Confirmed("gone".into()));
    let rows: [(&str, Vec<RegistryUpdate>, &str, &str); 12] = [
        ("a complete list removes what it lacks", vec![restart(), put("a"), complete()], "a", "live"),
        ("a filtered list removes nothing", vec![restart(), put("a"), filtered()], "a b", "stale"),
        ("a partial list removes nothing", vec![restart(), partial()], "a b", "stale"),
        ("a list under way removes nothing", vec![restart(), put("a")], "a b", "stale"),
        (
            "an interrupted list continues",
            vec![restart(), put("b"), partial(), restart(), put("a"), complete()],
            "a",
            "live",
        ),
        ("a refusal removes nothing", vec![withheld()], "a b", "stale"),
        ("a refusal in a list removes nothing", vec![restart(), put("a"), withheld()], "a b", "stale"),
        (
            "a list after a refusal removes what it lacks",
            vec![restart(), withheld(), put("a"), complete()],
            "a",
            "live",
        ),
        ("a complete list without a beginning removes nothing", vec![withheld(), complete()], "a b", "live"),
        ("a deletion removes its fact", vec![mk_drop(&fact("a"), Evidence::Confirmed)], "b", "live"),
        (
            "a filtered list of everything is live",
            vec![restart(), put("a"), put("b"), filtered()],
            "a b",
            "live",
        ),
        ("the end of a scope removes it", vec![end], "", "unknown"),
    ];
    for (rule, updates, facts, fresh) in rows {
        let (mut ledger, mut out) = listed();
        take(&mut ledger, updates, &mut out);
        assert_eq!((names(&out).as_str(), freshness(&ledger)), (facts, fresh), "{rule}");
    }
}

#[test]
fn withheld_collection_stays_stale_after_progress() {
    let (mut ledger, mut out) = listed();
    let live = tributary_model::SourceStatus::new(tributary_model::SourceState::Live, "");
    take(
        &mut ledger,
        [withheld(), RegistryUpdate::Progress(collection()), RegistryUpdate::Status(mk_scope(SCOPE), live)],
        &mut out,
    );
    assert_eq!(freshness(&ledger), "stale");
    take(&mut ledger, [synced(Completeness::Complete)], &mut out);
    assert_eq!((freshness(&ledger), names(&out).as_str()), ("live", "a b"));
}

#[test]
fn unreadable_collection_without_facts_does_not_block_sync() {
    let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
    take(&mut ledger, [follows()], &mut out);
    assert!(ledger.is_unknown() && !ledger.is_synced());
    take(&mut ledger, [withheld()], &mut out);
    assert!(ledger.is_synced(), "the sync does not wait");
    assert!(ledger.is_unknown(), "the catalog stays incomplete");
    let (mut ledger, mut out) = listed();
    take(&mut ledger, [withheld()], &mut out);
    assert!(!ledger.is_unknown(), "a collection that was read once is known");
}

#[test]
fn start_waits_for_a_collection_that_fails_and_was_never_read() {
    let failing = || RegistryUpdate::Withheld(collection(), Withheld::failing("500"));
    let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
    take(&mut ledger, [follows(), failing()], &mut out);
    assert!(ledger.is_synced() && ledger.awaits_failing());
    take(&mut ledger, [withheld()], &mut out);
    assert!(!ledger.awaits_failing(), "it may not be read");
    take(&mut ledger, [failing(), synced(Completeness::Complete)], &mut out);
    assert!(!ledger.awaits_failing());
    take(&mut ledger, [failing()], &mut out);
    assert!(!ledger.awaits_failing(), "a collection that was read once is known");
}

#[test]
fn run_that_may_read_nothing_knows_nothing() {
    let other = Collection { scope: mk_scope("other"), kind: WORKLOADS };
    let both = RegistryUpdate::Follows { required: vec![collection(), other.clone()], optional: Vec::new() };
    let refused = |collection| RegistryUpdate::Withheld(collection, Withheld::forbidden("403"));
    let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
    take(&mut ledger, [both, withheld(), refused(other.clone())], &mut out);
    assert!(ledger.is_synced() && !ledger.knows_any());
    take(&mut ledger, [RegistryUpdate::ListEnded(other, Completeness::Complete)], &mut out);
    assert!(ledger.knows_any(), "one collection is enough");
    let (mut ledger, mut out) = listed();
    ledger.restart(Generation(2), Mono(20), &"over".into());
    take(&mut ledger, [follows(), withheld()], &mut out);
    assert!(ledger.knows_any(), "facts of an earlier run are known");
    let optional = RegistryUpdate::Follows { required: Vec::new(), optional: vec![collection()] };
    let mut ledger = Ledger::new(Generation(1));
    take(&mut ledger, [optional, withheld()], &mut out);
    assert!(ledger.knows_any(), "nothing is required");
}

#[test]
fn filtered_list_becomes_live_once_missing_facts_are_settled() {
    for resolution in [mk_put(fact("b")), mk_drop(&fact("b"), Evidence::AbsentFromList)] {
        let (mut ledger, mut out) = listed();
        take(&mut ledger, [restart(), mk_put(fact("a")), synced(Completeness::Filtered)], &mut out);
        assert_eq!(freshness(&ledger), "stale", "b may be gone: it is not confirmed");
        take(&mut ledger, [resolution], &mut out);
        assert_eq!(freshness(&ledger), "live");
    }
}

#[test]
fn next_run_inherits_facts_and_confirms_none() {
    let (mut ledger, mut out) = listed();
    ledger.restart(Generation(2), Mono(20), &"over".into());
    assert_eq!((names(&out).as_str(), freshness(&ledger)), ("a b", "stale"));
    assert!(!ledger.is_synced() && !ledger.is_unknown());
    take(&mut ledger, [follows(), restart(), mk_put(fact("b")), synced(Completeness::Complete)], &mut out);
    assert_eq!(names(&out), "b");
    assert_eq!(out.gone.last().map(|(_, evidence)| evidence.clone()), Some(Evidence::AbsentFromList));
}

#[test]
fn unchanged_list_changes_no_fact() {
    let (mut ledger, mut out) = listed();
    let before = out.facts.clone();
    take(
        &mut ledger,
        [restart(), mk_put(fact("a")), mk_put(fact("b")), synced(Completeness::Complete)],
        &mut out,
    );
    assert_eq!((out.facts, out.gone.len()), (before, 0));
}

#[test]
fn last_reported_follow_set_counts_in_any_position() {
    let other = Collection { scope: mk_scope("other"), kind: WORKLOADS };
    let both = RegistryUpdate::Follows { required: vec![collection(), other.clone()], optional: Vec::new() };
    let end = || RegistryUpdate::ListEnded(other.clone(), Completeness::Complete);
    for updates in [vec![follows(), both.clone(), end()], vec![both.clone(), end()], vec![end(), both]] {
        let (mut ledger, mut out) = listed();
        ledger.restart(Generation(2), Mono(20), &"over".into());
        take(&mut ledger, updates, &mut out);
        assert!(!ledger.is_synced());
        assert_eq!(names(&out), "a b");
        take(&mut ledger, [synced(Completeness::Complete)], &mut out);
        assert!(ledger.is_synced());
    }
}

#[test]
fn empty_unfollowed_scope_is_freed() {
    let (mut ledger, mut out) = listed();
    let other = mk_scope("other");
    let put = RegistryUpdate::Put(other.clone(), fact("x"), Basis::Authoritative);
    take(&mut ledger, [put], &mut out);
    assert_eq!(ledger.scopes.len(), 2);
    let gone =
        RegistryUpdate::Remove(FactKey { scope: other.clone(), item: fact("x").item() }, Evidence::Confirmed);
    take(&mut ledger, [gone], &mut out);
    assert_eq!((ledger.scopes.len(), out.freed), (1, vec![other]));
}

#[test]
fn inherited_fact_outlives_a_problem_of_the_new_run() {
    let object = ObjectId::new("WorkloadEntry", "shop", "b");
    let bad = |problem| {
        RegistryUpdate::Problem(mk_scope(SCOPE), tributary_model::ObjectRef::new(object.clone()), problem)
    };
    let problem =
        tributary_model::Problem { code: tributary_model::Code::INVALID_HOST, message: "bad".into() };
    let (mut served, mut out) = (Ledger::new(Generation(1)), Applied::default());
    take(&mut served, [mk_put(fact("b"))], &mut out);
    let mut shadow = Ledger::new(Generation(2));
    shadow.apply(Mono(10), bad(Some(problem)), &mut ());
    shadow.end_batch(&Scopes::Discovered, Mono(10), &mut ());
    let mut served = served.adopt(shadow, &Scopes::Discovered, Mono(11), &mut out);
    take(&mut served, [bad(None)], &mut out);
    assert_eq!(names(&out), "b");
    assert_eq!(served.scopes.values().map(|s| s.tables.iter(WORKLOADS).count()).sum::<usize>(), 1);
}

fn explained(ledger: &Ledger) -> Vec<(String, Code)> {
    ledger.problems().map(|record| (record.object.id.name.to_string(), record.problem.code)).collect()
}

/// The list of a directory after a restart, in which a document does not identify its object.
fn listed_with_an_invalid_document() -> (Ledger, Applied) {
    let (mut ledger, mut out) = listed();
    ledger.restart(Generation(2), Mono(20), &"over".into());
    let updates = [follows(), restart(), mk_put(fact("a")), synced(Completeness::ExceptInvalid)];
    take(&mut ledger, updates, &mut out);
    (ledger, out)
}

#[test]
fn invalid_document_makes_no_other_fact_stale() {
    let (ledger, out) = listed_with_an_invalid_document();
    assert_eq!((names(&out).as_str(), freshness(&ledger)), ("a b", "live"));
    assert!(ledger.is_synced() && !ledger.is_unknown());
    assert_eq!(explained(&ledger), [("b".to_owned(), Code::OBJECT_KEPT)], "the reason why it stays");
}

#[test]
fn fact_of_an_invalid_document_is_decided_by_the_corrected_one() {
    let (mut ledger, mut out) = listed_with_an_invalid_document();
    take(&mut ledger, [mk_put(fact("b"))], &mut out);
    assert_eq!((names(&out).as_str(), explained(&ledger)), ("a b", Vec::new()), "listed again");
    take(&mut ledger, [synced(Completeness::Complete)], &mut out);
    assert_eq!(names(&out), "a b");
    let (mut ledger, mut out) = listed_with_an_invalid_document();
    take(&mut ledger, [synced(Completeness::Complete)], &mut out);
    assert_eq!((names(&out).as_str(), explained(&ledger)), ("a", Vec::new()), "its document was removed");
    let (mut ledger, mut out) = listed_with_an_invalid_document();
    ledger.restart(Generation(3), Mono(30), &"over".into());
    let again = [follows(), restart(), mk_put(fact("a")), synced(Completeness::ExceptInvalid)];
    take(&mut ledger, again, &mut out);
    assert_eq!((names(&out).as_str(), explained(&ledger).len()), ("a b", 1), "still invalid");
}

#[test]
fn unread_optional_services_are_named_once() {
    let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
    let of = |kind| Collection { scope: mk_scope("serviceentries"), kind };
    let optional: Vec<Collection> =
        [CollectionKind::Services, CollectionKind::Groups, CollectionKind::Workloads].map(of).to_vec();
    let follows = RegistryUpdate::Follows { required: Vec::new(), optional: optional.clone() };
    let refused = optional.into_iter().map(|one| RegistryUpdate::Withheld(one, Withheld::forbidden("403")));
    take(&mut ledger, std::iter::once(follows).chain(refused), &mut out);
    let codes: Vec<Code> = ledger.unread_conditions().iter().map(|condition| condition.code).collect();
    assert_eq!(codes, [Code::SERVICES_UNREAD], "no service of the scope is known, so none lacks endpoints");
}

#[test]
fn unread_policies_and_services_are_not_synced() {
    let of = |scope: &str, kind| Collection { scope: mk_scope(scope), kind };
    let refused = |collection| RegistryUpdate::Withheld(collection, Withheld::forbidden("403"));
    let read = |collection| RegistryUpdate::ListEnded(collection, Completeness::Complete);
    let run = |required: Vec<Collection>, updates: Vec<RegistryUpdate>| {
        let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
        let follows = RegistryUpdate::Follows { required, optional: Vec::new() };
        take(&mut ledger, std::iter::once(follows).chain(updates), &mut out);
        ledger
    };
    let (services, groups) = (of("cluster", CollectionKind::Services), of("cluster", CollectionKind::Groups));
    let both = vec![services.clone(), groups.clone()];
    let ledger = run(both.clone(), vec![refused(services.clone()), read(groups.clone())]);
    assert!(!ledger.knows_deciding(false), "endpoints without services prove nothing");
    let ledger = run(both, vec![read(services.clone()), refused(groups.clone())]);
    assert!(ledger.knows_deciding(false));
    assert_eq!(ledger.unread().collect::<Vec<_>>(), [groups]);
    let codes: Vec<Code> = ledger.unread_conditions().iter().map(|condition| condition.code).collect();
    assert_eq!(codes, [Code::ENDPOINTS_UNREAD]);
    let policies = of("sidecars", CollectionKind::Policies);
    let two = vec![services.clone(), policies.clone()];
    let ledger = run(two.clone(), vec![read(services.clone()), refused(policies.clone())]);
    assert!(!ledger.knows_deciding(false), "it is unknown whom the policies restrict");
    assert!(
        run(two, vec![read(services.clone()), read(policies)]).knows_deciding(false),
        "no CRD is an empty list"
    );
    let other = of("dc2", CollectionKind::Services);
    let parts = vec![services.clone(), other.clone()];
    let ledger = run(parts, vec![read(services), refused(other)]);
    assert!(ledger.knows_deciding(false), "a part of a registry");
    assert!(!ledger.knows_deciding(true), "parts of one source");
    let codes: Vec<Code> = ledger.unread_conditions().iter().map(|condition| condition.code).collect();
    assert_eq!(codes, [Code::SERVICES_UNREAD]);
}

/// The policies that a run and a later one report of one object: valid, standing in, or standing in with other labels.
fn policy(form: char) -> Fact {
    mk_authorization("shop/a", if form == 'o' { "b=1" } else { "a=1" }, form == 'v')
}

#[test]
fn policy_that_stands_in_replaces_no_valid_one() {
    for (reported, want) in
        [("v", 'v'), ("s", 's'), ("so", 'o'), ("sv", 'v'), ("vs", 'v'), ("svs", 'v'), ("vso", 'v')]
    {
        let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
        for (run, form) in (2..).zip(reported.chars()) {
            take(&mut ledger, [mk_put(policy(form))], &mut out);
            ledger.restart(Generation(run), Mono(20), &"over".into());
        }
        assert_eq!(out.facts.into_values().collect::<Vec<_>>(), [policy(want)], "{reported}");
    }
}

#[test]
fn policy_that_stands_in_counts_as_listed() {
    let kind = CollectionKind::Policies;
    let of_policies = || Collection { scope: mk_scope(SCOPE), kind };
    let (mut ledger, mut out) = (Ledger::new(Generation(1)), Applied::default());
    take(&mut ledger, [mk_put(policy('v'))], &mut out);
    ledger.restart(Generation(2), Mono(20), &"over".into());
    let complete = RegistryUpdate::ListEnded(of_policies(), Completeness::Complete);
    let again = [RegistryUpdate::ListStarted(of_policies()), mk_put(policy('s')), complete];
    take(&mut ledger, again, &mut out);
    assert_eq!(out.facts.into_values().collect::<Vec<_>>(), [policy('v')]);
}

#[test]
fn run_that_knows_no_valid_policy_keeps_that_of_the_run_before() {
    for (before, after, want) in [('v', 's', 'v'), ('s', 'v', 'v'), ('s', 'o', 'o')] {
        let (mut served, mut out) = (Ledger::new(Generation(1)), Applied::default());
        take(&mut served, [mk_put(policy(before))], &mut out);
        let mut shadow = Ledger::new(Generation(2));
        take(&mut shadow, [mk_put(policy(after))], &mut Applied::default());
        let served = served.adopt(shadow, &Scopes::Discovered, Mono(11), &mut out);
        assert_eq!(out.facts.into_values().collect::<Vec<_>>(), [policy(want)], "{before}{after}");
        let (held, _) = served.scopes[&mk_scope(SCOPE)].tables.get(&policy(want).item()).unwrap();
        assert_eq!(held, policy(want));
    }
}
