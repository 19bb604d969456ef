//! The inlet before a real core: words that were conflated lead to the catalog that raw ones do.
//!
//! Said by a registry that cannot be asked again: of what the removal gate doubts it is meant to
//! matter in how many turns things were said.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use tributary_core::{Core, RunOrder};
use tributary_model::{
    Collection, Completeness, Delta, Freshness, Generation, Hostname, Mono, RegistryName, SourceState,
    SourceStatus, Stamped,
};
use tributary_registry_api::{ManualClock, RegistryFactory, Run, Wake, inlet};

use super::source::{MemorySource, Object};
use super::{MemoryFactory, words};
use crate::stage::served;

const NAMES: [&str; 3] = ["pay", "cart", "stock"];

/// What is compared: what is served, how fresh what is, and how many objects are bad.
type Outcome =
    (BTreeMap<Hostname, BTreeSet<IpAddr>>, BTreeMap<Collection, Discriminant<Freshness>>, BTreeSet<String>);

fn mk_core() -> (Core, RegistryName) {
    let spec = MemoryFactory::new("memory", MemorySource::new(false, None)).spec();
    let (mut core, name) = (Core::default(), spec.id.name.clone());
    core.join(&spec).unwrap();
    core.serve(Mono(0), &RunOrder::first(spec)).unwrap();
    (core, name)
}

fn outcome(core: &mut Core) -> Outcome {
    let status = core.status().into_iter().flat_map(|one| one.collections);
    let fresh = status.map(|one| (one.collection, discriminant(&one.freshness))).collect();
    let problems = core.problems().map(|problem| problem.object.to_string()).collect();
    (served(&core.publish()), fresh, problems)
}

fn raw(said: &[Vec<Delta>]) -> Outcome {
    let (mut core, registry) = mk_core();
    let stamp = |value| Stamped { registry: registry.clone(), generation: Generation(1), at: Mono(1), value };
    for together in said {
        core.apply(Mono(1), together.iter().cloned().map(stamp).collect());
    }
    outcome(&mut core)
}

fn conflated(said: &[Vec<Delta>], takes: &[bool]) -> Outcome {
    let (mut core, registry) = mk_core();
    let run = Run { registry, generation: Generation(1) };
    let (inlet, mut outlet) = inlet(run, Arc::new(ManualClock::default()), Wake::default());
    for (together, take) in said.iter().zip(takes.iter().chain(std::iter::repeat(&false))) {
        inlet.send_all(together.iter().cloned());
        if *take {
            core.apply(Mono(1), outlet.take());
        }
    }
    core.apply(Mono(1), outlet.take());
    outcome(&mut core)
}

/// What an adapter says in one breath.
fn any_breath(bad: bool) -> impl Strategy<Value = Vec<Delta>> {
    let kinds = if bad { 0..10_u8 } else { 0..9_u8 };
    (kinds, 0..2_usize, 0..NAMES.len(), 0..5_u8).prop_map(|(kind, part, name, value)| {
        let name = NAMES[name];
        let object = |bad| Object { endpoints: BTreeSet::from([IpAddr::from([10, 0, 0, value])]), bad };
        let collections = words::collections(part);
        let status = |state| {
            vec![Delta::Status(words::scope(part), SourceStatus { state, ..SourceStatus::default() })]
        };
        match kind {
            0..=2 => words::says(part, name, &object(false)),
            3 => words::deleted(part, name),
            4 => collections.map(Delta::Restart).to_vec(),
            5..=6 => collections.map(|c| Delta::Synced(c, Completeness::Complete)).to_vec(),
            7 if value > 2 => collections.map(|c| Delta::Synced(c, Completeness::Partial)).to_vec(),
            7 => status(SourceState::Unreachable),
            8 if value > 2 => collections.map(Delta::Progress).to_vec(),
            8 => status(if value == 0 { SourceState::Live } else { SourceState::Syncing }),
            _ => words::says(part, name, &object(true)),
        }
    })
}

fn said(bad: bool) -> impl Strategy<Value = (Vec<Vec<Delta>>, Vec<bool>)> {
    let breaths = prop::collection::vec(any_breath(bad), 0..60);
    (breaths, prop::collection::vec(prop::bool::weighted(0.1), 60))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_core_hears_the_same((said, takes) in said(false)) {
        prop_assert_eq!(conflated(&said, &takes), raw(&said));
    }

    #[test]
    fn with_bad_objects_nothing_more_is_lost((said, takes) in said(true)) {
        let (taken, heard) = (conflated(&said, &takes), raw(&said));
        prop_assert_eq!(&taken.2, &heard.2);
        for (host, ips) in &heard.0 {
            let also = taken.0.get(host);
            prop_assert!(also.is_some_and(|also| ips.is_subset(also)), "{host} had {ips:?}, has {also:?}");
        }
    }
}
