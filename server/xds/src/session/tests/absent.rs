//! xDS clusters that do not exist, for gRPC clients: they wait 15 s for one that no response has.

use super::*;

const A: &str = "outbound|80||a.test";
const B: &str = "outbound|80||b.test";

fn mk_stream(world: &[(ResourceType, &str, &str)]) -> TestStream {
    TestStream::grpc(Variant::Sotw, world)
}
/// Requests xDS clusters and acknowledges the response.
fn requested(stream: &mut TestStream, names: &[&str]) -> Vec<String> {
    stream.request(C, names, "");
    let all = stream.all();
    all.iter().for_each(|response| stream.request(response.kind, names, &response.nonce));
    all.iter().map(TestResponse::text).collect()
}

#[test]
fn missing_cluster_is_answered_at_once() {
    let mut stream = mk_stream(&[(C, A, "1")]);
    assert_eq!(requested(&mut stream, &[A, B]), [format!("cds {A}=1 {B}=absent")]);
    assert_eq!(stream.responses(), Vec::<String>::new(), "once");
    stream.set(C, B, "2");
    assert_eq!(stream.responses(), [format!("cds {A}=1 {B}=2")]);
}

#[test]
fn name_that_is_requested_later_is_answered() {
    let mut stream = mk_stream(&[(C, A, "1")]);
    stream.request(C, &[A], "");
    let first = stream.all().remove(0);
    stream.request(C, &[A, B, "foreign"], &first.nonce);
    assert_eq!(stream.responses(), [format!("cds {A}=1 {B}=absent")]);
}

#[test]
fn only_grpc_clients_in_state_of_the_world_get_missing_clusters() {
    let mut envoy = TestStream::sotw(&[(C, A, "1")]);
    assert_eq!(requested(&mut envoy, &[A, B]), [format!("cds {A}=1")]);
    let mut delta = TestStream::grpc(Variant::Delta, &[(C, A, "1")]);
    delta.sub(C, &[A, B], &[], "");
    assert_eq!(delta.responses().join(" "), format!("cds {A}=1 cds -{B}"));
}

#[test]
fn routes_move_before_a_removed_cluster_is_absent() {
    let mut stream = mk_stream(&[(C, A, "1"), (C, B, "1"), (R, "r", "to-a")]);
    requested(&mut stream, &[A, B]);
    stream.request(R, &["r"], "");
    assert_eq!(stream.responses(), ["rds r=to-a"]);
    stream.change(|world| {
        world.remove(&(C, A.into()));
        world.insert((C, B.into()), "2".into());
        world.insert((R, "r".into()), "to-b".into());
    });
    let moved = [format!("cds {A}=1 {B}=2"), "rds r=to-b".to_owned(), format!("cds {A}=absent {B}=2")];
    assert_eq!(stream.responses(), moved);
}

/// Law 1: before everything has been read, the name may have endpoints.
#[test]
fn missing_cluster_waits_until_everything_has_been_read() {
    let mut stream = mk_stream(&[(C, A, "1")]);
    stream.complete(false);
    assert_eq!(requested(&mut stream, &[A, B]), [format!("cds {A}=1")]);
    assert!(stream.session.holds_names(), "completeness wakes it");
    stream.complete(true);
    assert_eq!(stream.responses(), [format!("cds {A}=1 {B}=absent")]);
    assert!(!stream.session.holds_names());
    stream.complete(false);
    assert_eq!(stream.responses(), Vec::<String>::new());
}

#[test]
fn missing_cluster_that_appears_before_everything_has_been_read_is_sent() {
    let mut stream = mk_stream(&[(C, A, "1")]);
    stream.complete(false);
    requested(&mut stream, &[A, B]);
    stream.set(C, B, "1");
    assert_eq!(stream.responses(), [format!("cds {A}=1 {B}=1")]);
    assert!(!stream.session.holds_names());
}

#[test]
fn client_holds_nothing_under_an_absent_name() {
    let mut stream = mk_stream(&[(C, A, "1")]);
    requested(&mut stream, &[A, B]);
    let sent = stream.session.status().sent(C).unwrap().resources(&stream.catalog);
    let held: Vec<_> = sent.iter().map(|of| (&*of.name, of.version.is_some(), of.state.as_str())).collect();
    assert_eq!(held, [(A, true, "SYNCED"), (B, false, "ABSENT")]);
}
