//! What clients were sent: decoded resources, differences, short names.

use crate::world::{LONG, World, file_registry, mk_entry, mk_folder, put};
use serde_json::Value;
use tributary_app::exit::Exit;
use tributary_suites::ads::{CDS, EDS, RDS, node};
use tributary_suites::{AdsClient, Answer, Variant};

const PAY: &str = "outbound|80||pay.shop.example";

struct Client {
    stream: AdsClient,
    first: Answer,
}

async fn mk_client(world: &World, id: &str, kind: &str, names: &[&str]) -> Client {
    let xds = world.server.addresses().xds;
    let mut stream = AdsClient::connect(xds, Variant::Delta, node(id)).await.unwrap();
    stream.subscribe(kind, names).unwrap();
    let first = stream.next(LONG).await.unwrap();
    Client { stream, first }
}

async fn mk_world() -> (tempfile::TempDir, World) {
    let own =
        mk_entry("own", "own.shop.example", "10.0.0.2").replace("spec:\n", "spec:\n  exportTo: ['.']\n");
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop.example", "10.0.0.1")), ("own.yaml", own)]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    world.until("get endpoints", "10.0.0.2:80").await;
    (dir, world)
}

#[tokio::test]
async fn explanation_for_a_sidecar_names_its_route() {
    let (_dir, world) = mk_world().await;
    let id = "sidecar~10.9.0.9~web-1.web~web.svc.cluster.local";
    let mut client = mk_client(&world, id, EDS, &[PAY]).await;
    let explain = format!("explain 10.0.0.1 --for-client {id}");
    assert!(!world.run(&explain).await.out.contains("RDS"), "it has no routes yet");
    client.stream.subscribe(RDS, &["80"]).unwrap();
    while client.stream.next(LONG).await.unwrap().type_url != RDS {}
    let out = world.run(&explain).await.out;
    let line = out.lines().find(|line| line.contains("TRB0531")).unwrap_or_default();
    assert!(line.contains("RDS 80, virtual host pay.shop.example:80"), "{out}");
    assert!(line.ends_with(&format!("requests for pay.shop.example go to {PAY}")), "{out}");
    let out = world.run(&format!("why-not pay --for-client {id}")).await.out;
    let leads =
        format!("port 80 (HTTP): route table 80 leads requests for pay.shop.example to xDS cluster {PAY}");
    assert!(out.contains("1 endpoint served") && out.contains(&leads), "{out}");
    let of_port = world.run(&format!("why-not pay:81 --for-client {id}")).await.out;
    assert!(of_port.contains("pay.shop.example has no port 81"), "{of_port}");
    let out = world.run(&format!("why-not other.shop.example --for-client {id}")).await.out;
    assert!(out.contains("TRB0524") && !out.contains("TRB0534"), "{out}");
}

#[tokio::test]
async fn routes_name_the_filters_that_changed_them() {
    let (dir, world) = mk_world().await;
    let filter = |name: &str, patch: &str| {
        format!(
            "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec: {{configPatches: [{{{patch}}}]}}\n"
        )
    };
    let of_host = |kind: &str, host: &str, value: &str| {
        let matched =
            format!("match: {{routeConfiguration: {{vhost: {{name: \"{host}.shop.example:80\"}}}}}}");
        format!("applyTo: {kind}, {matched}, patch: {{operation: MERGE, value: {{{value}}}}}")
    };
    let all = "applyTo: ROUTE_CONFIGURATION, patch: {operation: MERGE, value: {max_direct_response_body_size_bytes: 9}}";
    let filters = [
        filter("of-route", &of_host("HTTP_ROUTE", "pay", "route: {timeout: 3s}")),
        filter("of-other", &of_host("HTTP_ROUTE", "own", "route: {timeout: 4s}")),
        filter("of-all", all),
    ];
    put(dir.path(), "filters.yaml", &filters.join("---\n"));
    world.until("get policies", "of-all").await;
    let id = "sidecar~10.9.0.9~web-1.shop~shop.svc.cluster.local";
    let client = mk_client(&world, id, RDS, &["80"]).await;
    assert_eq!(client.first.type_url, RDS);
    let command = |host: &str| format!("get routes {host}.shop.example --for-client {id} -o json");
    let (pay, own) = (world.run(&command("pay")).await.out, world.run(&command("own")).await.out);
    assert!(pay.contains("of-route") && !pay.contains("of-other"), "{pay}");
    assert!(own.contains("of-other") && !own.contains("of-route"), "{own}");
    let document: Value = serde_json::from_str(&pay).unwrap();
    assert_eq!(document["items"][0]["rules"].as_array().unwrap().len(), 1, "{pay}");
    let note = "EnvoyFilter shop/of-all changed the route table 80 for all hosts";
    assert_eq!(document["metadata"]["notes"], serde_json::json!([note]), "{pay}");
    world.server.stop().await;
}

#[tokio::test]
async fn resources_of_a_client_are_marked_and_decoded() {
    let (_dir, world) = mk_world().await;
    let mut client = mk_client(&world, "web-1", EDS, &[PAY]).await;
    let line = |table: &str| table.lines().find(|line| line.contains(PAY)).unwrap_or_default().to_owned();
    let table = world.run("get resources web-1").await;
    assert!(line(&table.out).starts_with("EDS ") && line(&table.out).contains("STALE"), "{}", table.out);
    client.stream.ack(&client.first).unwrap();
    world.until("get resources web-1 --type eds", "SYNCED").await;
    let document = world.run("get resources web-1 --host pay -o json").await;
    let document: Value = serde_json::from_str(&document.out).unwrap();
    let item = &document["items"][0];
    assert_eq!((&item["name"], &item["state"]), (&PAY.into(), &"SYNCED".into()), "{item}");
    let address = &item["body"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"];
    assert_eq!(address["socket_address"]["address"], "10.0.0.1", "{item}");
    let absent = world.run("get resources web-1 --resource absent").await.exit.unwrap_err();
    assert_eq!(
        (absent.exit, absent.code),
        (Exit::NotFound, Some(tributary_model::Code::NOT_FOUND)),
        "{absent}"
    );
    assert_eq!(world.run("get resources web-1 --host absent").await.exit, Ok(Exit::Ok), "a filter");
    let yaml = world.run("get resources web-1 -o yaml").await.out;
    assert!(yaml.contains("cluster_name: ") && yaml.contains("10.0.0.1"), "{yaml}");
    assert!(!world.run("get resources web-1").await.out.contains("10.0.0.1"), "a table has names only");
    let subset = "outbound|80|v1|pay.shop.example";
    client.stream.subscribe(EDS, &[PAY, subset]).unwrap();
    let table = world.until("get resources web-1", subset).await;
    let why = table.lines().find(|line| line.contains(subset)).unwrap_or_default();
    assert!(why.contains("no DestinationRule that applies to the client declares subset v1"), "{table}");
    let why = world.run(&format!("why-not {subset} --for-client web-1")).await;
    assert!(why.out.contains("TRB0541") && why.out.contains("no subset v1"), "{}", why.out);
    let none = world.run("get resources web-1 --type cds").await;
    assert_eq!((none.exit, none.talk.contains("no resources")), (Ok(Exit::Ok), true), "{}", none.talk);
    for (command, exit) in [
        ("get resources web-9", Exit::NotFound),
        ("get resources", Exit::Usage),
        ("get clients --type cds", Exit::Usage),
        ("get resources web-1 --registry x", Exit::Usage),
    ] {
        assert_eq!(world.run(command).await.exit.unwrap_err().exit, exit, "{command}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn rejected_resource_shows_the_clients_text() {
    let (_dir, world) = mk_world().await;
    let mut client = mk_client(&world, "web-1", CDS, &["*"]).await;
    client.stream.nack(&client.first, &format!("cluster {PAY}: no")).unwrap();
    let table = world.until("get resources web-1", "ERROR").await;
    let line = table.lines().find(|line| line.contains("ERROR")).unwrap();
    assert!(line.contains(PAY) && line.contains("cluster outbound|80||pay.shop.example: no"), "{table}");
    assert_eq!(table.matches("ERROR").count(), 1, "the text names one resource: {table}");
    world.server.stop().await;
}

#[tokio::test]
async fn clients_differ_by_what_their_namespace_sees() {
    let (_dir, world) = mk_world().await;
    let of = |pod: &str, ns: &str| format!("sidecar~10.9.9.9~{pod}.{ns}~{ns}.svc.cluster.local");
    let _a = mk_client(&world, &of("web-0", "shop"), CDS, &["*"]).await;
    let _b = mk_client(&world, &of("web-0", "other"), CDS, &["*"]).await;
    let _c = mk_client(&world, &of("web-1", "shop"), CDS, &["*"]).await;
    let result = world.run("diff web-0.shop web-0.other").await;
    assert_eq!(result.exit, Ok(Exit::Failed), "as of diff(1): {}", result.out);
    assert!(result.out.starts_with("a is web-0.shop, b is web-0.other\nTYPE"), "{}", result.out);
    let lines: Vec<&str> = result.out.lines().skip(2).collect();
    assert_eq!(lines.len(), 1, "{}", result.out);
    assert!(
        lines[0].contains("outbound|80||own.shop.example") && lines[0].contains("namespace shop / other")
    );
    let same = world.run("diff web-0.shop web-1").await;
    assert_eq!(same.exit, Ok(Exit::Ok), "{}", same.out);
    let ambiguous = world.run("diff web-0 web-1").await.exit.unwrap_err();
    assert_eq!(ambiguous.exit, Exit::NotFound);
    assert!(
        ambiguous.message.contains("web-0.other") && ambiguous.message.contains("web-0.shop"),
        "{ambiguous}"
    );
    let gone = world.run("diff web-0.shop missing").await.exit.unwrap_err();
    assert_eq!(gone.exit, Exit::NotFound, "{gone}");
    world.server.stop().await;
}

#[tokio::test]
async fn unreachable_server_is_trouble_and_not_a_difference() {
    let (_dir, world) = mk_world().await;
    let admin = world.server.addresses().admin;
    world.server.stop().await;
    let args = ["tributary", "diff", "a", "b", "--server", &admin.to_string()];
    let command = <tributary_app::args::Cli as clap::Parser>::try_parse_from(args).unwrap().command;
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let mut console =
        tributary_app::cli::Console { out: &mut out, talk: &mut talk, terminal: false, color: false };
    let environment = tributary_app::environment::Environment::default();
    let failure = tributary_app::cli::run(command, &environment, &mut console).await.unwrap_err();
    assert_eq!(failure.exit as u8, 2, "{failure}");
}

#[tokio::test]
async fn short_host_names_are_completed() {
    let (_dir, world) = mk_world().await;
    let _client = mk_client(&world, "web-1", EDS, &[PAY]).await;
    assert!(world.run("get endpoints --host pay").await.out.contains("10.0.0.1:80"));
    assert_eq!(world.run("explain 10.0.0.1 --host pay.shop").await.exit, Ok(Exit::Ok));
    let why = world.run("why-not pay --for-client web-1").await;
    assert!(why.out.contains("pay.shop.example") && why.out.contains("1 endpoint served"), "{}", why.out);
    world.server.stop().await;
}

#[tokio::test]
async fn different_streams_of_one_node_id_are_an_error() {
    let (_dir, world) = mk_world().await;
    let own = "outbound|80||own.shop.example";
    let mut a = mk_client(&world, "web-1", EDS, &[PAY]).await;
    let mut b = mk_client(&world, "web-1", EDS, &[PAY]).await;
    let of_pay = "why-not pay --for-client web-1";
    for stream in [&mut a, &mut b] {
        stream.stream.ack(&stream.first).unwrap();
    }
    let synced = async {
        while world.run("get clients").await.out.matches("SYNCED").count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, synced).await.unwrap();
    for command in [of_pay, "explain 10.0.0.1 --for-client web-1", "get resources web-1", "diff web-1 web-1"]
    {
        let same = world.run(command).await;
        assert_eq!(same.exit, Ok(Exit::Ok), "{command}: {}", same.out);
        assert!(same.talk.contains("2 streams share the node id"), "{command}: {}", same.talk);
    }
    b.stream.subscribe(EDS, &[PAY, own]).unwrap();
    world.until("get clients", "EDS 2").await;
    let mut names: Vec<String> = Vec::new();
    for command in [of_pay, "explain 10.0.0.1 --for-client web-1", "get resources web-1", "diff web-1 web-1"]
    {
        let error = world.run(command).await.exit.unwrap_err();
        assert!(error.message.contains("`web-1` may be 2 streams"), "{command}: {error}");
        for named in [PAY, own] {
            assert!(error.message.contains(&format!(" with EDS {named}")), "{command}: {error}");
        }
        names = error
            .message
            .split_whitespace()
            .filter(|name| name.starts_with("web-1-"))
            .map(str::to_owned)
            .collect();
        assert_eq!(names.len(), 2, "{command}: {error}");
    }
    let mut holders = 0;
    for name in &names {
        let one = world.run(&format!("get resources {name}")).await;
        assert!(one.out.contains(PAY) && one.talk.is_empty(), "{name}: {}{}", one.out, one.talk);
        holders += usize::from(one.out.contains(own));
    }
    assert_eq!(holders, 1, "each name selects its own stream");
    world.server.stop().await;
}
