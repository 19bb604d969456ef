//! Routes to xDS clusters that a client was not sent, or that have no endpoints.

use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use super::*;

const V1: &str = "outbound|80|v1|pay.shop.example";
const V2: &str = "outbound|80|v2|pay.shop.example";

/// Runs a command for the sidecar.
async fn run(world: &World, command: &str) -> (String, Exit) {
    let shown = world.run(&format!("{command} --for-client {SIDECAR} -o wide")).await;
    (shown.out, shown.exit.unwrap())
}

/// Returns the only line with a text.
fn line_with<'t>(shown: &'t str, text: &str) -> &'t str {
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(text)).collect();
    assert_eq!(lines.len(), 1, "{text}: {shown}");
    lines[0]
}

/// Starts a world with a database, whose VirtualService has these routes of connections, and connects a sidecar.
async fn mk_database(routes: &str) -> (tempfile::TempDir, World, AdsClient) {
    let ports = "{number: 23302, name: sql, protocol: TCP}, {number: 443, name: tls, protocol: TLS}";
    let spec = format!("hosts: [db.shop.example], {routes}");
    let dir = mk_folder(&[
        ("db.yaml", mk_service("db", "10.0.0.5", ports)),
        ("routes.yaml", mk_object("VirtualService", "db-routes", &spec)),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.5:23302").await;
    world.until("get policies", "db-routes").await;
    let endpoints: &[&str] = &["outbound|23302||db.shop.example", "outbound|443||db.shop.example"];
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, endpoints), (LDS, &["*"])];
    let stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    (dir, world, stream)
}

#[tokio::test]
async fn connections_to_a_missing_subset_are_not_reached() {
    let to = |subset: &str| format!("route: [{{destination: {{host: db.shop.example, subset: {subset}}}}}]");
    let routes = format!(
        "tcp: [{{match: [{{port: 23302}}], {}}}], tls: [{{match: [{{port: 443, sniHosts: [db.shop.example]}}], {}}}]",
        to("v1"),
        to("v9")
    );
    let (_dir, world, _stream) = mk_database(&routes).await;
    for (port, subset) in [(23302, "v1"), (443, "v9")] {
        let cluster = format!("outbound|{port}|{subset}|db.shop.example");
        let missing = format!(
            "connections to db.shop.example go to xDS cluster {cluster}, which the client was not sent: no DestinationRule that applies to the client declares subset {subset}"
        );
        let (why, exit) = run(&world, &format!("why-not db.shop.example:{port}")).await;
        assert!(line_with(&why, &missing).contains("VirtualService shop/db-routes"), "{why}");
        assert!(why.contains("TRB0541") && why.contains("1 endpoint served, but not reached"), "{why}");
        assert_eq!((exit, why.contains("TRB0534")), (Exit::No, false), "{why}");
        let (explained, _) = run(&world, &format!("explain 10.0.0.5:{port} --host db.shop.example")).await;
        assert!(line_with(&explained, &missing).contains("TRB0541"), "{explained}");
        let (list, _) = run(&world, &format!("get routes db.shop.example:{port}")).await;
        line_with(&list, &format!("no xDS cluster {cluster}"));
    }
    world.server.stop().await;
}

#[tokio::test]
async fn connections_of_which_a_part_is_lost_are_reached() {
    let to = |of: &str| {
        format!("{{destination: {{host: {of}.shop.example, port: {{number: 23302}}}}, weight: 1}}")
    };
    let routes = format!("tcp: [{{match: [{{port: 23302}}], route: [{}, {}]}}]", to("db"), to("bd"));
    let (_dir, world, _stream) = mk_database(&routes).await;
    let (why, exit) = run(&world, "why-not db.shop.example:23302").await;
    assert_eq!(exit, Exit::Ok, "{why}");
    let missing = "xDS cluster outbound|23302||bd.shop.example, which the client was not sent: no service";
    line_with(&why, missing);
    assert!(why.contains("TRB0450") && why.contains("TRB0534") && !why.contains("not reached"), "{why}");
    let (list, _) = run(&world, "get routes db.shop.example:23302").await;
    line_with(&list, "no xDS cluster outbound|23302||bd.shop.example");
    assert!(!list.contains("no xDS cluster outbound|23302||db"), "{list}");
    world.server.stop().await;
}

/// Starts a world with a service, of which subset v1 has no endpoint, and these shares of its requests for subsets.
async fn mk_empty_subset(shares: &[&str]) -> (tempfile::TempDir, World) {
    let (dir, world) = mk_versions().await;
    let share = |of: &&str| format!("{{destination: {{host: pay.shop.example, subset: {of}}}, weight: 1}}");
    let shares: Vec<String> = shares.iter().map(share).collect();
    let spec = format!("hosts: [pay.shop.example], http: [{{route: [{}]}}]", shares.join(", "));
    put(dir.path(), "routes.yaml", &mk_object("VirtualService", "to-v1", &spec));
    let pay = std::fs::read_to_string(dir.path().join("pay.yaml")).unwrap();
    put(dir.path(), "pay.yaml", &pay.replace("version: v1", "version: v3"));
    world.until("get policies -o wide", "TRB0457").await;
    (dir, world)
}

async fn connect_to_subsets(world: &World) -> AdsClient {
    let wanted: [(&str, &[&str]); 4] = [(CDS, &["*"]), (EDS, &[PAY, V1, V2]), (LDS, &["*"]), (RDS, &["80"])];
    let stream = connect(world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    stream
}

const EMPTY: &str = "RDS 80: routes for pay.shop.example lead to xDS cluster outbound|80|v1|pay.shop.example, of which the client \
    was sent no endpoints: the client may use no endpoint with the labels of subset v1";

#[tokio::test]
async fn host_of_which_every_request_goes_to_an_empty_subset_is_not_reached() {
    let (_dir, world) = mk_empty_subset(&["v1"]).await;
    let _stream = connect_to_subsets(&world).await;
    let (why, exit) = run(&world, "why-not pay.shop.example").await;
    assert!(line_with(&why, EMPTY).contains("VirtualService shop/to-v1"), "{why}");
    assert!(why.contains("TRB0457") && why.contains("2 endpoints served, but not reached"), "{why}");
    assert_eq!((exit, why.contains("TRB0534")), (Exit::No, false), "{why}");
    let (explained, _) = run(&world, "explain 10.0.0.1:80 --host pay.shop.example").await;
    assert!(line_with(&explained, EMPTY).contains("TRB0457"), "{explained}");
    let (list, _) = run(&world, "get routes pay.shop.example").await;
    line_with(&list, &format!("no endpoints of xDS cluster {V1}"));
    world.server.stop().await;
}

#[tokio::test]
async fn host_of_which_a_part_of_the_requests_goes_to_an_empty_subset_is_reached() {
    let (_dir, world) = mk_empty_subset(&["v1", "v2"]).await;
    let _stream = connect_to_subsets(&world).await;
    let (why, exit) = run(&world, "why-not pay.shop.example").await;
    line_with(&why, EMPTY);
    assert!(why.contains("TRB0531") && !why.contains("not reached"), "{why}");
    assert_eq!(exit, Exit::Ok, "{why}");
    let (list, _) = run(&world, "get routes pay.shop.example").await;
    assert!(!list.contains(&format!("no endpoints of xDS cluster {V2}")), "{list}");
    world.server.stop().await;
}

#[tokio::test]
async fn empty_subset_of_a_grpc_client_is_named() {
    let (_dir, world) = mk_empty_subset(&["v1"]).await;
    let wanted: [(&str, &[&str]); 4] =
        [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY]), (CDS, &[V1]), (EDS, &[V1])];
    let _stream = connect(&world, "grpc-1", "gRPC C-core", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let why = world.run("why-not pay.shop.example --for-client grpc-1").await;
    let text = format!("routes lead to xDS cluster {V1}: the client may use no endpoint with the labels");
    assert!(why.out.contains("TRB0457"), "{}", why.out);
    line_with(&why.out, &text);
    assert_eq!(why.exit, Ok(Exit::No), "{}", why.out);
    world.server.stop().await;
}

#[tokio::test]
async fn host_of_which_every_destination_is_missing_is_not_reached() {
    let missing = [
        ("host: pay.shop.example, subset: v9", "TRB0541", "outbound|80|v9|pay.shop.example"),
        ("host: pya.shop.example", "TRB0450", "outbound|80||pya.shop.example"),
    ];
    for (to, code, cluster) in missing {
        let (dir, world) = mk_world(&format!("{{route: [{{destination: {{{to}}}}}]}}")).await;
        // requests for another host reach the service
        let spec = "hosts: [old.shop.example], http: [{route: [{destination: {host: pay.shop.example}}]}]";
        put(dir.path(), "old-routes.yaml", &mk_object("VirtualService", "old-routes", spec));
        world.until("get policies", "old-routes").await;
        let _stream = connect_sidecar(&world).await;
        let (why, exit) = run(&world, "why-not pay.shop.example:80").await;
        assert!(why.contains("1 endpoint served, but not reached") && why.contains(code), "{why}");
        line_with(&why, &format!("lead to xDS cluster {cluster}, which the client was not sent"));
        assert_eq!(exit, Exit::No, "{why}");
        world.server.stop().await;
    }
}

#[tokio::test]
async fn connections_that_another_service_has_are_listed_as_such() {
    let ports = "{number: 23302, name: sql, protocol: TCP}";
    let dir = mk_folder(&[
        ("db.yaml", mk_service("db", "10.0.0.5", ports)),
        ("two.yaml", mk_service("two", "10.0.0.6", ports)),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.5:23302").await;
    world.until("get endpoints", "10.0.0.6:23302").await;
    let mode = Value { kind: Some(Kind::StringValue("NONE".into())) };
    let metadata = Some(Struct { fields: [("INTERCEPTION_MODE".to_owned(), mode)].into() });
    let of = |name: &str| format!("outbound|23302||{name}.shop.example");
    let (db, two) = (of("db"), of("two"));
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, &[&db, &two]), (LDS, &["*"])];
    let _stream = connect_as(&world, Node { metadata, ..node(SIDECAR) }, &wanted).await;
    world.until("get clients", "SYNCED").await;
    let (taken, _) = run(&world, "get routes two.shop.example").await;
    let line = taken.lines().nth(1).unwrap_or_default();
    assert!(line.contains("destination 127.0.0.1 ") && line.contains(&db), "{taken}");
    assert!(line.contains(&format!("instead of {two}")), "{taken}");
    let (own, _) = run(&world, "get routes db.shop.example").await;
    assert!(own.contains(&db) && !own.contains("instead of"), "{own}");
    let (why, exit) = run(&world, "why-not two.shop.example").await;
    assert!(why.contains("TRB0532") && exit == Exit::No, "{why}");
    world.server.stop().await;
}

#[tokio::test]
async fn service_behind_a_fault_that_answers_all_requests_is_not_reached() {
    let abort = "fault: {abort: {httpStatus: 418, percentage: {value: 100}}}";
    let (_dir, world) =
        mk_world(&format!("{{{abort}, route: [{{destination: {{host: pay.shop.example}}}}]}}")).await;
    let _stream = connect_sidecar(&world).await;
    let (why, exit) = run(&world, "why-not pay.shop.example:80").await;
    assert_eq!(exit, Exit::No, "{why}");
    assert!(why.contains("requests for pay.shop.example get answer 418 by a fault"), "{why}");
    let (routes, _) = run(&world, "get routes pay.shop.example:80").await;
    assert!(routes.contains("answer 418 by a fault"), "{routes}");
    world.server.stop().await;
}
