//! Trust in answers, with a real core: only confirmed absences are removed, and true answers are served.

use std::time::{Duration, Instant};

use serde_json::json;
use tributary_conformance::Stage;
use tributary_model::Protocol;

use crate::fake::{Alteration, Fake, mk_entries, mk_entry};
use crate::serve::bomb;
use crate::stage::{
    addresses, detail, eventually, following, for_each, held, mk_config, open, reason, until_served,
};

const WEB: &str = "/v1/health/service/web";
const FOUR: [&str; 4] = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];

async fn with_web() -> (Fake, Stage) {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.set("dc1", "other", mk_entries("other", 2, 1..=30));
    let stage = following(&fake).await;
    until_served(&stage, "web", &FOUR).await;
    fake.take_seen();
    (fake, stage)
}

/// Waits until the effect of an answer has reached the core; an effect that must not occur gives no other signal.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// Headers that show an incomplete or old answer.
const DOUBTS: [(&str, &str); 5] = [
    ("x-consul-knownleader", "false"),
    ("x-consul-lastcontact", "10001"),
    ("age", "3"),
    ("x-consul-results-filtered-by-acls", "true"),
    ("x-consul-default-acl-policy", "deny"),
];

#[tokio::test(flavor = "multi_thread")]
async fn doubtful_answer_removes_nothing_until_a_clear_one() {
    for_each(DOUBTS, |(name, value)| async move {
        let (fake, stage) = with_web().await;
        fake.alter(WEB, usize::MAX, Alteration::Header(name, value));
        let mut entries = mk_entries("web", 1, 2..=4);
        entries.push(mk_entry("web", "10.1.0.9"));
        fake.set("dc1", "web", entries);
        let with_new = [FOUR.as_slice(), &["10.1.0.9"]].concat();
        until_served(&stage, "web", &with_new).await;
        fake.until_requested(WEB, 2).await;
        settle().await;
        // its short and its full host
        assert_eq!((addresses(&stage, "web").len(), held(&stage).await), (5, 2), "{name}: {value}");
        fake.heal();
        until_served(&stage, "web", &with_new[1..]).await;
        eventually(&format!("{name}: {value}: nothing is held"), async || held(&stage).await == 0).await;
        stage.drop_now().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_settles_doubtful_answers() {
    let stale = [("x-consul-knownleader", "false"), ("x-consul-lastcontact", "10001"), ("age", "3")];
    for_each(stale, |(name, value)| async move {
        let (fake, stage) = with_web().await;
        fake.alter_stale(WEB, Alteration::Header(name, value));
        fake.set("dc1", "web", mk_entries("web", 1, 2..=4));
        until_served(&stage, "web", &FOUR[1..]).await;
        assert!(fake.take_seen().iter().any(crate::fake::Seen::reads_leader), "{name}: {value}");
        stage.drop_now().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_answer_removes_nothing() {
    let alterations: [(&str, Alteration); 9] = [
        ("no index", Alteration::NoIndex),
        ("a web page", Alteration::Body("text/html", b"<html>log in</html>".to_vec())),
        ("an empty list of another kind", Alteration::Body("text/html", b"[]".to_vec())),
        ("half an answer", Alteration::Truncated),
        ("null", Alteration::Body("application/json", b"null".to_vec())),
        ("a redirect", Alteration::Redirect("http://192.0.2.1/".to_owned())),
        ("no leader", Alteration::Status(500, "No cluster leader")),
        ("a limit", Alteration::Status(503, "rate limit exceeded")),
        ("a bomb", Alteration::Bomb(bomb(80))),
    ];
    for_each(alterations, |(what, alteration)| async move {
        let (fake, stage) = with_web().await;
        fake.alter(WEB, usize::MAX, alteration);
        fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
        fake.until_requested(WEB, 3).await;
        settle().await;
        assert_eq!(addresses(&stage, "web"), FOUR, "{what}");
        fake.heal();
        until_served(&stage, "web", &FOUR[..1]).await;
        stage.drop_now().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_service_is_a_problem_and_delays_no_other() {
    let fake = Fake::start(&["dc1"]).await;
    for name in ["web", "other", ".."] {
        fake.set("dc1", name, mk_entries(name, 1, 1..=4));
    }
    fake.alter("/v1/health/service/other", usize::MAX, Alteration::Body("text/html", b"<html>".to_vec()));
    let stage = following(&fake).await;
    until_served(&stage, "web", &FOUR).await;
    let bad = stage
        .handle
        .inspect(|core| core.problems().map(|p| p.object.id.name.to_string()).collect::<Vec<_>>());
    assert_eq!(bad.await.unwrap(), ["..", "other"]);
    fake.heal();
    until_served(&stage, "other", &FOUR).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_scope_is_confirmed_repeatedly() {
    let (_fake, stage) = with_web().await;
    let confirmed = async || {
        let oldest = |core: &tributary_core::Core| {
            let registry = core.status().remove(0);
            registry.collections.iter().filter(|c| c.required).filter_map(|c| c.confirmed).min()
        };
        stage.handle.inspect(oldest).await.unwrap()
    };
    let first = confirmed().await;
    assert!(first.is_some());
    eventually("a later confirmation", async || confirmed().await > first).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_body_times_out_and_removes_nothing() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    let mut config = mk_config(&[&fake.url]);
    (config.timing.wait, config.timing.grace) = (Duration::from_secs(1), Duration::from_secs(2));
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    fake.alter(WEB, usize::MAX, Alteration::Slow(Duration::from_secs(600)));
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    eventually("it fails", async || detail(&stage, "dc1", "failing").await == "1").await;
    assert_eq!(addresses(&stage, "web"), FOUR);
    fake.heal();
    until_served(&stage, "web", &FOUR[..1]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn false_empty_list_is_held_then_released() {
    let (fake, stage) = with_web().await;
    fake.alter(WEB, 1, Alteration::Body("application/json", b"[]".to_vec()));
    fake.set("dc1", "web", mk_entries("web", 1, 1..=5));
    until_served(&stage, "web", &[FOUR.as_slice(), &["10.1.0.5"]].concat()).await;
    eventually("nothing is held", async || held(&stage).await == 0).await;
    stage.drop_now().await;
}

/// Index 0 counts as 1. A revoked token once got an index that goes back with an empty list.
#[tokio::test(flavor = "multi_thread")]
async fn consul_index_regression_resyncs_without_loss() {
    for_each([0, 1], |index| async move {
        let (fake, stage) = with_web().await;
        fake.alter_stale(WEB, Alteration::Index(index));
        fake.alter_stale(WEB, Alteration::Body("application/json", b"[]".to_vec()));
        let began = Instant::now();
        fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
        fake.until_requested(WEB, 3).await;
        settle().await;
        assert_eq!(addresses(&stage, "web"), FOUR, "index {index}");
        let (requests, most) = (fake.take_seen().len() as f64, 150.0 + 250.0 * began.elapsed().as_secs_f64());
        assert!(requests < most, "index {index}: {requests} requests, a busy loop");
        fake.heal();
        fake.set("dc1", "web", mk_entries("web", 1, 2..=4));
        until_served(&stage, "web", &FOUR[1..]).await;
        stage.drop_now().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_snapshot_is_followed_from_its_own_indexes() {
    let (fake, stage) = with_web().await;
    fake.restore();
    fake.until_requested(WEB, 2).await;
    settle().await;
    assert_eq!(addresses(&stage, "web"), FOUR);
    fake.set("dc1", "web", mk_entries("web", 1, 3..=5));
    until_served(&stage, "web", &["10.1.0.3", "10.1.0.4", "10.1.0.5"]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn false_mass_loss_is_held_and_true_mass_loss_applies() {
    let fake = Fake::start(&["dc1"]).await;
    for service in 0..10_u8 {
        let name = format!("s{service}");
        fake.set("dc1", &name, mk_entries(&name, service, 1..=10));
    }
    let stage = following(&fake).await;
    let one = |service: u8| json!([mk_entry(&format!("s{service}"), &format!("10.{service}.0.1"))]);
    for service in 0..10_u8 {
        let path: &'static str = Box::leak(format!("/v1/health/service/s{service}").into_boxed_str());
        fake.alter_stale(path, Alteration::Body("application/json", one(service).to_string().into_bytes()));
    }
    let again = |hosts: std::ops::RangeInclusive<u8>| {
        for service in 0..10_u8 {
            let name = format!("s{service}");
            fake.set("dc1", &name, mk_entries(&name, service, hosts.clone()));
        }
    };
    again(1..=10);
    let reads_leader = || fake.state.lock().seen.iter().any(crate::fake::Seen::reads_leader);
    eventually("the leader is read", async || reads_leader()).await;
    settle().await;
    let left: usize = (0..10).map(|service| addresses(&stage, &format!("s{service}")).len()).sum();
    assert!(left >= 70, "{left} of 100: any server may remove less than a third");
    again(1..=1);
    for service in 0..10_u8 {
        until_served(&stage, &format!("s{service}"), &[&format!("10.{service}.0.1")]).await;
    }
    eventually("nothing is held any more", async || held(&stage).await == 0).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_critical_instances_are_served_as_unhealthy() {
    let (fake, stage) = with_web().await;
    for at in 0..4 {
        fake.flip("dc1", "web", at, "critical");
    }
    let unhealthy = |catalog: &tributary_model::Catalog| {
        let view = catalog.services().find(|view| view.key.host.as_str() == "web.service.consul");
        let sources = view
            .into_iter()
            .flat_map(|view| view.ports.iter().flat_map(|p| p.endpoints.inputs.sources.iter()));
        let health: Vec<_> = sources.flat_map(|s| s.group.addresses.iter().map(|a| a.health)).collect();
        health.len() == 4 && health.iter().all(|health| *health == tributary_model::Health::Unhealthy)
    };
    stage.until("all are unhealthy", unhealthy).await;
    assert_eq!((addresses(&stage, "web").len(), held(&stage).await), (4, 0));
    stage.drop_now().await;
}

/// Format of Consul 1.22 and later: the service has no own port but several named ones.
#[tokio::test(flavor = "multi_thread")]
async fn named_ports_are_served_at_their_own_number() {
    let fake = Fake::start(&["dc1"]).await;
    let mut entry = mk_entry("web", "10.1.0.1");
    entry["Service"]["Port"] = json!(0);
    entry["Service"]["Ports"] = json!([
        {"Name": "http", "Port": 8080, "Default": true},
        {"Name": "grpc-admin", "Port": 9090},
    ]);
    fake.set("dc1", "web", vec![entry, mk_entry("web", "10.1.0.2")]);
    let stage = following(&fake).await;
    let served = |catalog: &tributary_model::Catalog| {
        let view = catalog.services().find(|view| view.key.host.as_str() == "web.service.consul");
        let port = |port: &tributary_model::PortView| {
            let sources = port.endpoints.inputs.sources.iter();
            let has = |s: &tributary_model::EndpointSource| {
                let addresses = s.group.addresses.iter();
                addresses
                    .filter(|a| s.ports.get(usize::from(a.port_set)).is_some_and(Option::is_some))
                    .count()
            };
            (port.number.get(), port.name.as_str().to_owned(), port.protocol, sources.map(has).sum())
        };
        view.into_iter()
            .flat_map(|view| view.ports.iter().map(port))
            .collect::<Vec<(u16, String, _, usize)>>()
    };
    let want = [
        (80, "default".to_owned(), Protocol::Tcp, 2),
        (8080, "default".to_owned(), Protocol::Tcp, 2),
        (9090, "grpc-admin".to_owned(), Protocol::Grpc, 1),
    ];
    stage.until("three ports", |catalog| served(catalog).len() == 3).await;
    assert_eq!(served(&stage.handle.catalog()), want, "instances of either kind serve the primary port");
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_quorum_is_shown() {
    let (fake, stage) = with_web().await;
    for doubt in [("x-consul-knownleader", "false"), ("x-consul-lastcontact", "60000")] {
        fake.alter("/v1/", usize::MAX, Alteration::Header(doubt.0, doubt.1));
        eventually(&format!("{doubt:?} is shown"), async || {
            reason(&stage, "dc1").await.starts_with("the servers have no leader")
        })
        .await;
        fake.heal();
        eventually("it ends", async || reason(&stage, "dc1").await.is_empty()).await;
    }
    stage.drop_now().await;
}
