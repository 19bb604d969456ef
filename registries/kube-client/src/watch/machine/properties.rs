//! Whatever a server answers, in whatever order: a list is never complete that was not, and a server that
//! answers well again is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tributary_model::{Mono, SourceState};
use tributary_registry_api::SplitMix;

use super::super::Timing;
use super::super::api_failure::ApiFailure;
use super::super::head::Head;
use super::super::protocol::{Action, Say, WatchInput, WatchRequest};
use super::Machine;
use crate::resource::Resource;

const THINGS: Resource = Resource {
    group: std::borrow::Cow::Borrowed("things.test"),
    versions: &["v1", "v1beta1"],
    plural: "things",
    kind: "Thing",
    namespaced: false,
    optional: true,
};

/// What a server may do next; what does not fit what is asked is left out.
#[derive(Debug, Clone)]
enum Turn {
    /// It answers the main request well and completely.
    Good,
    /// It answers so many objects of a list well, then fails.
    Torn(usize),
    /// It refuses the main request, or breaks its stream.
    Fail(u16),
    /// It does not serve the kind.
    NotServed,
    /// An object changes, and the watch says so or keeps it back.
    Put(u8, bool),
    /// An object is deleted, and the watch says so or keeps it back.
    Delete(u8, bool),
    Bookmark,
    Ended,
    /// It answers the small list.
    Probe(Option<u16>),
    /// It answers the audit.
    Audit(bool),
    /// So many seconds pass.
    Pass(u16),
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let code = prop::sample::select(vec![400_u16, 401, 403, 404, 409, 410, 422, 429, 500, 503, 0, 1, 2]);
    let turn = prop_oneof![
        4 => Just(Turn::Good),
        2 => (0..4_usize).prop_map(Turn::Torn),
        2 => code.clone().prop_map(Turn::Fail),
        1 => Just(Turn::NotServed),
        4 => (0..6_u8, prop::bool::weighted(0.8)).prop_map(|(name, told)| Turn::Put(name, told)),
        3 => (0..6_u8, prop::bool::weighted(0.8)).prop_map(|(name, told)| Turn::Delete(name, told)),
        2 => Just(Turn::Bookmark),
        1 => Just(Turn::Ended),
        1 => proptest::option::of(code).prop_map(Turn::Probe),
        1 => prop::bool::ANY.prop_map(Turn::Audit),
        5 => (1..200_u16).prop_map(Turn::Pass),
    ];
    proptest::collection::vec(turn, 0..120)
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

/// A server, the machine, and a consumer of what the machine says.
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
    /// Whether the server has ended a list since the last `Restart`.
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

    fn hear(&mut self, heard: WatchInput<'_>) {
        let object = match &heard {
            WatchInput::Item(head) | WatchInput::Object(head) | WatchInput::Deleted(head) => {
                Some((head.name[1..].parse().unwrap(), head.version.parse().unwrap()))
            }
            _ => None,
        };
        let mut actions = Vec::new();
        self.machine.step(heard, self.now, &mut actions);
        assert!(self.machine.deadline() >= self.now || !actions.is_empty() || self.ticks(), "no busy wait");
        for action in actions {
            self.act(action, object);
        }
    }
    /// Whether a tick now leads on: a deadline in the past must.
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
            Action::Say(say) => self.say(say, object),
        }
    }
    fn say(&mut self, say: Say, object: Option<(u8, u64)>) {
        let unseen = self.unseen.as_mut();
        match (say, object) {
            (Say::Init, _) => self.unseen.get_or_insert_default().extend(self.held.keys().copied()),
            (Say::Apply, Some((name, version))) => {
                unseen.map(|unseen| unseen.remove(&name));
                self.held.insert(name, version);
            }
            (Say::Unchanged, Some((name, version))) => {
                unseen.map(|unseen| unseen.remove(&name));
                assert_eq!(self.held.get(&name), Some(&version), "what is seen was put in this version");
            }
            (Say::Delete, Some((name, _))) => drop(self.held.remove(&name)),
            (Say::InitDone, _) => {
                self.withheld = false;
                assert!(self.complete, "a list was called complete that was not");
                for name in self.unseen.take().expect("a list begins before it ends") {
                    self.held.remove(&name);
                }
            }
            (Say::NotServed, _) => {
                self.withheld = false;
                self.unseen = None;
                self.held.clear();
            }
            (Say::Status(part), _) => self.state = part.state,
            (Say::Unavailable(_), _) => self.withheld = true,
            (Say::Resumed, _) => {
                assert!(self.withheld, "only a withheld kind is resumed");
                self.withheld = false;
            }
            (Say::Confirmed | Say::Recovered(_), _) => {}
            (say, None) => panic!("{say:?} of nothing"),
        }
    }

    fn take(&mut self, turn: &Turn) {
        match turn {
            Turn::Good => self.answer(None),
            Turn::Torn(after) => self.answer(Some(*after)),
            Turn::Fail(code) if self.main.is_some() => {
                self.main = None;
                self.hear(WatchInput::Failed(failure(*code)));
            }
            Turn::NotServed if self.main == Some(WatchRequest::Served) => {
                self.main = None;
                self.hear(WatchInput::Served(None));
            }
            Turn::Put(name, told) => self.put(*name, *told),
            Turn::Delete(name, told) => self.delete(*name, *told),
            Turn::Bookmark if self.is_followed() => {
                let version = self.version.to_string();
                self.hear(WatchInput::Bookmark { version, complete: false });
            }
            Turn::Ended if self.is_followed() => {
                self.main = None;
                self.hear(WatchInput::Ended);
            }
            Turn::Probe(code) if self.probe => {
                self.probe = false;
                self.hear(WatchInput::Probed(code.map_or(Ok(()), |code| Err(failure(code)))));
            }
            Turn::Audit(good) if self.audit => self.answer_audit(*good),
            Turn::Pass(seconds) => self.pass(Duration::from_secs(u64::from(*seconds))),
            _ => {}
        }
    }
    fn is_followed(&self) -> bool {
        matches!(self.main, Some(WatchRequest::Watch { from: Some(_), .. })) && self.is_open()
    }
    fn is_open(&self) -> bool {
        matches!(self.machine.phase, super::Phase::Following { .. })
    }
    fn put(&mut self, name: u8, told: bool) {
        self.version += 1;
        self.objects.insert(name, self.version);
        if told && self.is_followed() {
            self.hear(WatchInput::Object(head(name, self.version)));
        }
    }
    fn delete(&mut self, name: u8, told: bool) {
        self.version += 1;
        if self.objects.remove(&name).is_some() && told && self.is_followed() {
            self.hear(WatchInput::Deleted(head(name, self.version)));
        }
    }
    /// Answers the main request well; of a list only so many objects.
    fn answer(&mut self, torn_after: Option<usize>) {
        match self.main.clone() {
            Some(WatchRequest::Watch { from: Some(_), .. }) if !self.is_open() => {
                self.hear(WatchInput::Opened)
            }
            Some(WatchRequest::Watch { from: None, .. }) => self.stream(torn_after),
            Some(WatchRequest::Page { next, .. }) => self.page(next, torn_after),
            Some(WatchRequest::Served) => {
                self.main = None;
                self.hear(WatchInput::Served(Some(0)));
            }
            _ => {}
        }
    }
    fn stream(&mut self, torn_after: Option<usize>) {
        self.hear(WatchInput::Opened);
        let objects: Vec<(u8, u64)> = self.objects.iter().map(|(name, version)| (*name, *version)).collect();
        for (name, version) in objects.into_iter().take(torn_after.unwrap_or(usize::MAX)) {
            self.hear(WatchInput::Object(head(name, version)));
        }
        if torn_after.is_some() {
            // a bookmark within a list ends nothing
            self.hear(WatchInput::Bookmark { version: self.version.to_string(), complete: false });
            self.main = None;
            return self.hear(WatchInput::Failed(failure(1)));
        }
        self.complete = true;
        let version = self.version.to_string();
        // from here on it is a watch like any other
        self.main =
            Some(WatchRequest::Watch { version: "v1", from: Some(version.clone()), lasting: Duration::ZERO });
        self.hear(WatchInput::Bookmark { version, complete: true });
    }
    /// A page holds two objects; the token is the last name.
    fn page(&mut self, next: Option<String>, torn_after: Option<usize>) {
        self.main = None;
        let after: i16 = next.map_or(-1, |token| token.parse().unwrap());
        let rest = self.objects.iter().filter(|(name, _)| i16::from(**name) > after);
        let rest: Vec<(u8, u64)> = rest.map(|(name, version)| (*name, *version)).collect();
        if torn_after.is_some() {
            // a page is read whole or not at all
            return self.hear(WatchInput::Failed(failure(1)));
        }
        let more = rest.len() > 2;
        let shown: Vec<(u8, u64)> = rest.into_iter().take(2).collect();
        for (name, version) in &shown {
            self.hear(WatchInput::Item(head(*name, *version)));
        }
        let next = shown.last().filter(|_| more).map(|(name, _)| name.to_string());
        self.complete = next.is_none();
        self.hear(WatchInput::Page { next, version: self.version.to_string() });
    }
    fn answer_audit(&mut self, good: bool) {
        self.audit = false;
        if !good {
            return self.hear(WatchInput::AuditFailed(failure(500)));
        }
        let objects: Vec<(u8, u64)> = self.objects.iter().map(|(name, version)| (*name, *version)).collect();
        for (name, version) in objects {
            self.hear(WatchInput::Audited(head(name, version)));
        }
        self.hear(WatchInput::AuditPage { next: None, version: self.version.to_string() });
    }
    /// Lets time pass, with every tick that is asked for.
    fn pass(&mut self, time: Duration) {
        let until = self.now.plus(time);
        let mut ticks = 0;
        while self.machine.deadline() <= until {
            self.now = self.now.max(self.machine.deadline());
            self.hear(WatchInput::Tick);
            ticks += 1;
            assert!(ticks < 10_000, "a tick for nothing, again and again");
        }
        self.now = until;
    }
    /// The server answers everything well.
    fn good(&mut self, time: Duration) {
        let until = self.now.plus(time);
        let mut bookmark = self.now.plus(Duration::from_secs(60));
        while self.now < until {
            self.pass(Duration::from_secs(1));
            self.take(&Turn::Good);
            self.take(&Turn::Probe(None));
            self.take(&Turn::Audit(true));
            if self.now >= bookmark {
                bookmark = self.now.plus(Duration::from_secs(60));
                self.take(&Turn::Bookmark);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// `say` asserts on the way that no list is called complete that was not, and that what is seen was put.
    #[test]
    fn whatever_a_server_answers_in_the_end_the_truth_is_held(seed: u64, turns in turns()) {
        let mut world = World::new(seed);
        world.pass(Duration::ZERO);
        for turn in &turns {
            world.take(turn);
        }
        // two audits, and what the server kept back is healed
        world.good(Duration::from_secs(2_000));
        prop_assert_eq!((world.state, world.withheld), (SourceState::Live, false));
        prop_assert_eq!(&world.held, &world.objects);
    }

    #[test]
    fn a_server_that_recovers_is_followed_soon(seed: u64, turns in turns()) {
        let mut world = World::new(seed);
        world.pass(Duration::ZERO);
        for turn in &turns {
            world.take(turn);
        }
        // the longest pause, the longest wait for an answer, and a bookmark
        world.good(Duration::from_secs(200));
        prop_assert_eq!(world.state, SourceState::Live);
        // an audit that ends now and finds what was kept back begins a list, which takes a moment
        let open = world.is_open() || {
            world.good(Duration::from_secs(2));
            world.is_open()
        };
        prop_assert!(open && world.state == SourceState::Live);
    }
}
