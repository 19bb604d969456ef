//! VirtualServices in the command line: the routes of a client to a host, and which of them decides.

use crate::world::{LONG, World, file_registry, mk_folder, put};
use envoy_types::pb::envoy::config::core::v3::Node;
use grpc::mk_versions;
use serde_json::Value;
use tributary_app::exit::Exit;
use tributary_suites::ads::{CDS, EDS, LDS, RDS, node};
use tributary_suites::{AdsClient, Variant};

mod aliases;
mod elsewhere;
mod grpc;
mod left_out;
mod listeners;
mod lost;
mod own_listeners;
mod rejected;
mod taken;

const SIDECAR: &str = "sidecar~10.9.0.9~web-1.shop~shop.svc.cluster.local";
const PAY: &str = "outbound|80||pay.shop.example";
const OLD: &str = "outbound|80||old.shop.example";

fn mk_object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{{spec}}}\n"
    )
}

fn mk_service(name: &str, address: &str, ports: &str) -> String {
    let spec = format!(
        "hosts: [{name}.shop.example], addresses: [10.96.0.{}], ports: [{ports}], resolution: STATIC, endpoints: [{{address: {address}}}]",
        address.rsplit_once('.').unwrap().1
    );
    mk_object("ServiceEntry", name, &spec)
}

async fn mk_world(routes: &str) -> (tempfile::TempDir, World) {
    let ports = "{number: 80, name: http, protocol: HTTP}, {number: 5432, name: sql, protocol: TCP}";
    let tcp = "tcp: [{route: [{destination: {host: old.shop.example}, weight: 1}, {destination: {host: pay.shop.example}, weight: 3}]}]";
    let spec = format!("hosts: [pay.shop.example], http: [{routes}], {tcp}");
    let dir = mk_folder(&[
        ("pay.yaml", mk_service("pay", "10.0.0.1", ports)),
        ("old.yaml", mk_service("old", "10.0.0.2", ports)),
        ("routes.yaml", mk_object("VirtualService", "pay-routes", &spec)),
        (
            "none.yaml",
            mk_object(
                "VirtualService",
                "none",
                "hosts: [none.shop.example], http: [{directResponse: {status: 418}}]",
            ),
        ),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:80").await;
    world.until("get policies", "pay-routes").await;
    (dir, world)
}

async fn connect(world: &World, id: &str, agent: &str, wanted: &[(&str, &[&str])]) -> AdsClient {
    connect_as(world, Node { user_agent_name: agent.to_owned(), ..node(id) }, wanted).await
}

async fn connect_as(world: &World, of: Node, wanted: &[(&str, &[&str])]) -> AdsClient {
    let mut stream = AdsClient::connect(world.server.addresses().xds, Variant::Delta, of).await.unwrap();
    for (kind, names) in wanted {
        stream.subscribe(kind, names).unwrap();
        let response = stream.next(LONG).await.unwrap();
        stream.ack(&response).unwrap();
    }
    stream
}

/// Connects a sidecar that holds clusters, endpoints, listeners and the route table of port 80.
async fn connect_sidecar(world: &World) -> AdsClient {
    let wanted: [(&str, &[&str]); 4] = [(CDS, &["*"]), (EDS, &[PAY, OLD]), (LDS, &["*"]), (RDS, &["80"])];
    let stream = connect(world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    stream
}

const CANARY: &str = "{name: canary, match: [{headers: {x-canary: {exact: \"yes\"}}, uri: {prefix: /api}}], \
    route: [{destination: {host: old.shop.example}}], timeout: 5s}, \
    {name: rest, route: [{destination: {host: pay.shop.example}, weight: 90}, {destination: {host: old.shop.example}, weight: 10}]}";

#[tokio::test]
async fn routes_of_a_sidecar_are_listed_in_order() {
    let (_dir, world) = mk_world(CANARY).await;
    let _stream = connect_sidecar(&world).await;
    let list = world.run(&format!("get routes pay --for-client {SIDECAR} -o wide")).await;
    assert_eq!(list.exit, Ok(Exit::Ok), "{}", list.out);
    let lines: Vec<&str> = list.out.lines().collect();
    let parts = [
        ("80", "1", vec!["path /api*, header x-canary = yes", OLD, "timeout 5 s", "canary"]),
        ("80", "2", vec!["any request", "90 % outbound|80||pay.shop.example, 10 % outbound|80||old", "rest"]),
        (
            "5432",
            "1",
            vec!["destination 10.96.0.1", "25 % outbound|5432||old.shop.example, 75 % outbound|5432||pay"],
        ),
    ];
    for ((port, order, texts), line) in parts.into_iter().zip(&lines[1..]) {
        let mut fields = line.split_whitespace();
        assert_eq!((fields.next(), fields.next()), (Some(port), Some(order)), "{line}");
        assert!(texts.iter().all(|text| line.contains(text)), "{texts:?} in {line}");
        assert!(
            line.contains("VirtualService shop/pay-routes (") && line.contains("/routes.yaml:1:1)"),
            "{line}"
        );
        assert!(line.contains("SYNCED"), "{line}");
    }
    assert_eq!(lines.len(), 4, "{}", list.out);

    let one = world.run(&format!("get routes pay:80 --for-client {SIDECAR} -o json")).await.out;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["items"].as_array().map(Vec::len), Some(2), "{one}");
    assert_eq!(one["items"][1]["clusters"][1]["weight"], 10, "{one}");
    assert_eq!(one["items"][0]["rules"][0]["kind"], "VirtualService", "{one}");

    let none = world.run(&format!("get routes none.shop.example --for-client {SIDECAR}")).await.out;
    assert!(none.contains("answer 418") && none.contains("VirtualService shop/none"), "{none}");
    assert!(none.lines().nth(1).unwrap().starts_with("80 "), "the port of the table: {none}");
    world.server.stop().await;
}

#[tokio::test]
async fn table_of_a_port_that_the_service_lacks_is_listed() {
    let (dir, world) = mk_world(CANARY).await;
    let api = mk_service("api", "10.0.0.3", "{number: 8080, name: http, protocol: HTTP}");
    let spec = "hosts: [api.shop.example], http: [{directResponse: {status: 418}}]";
    let text = format!("{api}---\n{}", mk_object("VirtualService", "api", spec));
    std::fs::write(dir.path().join("api.yaml"), text).unwrap();
    world.until("get policies", "api.shop.example").await;
    world.until("get endpoints", "10.0.0.3:8080").await;
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (LDS, &["*"]), (RDS, &["80", "8080"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    let list = world.until(&format!("get routes api --for-client {SIDECAR}"), "418").await;
    let ports: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ports, ["80", "8080"], "{list}");
    world.server.stop().await;
}

#[tokio::test]
async fn delegates_of_a_route_are_named() {
    let routes = "{match: [{uri: {prefix: /api}}], delegate: {name: pay-api}}, {route: [{destination: {host: old.shop.example}}]}";
    let (dir, world) = mk_world(routes).await;
    let spec = "http: [{timeout: 7s, route: [{destination: {host: pay.shop.example}}]}]";
    std::fs::write(dir.path().join("api.yaml"), mk_object("VirtualService", "pay-api", spec)).unwrap();
    world.until("get policies", "pay-api").await;
    let _stream = connect_sidecar(&world).await;
    let list = world.until(&format!("get routes pay:80 --for-client {SIDECAR} -o wide"), "timeout 7 s").await;
    let first = list.lines().nth(1).unwrap();
    let named = ["VirtualService shop/pay-routes (", "VirtualService shop/pay-api ("];
    assert!(named.iter().all(|name| first.contains(name)) && first.contains("/api.yaml:1:1)"), "{first}");
    let second = list.lines().nth(2).unwrap();
    assert!(
        second.contains(named[0]) && !second.contains(named[1]),
        "its VirtualService declares it: {second}"
    );
    let resources = world.run(&format!("get resources {SIDECAR} --type rds")).await.out;
    assert!(resources.contains("VirtualService shop/pay-api"), "{resources}");
    let why = world.run(&format!("why-not pay.shop.example --for-client {SIDECAR}")).await.out;
    assert!(why.contains("with the routes of its delegates shop/pay-api"), "{why}");
    world.server.stop().await;
}

#[tokio::test]
async fn host_without_a_route_is_an_error_that_names_where_requests_go() {
    let (_dir, world) = mk_world(CANARY).await;
    let _stream = connect_sidecar(&world).await;
    let error = world.run(&format!("get routes other.test --for-client {SIDECAR}")).await.exit.unwrap_err();
    assert_eq!(error.exit, Exit::NotFound);
    assert!(error.message.contains("requests for it go to PassthroughCluster"), "{}", error.message);
    for wrong in ["get routes pay", "get routes", "get services --for-client x"] {
        assert_eq!(world.run(wrong).await.exit.unwrap_err().exit, Exit::Usage, "{wrong}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn explain_and_why_not_name_the_virtual_service_that_decides() {
    let (_dir, world) = mk_world(CANARY).await;
    let _stream = connect_sidecar(&world).await;
    for command in ["explain 10.0.0.1 --host pay:80", "why-not pay:80"] {
        let out = world.run(&format!("{command} --for-client {SIDECAR} -o wide")).await.out;
        assert!(out.contains("TRB0547") && out.contains("it routes requests"), "{command}: {out}");
        assert!(out.contains("/routes.yaml:1:1)"), "{command}: {out}");
        assert!(out.contains("TRB0531"), "{command}: {out}");
        assert!(
            out.contains("take 2 routes of VirtualService shop/pay-routes, of which 1 leads to"),
            "{out}"
        );
    }
    let none = world.run(&format!("why-not none.shop.example --for-client {SIDECAR}")).await.out;
    assert!(none.contains("TRB0531") && none.contains("answer 418"), "{none}");
    world.server.stop().await;
}

#[tokio::test]
async fn service_that_no_route_leads_to_is_a_warning() {
    let elsewhere = "{match: [{uri: {prefix: /a}}], redirect: {uri: /b}}, {route: [{destination: {host: old.shop.example}}]}";
    let (_dir, world) = mk_world(elsewhere).await;
    let _stream = connect_sidecar(&world).await;
    let shown = world.run(&format!("why-not pay:80 --for-client {SIDECAR}")).await;
    let why = shown.out;
    assert_eq!(shown.exit, Ok(Exit::No), "{why}");
    assert!(why.contains("1 endpoint served, but not reached") && why.contains("TRB0532"), "{why}");
    assert!(why.contains("take 2 routes of VirtualService shop/pay-routes, of which 0 lead to"), "{why}");
    assert!(!why.contains("TRB0534"), "nothing leads there: {why}");
    world.server.stop().await;
}

#[tokio::test]
async fn service_that_routes_of_another_host_lead_to_is_reached() {
    let to = |name: &str| format!("destination: {{host: {name}.shop.example}}");
    let elsewhere = format!("{{route: [{{{}}}], mirror: {{host: pay.shop.example}}}}", to("old"));
    let (dir, world) = mk_world(&elsewhere).await;
    let answer = "hosts: [old.shop.example], http: [{directResponse: {status: 418}}]";
    std::fs::write(dir.path().join("old-routes.yaml"), mk_object("VirtualService", "old-routes", answer))
        .unwrap();
    world.until("get policies", "old-routes").await;
    let _stream = connect_sidecar(&world).await;
    for (host, receives) in
        [("old", "routes lead to xDS cluster outbound|80||old"), ("pay", "outbound|80||pay")]
    {
        let shown = world.run(&format!("why-not {host}.shop.example:80 --for-client {SIDECAR}")).await;
        assert_eq!(shown.exit, Ok(Exit::Ok), "{}", shown.out);
        assert!(shown.out.contains("TRB0531") && shown.out.contains(receives), "{}", shown.out);
        assert!(!shown.out.contains("not reached"), "{}", shown.out);
    }
    world.server.stop().await;
}

#[tokio::test]
async fn subset_that_no_route_leads_to_is_not_reached() {
    let (_dir, world) = mk_versions().await;
    let of = |subset: &str| format!("outbound|80|{subset}|pay.shop.example");
    let (first, second) = (of("v1"), of("v2"));
    let wanted: [(&str, &[&str]); 4] =
        [(CDS, &["*"]), (EDS, &[&first, &second]), (LDS, &["*"]), (RDS, &["80"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let why = |subset: &str| format!("why-not pay.shop.example --subset {subset} --for-client {SIDECAR}");
    let first = world.run(&why("v1")).await;
    assert_eq!(first.exit, Ok(Exit::Ok), "{}", first.out);
    assert!(first.out.contains("TRB0531"), "{}", first.out);
    let second = world.run(&why("v2")).await;
    assert_eq!(second.exit, Ok(Exit::No), "{}", second.out);
    let text =
        "no route or listener that the client was sent leads to xDS cluster outbound|80|v2|pay.shop.example";
    assert!(second.out.contains(text) && second.out.contains("not reached"), "{}", second.out);
    world.server.stop().await;
}

#[tokio::test]
async fn connections_that_routes_lead_to_a_subset_reach_the_service() {
    let endpoint = |of: u8| format!("{{address: 10.0.0.{of}, labels: {{version: v{of}}}}}");
    let service = format!(
        "hosts: [db.shop.example], addresses: [10.96.0.3], ports: [{{number: 3306, name: sql, protocol: TCP}}], \
         resolution: STATIC, endpoints: [{}, {}]",
        endpoint(1),
        endpoint(2)
    );
    let rule = "host: db.shop.example, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]";
    let routes =
        "hosts: [db.shop.example], tcp: [{route: [{destination: {host: db.shop.example, subset: v1}}]}]";
    let dir = mk_folder(&[
        ("db.yaml", mk_object("ServiceEntry", "db", &service)),
        ("rule.yaml", mk_object("DestinationRule", "db", rule)),
        ("routes.yaml", mk_object("VirtualService", "db-routes", routes)),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:3306").await;
    world.until("get policies", "db-routes").await;
    let of = |subset: &str| format!("outbound|3306|{subset}|db.shop.example");
    let names = [of(""), of("v1"), of("v2")];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, &names), (LDS, &["*"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let why = world.run(&format!("why-not db.shop.example --for-client {SIDECAR}")).await;
    assert_eq!(why.exit, Ok(Exit::Ok), "{}", why.out);
    let led = "listener 10.96.0.3_3306 leads connections to xDS cluster outbound|3306|v1|db.shop.example";
    assert!(why.out.contains(led) && !why.out.contains("TRB0532"), "{}", why.out);
    let explain = |at: u8| format!("explain 10.0.0.{at}:3306 --host db.shop.example --for-client {SIDECAR}");
    let first = world.run(&explain(1)).await.out;
    assert!(first.contains("TRB0534") && !first.contains("TRB0532"), "{first}");
    let second = world.run(&explain(2)).await.out;
    let lost = "connections go to outbound|3306|v1|db.shop.example, not to outbound|3306||db.shop.example with the endpoint";
    assert!(second.contains("TRB0532") && second.contains(lost), "{second}");
    world.server.stop().await;
}

#[tokio::test]
async fn destination_that_does_not_exist_is_named_with_its_virtual_service() {
    let to = |name: &str| format!("{{destination: {{host: {name}.shop.example}}, weight: 1}}");
    let (_dir, world) = mk_world(&format!("{{route: [{}, {}]}}", to("pay"), to("pya"))).await;
    let _stream = connect_sidecar(&world).await;
    let why = world.run(&format!("why-not pay.shop.example:80 --for-client {SIDECAR} -o wide")).await.out;
    let line =
        why.lines().find(|line| line.contains("outbound|80||pya.shop.example, which")).unwrap_or_default();
    assert!(why.contains("TRB0450") && line.contains("VirtualService shop/pay-routes"), "{why}");
    world.server.stop().await;
}

#[tokio::test]
async fn receiver_of_copies_that_does_not_exist_is_named() {
    let to = |name: &str| format!("{{host: {name}.shop.example}}");
    let mirrored = format!("{{route: [{{destination: {}}}], mirror: {}}}", to("pay"), to("pya"));
    let (_dir, world) = mk_world(&mirrored).await;
    let _stream = connect_sidecar(&world).await;
    let missing = "send copies to xDS cluster outbound|80||pya.shop.example, which the client was not sent";
    let of_client = format!("--for-client {SIDECAR} -o wide");
    for command in ["why-not pay.shop.example:80", "explain 10.0.0.1:80 --host pay.shop.example"] {
        let why = world.run(&format!("{command} {of_client}")).await.out;
        let line = why.lines().find(|line| line.contains(missing)).unwrap_or_default();
        assert!(why.contains("TRB0450") && line.contains("VirtualService shop/pay-routes"), "{why}");
    }
    let routes = world.run(&format!("get routes pay.shop.example {of_client}")).await.out;
    assert!(routes.contains("no xDS cluster outbound|80||pya.shop.example"), "{routes}");
    world.server.stop().await;
}

#[tokio::test]
async fn clients_with_routes_of_their_own_lack_no_virtual_service() {
    let (_dir, world) = mk_world(CANARY).await;
    let wanted: [(&str, &[&str]); 2] = [(CDS, &[PAY]), (EDS, &[PAY])];
    let _stream = connect(&world, "plain", "", &wanted).await;
    world.until("get clients", "plain").await;
    let shown = world.run("why-not pay.shop.example:80 --for-client plain").await;
    assert!(shown.exit == Ok(Exit::Ok) && !shown.out.contains("TRB0550"), "{}", shown.out);
    world.server.stop().await;
}

#[tokio::test]
async fn virtual_service_whose_routes_are_left_out_is_named() {
    let (_dir, world) = mk_world("{delegate: {name: missing}}").await;
    let _stream = connect_sidecar(&world).await;
    let shown = world.run(&format!("why-not pay:80 --for-client {SIDECAR}")).await;
    let line = shown.out.lines().find(|line| line.contains("TRB0550")).unwrap_or_default();
    assert!(line.contains("WARN") && line.contains("VirtualService shop/pay-routes"), "{}", shown.out);
    assert_eq!(shown.exit, Ok(Exit::Ok), "requests take the usual route: {}", shown.out);
    let old = world.run(&format!("why-not old.shop.example:80 --for-client {SIDECAR}")).await.out;
    assert!(!old.contains("TRB0550"), "{old}");
    world.server.stop().await;
}

#[tokio::test]
async fn resources_name_the_virtual_services_that_they_are_from() {
    let (_dir, world) = mk_world(CANARY).await;
    let _stream = connect_sidecar(&world).await;
    let out = world.run(&format!("get resources {SIDECAR}")).await.out;
    let line = |of: &str| out.lines().find(|line| line.contains(of)).unwrap_or_default().to_owned();
    let table = line("RDS");
    assert!(table.contains("VirtualService shop/none, VirtualService shop/pay-routes"), "{out}");
    assert!(line("10.96.0.1_5432").contains("VirtualService shop/pay-routes"), "{out}");
    assert!(!line("10.96.0.2_5432").contains("VirtualService"), "{out}");
    world.server.stop().await;
}

#[tokio::test]
async fn filter_that_removes_a_virtual_host_or_a_cluster_is_named() {
    let (dir, world) = mk_world(CANARY).await;
    let remove = |name: &str, of: &str| {
        let patch = format!("configPatches: [{{{of}, patch: {{operation: REMOVE}}}}]");
        mk_object("EnvoyFilter", name, &patch)
    };
    let texts = [
        remove(
            "no-host",
            "applyTo: VIRTUAL_HOST, match: {routeConfiguration: {vhost: {name: \"pay.shop.example:80\"}}}",
        ),
        remove(
            "no-cluster",
            "applyTo: CLUSTER, match: {cluster: {service: old.shop.example, portNumber: 80}}",
        ),
    ];
    std::fs::write(dir.path().join("filters.yaml"), texts.join("---\n")).unwrap();
    world.until("get policies", "no-cluster").await;
    let wanted: [(&str, &[&str]); 4] = [(CDS, &["*"]), (EDS, &[PAY]), (LDS, &["*"]), (RDS, &["80"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let of_host =
        "RDS 80 has no virtual host for pay.shop.example after the changes of EnvoyFilter shop/no-host";
    let explain = format!("explain 10.0.0.1:80 --host pay.shop.example --for-client {SIDECAR}");
    let shown = world.run(&explain).await.out;
    assert!(shown.contains(of_host), "{shown}");
    let list = world.run(&format!("get routes pay:80 --for-client {SIDECAR}")).await;
    let text = format!("{}{:?}", list.out, list.exit);
    assert!(text.contains("route tables were changed by EnvoyFilter shop/no-host"), "{text}");
    let removed = "EnvoyFilter shop/no-cluster removes CDS outbound|80||old.shop.example";
    for command in [
        format!("explain 10.0.0.2:80 --host old.shop.example --for-client {SIDECAR}"),
        format!("why-not old.shop.example:80 --for-client {SIDECAR}"),
    ] {
        let shown = world.run(&command).await.out;
        assert!(shown.contains(removed), "{shown}");
    }
    world.server.stop().await;
}

#[tokio::test]
async fn cluster_that_routes_lead_to_and_that_was_not_sent_is_named() {
    let (dir, world) = mk_versions().await;
    let text = "hosts: [pay.shop.example], http: [{route: [{destination: {host: pay.shop.example, subset: v1}, weight: 1}, {destination: {host: pay.shop.example, subset: v9}, weight: 1}]}]";
    std::fs::write(dir.path().join("routes.yaml"), mk_object("VirtualService", "to-v1", text)).unwrap();
    world.until("get policies -o wide", "TRB0451").await;
    let _stream = connect_sidecar(&world).await;
    let lost = "outbound|80|v9|pay.shop.example";
    let why = world.run(&format!("why-not pay.shop.example --for-client {SIDECAR}")).await.out;
    assert!(why.contains("TRB0541") && why.contains(&format!("lead to xDS cluster {lost}, which")), "{why}");
    let routes = world.run(&format!("get routes pay.shop.example --for-client {SIDECAR} -o wide")).await.out;
    assert!(routes.contains(&format!("no xDS cluster {lost}")), "{routes}");
    assert!(!routes.contains("no xDS cluster outbound|80|v1|"), "{routes}");
    world.server.stop().await;
}

#[tokio::test]
async fn share_of_an_empty_subset_is_a_condition() {
    let (dir, world) = mk_versions().await;
    let write = |routes: &str| {
        let text = format!("hosts: [pay.shop.example], http: [{routes}]");
        std::fs::write(dir.path().join("routes.yaml"), mk_object("VirtualService", "to-v1", &text)).unwrap();
    };
    write(
        "{route: [{destination: {host: pay.shop.example, subset: v1}, weight: 1}, {destination: {host: pay.shop.example, subset: v2}, weight: 1}]}",
    );
    let pay = std::fs::read_to_string(dir.path().join("pay.yaml")).unwrap();
    std::fs::write(dir.path().join("pay.yaml"), pay.replace("version: v2", "version: v3")).unwrap();
    let policies = world.until("get policies -o wide", "TRB0457").await;
    assert!(policies.contains("(v2 of pay.shop.example)"), "{policies}");
    world.server.stop().await;
}
