//! Objects of an API server: invalid objects, health, addresses, cluster context, relists.

use std::sync::Arc;

use serde_json::json;
use tributary_kube_client::{ClusterContext, cluster_context_channel};
use tributary_model::{Fact, FactId, Namespace, NetworkId};
use tributary_service_entry::CrdOptions;

use crate::fixture::{ENTRIES, Fixture, WORKLOADS, entry, secs, server, workload};

#[tokio::test(start_paused = true)]
async fn one_invalid_object_is_quarantined_alone() {
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
    fixture.until("reported", |f| f.problems.len() == 2).await;
    assert_eq!(fixture.shown(), "pay.example.com");
    fixture.server.delete(ENTRIES, "shop", "pay");
    fixture.server.put(ENTRIES, entry("bad", "bad.example.com"));
    fixture.until_shown("bad.example.com").await;
    assert!(fixture.problems.is_empty(), "{:?}", fixture.problems);
}

#[tokio::test(start_paused = true)]
async fn unchanged_object_of_a_relist_is_not_reported_again() {
    let mut fixture = Fixture::all(server());
    (0..50).for_each(|n| fixture.server.put(ENTRIES, entry(&format!("e{n}"), &format!("h{n}.example.com"))));
    fixture.until_listed(&[ENTRIES]).await;
    assert_eq!(fixture.puts, 100);
    // Rewritten with the same content, and missed by the watch: a list delivers it.
    fixture.server.put_silently(ENTRIES, entry("e7", "h7.example.com"));
    fixture.server.compact();
    fixture.server.end(ENTRIES);
    fixture.pass(secs(60)).await;
    assert_eq!((fixture.puts, fixture.evidence.len()), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn health_condition_removes_and_restores_a_workload() {
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
    assert_eq!(fixture.shown(), "", "its health is not reported yet");
    fixture.server.put(WORKLOADS, checked(Some("True")));
    fixture.until_shown("w").await;
    fixture.server.put(WORKLOADS, checked(Some("False")));
    fixture.until_shown("").await;
}

#[tokio::test(start_paused = true)]
async fn addresses_written_by_istio_are_served_as_allocated() {
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
async fn objects_of_a_different_revision_are_excluded_with_reason() {
    let options = CrdOptions { revision: Some("blue".into()), ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    for (name, revision) in [("a", "blue"), ("b", "green")] {
        let mut object = entry(name, &format!("{name}.example.com"));
        object["metadata"]["labels"] = json!({ "istio.io/rev": revision });
        fixture.server.put(ENTRIES, object);
    }
    fixture.server.put(ENTRIES, entry("c", "c.example.com"));
    fixture.until("all", |f| !f.excluded.is_empty()).await;
    assert_eq!(fixture.shown(), "a.example.com c.example.com");
    assert_eq!(fixture.excluded["b"], "its label istio.io/rev is \"green\"");
}

#[tokio::test(start_paused = true)]
async fn context_is_awaited_and_followed() {
    let (sender, receiver) = cluster_context_channel();
    let options = CrdOptions { cluster_context: Some(receiver), ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    fixture.server.put(WORKLOADS, workload("w", "10.0.0.1"));
    fixture.pass(secs(300)).await;
    assert_eq!((fixture.shown().as_str(), fixture.listed.len()), ("", 0), "its namespace is not known yet");
    let shop = Namespace::new("shop").unwrap();
    let mut context = ClusterContext { selected: Some([shop].into()), ..ClusterContext::default() };
    sender.send_replace(Some(Arc::new(context.clone())));
    fixture.until_listed(&[WORKLOADS]).await;
    let network = |fixture: &Fixture| {
        let workload = fixture.facts.iter().find(|(item, _)| matches!(item, FactId::Workload(_)));
        let Some((_, Fact::Workload(_, workload))) = workload else { panic!("it is gone") };
        workload.augmented.get(tributary_model::labels::NETWORK).map(ToOwned::to_owned)
    };
    assert_eq!(network(&fixture), None);
    context.network = NetworkId::new("n1").ok();
    sender.send_replace(Some(Arc::new(context.clone())));
    fixture.until("n1", |f| network(f).as_deref() == Some("n1")).await;
    context.selected = Some([].into());
    sender.send_replace(Some(Arc::new(context)));
    fixture.until_shown("").await;
    drop(sender);
    fixture.server.put(WORKLOADS, workload("w2", "10.0.0.2"));
    fixture.pass(secs(300)).await;
    assert_eq!(fixture.shown(), "", "the last context stays valid");
}
