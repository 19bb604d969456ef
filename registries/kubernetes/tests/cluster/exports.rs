//! Generated exports: their writer, their content, and when none is written.

use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tributary_kubernetes::{Mcs, Options};
use tributary_model::{ClusterId, Code};
use tributary_scripted_api::{Answer, ApiServer, Kind, Verb};

use crate::fixture::{RunOf, factory_with, serve, service};

const EXPORTS: Kind = Kind {
    group: Mcs::GROUP,
    version: "v1beta1",
    plural: "serviceexports",
    kind: "ServiceExport",
    namespaced: true,
};

fn shop() -> ApiServer {
    let server = serve();
    server.install(EXPORTS);
    let mut pay = service("pay");
    pay["metadata"]["uid"] = json!("uid-of-pay");
    server.put("services", pay);
    server
}

fn start(server: &ApiServer, leads: &watch::Sender<bool>) -> RunOf {
    let mut options = Options::new(ClusterId::new("Kubernetes").unwrap()).unwrap();
    options.mcs.auto_export = true;
    RunOf::of(server, &factory_with(server, options).exports(leads.subscribe()))
}

fn exported(run: &RunOf, name: &str) -> bool {
    run.server.get("serviceexports", "shop", name).is_some()
}

#[tokio::test(start_paused = true)]
async fn services_are_exported_only_while_leading() {
    let (leads, _) = watch::channel(false);
    let mut run = start(&shop(), &leads);
    run.live().await;
    run.pass(Duration::from_secs(60)).await;
    assert!(!exported(&run, "pay"), "a replica that does not lead writes nothing");
    leads.send_replace(true);
    run.until("pay is exported", |run| exported(run, "pay")).await;
    let export = run.server.get("serviceexports", "shop", "pay").unwrap();
    let owner = &export["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Service"), &json!("uid-of-pay")));
    leads.send_replace(false);
    run.server.put("services", service("cart"));
    run.pass(Duration::from_secs(60)).await;
    assert!(!exported(&run, "cart"), "it no longer leads");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_export_is_reported_and_retried() {
    let server = shop();
    server.answer("/serviceexports", Some(Verb::Write), 2, Answer::Status(403, "no create"));
    let (leads, _) = watch::channel(true);
    let mut run = start(&server, &leads);
    let reported = |run: &RunOf| run.problems.values().any(|problem| problem.code == Code::NOT_WRITTEN);
    run.until("it is reported", reported).await;
    run.until("pay is exported", |run| exported(run, "pay")).await;
    run.until("it is resolved", |run| !reported(run)).await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_export_is_dropped_with_its_service() {
    let server = shop();
    server.answer("/serviceexports", Some(Verb::Write), usize::MAX, Answer::Status(403, "no create"));
    let (leads, _) = watch::channel(true);
    let mut run = start(&server, &leads);
    let reported = |run: &RunOf| run.problems.values().any(|problem| problem.code == Code::NOT_WRITTEN);
    run.until("it is reported", reported).await;
    for name in run.services() {
        server.delete("services", "shop", &name);
    }
    run.until("a deleted service has no problem", |run| !reported(run)).await;
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unserved_export_kind_is_not_written() {
    let server = shop();
    server.uninstall("serviceexports");
    let (leads, _) = watch::channel(true);
    let mut run = start(&server, &leads);
    run.live().await;
    run.pass(Duration::from_secs(120)).await;
    let creates = |run: &RunOf| run.server.requests().iter().filter(|r| r.verb == Verb::Write).count();
    assert_eq!((creates(&run), run.problems.len()), (0, 0));
    run.server.install(EXPORTS);
    run.until("pay is exported", |run| exported(run, "pay")).await;
    run.stop().await;
}
