//! Another cluster that answers at the address of the followed one.

use serde_json::{Value, json};
use tributary_model::SourceState;
use tributary_scripted_api::{Answer, ApiServer, Kind};

use crate::fixture::{Fixture, POD_KIND, PODS, pod, secs, timing};

const NAMESPACES: Kind =
    Kind { group: "", version: "v1", plural: "namespaces", kind: "Namespace", namespaced: false };

fn system(uid: &str) -> Value {
    json!({"metadata": {"name": "kube-system", "uid": uid}})
}

/// Serves a cluster with these pods.
fn cluster(uid: &str, names: &[&str]) -> ApiServer {
    let server = ApiServer::new(&[PODS, NAMESPACES]);
    server.put("namespaces", system(uid));
    names.iter().for_each(|name| server.put("pods", pod(name, "10.0.0.1")));
    server
}

async fn followed() -> Fixture {
    let mut fixture = Fixture::over(cluster("uid-1", &["a", "b"]), POD_KIND, timing()).confirming();
    fixture.live().await;
    fixture.pass(secs(31)).await;
    fixture
}

#[tokio::test(start_paused = true)]
async fn results_of_another_cluster_are_not_used() {
    for streams in [true, false] {
        let mut fixture = followed().await;
        let other = cluster("uid-2", &["z"]);
        fixture.server.streams(streams);
        fixture.server.swap(&other);
        fixture.until("the reason", |fixture| fixture.state() == SourceState::Broken).await;
        assert!(fixture.reason().contains("identity is uid-2, not uid-1"), "{}", fixture.reason());
        fixture.server.put("pods", pod("y", "10.0.0.2"));
        // longer than the silence limit of the watch, and than the time to the next audit
        fixture.pass(secs(2_000)).await;
        assert_eq!((fixture.names(), fixture.puts, fixture.listed), (vec!["a", "b"], 2, 1));
        assert_eq!((fixture.recovered, fixture.state()), (0, SourceState::Broken));
    }
}

#[tokio::test(start_paused = true)]
async fn audit_of_another_cluster_recovers_nothing() {
    let mut fixture = followed().await;
    // the watch continues, as one does that a load balancer keeps at the old server
    fixture.server.put("namespaces", system("uid-2"));
    for name in ["a", "b"] {
        fixture.server.delete_silently("pods", "shop", name);
    }
    fixture.server.bookmarks(true);
    fixture.pass(secs(2_000)).await;
    assert_eq!((fixture.names(), fixture.recovered, fixture.listed), (vec!["a", "b"], 0, 1));
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_known_cluster_loses_nothing_and_resumes() {
    let mut fixture = followed().await;
    let other = cluster("uid-2", &["z"]);
    // a new cluster answers before its namespaces exist
    other.delete("namespaces", "", "kube-system");
    fixture.server.swap(&other);
    fixture.until("the reason", |fixture| fixture.reason().contains("cannot be confirmed")).await;
    fixture.pass(secs(2_000)).await;
    assert_eq!((fixture.names(), fixture.puts, fixture.listed), (vec!["a", "b"], 2, 1));
    fixture.server.swap(&other);
    fixture.live().await;
    fixture.server.put("pods", pod("c", "10.0.0.3"));
    fixture.until("c", |fixture| fixture.names() == ["a", "b", "c"]).await;
    assert_eq!(fixture.listed, 1, "its watch was resumed");
}

#[tokio::test(start_paused = true)]
async fn forbidden_identity_delays_nothing() {
    let server = cluster("uid-1", &["a"]);
    server.answer("/namespaces", None, usize::MAX, Answer::Status(403, "no get"));
    let mut fixture = Fixture::over(server, POD_KIND, timing()).confirming();
    fixture.live().await;
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.names() == ["a", "b"]).await;
}
