//! The watch by tables: each case is a state after a few events, one more event, and the expected actions.

mod demand;
mod doubt;
mod token_view;

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_model::Mono;

use super::Confidence::Partial;
use super::{
    Action, Confidence, Digest, Event, Follow, Mode, Policy, Read, ReadReason, State, Ticket, TokenCheck,
    Watch,
};
use crate::answer::{Doubt, Headers, RequestFailure};

type Content = BTreeMap<u8, u8>;

impl super::Content for Content {
    fn digest(&self) -> Digest {
        Digest::of(self.iter())
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Watch with its outputs, on a manual clock.
struct Loop {
    watch: Watch<Content>,
    now: Mono,
    reported: Vec<(Content, bool)>,
    confidences: Vec<Confidence>,
    requested: Vec<Action<Content>>,
}

impl Loop {
    fn new(policy: Policy) -> Self {
        let watch = Watch::new(policy, Follow::Poll);
        let mut this = Self { watch, now: Mono(0), reported: vec![], confidences: vec![], requested: vec![] };
        this.event(Event::Started);
        this
    }
    /// Creates a loop that has read instances 1 and 2 at index 10.
    fn following() -> Self {
        let mut this = Self::new(Policy::default());
        this.answer(mk_headers(10), &[1, 2]);
        this
    }
    /// Creates a loop that reads on demand and has read instances 1 and 2 at index 10.
    fn on_demand() -> Self {
        let mut this = Self::new(Policy::default());
        this.event(Event::Follow(Follow::Demand));
        this.answer(mk_headers(10), &[1, 2]);
        assert_eq!(this.requested, [Action::State(State::Live)]);
        this
    }
    fn event(&mut self, event: Event<Content>) {
        let actions = self.watch.step(self.now, 0.5, event);
        self.requested.clear();
        for action in actions {
            match action {
                Action::Report(content, confidence) => {
                    self.reported.push((content, confidence == Confidence::Confirmed));
                    self.confidences.push(confidence);
                }
                other => self.requested.push(other),
            }
        }
    }
    fn ticket(&self) -> Ticket {
        self.watch.ticket
    }
    fn answer(&mut self, headers: Headers, keys: &[u8]) {
        self.event(Event::Answered(self.ticket(), headers, Some(mk_content(keys))));
    }
    fn fail(&mut self, failure: RequestFailure) {
        self.event(Event::Failed(self.ticket(), failure));
    }
    fn last_report(&self) -> (Vec<u8>, bool) {
        let (content, sure) = self.reported.last().unwrap();
        (content.keys().copied().collect(), *sure)
    }
    /// Returns the only requested read.
    fn read(&self) -> (Duration, Mode, Duration) {
        let reads: Vec<_> = self.requested.iter().filter_map(as_read).collect();
        assert_eq!(reads.len(), 1, "{:?}", self.requested);
        reads[0]
    }
    fn state(&self) -> State {
        self.watch.state()
    }
}

fn as_read(action: &Action<Content>) -> Option<(Duration, Mode, Duration)> {
    match action {
        Action::Read(Read { after, mode, timeout, .. }) => Some((*after, *mode, *timeout)),
        _ => None,
    }
}

fn mk_content(keys: &[u8]) -> Content {
    keys.iter().map(|key| (*key, 0)).collect()
}

fn mk_headers(index: u64) -> Headers {
    Headers { index: Some(index), known_leader: Some(true), ..Headers::default() }
}

fn mk_filtered(index: u64) -> Headers {
    Headers { filtered: true, ..mk_headers(index) }
}

fn mk_stale(index: u64) -> Headers {
    Headers { last_contact: 11 * SECOND, ..mk_headers(index) }
}

fn blocking(index: u64) -> Mode {
    Mode::Blocking { index, wait: 60 * SECOND }
}

#[test]
fn the_first_read_does_not_block() {
    let first = Loop::new(Policy::default());
    assert_eq!(first.read(), (Duration::ZERO, Mode::Any, 10 * SECOND));
    assert_eq!(first.state(), State::Starting);
}

#[test]
fn first_long_poll_is_shortened_by_a_random_part() {
    let mut one = Loop::following();
    assert_eq!(one.read().1, Mode::Blocking { index: 10, wait: 45 * SECOND });
    one.answer(mk_headers(11), &[1]);
    assert_eq!(one.read().1, blocking(11), "only the first one");
    one.fail(RequestFailure::Transient);
    one.answer(mk_headers(12), &[1]);
    let cut = Mode::Blocking { index: 12, wait: 45 * SECOND };
    assert_eq!(one.read().1, cut, "and the first after a failure");
}

#[test]
fn next_read_blocks_on_the_index_and_outlasts_server_jitter() {
    let mut one = Loop::following();
    assert_eq!(one.last_report(), (vec![1, 2], false));
    one.answer(mk_headers(11), &[1, 2, 3]);
    let timeout = Duration::from_millis(60_000 + 3_750 + 10_000);
    assert_eq!(one.read(), (Duration::ZERO, blocking(11), timeout));
    assert_eq!((one.last_report(), one.state()), ((vec![1, 2, 3], false), State::Live));
}

#[test]
fn empty_answer_is_reported_once_and_failure_never() {
    let mut one = Loop::new(Policy::default());
    one.fail(RequestFailure::Transient);
    assert_eq!(one.reported.len(), 0);
    one.answer(mk_headers(4), &[]);
    assert_eq!(one.reported, [(Content::new(), false)]);
}

#[test]
fn new_index_with_equal_content_reports_nothing() {
    let mut one = Loop::following();
    one.answer(mk_headers(11), &[1, 2]);
    one.answer(mk_headers(11), &[1, 2]);
    assert_eq!(one.reported.len(), 1);
}

#[test]
fn loop_under_churn_slows_down() {
    let mut one = Loop::following();
    let mut waits = vec![one.read().0.as_secs()];
    for index in 11..20 {
        one.answer(mk_headers(index), &[1, 2]);
        waits.push(one.read().0.as_secs());
    }
    assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 2, 4]);
}

#[test]
fn answer_without_index_is_an_error_and_removes_nothing() {
    let mut one = Loop::following();
    one.answer(Headers { index: None, ..mk_headers(1) }, &[]);
    assert_eq!((one.reported.len(), one.state()), (1, State::Failing(RequestFailure::Broken)));
    assert_eq!(one.read().1, Mode::Any, "a server that returns may have reset its index");
}

#[test]
fn confirm_request_is_answered_when_nothing_has_changed() {
    let mut one = Loop::following();
    one.event(Event::ConfirmRequested);
    one.event(Event::ConfirmRequested);
    assert_eq!(one.requested, [], "one read answers both");
    one.answer(mk_headers(10), &[1, 2]);
    assert_eq!((one.reported.len(), one.last_report()), (2, (vec![1, 2], true)));
}

#[test]
fn each_failure_keeps_content_and_has_its_own_pause() {
    let cases = [
        (RequestFailure::Transient, 500, None),
        (RequestFailure::Broken, 500, None),
        (RequestFailure::Overload, 500, Some(Action::Ease)),
        (RequestFailure::Auth, 30_500, Some(Action::RereadToken)),
        (RequestFailure::Config, 300_000, None),
        (RequestFailure::Unsupported, 300_000, None),
    ];
    for (failure, pause, also) in cases {
        let mut one = Loop::following();
        one.fail(failure);
        assert_eq!((one.reported.len(), one.state()), (1, State::Failing(failure)));
        assert_eq!(one.read().0.as_millis(), pause, "{failure:?}");
        assert_eq!(
            one.requested.iter().find(|a| matches!(a, Action::Ease | Action::RereadToken)),
            also.as_ref()
        );
    }
}

#[test]
fn pauses_double_up_to_a_minute_and_reset_after_an_answer() {
    let mut one = Loop::following();
    let mut pauses = vec![];
    for _ in 0..8 {
        one.fail(RequestFailure::Transient);
        pauses.push(one.read().0.as_millis());
    }
    assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    one.answer(mk_headers(11), &[1, 2]);
    one.fail(RequestFailure::Transient);
    assert_eq!(one.read().0.as_millis(), 500);
}

#[test]
fn confirm_request_waits_for_the_end_of_a_pause() {
    let mut one = Loop::following();
    one.fail(RequestFailure::Transient);
    one.event(Event::ConfirmRequested);
    assert_eq!(one.requested, []);
    one.fail(RequestFailure::Transient);
    assert_eq!(one.read().1, Mode::Leader, "the next attempt reads the leader");
}

#[test]
fn new_server_gets_no_index_of_the_previous_one() {
    let mut one = Loop::following();
    let old = one.ticket();
    one.event(Event::Switched { token: false });
    assert_eq!(one.requested[0], Action::Cancel(old));
    assert_eq!(one.read().1, Mode::Any);
    one.answer(mk_headers(2), &[1, 2]);
    assert_eq!(one.state(), State::Live, "a lower index is no reset");
    assert!(matches!(one.read().1, Mode::Blocking { index: 2, .. }));
}

#[test]
fn new_token_has_its_own_baseline_and_removes_nothing() {
    let mut one = Loop::following();
    one.event(Event::Switched { token: true });
    one.answer(mk_filtered(11), &[]);
    assert_eq!(one.confidences.last(), Some(&Partial(Doubt::Filtered)));
    assert_eq!(one.state(), State::Doubtful(Doubt::Filtered));
}

#[test]
fn late_events_are_dropped() {
    let mut one = Loop::following();
    let late = one.ticket();
    one.event(Event::Switched { token: false });
    for event in [
        Event::Answered(late, mk_headers(99), Some(mk_content(&[7]))),
        Event::Failed(late, RequestFailure::Auth),
        Event::TokenChecked(late, TokenCheck::Same),
    ] {
        one.event(event);
        assert_eq!((one.requested.len(), one.reported.len()), (0, 1));
    }
}

#[test]
fn stop_aborts_the_read_and_is_final() {
    let mut one = Loop::following();
    let ticket = one.ticket();
    one.event(Event::Stopped);
    assert_eq!(one.requested, [Action::Cancel(ticket), Action::State(State::Ended)]);
    one.answer(mk_headers(20), &[9]);
    one.event(Event::Started);
    assert_eq!((one.requested.len(), one.reported.len()), (0, 1));
}

#[test]
fn unsupported_optional_endpoint_ends_the_loop() {
    let mut one = Loop::new(Policy { optional: true, ..Policy::default() });
    one.fail(RequestFailure::Unsupported);
    assert_eq!(one.requested, [Action::State(State::Ended)]);
}

#[test]
fn unchanged_index_needs_no_content() {
    let mut one = Loop::following();
    let Some(Action::Read(Read { skip: Some(10), .. })) = one.requested.last() else {
        panic!("{:?}", one.requested)
    };
    one.event(Event::Answered(one.ticket(), mk_headers(10), None));
    assert_eq!((one.reported.len(), one.read().1), (1, blocking(10)));
    assert_eq!(one.state(), State::Live);
}

#[test]
fn content_is_read_at_intervals_despite_an_unchanged_index() {
    let mut one = Loop::following();
    one.now = Mono(299_000);
    one.event(Event::Answered(one.ticket(), mk_headers(10), None));
    assert!(
        matches!(one.requested.last(), Some(Action::Read(Read { skip: Some(10), .. }))),
        "{:?}",
        one.requested
    );
    one.now = Mono(300_000);
    one.event(Event::Answered(one.ticket(), mk_headers(10), None));
    assert!(
        matches!(one.requested.last(), Some(Action::Read(Read { skip: None, .. }))),
        "{:?}",
        one.requested
    );
    one.answer(mk_headers(10), &[1, 2, 3]);
    assert_eq!(one.last_report().0, [1, 2, 3], "the answer at that index had been short");
}
