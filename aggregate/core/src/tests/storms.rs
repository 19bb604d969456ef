//! Random updates in any order, valid or not: after every update the catalog equals the naive answer to
//! the core's facts, and each removal has the required evidence.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::{
    CollectionKind, Completeness, EndEvidence, EndpointGroupKey, Evidence, Fact, FactId, FactKey, Generation,
    Mono, ObjectId, ObjectRef, PendingCause, Problem, Record, RegistryName, RegistrySpec, RegistryUpdate,
    SourceState, SourceStatus, Withheld,
};

use super::fixtures::*;
use super::journal::Journal;
use super::naive::{Facts, answer, read};
use super::pending::mk_waiting;
use super::properties::{REGISTRIES, any_fact as any_served_fact, mk_specs};

/// Random action.
#[derive(Debug, Clone)]
enum Act {
    /// Reports updates of a registry in one batch; `true` uses the shadow if there is one.
    Report(usize, bool, Vec<RegistryUpdate>),
    /// Reports updates in slices: the ledger reads them one by one before the state does.
    ReportInSlices(usize, Vec<RegistryUpdate>),
    Accept(usize),
    Restart(usize),
    Shadow(usize),
    DropShadow(usize),
    Fail(usize),
    RemoveAndAdd(usize),
    Release(usize),
    Tick,
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    prop_oneof![
        3 => Just(Evidence::AbsentFromList),
        1 => Just(Evidence::Confirmed),
        1 => Just(Evidence::Deleted(ObjectRef::new(ObjectId::new("X", "", "x")))),
    ]
}
/// Returns a served fact or waiting addresses.
fn any_fact() -> impl Strategy<Value = Fact> {
    let waiting =
        (select(&["shop/pay.shop", "web/cart.shop"][..]), select(&["", "10.0.0.7=w7", "10.0.0.8=w8"][..]))
            .prop_map(|(service, addresses)| mk_waiting(service, "x", "g", addresses));
    prop_oneof![8 => any_served_fact(), 1 => waiting]
}
fn any_kind() -> impl Strategy<Value = CollectionKind> {
    select(&KINDS[..])
}
fn any_delta() -> impl Strategy<Value = RegistryUpdate> {
    let how = select(
        &[Completeness::Complete, Completeness::Complete, Completeness::Filtered, Completeness::Partial][..],
    );
    let state = select(&[SourceState::Live, SourceState::Unreachable, SourceState::Syncing][..]);
    let problem = || Problem { code: tributary_model::Code::INVALID_HOST, message: "bad".into() };
    let object =
        (select(&["ServiceEntry", "Slice", "WorkloadEntry"][..]), select(&["x", "y", "g", "w1"][..]))
            .prop_map(|(kind, name)| ObjectRef::new(ObjectId::new(kind, "shop", name)));
    prop_oneof![
        12 => any_fact().prop_map(mk_put),
        4 => any_fact().prop_map(mk_unsure),
        6 => (any_fact(), any_evidence()).prop_map(|(fact, evidence)| mk_drop(&fact, evidence)),
        2 => any_kind().prop_map(|k| RegistryUpdate::ListStarted(mk_collection(k))),
        3 => (any_kind(), how).prop_map(|(k, how)| RegistryUpdate::ListEnded(mk_collection(k), how)),
        1 => proptest::sample::subsequence(KINDS.to_vec(), 0..=3)
            .prop_map(|k| RegistryUpdate::Follows { required: k.into_iter().map(mk_collection).collect(), optional: Vec::new() }),
        1 => any_kind().prop_map(|k| RegistryUpdate::Progress(mk_collection(k))),
        2 => any_kind().prop_map(|k| RegistryUpdate::Withheld(mk_collection(k), Withheld::forbidden("403"))),
        1 => Just(RegistryUpdate::End(mk_scope(SCOPE), EndEvidence::Confirmed("gone".into()))),
        2 => any_fact().prop_map(mk_doubted),
        2 => (object, any::<bool>()).prop_map(move |(o, bad)| RegistryUpdate::Problem(mk_scope(SCOPE), o, bad.then(problem))),
        1 => state.prop_map(|state| {
            RegistryUpdate::Status(mk_scope(SCOPE), SourceStatus { state, ..SourceStatus::default() })
        }),
    ]
}
fn any_act() -> impl Strategy<Value = Act> {
    let registry = || 0..REGISTRIES.len();
    prop_oneof![
        20 => (registry(), any::<bool>(), proptest::collection::vec(any_delta(), 0..6))
            .prop_map(|(r, shadow, updates)| Act::Report(r, shadow, updates)),
        4 => (registry(), proptest::collection::vec(any_delta(), 2..6))
            .prop_map(|(r, updates)| Act::ReportInSlices(r, updates)),
        1 => registry().prop_map(Act::Accept),
        2 => registry().prop_map(Act::Restart),
        2 => registry().prop_map(Act::Shadow),
        1 => registry().prop_map(Act::DropShadow),
        1 => registry().prop_map(Act::Fail),
        1 => registry().prop_map(Act::RemoveAndAdd),
        1 => registry().prop_map(Act::Release),
        1 => Just(Act::Tick),
    ]
}

fn mk_specs_that_confirm() -> Vec<RegistrySpec> {
    let specs = mk_specs().into_iter();
    specs.map(|s| RegistrySpec { can_confirm: s.id.name.as_str() != "file", ..s }).collect()
}

fn act(world: &mut World, act: Act) -> Vec<Record> {
    let now = Mono(world.now);
    let outcome = match act {
        Act::Report(r, shadow, updates) => {
            let name = REGISTRIES[r];
            let of_shadow = |w: &World| {
                w.core.status().iter().find(|s| s.id.name.as_str() == name).and_then(|s| s.shadow)
            };
            let generation = of_shadow(world).filter(|_| shadow).unwrap_or_else(|| world.generation(name));
            world.report_in(name, generation, updates)
        }
        Act::ReportInSlices(r, updates) => {
            let name = REGISTRIES[r];
            let generation = world.generation(name);
            let mut records = Vec::new();
            let last = updates.len().saturating_sub(1);
            for (at, update) in updates.into_iter().enumerate() {
                let stamped = vec![world.stamp(name, generation, update)];
                let outcome = if at < last {
                    world.core.apply_part(now, stamped)
                } else {
                    world.core.apply(now, stamped)
                };
                records.extend(outcome.records);
            }
            return records;
        }
        Act::Accept(r) => world.core.accept(now, &mk_name(REGISTRIES[r])).1,
        Act::Restart(r) => {
            world.core.drop_shadow(&mk_name(REGISTRIES[r]));
            world.restart(REGISTRIES[r])
        }
        Act::Shadow(r) => {
            world.shadow(REGISTRIES[r]);
            return Vec::new();
        }
        Act::DropShadow(r) => {
            return world.core.drop_shadow(&mk_name(REGISTRIES[r])).records;
        }
        Act::Fail(r) => world.core.fail(now, &mk_name(REGISTRIES[r]), &"broke".into()),
        Act::RemoveAndAdd(r) => {
            let outcome = world.core.remove_registry(&mk_name(REGISTRIES[r]), &Evidence::Operator);
            world.core.add_registry(&mk_specs_that_confirm()[r]).unwrap();
            world.restart(REGISTRIES[r]);
            outcome
        }
        Act::Release(r) => {
            let name = mk_name(REGISTRIES[r]);
            let held = world.core.held().find(|h| h.registry == name);
            let Some(held) = held else { return Vec::new() };
            world.core.release(now, &name, &held.key).unwrap()
        }
        Act::Tick => world.core.tick(now),
    };
    outcome.records
}

fn facts(world: &World) -> Facts {
    let index = |name: &str| REGISTRIES.iter().position(|r| *r == name).unwrap();
    world.core.facts().into_iter().map(|(name, fact)| ((index(name.as_str()), fact.item()), fact)).collect()
}

/// Pending entries as registry, host, namespace, object, and whether they wait for a declaration.
type Waits = BTreeSet<(String, String, String, String, bool)>;

fn pending(world: &mut World) -> Waits {
    let mut out = Waits::new();
    for (host, list) in &world.catalog().pending {
        for one in list.iter() {
            let for_declaration = match &one.cause {
                PendingCause::Objects(_) => false,
                PendingCause::Declaration(..) => true,
                PendingCause::Held(..) => continue,
            };
            let registry = one.shard.registry.name.to_string();
            let (host, object) = (host.to_string(), one.object.id.to_string());
            out.insert((registry, host, one.namespace.to_string(), object, for_declaration));
        }
    }
    out
}

/// Computes the pending entries from all facts.
fn naive_pending(world: &World) -> Waits {
    let row = |name: &RegistryName, key: &EndpointGroupKey, for_declaration| {
        let (host, namespace) = (key.service.host.to_string(), key.service.namespace.to_string());
        (name.to_string(), host, namespace, key.object.to_string(), for_declaration)
    };
    let mut out = Waits::new();
    for (name, registry) in &world.core.registries {
        let scoped = registry.ledger.scopes.values();
        for (fact, _) in scoped.flat_map(|scoped| scoped.tables.iter(CollectionKind::Groups)) {
            if let Fact::Waiting(key, addresses) = fact
                && !addresses.is_empty()
            {
                out.insert(row(name, &key, false));
            }
        }
    }
    let facts = world.core.facts();
    for (name, fact) in &facts {
        let Fact::Group(key, group) = fact else { continue };
        let is = |other: &Fact| matches!(other, Fact::Service(decl, _) if decl.service == key.service && decl.object == key.declaration);
        if !group.addresses.is_empty() && !facts.iter().any(|(own, other)| own == name && is(other)) {
            out.insert(row(name, key, true));
        }
    }
    out
}

/// Returns the holds that the catalog shows and those of the core, for facts of services.
fn holds(world: &mut World) -> [BTreeSet<(String, String)>; 2] {
    let shown = world.catalog();
    let shown = shown.pending.iter().flat_map(|(host, list)| list.iter().map(move |one| (host, one)));
    let of_services = [CollectionKind::Services, CollectionKind::Groups];
    let shown = shown
        .filter(|(_, one)| matches!(one.cause, PendingCause::Held(kind, _) if of_services.contains(&kind)));
    let shown =
        shown.map(|(host, one)| (one.shard.registry.name.to_string(), format!("{host} {}", one.object.id)));
    let held = world.core.held().filter_map(|held| match held.key.item {
        FactId::Service(key) => {
            Some((held.registry.to_string(), format!("{} {}", key.service.host, key.object)))
        }
        FactId::Group(key) => {
            Some((held.registry.to_string(), format!("{} {}", key.service.host, key.object)))
        }
        _ => None,
    });
    [shown.collect(), held.collect()]
}

/// Returns a registry's snapshot, read in slices of `most` facts.
fn in_slices(world: &World, name: &RegistryName, most: usize) -> Vec<Record> {
    let (mut out, mut after) = (Vec::new(), None);
    loop {
        let (slice, last) = world.core.snapshot(name, after.as_ref(), most);
        let mut puts = slice.iter().filter_map(|record| match record {
            Record::Put(_, scope, fact) => Some(FactKey { scope: scope.clone(), item: fact.item() }),
            _ => None,
        });
        after = puts.next_back().or(after);
        out.extend(slice);
        if last {
            return out;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn catalog_equals_the_naive_answer_after_every_update(acts in proptest::collection::vec(any_act(), 1..30)) {
        let mut world = World::with(&mk_specs_that_confirm());
        for one in acts {
            act(&mut world, one.clone());
            let mut served = read(&world.catalog());
            for plain in served.services.values_mut() {
                plain.codes.remove(&203);
            }
            prop_assert_eq!(pending(&mut world), naive_pending(&world), "after {:?}", one);
            let [shown, held] = holds(&mut world);
            prop_assert_eq!(shown, held, "after {:?}", one);
            prop_assert_eq!(served, answer(&mk_specs_that_confirm(), &facts(&world)), "after {:?}", one);
        }
        prop_assert_eq!(world.core.counters().unexplained_empty, 0);
        for registry in REGISTRIES {
            world.core.remove_registry(&mk_name(registry), &Evidence::Operator);
        }
        prop_assert_eq!(world.core.counters().unexplained_empty, 0, "removal by an operator is evidence");
        prop_assert!(world.core.is_empty() && world.core.next_tick().is_none());
    }

    #[test]
    fn journal_of_the_records_restores_the_facts(acts in proptest::collection::vec(any_act(), 1..30)) {
        let specs = mk_specs_that_confirm();
        let (mut world, mut journal) = (World::default(), Journal::default());
        for spec in &specs {
            world.add_registry(spec);
            let order = world.order(spec.id.name.as_str());
            journal.take(world.core.serve(Mono(1), &order).unwrap().0.records);
        }
        for one in acts {
            journal.take(act(&mut world, one));
            let wrong = journal.miscounted();
            prop_assert!(wrong.is_empty(), "{:?}", wrong);
            for spec in &specs {
                let puts = |records: Vec<Record>| -> Vec<Record> {
                    records.into_iter().filter(|record| matches!(record, Record::Put(..))).collect()
                };
                let (snapshot, last) = world.core.snapshot(&spec.id.name, None, usize::MAX);
                prop_assert!(last);
                let snapshot = puts(snapshot);
                prop_assert_eq!(&puts(in_slices(&world, &spec.id.name, 2)), &snapshot);
                prop_assert_eq!(snapshot, puts(journal.records(&spec.id.name)));
            }
        }
        let mut restored = journal.restored(&specs);
        prop_assert_eq!(facts(&restored), facts(&world));
        prop_assert_eq!(read(&restored.catalog()), read(&world.catalog()));
    }

    #[test]
    fn late_updates_change_nothing(updates in proptest::collection::vec(any_delta(), 1..20), first in proptest::collection::vec(any_fact(), 0..10)) {
        let mut world = World::with(&mk_specs_that_confirm());
        world.list("east", first);
        let before = world.catalog();
        for generation in [Generation(0), Generation(9)] {
            let outcome = world.report_in("east", generation, updates.clone());
            prop_assert!(outcome.changed.is_empty() && outcome.records.is_empty() && outcome.confirms.is_empty());
        }
        prop_assert!(std::sync::Arc::ptr_eq(&before, &world.catalog()));
    }

    #[test]
    fn updates_of_one_source_do_not_touch_a_second_source(storm in proptest::collection::vec(any_act(), 1..20), own in proptest::collection::vec(any_fact(), 1..10)) {
        let mut world = World::with(&mk_specs_that_confirm());
        world.list("file", own);
        let of_file = |world: &World| -> BTreeSet<String> {
            let all = facts(world).into_iter().filter(|((r, _), _)| REGISTRIES[*r] == "file");
            all.map(|(_, fact): (_, Fact)| format!("{fact:?}")).collect()
        };
        let before = of_file(&world);
        for one in storm {
            let file = 1;
            let is_file = matches!(one, Act::Report(r, ..) | Act::Restart(r) | Act::Shadow(r) | Act::DropShadow(r)
                | Act::ReportInSlices(r, _) | Act::Accept(r) | Act::Fail(r) | Act::RemoveAndAdd(r) | Act::Release(r) if r == file);
            if !is_file {
                act(&mut world, one);
            }
        }
        prop_assert_eq!(of_file(&world), before);
    }
}
