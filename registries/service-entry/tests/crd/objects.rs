//! Objects as an API server holds them: bad ones, health, addresses, surroundings, relists.

use std::sync::Arc;

use serde_json::json;
use tributary_model::{Fact, FactId, Namespace, NetworkId};
use tributary_registry_api::{ClusterContext, cluster_context_channel};
use tributary_service_entry::CrdOptions;

use crate::fixture::{ENTRIES, Fixture, WORKLOADS, entry, secs, server, workload};

#[tokio::test(start_paused = true)]
async fn one_bad_object_is_quarantined_alone_and_its_last_good_version_stays() {
    let mut fixture = Fixture::all(server());
    let mut born_bad = entry("bad", "bad.example.com");
    born_bad["spec"]["ports"] = json!("none");
    fixture.server.put(ENTRIES, born_bad);
    fixture.server.put(ENTRIES, entry("pay", "pay.example.com"));
    fixture.until_listed(&[ENTRIES]).await;
    assert_eq!(fixture.shown(), "pay.example.com");
    assert!(
        fixture.problems["ServiceEntry shop/bad"].starts_with("spec.ports is text"),
        "{:?}",
        fixture.problems
    );
    let mut gone_bad = entry("pay", "pay.example.com");
    gone_bad["spec"]["hosts"] = json!(["*"]);
    fixture.server.put(ENTRIES, gone_bad);
    fixture.until("told", |f| f.problems.len() == 2).await;
    assert_eq!(fixture.shown(), "pay.example.com");
    fixture.server.delete(ENTRIES, "shop", "pay");
    fixture.server.put(ENTRIES, entry("bad", "bad.example.com"));
    fixture.until_shown("bad.example.com").await;
    assert!(fixture.problems.is_empty(), "{:?}", fixture.problems);
}

#[tokio::test(start_paused = true)]
async fn what_is_listed_again_and_has_not_changed_is_not_said_again() {
    let mut fixture = Fixture::all(server());
    (0..50).for_each(|n| fixture.server.put(ENTRIES, entry(&format!("e{n}"), &format!("h{n}.example.com"))));
    fixture.until_listed(&[ENTRIES]).await;
    assert_eq!(fixture.puts, 100);
    // rewritten with the same content, and lost to the watch: a list brings it
    fixture.server.put_untold(ENTRIES, entry("e7", "h7.example.com"));
    fixture.server.compact();
    fixture.server.end(ENTRIES);
    fixture.pass(secs(60)).await;
    assert_eq!((fixture.puts, fixture.evidence.len()), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn a_workloads_health_condition_takes_it_out_and_brings_it_back() {
    let mut fixture = Fixture::all(server());
    let checked = |status: Option<&str>| {
        let mut object = workload("w", "10.0.0.1");
        object["metadata"]["annotations"] = json!({ "proxy.istio.io/health-checks-enabled": "true" });
        if let Some(status) = status {
            object["status"] = json!({ "conditions": [{ "type": "Healthy", "status": status }] });
        }
        object
    };
    fixture.server.put(WORKLOADS, checked(None));
    fixture.until_listed(&[WORKLOADS]).await;
    assert_eq!(fixture.shown(), "", "nobody has said that it is healthy");
    fixture.server.put(WORKLOADS, checked(Some("True")));
    fixture.until_shown("w").await;
    fixture.server.put(WORKLOADS, checked(Some("False")));
    fixture.until_shown("").await;
}

#[tokio::test(start_paused = true)]
async fn addresses_that_an_istio_wrote_are_served_as_allocated() {
    let mut fixture = Fixture::all(server());
    let mut written = entry("pay", "pay.example.com");
    written["status"] = json!({
        "addresses": [
            { "value": "240.240.0.5", "host": "pay.example.com" },
            { "value": "2001:2::5", "host": "pay.example.com" },
            { "value": "240.240.0.6", "host": "other.example.com" },
        ],
        "conditions": [{ "type": "Reconciled", "status": "True" }],
    });
    fixture.server.put(ENTRIES, written.clone());
    fixture.until_listed(&[ENTRIES]).await;
    assert_eq!(fixture.vips("pay.example.com"), "240.240.0.5* 2001:2::5*");
    written["spec"]["addresses"] = json!(["10.9.0.1"]);
    fixture.server.put(ENTRIES, written);
    fixture.until("its own", |f| f.vips("pay.example.com") == "10.9.0.1").await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_another_revision_are_left_out_with_the_reason() {
    let options = CrdOptions { revision: Some("blue".into()), ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    for (name, revision) in [("a", "blue"), ("b", "green")] {
        let mut object = entry(name, &format!("{name}.example.com"));
        object["metadata"]["labels"] = json!({ "istio.io/rev": revision });
        fixture.server.put(ENTRIES, object);
    }
    fixture.server.put(ENTRIES, entry("c", "c.example.com"));
    fixture.until("all", |f| !f.left_out.is_empty()).await;
    assert_eq!(fixture.shown(), "a.example.com c.example.com");
    assert_eq!(fixture.left_out["b"], "its label istio.io/rev is \"green\"");
}

#[tokio::test(start_paused = true)]
async fn surroundings_are_waited_for_and_followed() {
    let (says, hears) = cluster_context_channel();
    let options = CrdOptions { cluster_context: Some(hears), ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.pass(secs(300)).await;
    assert_eq!(
        (fixture.shown().as_str(), fixture.listed.len()),
        ("", 0),
        "nothing is known of its namespace"
    );
    let shop = Namespace::new("shop").unwrap();
    let mut around = ClusterContext { selected: Some([shop].into()), ..ClusterContext::default() };
    says.send_replace(Some(Arc::new(around.clone())));
    fixture.until_listed(&[WORKLOADS]).await;
    let network = |fixture: &Fixture| {
        let workload = fixture.facts.iter().find(|(item, _)| matches!(item, FactId::Workload(_)));
        let Some((_, Fact::Workload(_, workload))) = workload else { panic!("it is gone") };
        workload.topology.network.clone()
    };
    assert_eq!(network(&fixture), None);
    around.network = NetworkId::new("n1").ok();
    says.send_replace(Some(Arc::new(around.clone())));
    fixture.until("n1", |f| network(f) == NetworkId::new("n1").ok()).await;
    around.selected = Some([].into());
    says.send_replace(Some(Arc::new(around)));
    fixture.until_shown("").await;
    drop(says);
    fixture.server.put(WORKLOADS, workload("w2", "10.0.0.2"));
    fixture.pass(secs(300)).await;
    assert_eq!(fixture.shown(), "", "the last word stays");
}
