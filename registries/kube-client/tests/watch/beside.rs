//! Requests beside a watch: the probe and the audit.

use serde_json::json;
use tributary_kube_client::Timing;
use tributary_model::SourceState;
use tributary_scripted_api::{Answer, ApiServer, Verb};

use crate::fixture::{Fixture, POD_KIND, PODS, pod, secs, timing};

#[tokio::test(start_paused = true)]
async fn lost_credential_shows_within_a_minute_beside_a_watch() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(31)).await;
    let lost = fixture.elapsed();
    fixture.server.answer("pods", Some(Verb::Probe), usize::MAX, Answer::Status(401, "revoked"));
    fixture.until("reported", |fixture| fixture.state() == SourceState::AuthFailed).await;
    assert!(fixture.elapsed() - lost <= secs(60), "{:?}", fixture.elapsed() - lost);
    // the watch continues
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.names() == ["a", "b"]).await;
    assert_eq!((fixture.state(), fixture.listed), (SourceState::AuthFailed, 1));
    fixture.server.heal();
    fixture.live().await;
    assert_eq!(fixture.listed, 1, "no list is repeated");
}

#[tokio::test(start_paused = true)]
async fn lost_right_and_silent_server_show_within_a_minute() {
    for (answer, state) in [
        (Answer::Status(403, "no list"), SourceState::Forbidden),
        (Answer::Silence, SourceState::Unreachable),
        (Answer::Status(503, "etcd is away"), SourceState::Unreachable),
    ] {
        let mut fixture = Fixture::pods(&["a"]);
        fixture.live().await;
        fixture.pass(secs(31)).await;
        let lost = fixture.elapsed();
        fixture.server.answer("pods", Some(Verb::Probe), 1, answer);
        fixture.until("reported", |fixture| fixture.state() == state).await;
        assert!(fixture.elapsed() - lost <= secs(60), "{state:?}: {:?}", fixture.elapsed() - lost);
        fixture.live().await;
    }
}

#[tokio::test(start_paused = true)]
async fn busy_server_leaves_the_credential_status_unchanged() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    let before = fixture.statuses.len();
    fixture.server.answer("pods", Some(Verb::Probe), 1, Answer::Busy(secs(90)));
    fixture.pass(secs(200)).await;
    assert_eq!(fixture.statuses.len(), before, "{:?}", fixture.statuses);
    let probes = fixture.server.requests().iter().filter(|one| one.verb == Verb::Probe).count();
    assert!((3..=5).contains(&probes), "one was put off by 90 s: {probes}");
}

#[tokio::test(start_paused = true)]
async fn dropped_watch_event_healed_by_audit() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.delete_silently("pods", "shop", "a");
    fixture.server.put_silently("pods", pod("b", "10.0.0.9"));
    fixture.server.put_silently("pods", pod("d", "10.0.0.4"));
    fixture.until("recovered", |fixture| fixture.names() == ["b", "c", "d"]).await;
    assert_eq!((fixture.recovered, fixture.held["shop/b"].as_str()), (3, "10.0.0.9"));
    assert_eq!(fixture.puts, 5, "c was not decoded again");
    assert!(fixture.elapsed() <= secs(600 * 5 / 4 + 90), "{:?}", fixture.elapsed());
    assert_eq!(fixture.state(), SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn clean_audit_decodes_nothing() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.live().await;
    let _ = fixture.server.requests();
    fixture.pass(secs(3_600)).await;
    let audits = fixture.server.requests().iter().filter(|one| one.verb == Verb::Get).count();
    assert!(audits >= 4, "audits ran: {audits}");
    assert_eq!((fixture.puts, fixture.listed, fixture.recovered), (3, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn audit_during_changes_recovers_nothing() {
    let server = ApiServer::new(&[PODS]);
    for number in 0..20 {
        server.put("pods", pod(&format!("p{number}"), "10.0.0.1"));
    }
    let often = Timing { audit: secs(4), ..timing() };
    let mut fixture = Fixture::over(server, POD_KIND, often);
    fixture.live().await;
    for round in 0..300_u64 {
        let name = format!("p{}", round % 23);
        if round % 5 == 0 {
            fixture.server.delete("pods", "shop", &name);
        } else {
            fixture.server.put("pods", pod(&name, &format!("10.0.1.{}", round % 250)));
        }
        fixture.pass(std::time::Duration::from_millis(230)).await;
    }
    assert_eq!((fixture.recovered, fixture.listed), (0, 1));
    let audits = fixture.server.requests().iter().filter(|one| one.verb == Verb::Get).count();
    assert!(audits > 5, "audits ran: {audits}");
}

#[tokio::test(start_paused = true)]
async fn stuck_bookmark_keeps_a_kind_live_and_an_audit_recovers() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.bookmarks(false);
    fixture.live().await;
    fixture.server.put_silently("pods", pod("b", "10.0.0.2"));
    // the same old version every minute: the server no longer follows its own store
    let old = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "101"}}});
    while fixture.recovered == 0 {
        fixture.server.line("pods", &old);
        fixture.pass(secs(60)).await;
        assert!(fixture.elapsed() < secs(900), "never recovered: {:?}", fixture.statuses);
    }
    assert_eq!((fixture.recovered, fixture.names()), (1, vec!["a", "b"]));
}
