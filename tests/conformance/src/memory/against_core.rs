//! Tests the update channel in front of a real core: updates that were conflated and passed on in slices lead
//! to the same catalog as raw ones; so does a run that ends after any of its updates and is followed or
//! replaced by another run.
//!
//! The registry cannot confirm removals: how the removal guard treats a loss depends, by design, on the batches
//! in which it was reported.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use tributary_core::{Core, RunOrder};
use tributary_model::{
    Collection, Completeness, EndEvidence, Fingerprint, Freshness, Generation, Hostname, Mono, RegistryName,
    RegistrySpec, RegistryUpdate, SourceState, SourceStatus, Stamped, Withheld,
};
use tributary_registry_api::{ManualClock, RegistryFactory, Run, Wake, update_channel};

use super::source::{MemorySource, Object};
use super::{MemoryFactory, updates};
use crate::stage::served;

const NAMES: [&str; 3] = ["pay", "cart", "stock"];

/// Compared values: served addresses, freshness by collection, and the names of bad objects.
type Outcome =
    (BTreeMap<Hostname, BTreeSet<IpAddr>>, BTreeMap<Collection, Discriminant<Freshness>>, BTreeSet<String>);

fn mk_core() -> (Core, RegistryName) {
    let spec = MemoryFactory::new("memory", MemorySource::new(false, None)).spec();
    let (mut core, name) = (Core::default(), spec.id.name.clone());
    core.add_registry(&spec).unwrap();
    core.serve(Mono(0), &RunOrder::first(spec)).unwrap();
    (core, name)
}

fn outcome(core: &mut Core) -> Outcome {
    let status = core.status().into_iter().flat_map(|one| one.collections);
    let fresh = status.map(|one| (one.collection, discriminant(&one.freshness))).collect();
    let problems = core.problems().map(|problem| problem.object.to_string()).collect();
    (served(&core.publish()), fresh, problems)
}

fn raw(reported: &[Vec<RegistryUpdate>]) -> Outcome {
    let (mut core, registry) = mk_core();
    let stamp = |value| Stamped { registry: registry.clone(), generation: Generation(1), at: Mono(1), value };
    for together in reported {
        core.apply(Mono(1), together.iter().cloned().map(stamp).collect());
    }
    outcome(&mut core)
}

fn conflated(reported: &[Vec<RegistryUpdate>], takes: &[bool]) -> Outcome {
    let (mut core, registry) = mk_core();
    let run = Run { registry, generation: Generation(1) };
    let (updates, mut receiver) = update_channel(run, Arc::new(ManualClock::default()), Wake::default());
    for (together, take) in reported.iter().zip(takes.iter().chain(std::iter::repeat(&false))) {
        updates.send_all(together.iter().cloned());
        if *take {
            apply_in_slices(&mut core, receiver.take());
        }
    }
    apply_in_slices(&mut core, receiver.take());
    outcome(&mut core)
}

/// Applies a take in slices, as the core task does with a large one.
fn apply_in_slices(core: &mut Core, mut take: Vec<Stamped<RegistryUpdate>>) {
    while take.len() > 3 {
        let rest = take.split_off(3);
        core.apply_part(Mono(1), take);
        take = rest;
    }
    core.apply(Mono(1), take);
}

/// Returns the updates that an adapter reports at once.
fn any_batch(bad: bool) -> impl Strategy<Value = Vec<RegistryUpdate>> {
    let kinds = if bad { 0..14_u8 } else { 0..13_u8 };
    (kinds, 0..2_usize, 0..NAMES.len(), 0..5_u8).prop_map(|(kind, part, name, value)| {
        let name = NAMES[name];
        let object = |bad| Object { endpoints: BTreeSet::from([IpAddr::from([10, 0, 0, value])]), bad };
        match kind {
            0..=2 => updates::put(part, name, &object(false)),
            3 => updates::deleted(part, name),
            13 => updates::put(part, name, &object(true)),
            kind => about_a_list(kind, part, value),
        }
    })
}

fn about_a_list(kind: u8, part: usize, value: u8) -> Vec<RegistryUpdate> {
    let collections = updates::collections(part);
    let status = |state| {
        vec![RegistryUpdate::Status(updates::scope(part), SourceStatus { state, ..SourceStatus::default() })]
    };
    match kind {
        4 => collections.map(RegistryUpdate::ListStarted).to_vec(),
        5..=6 => collections.map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete)).to_vec(),
        7 if value > 2 => collections.map(|c| RegistryUpdate::ListEnded(c, Completeness::Partial)).to_vec(),
        7 => status(SourceState::Unreachable),
        8 if value > 2 => collections.map(RegistryUpdate::Progress).to_vec(),
        8 => status(if value == 0 { SourceState::Live } else { SourceState::Syncing }),
        9 => collections.map(|c| RegistryUpdate::Withheld(c, Withheld::forbidden("not for you"))).to_vec(),
        10 => vec![RegistryUpdate::End(
            updates::scope(part),
            EndEvidence::Confirmed("the part was removed".into()),
        )],
        11 => vec![follows(if value > 2 { &[0, 1] } else { &[0] })],
        _ => vec![RegistryUpdate::Identity(Fingerprint::new("memory").unwrap())],
    }
}

/// Requires these parts and follows the others optionally: the number of takes in which an unfollowed part is
/// freed may matter.
fn follows(parts: &[usize]) -> RegistryUpdate {
    let of = |required: bool| {
        let all = (0..2).filter(|part| parts.contains(part) == required);
        all.flat_map(updates::collections).collect()
    };
    RegistryUpdate::Follows { required: of(true), optional: of(false) }
}

fn reported(bad: bool) -> impl Strategy<Value = (Vec<Vec<RegistryUpdate>>, Vec<bool>)> {
    let batches = prop::collection::vec(any_batch(bad), 0..60);
    let batches = batches.prop_map(|mut all| {
        all.insert(0, vec![follows(&[0, 1])]);
        all
    });
    (batches, prop::collection::vec(prop::bool::weighted(0.1), 60))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn conflated_updates_lead_to_the_same_catalog((reported, takes) in reported(false)) {
        prop_assert_eq!(conflated(&reported, &takes), raw(&reported));
    }

    #[test]
    fn conflation_with_bad_objects_loses_no_extra_endpoint((reported, takes) in reported(true)) {
        let (taken, expected) = (conflated(&reported, &takes), raw(&reported));
        prop_assert_eq!(&taken.2, &expected.2);
        for (host, ips) in &expected.0 {
            let also = taken.0.get(host);
            prop_assert!(also.is_some_and(|also| ips.is_subset(also)), "{host} had {ips:?}, has {also:?}");
        }
    }
}

/// Services of a part with the last byte of their address.
type Content = BTreeMap<(usize, usize), u8>;

/// Returns the updates that a run reports for this content.
fn run_of(content: &Content) -> Vec<RegistryUpdate> {
    let mut out = vec![RegistryUpdate::Identity(Fingerprint::new("memory").unwrap()), follows(&[0, 1])];
    for part in 0..2 {
        out.extend(updates::collections(part).map(RegistryUpdate::ListStarted));
        for ((_, name), value) in content.iter().filter(|((of, _), _)| *of == part) {
            let endpoints = BTreeSet::from([IpAddr::from([10, 0, 0, *value])]);
            out.extend(updates::put(part, NAMES[*name], &Object { endpoints, bad: false }));
        }
        out.extend(updates::collections(part).map(|c| RegistryUpdate::ListEnded(c, Completeness::Complete)));
    }
    out
}

fn served_of(content: &Content) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
    let mut out: BTreeMap<Hostname, BTreeSet<IpAddr>> = BTreeMap::new();
    for ((_, name), value) in content {
        out.entry(updates::host(NAMES[*name])).or_default().insert(IpAddr::from([10, 0, 0, *value]));
    }
    out
}

/// A core that receives one run after the other.
struct Runs {
    core: Core,
    name: RegistryName,
    spec: RegistrySpec,
    last: Generation,
    in_force: Generation,
}

impl Runs {
    fn new() -> Self {
        let (core, name) = mk_core();
        let spec = MemoryFactory::new("memory", MemorySource::new(false, None)).spec();
        Self { core, name, spec, last: Generation(1), in_force: Generation(1) }
    }
    /// Applies these updates, each in a batch of its own, and asserts that the addresses in `stays` are served
    /// after each.
    fn run(&mut self, updates: &[RegistryUpdate], stays: &BTreeMap<Hostname, BTreeSet<IpAddr>>) {
        for value in updates {
            let (registry, generation) = (self.name.clone(), self.last);
            self.core
                .apply(Mono(1), vec![Stamped { registry, generation, at: Mono(1), value: value.clone() }]);
            let now = served(&self.core.publish());
            for (host, ips) in stays {
                assert!(now.get(host).is_some_and(|now| ips.is_subset(now)), "{host} lost some of {ips:?}");
            }
        }
    }
    /// Ends the served run, or the one in a shadow, and begins the next.
    fn next(&mut self, in_shadow: bool) {
        if let Some(view) = self.core.publish().registries.get(&self.name) {
            self.in_force = view.generation;
        }
        self.core.drop_shadow(&self.name);
        self.last = self.last.next();
        let order =
            RunOrder { spec: self.spec.clone(), generation: self.last, replaces: self.in_force, group: None };
        if in_shadow {
            self.core.begin_shadows(Mono(1), &[order]).unwrap();
        } else {
            self.core.fail(Mono(1), &self.name, &"it ended".into());
            self.core.serve(Mono(1), &order).unwrap();
            self.in_force = self.last;
        }
    }
}

/// Returns what both contents have in the same part; a service that moves between parts may be absent in
/// between.
fn both(a: &Content, b: &Content) -> BTreeMap<Hostname, BTreeSet<IpAddr>> {
    let same = a.iter().filter(|(at, value)| b.get(at) == Some(value)).map(|(at, value)| (*at, *value));
    served_of(&same.collect())
}

fn any_content() -> impl Strategy<Value = Content> {
    prop::collection::btree_map((0..2_usize, 0..NAMES.len()), 0..5_u8, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn ending_after_any_update_loses_nothing_and_then_converges(
        (before, after, in_shadow) in (any_content(), any_content(), any::<bool>())
    ) {
        let updates = run_of(&after);
        let stays = both(&before, &after);
        for at in 0..=updates.len() {
            let mut runs = Runs::new();
            runs.run(&run_of(&before), &BTreeMap::new());
            prop_assert_eq!(served(&runs.core.publish()), served_of(&before));
            runs.next(in_shadow);
            runs.run(&updates[..at], &stays);
            runs.next(in_shadow);
            runs.run(&updates, &stays);
            prop_assert_eq!(outcome(&mut runs.core), raw(std::slice::from_ref(&updates)));
            prop_assert_eq!(served(&runs.core.publish()), served_of(&after));
        }
    }
}
