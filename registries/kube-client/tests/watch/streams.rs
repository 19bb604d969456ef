//! Running watches: events, bookmarks, ends, tears, lost versions.

use serde_json::json;
use tributary_model::SourceState;
use tributary_scripted_api::{Answer, Verb};

use crate::fixture::{Fixture, pod, secs};

#[tokio::test(start_paused = true)]
async fn events_are_told_as_they_come() {
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
async fn a_watch_that_ends_is_resumed_where_it_was() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(20)).await;
    let _ = fixture.server.asked();
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.held.len() == 2).await;
    fixture.server.end("pods");
    fixture.pass(secs(1)).await;
    fixture.server.put("pods", pod("c", "10.0.0.3"));
    fixture.until("c", |fixture| fixture.held.len() == 3).await;
    let asked = fixture.server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].verb == Verb::Watch && asked[0].query.contains_key("resourceVersion"), "{asked:?}");
    assert_eq!((fixture.listed, fixture.puts, fixture.state()), (1, 3, SourceState::Live));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_in_the_middle_of_an_object_loses_nothing() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.tear("pods");
    fixture.pass(secs(1)).await;
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.names() == ["a", "b"]).await;
    assert_eq!((fixture.listed, fixture.bad.len()), (1, 0));
    assert_eq!(fixture.state(), SourceState::Live, "that a watch breaks off once is how watches end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_keeps_breaking_off_is_told() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.answer("pods", Some(Verb::Watch), 4, Answer::Reset);
    fixture.server.tear("pods");
    fixture.until("told", |fixture| fixture.state() == SourceState::Unreachable).await;
    assert!(fixture.reason().contains("watch of pods: the answer broke off"), "{}", fixture.reason());
    fixture.live().await;
    assert_eq!((fixture.listed, fixture.names()), (1, vec!["a"]));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_alone_keep_a_quiet_kind_live() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    let said = fixture.said.len();
    fixture.pass(secs(3_000)).await;
    assert_eq!(fixture.said.len(), said, "{:?}", fixture.said);
    assert!(fixture.confirmed >= 40, "a bookmark a minute confirms: {}", fixture.confirmed);
    assert_eq!((fixture.listed, fixture.puts), (1, 1), "and nothing is read again");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_a_place_to_resume_from() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    // what happened to other kinds moves the server's version on, and it forgets what was before
    fixture.server.compact();
    fixture.server.bookmark("pods");
    fixture.pass(secs(1)).await;
    fixture.server.end("pods");
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b", |fixture| fixture.names() == ["a", "b"]).await;
    assert_eq!(fixture.listed, 1, "resumed, not listed again");
}

#[tokio::test(start_paused = true)]
async fn a_lost_version_is_listed_again_and_only_what_changed_is_read() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.put_untold("pods", pod("b", "10.0.0.9"));
    fixture.server.delete_untold("pods", "shop", "c");
    fixture.server.compact();
    fixture.server.end("pods");
    fixture.until("again", |fixture| fixture.listed == 2).await;
    assert_eq!((fixture.names(), fixture.puts), (vec!["a", "b"], 4));
    assert_eq!(fixture.held["shop/b"], "10.0.0.9");
    assert!(fixture.said.iter().all(|part| part.state != SourceState::Unreachable), "{:?}", fixture.said);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_noticed_although_probes_succeed() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.bookmarks(false);
    fixture.live().await;
    let begun = fixture.elapsed();
    fixture.until("silent", |fixture| fixture.state() == SourceState::Unreachable).await;
    let silent = fixture.elapsed() - begun;
    assert!(silent >= secs(150) && silent < secs(152), "{silent:?}");
    assert!(fixture.reason().contains("neither event nor bookmark"), "{}", fixture.reason());
    let probes = fixture.server.asked().iter().filter(|one| one.verb == Verb::Probe).count();
    assert!(probes >= 4, "the probes went on, and well: {probes}");
    // it is opened again and audited: what it had kept back comes
    fixture.live().await;
    let asked = fixture.server.asked();
    assert!(asked.iter().any(|one| one.verb == Verb::Watch), "{asked:?}");
    assert_eq!((fixture.listed, fixture.healed), (1, 0), "a clean audit proves what is held");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_event_is_not_read_past() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.line("pods", &json!({"type": "NOVELTY", "object": {}}));
    fixture.until("garbled", |fixture| fixture.state() == SourceState::Broken).await;
    fixture.live().await;
    assert_eq!((fixture.listed, fixture.puts), (2, 1), "read again, since it cannot be read past");
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_to_an_older_state_is_listed_again() {
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
