//! Tests of the inbound budget: any break of the bytes, waiting for budget, and time limits.

use std::collections::VecDeque;

use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use tonic::Code;
use tributary_proto::grpc::prefix;

use super::*;

/// Chunks as a body; open at the end if it never ends.
struct Chunks {
    chunks: VecDeque<Bytes>,
    open: bool,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.chunks.pop_front() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None if self.open => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

const LIMIT: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

fn mk_messages(lengths: &[usize]) -> Vec<u8> {
    lengths.iter().flat_map(|len| [prefix(*len).to_vec(), vec![7; *len]].concat()).collect()
}

fn mk_body(bytes: &[u8], step: usize, open: bool, budget: &Arc<InboundBudget>) -> Metered<Chunks> {
    let chunks = bytes.chunks(step).map(Bytes::copy_from_slice).collect();
    Metered::new(Chunks { chunks, open }, Arc::clone(budget), LIMIT, PATIENCE)
}

/// Returns the frames until the body waits, fails or ends.
fn frames(body: &mut Metered<Chunks>) -> (Vec<Bytes>, Option<Option<Status>>) {
    let mut out = Vec::new();
    loop {
        match body.frame().now_or_never() {
            None => return (out, None),
            Some(None) => return (out, Some(None)),
            Some(Some(Err(status))) => return (out, Some(Some(status))),
            Some(Some(Ok(frame))) => out.push(frame.into_data().unwrap()),
        }
    }
}

fn failure(body: &mut Metered<Chunks>) -> Code {
    frames(body).1.flatten().unwrap().code()
}

#[test]
fn frames_end_with_messages_wherever_the_bytes_break() {
    let bytes = mk_messages(&[3, 0, 5, 1]);
    for step in 1..=bytes.len() {
        let budget = Arc::new(InboundBudget::new(LIMIT));
        let (passed, end) = frames(&mut mk_body(&bytes, step, false, &budget));
        assert!(matches!(end, Some(None)), "step {step}");
        assert_eq!(passed.concat(), bytes, "step {step}");
        let mut ends = Vec::new();
        passed.iter().fold(0, |at, frame| {
            ends.push(at + frame.len());
            at + frame.len()
        });
        assert!([8, 13, 23, 29].iter().all(|end| ends.contains(end)), "step {step}: {ends:?}");
    }
}

#[test]
fn message_holds_its_length_until_its_permit_is_dropped() {
    let budget = Arc::new(InboundBudget::new(LIMIT));
    let mut body = mk_body(&mk_messages(&[1_000]), 100, true, &budget);
    assert_eq!(frames(&mut body).0.concat().len(), 1_005);
    let permit = body.take_permit();
    assert_eq!(budget.held(), 1_000);
    drop(permit);
    assert_eq!(budget.held(), 0);
}

#[tokio::test]
async fn stream_that_ends_within_a_message_returns_its_bytes() {
    let budget = Arc::new(InboundBudget::new(LIMIT));
    let mut body = mk_body(&mk_messages(&[1_000])[..500], 100, true, &budget);
    frames(&mut body);
    assert_eq!(budget.held(), 1_000);
    drop(body);
    assert_eq!(budget.held(), 0);
}

#[test]
fn large_message_waits_for_budget_and_small_ones_pass() {
    let budget = Arc::new(InboundBudget::new(LIMIT));
    let (large, small) = (mk_messages(&[LIMIT / 2]), mk_messages(&[100, 100]));
    let mut first = mk_body(&large, LIMIT, true, &budget);
    assert!(frames(&mut first).0.len() > 1);
    let mut second = mk_body(&large, LIMIT, true, &budget);
    assert_eq!(frames(&mut second).0.len(), 0, "it reads on without budget");
    let mut third = mk_body(&small, 64, true, &budget);
    assert_eq!(frames(&mut third).0.concat(), small);
    drop((first, third));
    assert!(frames(&mut second).0.len() > 1, "it never gets its budget");
}

#[test]
fn prefix_beyond_the_rules_is_rejected_before_its_message() {
    let budget = Arc::new(InboundBudget::new(LIMIT));
    for (bytes, code) in [
        (prefix(LIMIT + 1), Code::ResourceExhausted),
        ([1, 0, 0, 0, 0], Code::Unimplemented),
        ([9, 0, 0, 0, 0], Code::InvalidArgument),
    ] {
        assert_eq!(failure(&mut mk_body(&bytes, 5, true, &budget)), code);
    }
    assert_eq!(failure(&mut mk_body(&mk_messages(&[9])[..7], 5, false, &budget)), Code::InvalidArgument);
    assert_eq!(budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn incomplete_message_ends_in_time_and_silence_between_messages_does_not() {
    let budget = Arc::new(InboundBudget::new(LIMIT));
    let mut whole = mk_body(&mk_messages(&[9]), 5, true, &budget);
    assert!(frames(&mut whole).1.is_none());
    assert!(tokio::time::timeout(2 * PATIENCE, whole.frame()).await.is_err());
    let mut cut = mk_body(&mk_messages(&[9])[..7], 5, true, &budget);
    assert!(frames(&mut cut).1.is_none());
    let begun = tokio::time::Instant::now();
    let status = cut.frame().await.unwrap().unwrap_err();
    assert_eq!((status.code(), begun.elapsed()), (Code::DeadlineExceeded, PATIENCE));
}
