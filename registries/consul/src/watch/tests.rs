//! The watch by tables: each case is a state that a few events lead to, one event more, and what it asks for.

mod sight;
use std::collections::BTreeMap;
use std::time::Duration;

use tributary_model::Mono;

use super::Confidence::Partial;
use super::{Action, Confidence, Digest, Event, Follow, Look, Mode, Policy, Read, State, Ticket, Watch};
use crate::answer::{Doubt, Headers, RequestFailure};

type Content = BTreeMap<u8, u8>;

impl super::Content for Content {
    fn digest(&self) -> Digest {
        Digest::of(self.iter())
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A watch with what it asked for, driven at a time of the test's choosing.
struct Loop {
    watch: Watch<Content>,
    now: Mono,
    said: Vec<(Content, bool)>,
    words: Vec<Confidence>,
    asked: Vec<Action<Content>>,
}

impl Loop {
    fn new(policy: Policy) -> Self {
        let watch = Watch::new(policy, Follow::Poll);
        let mut this = Self { watch, now: Mono(0), said: vec![], words: vec![], asked: vec![] };
        this.event(Event::Started);
        this
    }
    /// Follows instances 1 and 2 since index 10.
    fn following() -> Self {
        let mut this = Self::new(Policy::default());
        this.answer(mk_headers(10), &[1, 2]);
        this
    }
    /// Is told when to read, and has read instances 1 and 2 at index 10.
    fn on_demand() -> Self {
        let mut this = Self::new(Policy::default());
        this.event(Event::Follow(Follow::Demand));
        this.answer(mk_headers(10), &[1, 2]);
        assert_eq!(this.asked, [Action::State(State::Live)]);
        this
    }
    fn event(&mut self, event: Event<Content>) {
        let actions = self.watch.step(self.now, 0.5, event);
        self.asked.clear();
        for action in actions {
            match action {
                Action::Say(content, word) => {
                    self.said.push((content, word == Confidence::Confirmed));
                    self.words.push(word);
                }
                other => self.asked.push(other),
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
    fn last_said(&self) -> (Vec<u8>, bool) {
        let (content, sure) = self.said.last().unwrap();
        (content.keys().copied().collect(), *sure)
    }
    /// The one read that was asked for.
    fn read(&self) -> (Duration, Mode, Duration) {
        let reads: Vec<_> = self.asked.iter().filter_map(as_read).collect();
        assert_eq!(reads.len(), 1, "{:?}", self.asked);
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
fn the_first_long_poll_is_cut_short_by_chance_so_that_loops_do_not_march_in_step() {
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
fn what_follows_blocks_on_the_index_and_outlives_the_servers_jitter() {
    let mut one = Loop::following();
    assert_eq!(one.last_said(), (vec![1, 2], false));
    one.answer(mk_headers(11), &[1, 2, 3]);
    let timeout = Duration::from_millis(60_000 + 3_750 + 10_000);
    assert_eq!(one.read(), (Duration::ZERO, blocking(11), timeout));
    assert_eq!((one.last_said(), one.state()), ((vec![1, 2, 3], false), State::Live));
}

#[test]
fn nothing_there_is_said_once_and_differs_from_nothing_known() {
    let mut one = Loop::new(Policy::default());
    one.fail(RequestFailure::Transient);
    assert_eq!(one.said.len(), 0);
    one.answer(mk_headers(4), &[]);
    assert_eq!(one.said, [(Content::new(), false)]);
}

#[test]
fn a_new_index_with_the_same_content_says_nothing() {
    let mut one = Loop::following();
    one.answer(mk_headers(11), &[1, 2]);
    one.answer(mk_headers(11), &[1, 2]);
    assert_eq!(one.said.len(), 1);
}

#[test]
fn a_loop_under_churn_slows_down() {
    let mut one = Loop::following();
    let mut waits = vec![one.read().0.as_secs()];
    for index in 11..20 {
        one.answer(mk_headers(index), &[1, 2]);
        waits.push(one.read().0.as_secs());
    }
    assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 2, 4]);
}

#[test]
fn an_answer_without_index_is_an_error_and_keeps_all() {
    let mut one = Loop::following();
    one.answer(Headers { index: None, ..mk_headers(1) }, &[]);
    assert_eq!((one.said.len(), one.state()), (1, State::Failing(RequestFailure::Broken)));
    assert_eq!(one.read().1, Mode::Any, "whoever comes back may have begun anew");
}

#[test]
fn a_sound_answer_that_lacks_something_is_left_to_the_gate() {
    let mut one = Loop::following();
    one.answer(mk_headers(11), &[]);
    assert_eq!(one.last_said(), (vec![], false));
    one.event(Event::Asked);
    assert_eq!(one.asked[0], Action::Cancel(Ticket(one.ticket().0 - 1)));
    assert_eq!(one.read(), (Duration::ZERO, Mode::Leader, 10 * SECOND));
    one.answer(mk_headers(11), &[]);
    assert_eq!(one.last_said(), (vec![], true));
    assert_eq!(one.read().1, blocking(11));
}

#[test]
fn a_question_is_answered_even_when_nothing_has_changed() {
    let mut one = Loop::following();
    one.event(Event::Asked);
    one.event(Event::Asked);
    assert_eq!(one.asked, [], "one read answers both");
    one.answer(mk_headers(10), &[1, 2]);
    assert_eq!((one.said.len(), one.last_said()), (2, (vec![1, 2], true)));
}

#[test]
fn whatever_may_be_short_adds_and_takes_nothing_away() {
    let cases = [
        (mk_headers(9), Doubt::Reset),
        (mk_headers(1), Doubt::Reset),
        (mk_stale(11), Doubt::Stale),
        (Headers { known_leader: Some(false), ..mk_headers(11) }, Doubt::Stale),
        (Headers { age: SECOND, ..mk_headers(11) }, Doubt::Stale),
        (mk_filtered(11), Doubt::Filtered),
    ];
    for (headers, doubt) in cases {
        let mut one = Loop::following();
        one.answer(headers, &[2, 3]);
        assert_eq!((one.last_said(), one.words.last()), ((vec![2, 3], false), Some(&Partial(doubt))));
        assert_eq!(one.state(), State::Doubtful(doubt));
        assert_eq!(one.read().1, Mode::Leader, "{doubt:?}: the leader is asked at once");
        one.answer(mk_headers(12), &[2, 3]);
        assert_eq!((one.last_said(), one.state()), ((vec![2, 3], true), State::Live), "{doubt:?}");
    }
}

#[test]
fn the_leader_confirms_only_what_is_sound() {
    let streaming = Headers { known_leader: None, ..mk_headers(12) };
    for short in [mk_headers(3), mk_stale(12), mk_filtered(12), streaming] {
        let mut one = Loop::following();
        one.event(Event::Asked);
        one.answer(short.clone(), &[]);
        assert!(one.words.iter().all(|word| *word != Confidence::Confirmed), "{short:?} was believed");
        assert!(matches!(one.words.last(), Some(Partial(_))));
        assert!(matches!(one.state(), State::Doubtful(_)));
    }
}

#[test]
fn after_a_reset_only_the_leader_is_believed() {
    let mut one = Loop::following();
    one.answer(mk_headers(3), &[]);
    one.answer(Headers { known_leader: None, ..mk_headers(3) }, &[]);
    assert_ne!(one.read().1, Mode::Leader, "a pause lies between two questions");
    one.answer(mk_headers(4), &[]);
    assert_eq!(one.words[1..], [Partial(Doubt::Reset)]);
    assert_eq!(one.state(), State::Doubtful(Doubt::Reset));
    one.now = Mono(600_000);
    one.answer(mk_headers(4), &[]);
    one.event(Event::Asked);
    one.answer(mk_headers(4), &[]);
    assert_eq!((one.last_said(), one.state()), ((vec![], true), State::Live));
}

#[test]
fn while_in_doubt_blocking_reads_end_when_the_leader_is_to_be_asked() {
    let mut one = Loop::following();
    one.answer(mk_stale(11), &[1]);
    one.answer(mk_stale(11), &[1]);
    // the second question comes after three quarters of a second, at chance 0.5; a wait is a second at least
    let Mode::Blocking { index: 11, wait } = one.read().1 else { panic!("{:?}", one.asked) };
    assert_eq!(wait, SECOND);
    one.now = Mono(1_000);
    one.answer(mk_stale(11), &[1]);
    assert_eq!(one.read().1, Mode::Leader);
}

#[test]
fn a_sound_answer_clears_a_passing_doubt() {
    for short in [mk_stale(11), mk_filtered(11)] {
        let mut one = Loop::following();
        one.answer(short.clone(), &[1]);
        one.answer(short, &[1]);
        one.answer(mk_headers(12), &[1]);
        assert_eq!((one.last_said(), one.state()), ((vec![1], false), State::Live));
        assert_eq!(one.watch.confirm_at, None);
    }
}

#[test]
fn a_token_that_never_saw_all_confirms_while_it_is_the_same() {
    for (same, want) in [(true, Confidence::Confirmed), (false, Partial(Doubt::Filtered))] {
        let mut one = Loop::new(Policy::default());
        one.answer(mk_filtered(10), &[1, 2]);
        assert_eq!(one.state(), State::Live, "its view is its baseline");
        one.answer(mk_filtered(11), &[1]);
        assert_eq!(one.state(), State::Doubtful(Doubt::Filtered));
        one.answer(mk_filtered(11), &[1]);
        assert_eq!(one.asked, [Action::CheckToken(one.ticket())]);
        one.event(Event::TokenChecked(one.ticket(), same));
        assert_eq!((one.last_said().0, one.words.last()), (vec![1], Some(&want)));
        assert_eq!(one.asked.iter().filter_map(as_read).count(), 1);
    }
}

#[test]
fn a_token_that_never_saw_all_settles_a_reset_too() {
    let mut one = Loop::new(Policy::default());
    one.answer(mk_filtered(10), &[1, 2]);
    one.answer(mk_filtered(3), &[1]);
    assert_eq!(one.state(), State::Doubtful(Doubt::Reset));
    one.answer(mk_filtered(3), &[1]);
    one.event(Event::TokenChecked(one.ticket(), true));
    assert_eq!((one.last_said(), one.state()), ((vec![1], true), State::Live));
}

#[test]
fn without_a_token_an_empty_answer_under_deny_is_not_believed() {
    let masked = |index| Headers { default_deny: true, ..mk_headers(index) };
    let mut one = Loop::new(Policy { has_token: false, ..Policy::default() });
    one.answer(masked(10), &[1, 2]);
    one.answer(masked(11), &[]);
    assert_eq!(one.words.last(), Some(&Partial(Doubt::Filtered)));
    assert_eq!(one.state(), State::Doubtful(Doubt::Filtered));
}

#[test]
fn each_failure_keeps_all_and_has_its_own_pause() {
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
        assert_eq!((one.said.len(), one.state()), (1, State::Failing(failure)));
        assert_eq!(one.read().0.as_millis(), pause, "{failure:?}");
        assert_eq!(one.asked.iter().find(|a| matches!(a, Action::Ease | Action::RereadToken)), also.as_ref());
    }
}

#[test]
fn pauses_double_up_to_a_minute_and_start_anew_after_an_answer() {
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
fn a_question_waits_for_the_end_of_a_pause() {
    let mut one = Loop::following();
    one.fail(RequestFailure::Transient);
    one.event(Event::Asked);
    assert_eq!(one.asked, []);
    one.fail(RequestFailure::Transient);
    assert_eq!(one.read().1, Mode::Leader, "the next try answers it");
}

#[test]
fn another_server_gets_no_index_of_the_last_one() {
    let mut one = Loop::following();
    let old = one.ticket();
    one.event(Event::Switched { token: false });
    assert_eq!(one.asked[0], Action::Cancel(old));
    assert_eq!(one.read().1, Mode::Any);
    one.answer(mk_headers(2), &[1, 2]);
    assert_eq!(one.state(), State::Live, "a lower index is no reset");
    assert!(matches!(one.read().1, Mode::Blocking { index: 2, .. }));
}

#[test]
fn another_token_has_its_own_baseline_but_removes_nothing_by_itself() {
    let mut one = Loop::following();
    one.event(Event::Switched { token: true });
    one.answer(mk_filtered(11), &[]);
    assert_eq!(one.words.last(), Some(&Partial(Doubt::Filtered)));
    assert_eq!(one.state(), State::Doubtful(Doubt::Filtered));
}

#[test]
fn what_comes_late_is_dropped() {
    let mut one = Loop::following();
    let late = one.ticket();
    one.event(Event::Switched { token: false });
    for event in [
        Event::Answered(late, mk_headers(99), Some(mk_content(&[7]))),
        Event::Failed(late, RequestFailure::Auth),
        Event::TokenChecked(late, true),
    ] {
        one.event(event);
        assert_eq!((one.asked.len(), one.said.len()), (0, 1));
    }
}

#[test]
fn an_end_gives_up_what_is_under_way_and_is_final() {
    let mut one = Loop::following();
    let ticket = one.ticket();
    one.event(Event::Stopped);
    assert_eq!(one.asked, [Action::Cancel(ticket), Action::State(State::Ended)]);
    one.answer(mk_headers(20), &[9]);
    one.event(Event::Started);
    assert_eq!((one.asked.len(), one.said.len()), (0, 1));
}

#[test]
fn an_endpoint_that_a_server_may_lack_is_not_asked_again() {
    let mut one = Loop::new(Policy { optional: true, ..Policy::default() });
    one.fail(RequestFailure::Unsupported);
    assert_eq!(one.asked, [Action::State(State::Ended)]);
}

#[test]
fn an_unchanged_index_needs_no_content() {
    let mut one = Loop::following();
    let Some(Action::Read(Read { skip: Some(10), .. })) = one.asked.last() else { panic!("{:?}", one.asked) };
    one.event(Event::Answered(one.ticket(), mk_headers(10), None));
    assert_eq!((one.said.len(), one.read().1), (1, blocking(10)));
    assert_eq!(one.state(), State::Live);
}

#[test]
fn now_and_then_all_is_looked_at_whatever_the_index_says() {
    let mut one = Loop::following();
    one.now = Mono(299_000);
    one.event(Event::Answered(one.ticket(), mk_headers(10), None));
    assert!(matches!(one.asked.last(), Some(Action::Read(Read { skip: Some(10), .. }))), "{:?}", one.asked);
    one.now = Mono(300_000);
    one.event(Event::Answered(one.ticket(), mk_headers(10), None));
    assert!(matches!(one.asked.last(), Some(Action::Read(Read { skip: None, .. }))), "{:?}", one.asked);
    one.answer(mk_headers(10), &[1, 2, 3]);
    assert_eq!(one.last_said().0, [1, 2, 3], "the answer at that index had been short");
}

#[test]
fn what_was_said_in_doubt_is_decoded_and_said_again_when_the_doubt_is_gone() {
    let mut one = Loop::following();
    one.answer(mk_stale(11), &[1, 2, 3]);
    assert_eq!(one.words, [Confidence::Plausible, Partial(Doubt::Stale)]);
    assert!(matches!(one.asked.last(), Some(Action::Read(Read { skip: None, .. }))), "{:?}", one.asked);
    assert!(matches!(one.read().1, Mode::Blocking { .. }), "nothing is missing, so nobody is asked");
    one.answer(mk_headers(11), &[1, 2, 3]);
    assert_eq!(one.words.last(), Some(&Confidence::Plausible), "the same content, on a better word");
}

#[test]
fn what_is_missing_in_doubt_stays_missed() {
    let mut one = Loop::following();
    one.answer(mk_stale(11), &[1]);
    one.answer(mk_stale(12), &[1]);
    assert_ne!(one.watch.confirm_at, None, "2 is missed until the leader or a sound answer says so");
}

#[test]
fn on_demand_nothing_is_read_until_it_is_wanted() {
    let mut one = Loop::on_demand();
    one.event(Event::Look(Look::Changed));
    assert_eq!(one.read().1, Mode::Blocking { index: 10, wait: SECOND }, "waits for a server that lags");
    one.event(Event::Look(Look::Changed));
    assert_eq!(one.asked, [], "one at a time");
    one.answer(mk_headers(11), &[1, 2, 3]);
    assert_eq!(one.read().1, Mode::Blocking { index: 11, wait: SECOND }, "it changed after that read began");
    one.answer(mk_headers(11), &[1, 2, 3]);
    assert_eq!(one.asked.iter().filter_map(as_read).count(), 0);
    one.event(Event::Look(Look::Again));
    assert_eq!(one.read().1, Mode::Any);
}

#[test]
fn on_demand_questions_and_retries_are_the_same() {
    let mut one = Loop::on_demand();
    one.event(Event::Asked);
    assert_eq!(one.read().1, Mode::Leader);
    one.fail(RequestFailure::Transient);
    assert_eq!(one.read(), (Duration::from_millis(500), Mode::Leader, 10 * SECOND));
    one.answer(mk_stale(11), &[1]);
    assert_eq!(one.read(), (Duration::from_millis(750), Mode::Leader, 10 * SECOND), "asked again by itself");
    one.answer(mk_headers(11), &[1]);
    assert_eq!((one.last_said(), one.asked.len()), ((vec![1], true), 1), "{:?}", one.asked);
}

#[test]
fn a_turn_from_polling_to_demand_and_back_loses_no_index() {
    let mut one = Loop::following();
    let ticket = one.ticket();
    one.event(Event::Follow(Follow::Demand));
    assert_eq!(one.asked, [Action::Cancel(ticket)]);
    one.event(Event::Follow(Follow::Poll));
    assert!(matches!(one.read().1, Mode::Blocking { index: 10, .. }));
}

#[test]
fn a_look_cuts_a_long_poll_short() {
    let mut one = Loop::following();
    let ticket = one.ticket();
    one.event(Event::Look(Look::Again));
    assert_eq!(one.asked[0], Action::Cancel(ticket));
    assert_eq!(one.read().1, Mode::Any);
}
