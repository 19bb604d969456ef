//! Routes of gRPC clients, and the endpoints of the subsets that they lead to.

use super::*;

#[tokio::test]
async fn grpc_client_has_its_routes_and_what_it_does_not_use() {
    let mirrored = CANARY.replace("timeout: 5s", "timeout: 5s, mirror: {host: old.shop.example}");
    let (_dir, world) = mk_world(&mirrored).await;
    let wanted: [(&str, &[&str]); 4] =
        [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY]), (CDS, &[PAY, OLD]), (EDS, &[PAY, OLD])];
    let _stream = connect(&world, "grpc-1", "gRPC C-core", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let list = world.run("get routes pay.shop.example:80 --for-client grpc-1").await;
    assert_eq!(list.exit, Ok(Exit::Ok), "{}", list.out);
    assert_eq!(list.out.lines().filter(|line| line.contains("VirtualService shop/pay-routes")).count(), 2);
    assert!(list.out.contains("90 % outbound|80||pay.shop.example"), "{}", list.out);
    let why = world.run("why-not pay.shop.example:80 --for-client grpc-1").await.out;
    assert!(!why.contains("TRB0550"), "{why}");
    assert!(why.contains("TRB0548") && why.contains("gRPC does not use mirror (http[0] canary)"), "{why}");
    world.server.stop().await;
}

#[tokio::test]
async fn delegate_of_each_route_is_named() {
    let routes = "{match: [{uri: {prefix: /api}}], delegate: {name: pay-api}}, {route: [{destination: {host: old.shop.example}}]}";
    let (dir, world) = mk_world(routes).await;
    // gRPC leaves the first route out
    let spec = "http: [{match: [{uri: {prefix: /api/a}, queryParams: {q: {exact: x}}}], route: [{destination: {host: old.shop.example}}]}, \
         {timeout: 7s, route: [{destination: {host: pay.shop.example}}]}]";
    put(dir.path(), "api.yaml", &mk_object("VirtualService", "pay-api", spec));
    world.until("get policies", "pay-api").await;
    let wanted: [(&str, &[&str]); 2] = [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY])];
    let _stream = connect(&world, "grpc-1", "gRPC C-core", &wanted).await;
    let list = world.until("get routes pay.shop.example:80 --for-client grpc-1 -o wide", "timeout 7 s").await;
    let lines: Vec<&str> = list.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{list}");
    let named = |line: &str| ["shop/pay-routes", "shop/pay-api"].map(|name| line.contains(name));
    assert_eq!((named(lines[0]), named(lines[1])), ([true, true], [true, false]), "{list}");
    world.server.stop().await;
}

#[tokio::test]
async fn route_that_grpc_does_not_use_is_named_where_it_is_declared() {
    let copies = "mirror: {host: old.shop.example}, route: [{destination: {host: pay.shop.example}}]";
    let routes = format!(
        "{{match: [{{uri: {{prefix: /x}}, port: 81}}], {copies}}}, {{match: [{{uri: {{prefix: /d}}}}], delegate: {{name: shared}}}}, \
         {{match: [{{uri: {{prefix: /e}}}}, {{uri: {{prefix: /f}}}}], {copies}}}"
    );
    let (dir, world) = mk_world(&routes).await;
    let shared = format!(
        "http: [{{match: [{{uri: {{prefix: /outside}}}}], {copies}}}, {{name: copied, match: [{{uri: {{prefix: /d/e}}}}], {copies}}}]"
    );
    put(dir.path(), "shared.yaml", &mk_object("VirtualService", "shared", &shared));
    world.until("get policies", "shared").await;
    let wanted: [(&str, &[&str]); 2] = [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY])];
    let _stream = connect(&world, "grpc-1", "gRPC C-core", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let why = world.run("why-not pay.shop.example:80 --for-client grpc-1").await.out;
    let want = "gRPC does not use mirror (http[1] copied of shop/shared (in http[1]), http[2])";
    assert!(why.contains(want), "{why}");
    world.server.stop().await;
}

/// Two versions of a service, and a route to one of them.
pub(super) async fn mk_versions() -> (tempfile::TempDir, World) {
    let endpoint = |of: u8| format!("{{address: 10.0.0.{of}, labels: {{version: v{of}}}}}");
    let spec = format!(
        "hosts: [pay.shop.example], addresses: [10.96.0.1], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: STATIC, endpoints: [{}, {}]",
        endpoint(1),
        endpoint(2)
    );
    let subset = |of: u8| format!("{{name: v{of}, labels: {{version: v{of}}}}}");
    let subsets = format!("host: pay.shop.example, subsets: [{}, {}]", subset(1), subset(2));
    let routes =
        "hosts: [pay.shop.example], http: [{route: [{destination: {host: pay.shop.example, subset: v1}}]}]";
    let dir = mk_folder(&[
        ("pay.yaml", mk_object("ServiceEntry", "pay", &spec)),
        ("rule.yaml", mk_object("DestinationRule", "versions", &subsets)),
        ("routes.yaml", mk_object("VirtualService", "to-v1", routes)),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:80").await;
    world.until("get policies", "to-v1").await;
    (dir, world)
}

#[tokio::test]
async fn grpc_client_receives_the_endpoints_of_the_subsets_of_its_routes() {
    let (_dir, world) = mk_versions().await;
    let first = "outbound|80|v1|pay.shop.example";
    let wanted: [(&str, &[&str]); 4] =
        [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY]), (CDS, &[first]), (EDS, &[first])];
    let _stream = connect(&world, "grpc-1", "gRPC C-core", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let why = world.run("why-not pay.shop.example --for-client grpc-1").await.out;
    assert!(why.contains("1 endpoint served"), "{why}");
    assert!(why.contains(&format!("target pay.shop.example:80 leads to xDS cluster {first}")), "{why}");
    let explain = |ip: &str| format!("explain {ip}:80 --host pay.shop.example --for-client grpc-1");
    let served = world.run(&explain("10.0.0.1")).await.out;
    assert!(served.contains(&format!("EDS {first} version")) && !served.contains("TRB0532"), "{served}");
    let other = world.run(&explain("10.0.0.2")).await.out;
    assert!(other.contains("TRB0532") && other.contains("lead to subset v1 only"), "{other}");
    world.server.stop().await;
}

#[tokio::test]
async fn endpoint_of_a_subset_without_a_route_is_a_warning() {
    let (_dir, world) = mk_versions().await;
    let _stream = connect_sidecar(&world).await;
    let explain = |ip: &str| format!("explain {ip}:80 --host pay.shop.example --for-client web-1.shop");
    let first = world.run(&explain("10.0.0.1")).await.out;
    assert!(first.contains("TRB0531") && !first.contains("TRB0532"), "{first}");
    assert!(first.contains("by route table 80 to xDS cluster outbound|80|v1|pay.shop.example"), "{first}");
    let second = world.run(&explain("10.0.0.2")).await.out;
    assert!(
        second.contains("TRB0532") && second.contains("go to outbound|80|v1|pay.shop.example"),
        "{second}"
    );
    assert!(!second.contains("TRB0534"), "{second}");
    world.server.stop().await;
}

#[tokio::test]
async fn target_without_a_route_that_grpc_can_use_is_explained() {
    let query = "match: [{queryParams: {a: {exact: b}}}], route: [{destination: {host: pay.shop.example}}]";
    let (_dir, world) = mk_world(&format!("{{{query}}}")).await;
    let _stream =
        connect(&world, "grpc-1", "gRPC C-core", &[(LDS, &["pay.shop.example:80"]), (RDS, &[PAY])]).await;
    world.until("get clients", "SYNCED").await;
    let why = world.run("why-not pay.shop.example:80 --for-client grpc-1").await.out;
    assert!(why.contains("no route of the target leads to it") && !why.contains("TRB0534"), "{why}");
    let list = world.run("get routes pay.shop.example:80 --for-client grpc-1").await;
    let text = format!("{}{:?}", list.out, list.exit);
    assert!(text.contains("has no route of pay.shop.example:80 that gRPC can use"), "{text}");
    world.server.stop().await;
}

#[tokio::test]
async fn destination_of_a_grpc_client_that_does_not_exist_is_named() {
    let to = |of: &str| format!("{{destination: {{{of}}}, weight: 1}}");
    let all = [
        "host: pay.shop.example",
        "host: pya.shop.example",
        "host: old.shop.example, port: {number: 99}",
        "host: old.shop.example, subset: v9",
    ]
    .map(to);
    let (_dir, world) = mk_world(&format!("{{route: [{}]}}", all.join(", "))).await;
    let wanted: [(&str, &[&str]); 2] = [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY])];
    let _stream = connect(&world, "grpc-1", "gRPC C-core", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let lost = [
        ("TRB0450", "outbound|80||pya.shop.example: no service that the client may use has it"),
        ("TRB0450", "outbound|99||old.shop.example: no service that the client may use has it"),
        (
            "TRB0541",
            "outbound|80|v9|old.shop.example: no DestinationRule that applies to the client declares subset v9",
        ),
    ];
    for command in ["why-not pay.shop.example:80", "explain 10.0.0.1:80 --host pay.shop.example"] {
        let shown = world.run(&format!("{command} --for-client grpc-1 -o wide")).await.out;
        for (code, text) in lost {
            let line = shown.lines().find(|line| line.contains(text)).unwrap_or_default();
            assert!(
                shown.contains(code) && line.contains("VirtualService shop/pay-routes"),
                "{text}: {shown}"
            );
        }
        assert!(!shown.contains("routes lead to xDS cluster outbound|80||pay"), "{shown}");
    }
    world.server.stop().await;
}
