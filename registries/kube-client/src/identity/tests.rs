//! Pinning of the first identity, sharing of requests, and results that pass unconfirmed.

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
async fn first_identity_is_pinned_and_a_change_is_final() {
    let server = serve("uid-1");
    let cluster = ClusterIdentity::new(server.client());
    assert_eq!(cluster.found(), Found::Unknown);
    assert_eq!(cluster.confirm().await, Ok(()));
    assert_eq!(cluster.known(), Some(uid("uid-1")));
    be(&server, "uid-2");
    assert!(matches!(cluster.confirm().await, Err(ApiFailure::Replaced(_))));
    be(&server, "uid-1");
    assert!(matches!(cluster.confirm().await, Err(ApiFailure::Replaced(_))), "a run that saw a change ends");
    let why = cluster.replaced().await;
    assert!(why.starts_with("the cluster's identity is uid-2, not uid-1 as before"), "{why}");
    assert_eq!(cluster.known(), Some(uid("uid-1")));
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_requests() {
    let server = serve("uid-1");
    let cluster = ClusterIdentity::new(server.client());
    let all = join_all((0..20).map(|_| cluster.confirm())).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(server.requests().len() <= 2, "one before most calls, and one after them");
}

#[tokio::test(start_paused = true)]
async fn request_begun_before_the_call_does_not_confirm() {
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
fn known_cluster_passes_unconfirmed_only_without_the_right() {
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
        for (found, passes) in [(Found::Unknown, passes_unknown), (Found::Is(uid("uid-1")), passes_known)] {
            let mut after = found.clone();
            let judged = judge(&mut after, Err(why.clone()));
            assert_eq!(judged.is_ok(), passes, "{found:?} {why:?}: {judged:?}");
            assert!(after == found || passes && after == Found::Unreadable, "{after:?}");
        }
    }
}
