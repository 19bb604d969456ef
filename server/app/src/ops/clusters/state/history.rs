//! Random histories of a cluster through the core, against a model of what its API server did: the state is never better than the
//! truth, and never worse.

use proptest::prelude::*;
use tributary_core::{Core, RunOrder};
use tributary_model::{
    ClusterId, Collection, CollectionKind, Completeness, Generation, ProviderId, RegistryId, RegistryName,
    RegistrySpec, RegistryUpdate, Scope, SourceStatus, Stamped,
};

use super::*;

const BOUND: Duration = Duration::from_secs(150);
/// Registries of the cluster: its objects and its custom resources.
const LANES: [&str; 2] = ["east", "east-entries"];

/// Event of one registry.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The server answers: a new run has all that it lists, a run that has it already has a confirmation.
    Answers,
    /// The server refuses the credential.
    Refuses,
    /// The server does not answer.
    IsAway,
    /// A new run begins.
    Restarts,
    /// A watch that hangs reports nothing.
    Hangs,
}

/// What is true of one registry.
#[derive(Debug, Clone, Default)]
struct Truth {
    generation: u64,
    is_listed: bool,
    was_listed: bool,
    confirmed: Option<Mono>,
    trouble: Option<ClusterState>,
}

struct World {
    core: Core,
    truths: [Truth; 2],
    now: Mono,
}

fn mk_spec(lane: usize) -> RegistrySpec {
    let (name, cluster) = (RegistryName::new(LANES[lane]).unwrap(), ClusterId::new("east").unwrap());
    RegistrySpec::new(std::sync::Arc::new(RegistryId { name, provider: ProviderId::KUBERNETES, cluster }), 1)
}

fn mk_collection() -> Collection {
    Collection { scope: Scope::new("cluster").unwrap(), kind: CollectionKind::Services }
}

impl World {
    fn new() -> Self {
        let mut world = Self { core: Core::default(), truths: Default::default(), now: Mono(1) };
        for lane in 0..LANES.len() {
            let _ = world.core.add_registry(&mk_spec(lane)).unwrap();
            world.restart(lane);
        }
        world
    }
    fn restart(&mut self, lane: usize) {
        let before = self.truths[lane].generation;
        let (generation, replaces) = (Generation(before + 1), Generation(before));
        let order = RunOrder { spec: mk_spec(lane), generation, replaces, group: None };
        self.core.serve(self.now, &order).unwrap();
        let truth = &mut self.truths[lane];
        (truth.generation, truth.is_listed, truth.trouble) = (generation.0, false, None);
        let required = vec![mk_collection()];
        self.send(lane, RegistryUpdate::Follows { required, optional: Vec::new() });
        self.report(lane, SourceState::Syncing);
    }
    fn send(&mut self, lane: usize, value: RegistryUpdate) {
        let (registry, generation) =
            (mk_spec(lane).id.name.clone(), Generation(self.truths[lane].generation));
        let _ = self.core.apply(self.now, vec![Stamped { registry, generation, at: self.now, value }]);
    }
    fn report(&mut self, lane: usize, state: SourceState) {
        let scope = mk_collection().scope;
        self.send(lane, RegistryUpdate::Status(scope, SourceStatus::new(state, "")));
    }
    fn happens(&mut self, lane: usize, event: Event) {
        match event {
            Event::Answers if self.truths[lane].is_listed => {
                self.report(lane, SourceState::Live);
                self.send(lane, RegistryUpdate::Progress(mk_collection()));
            }
            Event::Answers => {
                self.report(lane, SourceState::Live);
                self.send(lane, RegistryUpdate::ListStarted(mk_collection()));
                self.send(lane, RegistryUpdate::ListEnded(mk_collection(), Completeness::Complete));
            }
            Event::Refuses => self.report(lane, SourceState::AuthFailed),
            Event::IsAway => self.report(lane, SourceState::Unreachable),
            Event::Restarts => return self.restart(lane),
            Event::Hangs => return,
        }
        let truth = &mut self.truths[lane];
        truth.trouble = match event {
            Event::Refuses => Some(ClusterState::AuthFailed),
            Event::IsAway => Some(ClusterState::Unreachable),
            _ => None,
        };
        if truth.trouble.is_none() {
            (truth.is_listed, truth.was_listed, truth.confirmed) = (true, true, Some(self.now));
        }
    }
    fn expected(&self) -> ClusterState {
        let troubles = self.truths.iter().filter_map(|truth| truth.trouble);
        if let Some(worst) = troubles.min_by_key(|state| state.place()) {
            return worst;
        }
        let is_current =
            |truth: &Truth| truth.is_listed && truth.confirmed.is_some_and(|at| self.now.since(at) <= BOUND);
        match &self.truths {
            all if all.iter().any(|truth| !truth.was_listed) => ClusterState::Syncing,
            all if all.iter().all(is_current) => ClusterState::Live,
            _ => ClusterState::Stale,
        }
    }
    fn claimed(&self) -> ClusterState {
        let statuses = self.core.status();
        let lanes: Vec<Lane<'_>> = statuses.iter().map(|status| Lane { status, run: None }).collect();
        let (bound, now) = (BOUND, self.now);
        judge(&Facts { roster: None, failure: None, unread: None, lanes: &lanes, bound, now }).state
    }
}

fn any_step() -> impl Strategy<Value = (usize, Event, u64)> {
    let event = prop_oneof![
        6 => Just(Event::Answers),
        1 => Just(Event::Refuses),
        1 => Just(Event::IsAway),
        1 => Just(Event::Restarts),
        1 => Just(Event::Hangs),
    ];
    (0..LANES.len(), event, prop_oneof![0_u64..5_000, 0_u64..200_000])
}

proptest! {
    /// cilium#48555, istio#60082: a status was green or red regardless of the truth.
    #[test]
    fn status_matches_model(steps in proptest::collection::vec(any_step(), 1..60)) {
        let mut world = World::new();
        for (lane, event, pause) in steps {
            world.happens(lane, event);
            prop_assert_eq!(world.claimed(), world.expected(), "{:?}", world.truths);
            world.now = Mono(world.now.0 + pause);
            prop_assert_eq!(world.claimed(), world.expected(), "{} ms later: {:?}", pause, world.truths);
        }
    }
}
