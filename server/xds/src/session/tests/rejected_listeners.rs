//! Listeners that a gRPC server rejects, in sessions with few and with many names.

use super::super::MAX_NAMED;
use super::*;
use crate::fake::REFUSING;

const OWN: &str = "xds.istio.io/grpc/lds/inbound/0.0.0.0:50051";

/// Opens a stream of a gRPC server that has the first version of its listener, and subscribes to this many assignments.
fn mk_server(assignments: usize) -> TestStream {
    let mut stream = TestStream::grpc(Variant::Sotw, &[(L, OWN, "1")]);
    let names: Vec<String> = (0..assignments).map(|n| format!("e{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if !names.is_empty() {
        stream.request(E, &names, "");
        let nonce = stream.all().remove(0).nonce;
        stream.request(E, &names, &nonce);
    }
    stream.request(L, &[OWN], "");
    let sent = stream.all();
    assert_eq!(sent.last().unwrap().resources, [format!("{OWN}=1")]);
    stream.request(L, &[OWN], &sent.last().unwrap().nonce);
    assert!(stream.all().is_empty());
    stream
}

#[test]
fn rejected_listener_is_replaced_until_it_changes() {
    for assignments in [0, MAX_NAMED + 1] {
        let mut stream = mk_server(assignments);
        stream.set(L, OWN, "2");
        let second = stream.all().remove(0);
        stream.refuse(L, &[OWN], &second.nonce, "no certificate provider");
        let refusing = stream.all();
        assert_eq!(refusing[0].resources, [format!("{OWN}={REFUSING}")], "{assignments}");
        let noted = |stream: &TestStream| {
            let status = stream.session.status();
            status.refusing_listeners().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>()
        };
        assert_eq!(noted(&stream), [format!("{OWN}: no certificate provider")], "{assignments}");
        // a rejection of that one as well changes nothing
        stream.refuse(L, &[OWN], &refusing[0].nonce, "no");
        assert!(stream.all().is_empty(), "{assignments}");
        stream.set(L, OWN, "3");
        assert_eq!(stream.all()[0].resources, [format!("{OWN}=3")], "{assignments}");
        assert!(noted(&stream).is_empty(), "{assignments}");
    }
}
