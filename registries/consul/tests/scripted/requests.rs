//! Requests to Consul: their number, target and content, and what is never sent.

use std::time::{Duration, Instant};

use tributary_consul::config::{Datacenters, TokenSource};

use crate::fake::{Alteration, Fake, Seen, mk_entries, mk_entry};
use crate::stage::{
    addresses, detail, eventually, following, for_each, mk_config, open, set_poll_budget, until_served,
};

const FOUR: [&str; 4] = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];

async fn settle() {
    tokio::time::sleep(Duration::from_millis(400)).await;
}

/// Waits until no counted request arrives, so that later ones have a known cause.
async fn quiet(fake: &Fake, counts: impl Fn(&Seen) -> bool) {
    eventually("no request arrives", async || {
        fake.take_seen();
        settle().await;
        settle().await;
        !fake.take_seen().iter().any(&counts)
    })
    .await;
}

fn of_services(seen: &[Seen]) -> usize {
    seen.iter().filter(|seen| seen.path.starts_with("/v1/health/service/")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_carry_no_hiding_reordering_or_leaking_parameter() {
    let fake = Fake::start(&["dc1", "dc2"]).await;
    fake.know("hunter2", "me");
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    let mut config = mk_config(&[&fake.url]);
    config.auth.token = TokenSource::Value("hunter2".into());
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    settle().await;
    let seen = fake.take_seen();
    assert!(seen.iter().all(|seen| seen.token.as_deref() == Some("hunter2")));
    for seen in &seen {
        for never in ["near", "passing", "token", "cached", "consistent", "ns", "partition", "peer", "dc"] {
            assert!(!seen.query.contains_key(never), "{seen:?} has {never}");
        }
    }
    let firsts = seen.iter().filter(|seen| seen.path.ends_with("/web"));
    let indexes: Vec<bool> = firsts.map(|seen| seen.query.contains_key("index")).collect();
    assert!(
        !indexes[0] && indexes[1..].iter().all(|has| *has),
        "only the first read has no index: {indexes:?}"
    );
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_name_can_be_followed() {
    let fake = Fake::start(&["dc1"]).await;
    let odd = "a/b #c?d%2f \u{fc}";
    fake.set("dc1", odd, mk_entries(odd, 1, 1..=2));
    let stage = following(&fake).await;
    let host = |catalog: &tributary_model::Catalog| {
        catalog.services().any(|view| view.key.host.as_str().starts_with("a_2fb_20_23c_3fd_252f_20"))
    };
    stage.until("the odd name is served", host).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_change_costs_at_most_three_requests() {
    for_each([30, 10, 0], |polls| async move {
        let fake = Fake::start(&["dc1"]).await;
        for service in 0..30_u8 {
            let name = format!("s{service}");
            fake.set("dc1", &name, mk_entries(&name, service, 1..=2));
        }
        let mut config = mk_config(&[&fake.url]);
        set_poll_budget(&mut config, polls, 1);
        (config.timing.wait, config.timing.full_pass) =
            (Duration::from_secs(600), Duration::from_secs(3_600));
        let stage = open(config).await;
        stage.until_live().await;
        // the first full pass is over
        quiet(&fake, |_| true).await;
        fake.flip("dc1", "s7", 0, "critical");
        eventually("the service is read", async || of_services(&fake.state.lock().seen) >= 1).await;
        settle().await;
        let seen = fake.take_seen();
        assert!((1..=3).contains(&seen.len()), "{polls} polls: {seen:#?}");
        stage.drop_now().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_service_is_not_watched() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.set("dc1", "other", mk_entries("other", 2, 1..=9));
    let stage = following(&fake).await;
    fake.set("dc1", "web", Vec::new());
    stage
        .until("web is gone", |catalog| {
            catalog.services().all(|view| view.key.host.as_str() != "web.service.consul")
        })
        .await;
    quiet(&fake, |seen| seen.path.ends_with("/web")).await;
    fake.set("dc1", "third", mk_entries("third", 3, 1..=1));
    until_served(&stage, "third", &["10.3.0.1"]).await;
    fake.set("dc1", "third", Vec::new());
    until_served(&stage, "third", &[]).await;
    settle().await;
    let seen = fake.take_seen();
    assert!(seen.iter().all(|seen| !seen.path.ends_with("/web")), "{seen:#?}");
    fake.set("dc1", "web", mk_entries("web", 1, 1..=2));
    until_served(&stage, "web", &FOUR[..2]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_scope_gets_one_probe_at_a_time() {
    let fake = Fake::start(&["dc1"]).await;
    for service in 0..40_u8 {
        let name = format!("s{service}");
        fake.set("dc1", &name, mk_entries(&name, service, 1..=2));
    }
    let stage = following(&fake).await;
    fake.change(|state| state.datacenters.get_mut("dc1").unwrap().fails = Some((500, "No cluster leader")));
    stage.until_stale().await;
    // requests that were under way when the names failed have been answered
    quiet(&fake, |seen| seen.path.starts_with("/v1/health/service/")).await;
    let began = Instant::now();
    fake.until_requested("/v1/catalog/services", 5).await;
    let seen = fake.take_seen();
    let most = 10.0 + 40.0 * began.elapsed().as_secs_f64();
    assert_eq!(of_services(&seen), 0, "{seen:#?}");
    assert!((seen.len() as f64) < most, "{} probes in {:?}", seen.len(), began.elapsed());
    fake.heal();
    stage.until_live().await;
    fake.set("dc1", "s3", mk_entries("s3", 3, 1..=5));
    until_served(&stage, "s3", &["10.3.0.1", "10.3.0.2", "10.3.0.3", "10.3.0.4", "10.3.0.5"]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_long_polls_lower_the_poll_budget() {
    let fake = Fake::start(&["dc1"]).await;
    for service in 0..20_u8 {
        let name = format!("s{service}");
        fake.set("dc1", &name, mk_entries(&name, service, 1..=2));
    }
    fake.change(|state| state.most_polls = Some(5));
    let stage = following(&fake).await;
    eventually("fewer services have a long poll", async || {
        detail(&stage, "dc1", "mode").await.contains("the server reported too many requests")
    })
    .await;
    fake.set("dc1", "s4", mk_entries("s4", 4, 1..=3));
    until_served(&stage, "s4", &["10.4.0.1", "10.4.0.2", "10.4.0.3"]).await;
    fake.set("dc1", "s5", mk_entries("s5", 5, 2..=2));
    until_served(&stage, "s5", &["10.5.0.2"]).await;
    // 20, 10, 5 and then 2 services, with the names and the checks, are the first that fit
    eventually("what fits is polled", async || {
        let shown = [detail(&stage, "dc1", "polled").await, detail(&stage, "dc1", "notified").await];
        shown == ["2", "18"] && fake.state.lock().polls == 4
    })
    .await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_beyond_the_connections_are_followed_by_notifications() {
    let fake = Fake::start(&["dc1"]).await;
    for service in 0..40_u8 {
        let name = format!("s{service}");
        fake.set("dc1", &name, mk_entries(&name, service, 1..=2));
    }
    let mut config = mk_config(&[&fake.url]);
    (config.limits.connections, config.limits.concurrency) = (20, 4);
    let stage = open(config).await;
    stage.until_live().await;
    eventually("it is shown", async || {
        detail(&stage, "dc1", "mode").await == "mixed: more services than connections allow"
    })
    .await;
    let shown = (detail(&stage, "dc1", "polled").await, detail(&stage, "dc1", "notified").await);
    assert_eq!(shown, ("10".to_owned(), "30".to_owned()));
    for (service, net) in [("s9", 9), ("s39", 39)] {
        fake.flip("dc1", service, 0, "critical");
        fake.set("dc1", service, mk_entries(service, net, 1..=4));
        let want: Vec<String> = (1..=4).map(|host| format!("10.{net}.0.{host}")).collect();
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        until_served(&stage, service, &want).await;
    }
    let most = fake.state.lock().most_at_once;
    assert!(most <= 18, "{most} requests at once");
    stage.drop_now().await;
}

/// The list of checks does not show an instance without checks; the full pass finds it.
#[tokio::test(flavor = "multi_thread")]
async fn change_without_a_check_is_found_soon() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    fake.set("dc1", "other", mk_entries("other", 2, 1..=9));
    let mut config = mk_config(&[&fake.url]);
    config.timing.full_pass = Duration::from_secs(3_600);
    set_poll_budget(&mut config, 0, 1);
    let stage = open(config).await;
    stage.until_live().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut entry = mk_entry("web", "10.1.0.7");
    entry["Checks"] = serde_json::json!([]);
    let mut entries = mk_entries("web", 1, 1..=1);
    entries.push(entry);
    fake.set("dc1", "web", entries);
    until_served(&stage, "web", &["10.1.0.1", "10.1.0.7"]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registry_identity_or_index_regression_forces_resync() {
    let (one, two) = (Fake::start(&["dc1"]).await, Fake::start(&["dc1"]).await);
    for fake in [&one, &two] {
        fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    }
    two.set("dc1", "web", mk_entries("web", 1, 1..=3));
    let stage = open(mk_config(&[&one.url, &two.url])).await;
    until_served(&stage, "web", &FOUR).await;
    assert!(two.take_seen().is_empty(), "the first address is used while it answers");
    one.change(|state| state.datacenters.get_mut("dc1").unwrap().fails = Some((500, "rpc error")));
    until_served(&stage, "web", &FOUR[..3]).await;
    let seen = two.take_seen();
    let web: Vec<_> = seen.iter().filter(|seen| seen.path.ends_with("/web")).collect();
    assert!(!web[0].query.contains_key("index"), "{web:#?}");
    eventually("the address is shown", async || detail(&stage, "dc1", "address").await == two.url).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_file_is_read_again_on_change_and_refusal() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.know("first", "me");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let mut config = mk_config(&[&fake.url]);
    config.auth.token = TokenSource::File(file.clone());
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    fake.change(|state| state.tokens = [("second".to_owned(), "me")].into());
    stage.until_stale().await;
    assert_eq!(addresses(&stage, "web"), FOUR, "a refused token takes nothing away");
    std::fs::write(&file, "second\n").unwrap();
    stage.until_live().await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=3));
    until_served(&stage, "web", &FOUR[..3]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_token_file_is_shown_and_its_token_stays_in_use() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.know("first", "me");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("token");
    std::fs::write(&file, "first").unwrap();
    let mut config = mk_config(&[&fake.url]);
    config.auth.token = TokenSource::File(file.clone());
    let stage = open(config).await;
    stage.until_live().await;
    std::fs::remove_file(&file).unwrap();
    let reason = async || {
        let find = |core: &tributary_core::Core| {
            let all = core.status().remove(0).sources;
            all.into_iter().find(|(scope, _)| scope.as_str() == "dc1").map(|(_, view)| view.status)
        };
        stage.handle.inspect(find).await.unwrap().unwrap().reason.to_string()
    };
    eventually("the file is missed", async || reason().await.contains("cannot be read")).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=3));
    until_served(&stage, "web", &FOUR[..3]).await;
    std::fs::write(&file, "first").unwrap();
    eventually("nothing is wrong", async || reason().await.is_empty()).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_is_not_followed() {
    let (fake, other) = (Fake::start(&["dc1"]).await, Fake::start(&["dc1"]).await);
    fake.know("hunter2", "me");
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    other.set("dc1", "web", mk_entries("web", 9, 1..=4));
    let mut config = mk_config(&[&fake.url]);
    config.auth.token = TokenSource::Value("hunter2".into());
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    fake.alter("/v1/", usize::MAX, Alteration::Redirect(format!("{}/v1/catalog/services", other.url)));
    fake.set("dc1", "web", mk_entries("web", 1, 1..=2));
    stage.until_stale().await;
    assert_eq!(addresses(&stage, "web"), FOUR);
    assert!(other.take_seen().is_empty(), "the token was sent to another server");
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn always_filtered_token_is_shown_and_trusted_while_unchanged() {
    let fake = Fake::start(&["dc1"]).await;
    fake.know("least", "me");
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.alter("/v1/", usize::MAX, Alteration::Header("x-consul-results-filtered-by-acls", "true"));
    let mut config = mk_config(&[&fake.url]);
    config.auth.token = TokenSource::Value("least".into());
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    eventually("the view is shown", async || detail(&stage, "dc1", "ACL view").await == "filtered by ACLs")
        .await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    until_served(&stage, "web", &FOUR[..1]).await;
    fake.know("least", "me with fewer policies");
    fake.set("dc1", "web", mk_entries("web", 1, 2..=2));
    until_served(&stage, "web", &FOUR[..2]).await;
    settle().await;
    assert_eq!(addresses(&stage, "web"), FOUR[..2], "a changed token removes nothing");
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removals_apply_under_default_deny_with_the_agents_token() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.alter("/v1/", usize::MAX, Alteration::Header("x-consul-default-acl-policy", "deny"));
    fake.change(|state| state.agent_token = Some("agent"));
    let stage = following(&fake).await;
    until_served(&stage, "web", &FOUR).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    until_served(&stage, "web", &FOUR[..1]).await;
    fake.change(|state| state.agent_token = None);
    fake.set("dc1", "web", mk_entries("web", 1, 2..=2));
    until_served(&stage, "web", &FOUR[..2]).await;
    settle().await;
    assert_eq!(addresses(&stage, "web"), FOUR[..2], "an anonymous view removes nothing");
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn token_goes_only_to_the_addresses_that_it_was_given_for() {
    let (one, two) = (Fake::start(&["dc1"]).await, Fake::start(&["dc1"]).await);
    for fake in [&one, &two] {
        fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    }
    let mut config = mk_config(&[&one.url, &two.url]);
    config.auth.token = TokenSource::Value("hunter2".into());
    config.auth.token_addresses = Some(vec![one.url.parse().unwrap()]);
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    assert!(one.take_seen().iter().all(|seen| seen.token.as_deref() == Some("hunter2")));
    one.change(|state| state.datacenters.get_mut("dc1").unwrap().fails = Some((500, "rpc error")));
    two.until_requested("/v1/health/service/web", 1).await;
    assert!(two.take_seen().iter().all(|seen| seen.token.is_none()), "the token went to another agent");
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_a_datacenter_get_the_token() {
    let (here, there) = (Fake::start(&["dc1"]).await, Fake::start(&["dc2"]).await);
    for fake in [&here, &there] {
        fake.know("hunter2", "me");
    }
    here.set("dc1", "web", mk_entries("web", 1, 1..=4));
    there.set("dc2", "web", mk_entries("web", 2, 1..=1));
    let mut config = mk_config(&[&here.url]);
    config.auth.token = TokenSource::Value("hunter2".into());
    config.datacenters = Datacenters::Listed(vec!["dc1".to_owned(), "dc2".to_owned()]);
    config.datacenter_addresses = [("dc2".to_owned(), vec![there.url.parse().unwrap()])].into();
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    there.until_requested("/v1/health/service/web", 1).await;
    stage.until_live().await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_list_of_checks_is_shown_and_replaced_by_reads() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    fake.alter("/v1/health/state/any", usize::MAX, Alteration::Body("text/html", b"<html>".to_vec()));
    let mut config = mk_config(&[&fake.url]);
    config.timing.full_pass = Duration::from_secs(3_600);
    set_poll_budget(&mut config, 0, 1);
    config.timing.pause_config = Duration::from_secs(300);
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    eventually("it is shown", async || {
        detail(&stage, "dc1", "mode").await.contains("the list of checks cannot be read")
    })
    .await;
    fake.flip("dc1", "web", 0, "critical");
    let healthy = |catalog: &tributary_model::Catalog| {
        let views = catalog.services().filter(|view| view.key.host.as_str() == "web.service.consul");
        let sources =
            views.flat_map(|view| view.ports.iter().flat_map(|p| p.endpoints.inputs.sources.iter()));
        let all = sources.flat_map(|s| s.group.addresses.iter().map(|a| a.health));
        all.filter(|health| *health == tributary_model::Health::Healthy).count()
    };
    stage.until("one is unhealthy", |catalog| healthy(catalog) == 3).await;
    stage.drop_now().await;
}
