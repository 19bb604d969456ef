//! A source on a manual clock, and a core in its strictest form: it removes only what the leader confirmed, and
//! requests confirmation of what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;
use tributary_registry_api::{RandomSource, SplitMix};

use crate::answer::{Headers, RequestFailure};
use crate::config::{Limits, Select, Timing};
use crate::content::{CheckStates, Instances, Names};
use crate::machine::{Answer, Input, Machine, Output, Request, RequestTarget, Settings};
use crate::watch::{Confidence, Mode as ReadMode};
use crate::wire::lists::StateCheck;
use crate::wire::{Check, HealthEntry};

/// Latency of a request, in milliseconds.
const TRIP: u64 = 5;

/// Fault of answers that are not the leader's; `Fail` affects all answers.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lie {
    Fail(RequestFailure),
    /// Only the first so many entries.
    Short(usize),
    Stale,
    Filtered,
    NoIndex,
    Index(u64),
}

/// Number of status changes of an instance.
type Instance = u32;
type Catalog = BTreeMap<Arc<str>, BTreeMap<u8, Instance>>;

/// Settings with a poll budget.
pub(in crate::machine) fn mk_settings(polls: usize) -> Settings {
    Settings {
        timing: Timing::default(),
        limits: Limits { rate: 50, ..Limits::default() },
        polls,
        has_token: true,
        servers: 1,
        peer: false,
    }
}

pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) lie: Option<Lie>,
    /// Requests for this get no answer.
    pub(super) unanswered: Option<RequestTarget>,
    /// Requests for this fail.
    pub(super) bad: Option<(RequestTarget, RequestFailure)>,
    pub(super) open: BTreeMap<u64, (Mono, Request)>,
    pub(super) requests: Vec<Request>,
    pub(super) sent: Vec<(RequestTarget, Mono)>,
    pub(super) cancelled: Vec<u64>,
    pub(super) synced: bool,
    now: Mono,
    random: SplitMix,
    truth: Catalog,
    /// Current index of the source.
    index: u64,
    moved: BTreeMap<RequestTarget, u64>,
    /// Index at which the check of an instance was created.
    created: BTreeMap<(Arc<str>, u8), u64>,
    served: Catalog,
    /// Services that lacked a served instance in the last report, with the time of the next confirm request.
    doubted: BTreeMap<Arc<str>, Mono>,
    false_loss: Option<String>,
}

fn name(service: u8) -> Arc<str> {
    format!("s{service}").into()
}

impl World {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        let mut this = Self {
            machine: Machine::new(settings),
            lie: None,
            unanswered: None,
            bad: None,
            open: BTreeMap::new(),
            requests: Vec::new(),
            sent: Vec::new(),
            cancelled: Vec::new(),
            synced: false,
            now: Mono(0),
            random: SplitMix::seeded(seed),
            truth: Catalog::new(),
            index: 20,
            moved: BTreeMap::new(),
            created: BTreeMap::new(),
            served: Catalog::new(),
            doubted: BTreeMap::new(),
            false_loss: None,
        };
        this.step(Input::Started);
        this
    }
    pub(super) const fn now(&self) -> Mono {
        self.now
    }
    pub(super) fn truth(&self) -> Catalog {
        self.truth.clone()
    }
    pub(super) fn served(&self) -> Catalog {
        self.served.clone()
    }
    pub(super) fn is_true(&self) -> bool {
        self.served == self.truth
    }
    pub(super) fn lost_falsely(&self) -> Option<String> {
        self.false_loss.clone()
    }
    pub(super) fn long_polls(&self) -> impl Iterator<Item = &Request> {
        let long = |request: &&Request| matches!(request.mode, ReadMode::Blocking { wait, .. } if wait.as_secs() > 2);
        self.open.values().map(|(_, request)| request).filter(long)
    }
    pub(super) fn sent_to_services(&self) -> usize {
        self.sent.iter().filter(|(target, _)| matches!(target, RequestTarget::Service(_))).count()
    }

    fn moves(&mut self, service: &Arc<str>, catalog: bool) {
        self.index += 1;
        self.moved.insert(RequestTarget::Service(Arc::clone(service)), self.index);
        self.moved.insert(RequestTarget::Checks, self.index);
        if catalog {
            self.moved.insert(RequestTarget::Names, self.index);
        }
    }
    pub(super) fn put(&mut self, service: u8, instance: u8) {
        let service = name(service);
        self.truth.entry(Arc::clone(&service)).or_default().entry(instance).or_default();
        self.moves(&service, true);
        self.created.entry((service, instance)).or_insert(self.index);
    }
    pub(super) fn take(&mut self, service: u8, instance: u8) {
        let service = name(service);
        self.created.remove(&(Arc::clone(&service), instance));
        if let Some(instances) = self.truth.get_mut(&service) {
            instances.remove(&instance);
            if instances.is_empty() {
                self.truth.remove(&service);
            }
        }
        self.moves(&service, true);
    }
    pub(super) fn vanish(&mut self, service: u8) {
        let service = name(service);
        self.truth.remove(&service);
        self.moves(&service, true);
    }
    pub(super) fn flip(&mut self, service: u8) {
        let service = name(service);
        if let Some(times) = self.truth.get_mut(&service).and_then(|instances| instances.values_mut().next())
        {
            *times += 1;
        }
        self.moves(&service, false);
    }
    /// Changes an instance without any check: only the catalog's index and the service's move.
    pub(super) fn edit(&mut self, service: u8) {
        let service = name(service);
        if let Some(times) = self.truth.get_mut(&service).and_then(|instances| instances.values_mut().next())
        {
            *times += 1_000;
        }
        self.index += 1;
        self.moved.insert(RequestTarget::Service(service), self.index);
        self.moved.insert(RequestTarget::Names, self.index);
    }
    pub(super) fn change_token(&mut self) {
        self.step(Input::TokenChanged);
    }
    pub(super) fn share_polls(&mut self, polls: usize) {
        self.step(Input::Polls(polls));
    }
    pub(super) fn confirm(&mut self, service: u8) {
        self.step(Input::ConfirmRequested(name(service)));
    }
    /// Fails every request under way.
    pub(super) fn break_all(&mut self) {
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.open.remove(&number);
            self.step(Input::Replied(number, Err(RequestFailure::Transient)));
        }
    }
    /// Answers an aborted request.
    pub(super) fn answer_late(&mut self, number: u64, headers: Headers) -> Vec<Output> {
        let names = Names::new([("ghost".to_owned(), vec![])].into(), &Select::default());
        self.machine.step(self.now, 0.5, Input::Replied(number, Ok(Answer::Names(headers, Some(names)))))
    }

    pub(super) fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }
    pub(super) fn run_until(&mut self, time: Duration, stop: fn(&Self) -> bool) {
        let end = self.now.plus(time);
        while !stop(self) {
            let Some(at) = self.next_event().filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(at);
            self.answer_due();
            self.confirm_missing();
            self.step(Input::Tick);
        }
    }

    fn next_event(&self) -> Option<Mono> {
        let answers = self.open.values().filter_map(|(sent, request)| self.ready_at(*sent, request));
        let due = self.machine.due(self.now).map(|due| due.max(self.now.plus(Duration::from_millis(1))));
        answers.chain(due).chain(self.doubted.values().copied()).min()
    }

    fn moved(&self, target: &RequestTarget) -> u64 {
        self.moved.get(target).copied().unwrap_or(10)
    }

    fn ready_at(&self, sent: Mono, request: &Request) -> Option<Mono> {
        if self.unanswered.as_ref() == Some(&request.target) {
            return None;
        }
        let trip = sent.plus(Duration::from_millis(TRIP));
        match request.mode {
            ReadMode::Blocking { index, wait } if self.moved(&request.target) <= index => {
                Some(trip.plus(wait))
            }
            _ => Some(trip.max(self.now)),
        }
    }

    fn answer_due(&mut self) {
        let due = |(number, (sent, request)): (&u64, &(Mono, Request))| {
            self.ready_at(*sent, request).filter(|at| *at <= self.now).map(|_| *number)
        };
        for number in self.open.iter().filter_map(due).collect::<Vec<_>>() {
            if let Some((_, request)) = self.open.remove(&number) {
                let answer = self.answer(&request);
                self.step(Input::Replied(number, answer));
            }
        }
    }

    fn confirm_missing(&mut self) {
        let due: Vec<Arc<str>> = self
            .doubted
            .iter()
            .filter(|(_, at)| **at <= self.now)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for service in due {
            self.doubted.insert(Arc::clone(&service), self.now.plus(Duration::from_secs(20)));
            self.step(Input::ConfirmRequested(service));
        }
    }

    fn answer(&self, request: &Request) -> Result<Answer, RequestFailure> {
        let leader = request.mode == ReadMode::Leader;
        if let Some((_, failure)) = self.bad.as_ref().filter(|(target, _)| *target == request.target) {
            return Err(*failure);
        }
        if let Some(Lie::Fail(failure)) = &self.lie {
            return Err(*failure);
        }
        let lie = self.lie.as_ref().filter(|_| !leader);
        let mut headers = Headers {
            index: Some(self.moved(&request.target)),
            known_leader: Some(true),
            ..Headers::default()
        };
        let mut most = usize::MAX;
        match lie {
            Some(Lie::Short(count)) => most = *count,
            Some(Lie::Stale) => (headers.last_contact, most) = (Duration::from_secs(60), 0),
            Some(Lie::Filtered) => (headers.filtered, most) = (true, 0),
            Some(Lie::NoIndex) => (headers.index, most) = (None, 0),
            Some(Lie::Index(index)) => (headers.index, most) = (Some(*index), 0),
            Some(Lie::Fail(_)) | None => {}
        }
        let known = request.skip.is_some() && request.skip == headers.index;
        Ok(match &request.target {
            RequestTarget::Token => Answer::Token(Some(1)),
            RequestTarget::Names => {
                let names = self.truth.keys().take(most).map(|name| (name.to_string(), vec![])).collect();
                Answer::Names(headers, (!known).then(|| Names::new(names, &Select::default())))
            }
            RequestTarget::Checks => Answer::Checks(headers, (!known).then(|| self.marks(most))),
            RequestTarget::Service(name) => {
                let entries = self.truth.get(name).into_iter().flatten().take(most);
                let entries = entries.map(|(id, times)| entry(name, *id, *times)).collect();
                let instances = Instances::new(entries, false, &Select::default());
                Answer::Service(headers, (!known).then_some(instances))
            }
        })
    }

    fn marks(&self, most: usize) -> CheckStates {
        let all =
            self.truth.iter().flat_map(|(name, all)| all.iter().map(move |(id, times)| (name, *id, *times)));
        let checks: Vec<StateCheck<'_>> = all
            .take(most)
            .map(|(name, id, times)| StateCheck {
                node: format!("n{id}").into(),
                check_id: format!("c-{name}").into(),
                status: (times % 1_000).to_string().into(),
                service_name: (&**name).into(),
                create_index: self.created.get(&(Arc::clone(name), id)).copied().unwrap_or(1),
                modify_index: 0,
            })
            .collect();
        CheckStates::new(&checks)
    }

    fn step(&mut self, input: Input) {
        let random = self.random.unit();
        for output in self.machine.step(self.now, random, input) {
            match output {
                Output::Send(request) => {
                    self.sent.push((request.target.clone(), self.now));
                    self.requests.push(request.clone());
                    let before = self.open.insert(request.number, (self.now, request));
                    assert!(before.is_none(), "a number is used once");
                }
                Output::Cancel(number) => {
                    self.open.remove(&number);
                    self.cancelled.push(number);
                }
                Output::Report(service, instances, confidence) => {
                    self.report(&service, &instances, confidence)
                }
                Output::Gone(service, confidence) => self.report_gone(&service, confidence),
                Output::Synced(_) => self.synced = true,
                Output::Confirmed | Output::Hidden | Output::RereadToken => {}
            }
        }
    }

    fn report(&mut self, service: &Arc<str>, instances: &Instances, confidence: Confidence) {
        let reported: BTreeMap<u8, Instance> = instances.entries.iter().filter_map(read).collect();
        let known = self.served.entry(Arc::clone(service)).or_default();
        let missing = known.keys().any(|id| !reported.contains_key(id));
        if confidence == Confidence::Confirmed {
            let lost: BTreeSet<u8> = known.keys().filter(|id| !reported.contains_key(id)).copied().collect();
            *known = reported;
            self.doubted.remove(service);
            self.note_loss(service, &lost);
        } else {
            known.extend(reported);
            if missing {
                self.doubted.entry(Arc::clone(service)).or_insert(self.now);
            }
        }
        self.served.retain(|_, instances| !instances.is_empty());
    }

    fn report_gone(&mut self, service: &Arc<str>, confidence: Confidence) {
        let Some(known) = self.served.get(service) else { return };
        if confidence == Confidence::Confirmed {
            let lost = known.keys().copied().collect();
            self.served.remove(service);
            self.note_loss(service, &lost);
        } else {
            self.doubted.entry(Arc::clone(service)).or_insert(self.now);
        }
    }

    /// Checks that what the leader reported as lost is lost.
    fn note_loss(&mut self, service: &Arc<str>, lost: &BTreeSet<u8>) {
        let there = self.truth.get(service);
        if let Some(id) = lost.iter().find(|id| there.is_some_and(|there| there.contains_key(id))) {
            self.false_loss = Some(format!("{service} {id} at {:?}", self.now));
        }
    }
}

fn entry(name: &str, id: u8, times: u32) -> HealthEntry {
    let mut entry = HealthEntry::default();
    entry.node.node = format!("n{id}");
    (entry.service.service, entry.service.id) = (name.to_owned(), id.to_string());
    entry.checks = vec![Check { check_id: "c".into(), status: times.to_string() }];
    entry
}

fn read(entry: &HealthEntry) -> Option<(u8, Instance)> {
    Some((entry.service.id.parse().ok()?, entry.checks.first()?.status.parse().ok()?))
}
