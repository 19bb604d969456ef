//! The identity that a run pins, the requests that callers share, and what passes unconfirmed.

use futures::future::join_all;
use serde_json::json;
use tributary_scripted_api::{Answer, ApiServer, Kind};

use super::*;

const NAMESPACES: Kind =
    Kind { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false };

fn serve(uid: &str) -> ApiServer {
    let server = ApiServer::new(&[NAMESPACES]);
    be(&server, uid);
    server
}

fn be(server: &ApiServer, uid: &str) {
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": uid}}));
}

fn uid(text: &str) -> Fingerprint {
    Fingerprint::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn first_identity_is_pinned_and_another_one_is_final() {
    let server = serve("uid-1");
    let cluster = ClusterIdentity::new(server.client());
    assert_eq!(cluster.found(), Found::Unasked);
    assert_eq!(cluster.confirm().await, Ok(()));
    assert_eq!(cluster.known(), Some(uid("uid-1")));
    be(&server, "uid-2");
    assert!(matches!(cluster.confirm().await, Err(ApiFailure::Replaced(_))));
    be(&server, "uid-1");
    assert!(matches!(cluster.confirm().await, Err(ApiFailure::Replaced(_))), "the run that saw it ends");
    let why = cluster.replaced().await;
    assert!(why.starts_with("the cluster's identity is uid-2, not uid-1 as before"), "{why}");
    assert_eq!(cluster.known(), Some(uid("uid-1")));
}

#[tokio::test(start_paused = true)]
async fn callers_at_the_same_time_share_requests() {
    let server = serve("uid-1");
    let cluster = ClusterIdentity::new(server.client());
    let all = join_all((0..20).map(|_| cluster.confirm())).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(server.asked().len() <= 2, "one began before most of them called, and one after");
}

#[tokio::test(start_paused = true)]
async fn request_that_began_before_the_call_does_not_count() {
    let server = serve("uid-1");
    let cluster = ClusterIdentity::new(server.client());
    server.answer("/namespaces", None, 1, Answer::Silence);
    let first = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.confirm().await }
    });
    tokio::task::yield_now().await;
    assert_eq!(cluster.confirm().await, Ok(()));
    let first = first.await.unwrap();
    assert!(matches!(&first, Err(ApiFailure::Unreachable(why)) if why.contains("10 s")), "{first:?}");
}

#[test]
fn only_a_missing_right_lets_a_known_cluster_go_unconfirmed() {
    let text = String::new;
    let cases = [
        (ApiFailure::Forbidden(text()), true, true),
        (ApiFailure::NotFound(text()), true, false),
        (ApiFailure::Garbled(text()), true, false),
        (ApiFailure::Unauthorized(text()), false, false),
        (ApiFailure::TooMany(None, text()), false, false),
        (ApiFailure::Server(503, text()), true, false),
        (ApiFailure::Unreachable(text()), false, false),
        (ApiFailure::Torn(text()), false, false),
    ];
    for (why, passes_unknown, passes_known) in cases {
        for (found, passes) in [(Found::Unasked, passes_unknown), (Found::Is(uid("uid-1")), passes_known)] {
            let mut after = found.clone();
            let judged = judge(&mut after, Err(why.clone()));
            assert_eq!(judged.is_ok(), passes, "{found:?} {why:?}: {judged:?}");
            assert!(after == found || passes && after == Found::Unreadable, "{after:?}");
        }
    }
}
