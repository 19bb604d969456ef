//! Clients that reject listeners, route tables or xDS clusters, and what `explain` and `why-not` report about them.

use crate::world::{LONG, World, file_registry, mk_entry, mk_folder, put};
use tributary_app::exit::Exit;
use tributary_suites::ads::{CDS, EDS, LDS, RDS, node};
use tributary_suites::{AdsClient, Variant};

const PAY: &str = "outbound|80||pay.shop.example";
const SIDECAR: &str = "sidecar~10.9.0.9~web-1.web~web.svc.cluster.local";
const TEXT: &str = "Error adding/updating listener(s): bad access log format";

async fn mk_world() -> (tempfile::TempDir, World) {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop.example", "10.0.0.1"))]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    (dir, world)
}

async fn connect(world: &World, id: &str, agent: Option<&str>) -> AdsClient {
    let xds = world.server.addresses().xds;
    let mut node = node(id);
    node.user_agent_name = agent.unwrap_or_default().to_owned();
    AdsClient::connect(xds, Variant::Delta, node).await.unwrap()
}

/// Subscribes and answers the first response: with a rejection if there is a text.
async fn answer(stream: &mut AdsClient, kind: &str, names: &[&str], rejected: Option<&str>) {
    stream.subscribe(kind, names).unwrap();
    answer_next(stream, kind, rejected).await;
}

async fn answer_next(stream: &mut AdsClient, kind: &str, rejected: Option<&str>) {
    let response = loop {
        let response = stream.next(LONG).await.unwrap();
        if response.type_url == kind {
            break response;
        }
        stream.ack(&response).unwrap();
    };
    match rejected {
        Some(text) => stream.nack(&response, text).unwrap(),
        None => stream.ack(&response).unwrap(),
    }
}

async fn until_error(world: &World, client: &str, kind: &str) {
    world.until(&format!("get resources {client} --type {kind}"), "ERROR").await;
}

/// Connects a sidecar that accepted its xDS clusters and endpoints.
async fn connect_subscribed(world: &World) -> AdsClient {
    let mut stream = connect(world, SIDECAR, None).await;
    answer(&mut stream, CDS, &["*"], None).await;
    answer(&mut stream, EDS, &[PAY], None).await;
    stream
}

/// Checks that neither command reports that the client reaches the host, and that both name the rejected resource.
async fn check_cut(world: &World, client: &str, rejected: &str) {
    for command in ["explain 10.0.0.1", "why-not pay.shop.example"] {
        let result = world.run(&format!("{command} --for-client {client}")).await;
        assert_eq!(result.exit, Ok(Exit::No), "{command}: {}", result.out);
        assert!(result.out.contains(rejected) && result.out.contains("TRB0522"), "{command}: {}", result.out);
        for other in ["TRB0531", "TRB0534", "TRB0521"] {
            assert!(!result.out.contains(other), "{command}: {}", result.out);
        }
    }
    let why = world.run(&format!("why-not pay.shop.example --for-client {client}")).await.out;
    assert!(why.contains("not served: the client rejected what it was sent  service"), "{why}");
}

#[tokio::test]
async fn sidecar_that_rejected_all_listeners_is_not_served() {
    let (_dir, world) = mk_world().await;
    let mut stream = connect_subscribed(&world).await;
    answer(&mut stream, LDS, &["*"], Some(TEXT)).await;
    until_error(&world, SIDECAR, "lds").await;
    check_cut(&world, SIDECAR, &format!("the client rejected LDS 0.0.0.0_80: {TEXT}")).await;
    world.server.stop().await;
}

#[tokio::test]
async fn sidecar_that_rejected_the_route_table_is_not_served() {
    let (_dir, world) = mk_world().await;
    let mut stream = connect(&world, SIDECAR, None).await;
    answer(&mut stream, EDS, &[PAY], None).await;
    answer(&mut stream, LDS, &["*"], None).await;
    answer(&mut stream, RDS, &["80"], Some("no such route")).await;
    until_error(&world, SIDECAR, "rds").await;
    check_cut(&world, SIDECAR, "the client rejected RDS 80: no such route").await;
    world.server.stop().await;
}

#[tokio::test]
async fn rejected_files_of_a_rule_are_named() {
    const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
    let (dir, world) = mk_world().await;
    let rule = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: mutual, namespace: web}\n\
                spec: {host: pay.shop.example, trafficPolicy: {tls: {mode: MUTUAL, clientCertificate: /none/a.pem, \
                privateKey: /none/key.pem, caCertificates: /etc/ca.pem}}}\n";
    put(dir.path(), "rule.yaml", rule);
    world.until("get policies", "mutual").await;
    let mut stream = connect_subscribed(&world).await;
    answer(&mut stream, LDS, &["*"], None).await;
    answer(&mut stream, RDS, &["80"], None).await;
    let (own, roots) = ("file-cert:/none/a.pem~/none/key.pem", "file-root:/etc/ca.pem");
    answer(&mut stream, SDS, &[own, roots], Some("Invalid path: /none/a.pem")).await;
    until_error(&world, SIDECAR, "sds").await;
    let text = format!(
        "the client rejected SDS {own}, without which it opens no connection of xDS cluster {PAY}: Invalid path"
    );
    for command in ["explain 10.0.0.1", "why-not pay.shop.example"] {
        let shown = world.run(&format!("{command} --for-client {SIDECAR}")).await;
        assert_eq!(shown.exit, Ok(Exit::No), "{command}: {}", shown.out);
        assert!(shown.out.contains("TRB0522") && shown.out.contains(&text), "{command}: {}", shown.out);
        assert!(!shown.out.contains("TRB0534"), "{command}: {}", shown.out);
    }
    let list = world.run("get policies -o wide").await.out;
    let text = format!("a client rejects files that it names: SDS {own}: Invalid path: /none/a.pem");
    assert!(list.contains("TRB0522") && list.contains(&text), "{list}");
    world.server.stop().await;
}

#[tokio::test]
async fn rejection_after_an_acknowledgement_is_a_warning() {
    let (dir, world) = mk_world().await;
    let mut stream = connect(&world, SIDECAR, None).await;
    answer(&mut stream, EDS, &[PAY], None).await;
    answer(&mut stream, LDS, &["*"], None).await;
    answer(&mut stream, RDS, &["80"], None).await;
    put(dir.path(), "other.yaml", &mk_entry("other", "other.shop.example", "10.0.0.2"));
    answer_next(&mut stream, RDS, Some("no such route")).await;
    until_error(&world, SIDECAR, "rds").await;
    let text = "the client rejected RDS 80, so it uses the version that it accepted earlier, if it has one: no such route";
    let explained = world.run(&format!("explain 10.0.0.1 --for-client {SIDECAR}")).await;
    assert_eq!(explained.exit, Ok(Exit::Ok), "{}", explained.out);
    let line = explained.out.lines().find(|line| line.contains(text)).unwrap_or_default();
    assert!(line.contains("WARN TRB0522"), "{}", explained.out);
    let why = world.run(&format!("why-not pay.shop.example --for-client {SIDECAR}")).await.out;
    assert!(why.contains("1 endpoint served") && why.contains(text), "{why}");
    assert!(!why.contains("TRB0531"), "what was sent last is not what it uses: {why}");
    world.server.stop().await;
}

#[tokio::test]
async fn grpc_client_that_rejected_a_resource_is_not_served() {
    let (_dir, world) = mk_world().await;
    let target = "pay.shop.example:80";
    let path = [(LDS, "lds", target), (RDS, "rds", PAY), (CDS, "cds", PAY)];
    for (rejected, (rejected_kind, short, name)) in path.iter().enumerate() {
        let id = format!("grpc-{short}");
        let mut stream = connect(&world, &id, Some("gRPC Go")).await;
        for (kind, _, name) in &path[..rejected] {
            answer(&mut stream, kind, &[name], None).await;
        }
        answer(&mut stream, rejected_kind, &[name], Some("unusable")).await;
        until_error(&world, &id, short).await;
        let lacks = match *rejected_kind {
            CDS => " and has no earlier version of it, so what is sent there fails",
            _ => "",
        };
        let text = format!("the client rejected {} {name}{lacks}: unusable", short.to_uppercase());
        check_cut(&world, &id, &text).await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn filter_that_changed_a_rejected_resource_is_named_in_lists_of_policies() {
    let (dir, world) = mk_world().await;
    let filter = |name: &str, table: &str| {
        format!(
            "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {{name: {name}, namespace: web}}\n\
             spec: {{configPatches: [{{applyTo: ROUTE_CONFIGURATION, match: {{routeConfiguration: {{name: \"{table}\"}}}}, \
             patch: {{operation: MERGE, value: {{max_direct_response_body_size_bytes: 9}}}}}}]}}\n"
        )
    };
    put(dir.path(), "filters.yaml", &[filter("culprit", "80"), filter("other", "81")].join("---\n"));
    world.until("get policies", "culprit").await;
    let mut stream = connect(&world, SIDECAR, None).await;
    answer(&mut stream, LDS, &["*"], None).await;
    answer(&mut stream, RDS, &["80"], Some("no such field")).await;
    until_error(&world, SIDECAR, "rds").await;
    let list = world.run("get policies -o wide").await.out;
    let line = |name: &str| list.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    let culprit = line("culprit");
    let text = "a client rejects what it changes: RDS 80: no such field";
    assert!(culprit.contains("TRB0522") && culprit.contains(text), "{list}");
    assert!(!line("other").contains("TRB0522"), "{list}");
    let report = world.run("analyze --live").await.out;
    let found = report.lines().find(|line| line.contains("TRB0522")).unwrap_or_default();
    assert!(found.contains("error") && found.contains("culprit"), "{report}");
    world.server.stop().await;
}

/// The tables of a response that a client rejects are sent again, half of them first. The others are suspected until then.
#[tokio::test]
async fn table_that_may_not_be_the_rejected_one_is_a_warning() {
    let (dir, world) = mk_world().await;
    for (name, ip, port) in [("other", "10.0.0.2", 78), ("third", "10.0.0.3", 79)] {
        let entry = mk_entry(name, &format!("{name}.shop.example"), ip);
        put(dir.path(), &format!("{name}.yaml"), &entry.replace("number: 80", &format!("number: {port}")));
        world.until("get endpoints", &format!("{ip}:{port}")).await;
    }
    let mut stream = connect(&world, SIDECAR, None).await;
    answer(&mut stream, EDS, &[PAY], None).await;
    answer(&mut stream, LDS, &["*"], None).await;
    answer(&mut stream, RDS, &["78", "79", "80"], Some("missing )")).await;
    until_error(&world, SIDECAR, "rds").await;
    let why_not = format!("why-not pay.shop.example --for-client {SIDECAR}");
    let why = world.run(&why_not).await;
    let text = "the client may have rejected RDS 80: one of 3 resources of a response, which the client does not name: missing )";
    assert!(why.out.contains(text) && why.out.contains("1 endpoint served"), "{}", why.out);
    answer_next(&mut stream, RDS, Some("missing )")).await;
    answer_next(&mut stream, RDS, None).await;
    world.until(&format!("why-not other.shop.example --for-client {SIDECAR}"), "rejected RDS 78").await;
    let why = world.run(&why_not).await;
    assert!(!why.out.contains("TRB0522") && why.out.contains("1 endpoint served"), "{}", why.out);
    world.server.stop().await;
}

#[tokio::test]
async fn removed_clusters_of_a_client_that_rejects_its_routes_are_listed() {
    let (dir, world) = mk_world().await;
    let mut stream = connect_subscribed(&world).await;
    answer(&mut stream, LDS, &["*"], None).await;
    answer(&mut stream, RDS, &["80"], None).await;
    put(dir.path(), "other.yaml", &mk_entry("other", "other.shop.example", "10.0.0.2"));
    answer_next(&mut stream, RDS, Some("no such route")).await;
    until_error(&world, SIDECAR, "rds").await;
    std::fs::remove_file(dir.path().join("pay.yaml")).unwrap();
    let list = world.until(&format!("get resources {SIDECAR}"), "KEPT").await;
    for kind in ["CDS", "EDS"] {
        let line = list.lines().find(|line| line.starts_with(kind) && line.contains(PAY)).unwrap_or_default();
        assert!(
            line.contains("KEPT") && line.contains("until it accepts its listeners and routes"),
            "{list}"
        );
    }
    world.server.stop().await;
}

/// Whole responses are rejected in state of the world, so all other xDS clusters are in a rejected one.
#[tokio::test]
async fn resources_beside_a_rejected_one_are_explained() {
    let (dir, world) = mk_world().await;
    put(dir.path(), "other.yaml", &mk_entry("other", "other.shop.example", "10.0.0.2"));
    world.until("get endpoints", "10.0.0.2:80").await;
    let xds = world.server.addresses().xds;
    let mut stream = AdsClient::connect(xds, Variant::Sotw, node(SIDECAR)).await.unwrap();
    answer(&mut stream, CDS, &[], Some(&format!("Error adding/updating cluster(s) {PAY}: no"))).await;
    let list = world.until(&format!("get resources {SIDECAR}"), "ERROR").await;
    let line = |of: &str| list.lines().find(|line| line.contains(of)).unwrap_or_default();
    assert!(line("||pay.").contains("ERROR"), "{list}");
    let text = "in a response that the client rejected because of another resource";
    assert!(line("||other.").contains("STALE") && line("||other.").contains(text), "{list}");
    world.server.stop().await;
}
