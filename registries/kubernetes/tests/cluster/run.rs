//! One run: when it is synced, how it degrades, and its status.

use std::time::Duration;

use serde_json::json;
use tributary_kubernetes::Options;
use tributary_model::{ClusterId, Completeness, Namespace, SourceDetail, SourceState};
use tributary_scripted_api::{Answer, ApiServer, Verb};

use crate::fixture::{GATEWAYS, RunOf, factory_with, serve, service, slice};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn shop() -> ApiServer {
    let server = serve();
    for name in ["cart", "pay"] {
        server.put("services", service(name));
        server.put("endpointslices", slice(name, name, &["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]));
    }
    server
}

#[tokio::test(start_paused = true)]
async fn run_publishes_the_cluster_and_follows_it() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    assert_eq!((run.services(), run.addresses()), (vec!["cart".to_owned(), "pay".to_owned()], 4));
    assert!(run.is_synced(), "{:?}", run.synced);
    run.server.put("endpointslices", slice("pay", "pay", &["10.0.0.3".to_owned()]));
    run.until("one address fewer", |run| run.addresses() == 3).await;
    run.server.delete("services", "shop", "cart");
    run.until("cart is removed", |run| run.services() == ["pay"]).await;
    let details = run.status().details;
    assert!(details.contains(&SourceDetail::text("credential", "a script")), "{details:?}");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn collection_waits_for_all_kinds_that_it_joins() {
    let server = shop();
    server.answer("/pods", None, 1, Answer::Busy(secs(20)));
    let mut run = RunOf::start(&server);
    run.pass(secs(10)).await;
    assert!(run.synced.contains_key("cluster/Services"), "services do not join pods");
    assert!(!run.synced.contains_key("cluster/Groups") && run.addresses() == 0);
    assert_ne!(run.state(), SourceState::Live);
    run.live().await;
    assert_eq!(run.addresses(), 4);
}

/// The end of a list alone would make its collection live, although a watch that it joins is refused since.
#[tokio::test(start_paused = true)]
async fn list_that_ends_while_a_watch_is_refused_is_followed_by_the_status() {
    let server = shop();
    // more than one flush derives
    let one = |number| slice(&format!("pay-{number}"), "pay", &["10.0.0.1".to_owned()]);
    (0..1_200).for_each(|number| server.put("endpointslices", one(number)));
    server.answer("/pods", None, 1, Answer::Busy(secs(20)));
    let mut run = RunOf::start(&server);
    run.pass(secs(10)).await;
    server.answer("/endpointslices", Some(Verb::Watch), usize::MAX, Answer::Status(401, "no"));
    server.end("endpointslices");
    run.until("refused", |run| run.part("endpointslices") == SourceState::AuthFailed).await;
    server.put("endpointslices", slice("pay", "pay", &["10.0.0.9".to_owned()]));
    run.until("ended", |run| run.synced.contains_key("cluster/Groups")).await;
    assert_eq!(run.state(), SourceState::AuthFailed);
    assert!(run.statuses.len() > run.statuses_before_end, "the status comes last");
    assert!(!run.confirmed.contains_key("cluster/Groups"), "{:?}", run.confirmed);
    server.heal();
    run.live().await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn change_before_another_kinds_list_delays_nothing() {
    let server = shop();
    server.answer("/pods", None, 1, Answer::Busy(secs(20)));
    let mut run = RunOf::start(&server);
    run.pass(secs(5)).await;
    // marked, and not publishable before the pods have listed
    server.put("endpointslices", slice("pay", "pay", &["10.0.0.3".to_owned()]));
    server.put("services", service("late"));
    // a run that waits for itself never rests, so that the paused clock stops; a thread's clock does not
    let (late, is_late) = tokio::sync::oneshot::channel();
    let (at_work, ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = ended.recv_timeout(secs(120));
        late.send(())
    });
    tokio::select! {
        () = run.live() => {}
        _ = is_late => panic!("the run waits for itself"),
    }
    drop(at_work);
    assert_eq!((run.services().len(), run.addresses()), (3, 3), "{:?}", run.services());
}

#[tokio::test(start_paused = true)]
async fn forbidden_required_kind_leaves_the_others_confirmed() {
    let server = shop();
    server.answer("/endpointslices", None, usize::MAX, Answer::Status(403, "no list"));
    let mut run = RunOf::start(&server);
    for _ in 0..12 {
        run.pass(secs(10)).await;
    }
    assert_eq!((run.state(), run.part("services")), (SourceState::Forbidden, SourceState::Live));
    assert!(run.status().reason.contains("endpointslices"), "{}", run.status().reason);
    assert!(!run.synced.contains_key("cluster/Groups"));
    let withheld: Vec<&String> = run.withheld.keys().collect();
    assert_eq!(withheld, ["cluster/Groups"], "only the facts of slices");
    assert!(run.withheld["cluster/Groups"].why.contains("no list"));
    assert!(run.confirmed["cluster/Services"] > 1, "{:?}", run.confirmed);
    assert!(!run.confirmed.contains_key("cluster/Groups"), "{:?}", run.confirmed);
    run.server.delete("services", "shop", "cart");
    run.until("cart is removed", |run| run.services() == ["pay"]).await;
    server.heal();
    run.live().await;
    assert!(run.is_synced() && run.addresses() == 4);
}

#[tokio::test(start_paused = true)]
async fn forbidden_optional_kind_degrades_alone_and_recovers() {
    let server = shop();
    server.install(GATEWAYS);
    server.answer("/gateways", None, usize::MAX, Answer::Status(403, "no list"));
    let mut run = RunOf::start(&server);
    run.live().await;
    assert_eq!(run.part("gateways"), SourceState::Forbidden);
    assert_eq!(run.withheld.keys().collect::<Vec<_>>(), ["gateways/Gateways"], "withheld, not removed");
    assert_eq!(run.synced["cluster/Groups"], Completeness::Complete);
    assert!(run.status().reason.contains("gateways"), "the reason names it: {}", run.status().reason);
    assert_eq!(run.beside["gateways"].state, SourceState::Live, "the source itself is live");
    server.heal();
    run.until("restored", |run| run.part("gateways") == SourceState::Live).await;
    assert_eq!(&*run.status().reason, "");
    assert_eq!(run.synced["gateways/Gateways"], Completeness::Complete);
    assert!(run.withheld.is_empty() && run.dropped.is_empty());
}

#[tokio::test(start_paused = true)]
async fn lost_credential_shows_within_a_minute_and_removes_nothing() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    run.pass(secs(45)).await;
    let before = run.statuses.len();
    run.server.answer("", Some(Verb::Probe), usize::MAX, Answer::Status(401, "revoked"));
    run.pass(secs(60)).await;
    assert!(run.statuses.len() > before && run.state() == SourceState::AuthFailed, "{:?}", run.status());
    let progress = run.progress;
    run.pass(secs(130)).await;
    assert_eq!(run.progress, progress, "bookmarks do not compensate for a lost credential");
    assert_eq!((run.services().len(), run.addresses()), (2, 4));
    run.server.put("services", service("late"));
    run.until("late", |run| run.services().len() == 3).await;
    assert_eq!(run.state(), SourceState::AuthFailed, "the watches still run");
    run.server.heal();
    run.live().await;
}

#[tokio::test(start_paused = true)]
async fn refused_credential_ends_no_run_and_is_retried() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    run.server.answer("", None, usize::MAX, Answer::Status(401, "revoked"));
    run.pass(secs(600)).await;
    assert!(!run.task.is_finished(), "the owner of the connection replaces the credential");
    assert_eq!((run.state(), run.services().len()), (SourceState::AuthFailed, 2));
    run.server.heal();
    run.live().await;
}

#[tokio::test(start_paused = true)]
async fn server_outage_changes_no_fact() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    let before = run.facts.clone();
    run.server.answer("", None, usize::MAX, Answer::Status(503, "down"));
    for plural in ["services", "endpointslices", "pods", "nodes", "namespaces"] {
        run.server.end(plural);
    }
    run.pass(secs(300)).await;
    assert_eq!((run.state(), &run.facts), (SourceState::Unreachable, &before));
    run.server.heal();
    let updates = run.updates;
    run.live().await;
    assert_eq!(run.facts, before);
    assert!(run.updates - updates < 40, "statuses and progress only: {}", run.updates - updates);
}

#[tokio::test(start_paused = true)]
async fn invalid_object_is_a_problem_and_keeps_its_last_version() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    let mut bad = service("pay");
    bad["spec"]["ports"] = json!([{"port": "eighty"}]);
    run.server.put("services", bad);
    run.until("reported", |run| run.problems.len() == 1).await;
    assert_eq!(run.services(), ["cart", "pay"]);
    run.server.put("services", service("pay"));
    run.until("resolved", |run| run.problems.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn lost_event_is_recovered_and_counted() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    run.server.delete_silently("endpointslices", "shop", "pay");
    run.until("recovered", |run| run.addresses() == 2).await;
    let details = run.status().details;
    assert!(details.contains(&SourceDetail::number("healed", 1)), "{details:?}");
}

#[tokio::test(start_paused = true)]
async fn quiet_cluster_is_confirmed_repeatedly() {
    let mut run = RunOf::start(&shop());
    run.live().await;
    let (before, progress, puts) = (run.statuses.len(), run.progress, run.facts.clone());
    run.pass(secs(60)).await;
    run.pass(secs(240)).await;
    assert_eq!((run.statuses.len(), &run.facts), (before, &puts), "{:?}", run.status());
    assert!(run.progress > progress, "bookmarks confirm every collection");
}

#[tokio::test(start_paused = true)]
async fn ended_run_leaves_no_watch_behind() {
    let server = shop();
    let mut run = RunOf::start(&server);
    run.live().await;
    assert!(server.watches() >= 5, "{}", server.watches());
    run.stop().await;
    tokio::time::sleep(secs(1)).await;
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn named_namespaces_need_no_other_namespace_and_no_node() {
    let server = shop();
    server.put("namespaces", json!({"metadata": {"name": "other"}}));
    server.answer("/nodes", None, usize::MAX, Answer::Status(403, "no list"));
    let mut options = Options::new(ClusterId::new("Kubernetes").unwrap()).unwrap();
    options.namespaces = vec![Namespace::new("shop").unwrap()];
    let mut run = RunOf::of(&server, &factory_with(&server, options));
    run.live().await;
    assert!(run.is_synced() && run.addresses() == 4, "{:?}", run.synced);
    let requests = server.requests();
    let namespaces: Vec<_> =
        requests.iter().filter(|request| request.path.ends_with("/namespaces")).collect();
    assert!(!namespaces.is_empty());
    for request in namespaces {
        assert!(request.query.contains_key("fieldSelector"), "{request:?}");
    }
}
