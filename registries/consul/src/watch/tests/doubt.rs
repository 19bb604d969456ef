//! Answers with a doubt: what they add, what they do not remove, and what ends the doubt.

use super::*;

#[test]
fn plausible_answer_that_lacks_something_is_left_to_the_core() {
    let mut one = Loop::following();
    one.answer(mk_headers(11), &[]);
    assert_eq!(one.last_report(), (vec![], false));
    one.event(Event::ConfirmRequested);
    assert_eq!(one.requested[0], Action::Cancel(Ticket(one.ticket().0 - 1)));
    assert_eq!(one.read(), (Duration::ZERO, Mode::Leader, 10 * SECOND));
    one.answer(mk_headers(11), &[]);
    assert_eq!(one.last_report(), (vec![], true));
    assert_eq!(one.read().1, blocking(11));
}

#[test]
fn doubtful_answer_adds_and_removes_nothing() {
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
        assert_eq!((one.last_report(), one.confidences.last()), ((vec![2, 3], false), Some(&Partial(doubt))));
        assert_eq!(one.state(), State::Doubtful(doubt));
        assert_eq!(one.read().1, Mode::Leader, "{doubt:?}: the leader is requested at once");
        one.answer(mk_headers(12), &[2, 3]);
        assert_eq!((one.last_report(), one.state()), ((vec![2, 3], true), State::Live), "{doubt:?}");
    }
}

#[test]
fn leader_answer_with_a_doubt_confirms_nothing() {
    let streaming = Headers { known_leader: None, ..mk_headers(12) };
    for short in [mk_headers(3), mk_stale(12), mk_filtered(12), streaming] {
        let mut one = Loop::following();
        one.event(Event::ConfirmRequested);
        one.answer(short.clone(), &[]);
        assert!(
            one.confidences.iter().all(|confidence| *confidence != Confidence::Confirmed),
            "{short:?} was confirmed"
        );
        assert!(matches!(one.confidences.last(), Some(Partial(_))));
        assert!(matches!(one.state(), State::Doubtful(_)));
    }
}

#[test]
fn after_a_reset_only_the_leader_confirms() {
    let mut one = Loop::following();
    one.answer(mk_headers(3), &[]);
    one.answer(Headers { known_leader: None, ..mk_headers(3) }, &[]);
    assert_ne!(one.read().1, Mode::Leader, "leader reads are spaced");
    one.answer(mk_headers(4), &[]);
    assert_eq!(one.confidences[1..], [Partial(Doubt::Reset)]);
    assert_eq!(one.state(), State::Doubtful(Doubt::Reset));
    one.now = Mono(600_000);
    one.answer(mk_headers(4), &[]);
    one.event(Event::ConfirmRequested);
    one.answer(mk_headers(4), &[]);
    assert_eq!((one.last_report(), one.state()), ((vec![], true), State::Live));
}

#[test]
fn in_doubt_blocking_reads_end_for_the_next_leader_read() {
    let mut one = Loop::following();
    one.answer(mk_stale(11), &[1]);
    one.answer(mk_stale(11), &[1]);
    // the second leader read comes after 750 ms with random 0.5; a wait is at least a second
    let Mode::Blocking { index: 11, wait } = one.read().1 else { panic!("{:?}", one.requested) };
    assert_eq!(wait, SECOND);
    one.now = Mono(1_000);
    one.answer(mk_stale(11), &[1]);
    assert_eq!(one.read().1, Mode::Leader);
}

#[test]
fn plausible_answer_clears_a_temporary_doubt() {
    for short in [mk_stale(11), mk_filtered(11)] {
        let mut one = Loop::following();
        one.answer(short.clone(), &[1]);
        one.answer(short, &[1]);
        one.answer(mk_headers(12), &[1]);
        assert_eq!((one.last_report(), one.state()), ((vec![1], false), State::Live));
        assert_eq!(one.watch.confirm_at, None);
    }
}

#[test]
fn always_filtered_token_confirms_while_unchanged() {
    for (check, want) in
        [(TokenCheck::Same, Confidence::Confirmed), (TokenCheck::Changed, Partial(Doubt::Filtered))]
    {
        let mut one = Loop::new(Policy::default());
        one.answer(mk_filtered(10), &[1, 2]);
        assert_eq!(one.state(), State::Live, "its first answer is its baseline");
        one.answer(mk_filtered(11), &[1]);
        assert_eq!(one.state(), State::Doubtful(Doubt::Filtered));
        one.answer(mk_filtered(11), &[1]);
        assert_eq!(one.requested, [Action::CheckToken(one.ticket())]);
        one.event(Event::TokenChecked(one.ticket(), check));
        assert_eq!((one.last_report().0, one.confidences.last()), (vec![1], Some(&want)));
        assert_eq!(one.requested.iter().filter_map(as_read).count(), 1);
    }
}

#[test]
fn always_filtered_token_settles_a_reset() {
    let mut one = Loop::new(Policy::default());
    one.answer(mk_filtered(10), &[1, 2]);
    one.answer(mk_filtered(3), &[1]);
    assert_eq!(one.state(), State::Doubtful(Doubt::Reset));
    one.answer(mk_filtered(3), &[1]);
    one.event(Event::TokenChecked(one.ticket(), TokenCheck::Same));
    assert_eq!((one.last_report(), one.state()), ((vec![1], true), State::Live));
}

#[test]
fn without_token_empty_answer_under_deny_is_doubted() {
    let masked = |index| Headers { default_deny: true, ..mk_headers(index) };
    let mut one = Loop::new(Policy { has_token: false, ..Policy::default() });
    one.answer(masked(10), &[1, 2]);
    one.answer(masked(11), &[]);
    assert_eq!(one.confidences.last(), Some(&Partial(Doubt::Filtered)));
    assert_eq!(one.state(), State::Doubtful(Doubt::Filtered));
}

#[test]
fn partial_report_is_repeated_when_the_doubt_ends() {
    let mut one = Loop::following();
    one.answer(mk_stale(11), &[1, 2, 3]);
    assert_eq!(one.confidences, [Confidence::Plausible, Partial(Doubt::Stale)]);
    assert!(
        matches!(one.requested.last(), Some(Action::Read(Read { skip: None, .. }))),
        "{:?}",
        one.requested
    );
    assert!(matches!(one.read().1, Mode::Blocking { .. }), "nothing is missing, so the leader is not read");
    one.answer(mk_headers(11), &[1, 2, 3]);
    assert_eq!(one.confidences.last(), Some(&Confidence::Plausible), "equal content with more confidence");
}

#[test]
fn missing_entries_stay_missing_while_in_doubt() {
    let mut one = Loop::following();
    one.answer(mk_stale(11), &[1]);
    one.answer(mk_stale(12), &[1]);
    assert_ne!(one.watch.confirm_at, None, "2 stays missing until a clear answer");
}
