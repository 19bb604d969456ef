//! Kinds that are absent, appear, are served in another version, are forbidden, or disappear.

use tributary_kube_client::Resource;
use tributary_model::{SourceState, WithheldCause};
use tributary_scripted_api::{Answer, ApiServer, Kind, Verb};

use crate::fixture::{Fixture, POD_KIND, PODS, THING_KIND, THINGS, pod, secs, timing};

fn things(kinds: &[Kind]) -> Fixture {
    Fixture::over(ApiServer::new(kinds), THING_KIND, timing())
}

#[tokio::test(start_paused = true)]
async fn absent_kind_counts_as_listed_and_is_read_once_installed() {
    let mut fixture = things(&[PODS]);
    fixture.until("absent", |fixture| fixture.absent == 1).await;
    fixture.pass(secs(100)).await;
    assert_eq!((fixture.absent, fixture.listed), (1, 0), "reported once");
    assert_eq!(fixture.confirmed, 3, "and confirmed with every check");
    assert!(fixture.reason().contains("things.test has no things in v1, v1beta1"), "{}", fixture.reason());
    fixture.server.install(THINGS);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    let installed = fixture.elapsed();
    fixture.until("picked up", |fixture| fixture.names() == ["a"]).await;
    assert!(fixture.elapsed() - installed <= secs(30), "{:?}", fixture.elapsed() - installed);
    fixture.live().await;
}

#[tokio::test(start_paused = true)]
async fn older_version_is_read_where_only_it_is_served() {
    let mut fixture = things(&[Kind { version: "v1beta1", ..THINGS }]);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.live().await;
    assert_eq!((fixture.names(), fixture.absent), (vec!["a"], 0));
    assert!(fixture.elapsed() < secs(1));
}

#[tokio::test(start_paused = true)]
async fn kind_in_unknown_versions_only_is_absent() {
    let mut fixture = things(&[Kind { version: "v9", ..THINGS }]);
    fixture.until("absent", |fixture| fixture.absent == 1).await;
    assert_eq!(fixture.state(), SourceState::Live, "an absent kind is no failure");
}

#[tokio::test(start_paused = true)]
async fn uninstalled_kind_removes_its_objects() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.uninstall("things");
    fixture.until("gone", |fixture| fixture.absent == 1 && fixture.held.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn missing_path_alone_removes_nothing() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.live().await;
    fixture.pass(secs(5)).await;
    // a misconfigured proxy in front: everything is 404, the list of groups too
    fixture.server.answer("/apis", None, 6, Answer::Status(404, "nothing here"));
    fixture.server.end("things");
    fixture.until("reported", |fixture| fixture.state() == SourceState::Broken).await;
    assert_eq!((fixture.absent, fixture.names()), (0, vec!["a"]), "an error is never a deletion");
    fixture.live().await;
    assert_eq!((fixture.absent, fixture.names()), (0, vec!["a"]));
}

#[tokio::test(start_paused = true)]
async fn kind_not_found_after_an_outage_is_discovered_at_once() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.answer("/", None, usize::MAX, Answer::Status(503, "down"));
    fixture.server.end("things");
    fixture.pass(secs(300)).await;
    let known = fixture.withheld.len();
    // another cluster, which lacks the kind, and then the first one again
    let other = ApiServer::new(&[PODS]);
    fixture.server.swap(&other);
    fixture.server.heal();
    let recovered = fixture.elapsed();
    fixture.until("asked", |fixture| fixture.reason().contains("things.test has no things")).await;
    // the longest pause, once: a list that is not found adds no pause
    assert!(fixture.elapsed() - recovered <= secs(31), "{:?}", fixture.elapsed() - recovered);
    assert_eq!(
        fixture.withheld.len(),
        known,
        "a path that is not found is no reason: {:?}",
        fixture.withheld
    );
    fixture.server.swap(&other);
    fixture.live().await;
    fixture.pass(secs(60)).await;
    assert_eq!((fixture.absent, fixture.names(), fixture.state()), (0, vec!["a"], SourceState::Live));
}

#[tokio::test(start_paused = true)]
async fn served_path_that_is_not_found_is_retried_with_pauses() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.answer("v1/things", None, usize::MAX, Answer::Status(404, "not yet"));
    fixture.pass(secs(120)).await;
    let requests = fixture.server.requests().len();
    assert!(requests < 60, "{requests} requests in two minutes");
    assert_eq!((fixture.listed, fixture.absent), (0, 0));
    fixture.server.heal();
    fixture.live().await;
}

#[tokio::test(start_paused = true)]
async fn required_kind_is_never_absent() {
    let required = Resource { optional: false, ..THING_KIND };
    let mut fixture = Fixture::over(ApiServer::new(&[PODS]), required, timing());
    fixture.until("reported", |fixture| fixture.state() == SourceState::Broken).await;
    fixture.pass(secs(100)).await;
    assert_eq!((fixture.absent, fixture.withheld.len(), fixture.listed), (0, 1, 0));
    fixture.server.install(THINGS);
    fixture.live().await;
}

#[tokio::test(start_paused = true)]
async fn forbidden_optional_kind_delays_nothing_and_recovers() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.server.answer("v1/things", None, usize::MAX, Answer::Status(403, "no watch"));
    fixture.until("withheld", |fixture| fixture.withheld.len() == 1).await;
    assert!(fixture.elapsed() < secs(1));
    fixture.pass(secs(100)).await;
    assert_eq!((fixture.withheld.len(), fixture.absent, fixture.state()), (1, 0, SourceState::Forbidden));
    fixture.server.heal();
    let restored = fixture.elapsed();
    fixture.live().await;
    assert!(fixture.elapsed() - restored <= secs(31), "{:?}", fixture.elapsed() - restored);
    assert_eq!(fixture.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn forbidden_required_kind_is_withheld_and_recovers() {
    let server = ApiServer::new(&[PODS]);
    server.put("pods", pod("a", "10.0.0.1"));
    server.answer("pods", None, usize::MAX, Answer::Status(403, "no list"));
    let mut fixture = Fixture::over(server, POD_KIND, timing());
    fixture.pass(secs(100)).await;
    assert_eq!((fixture.withheld.len(), fixture.listed, fixture.state()), (1, 0, SourceState::Forbidden));
    fixture.server.heal();
    fixture.live().await;
    assert_eq!(fixture.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn failing_optional_kind_delays_nothing() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.answer(
        "/things",
        Some(Verb::Watch),
        usize::MAX,
        Answer::Status(500, "conversion webhook"),
    );
    fixture.until("withheld", |fixture| fixture.withheld.len() == 1).await;
    assert!(fixture.elapsed() < secs(10), "{:?}", fixture.elapsed());
    assert_eq!((fixture.state(), fixture.absent), (SourceState::Unreachable, 0));
}

fn causes(fixture: &Fixture) -> Vec<WithheldCause> {
    fixture.withheld.iter().map(|withheld| withheld.cause).collect()
}

#[tokio::test(start_paused = true)]
async fn kind_forbidden_while_watched_is_withheld_until_the_right_returns() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.server.answer("pods", Some(Verb::Probe), usize::MAX, Answer::Status(403, "no list"));
    fixture.until("withheld", |fixture| !fixture.withheld.is_empty()).await;
    assert!(fixture.withheld[0].why.contains("no list"), "{:?}", fixture.withheld);
    fixture.pass(secs(300)).await;
    assert_eq!((causes(&fixture), fixture.resumed), (vec![WithheldCause::Forbidden], 0), "reported once");
    fixture.server.heal();
    fixture.until("resumed", |fixture| fixture.resumed == 1).await;
    assert_eq!((fixture.listed, fixture.names()), (1, vec!["a"]), "the watch continued without another list");
}

#[tokio::test(start_paused = true)]
async fn watch_refused_when_it_is_opened_again_resumes_without_a_list() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.pass(secs(2)).await;
    fixture.server.answer("pods", None, usize::MAX, Answer::Status(403, "no list"));
    fixture.server.end("pods");
    fixture.until("withheld", |fixture| !fixture.withheld.is_empty()).await;
    fixture.server.heal();
    fixture.until("resumed", |fixture| fixture.resumed == 1).await;
    assert_eq!(fixture.listed, 1);
}

#[tokio::test(start_paused = true)]
async fn kind_failing_thrice_while_watched_is_withheld_and_resumes() {
    let mut fixture = Fixture::pods(&["a"]);
    fixture.live().await;
    fixture.server.answer("pods", Some(Verb::Probe), 2, Answer::Status(500, "webhook"));
    fixture.pass(secs(300)).await;
    assert_eq!(causes(&fixture), [], "two failures are too few");
    fixture.server.answer("pods", Some(Verb::Probe), 3, Answer::Status(500, "webhook"));
    fixture.until("resumed", |fixture| fixture.resumed == 1).await;
    assert_eq!((causes(&fixture), fixture.listed), (vec![WithheldCause::Failing], 1));
}

#[tokio::test(start_paused = true)]
async fn one_answer_does_not_uninstall_a_held_kind() {
    let mut fixture = things(&[PODS, THINGS]);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.live().await;
    fixture.pass(secs(5)).await;
    fixture.server.uninstall("things");
    fixture.server.end("things");
    fixture.until("withheld", |fixture| !fixture.withheld.is_empty()).await;
    fixture.pass(secs(20)).await;
    assert_eq!((fixture.absent, fixture.names()), (0, vec!["a"]));
    fixture.server.install(THINGS);
    fixture.server.put("things", pod("a", "10.0.0.1"));
    fixture.live().await;
    fixture.pass(secs(60)).await;
    assert_eq!((fixture.absent, fixture.names()), (0, vec!["a"]));
}

#[tokio::test(start_paused = true)]
async fn second_equal_answer_uninstalls_a_held_kind() {
    let mut fixture = things(&[PODS]);
    fixture.hold();
    fixture.pass(secs(29)).await;
    assert_eq!((fixture.absent, causes(&fixture)), (0, vec![WithheldCause::Failing]));
    fixture.until("absent", |fixture| fixture.absent == 1).await;
    assert!(fixture.elapsed() >= secs(30), "{:?}", fixture.elapsed());
    assert_eq!(fixture.state(), SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn failed_discovery_between_two_answers_restarts_the_proof() {
    let mut fixture = things(&[PODS]);
    fixture.hold();
    fixture.pass(secs(15)).await;
    fixture.server.answer("/apis", None, 1, Answer::Status(503, "down"));
    fixture.pass(secs(40)).await;
    assert_eq!(fixture.absent, 0, "the answer after the failure counts as the first");
    fixture.until("absent", |fixture| fixture.absent == 1).await;
}
