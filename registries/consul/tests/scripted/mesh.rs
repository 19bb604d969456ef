//! Services of Consul's mesh: sidecars are not followed, and their services show a condition.

use std::time::Duration;

use serde_json::json;
use tributary_conformance::Stage;
use tributary_model::{Catalog, Code};

use crate::fake::{Fake, mk_entries, mk_entry};
use crate::stage::{following, until_served};

/// Returns the hosts whose services show the condition, by their first label.
fn in_mesh(catalog: &Catalog) -> Vec<String> {
    let has = |view: &&std::sync::Arc<tributary_model::ServiceView>| {
        view.conditions.iter().any(|condition| condition.code == Code::MESH_SERVICE)
    };
    let hosts = catalog.services().filter(has).map(|view| view.key.host.as_str().to_owned());
    let mut names: Vec<String> =
        hosts.filter_map(|host| Some(host.strip_suffix(".service.consul")?.to_owned())).collect();
    names.sort();
    names
}

async fn until_in_mesh(stage: &Stage, want: &[&str]) {
    stage.until(&format!("{want:?} in the mesh"), |catalog| in_mesh(catalog) == want).await;
}

fn mk_sidecar(service: &str, ip: &str) -> serde_json::Value {
    let mut entry = mk_entry(&format!("{service}-sidecar-proxy"), ip);
    entry["Service"]["Kind"] = json!("connect-proxy");
    entry
}

#[tokio::test(flavor = "multi_thread")]
async fn service_with_sidecar_shows_a_condition_while_it_has_one() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "api", mk_entries("api", 2, 1..=1));
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    fake.set("dc1", "web-sidecar-proxy", vec![mk_sidecar("web", "10.1.0.1")]);
    let stage = following(&fake).await;
    until_in_mesh(&stage, &["web"]).await;
    // the sidecar is registered after its service
    fake.set("dc1", "api-sidecar-proxy", vec![mk_sidecar("api", "10.2.0.1")]);
    until_in_mesh(&stage, &["api", "web"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=2));
    until_served(&stage, "web", &["10.1.0.1", "10.1.0.2"]).await;
    until_in_mesh(&stage, &["api", "web"]).await;
    fake.set("dc1", "web-sidecar-proxy", Vec::new());
    until_in_mesh(&stage, &["api"]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_native_instance_shows_a_condition() {
    let fake = Fake::start(&["dc1"]).await;
    let mut entry = mk_entry("web", "10.1.0.1");
    entry["Service"]["Connect"] = json!({"Native": true});
    fake.set("dc1", "web", vec![entry]);
    let stage = following(&fake).await;
    until_in_mesh(&stage, &["web"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=1));
    until_in_mesh(&stage, &[]).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_and_gateways_are_never_requested() {
    let fake = Fake::start(&["dc1"]).await;
    let mut gateway = mk_entry("gateway", "10.9.0.1");
    gateway["Service"]["Kind"] = json!("mesh-gateway");
    fake.set("dc1", "gateway", vec![gateway]);
    for number in 1..=20_u8 {
        let name = format!("s{number}");
        fake.set("dc1", &name, mk_entries(&name, number, 1..=1));
        let sidecar = mk_sidecar(&name, &format!("10.{number}.0.1"));
        fake.set("dc1", &format!("{name}-sidecar-proxy"), vec![sidecar]);
    }
    let stage = following(&fake).await;
    until_served(&stage, "s20", &["10.20.0.1"]).await;
    fake.set("dc1", "s1", mk_entries("s1", 1, 1..=2));
    until_served(&stage, "s1", &["10.1.0.1", "10.1.0.2"]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let of = |path: &str| path.ends_with("-sidecar-proxy") || path.ends_with("/gateway");
    let requested: Vec<String> =
        fake.take_seen().into_iter().map(|seen| seen.path).filter(|path| of(path)).collect();
    assert!(requested.is_empty(), "{requested:?}");
    stage.drop_now().await;
}
