//! Five thousand services and a hundred status changes a second, on a clock that jumps from event to event: the
//! latency that the machine adds, and its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::Mono;

use super::SECOND;
use super::world::mk_settings;
use crate::answer::Headers;
use crate::config::{Limits, Select};
use crate::content::{CheckStates, Instances, Names};
use crate::machine::{Answer, Input, Machine, Output, Request, RequestTarget, Settings};
use crate::watch::Mode as ReadMode;
use crate::wire::lists::StateCheck;
use crate::wire::{Check, HealthEntry};

const SERVICES: usize = 5_000;
const INSTANCES: usize = 3;
/// Latencies in milliseconds: an answer about a service, and one about all checks.
const TRIP: u64 = 20;
const LONG_TRIP: u64 = 200;

/// Scheduled event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Reply(u64),
    Flip(usize),
}

struct Scale {
    machine: Machine,
    now: Mono,
    due: BTreeSet<(Mono, Due)>,
    open: BTreeMap<u64, Request>,
    /// Blocked long polls by their object.
    waiting: BTreeMap<RequestTarget, u64>,
    /// Index and number of status changes per service.
    services: Vec<(u64, u32)>,
    index: u64,
    names: Names,
    flipped: BTreeMap<Arc<str>, Mono>,
    took: Vec<u64>,
    sent: Vec<Mono>,
}

fn name(service: usize) -> Arc<str> {
    format!("s{service:04}").into()
}

fn number(name: &str) -> usize {
    name[1..].parse().unwrap()
}

impl Scale {
    fn new(polls: usize) -> Self {
        let settings = Settings { limits: Limits::default(), ..mk_settings(polls) };
        let names = (0..SERVICES).map(|n| (name(n).to_string(), Vec::new())).collect();
        let mut this = Self {
            machine: Machine::new(settings),
            now: Mono(0),
            due: BTreeSet::new(),
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            services: vec![(10, 0); SERVICES],
            index: 20,
            names: Names::new(names, &Select::default()),
            flipped: BTreeMap::new(),
            took: Vec::new(),
            sent: Vec::new(),
        };
        this.step(Input::Started);
        this
    }

    fn step(&mut self, input: Input) {
        for output in self.machine.step(self.now, 0.5, input) {
            match output {
                Output::Send(request) => self.send(request),
                Output::Cancel(number) => drop(self.open.remove(&number)),
                Output::Report(name, ..) => {
                    let at = self.flipped.remove(&name);
                    self.took.extend(at.map(|at| self.now.0 - at.0));
                }
                _ => {}
            }
        }
    }

    fn moved(&self, target: &RequestTarget) -> u64 {
        match target {
            RequestTarget::Service(name) => self.services[number(name)].0,
            RequestTarget::Checks => self.index,
            RequestTarget::Names | RequestTarget::Token => 10,
        }
    }

    fn send(&mut self, request: Request) {
        self.sent.push(self.now);
        let number = request.number;
        let after = match request.mode {
            ReadMode::Blocking { index, wait } if self.moved(&request.target) <= index => {
                self.waiting.insert(request.target.clone(), number);
                wait
            }
            _ => trip(&request.target),
        };
        self.due.insert((self.now.plus(after), Due::Reply(number)));
        self.open.insert(number, request);
    }

    fn flip(&mut self, service: usize) {
        self.index += 1;
        let known = &mut self.services[service];
        *known = (self.index, known.1 + 1);
        let name = name(service);
        self.flipped.insert(Arc::clone(&name), self.now);
        for target in [RequestTarget::Service(name), RequestTarget::Checks] {
            if let Some(number) = self.waiting.remove(&target) {
                self.due.insert((self.now.plus(trip(&target)), Due::Reply(number)));
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now.plus(time);
        loop {
            let first = self.due.first().map(|(at, _)| *at);
            let looks = self.machine.due(self.now).map(|at| at.max(self.now.plus(Duration::from_millis(1))));
            let Some(next) = first.into_iter().chain(looks).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            if first == Some(next) {
                self.happen();
            }
            // like the run loop: a machine with nothing due is not stepped
            if self.machine.due(self.now).is_some_and(|due| due <= self.now) {
                self.step(Input::Tick);
            }
        }
        self.now = end;
    }

    fn happen(&mut self) {
        match self.due.pop_first() {
            Some((_, Due::Reply(number))) => self.reply(number),
            Some((_, Due::Flip(service))) => self.flip(service),
            None => {}
        }
    }

    fn reply(&mut self, number: u64) {
        let Some(request) = self.open.remove(&number) else { return };
        if self.waiting.get(&request.target) == Some(&number) {
            self.waiting.remove(&request.target);
        }
        let index = Some(self.moved(&request.target));
        let headers = Headers { index, known_leader: Some(true), ..Headers::default() };
        let known = request.skip.is_some() && request.skip == index;
        let answer = match &request.target {
            RequestTarget::Token => Answer::Token(Some(1)),
            RequestTarget::Names => Answer::Names(headers, (!known).then(|| self.names.clone())),
            RequestTarget::Checks => Answer::Checks(headers, (!known).then(|| self.marks())),
            RequestTarget::Service(name) => Answer::Service(headers, (!known).then(|| self.instances(name))),
        };
        self.step(Input::Replied(number, Ok(answer)));
    }

    fn marks(&self) -> CheckStates {
        let all = (0..SERVICES).flat_map(|service| (0..INSTANCES).map(move |n| (service, n)));
        let checks: Vec<StateCheck<'_>> = all
            .map(|(service, n)| StateCheck {
                node: format!("n{n}").into(),
                check_id: format!("c{n}").into(),
                status: if n == 0 { self.services[service].1.to_string().into() } else { "passing".into() },
                service_name: name(service).to_string().into(),
                create_index: 1,
                modify_index: 1,
            })
            .collect();
        CheckStates::new(&checks)
    }

    fn instances(&self, name: &str) -> Instances {
        let entry = |n: usize| {
            let mut entry = HealthEntry::default();
            entry.node.node = format!("n{n}");
            (entry.service.service, entry.service.id) = (name.to_owned(), n.to_string());
            let status =
                if n == 0 { self.services[number(name)].1.to_string() } else { "passing".to_owned() };
            entry.checks = vec![Check { check_id: format!("c{n}"), status }];
            entry
        };
        Instances::new((0..INSTANCES).map(entry).collect(), false, &Select::default())
    }
}

const fn trip(target: &RequestTarget) -> Duration {
    Duration::from_millis(if matches!(target, RequestTarget::Checks) { LONG_TRIP } else { TRIP })
}

#[test]
fn five_thousand_services_report_changes_in_time_and_cheaply() {
    for (polls, within) in [(SERVICES, 500), (SERVICES / 2, 2_000), (0, 2_000)] {
        let mut scale = Scale::new(polls);
        scale.run(40 * SECOND);
        let lists = if polls == SERVICES { 1 } else { 2 };
        assert_eq!(scale.waiting.len(), polls + lists, "all that is to be waited for is");
        scale.took.clear();
        scale.sent.clear();
        let flips = 1_000;
        for n in 0..flips {
            let at = scale.now.plus(Duration::from_millis(10 * n as u64));
            scale.due.insert((at, Due::Flip(n * 7 % SERVICES)));
        }
        scale.run(13 * SECOND);
        assert_eq!((scale.took.len(), scale.flipped.len()), (flips, 0), "{polls} polls");
        scale.took.sort_unstable();
        let p99 = scale.took[flips * 99 / 100];
        assert!(p99 <= within, "{polls} polls: {p99} ms at p99, at most {:?}", scale.took.last());
        let sent = scale.sent.len();
        assert!(sent <= 3 * flips, "{polls} polls: {sent} requests for {flips} flips");
    }
}

#[test]
fn mass_change_keeps_the_request_rate_within_budget() {
    let rate = Limits::default().rate as usize;
    for polls in [SERVICES, SERVICES / 2, 0] {
        let mut scale = Scale::new(polls);
        scale.run(120 * SECOND);
        scale.took.clear();
        scale.sent.clear();
        (0..SERVICES).for_each(|service| scale.flip(service));
        scale.run(40 * SECOND);
        assert_eq!((scale.took.len(), scale.flipped.len()), (SERVICES, 0), "{polls} polls");
        let sent = &scale.sent;
        let within = |from: usize| sent.partition_point(|at| at.0 < sent[from].0 + 1_000) - from;
        let most = (0..sent.len()).map(within).max().unwrap_or_default();
        assert!(most <= 2 * rate + 5, "{polls} polls: {most} requests in a second");
    }
}
