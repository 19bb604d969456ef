//! Malformed input: valid messages with fields removed, doubled, retyped, reordered, nested or
//! enlarged, and random bytes. Decoders never panic, and accepted messages are within their
//! bounds.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tributary_proto::peer::FrameDecoder;
use tributary_proto::peer::{self, Response};
use tributary_proto::wire::{Field, Reader, Writer};
use tributary_proto::{DeltaRequest, ErrorDetail, Metadata, Node, SotwRequest, Value, limits};

fn mk_node() -> Node {
    let labels: Metadata = [("app", Value::Text("pay".into()))].into_iter().collect();
    let metadata = [
        ("NAMESPACE", Value::Text("shop".into())),
        ("LABELS", Value::Struct(labels)),
        ("REQUESTED_NETWORK_VIEW", Value::List(vec![Value::Text("n1".into()), Value::Null])),
        ("HTTP10", Value::Bool(true)),
        ("IDLE", Value::Number(1.5)),
    ];
    Node {
        id: "sidecar~10.0.0.1~pay-1.shop~shop.svc.cluster.local".into(),
        cluster: "pay".into(),
        metadata: metadata.into_iter().collect(),
        locality: Some(["eu".into(), "eu-1".into(), "".into()]),
        user_agent: "envoy".into(),
        user_agent_version: "1.40".into(),
    }
}

fn mk_sotw() -> SotwRequest {
    SotwRequest {
        version: "v1".into(),
        node: Some(mk_node()),
        names: ["outbound|80||a.shop", "outbound|81||b.shop"].into_iter().collect(),
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".into(),
        nonce: "n1".into(),
        error: Some(ErrorDetail { code: 3, message: "bad".into() }),
    }
}

fn mk_delta() -> DeltaRequest {
    DeltaRequest {
        node: Some(mk_node()),
        type_url: "t".into(),
        subscribe: ["*", "a"].into_iter().collect(),
        unsubscribe: ["b"].into_iter().collect(),
        initial: [("a", "0011223344556677"), ("c", "x")].into_iter().collect(),
        nonce: "n2".into(),
        error: None,
    }
}

#[derive(Debug, Clone)]
enum Twist {
    Drop(usize),
    Double(usize),
    Retype(usize, u8),
    Swap(usize, usize),
    Nest(usize),
    Enlarge(usize, usize),
    Renumber(usize, u32),
    Cut(usize),
    Flip(usize, u8),
}

fn twists() -> impl Strategy<Value = Vec<Twist>> {
    let at = 0..12usize;
    let one = prop_oneof![
        at.clone().prop_map(Twist::Drop),
        at.clone().prop_map(Twist::Double),
        (at.clone(), 0..6u8).prop_map(|(i, t)| Twist::Retype(i, t)),
        (at.clone(), at.clone()).prop_map(|(i, j)| Twist::Swap(i, j)),
        at.clone().prop_map(Twist::Nest),
        (at.clone(), 1..70_000usize).prop_map(|(i, n)| Twist::Enlarge(i, n)),
        (at, 1..20u32).prop_map(|(i, n)| Twist::Renumber(i, n)),
        (0..400usize).prop_map(Twist::Cut),
        (0..400usize, any::<u8>()).prop_map(|(i, b)| Twist::Flip(i, b)),
    ];
    proptest::collection::vec(one, 1..4)
}

fn fields(message: &Bytes) -> Vec<(u32, Field)> {
    let mut reader = Reader::new(message.clone());
    std::iter::from_fn(|| reader.field().ok().flatten()).collect()
}

fn write(fields: &[(u32, Field)]) -> Bytes {
    let mut out = Writer::new();
    fields.iter().for_each(|(number, field)| out.field(*number, field));
    out.finish().into()
}

fn twist(message: Bytes, twist: &Twist) -> Bytes {
    let mut all = fields(&message);
    let n = all.len().max(1);
    match *twist {
        Twist::Drop(i) if !all.is_empty() => drop(all.remove(i % n)),
        Twist::Double(i) if !all.is_empty() => all.push(all[i % n].clone()),
        Twist::Retype(i, to) if !all.is_empty() => {
            all[i % n].1 = match to {
                0 => Field::Varint(u64::MAX),
                1 => Field::Fixed64(7),
                2 => Field::Fixed32(7),
                3 => Field::Bytes(Bytes::new()),
                4 => Field::Bytes(Bytes::from_static(&[0xff, 0xfe, 0x80])),
                _ => Field::Varint(0),
            }
        }
        Twist::Swap(i, j) if !all.is_empty() => all.swap(i % n, j % n),
        Twist::Nest(i) if !all.is_empty() => {
            let whole = message;
            all[i % n].1 = Field::Bytes(whole);
        }
        Twist::Enlarge(i, by) if !all.is_empty() => {
            if let Field::Bytes(bytes) = &all[i % n].1 {
                let mut more = BytesMut::from(&bytes[..]);
                more.resize(bytes.len() + by, b'a');
                all[i % n].1 = Field::Bytes(more.freeze());
            }
        }
        Twist::Renumber(i, to) if !all.is_empty() => all[i % n].0 = to,
        Twist::Cut(at) => return message.slice(..at.min(message.len())),
        Twist::Flip(at, to) => {
            let mut bytes = BytesMut::from(&message[..]);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = to;
            }
            return bytes.freeze();
        }
        _ => {}
    }
    write(&all)
}

fn within_bounds(request: &SotwRequest) -> bool {
    request.names.len() <= limits::MAX_NAMES
        && request.names.iter().all(|n| n.len() <= limits::MAX_NAME)
        && request.error.as_ref().is_none_or(|e| e.message.len() <= limits::MAX_ERROR_TEXT)
}

fn decode_all(bytes: &Bytes) -> Result<(), TestCaseError> {
    if let Ok(request) = SotwRequest::decode(bytes.clone()) {
        prop_assert!(within_bounds(&request));
    }
    if let Ok(request) = DeltaRequest::decode(bytes.clone()) {
        prop_assert!(request.initial.len() + request.subscribe.len() <= 2 * limits::MAX_NAMES);
    }
    let _ = (Node::decode(bytes.clone()), Metadata::decode(bytes.clone()));
    let _ = (Response::decode_sotw(bytes.clone()), Response::decode_delta(bytes.clone()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn twisted_requests_never_panic(which in 0..3usize, twists in twists()) {
        let valid = match which { 0 => mk_sotw().encode(), 1 => mk_delta().encode(), _ => mk_node().encode() };
        let bytes = twists.iter().fold(valid, twist);
        decode_all(&bytes)?;
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode_all(&Bytes::from(bytes.clone()))?;
        let mut decoder = FrameDecoder::new(1024);
        decoder.push(&bytes);
        while let Ok(Some(message)) = decoder.message() {
            prop_assert!(message.len() <= 1024);
        }
    }
}

#[test]
fn requests_round_trip() {
    let sotw = SotwRequest::decode(mk_sotw().encode()).unwrap();
    assert_eq!(sotw.node, mk_sotw().node);
    assert_eq!(sotw.names.iter().collect::<Vec<_>>(), ["outbound|80||a.shop", "outbound|81||b.shop"]);
    assert_eq!((sotw.version.as_str(), sotw.nonce.as_str()), ("v1", "n1"));
    assert_eq!(sotw.error, mk_sotw().error);

    let delta = DeltaRequest::decode(mk_delta().encode()).unwrap();
    assert_eq!(delta.initial.iter().collect::<Vec<_>>(), [("a", "0011223344556677"), ("c", "x")]);
    assert_eq!(delta.subscribe.iter().collect::<Vec<_>>(), ["*", "a"]);
    assert_eq!(delta.unsubscribe.iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(delta.node.unwrap().metadata.text("HTTP10").as_deref(), Some("true"));
}

#[test]
fn held_names_stay_in_the_received_buffer() {
    let message = mk_delta().encode();
    let range = message.as_ptr_range();
    let request = DeltaRequest::decode(message).unwrap();
    assert!(request.initial.iter().all(|(name, _)| range.contains(&name.as_ptr())));
}

#[test]
fn error_names_the_exceeded_bound() {
    let mut names = Writer::new();
    for _ in 0..=limits::MAX_NAMES {
        names.present(3, "x");
    }
    let error = SotwRequest::decode(names.finish().into()).unwrap_err().to_string();
    assert_eq!(error, "the list of resource names exceeds its bound of 262144; send less");

    let mut node = mk_node();
    node.metadata =
        [("x", Value::Text("y".repeat(limits::MAX_METADATA).as_str().into()))].into_iter().collect();
    let error = Node::decode(node.encode()).unwrap_err().to_string();
    assert_eq!(error, "node.metadata exceeds its bound of 65536; send less");
}

#[test]
fn deep_metadata_is_rejected() {
    let deep =
        (0..100).fold(Value::Bool(true), |inner, _| Value::Struct([("x", inner)].into_iter().collect()));
    let node = Node { metadata: [("deep", deep)].into_iter().collect(), ..mk_node() };
    assert!(Node::decode(node.encode()).unwrap_err().to_string().contains("nesting"));
}

#[test]
fn a_reconnect_with_100_000_names_fits() {
    let names: Vec<String> =
        (0..100_000).map(|i| format!("outbound|80||service-{i}.namespace.svc.cluster.local")).collect();
    let initial = names.iter().map(|n| (n.as_str(), "0123456789abcdef")).collect();
    let message = DeltaRequest { initial, ..DeltaRequest::default() }.encode();
    let mut decoder = FrameDecoder::new(limits::MAX_DELTA_MESSAGE);
    decoder.push(&peer::frame(&message));
    let message = decoder.message().unwrap().unwrap();
    assert_eq!(DeltaRequest::decode(message).unwrap().initial.len(), 100_000);
}
