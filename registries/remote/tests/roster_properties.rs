//! Random histories of the roster: any order of events ends in the state of a fresh build, and a model of the component that
//! runs clusters accepts every order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use rosters::*;
use tributary_model::{ClusterId, Timestamp};
use tributary_remote::roster::{
    Action, ClaimObject, Digest, Event, Order, Policy, Roster, Source, SourceHealth, SourceKind, State,
    Verdict,
};

#[path = "support/rosters.rs"]
mod rosters;

const CLUSTERS: [&str; 4] = ["a", "b", "c", "home"];
const NAMES: [&str; 3] = ["n/1", "n/2", "n/3"];

/// Objects of every source.
type Facts = BTreeMap<(Source, String), ClaimObject>;

/// One thing that happens.
#[derive(Debug, Clone)]
enum Happening {
    Put(Source, ClaimObject),
    Delete(Source, &'static str),
    List(Source),
    Health(Source, SourceHealth),
    Time(u64),
    Withdraw,
    Receipt,
}

fn source() -> impl Strategy<Value = Source> {
    prop::sample::select(&SOURCES[..])
}

fn object() -> impl Strategy<Value = ClaimObject> {
    let credential = prop::sample::select(&["1", "2", "3", "!4"][..]);
    let claims = prop::collection::btree_map(prop::sample::select(&CLUSTERS[..]), credential, 0..3);
    let policy = prop_oneof![8 => Just((false, false)), 1 => Just((true, false)), 1 => Just((false, true))];
    (prop::sample::select(&NAMES[..]), claims, policy, 0..2i32, prop::option::of(0..3i64)).prop_map(
        |(name, claims, (paused, remove), priority, created)| ClaimObject {
            name: name.to_owned(),
            created: created.and_then(|second| Timestamp::from_second(second).ok()),
            policy: Policy { priority, paused, remove, ..Policy::default() },
            claims: claims
                .into_iter()
                .map(|(cluster, credential)| (id(cluster), mk_verdict(credential)))
                .collect(),
            faults: Vec::new(),
        },
    )
}

fn happening() -> impl Strategy<Value = Happening> {
    let healths =
        [SourceHealth::Synced, SourceHealth::Unsynced, SourceHealth::Failed, SourceHealth::Forbidden];
    prop_oneof![
        6 => (source(), object()).prop_map(|(source, object)| Happening::Put(source, object)),
        4 => (source(), prop::sample::select(&NAMES[..])).prop_map(|(source, name)| Happening::Delete(source, name)),
        2 => source().prop_map(Happening::List),
        2 => (source(), prop::sample::select(healths.to_vec())).prop_map(|(source, health)| Happening::Health(source, health)),
        3 => (0..700u64).prop_map(Happening::Time),
        1 => Just(Happening::Withdraw),
        1 => Just(Happening::Receipt),
    ]
}

/// What the server holds of a cluster in the model: a connection with its digest, or none while it is paused.
type Held = BTreeMap<ClusterId, Option<Digest>>;

/// Roster, the objects behind its sources, and a model of the component that obeys its orders.
struct World {
    roster: Roster,
    seconds: u64,
    facts: Facts,
    listed: BTreeSet<Source>,
    synced: BTreeSet<Source>,
    held: Held,
    /// Last Leave of each cluster that drains.
    draining: BTreeMap<ClusterId, u64>,
    /// Leave of each cluster that is withdrawn, until its receipt.
    withdrawn: BTreeMap<ClusterId, u64>,
    /// Kind of source of the last first claim of each cluster.
    kinds: BTreeMap<ClusterId, SourceKind>,
}

impl World {
    fn new() -> Self {
        Self {
            roster: Roster::new(mk_settings()),
            seconds: 0,
            facts: Facts::new(),
            listed: BTreeSet::new(),
            synced: BTreeSet::new(),
            held: Held::new(),
            draining: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            kinds: BTreeMap::new(),
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<(), TestCaseError> {
        match happening {
            Happening::Put(source, object) => {
                self.facts.insert((source, object.name.clone()), object.clone());
                self.apply(Event::Put(source, object))
            }
            Happening::Delete(source, name) => {
                self.facts.remove(&(source, name.to_owned()));
                self.apply(Event::Delete(source, name.to_owned()))
            }
            Happening::List(source) => self.list(source),
            Happening::Health(source, health) => {
                self.synced.remove(&source);
                if health == SourceHealth::Synced && self.listed.contains(&source) {
                    self.synced.insert(source);
                }
                self.apply(Event::Health(source, health))
            }
            Happening::Time(seconds) => {
                self.seconds += seconds;
                self.apply(Event::Tick)
            }
            Happening::Withdraw => {
                self.withdraw();
                Ok(())
            }
            Happening::Receipt => self.receipts(),
        }
    }

    fn list(&mut self, source: Source) -> Result<(), TestCaseError> {
        self.listed.insert(source);
        self.synced.insert(source);
        let objects = self.facts.iter().filter(|((of, _), _)| *of == source);
        let objects = objects.map(|(_, object)| object.clone()).collect();
        self.apply(Event::List(source, objects))
    }

    fn apply(&mut self, event: Event) -> Result<(), TestCaseError> {
        let orders = self.roster.apply(at(self.seconds), event);
        for cluster in CLUSTERS.map(id) {
            if let Some((source, ..)) = first(&self.facts, &cluster) {
                self.kinds.insert(cluster, source.kind());
            }
        }
        orders.into_iter().try_for_each(|order| self.obey(order))
    }

    /// Carries out an order; fails on one that makes no sense.
    fn obey(&mut self, order: Order) -> Result<(), TestCaseError> {
        let cluster = order.cluster.clone();
        prop_assert!(!self.withdrawn.contains_key(&cluster), "an order before the receipt: {:?}", order);
        match order.action {
            Action::Join(access) => {
                prop_assert_eq!(self.held.insert(cluster, Some(access.digest)), None);
            }
            Action::Rotate(access) => {
                let old = self.held.insert(cluster, Some(access.digest));
                prop_assert!(
                    old.is_some_and(|old| old != Some(access.digest)),
                    "a rotation without a change"
                );
            }
            Action::Pause => prop_assert!(self.held.insert(cluster, None).flatten().is_some()),
            Action::Leave => {
                prop_assert!(self.held.contains_key(&cluster));
                prop_assert!(self.may_leave(&cluster), "{} left without a proof", cluster);
                self.draining.insert(cluster, order.number);
            }
        }
        Ok(())
    }

    /// Returns true for a cluster of which a claim has `remove`, or that no object declares while its source is synced.
    fn may_leave(&self, cluster: &ClusterId) -> bool {
        let kind = self.kinds.get(cluster).copied();
        let mut of_kind = SOURCES.iter().filter(|source| Some(source.kind()) == kind);
        let is_proven =
            first(&self.facts, cluster).is_none() && of_kind.all(|source| self.synced.contains(source));
        is_proven || self.may_be_removed(cluster)
    }

    /// Returns true for a cluster of which a claim has `remove`. Which one is first depends on the health of its watches.
    fn may_be_removed(&self, cluster: &ClusterId) -> bool {
        self.facts.values().any(|object| object.policy.remove && object.claims.contains_key(cluster))
    }

    fn withdraw(&mut self) {
        for (cluster, number) in std::mem::take(&mut self.draining) {
            if self.roster.withdraw(&cluster, number) {
                self.held.remove(&cluster);
                self.withdrawn.insert(cluster, number);
            }
        }
    }

    fn receipts(&mut self) -> Result<(), TestCaseError> {
        for (cluster, number) in std::mem::take(&mut self.withdrawn) {
            self.apply(Event::Receipt(cluster, number))?;
        }
        Ok(())
    }

    /// Lets every timer end and every Leave finish.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..3 {
            self.seconds += 700;
            self.apply(Event::Tick)?;
            self.withdraw();
            self.receipts()?;
        }
        prop_assert_eq!(self.roster.next_due(), None);
        Ok(())
    }
}

/// First claim to a cluster, by a sort of all facts; independent of the roster's order.
fn first<'a>(facts: &'a Facts, cluster: &ClusterId) -> Option<(Source, &'a ClaimObject, &'a Verdict)> {
    let claims =
        facts.iter().filter_map(|((source, _), object)| Some((*source, object, object.claims.get(cluster)?)));
    claims.min_by_key(|(source, object, verdict)| {
        let kind = SOURCES.iter().position(|one| one.kind() == source.kind());
        let created = object.created.map_or(i64::MAX, Timestamp::as_second);
        let is_refused = matches!(verdict, Verdict::Refused(_));
        (
            is_refused,
            object.policy.remove,
            kind,
            -object.policy.priority,
            created,
            object.name.clone(),
            *source,
        )
    })
}

/// Compares what is held with what the facts ask for.
fn check(world: &World) -> Result<(), TestCaseError> {
    for cluster in CLUSTERS.map(id) {
        let held = world.held.get(&cluster).copied();
        let expected = match first(&world.facts, &cluster) {
            _ if cluster == id("home") => None,
            None => None,
            Some((_, object, _)) if object.policy.remove => None,
            // refused claims alone keep what is held
            Some((_, object, Verdict::Refused(_))) => held.map(|held| held.filter(|_| !object.policy.paused)),
            Some((_, object, Verdict::Vetted(_))) if object.policy.paused => held.map(|_| None),
            Some((_, _, Verdict::Vetted(digest))) => Some(Some(*digest)),
        };
        prop_assert_eq!(held, expected, "{}", cluster);
    }
    Ok(())
}

/// Status without what depends on history: times, and states where all claims are refused or the first is paused.
fn compared(roster: &Roster) -> Vec<String> {
    let clusters = roster.status().clusters.into_iter().map(|mut one| {
        let is_paused = one.policy.as_ref().is_some_and(|policy| policy.paused);
        let wins = one.claims.iter().any(|claim| claim.outcome == tributary_remote::roster::Outcome::Wins);
        one.since = None;
        if is_paused || !wins {
            (one.state, one.registry) = (State::Absent, None);
        }
        one
    });
    clusters.filter(|one| !one.claims.is_empty()).map(|one| format!("{one:?}")).collect()
}

/// Roster that is built from the facts alone.
fn fresh(facts: &Facts) -> Result<World, TestCaseError> {
    let mut world = World { facts: facts.clone(), ..World::new() };
    SOURCES.into_iter().try_for_each(|source| world.list(source))?;
    world.settle()?;
    Ok(world)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn any_history_ends_in_the_state_of_a_fresh_build(
        history in prop::collection::vec(happening(), 0..60),
        last in Just(SOURCES.to_vec()).prop_shuffle(),
    ) {
        let mut world = World::new();
        history.into_iter().try_for_each(|happening| world.happen(happening))?;
        last.into_iter().try_for_each(|source| world.list(source))?;
        world.settle()?;
        check(&world)?;
        prop_assert_eq!(compared(&world.roster), compared(&fresh(&world.facts)?.roster));
    }

    #[test]
    fn events_in_any_order_end_in_one_state(
        objects in prop::collection::vec((source(), object()), 0..12),
        seed in prop::collection::vec(any::<prop::sample::Index>(), 24),
    ) {
        // one delete and one put of each object, in an order in which the put of an object comes last
        let facts: Facts = objects.into_iter().map(|(source, object)| ((source, object.name.clone()), object)).collect();
        let mut pending: Vec<Vec<Event>> = facts
            .values()
            .zip(facts.keys())
            .map(|(object, (source, name))| vec![Event::Put(*source, object.clone()), Event::Delete(*source, name.clone())])
            .collect();
        let mut world = fresh(&facts)?;
        for index in seed {
            if !pending.is_empty() {
                let at = index.index(pending.len());
                let event = pending[at].pop().unwrap();
                if pending[at].is_empty() {
                    pending.remove(at);
                }
                world.seconds += 1;
                world.apply_raw(event)?;
            }
        }
        world.settle()?;
        check(&world)?;
        prop_assert_eq!(compared(&world.roster), compared(&fresh(&facts)?.roster));
    }
}

impl World {
    /// Applies an event while objects may be deleted for a moment, which is too short for a Leave.
    fn apply_raw(&mut self, event: Event) -> Result<(), TestCaseError> {
        let orders = self.roster.apply(at(self.seconds), event);
        for order in orders {
            prop_assert!(order.action != Action::Leave || self.may_be_removed(&order.cluster), "{:?}", order);
            self.obey(order)?;
        }
        Ok(())
    }
}
