//! Kinds that are not served: their objects are named, and nothing else depends on them.

use serde_json::{Value, json};
use tributary_model::SourceState;
use tributary_scripted_api::{Answer, ApiServer, Kind};
use tributary_service_entry::{CrdOptions, Kinds};

use crate::fixture::{ENTRIES, Fixture, entry, kind, secs};

const TELEMETRIES: &str = "telemetries";
const PLUGINS: &str = "wasmplugins";
const DENY: &str = "WasmPlugin shop/deny";

const fn unserved(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Kind {
    Kind { group, version, plural, kind, namespaced: true }
}

fn server() -> ApiServer {
    let telemetry = unserved("telemetry.istio.io", "v1alpha1", TELEMETRIES, "Telemetry");
    let server = ApiServer::new(&[kind(ENTRIES), telemetry, plugins()]);
    server.put(ENTRIES, entry("pay", "pay.example.com"));
    server
}

fn plugins() -> Kind {
    unserved("extensions.istio.io", "v1alpha1", PLUGINS, "WasmPlugin")
}

fn object(version: &str, kind: &str, name: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": "shop" });
    json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": { "any": [1] } })
}

fn telemetry(name: &str) -> Value {
    object("telemetry.istio.io/v1alpha1", "Telemetry", name)
}

fn deny() -> Value {
    object("extensions.istio.io/v1alpha1", "WasmPlugin", "deny")
}

#[tokio::test(start_paused = true)]
async fn objects_of_unserved_kinds_are_named_until_they_end() {
    let mut fixture = Fixture::all(server());
    fixture.server.put(TELEMETRIES, telemetry("logs"));
    fixture.server.put(PLUGINS, deny());
    fixture.until("both problems", |f| f.problems.len() == 2).await;
    let problem = &fixture.problems[DENY];
    assert!(problem.contains("requests do not pass through its filter"), "{problem}");
    fixture.until_shown("pay.example.com").await;
    assert_eq!(fixture.puts, 2, "a service and its group: no fact of them");
    fixture.server.delete(PLUGINS, "shop", "deny");
    fixture.until("the first to end", |f| f.problems.keys().eq(["Telemetry shop/logs"])).await;
    fixture.server.uninstall(TELEMETRIES);
    fixture.until("the other to end", |f| f.problems.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn unserved_kinds_are_never_waited_for() {
    for answer in [Answer::Status(403, "no right to list"), Answer::Status(500, "webhook"), Answer::Silence] {
        let mut fixture = Fixture::all(server());
        fixture.server.put(TELEMETRIES, telemetry("logs"));
        fixture.server.put(PLUGINS, deny());
        fixture.server.answer(TELEMETRIES, None, usize::MAX, answer);
        fixture.until_listed(&[TELEMETRIES, ENTRIES]).await;
        fixture.until_shown("pay.example.com").await;
        fixture.pass(secs(600)).await;
        assert!(fixture.withheld.is_empty(), "{:?}", fixture.withheld);
        assert_eq!(fixture.states[TELEMETRIES], SourceState::Live, "it decides nothing");
        assert!(fixture.problems.keys().eq([DENY]), "the other kind is read: {:?}", fixture.problems);
        fixture.server.heal();
        fixture.until("the right", |f| f.problems.contains_key("Telemetry shop/logs")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unserved_kind_installed_later_is_listed() {
    let server = ApiServer::new(&[kind(ENTRIES)]);
    let mut fixture = Fixture::all(server);
    fixture.until_listed(&[PLUGINS, ENTRIES]).await;
    fixture.pass(secs(60)).await;
    assert!(fixture.problems.is_empty());
    fixture.server.install(plugins());
    fixture.server.put(PLUGINS, deny());
    fixture.until("the object", |f| f.problems.contains_key(DENY)).await;
}

#[tokio::test(start_paused = true)]
async fn unserved_kinds_of_a_remote_cluster_are_not_requested() {
    let options = CrdOptions { kinds: Kinds::WorkloadEntries, ..CrdOptions::default() };
    let mut fixture = Fixture::new(server(), &options);
    fixture.server.put(PLUGINS, deny());
    fixture.pass(secs(120)).await;
    let asked = fixture.server.requests();
    assert!(fixture.problems.is_empty() && !asked.iter().any(|one| one.path.contains(PLUGINS)));
}
