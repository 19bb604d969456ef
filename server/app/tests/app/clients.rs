//! Connected clients: sent and acknowledged versions, and explanations.

use crate::world::{LONG, World, file_registry, mk_entry, mk_folder, put};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use tributary_app::admin::AdminBackend as _;
use tributary_app::cli::Server;
use tributary_app::exit::Exit;
use tributary_app::ops::counts::RegistryCounts;
use tributary_suites::ads::node;
use tributary_suites::{AdsClient, Answer, Variant};

const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const PAY: &str = "outbound|80||pay.shop";

struct Client {
    stream: AdsClient,
    first: Answer,
}

async fn mk_client(world: &World, variant: Variant) -> Client {
    let xds = world.server.addresses().xds;
    let mut stream = AdsClient::connect(xds, variant, node("web-1")).await.unwrap();
    stream.subscribe(EDS, &[PAY]).unwrap();
    let first = stream.next(LONG).await.unwrap();
    Client { stream, first }
}

async fn mk_world() -> (tempfile::TempDir, World) {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    (dir, world)
}

#[tokio::test]
async fn acknowledged_version_of_a_client_is_shown() {
    for variant in [Variant::Sotw, Variant::Delta] {
        let (_dir, world) = mk_world().await;
        let mut client = mk_client(&world, variant).await;
        let result = world.run("explain 10.0.0.1 --for-client web-1").await;
        assert!(result.out.contains("deliver    WARN TRB0523"), "not answered yet: {}", result.out);
        client.stream.ack(&client.first).unwrap();
        let table = world.until("get clients", "SYNCED").await;
        assert!(table.contains("web-1") && table.contains("EDS 1"), "{table}");
        let result = world.run("explain 10.0.0.1 --for-client web-1").await;
        assert_eq!(result.exit, Ok(Exit::Ok), "{}", result.out);
        assert!(result.out.contains("deliver    PASS TRB0520"), "{}", result.out);
        drop(client);
        let talk = async {
            while !world.run("get clients").await.talk.contains("no clients") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, talk).await.expect("a client that went is still listed");
        world.server.stop().await;
    }
}

#[tokio::test]
async fn scrapes_count_nothing_again() {
    let (dir, world) = mk_world().await;
    let live = std::sync::Arc::clone(world.server.live());
    let served = std::sync::Arc::clone(&live.sessions.served);
    let _client = mk_client(&world, Variant::Delta).await;
    for n in 2..5 {
        let (name, address) = (format!("s{n}"), format!("10.0.0.{n}"));
        put(dir.path(), &format!("{name}.yaml"), &mk_entry(&name, &format!("{name}.shop"), &address));
        world.until("get endpoints", &address).await;
    }
    std::fs::remove_file(dir.path().join("pay.yaml")).unwrap();
    let count = |sums: &RegistryCounts| sums.endpoints.values().sum::<u64>();
    let counted = async {
        while count(&served.sums()) != 3 || served.sums() != RegistryCounts::of(&live.handle.catalog()) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, counted).await.expect("the counts differ from the catalog");
    let passes = served.passes();
    for _ in 0..3 {
        let samples = live.samples().await;
        let values = |name: &str| {
            let of_name = samples.iter().filter(|s| s.info.name == name && s.value != 0.0.into());
            of_name.map(|s| s.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!((values("endpoints"), values("xds_clients")), (vec![3.0.into()], vec![1.0.into()]));
    }
    assert_eq!(served.passes(), passes, "a scrape counts no host");
    world.server.stop().await;
}

#[tokio::test]
async fn client_of_an_unknown_cluster_is_served_and_flagged() {
    let (_dir, world) = mk_world().await;
    for (cluster, flagged) in [("nowhere", true), ("Kubernetes", false)] {
        let value = Value { kind: Some(Kind::StringValue(cluster.to_owned())) };
        let metadata = Struct { fields: [("CLUSTER_ID".to_owned(), value)].into() };
        let node = Node { metadata: Some(metadata), ..node(&format!("of-{cluster}")) };
        let xds = world.server.addresses().xds;
        let mut stream = AdsClient::connect(xds, Variant::Delta, node).await.unwrap();
        stream.subscribe(EDS, &[PAY]).unwrap();
        let served = stream.next(LONG).await.unwrap();
        stream.ack(&served).unwrap();
        let table = world.until(&format!("get clients of-{cluster}"), "SYNCED").await;
        assert_eq!(table.contains("TRB0608"), flagged, "{table}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn rejection_shows_the_clients_error_text() {
    let (_dir, world) = mk_world().await;
    let mut client = mk_client(&world, Variant::Delta).await;
    client.stream.nack(&client.first, "no such thing as a load assignment").unwrap();
    world.until("get clients -o wide", "no such thing as a load assignment").await;
    let result = world.run("explain 10.0.0.1 --for-client web-1").await;
    assert_eq!(result.exit, Ok(Exit::No), "{}", result.out);
    assert!(
        result.out.contains("dropped") && result.out.contains("deliver    DROP TRB0522"),
        "{}",
        result.out
    );
    let result = world.run("why-not pay.shop --for-client web-1").await;
    assert_eq!(result.exit, Ok(Exit::No), "{}", result.out);
    assert!(
        result.out.contains("TRB0522")
            && result.out.contains("not served: the client rejected what it was sent"),
        "{}",
        result.out
    );
    world.server.stop().await;
}

async fn scrape(world: &World) -> String {
    let admin = Server::parse(&world.server.addresses().admin.to_string(), LONG).unwrap();
    String::from_utf8(admin.get("/metrics", &[]).await.unwrap().to_vec()).unwrap()
}

/// Returns the value of a metric with these labels.
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    assert!(line.is_some(), "no {metric} in {text}");
    line.unwrap_or_default().parse().unwrap_or_default()
}

#[tokio::test]
async fn scrape_counts_responses_and_rejections_by_type() {
    let (_dir, world) = mk_world().await;
    let mut client = mk_client(&world, Variant::Delta).await;
    client.stream.nack(&client.first, "not this").unwrap();
    world.until("get clients -o wide", "not this").await;
    let text = scrape(&world).await;
    for (kind, sends) in [("EDS", 1.0), ("CDS", 0.0)] {
        for metric in ["nacks_total", "response_bytes_count", "push_duration_seconds_count"] {
            let of = value(&text, &format!("tributary_xds_{metric}{{type=\"{kind}\"}}"));
            assert_eq!(of, sends, "{metric} of {kind}");
        }
    }
    let small = "tributary_xds_response_bytes_bucket{le=\"10000.0\",type=\"EDS\"}";
    assert_eq!(value(&text, small), 1.0);
    assert!(value(&text, "tributary_xds_push_triggers_total{reason=\"hosts\"}") >= 1.0);
    assert_eq!(value(&text, "tributary_unexplained_empty_total"), 0.0);
    assert_eq!(value(&text, "tributary_endpoints{registry=\"file\",health=\"HEALTHY\"}"), 1.0);
    assert_eq!(value(&text, "tributary_services{registry=\"file\"}"), 1.0);
    world.server.stop().await;
}

#[tokio::test]
async fn unsubscribed_and_invisible_hosts_are_explained_by_rule() {
    let (dir, world) = mk_world().await;
    let mut client = mk_client(&world, Variant::Delta).await;
    client.stream.ack(&client.first).unwrap();
    world.until("get clients", "SYNCED").await;
    put(dir.path(), "b.yaml", &mk_entry("b", "b.shop", "10.0.0.2"));
    let hidden = mk_entry("c", "c.shop", "10.0.0.3") + "  exportTo: ['.']\n";
    put(dir.path(), "c.yaml", &hidden);
    world.until("get endpoints", "10.0.0.2:80").await;
    world.until("get endpoints", "10.0.0.3:80").await;
    for (host, exit, code) in [
        ("pay.shop", Exit::Ok, ""),
        ("b.shop", Exit::No, "TRB0521"),
        ("c.shop", Exit::No, "TRB0506"),
        ("d.shop", Exit::No, "TRB0524"),
    ] {
        let result = world.run(&format!("why-not {host} --for-client web-1")).await;
        assert_eq!(result.exit, Ok(exit), "{host}: {}", result.out);
        assert!(result.out.contains(code), "{host}: {}", result.out);
    }
    world.server.stop().await;
}

/// The host of a document that was never valid is declared by nothing; the document is the reason.
#[tokio::test]
async fn why_not_names_invalid_documents_that_may_declare_the_host() {
    let broken = mk_entry("far", "far.shop", "10.0.0.9").replace("number: 80", "number: 99999");
    assert!(broken.contains("99999"), "{broken}");
    let dir = mk_folder(&[("far.yaml", broken), ("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    let _client = mk_client(&world, Variant::Delta).await;
    let far = world.run("why-not far.shop --for-client web-1").await.out;
    assert!(far.contains("TRB0524") && far.contains("far.yaml:6:20"), "{far}");
    assert!(far.contains("not valid, and may declare this host"), "{far}");
    let pay = world.run("why-not pay.shop --for-client web-1").await.out;
    assert!(!pay.contains("far.yaml"), "its host is declared: {pay}");
}

#[tokio::test]
async fn explanations_name_the_workload_that_a_service_selects() {
    let service = mk_entry("pay", "pay.shop", "10.0.0.1");
    let (service, _) = service.split_once("  endpoints:").unwrap();
    let service = format!("{service}  workloadSelector: {{labels: {{app: pay}}}}\n");
    let workload = |name: &str, address: &str| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{address: \"{address}\", labels: {{app: pay}}}}\n"
        )
    };
    let (one, two) = (workload("w1", "10.0.0.1"), workload("w2", "10.0.0.2"));
    let dir = mk_folder(&[("pay.yaml", service), ("w1.yaml", one), ("w2.yaml", two)]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:80").await;
    put(dir.path(), "w1.yaml", &workload("w1", "1 2"));
    let shown = world.until("explain 10.0.0.1", "the object has a problem now").await;
    assert!(
        shown.contains("10.0.0.1:80  served") && shown.contains("[file: WorkloadEntry shop/w1]"),
        "{shown}"
    );

    std::fs::remove_file(dir.path().join("w2.yaml")).unwrap();
    let shown = world.until("explain 10.0.0.2 --host pay.shop", "TRB0559").await;
    assert!(shown.contains("no source lists 10.0.0.2 behind a port of pay.shop"), "{shown}");
    assert!(
        shown.contains("listed it for pay.shop:80 (WorkloadEntry shop/w2), and does so no longer"),
        "{shown}"
    );
    let other = world.run("explain 10.0.0.2 --host far.shop").await.out;
    assert!(other.contains("TRB0502") && !other.contains("TRB0559"), "{other}");
    std::fs::remove_file(dir.path().join("pay.yaml")).unwrap();
    let shown = world.until("explain 10.0.0.1", "TRB0559").await;
    assert!(shown.contains("no service selects it"), "{shown}");
    world.server.stop().await;
}

#[tokio::test]
async fn explanations_name_a_problem_of_the_object_and_who_removed_it() {
    let (dir, world) = mk_world().await;
    let mut client = mk_client(&world, Variant::Delta).await;
    client.stream.ack(&client.first).unwrap();
    let invalid = mk_entry("pay", "pay.shop", "10.0.0.1").replace("STATIC", "STATIK");
    put(dir.path(), "pay.yaml", &invalid);
    let shown = world.until("explain 10.0.0.1", "the object has a problem now").await;
    assert!(shown.contains("source     WARN") && shown.contains("STATIK"), "{shown}");
    assert!(shown.contains("10.0.0.1:80  served"), "the last valid version stays served: {shown}");

    std::fs::remove_file(dir.path().join("pay.yaml")).unwrap();
    let shown = world.until("explain 10.0.0.1", "TRB0559").await;
    assert!(
        shown.contains("registry file listed it for pay.shop:80, and does so no longer, for "),
        "{shown}"
    );
    let other = world.run("explain 10.0.0.2").await.out;
    let named = world.run("explain 10.0.0.2 -o name").await.exit;
    assert_eq!(named.map_err(|failure| failure.exit), Err(Exit::Usage), "an explanation has no name");
    assert!(other.contains("TRB0502") && !other.contains("TRB0559"), "{other}");
    let shown = world.run("why-not pay.shop --for-client web-1").await.out;
    assert!(shown.contains("TRB0524") && shown.contains("TRB0559"), "{shown}");
    assert!(shown.contains("registry file declared pay.shop, and does so no longer"), "{shown}");
    assert!(shown.contains("10.0.0.1:80  registry file listed it for pay.shop:80"), "{shown}");
    world.server.stop().await;
}

#[tokio::test]
async fn why_not_names_the_policy_the_federation_and_the_port() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (home.path().join("one"), home.path().join("two"));
    for folder in [&one, &two] {
        std::fs::create_dir(folder).unwrap();
    }
    let both = mk_entry("pay", "pay.shop", "10.0.0.1")
        .replace("protocol: HTTP}", "protocol: HTTP}, {number: 81, name: b, protocol: HTTP}");
    put(&one, "pay.yaml", &both);
    put(&one, "part.yaml", &mk_entry("part", "part.test", "10.0.1.1"));
    put(&two, "far.yaml", &mk_entry("far", "far.test", "10.0.2.1"));
    let config = format!(
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n- {{kind: file, name: one, path: {}}}\n\
         - {{kind: file, name: two, path: {}, staleness: withdraw(1s)}}\n\
         federatedServices: [{{host: fed.test, members: [{{registry: one, host: part.test}}]}}]\n",
        one.display(),
        two.display()
    );
    put(home.path(), "config.yaml", &config);
    let config = home.path().join("config.yaml").display().to_string();
    let world = World::start(&["--config", &config]).await;
    assert_eq!(world.run("wait --for=ready").await.exit, Ok(Exit::Ok));
    let _client = mk_client(&world, Variant::Delta).await;
    put(&one, "pay.yaml", &mk_entry("pay", "pay.shop", "10.0.0.1"));
    std::fs::remove_file(one.join("part.yaml")).unwrap();
    std::fs::rename(&two, home.path().join("away")).unwrap();

    let shown =
        world.until("why-not far.test --for-client web-1", "staleness policy withdraw(1s) applies").await;
    assert!(
        shown.contains("TRB0559") && !shown.contains("does so no longer"),
        "the source may list it still: {shown}"
    );
    let shown = world.until("why-not fed.test --for-client web-1", "TRB0559").await;
    assert!(shown.contains("the configuration declares it as a federated service"), "{shown}");
    assert!(!shown.contains("declared fed.test"), "the member declared another host: {shown}");
    let shown = world.until("why-not pay.shop:81 --for-client web-1", "TRB0559").await;
    assert!(
        shown.contains("10.0.0.1:81  registry one listed it for pay.shop:81, and does so no longer"),
        "{shown}"
    );
    assert!(!shown.contains("declared pay.shop") && shown.contains("TRB0525"), "{shown}");
    world.server.stop().await;
}
