//! Documents of the console on a running server: overview, timeline, map, and hostile texts.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tributary_app::exit::Exit;
use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::{AdsClient, Variant};

use crate::world::{LONG, World, file_registry, mk_entry, mk_folder, put, run_on};

async fn mk_world() -> (TempDir, World) {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    (dir, world)
}

async fn document(world: &World, command: &str) -> Value {
    let result = world.run(&format!("get {command} -o json")).await;
    serde_json::from_str(&result.out).unwrap_or_else(|e| panic!("{e}: {} {:?}", result.out, result.exit))
}

/// Returns the entries of the timeline after a number, once one has this text.
async fn entries(world: &World, text: &str) -> Vec<Value> {
    let wait = async {
        loop {
            let list = document(world, "timeline").await;
            let all = list["items"].as_array().unwrap().clone();
            if all.iter().any(|one| one["message"].as_str().unwrap().contains(text)) {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("no change has {text:?}"))
}

fn with<'v>(all: &'v [Value], text: &str) -> &'v Value {
    all.iter().find(|one| one["message"].as_str().unwrap().contains(text)).unwrap()
}

/// Connects a client that rejects its xDS clusters with this text.
async fn mk_rejecting(world: &World, text: &str) -> AdsClient {
    let xds = world.server.addresses().xds;
    let mut stream = AdsClient::connect(xds, Variant::Delta, node("web-1")).await.unwrap();
    stream.subscribe(CDS, &["*"]).unwrap();
    let first = stream.next(LONG).await.unwrap();
    stream.nack(&first, text).unwrap();
    world.until("get clients", "ERROR").await;
    stream
}

#[tokio::test]
async fn overview_has_the_numbers_and_the_worst_first() {
    let (dir, world) = mk_world().await;
    let overview = document(&world, "overview").await;
    assert_eq!((&overview["kind"], &overview["ready"]), (&"Overview".into(), &true.into()));
    let counts = &overview["counts"];
    assert_eq!((&counts["services"], &counts["endpoints"]["HEALTHY"]), (&1.into(), &1.into()), "{overview}");
    assert_eq!((&counts["registries"], &counts["clients"]), (&1.into(), &serde_json::json!({})));
    let row = &overview["registries"][0];
    assert_eq!((&row["state"], &row["services"], &row["endpoints"]), (&"Live".into(), &1.into(), &1.into()));
    let _client = mk_rejecting(&world, "no such thing").await;
    put(dir.path(), "bad.yaml", "kind: ServiceEntry\n");
    let found = world.until("get overview -o json", "no such thing").await;
    let overview: Value = serde_json::from_str(&found).unwrap();
    let first = &overview["findings"][0];
    assert_eq!((&first["severity"], &first["object"]["name"]), (&"error".into(), &"web-1".into()), "{first}");
    assert!(!first["view"].as_str().unwrap().is_empty() && !first["next"].as_str().unwrap().is_empty());
    assert_eq!(overview["counts"]["clients"]["ERROR"], 1);
    world.until("get overview", "rejected").await;
    let table = world.run("get overview").await.out;
    assert!(table.contains("1 services; endpoints: 1 HEALTHY; clients: 1 ERROR"), "{table}");
    assert_eq!(world.run("get overview -w").await.exit.unwrap_err().exit, Exit::Usage);
}

#[tokio::test]
async fn timeline_has_what_changed_in_order() {
    let (dir, world) = mk_world().await;
    put(dir.path(), "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.2"));
    let all = entries(&world, "1 removed").await;
    let moved = with(&all, "1 removed");
    assert_eq!(
        moved["message"],
        "services: 1 changed; endpoints: 1 added, 1 removed (10.0.0.1:80); from file"
    );
    assert_eq!((&moved["kind"], &moved["hosts"][0]), (&"catalog".into(), &"pay.shop".into()));
    assert_eq!((&moved["object"]["kind"], &moved["registry"]), (&"service".into(), &"file".into()));
    let client = mk_rejecting(&world, "bad <b>bytes</b>").await;
    let all = entries(&world, "bad <b>bytes</b>").await;
    let rejected = with(&all, "bad <b>bytes</b>");
    assert_eq!((&rejected["severity"], &rejected["object"]["name"]), (&"error".into(), &"web-1".into()));
    drop(client);
    let all = entries(&world, "disconnected").await;
    std::fs::remove_dir_all(dir.path()).unwrap();
    let all_later = entries(&world, "Unreachable").await;
    assert_eq!(with(&all_later, "Unreachable")["kind"], "registry");
    let times: Vec<&str> = all_later.iter().map(|one| one["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let mut numbers: Vec<u64> = all_later.iter().map(|one| one["sequence"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(all.len() < all_later.len());
    let last = world.run("get timeline --limit 1 -o name").await.out;
    assert!(last.starts_with("timeline/"), "{last}");
    assert!(world.run("get timeline --since 1h").await.out.contains("services: 1 changed"));
    assert_eq!(world.run("get timeline --since soon").await.exit.unwrap_err().exit, Exit::Usage);
    assert_eq!(world.run("get services --since 1h").await.exit.unwrap_err().exit, Exit::Usage);
}

#[tokio::test]
async fn explanation_has_what_the_page_of_an_endpoint_shows() {
    let (_dir, world) = mk_world().await;
    let xds = world.server.addresses().xds;
    let mut stream = AdsClient::connect(xds, Variant::Delta, node("web-1")).await.unwrap();
    stream.subscribe(EDS, &["outbound|80||pay.shop"]).unwrap();
    let first = stream.next(LONG).await.unwrap();
    stream.ack(&first).unwrap();
    world.until("get clients", "SYNCED").await;
    let out = world.run("explain 10.0.0.1 --for-client web-1 -o json").await.out;
    let list: Value = serde_json::from_str(&out).unwrap();
    let item = &list["items"][0];
    assert_eq!((&item["verdict"], &item["client"]), (&"served".into(), &"web-1".into()), "{out}");
    let steps = item["steps"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["verdict"].is_string() && step["code"].is_string()), "{out}");
    let source = &steps[0];
    assert_eq!((&source["stage"], &source["object"]["kind"]), (&"source".into(), &"ServiceEntry".into()));
    assert_eq!(source["object"]["registry"], "file", "{source}");
    assert!(source["confirmedAt"].is_string(), "{source}");
    let version = &document(&world, "resources web-1").await["items"][0]["version"];
    let sent = format!("version {} was sent and acknowledged", version.as_str().unwrap());
    let is_sent =
        |step: &&Value| step["stage"] == "deliver" && step["detail"].as_str().unwrap().contains(&sent);
    assert!(steps.iter().any(|step| is_sent(&step)), "no step has that {sent}: {out}");
}

#[tokio::test]
async fn map_connects_the_registry_with_its_cluster() {
    let (_dir, world) = mk_world().await;
    let map = document(&world, "map").await;
    let ids: Vec<&str> = map["nodes"].as_array().unwrap().iter().map(|n| n["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cluster/Kubernetes", "registry/file"]);
    let edge = &map["edges"][0];
    assert_eq!((&edge["from"], &edge["to"]), (&"registry/file".into(), &"cluster/Kubernetes".into()));
    assert_eq!((&edge["services"], &edge["endpoints"]), (&1.into(), &1.into()));
    let table = world.run("get map").await.out;
    assert!(table.contains("registry/file") && table.contains("reads"), "{table}");
}

#[tokio::test]
async fn hostile_texts_are_data_and_bounded() {
    let (dir, world) = mk_world().await;
    let label = "x".repeat(100_000);
    let entry = mk_entry("evil", "evil.shop", "10.0.0.9").replace(
        "endpoints: [{address: 10.0.0.9}]",
        &format!("endpoints: [{{address: 10.0.0.9, labels: {{text: \"<script>\\u0007{label}\"}}}}]"),
    );
    put(dir.path(), "evil.yaml", &entry);
    let text = format!("<img src=x onerror=alert(1)>\u{1b}[31m{}", "n".repeat(50_000));
    let _client = mk_rejecting(&world, &text).await;
    let get = async |path: &str| {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}{path}", world.server.addresses().admin);
        let response = client.get(url).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json", "{path}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff", "{path}");
        let body = response.bytes().await.unwrap();
        (serde_json::from_slice::<Value>(&body).unwrap(), body.len())
    };
    let (clients, size) = get("/debug/clients").await;
    let nack = clients["items"][0]["types"][0]["nack"].as_str().unwrap();
    assert!(nack.starts_with("<img src=x onerror=alert(1)> [31mnnn") && nack.len() < 5_000, "{nack}");
    assert!(size < 20_000, "{size} bytes");
    for path in
        ["/debug/endpoints", "/debug/overview", "/debug/timeline", "/debug/services", "/debug/registries"]
    {
        let (_, size) = get(path).await;
        assert!(size < 40_000, "{path} has {size} bytes");
    }
}

#[tokio::test]
async fn documents_of_several_replicas_are_one() {
    let ((_a, first), (_b, second)) = (mk_world().await, mk_world().await);
    let [a, b] = [&first, &second].map(|world| format!("http://{}", world.server.addresses().admin));
    for (what, field) in [("overview", "counts"), ("map", "nodes")] {
        let result = run_on(&format!("{a},{b}"), &format!("get {what} -o json")).await;
        let whole: Value =
            serde_json::from_str(&result.out).unwrap_or_else(|e| panic!("{e}: {}", result.out));
        let all = whole["replicas"].as_array().unwrap();
        let servers: Vec<&str> = all.iter().map(|one| one["replica"].as_str().unwrap()).collect();
        assert_eq!((servers, result.exit), (vec![&*a, &*b], Ok(Exit::Ok)), "{what}");
        assert!(all.iter().all(|one| !one[field].is_null() && one["metadata"]["asOf"].is_string()), "{what}");
        let yaml = run_on(&format!("{a},{b}"), &format!("get {what} -o yaml")).await.out;
        assert_eq!(yaml.matches("replicas:").count(), 1, "{yaml}");
    }
    let silent = run_on(&first.with_a_silent_one(), "get overview -o json").await;
    let whole: Value = serde_json::from_str(&silent.out).unwrap();
    assert_eq!(silent.exit, Ok(Exit::Partial));
    assert!(whole["replicas"][1]["silent"].as_str().unwrap().starts_with("cannot be reached"), "{whole}");
}

#[tokio::test]
async fn timeline_has_objects_that_are_quarantined_and_valid_again() {
    let (dir, world) = mk_world().await;
    put(dir.path(), "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.1").replace("STATIC", "OTHER"));
    let all = entries(&world, "resolution").await;
    let begun = all.iter().find(|one| one["kind"] == "problem").unwrap();
    assert_eq!((&begun["object"]["name"], &begun["registry"]), (&"shop/pay".into(), &"file".into()));
    assert_eq!((&begun["severity"], begun["code"].is_string()), (&"warning".into(), true));
    put(dir.path(), "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.1"));
    let all = entries(&world, "valid again").await;
    assert_eq!(with(&all, "valid again")["object"], begun["object"]);
    assert!(world.run("get timeline").await.out.contains("ServiceEntry shop/pay"));
}
