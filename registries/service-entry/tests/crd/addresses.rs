//! Addresses that are written into objects and return through the watch.

use serde_json::{Value, json};
use tokio::sync::watch;
use tributary_kube_client::{Leadership, LeaseTiming, ObjectName};
use tributary_registry_api::SplitMix;
use tributary_scripted_api::{Answer, ApiServer, Kind, Verb};
use tributary_service_entry::{Addresses, CrdOptions, Ranges};

use crate::fixture::{ENTRIES, Fixture, entry, kind, secs, server};

fn writing(server: ApiServer, ranges: Ranges) -> (Fixture, watch::Sender<bool>) {
    let (leading, leads) = watch::channel(true);
    let options = CrdOptions { addresses: Some(Addresses { ranges, leads }), ..CrdOptions::default() };
    (Fixture::new(server, &options), leading)
}

fn status(server: &ApiServer, name: &str) -> Value {
    server.get(ENTRIES, "shop", name).unwrap()["status"].clone()
}

fn writes(server: &ApiServer) -> usize {
    server.requests().iter().filter(|asked| asked.verb == Verb::Write).count()
}

#[tokio::test(start_paused = true)]
async fn addresses_go_to_the_status_and_return_by_the_watch() {
    let (mut fixture, _leading) = writing(server(), Ranges::default());
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    let mut with_status = entry("cart", "cart.example.com");
    with_status["status"] = json!({ "conditions": [] });
    fixture.server.put(ENTRIES, with_status);
    fixture.until("pay", |f| f.vips("pay.example.com") == "240.240.0.2* 2001:2::2*").await;
    assert_eq!(fixture.vips("cart.example.com"), "240.240.0.1* 2001:2::1*");
    assert_eq!(
        status(&fixture.server, "cart"),
        json!({ "conditions": [], "addresses": [
            { "value": "240.240.0.1", "host": "cart.example.com" },
            { "value": "2001:2::1", "host": "cart.example.com" },
        ] })
    );
    assert_eq!(writes(&fixture.server), 2);
    let paths = format!("{:?}", fixture.server.get(ENTRIES, "shop", "pay").unwrap()["spec"]);
    assert!(!paths.contains("240.240"), "nothing but the status is written");
    fixture.pass(secs(600)).await;
    assert_eq!(writes(&fixture.server), 0, "unchanged addresses are not written again");
}

#[tokio::test(start_paused = true)]
async fn only_a_leading_writer_writes() {
    let mut reader = Fixture::all(server());
    reader.server.put(ENTRIES, entry("pay", "pay.example.com"));
    reader.pass(secs(600)).await;
    assert_eq!(writes(&reader.server), 0);
    let (mut follower, leading) = writing(server(), Ranges::default());
    leading.send_replace(false);
    follower.server.put(ENTRIES, entry("pay", "pay.example.com"));
    follower.pass(secs(600)).await;
    assert_eq!(writes(&follower.server), 0);
    leading.send_replace(true);
    follower.until("written", |f| f.vips("pay.example.com").contains("240.240.0.1*")).await;
}

#[tokio::test(start_paused = true)]
async fn addresses_of_istio_stay_and_deleted_ones_are_reused() {
    let two = Ranges::parse("10.0.0.0/30", "").unwrap();
    let (mut fixture, _leading) = writing(server(), two);
    let mut istios = entry("old", "old.example.com");
    istios["status"] = json!({ "addresses": [{ "value": "10.0.0.2", "host": "old.example.com" }] });
    fixture.server.put(ENTRIES, istios);
    fixture.server.put(ENTRIES, entry("new", "new.example.com"));
    fixture.until("new", |f| f.vips("new.example.com") == "10.0.0.1*").await;
    fixture.server.put(ENTRIES, entry("third", "third.example.com"));
    fixture.until("full", |f| f.problems.contains_key("ServiceEntry shop/third")).await;
    let problem = &fixture.problems["ServiceEntry shop/third"];
    assert!(problem.starts_with("no address of 10.0.0.0/30 is left for host third.example.com"), "{problem}");
    assert_eq!(fixture.vips("third.example.com"), "", "it is served without addresses");
    fixture.server.delete(ENTRIES, "shop", "old");
    fixture.until("freed", |f| f.vips("third.example.com") == "10.0.0.2*").await;
    assert!(fixture.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_entry_with_addresses_of_its_own_is_cleared() {
    let (mut fixture, _leading) = writing(server(), Ranges::default());
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until("given", |f| f.vips("pay.example.com").contains('*')).await;
    let mut own = fixture.server.get(ENTRIES, "shop", "pay").unwrap();
    own["spec"]["addresses"] = json!(["10.9.0.1"]);
    fixture.server.put(ENTRIES, own);
    fixture.until("its own", |f| f.vips("pay.example.com") == "10.9.0.1").await;
    fixture.pass(secs(5)).await;
    assert_eq!(status(&fixture.server, "pay"), json!({}));
}

#[tokio::test(start_paused = true)]
async fn overtaken_write_changes_nothing_and_is_replanned() {
    let (mut fixture, leading) = writing(server(), Ranges::default());
    leading.send_replace(false);
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until_listed(&[ENTRIES]).await;
    // A different client changes it, and the watch has not delivered the change.
    let mut theirs = entry("pay", "pay.example.com");
    theirs["spec"]["addresses"] = json!(["10.9.0.1"]);
    fixture.server.put_silently(ENTRIES, theirs.clone());
    leading.send_replace(true);
    fixture.pass(secs(5)).await;
    assert!(writes(&fixture.server) >= 1, "it was tried");
    assert_eq!(status(&fixture.server, "pay"), Value::Null);
    fixture.server.put(ENTRIES, theirs);
    fixture.until("theirs", |f| f.vips("pay.example.com") == "10.9.0.1").await;
    fixture.pass(secs(600)).await;
    assert_eq!((status(&fixture.server, "pay"), fixture.problems.len()), (Value::Null, 0));
}

#[tokio::test(start_paused = true)]
async fn missing_write_permission_shows_until_it_is_granted() {
    let (mut fixture, _leading) = writing(server(), Ranges::default());
    fixture.server.answer(ENTRIES, Some(Verb::Write), usize::MAX, Answer::Status(403, "cannot patch"));
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until("shown", |f| !f.problems.is_empty()).await;
    assert_eq!(
        fixture.problems["ServiceEntry shop/pay"],
        "writing its addresses failed: the right is missing (403): cannot patch; the write is retried"
    );
    assert_eq!(fixture.shown(), "pay.example.com", "and it is served");
    fixture.pass(secs(600)).await;
    assert!(writes(&fixture.server) < 30, "with pauses");
    fixture.server.heal();
    fixture.until("given", |f| f.vips("pay.example.com").contains('*')).await;
    fixture.until("good", |f| f.problems.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn two_leading_writers_end_with_different_addresses() {
    let server = server();
    let (mut one, _one) = writing(server.clone(), Ranges::default());
    let (mut two, _two) = writing(server.clone(), Ranges::default());
    for n in 0..20 {
        server.put(ENTRIES, entry(&format!("e{n}"), &format!("h{n}.example.com")));
    }
    for _ in 0..40 {
        one.pass(std::time::Duration::from_millis(70)).await;
        two.pass(std::time::Duration::from_millis(70)).await;
    }
    one.pass(secs(200)).await;
    two.pass(secs(200)).await;
    let given: std::collections::BTreeSet<String> =
        (0..20).map(|n| one.vips(&format!("h{n}.example.com"))).collect();
    assert_eq!(given.len(), 20, "{given:?}");
    assert!(given.iter().all(|vips| vips.matches('*').count() == 2), "{given:?}");
}

const LEASE: &str = "tributary-addresses";

/// A replica, and the task that competes for its Lease.
fn replica(server: ApiServer, identity: &str) -> (Fixture, tokio::task::JoinHandle<()>) {
    let timing = LeaseTiming { duration: secs(15), renew: secs(2) };
    let name = ObjectName::new("mesh", LEASE);
    let candidate = Leadership::new(server.client(), name, identity, timing, SplitMix::seeded(1));
    let addresses = Addresses { ranges: Ranges::default(), leads: candidate.leads() };
    let options = CrdOptions { addresses: Some(addresses), ..CrdOptions::default() };
    (Fixture::new(server, &options), tokio::spawn(candidate.run()))
}

const LEASES: Kind =
    Kind { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease", namespaced: true };

#[tokio::test(start_paused = true)]
async fn lease_holder_writes_and_a_replica_takes_over() {
    let server = ApiServer::new(&[kind(ENTRIES), LEASES]);
    let (mut one, holds) = replica(server.clone(), "one");
    server.put(ENTRIES, entry("a", "a.example.com"));
    one.until("given", |f| f.vips("a.example.com").contains("240.240.0.1*")).await;
    let (mut two, _candidate) = replica(server.clone(), "two");
    holds.abort();
    drop(one);
    server.put(ENTRIES, entry("b", "b.example.com"));
    two.pass(secs(30)).await;
    assert_eq!(two.vips("b.example.com"), "240.240.0.2* 2001:2::2*");
    assert_eq!(two.vips("a.example.com"), "240.240.0.1* 2001:2::1*", "allocated addresses stay");
    let lease = server.get("leases", "mesh", LEASE).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "two");
}
