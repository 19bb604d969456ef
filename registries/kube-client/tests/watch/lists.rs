//! Lists: streamed and paged, refused, torn, interrupted, repeated.

use serde_json::json;
use tributary_model::SourceState;
use tributary_scripted_api::{Answer, Verb};

use crate::fixture::{Fixture, pod, secs};

#[tokio::test(start_paused = true)]
async fn list_is_streamed_where_the_server_supports_it() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.live().await;
    assert_eq!(fixture.names(), ["a", "b", "c"]);
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 1, "one request both lists and watches: {requests:?}");
    assert_eq!(requests[0].query["resourceVersionMatch"], "NotOlderThan");
}

#[tokio::test(start_paused = true)]
async fn refused_stream_falls_back_to_pages_at_once() {
    let mut fixture = Fixture::pods(&["a", "b", "c", "d", "e"]);
    fixture.server.streams(false);
    fixture.live().await;
    assert_eq!(fixture.names(), ["a", "b", "c", "d", "e"]);
    assert!(fixture.elapsed() < secs(1), "no pause: {:?}", fixture.elapsed());
    assert_eq!(fixture.listed, 1);
    fixture.pass(secs(1)).await;
    let requests = fixture.server.requests();
    let verbs: Vec<Verb> = requests.iter().map(|one| one.verb).collect();
    assert_eq!(verbs, [Verb::Watch, Verb::Get, Verb::Get, Verb::Get, Verb::Watch], "pages of two");
    assert!(requests[1..4].iter().all(|one| one.query["limit"] == "2"));
    assert!(fixture.statuses.iter().all(|part| part.state != SourceState::Broken), "{:?}", fixture.statuses);
    // later changes are delivered
    fixture.server.delete("pods", "shop", "b");
    fixture.until("b is gone", |fixture| fixture.names() == ["a", "c", "d", "e"]).await;
}

#[tokio::test(start_paused = true)]
async fn list_is_repeated_on_demand() {
    let mut fixture = Fixture::pods(&["a", "b"]);
    fixture.live().await;
    fixture.server.put_silently("pods", pod("c", "10.0.0.1"));
    fixture.list_again();
    fixture.until("a second list", |fixture| fixture.listed == 2).await;
    assert_eq!(fixture.names(), ["a", "b", "c"], "the list has what the watch did not deliver");

    // a watch that would resume lists instead, and not before its pause is over
    fixture.server.answer("pods", None, 1, Answer::Status(503, "busy"));
    fixture.server.tear("pods");
    fixture.until("refused", |fixture| fixture.reason().contains("busy")).await;
    let refused = fixture.elapsed();
    fixture.list_again();
    fixture.until("a third list", |fixture| fixture.listed == 3).await;
    assert!(fixture.elapsed() > refused, "the pause lasts");
}

#[tokio::test(start_paused = true)]
async fn list_error_is_unknown_not_empty() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.answer("pods", None, 2, Answer::Status(401, "the token has expired"));
    fixture.until("refused", |fixture| fixture.state() == SourceState::AuthFailed).await;
    assert_eq!((fixture.listed, fixture.held.len()), (0, 0));
    let part = fixture.statuses.last().unwrap();
    assert!(part.reason.contains("401") && part.reason.contains("the token has expired"), "{part:?}");
    assert!(part.retry_in.is_some_and(|pause| pause <= secs(1)), "the first retry is soon: {part:?}");
    fixture.live().await;
    assert_eq!((fixture.names(), fixture.listed), (vec!["a"], 1));
    assert_eq!(fixture.server.requests().len(), 3, "two refusals, then the list");
}

#[tokio::test(start_paused = true)]
async fn torn_page_is_not_a_list() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.server.streams(false);
    fixture.server.answer("pods", Some(Verb::Get), 1, Answer::Torn(60));
    fixture.until("torn", |fixture| fixture.reason().contains("broke off")).await;
    assert_eq!((fixture.listed, fixture.state()), (0, SourceState::Unreachable));
    fixture.live().await;
    assert_eq!((fixture.names(), fixture.listed), (vec!["a", "b", "c"], 1));
}

#[tokio::test(start_paused = true)]
async fn torn_stream_is_no_list_and_keeps_what_it_delivered() {
    let mut fixture = Fixture::pods(&["a", "b", "c"]);
    fixture.server.answer("pods", Some(Verb::Watch), 1, Answer::Torn(180));
    fixture.until("torn", |fixture| fixture.reason().contains("broke off")).await;
    assert_eq!((fixture.listed, fixture.puts), (0, 1), "one whole object arrived");
    // an object of the first list is deleted before the second
    fixture.server.delete("pods", "shop", "a");
    fixture.live().await;
    assert_eq!((fixture.names(), fixture.listed, fixture.puts), (vec!["b", "c"], 1, 3));
}

#[tokio::test(start_paused = true)]
async fn version_lost_during_a_relist_restarts_it() {
    let mut fixture = Fixture::pods(&["a", "b", "c", "d", "e"]);
    fixture.server.streams(false);
    fixture.live().await;
    // the watch is cut, its version has expired, and the new list loses its version at its second page
    fixture.server.answer("continue", None, 1, Answer::Status(410, "not by path"));
    fixture.server.heal();
    fixture.server.compact();
    fixture.server.end("pods");
    fixture.server.answer("pods", Some(Verb::Watch), 1, Answer::Status(410, "too old"));
    fixture.until("listing again", |fixture| fixture.puts == 5).await;
    fixture.server.delete("pods", "shop", "a");
    fixture.server.delete("pods", "shop", "e");
    fixture.until("listed again", |fixture| fixture.names() == ["b", "c", "d"]).await;
    assert_eq!(fixture.puts, 5, "unchanged objects are not decoded again");
}

#[tokio::test(start_paused = true)]
async fn invalid_object_is_a_problem_of_that_object_only() {
    let mut fixture = Fixture::pods(&["a", "c"]);
    fixture.server.put("pods", json!({"metadata": {"namespace": "shop", "name": "b"}, "ip": 7}));
    fixture.live().await;
    assert_eq!(fixture.names(), ["a", "c"]);
    assert_eq!(fixture.bad["shop/b"], "ip is not a text");
    fixture.server.put("pods", pod("b", "10.0.0.2"));
    fixture.until("b is valid", |fixture| fixture.names() == ["a", "b", "c"]).await;
    assert!(fixture.bad.is_empty());
}

#[tokio::test(start_paused = true)]
async fn requested_pause_is_kept() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.answer("pods", None, 1, Answer::Busy(secs(17)));
    fixture.until("busy", |fixture| fixture.reason().contains("429")).await;
    fixture.live().await;
    assert!(fixture.elapsed() >= secs(17) && fixture.elapsed() < secs(19), "{:?}", fixture.elapsed());
}

#[tokio::test(start_paused = true)]
async fn request_to_a_silent_server_times_out() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.answer("pods", None, 1, Answer::Silence);
    fixture.until("timed out", |fixture| fixture.state() == SourceState::Unreachable).await;
    assert!(fixture.elapsed() >= secs(30) && fixture.elapsed() < secs(31), "{:?}", fixture.elapsed());
    fixture.live().await;
}

#[tokio::test(start_paused = true)]
async fn answer_of_another_kind_of_server_is_not_empty() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.server.streams(false);
    fixture.server.answer("pods", Some(Verb::Get), 1, Answer::Text("<html>a login page</html>".to_owned()));
    fixture.until("garbled", |fixture| fixture.state() == SourceState::Broken).await;
    assert_eq!(fixture.listed, 0);
    fixture.live().await;
    assert_eq!(fixture.names(), ["a"]);
}
