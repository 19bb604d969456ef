//! Discovered namespaces, partitions and peers: each is its own scope, and a list alone removes none.

use std::time::{Duration, Instant};

use tributary_conformance::tamper::Crash;
use tributary_conformance::{Stage, served};
use tributary_consul::config::{Datacenters, Discover};
use tributary_model::Hostname;

use crate::fake::{Alteration, Fake, mk_entries, mk_entry};
use crate::stage::{detail, eventually, mk_config, open, open_holding, until_served};

/// Waits until a host is served at 10.`net`.0.1, or not at all.
async fn until_host(stage: &Stage, host: &str, net: Option<u8>) {
    let (name, want) = (Hostname::new(host).unwrap(), net.map(|net| format!("10.{net}.0.1")));
    let is = |catalog: &tributary_model::Catalog| {
        let found = served(catalog).remove(&name).unwrap_or_default();
        found.iter().map(ToString::to_string).collect::<Vec<_>>() == want.iter().cloned().collect::<Vec<_>>()
    };
    stage.until(&format!("{host} at {want:?}"), is).await;
}

async fn scopes(stage: &Stage) -> Vec<String> {
    let sources = stage.handle.inspect(|core| core.status().remove(0).sources).await.unwrap();
    sources.keys().map(ToString::to_string).collect()
}

async fn with_shop() -> (Fake, Stage) {
    let fake = Fake::start(&["dc1"]).await;
    fake.list("namespaces", &["default", "shop"]);
    for (scope, net) in [("dc1//default", 1), ("dc1//shop", 2)] {
        fake.add(scope);
        fake.set(scope, "web", mk_entries("web", net, 1..=1));
    }
    let mut config = mk_config(&[&fake.url]);
    config.discover = Discover { namespaces: true, ..Discover::default() };
    let stage = open_holding(config, &["dc1//shop"]).await;
    until_host(&stage, "web.service.consul", Some(1)).await;
    until_host(&stage, SHOP, Some(2)).await;
    (fake, stage)
}
const SHOP: &str = "web.service.shop.ns.consul";

#[tokio::test(flavor = "multi_thread")]
async fn later_scope_takes_its_share_of_the_long_polls() {
    let fake = Fake::start(&["dc1"]).await;
    for service in 0..30_u8 {
        let name = format!("s{service}");
        fake.set("dc1", &name, mk_entries(&name, service, 1..=1));
    }
    let mut config = mk_config(&[&fake.url]);
    (config.limits.connections, config.limits.concurrency) = (46, 4);
    config.datacenters = Datacenters::All;
    let stage = open(config).await;
    stage.until_live().await;
    let polled = async |want: &str| {
        eventually("the share is used", async || detail(&stage, "dc1", "polled").await == want).await;
    };
    polled("30").await;
    fake.add("dc2");
    polled("12").await;
    fake.set("dc1", "s29", mk_entries("s29", 29, 2..=2));
    until_served(&stage, "s29", &["10.29.0.2"]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_namespaces_and_peers_are_discovered_as_scopes() {
    let fake = Fake::start(&["dc1"]).await;
    fake.list("partitions", &["default", "eu"]);
    fake.list("namespaces", &["shop"]);
    fake.list("peerings", &["east"]);
    for (scope, net) in [("dc1/default/shop", 1), ("dc1/eu/shop", 2), ("dc1/default/shop@east", 3)] {
        fake.add(scope);
        fake.set(scope, "web", mk_entries("web", net, 1..=1));
    }
    fake.add("dc1/eu/shop@east");
    let mut config = mk_config(&[&fake.url]);
    config.discover = Discover { partitions: true, namespaces: true, peers: true };
    let stage = open(config).await;
    stage.until_live().await;
    until_host(&stage, "web.service.shop.ns.consul", Some(1)).await;
    until_host(&stage, "web.service.shop.ns.eu.ap.consul", Some(2)).await;
    until_host(&stage, "web.service.shop.ns.east.peer.consul", Some(3)).await;
    let want = [
        "(datacenters)",
        "(dc1)",
        "dc1/default/shop",
        "dc1/default/shop@east",
        "dc1/eu/shop",
        "dc1/eu/shop@east",
    ];
    eventually("each is a scope of its own", async || scopes(&stage).await == want).await;
    eventually("partitions are shown", async || detail(&stage, "(dc1)", "partitions").await == "default, eu")
        .await;
    fake.list("namespaces", &["shop", "new"]);
    fake.add("dc1/eu/new");
    fake.set("dc1/eu/new", "web", mk_entries("web", 4, 1..=1));
    until_host(&stage, "web.service.new.ns.eu.ap.consul", Some(4)).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_and_short_lists_remove_no_scope() {
    let (fake, stage) = with_shop().await;
    let alterations = [
        ("an error", Alteration::Status(500, "No cluster leader")),
        ("a refusal", Alteration::Status(403, "Permission denied")),
        ("no such list", Alteration::Status(404, "not a recognized endpoint")),
        ("a page", Alteration::Body("text/html", b"[]".to_vec())),
        ("nothing at all", Alteration::Body("application/json", b"[]".to_vec())),
        ("a server without a leader", Alteration::Header("x-consul-knownleader", "false")),
        ("a filter", Alteration::Header("x-consul-results-filtered-by-acls", "true")),
    ];
    // only the list keeps "not found" from meaning "no names"; no poll may come before it is changed
    fake.alter("/v1/namespaces", usize::MAX, Alteration::Status(500, "No cluster leader"));
    fake.list("namespaces", &["default"]);
    fake.change(|state| state.datacenters.get_mut("dc1//shop").unwrap().nameless = true);
    for (what, alteration) in alterations {
        fake.change(|state| {
            state.rules.clear();
            state.rules.push(crate::fake::Rule {
                path: "/v1/namespaces",
                spares_leader: false,
                left: usize::MAX,
                alteration,
            });
        });
        fake.until_requested("/v1/namespaces", 4).await;
        let found = served(&stage.handle.catalog());
        assert!(found.contains_key(&Hostname::new(SHOP).unwrap()), "{what} took the namespace away");
    }
    fake.change(|state| drop(state.datacenters.remove("dc1//shop")));
    fake.heal();
    until_host(&stage, SHOP, None).await;
    stage.drop_now().await;
}

/// Starts another run, and waits until it follows the listed namespace.
async fn begin_again(fake: &Fake, stage: &Stage) {
    let before = stage.run_generation();
    stage.crash(Crash::Error);
    eventually("another run", async || stage.run_generation() > before).await;
    fake.set("dc1//shop", "web", mk_entries("web", 8, 1..=1));
    until_host(stage, SHOP, Some(8)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_run_follows_unlisted_scopes() {
    let alterations = [
        ("a filter", Alteration::Header("x-consul-results-filtered-by-acls", "true")),
        ("nothing", Alteration::Header("x-consul-knownleader", "true")),
        ("a refusal", Alteration::Status(403, "Permission denied")),
        ("no such list", Alteration::Status(404, "not a recognized endpoint")),
    ];
    for (what, alteration) in alterations {
        let (fake, stage) = with_shop().await;
        stage.until_live().await;
        fake.list("namespaces", &["default"]);
        fake.alter("/v1/namespaces", usize::MAX, alteration);
        begin_again(&fake, &stage).await;
        fake.until_requested("/v1/namespaces", 4).await;
        let found = served(&stage.handle.catalog());
        assert!(found.contains_key(&Hostname::new(SHOP).unwrap()), "{what} took the namespace away");
        stage.drop_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_run_follows_an_unlisted_datacenter() {
    let fake = Fake::start(&["dc1", "dc2"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    fake.set("dc2", "web", mk_entries("web", 2, 1..=1));
    let mut config = mk_config(&[&fake.url]);
    config.datacenters = Datacenters::All;
    let stage = open_holding(config, &["dc2"]).await;
    let far = "web.service.dc2.dc.consul";
    until_host(&stage, far, Some(2)).await;
    stage.until_live().await;
    let listed = Alteration::Body("application/json", br#"["dc1"]"#.to_vec());
    fake.alter("/v1/catalog/datacenters", usize::MAX, listed);
    let before = stage.run_generation();
    stage.crash(Crash::Error);
    eventually("another run", async || stage.run_generation() > before).await;
    fake.set("dc2", "web", mk_entries("web", 7, 1..=1));
    until_host(&stage, far, Some(7)).await;
    let reason = async || {
        let of = |core: &tributary_core::Core| {
            let sources = core.status().remove(0).sources;
            let source = sources.into_iter().find(|(scope, _)| scope.as_str() == "dc2");
            source.map(|(_, view)| view.status.reason.to_string()).unwrap_or_default()
        };
        stage.handle.inspect(of).await.unwrap()
    };
    eventually("it is shown", async || reason().await.starts_with("not listed")).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_peer_leader_without_names_removes_nothing() {
    let fake = Fake::start(&["dc1"]).await;
    fake.add("dc1@east");
    fake.set("dc1@east", "web", mk_entries("web", 3, 1..=1));
    let mut config = mk_config(&[&fake.url]);
    config.peers = vec!["east".to_owned()];
    let stage = open_holding(config, &["dc1@east"]).await;
    let host = "web.service.east.peer.consul";
    until_host(&stage, host, Some(3)).await;
    let none = || Alteration::Body("application/json", br#"{"StreamStatus": {}}"#.to_vec());
    fake.alter("/v1/peering/east", usize::MAX, none());
    fake.until_requested("/v1/peering/east", 4).await;
    until_host(&stage, host, Some(3)).await;
    fake.set("dc1@east", "web", mk_entries("web", 4, 1..=1));
    until_host(&stage, host, Some(4)).await;
    let before = stage.run_generation();
    stage.crash(Crash::Error);
    eventually("another run", async || stage.run_generation() > before).await;
    fake.until_requested("/v1/peering/east", 4).await;
    until_host(&stage, host, Some(4)).await;
    fake.heal();
    fake.set("dc1@east", "web", mk_entries("web", 5, 1..=1));
    until_host(&stage, host, Some(5)).await;
    fake.set("dc1@east", "web", Vec::new());
    until_host(&stage, host, None).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_scope_ends_after_its_services() {
    let (fake, stage) = with_shop().await;
    fake.list("namespaces", &["default"]);
    fake.until_requested("/v1/namespaces", 6).await;
    until_host(&stage, SHOP, Some(2)).await;
    fake.change(|state| drop(state.datacenters.remove("dc1//shop")));
    until_host(&stage, SHOP, None).await;
    eventually("its requests end", async || {
        fake.take_seen();
        tokio::time::sleep(Duration::from_millis(300)).await;
        fake.take_seen().iter().all(|seen| seen.query.get("ns").is_none_or(|ns| ns != "shop"))
    })
    .await;
    until_host(&stage, "web.service.consul", Some(1)).await;
    fake.add("dc1//shop");
    fake.set("dc1//shop", "web", mk_entries("web", 9, 1..=1));
    fake.list("namespaces", &["default", "shop"]);
    until_host(&stage, SHOP, Some(9)).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_peer_ends_only_if_unlisted() {
    let fake = Fake::start(&["dc1"]).await;
    fake.list("peerings", &["east"]);
    fake.add("dc1@east");
    fake.set("dc1@east", "web", mk_entries("web", 3, 1..=1));
    let mut config = mk_config(&[&fake.url]);
    config.discover = Discover { peers: true, ..Discover::default() };
    let stage = open(config).await;
    let host = "web.service.east.peer.consul";
    until_host(&stage, host, Some(3)).await;
    // the index of a peering does not move when it imports another service
    fake.set("dc1@east", "more", mk_entries("more", 4, 1..=1));
    until_host(&stage, "more.service.east.peer.consul", Some(4)).await;
    fake.alter("/v1/peering/east", usize::MAX, Alteration::Status(404, "Peering not found"));
    fake.until_requested("/v1/peering/east", 3).await;
    until_host(&stage, host, Some(3)).await;
    fake.list("peerings", &[]);
    fake.until_requested("/v1/peering/east", 6).await;
    until_host(&stage, host, Some(3)).await;
    fake.change(|state| drop(state.datacenters.remove("dc1@east")));
    until_host(&stage, host, None).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consul_without_namespaces_follows_and_shows_the_default() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    let mut config = mk_config(&[&fake.url]);
    config.discover = Discover { partitions: true, namespaces: true, peers: false };
    let stage = open(config).await;
    until_served(&stage, "web", &["10.1.0.1"]).await;
    stage.until_live().await;
    eventually("it is shown", async || {
        detail(&stage, "(dc1)", "not in this Consul").await == "partitions, namespaces"
    })
    .await;
    let began = Instant::now();
    fake.until_requested("/v1/namespaces", 5).await;
    let least = 4 * mk_config(&[&fake.url]).timing.poll;
    assert!(began.elapsed() >= least, "five times within {:?}: a loop", began.elapsed());
    stage.drop_now().await;
}

/// An agent translates only addresses of other datacenters than its own, whatever its header promises.
#[tokio::test(flavor = "multi_thread")]
async fn directly_read_datacenter_is_not_taken_for_translated() {
    let (here, there) = (Fake::start(&["dc1"]).await, Fake::start(&["dc2"]).await);
    here.set("dc1", "web", mk_entries("web", 1, 1..=1));
    let mut entry = mk_entry("web", "10.2.0.1");
    entry["Service"]["TaggedAddresses"] = serde_json::json!({"wan": {"Address": "10.9.0.1", "Port": 80}});
    there.set("dc2", "web", vec![entry]);
    there.alter("/v1/", usize::MAX, Alteration::Header("x-consul-translate-addresses", "true"));
    let mut config = mk_config(&[&here.url]);
    config.datacenters = Datacenters::Listed(vec!["dc1".to_owned(), "dc2".to_owned()]);
    config.datacenter_addresses = [("dc2".to_owned(), vec![there.url.parse().unwrap()])].into();
    let stage = open(config).await;
    until_host(&stage, "web.service.dc2.dc.consul", Some(9)).await;
    stage.drop_now().await;
}
