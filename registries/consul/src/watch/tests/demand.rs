//! Reads on demand, and the switch between polling and demand.

use super::*;

#[test]
fn on_demand_loop_reads_only_when_triggered() {
    let mut one = Loop::on_demand();
    one.event(Event::ReadNow(ReadReason::Changed));
    assert_eq!(one.read().1, Mode::Blocking { index: 10, wait: SECOND }, "waits for a server that lags");
    one.event(Event::ReadNow(ReadReason::Changed));
    assert_eq!(one.requested, [], "one at a time");
    one.answer(mk_headers(11), &[1, 2, 3]);
    assert_eq!(
        one.read().1,
        Mode::Blocking { index: 11, wait: SECOND },
        "the change came after that read started"
    );
    one.answer(mk_headers(11), &[1, 2, 3]);
    assert_eq!(one.requested.iter().filter_map(as_read).count(), 0);
    one.event(Event::ReadNow(ReadReason::Recheck));
    assert_eq!(one.read().1, Mode::Any);
}

#[test]
fn on_demand_loop_confirms_and_retries() {
    let mut one = Loop::on_demand();
    one.event(Event::ConfirmRequested);
    assert_eq!(one.read().1, Mode::Leader);
    one.fail(RequestFailure::Transient);
    assert_eq!(one.read(), (Duration::from_millis(500), Mode::Leader, 10 * SECOND));
    one.answer(mk_stale(11), &[1]);
    assert_eq!(
        one.read(),
        (Duration::from_millis(750), Mode::Leader, 10 * SECOND),
        "requested again by itself"
    );
    one.answer(mk_headers(11), &[1]);
    assert_eq!((one.last_report(), one.requested.len()), ((vec![1], true), 1), "{:?}", one.requested);
}

#[test]
fn switch_to_demand_and_back_keeps_the_index() {
    let mut one = Loop::following();
    let ticket = one.ticket();
    one.event(Event::Follow(Follow::Demand));
    assert_eq!(one.requested, [Action::Cancel(ticket)]);
    one.event(Event::Follow(Follow::Poll));
    assert!(matches!(one.read().1, Mode::Blocking { index: 10, .. }));
}

#[test]
fn recheck_aborts_a_long_poll() {
    let mut one = Loop::following();
    let ticket = one.ticket();
    one.event(Event::ReadNow(ReadReason::Recheck));
    assert_eq!(one.requested[0], Action::Cancel(ticket));
    assert_eq!(one.read().1, Mode::Any);
}
