//! Running watches: events, bookmarks, ends, tears, lost versions.

use std::time::Duration;

use serde_json::json;
use tributary_model::SourceState;
use tributary_scripted_api::{Answer, Verb};

use crate::fixture::{Fixture, pod, secs};

#[tokio::test(start_paused = true)]
async fn events_are_delivered_in_order() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.server.put("pods", pod("a", "10.0.0.9"));
    fixture.server.delete("pods", "shop", "b");
    fixture.server.put("pods", pod("c", "10.0.0.3"));
    fixture.until("c", |fixture| fixture.names() == ["a", "c"]).await;
    assert_eq!(fixture.held["shop/a"], "10.0.0.9");
    assert_eq!((fixture.puts, fixture.listed), (4, 1));
    assert!(fixture.elapsed() < secs(1));
}

#[tokio::test(start_paused = true)]
async fn ended_watch_resumes_at_its_version() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(20)).await;
    let _ = fixture.server.requests();
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.held.len() == 2).await;
    fixture.server.end("pods");
    fixture.pass(secs(1)).await;
    fixture.server.put("pods", pod("c", "10.0.0.3"));
    fixture.until("c", |fixture| fixture.held.len() == 3).await;
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(
        requests[0].verb == Verb::Watch && requests[0].query.contains_key("resourceVersion"),
        "{requests:?}"
    );
    assert_eq!((fixture.listed, fixture.puts, fixture.state()), (1, 3, SourceState::Live));
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_inside_an_object_loses_nothing() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.tear("pods");
    fixture.pass(secs(1)).await;
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.names() == ["a", "b"]).await;
    assert_eq!((fixture.listed, fixture.bad.len()), (1, 0));
    assert_eq!(fixture.state(), SourceState::Live, "one broken watch is a regular end");
}

#[tokio::test(start_paused = true)]
async fn watch_that_breaks_repeatedly_is_reported() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.answer("pods", Some(Verb::Watch), 4, Answer::Reset);
    fixture.server.tear("pods");
    fixture.until("reported", |fixture| fixture.state() == SourceState::Unreachable).await;
    assert!(fixture.reason().contains("watch of pods: the answer broke off"), "{}", fixture.reason());
    fixture.live().await;
    assert_eq!((fixture.listed, fixture.names()), (1, vec!["a"]));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_alone_keep_a_quiet_kind_live() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    let before = fixture.statuses.len();
    fixture.pass(secs(3_000)).await;
    assert_eq!(fixture.statuses.len(), before, "{:?}", fixture.statuses);
    assert!(fixture.confirmed >= 40, "a bookmark a minute confirms: {}", fixture.confirmed);
    assert_eq!((fixture.listed, fixture.puts), (1, 1), "and no list is repeated");
}

#[tokio::test(start_paused = true)]
async fn watch_resumes_from_a_bookmark() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    // events of other kinds advance the server's version, and older versions expire
    fixture.server.compact();
    fixture.server.bookmark("pods");
    fixture.pass(secs(1)).await;
    fixture.server.end("pods");
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.names() == ["a", "b"]).await;
    assert_eq!(fixture.listed, 1, "resumed, not listed again");
}

#[tokio::test(start_paused = true)]
async fn lost_version_is_listed_again_and_decodes_only_changes() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.put_silently("pods", pod("b", "10.0.0.9"));
    fixture.server.delete_silently("pods", "shop", "c");
    fixture.server.compact();
    fixture.server.end("pods");
    fixture.until("again", |fixture| fixture.listed == 2).await;
    assert_eq!((fixture.names(), fixture.puts), (vec!["a", "b"], 4));
    assert_eq!(fixture.held["shop/b"], "10.0.0.9");
    assert!(
        fixture.statuses.iter().all(|part| part.state != SourceState::Unreachable),
        "{:?}",
        fixture.statuses
    );
}

#[tokio::test(start_paused = true)]
async fn version_lost_by_a_restart_is_listed_at_once_after_a_long_outage() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.answer("pods", Some(Verb::Watch), 6, Answer::Reset);
    fixture.server.compact();
    fixture.server.tear("pods");
    let tries = |fixture: &Fixture| {
        fixture.statuses.iter().filter(|part| part.state == SourceState::Unreachable).count()
    };
    fixture.until("away", |fixture| tries(fixture) == 6).await;
    let retry = fixture.elapsed() + fixture.statuses.last().unwrap().retry_in.unwrap();
    fixture.until("listed again", |fixture| fixture.listed == 2).await;
    assert!(fixture.elapsed() < retry + secs(1), "{:?}, not {retry:?}", fixture.elapsed());
    assert_eq!((fixture.state(), tries(&fixture)), (SourceState::Live, 6), "a lost version is no failure");
}

#[tokio::test(start_paused = true)]
async fn version_that_is_lost_again_after_its_list_waits() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.streams(false);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    let _ = fixture.server.requests();
    fixture.server.answer("pods", Some(Verb::Watch), 4, Answer::Status(410, "too old"));
    fixture.server.end("pods");
    fixture.pass(Duration::from_millis(400)).await;
    let verbs: Vec<Verb> = fixture.server.requests().iter().map(|one| one.verb).collect();
    assert_eq!(verbs, [Verb::Watch, Verb::Get, Verb::Watch], "one list at once");
    fixture.until("listed", |fixture| fixture.listed == 5).await;
    fixture.pass(secs(1)).await;
    assert_eq!((fixture.server.requests().len(), fixture.state()), (6, SourceState::Live));
}

#[tokio::test(start_paused = true)]
async fn silent_watch_is_noticed_although_probes_succeed() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.bookmarks(false);
    fixture.live().await;
    let begun = fixture.elapsed();
    fixture.until("silent", |fixture| fixture.state() == SourceState::Unreachable).await;
    let silent = fixture.elapsed() - begun;
    assert!(silent >= secs(150) && silent < secs(152), "{silent:?}");
    assert!(fixture.reason().contains("neither event nor bookmark"), "{}", fixture.reason());
    let probes = fixture.server.requests().iter().filter(|one| one.verb == Verb::Probe).count();
    assert!(probes >= 4, "the probes went on: {probes}");
    // the watch is opened again and audited, which recovers missed events
    fixture.live().await;
    let requests = fixture.server.requests();
    assert!(requests.iter().any(|one| one.verb == Verb::Watch), "{requests:?}");
    assert_eq!((fixture.listed, fixture.recovered), (1, 0), "a clean audit proves the held objects");
}

#[tokio::test(start_paused = true)]
async fn unknown_watch_line_is_not_skipped() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.line("pods", &json!({"type": "NOVELTY", "object": {}}));
    fixture.until("garbled", |fixture| fixture.state() == SourceState::Broken).await;
    fixture.live().await;
    assert_eq!((fixture.listed, fixture.puts), (2, 1), "listed again, since the line cannot be skipped");
}

#[tokio::test(start_paused = true)]
async fn server_restored_to_an_older_state_is_listed_again() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.streams(false);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.answer("pods", Some(Verb::Watch), 6, Answer::Status(504, "Too large resource version"));
    fixture.server.end("pods");
    fixture.until("listed again", |fixture| fixture.listed == 2).await;
    fixture.live().await;
    assert_eq!((fixture.names(), fixture.puts), (vec!["a"], 1));
}
