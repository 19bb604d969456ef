//! Rounds that sessions of a class send alike: each client receives what a server of its own would send it.

use proptest::prelude::*;
use tributary_proto::peer::FrameDecoder;

use super::*;
use crate::session::RepeatedRound;

const WORLD: &[(ResourceType, &str, &str)] =
    &[(C, "a.x", "1"), (E, "a.x", "1"), (C, "b.x", "1"), (E, "b.x", "1"), (L, "l.x", "1"), (R, "r.x", "1")];

/// Subscribes as an Envoy does, and acknowledges everything.
fn follow(stream: &mut TestStream) {
    for (kind, names) in [(C, &[][..]), (E, &["a.x", "b.x"]), (L, &[]), (R, &["r.x"])] {
        stream.sub(kind, names, &[], "");
        acknowledge(stream);
    }
}

/// Receives and acknowledges what is due.
fn acknowledge(stream: &mut TestStream) -> Vec<TestResponse> {
    stream.session.take_interest();
    let all = stream.all();
    all.iter().for_each(|response| stream.sub(response.kind, &[], &[], &response.nonce));
    all
}

fn decoded(round: RepeatedRound) -> Vec<TestResponse> {
    let mut frames = FrameDecoder::new(1 << 20);
    let mut rope = round.rope;
    while let Some(chunk) = rope.pop() {
        frames.push(&chunk);
    }
    let response = |kind| {
        let message = frames.message().unwrap().unwrap();
        let nonce = Response::decode_delta(message.clone()).unwrap().nonce.to_string();
        let rope = tributary_proto::Rope::framed(&message, &[]);
        decode(Variant::Delta, Outgoing { kind, nonce: super::super::Nonce::parse(&nonce).unwrap(), rope })
    };
    round.kinds.into_iter().map(response).collect()
}

/// Receives and acknowledges what is due, repeated if possible.
fn repeated(stream: &mut TestStream) -> Vec<TestResponse> {
    let catalog = Arc::clone(&stream.catalog);
    stream.session.take_interest();
    let mut all = stream.session.repeat_round(stream.now, &catalog).map(decoded).unwrap_or_default();
    all.iter().for_each(|response| stream.sub(response.kind, &[], &[], &response.nonce));
    all.extend(acknowledge(stream));
    all
}

/// A response without its nonce.
fn text(response: &TestResponse) -> String {
    format!("{} {}", response.version, response.text())
}

/// Gives a stream the generation of another one of the server.
fn see(stream: &mut TestStream, catalog: &Arc<Catalog>) {
    stream.catalog = Arc::clone(catalog);
    stream.session.on_generation(ChangedHosts::Everything);
}

#[test]
fn a_round_of_the_class_is_repeated() {
    let mut first = TestStream::delta(WORLD);
    let mut second = first.reconnect();
    [&mut first, &mut second].into_iter().for_each(follow);
    first.set(C, "a.x", "2");
    see(&mut second, &first.catalog);
    let sent: Vec<String> = acknowledge(&mut first).iter().map(text).collect();
    assert_eq!(sent, ["2 cds a.x=2", "2 eds a.x=1"]);
    let again: Vec<String> = repeated(&mut second).iter().map(text).collect();
    assert_eq!((again, first.count("rounds_repeated")), (sent, 1));
    assert_eq!(second.session.status().statuses(Mono(0))[0].status, super::super::SyncStatus::Synced);
    first.drop(&[(L, "l.x")]);
    see(&mut second, &first.catalog);
    acknowledge(&mut first);
    assert_eq!(repeated(&mut second).iter().map(text).collect::<Vec<_>>(), ["3 lds -l.x"]);
    assert_eq!(first.count("rounds_repeated"), 2);
}

#[test]
fn a_session_with_something_of_its_own_repeats_nothing() {
    let mut first = TestStream::delta(WORLD);
    let mut others: Vec<TestStream> = (0..3).map(|_| first.reconnect()).collect();
    follow(&mut first);
    others.iter_mut().for_each(follow);
    first.set(C, "a.x", "2");
    acknowledge(&mut first);
    // it subscribes to another name, has a request that is due, and is of the state-of-the-world variant
    others[0].sub(E, &["c.x"], &[], "");
    acknowledge(&mut others[0]);
    others[1].sub(R, &["r.x"], &[], "");
    others[2] = TestStream::over(
        Arc::clone(&first.fake),
        Arc::clone(&first.env),
        Variant::Sotw,
        first.world.clone(),
        1,
    );
    for other in &mut others {
        see(other, &first.catalog);
        let catalog = Arc::clone(&other.catalog);
        assert!(other.session.repeat_round(other.now, &catalog).is_none());
    }
    assert_eq!(first.count("rounds_repeated"), 0);
}

#[derive(Debug, Clone)]
enum Op {
    Set(ResourceType, usize, u8),
    Drop(ResourceType, usize),
    Subscribe(usize, usize),
    Unsubscribe(usize, usize),
    Again(usize, usize),
}

const NAMES: [&str; 4] = ["a.x", "b.x", "c.x", "r.x"];

fn op() -> impl Strategy<Value = Op> {
    let kind = || prop::sample::select(vec![C, E, L, R]);
    let (stream, name) = (|| 0..3usize, || 0..NAMES.len());
    prop_oneof![
        6 => (kind(), name(), 1..5u8).prop_map(|(kind, name, body)| Op::Set(kind, name, body)),
        3 => (kind(), name()).prop_map(|(kind, name)| Op::Drop(kind, name)),
        1 => (stream(), name()).prop_map(|(stream, name)| Op::Subscribe(stream, name)),
        1 => (stream(), name()).prop_map(|(stream, name)| Op::Unsubscribe(stream, name)),
        1 => (stream(), name()).prop_map(|(stream, name)| Op::Again(stream, name)),
    ]
}

fn change(stream: &mut TestStream, op: &Op) {
    let name = |n: usize| NAMES[n].to_owned();
    stream.change(|world| match op {
        Op::Set(kind, n, body) => drop(world.insert((*kind, name(*n)), body.to_string())),
        Op::Drop(kind, n) => drop(world.remove(&(*kind, name(*n)))),
        Op::Subscribe(..) | Op::Unsubscribe(..) | Op::Again(..) => {}
    });
}

fn request(streams: &mut [TestStream], op: &Op) {
    match op {
        Op::Subscribe(at, n) => streams[*at].sub(E, &[NAMES[*n]], &[], ""),
        Op::Unsubscribe(at, n) => streams[*at].sub(E, &[], &[NAMES[*n]], ""),
        Op::Again(at, n) => streams[*at].sub(R, &[NAMES[*n]], &[], ""),
        Op::Set(..) | Op::Drop(..) => {}
    }
}

proptest! {
    #[test]
    fn each_client_receives_what_a_server_of_its_own_would_send(
        ops in prop::collection::vec(prop::collection::vec(op(), 1..3), 1..12),
    ) {
        let mut first = TestStream::delta(WORLD);
        let mut shared: Vec<TestStream> = (0..3).map(|_| first.reconnect()).collect();
        let mut alone: Vec<TestStream> = (0..3).map(|_| TestStream::delta(WORLD)).collect();
        follow(&mut first);
        shared.iter_mut().chain(&mut alone).for_each(follow);
        for step in ops {
            for op in &step {
                change(&mut first, op);
                alone.iter_mut().for_each(|stream| change(stream, op));
                request(&mut shared, op);
                request(&mut alone, op);
            }
            acknowledge(&mut first);
            for (one, other) in shared.iter_mut().zip(&mut alone) {
                see(one, &first.catalog);
                let (all, expected) = (repeated(one), acknowledge(other));
                prop_assert_eq!(
                    all.iter().map(text).collect::<Vec<_>>(),
                    expected.iter().map(text).collect::<Vec<_>>()
                );
                prop_assert_eq!(one.session.deadline(), other.session.deadline());
            }
        }
    }
}
