//! What a filtered answer hides, and what ends that.

use super::*;
use crate::watch::TokenView;

/// Creates a loop with a new token, whose first answer is filtered and lacks instance 2.
fn narrowed() -> Loop {
    let mut one = Loop::following();
    one.event(Event::Switched { token: true });
    assert_eq!(one.watch.token_view(), TokenView::Unjudged);
    one.answer(mk_filtered(11), &[1]);
    one
}

fn never_confirmed(one: &Loop) -> bool {
    let checks = |action: &Action<Content>| matches!(action, Action::CheckToken(_));
    !one.confidences.contains(&Confidence::Confirmed) && !one.requested.iter().any(checks)
}

#[test]
fn narrower_token_hides_what_it_lacks_whatever_the_leader_answers() {
    let mut one = narrowed();
    assert_eq!((one.watch.token_view(), one.read().1), (TokenView::Hidden, Mode::Leader));
    one.answer(mk_filtered(12), &[1]);
    assert!(never_confirmed(&one), "{:?}", one.requested);
    one.event(Event::ConfirmRequested);
    one.answer(mk_filtered(12), &[1]);
    assert!(never_confirmed(&one) && one.watch.token_view() == TokenView::Hidden, "{:?}", one.requested);
}

#[test]
fn hidden_ends_when_nothing_is_missing_or_nothing_is_filtered() {
    let mut one = narrowed();
    one.answer(mk_filtered(12), &[1, 2]);
    assert_eq!(one.watch.token_view(), TokenView::Filtered, "its first answer is its baseline");
    let mut one = narrowed();
    one.answer(mk_headers(12), &[1]);
    assert_eq!((one.watch.token_view(), one.last_report()), (TokenView::Whole, (vec![1], true)));
}

#[test]
fn stale_unfiltered_answer_does_not_end_hidden() {
    let mut one = narrowed();
    one.answer(mk_stale(12), &[1]);
    assert_eq!(one.watch.token_view(), TokenView::Hidden);
}

#[test]
fn filtered_answer_does_not_confirm_unknown_facts() {
    for first in [&[1][..], &[]] {
        let mut one = Loop::new(Policy::default());
        one.answer(mk_filtered(10), first);
        assert_eq!(one.watch.token_view(), TokenView::Filtered);
        one.event(Event::ConfirmRequested);
        one.answer(mk_filtered(10), first);
        assert!(never_confirmed(&one), "{first:?}");
        assert_eq!(one.watch.token_view(), TokenView::Hidden, "{first:?}");
        one.answer(mk_headers(11), first);
        one.event(Event::ConfirmRequested);
        one.answer(mk_headers(11), first);
        assert_eq!(
            (one.confidences.last(), one.watch.token_view()),
            (Some(&Confidence::Confirmed), TokenView::Whole)
        );
    }
}

#[test]
fn leader_read_under_a_baseline_filter_checks_the_token() {
    let mut one = Loop::new(Policy::default());
    one.answer(mk_filtered(10), &[1]);
    one.event(Event::ReadLeader);
    one.answer(mk_filtered(10), &[1]);
    assert_eq!(one.requested, [Action::CheckToken(one.ticket())]);
}

#[test]
fn token_that_lost_rights_hides_what_it_lacks_from_then_on() {
    let mut one = Loop::new(Policy::default());
    one.answer(mk_filtered(10), &[1, 2]);
    one.answer(mk_filtered(11), &[1]);
    assert_eq!(one.watch.token_view(), TokenView::Filtered, "the leader has not answered yet");
    one.answer(mk_filtered(11), &[1]);
    one.event(Event::TokenChecked(one.ticket(), TokenCheck::Changed));
    assert_eq!(one.watch.token_view(), TokenView::Hidden);
    one.answer(mk_filtered(12), &[1]);
    assert!(never_confirmed(&one) && one.watch.token_view() == TokenView::Hidden);
}

#[test]
fn unchanged_index_that_begins_to_be_filtered_is_read_at_once() {
    let mut one = Loop::following();
    one.event(Event::Answered(one.ticket(), mk_filtered(10), None));
    assert_eq!(one.read().1, Mode::Any, "what it shows is not known");
    one.answer(mk_filtered(10), &[1]);
    assert_eq!(one.watch.token_view(), TokenView::Hidden);
}
