//! Removals and completeness, answer by answer.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Completeness, Mono};

use super::world::mk_settings;
use crate::answer::{Doubt, Headers};
use crate::config::Select;
use crate::content::{Instances, Names};
use crate::machine::{Answer, Input, Machine, Output, Request, RequestTarget, Settings};
use crate::watch::{Confidence, Mode};
use crate::wire::HealthEntry;

const FILTERED: Headers = mk_headers(true);
const WHOLE: Headers = mk_headers(false);
const DENY: Headers = Headers { default_deny: true, ..mk_headers(false) };

const fn mk_headers(filtered: bool) -> Headers {
    Headers {
        index: Some(7),
        known_leader: Some(true),
        filtered,
        last_contact: Duration::ZERO,
        age: Duration::ZERO,
        default_deny: false,
        translated: false,
    }
}

/// Scope whose requests the test answers.
struct Hand {
    machine: Machine,
    now: Mono,
    open: Vec<Request>,
    out: Vec<Output>,
}

impl Hand {
    fn new(peer: bool) -> Self {
        let mut this = Self::over(Settings { peer, ..mk_settings(100) });
        this.token(1);
        this
    }
    fn over(settings: Settings) -> Self {
        let machine = Machine::new(settings);
        let mut this = Self { machine, now: Mono(0), open: Vec::new(), out: Vec::new() };
        this.step(Input::Started);
        this
    }
    /// Creates a scope that has read `web` and `pay`.
    fn following(peer: bool, headers: &Headers) -> Self {
        let mut this = Self::new(peer);
        this.names(headers, &["web", "pay"]);
        this.service("web", &WHOLE, 1);
        this.service("pay", &WHOLE, 1);
        this
    }
    fn step(&mut self, input: Input) {
        for output in self.machine.step(self.now, 0.5, input) {
            match output {
                Output::Send(request) => self.open.push(request),
                Output::Cancel(number) => self.open.retain(|request| request.number != number),
                other => self.out.push(other),
            }
        }
    }
    fn waits(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self.step(Input::Tick);
    }
    fn request(&mut self, target: &RequestTarget) -> Request {
        let at = self.open.iter().position(|request| request.target == *target);
        self.open.remove(at.unwrap_or_else(|| panic!("{target:?} is not requested: {:?}", self.open)))
    }
    /// Answers a request, and clears the outputs before it.
    fn answer(&mut self, target: &RequestTarget, answer: Answer) -> Mode {
        self.out.clear();
        let request = self.request(target);
        self.step(Input::Replied(request.number, Ok(answer)));
        request.mode
    }
    fn change_token(&mut self, token: u64) {
        self.step(Input::TokenChanged);
        self.token(token);
        self.waits(1);
    }
    fn token(&mut self, token: u64) {
        self.answer(&RequestTarget::Token, Answer::Token(Some(token)));
    }
    fn names(&mut self, headers: &Headers, names: &[&str]) -> Mode {
        let listed = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        let names = Names::new(listed, &Select::default());
        self.answer(&RequestTarget::Names, Answer::Names(headers.clone(), Some(names)))
    }
    fn service(&mut self, name: &str, headers: &Headers, count: usize) -> Mode {
        let entry = |id: usize| {
            let mut entry = HealthEntry::default();
            (entry.service.service, entry.service.id) = (name.to_owned(), id.to_string());
            entry
        };
        let instances = Instances::new((0..count).map(entry).collect(), false, &Select::default());
        self.answer(&RequestTarget::Service(name.into()), Answer::Service(headers.clone(), Some(instances)))
    }
    fn confirm(&mut self, name: &str) {
        self.step(Input::ConfirmRequested(name.into()));
    }
    /// Returns the confidence of the last report about a service.
    fn confidence(&self) -> Option<Confidence> {
        self.out.iter().find_map(|output| match output {
            Output::Report(_, _, confidence) => Some(*confidence),
            _ => None,
        })
    }
    fn is_asked_of_leader(&self, name: &str) -> bool {
        let target = RequestTarget::Service(Arc::from(name));
        self.open.iter().any(|request| request.target == target && request.mode == Mode::Leader)
    }
    fn reports_gone(&self) -> bool {
        self.out.iter().any(|output| matches!(output, Output::Gone(..)))
    }
    fn listings(&self) -> Vec<Output> {
        let listing = |output: &&Output| matches!(output, Output::Synced(_) | Output::Hidden);
        self.out.iter().filter(listing).cloned().collect()
    }
}

const DOUBTED: Option<Confidence> = Some(Confidence::Partial(Doubt::Stale));

#[test]
fn peer_names_lead_to_leader_reads_and_never_to_removals() {
    let mut hand = Hand::following(true, &WHOLE);
    hand.waits(60);
    hand.names(&WHOLE, &["web"]);
    assert!(!hand.reports_gone() && hand.is_asked_of_leader("pay"));
    hand.service("pay", &WHOLE, 1);
    assert!(!hand.reports_gone() && hand.machine.report().services == 2);
    assert!(
        hand.open.iter().any(|request| request.target == RequestTarget::Service("pay".into())),
        "it is followed on"
    );
}

#[test]
fn peer_service_is_gone_after_two_leader_answers() {
    let mut hand = Hand::following(true, &WHOLE);
    hand.waits(60);
    hand.names(&WHOLE, &["web"]);
    hand.service("pay", &WHOLE, 0);
    assert_eq!(hand.confidence(), DOUBTED, "one answer is not enough");
    hand.waits(5);
    hand.confirm("pay");
    assert_eq!(
        (hand.service("pay", &WHOLE, 0), hand.confidence()),
        (Mode::Leader, DOUBTED),
        "it came too soon"
    );
    hand.waits(5);
    assert_eq!(hand.service("pay", &WHOLE, 0), Mode::Leader);
    assert_eq!((hand.confidence(), hand.machine.report().services), (Some(Confidence::Confirmed), 1));
}

#[test]
fn instance_between_empty_answers_resets_the_count() {
    let mut hand = Hand::following(true, &WHOLE);
    hand.confirm("pay");
    hand.service("pay", &WHOLE, 0);
    hand.waits(5);
    hand.confirm("pay");
    hand.service("pay", &WHOLE, 1);
    hand.waits(5);
    hand.service("pay", &WHOLE, 0);
    assert_eq!(hand.confidence(), DOUBTED);
}

#[test]
fn empty_answer_about_a_peer_service_starts_a_leader_read() {
    let mut hand = Hand::following(true, &WHOLE);
    hand.service("pay", &WHOLE, 0);
    assert!(hand.confidence() == DOUBTED && hand.is_asked_of_leader("pay"), "{:?}", hand.out);
}

#[test]
fn peer_names_are_never_a_complete_list() {
    let mut hand = Hand::new(true);
    hand.names(&WHOLE, &[]);
    assert_eq!(hand.listings(), [Output::Synced(Completeness::Partial)]);
    assert!(!hand.machine.is_surely_empty());
    hand.step(Input::NamesRequested);
    assert_eq!(hand.names(&WHOLE, &[]), Mode::Leader);
    assert!(!hand.machine.is_surely_empty(), "a leader that was just elected answers this");
    hand.step(Input::NamesRequested);
    hand.answer(&RequestTarget::Names, Answer::Names(WHOLE, Some(Names::of_nothing())));
    assert!(hand.machine.is_surely_empty());
}

#[test]
fn absence_from_a_filtered_list_needs_the_services_own_answer() {
    for hidden in [true, false] {
        let mut hand = Hand::following(false, &FILTERED);
        assert_eq!(hand.listings(), [Output::Synced(Completeness::Filtered)]);
        hand.names(&FILTERED, &["web"]);
        assert_eq!(hand.names(&FILTERED, &["web"]), Mode::Leader);
        hand.answer(&RequestTarget::Token, Answer::Token(Some(1)));
        assert!(!hand.reports_gone() && hand.is_asked_of_leader("pay"), "the token is the same");
        hand.service("pay", if hidden { &FILTERED } else { &WHOLE }, 0);
        let services = hand.machine.report().services;
        if hidden {
            assert_eq!((hand.listings(), services), (vec![Output::Hidden], 2));
            assert_eq!(hand.confidence(), Some(Confidence::Partial(Doubt::Filtered)));
        } else {
            assert_eq!((hand.listings(), services), (vec![], 1));
            assert_eq!(hand.confidence(), Some(Confidence::Confirmed));
        }
    }
}

#[test]
fn narrower_token_withholds_the_scope_until_all_is_visible() {
    let mut hand = Hand::following(false, &WHOLE);
    assert_eq!(hand.listings(), [Output::Synced(Completeness::Complete)]);
    hand.change_token(2);
    hand.names(&FILTERED, &["web"]);
    assert_eq!(hand.out.last(), Some(&Output::Hidden), "and nothing confirms that it is followed");
    hand.names(&FILTERED, &["web"]);
    assert!(hand.out.is_empty(), "{:?}", hand.out);
    hand.change_token(1);
    hand.names(&WHOLE, &["web", "pay"]);
    hand.service("web", &WHOLE, 1);
    assert!(hand.listings().is_empty(), "pay has not been read with it");
    hand.service("pay", &WHOLE, 1);
    assert_eq!(hand.listings(), [Output::Synced(Completeness::Complete)]);
}

#[test]
fn wider_token_completes_the_list_when_all_was_read_with_it() {
    let mut hand = Hand::following(false, &FILTERED);
    hand.change_token(2);
    hand.names(&WHOLE, &["web", "pay"]);
    hand.service("web", &WHOLE, 1);
    assert!(hand.listings().is_empty());
    hand.service("pay", &WHOLE, 1);
    assert_eq!(hand.listings(), [Output::Synced(Completeness::Complete)]);
}

/// Follows `web` and `pay` without an own token, under a default policy of deny.
fn without_token(agent: Option<u64>) -> Hand {
    let mut hand = Hand::over(Settings { has_token: false, ..mk_settings(100) });
    hand.names(&DENY, &["web", "pay"]);
    hand.answer(&RequestTarget::Token, Answer::Token(agent));
    hand.service("web", &DENY, 2);
    hand.service("pay", &DENY, 1);
    hand
}

#[test]
fn agent_token_confirms_removals_under_default_deny() {
    let mut hand = without_token(Some(1));
    hand.service("web", &DENY, 1);
    hand.service("web", &DENY, 1);
    hand.answer(&RequestTarget::Token, Answer::Token(Some(1)));
    assert_eq!(hand.confidence(), Some(Confidence::Confirmed));
}

#[test]
fn anonymous_or_changed_agent_token_confirms_nothing_under_default_deny() {
    for (first, then) in [(None, None), (Some(1), None), (Some(1), Some(2))] {
        let mut hand = without_token(first);
        hand.service("web", &DENY, 1);
        hand.service("web", &DENY, 1);
        if first.is_some() {
            hand.answer(&RequestTarget::Token, Answer::Token(then));
        }
        assert_ne!(hand.confidence(), Some(Confidence::Confirmed), "{first:?} {then:?}");
    }
}

#[test]
fn agent_token_that_begins_to_be_filtered_confirms_nothing() {
    let mut hand = without_token(Some(1));
    let filtered = Headers { default_deny: true, ..FILTERED };
    hand.service("web", &filtered, 1);
    hand.service("web", &filtered, 1);
    assert!(hand.open.iter().all(|request| request.target != RequestTarget::Token), "{:?}", hand.open);
    assert_ne!(hand.confidence(), Some(Confidence::Confirmed));
}

#[test]
fn doubted_short_list_does_not_multiply_long_polls() {
    let mut hand = Hand::over(mk_settings(1));
    hand.names(&WHOLE, &["web", "pay"]);
    hand.service("web", &WHOLE, 1);
    hand.service("pay", &WHOLE, 1);
    let polled = |hand: &Hand| (hand.machine.report().polled, hand.machine.report().notified);
    assert_eq!(polled(&hand), (1, 1));
    hand.names(&Headers { index: Some(3), ..WHOLE }, &["web"]);
    assert_eq!(polled(&hand), (1, 1));
}
