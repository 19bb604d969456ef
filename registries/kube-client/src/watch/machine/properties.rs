//! Properties of the machine for any sequence of server answers: `InitDone` follows only complete lists, and a recovered
//! server is followed again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tributary_model::{Mono, SourceState};
use tributary_registry_api::SplitMix;

use super::super::Timing;
use super::super::api_failure::ApiFailure;
use super::super::head::Head;
use super::super::protocol::{Action, WatchInput, WatchRequest};
use super::Machine;
use crate::event::Event;
use crate::resource::Resource;

const THINGS: Resource = Resource {
    group: std::borrow::Cow::Borrowed("things.test"),
    versions: &["v1", "v1beta1"],
    plural: "things",
    kind: "Thing",
    namespaced: false,
    optional: true,
};

/// Step of the server; a step that does not fit the current requests does nothing.
#[derive(Debug, Clone)]
enum Step {
    /// It answers the main request completely.
    Good,
    /// It answers this number of objects of a list, then fails.
    Torn(usize),
    /// It rejects the main request, or breaks its stream.
    Fail(u16),
    /// It does not serve the kind.
    NotServed,
    /// It changes an object; the flag is whether the watch delivers the event.
    Put(u8, bool),
    /// It deletes an object; the flag is whether the watch delivers the event.
    Delete(u8, bool),
    Bookmark,
    Ended,
    /// It answers the probe.
    Probe(Option<u16>),
    /// It answers the audit.
    Audit(bool),
    /// This number of seconds passes.
    Pass(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let code = prop::sample::select(vec![400_u16, 401, 403, 404, 409, 410, 422, 429, 500, 503, 0, 1, 2]);
    let step = prop_oneof![
        4 => Just(Step::Good),
        2 => (0..4_usize).prop_map(Step::Torn),
        2 => code.clone().prop_map(Step::Fail),
        1 => Just(Step::NotServed),
        4 => (0..6_u8, prop::bool::weighted(0.8)).prop_map(|(name, delivered)| Step::Put(name, delivered)),
        3 => (0..6_u8, prop::bool::weighted(0.8)).prop_map(|(name, delivered)| Step::Delete(name, delivered)),
        2 => Just(Step::Bookmark),
        1 => Just(Step::Ended),
        1 => proptest::option::of(code).prop_map(Step::Probe),
        1 => prop::bool::ANY.prop_map(Step::Audit),
        5 => (1..200_u16).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..120)
}

fn failure(code: u16) -> ApiFailure {
    let why = String::from("why");
    match code {
        0 => ApiFailure::Unreachable(why),
        1 => ApiFailure::Torn(why),
        2 => ApiFailure::Garbled(why),
        429 => ApiFailure::of_status(429, Some(Duration::from_secs(9)), why),
        code => ApiFailure::of_status(code, None, why),
    }
}

fn head(name: u8, version: u64) -> Head<'static> {
    Head { namespace: "".into(), name: format!("n{name}").into(), version: version.to_string().into() }
}

/// Server, machine, and a consumer of the machine's events.
struct World {
    machine: Machine,
    now: Mono,
    objects: BTreeMap<u8, u64>,
    version: u64,
    main: Option<WatchRequest>,
    probe: bool,
    audit: bool,
    held: BTreeMap<u8, u64>,
    unseen: Option<BTreeSet<u8>>,
    /// Whether the server has completed a list since the last `Init`.
    complete: bool,
    state: SourceState,
    withheld: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            machine: Machine::new(THINGS, Timing { page: 2, ..Timing::default() }, SplitMix::seeded(seed)),
            now: Mono(0),
            objects: BTreeMap::new(),
            version: 10,
            main: None,
            probe: false,
            audit: false,
            held: BTreeMap::new(),
            unseen: None,
            complete: false,
            state: SourceState::Syncing,
            withheld: false,
        }
    }

    fn input(&mut self, input: WatchInput<'_>) {
        let object = match &input {
            WatchInput::Item(head) | WatchInput::Object(head) | WatchInput::Deleted(head) => {
                Some((head.name[1..].parse().unwrap(), head.version.parse().unwrap()))
            }
            _ => None,
        };
        let mut actions = Vec::new();
        self.machine.step(input, self.now, &mut actions);
        assert!(self.machine.deadline() >= self.now || !actions.is_empty() || self.ticks(), "no busy wait");
        for action in actions {
            self.act(action, object);
        }
    }
    /// Whether a tick now leads to progress: an overdue deadline must.
    fn ticks(&mut self) -> bool {
        let mut actions = Vec::new();
        self.machine.step(WatchInput::Tick, self.now, &mut actions);
        let any = !actions.is_empty();
        actions.into_iter().for_each(|action| self.act(action, None));
        any || self.machine.deadline() > self.now
    }
    fn act(&mut self, action: Action, object: Option<(u8, u64)>) {
        match action {
            Action::Main(ask) => {
                self.complete &= matches!(ask, WatchRequest::Watch { from: Some(_), .. });
                self.main = Some(ask);
            }
            Action::StopMain => self.main = None,
            Action::Probe(_) => self.probe = true,
            Action::StopProbe => self.probe = false,
            Action::Audit(_) => self.audit = true,
            Action::StopAudit => self.audit = false,
            Action::Emit(event) => self.emit(event, object),
        }
    }
    fn emit(&mut self, event: Event<(), ()>, object: Option<(u8, u64)>) {
        let unseen = self.unseen.as_mut();
        match (event, object) {
            (Event::Init, _) => self.unseen.get_or_insert_default().extend(self.held.keys().copied()),
            (Event::Apply(()), Some((name, version))) => {
                unseen.map(|unseen| unseen.remove(&name));
                self.held.insert(name, version);
            }
            (Event::Unchanged(()), Some((name, version))) => {
                unseen.map(|unseen| unseen.remove(&name));
                assert_eq!(self.held.get(&name), Some(&version), "what is seen was put in this version");
            }
            (Event::Delete(()), Some((name, _))) => drop(self.held.remove(&name)),
            (Event::InitDone, _) => {
                self.withheld = false;
                assert!(self.complete, "a list was called complete that was not");
                for name in self.unseen.take().expect("a list begins before it ends") {
                    self.held.remove(&name);
                }
            }
            (Event::NotServed, _) => {
                self.withheld = false;
                self.unseen = None;
                self.held.clear();
            }
            (Event::Status(part), _) => self.state = part.state,
            (Event::Unavailable(_), _) => self.withheld = true,
            (Event::Resumed, _) => {
                assert!(self.withheld, "only a withheld kind is resumed");
                self.withheld = false;
            }
            (Event::Confirmed | Event::Recovered(_), _) => {}
            (event, object) => panic!("{event:?} with {object:?}"),
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Good => self.answer(None),
            Step::Torn(after) => self.answer(Some(*after)),
            Step::Fail(code) if self.main.is_some() => {
                self.main = None;
                self.input(WatchInput::Failed(failure(*code)));
            }
            Step::NotServed if self.main == Some(WatchRequest::Served) => {
                self.main = None;
                self.input(WatchInput::Served(None));
            }
            Step::Put(name, delivered) => self.put(*name, *delivered),
            Step::Delete(name, delivered) => self.delete(*name, *delivered),
            Step::Bookmark if self.is_followed() => {
                let version = self.version.to_string();
                self.input(WatchInput::Bookmark { version, complete: false });
            }
            Step::Ended if self.is_followed() => {
                self.main = None;
                self.input(WatchInput::Ended);
            }
            Step::Probe(code) if self.probe => {
                self.probe = false;
                self.input(WatchInput::Probed(code.map_or(Ok(()), |code| Err(failure(code)))));
            }
            Step::Audit(good) if self.audit => self.answer_audit(*good),
            Step::Pass(seconds) => self.pass(Duration::from_secs(u64::from(*seconds))),
            _ => {}
        }
    }
    fn is_followed(&self) -> bool {
        matches!(self.main, Some(WatchRequest::Watch { from: Some(_), .. })) && self.is_open()
    }
    fn is_open(&self) -> bool {
        matches!(self.machine.phase, super::Phase::Following { .. })
    }
    fn put(&mut self, name: u8, delivered: bool) {
        self.version += 1;
        self.objects.insert(name, self.version);
        if delivered && self.is_followed() {
            self.input(WatchInput::Object(head(name, self.version)));
        }
    }
    fn delete(&mut self, name: u8, delivered: bool) {
        self.version += 1;
        if self.objects.remove(&name).is_some() && delivered && self.is_followed() {
            self.input(WatchInput::Deleted(head(name, self.version)));
        }
    }
    /// Answers the main request; with `torn_after`, only that number of listed objects.
    fn answer(&mut self, torn_after: Option<usize>) {
        match self.main.clone() {
            Some(WatchRequest::Watch { from: Some(_), .. }) if !self.is_open() => {
                self.input(WatchInput::Opened)
            }
            Some(WatchRequest::Watch { from: None, .. }) => self.stream(torn_after),
            Some(WatchRequest::Page { next, .. }) => self.page(next, torn_after),
            Some(WatchRequest::Served) => {
                self.main = None;
                self.input(WatchInput::Served(Some(0)));
            }
            _ => {}
        }
    }
    fn stream(&mut self, torn_after: Option<usize>) {
        self.input(WatchInput::Opened);
        let objects: Vec<(u8, u64)> = self.objects.iter().map(|(name, version)| (*name, *version)).collect();
        for (name, version) in objects.into_iter().take(torn_after.unwrap_or(usize::MAX)) {
            self.input(WatchInput::Object(head(name, version)));
        }
        if torn_after.is_some() {
            // a bookmark within a list does not end it
            self.input(WatchInput::Bookmark { version: self.version.to_string(), complete: false });
            self.main = None;
            return self.input(WatchInput::Failed(failure(1)));
        }
        self.complete = true;
        let version = self.version.to_string();
        // from here on it is a regular watch
        self.main =
            Some(WatchRequest::Watch { version: "v1", from: Some(version.clone()), lasting: Duration::ZERO });
        self.input(WatchInput::Bookmark { version, complete: true });
    }
    /// Answers with a page of two objects; the continue token is the last name.
    fn page(&mut self, next: Option<String>, torn_after: Option<usize>) {
        self.main = None;
        let after: i16 = next.map_or(-1, |token| token.parse().unwrap());
        let rest = self.objects.iter().filter(|(name, _)| i16::from(**name) > after);
        let rest: Vec<(u8, u64)> = rest.map(|(name, version)| (*name, *version)).collect();
        if torn_after.is_some() {
            // a page is read whole or not at all
            return self.input(WatchInput::Failed(failure(1)));
        }
        let more = rest.len() > 2;
        let shown: Vec<(u8, u64)> = rest.into_iter().take(2).collect();
        for (name, version) in &shown {
            self.input(WatchInput::Item(head(*name, *version)));
        }
        let next = shown.last().filter(|_| more).map(|(name, _)| name.to_string());
        self.complete = next.is_none();
        self.input(WatchInput::Page { next, version: self.version.to_string() });
    }
    fn answer_audit(&mut self, good: bool) {
        self.audit = false;
        if !good {
            return self.input(WatchInput::AuditFailed(failure(500)));
        }
        let objects: Vec<(u8, u64)> = self.objects.iter().map(|(name, version)| (*name, *version)).collect();
        for (name, version) in objects {
            self.input(WatchInput::Audited(head(name, version)));
        }
        self.input(WatchInput::AuditPage { next: None, version: self.version.to_string() });
    }
    /// Advances the time, with each tick that the machine requests.
    fn pass(&mut self, time: Duration) {
        let until = self.now.plus(time);
        let mut ticks = 0;
        while self.machine.deadline() <= until {
            self.now = self.now.max(self.machine.deadline());
            self.input(WatchInput::Tick);
            ticks += 1;
            assert!(ticks < 10_000, "busy loop: each tick is due at once");
        }
        self.now = until;
    }
    /// Lets the server answer everything for this long.
    fn good(&mut self, time: Duration) {
        let until = self.now.plus(time);
        let mut bookmark = self.now.plus(Duration::from_secs(60));
        while self.now < until {
            self.pass(Duration::from_secs(1));
            self.take(&Step::Good);
            self.take(&Step::Probe(None));
            self.take(&Step::Audit(true));
            if self.now >= bookmark {
                bookmark = self.now.plus(Duration::from_secs(60));
                self.take(&Step::Bookmark);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// `report` asserts that `InitDone` follows only complete lists and that `Unchanged` follows `Apply`.
    #[test]
    fn held_objects_converge_after_any_server_answers(seed: u64, steps in steps()) {
        let mut world = World::new(seed);
        world.pass(Duration::ZERO);
        for step in &steps {
            world.take(step);
        }
        // two audits recover the events that the watch missed
        world.good(Duration::from_secs(2_000));
        prop_assert_eq!((world.state, world.withheld), (SourceState::Live, false));
        prop_assert_eq!(&world.held, &world.objects);
    }

    #[test]
    fn recovered_server_is_followed_soon(seed: u64, steps in steps()) {
        let mut world = World::new(seed);
        world.pass(Duration::ZERO);
        for step in &steps {
            world.take(step);
        }
        // longest backoff, longest answer time, and a bookmark
        world.good(Duration::from_secs(200));
        prop_assert_eq!(world.state, SourceState::Live);
        // an audit that finds missed events now begins a list: one second for each of three pages of six objects, and for
        // the watch
        let open = world.is_open() || {
            world.good(Duration::from_secs(5));
            world.is_open()
        };
        prop_assert!(open && world.state == SourceState::Live);
    }
}
