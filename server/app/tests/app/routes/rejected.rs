//! xDS clusters that a client rejected and to which its routes of a host lead.

use super::*;

const LACKS: &str = "and has no earlier version of it, so what is sent there fails: ";

/// Connects a sidecar that rejects these xDS clusters and holds others, with the text of its rejection.
async fn connect_rejecting(world: &World, rejected: &[&str], held: &[&str]) -> (AdsClient, String) {
    let mut stream = connect(world, SIDECAR, "", &[]).await;
    stream.subscribe(CDS, &["*"]).unwrap();
    let clusters = stream.next(LONG).await.unwrap();
    let text = format!("Error adding/updating cluster(s) {}: no", rejected.join(": no, "));
    stream.nack(&clusters, &text).unwrap();
    let wanted: [(&str, &[&str]); 3] = [(EDS, held), (LDS, &["*"]), (RDS, &["80"])];
    for (kind, names) in wanted {
        stream.subscribe(kind, names).unwrap();
        let response = stream.next(LONG).await.unwrap();
        assert_eq!(response.type_url, kind);
        stream.ack(&response).unwrap();
    }
    world.until(&format!("get resources {SIDECAR} --type rds"), "SYNCED").await;
    (stream, text)
}

/// Runs a command and checks that one line of it has the text.
async fn check(world: &World, command: &str, text: &str, exit: Exit) -> String {
    check_for(world, SIDECAR, command, text, exit).await
}

async fn check_for(world: &World, client: &str, command: &str, text: &str, exit: Exit) -> String {
    let shown = world.run(&format!("{command} --for-client {client}")).await;
    assert_eq!(shown.exit, Ok(exit), "{command}: {}", shown.out);
    let count = shown.out.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count, 1, "{command}: {text}: {}", shown.out);
    shown.out
}

#[tokio::test]
async fn rejected_destination_of_a_route_is_named() {
    let (_dir, world) = mk_world(CANARY).await;
    let (mut stream, error) = connect_rejecting(&world, &[OLD], &[PAY]).await;
    let begin = format!("RDS 80, routes for pay.shop.example: the client rejected CDS {OLD}");
    let commands = ["explain 10.0.0.1:80 --host pay.shop.example", "why-not pay:80"];
    for command in commands {
        let out = check(&world, command, &format!("{begin} {LACKS}{error}"), Exit::Ok).await;
        assert!(out.contains("TRB0522") && out.contains("TRB0531"), "pay is reached: {out}");
    }
    // Envoy requests the endpoints of the xDS clusters that it has.
    stream.subscribe(EDS, &[PAY, OLD]).unwrap();
    world.until(&format!("get resources {SIDECAR} --type eds"), OLD).await;
    let uses = format!("{begin}, so it uses the version that it accepted earlier: {error}");
    for command in commands {
        check(&world, command, &uses, Exit::Ok).await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn host_of_which_every_route_leads_to_a_rejected_subset_is_not_reached() {
    let (_dir, world) = mk_versions().await;
    let subset = "outbound|80|v1|pay.shop.example";
    let (_stream, error) = connect_rejecting(&world, &[subset], &[PAY]).await;
    let text =
        format!("RDS 80, routes for pay.shop.example: the client rejected CDS {subset} {LACKS}{error}");
    check(&world, "explain 10.0.0.1:80 --host pay.shop.example", &text, Exit::No).await;
    let why = check(&world, "why-not pay:80", &text, Exit::No).await;
    assert!(why.contains("2 endpoints served, but not reached"), "{why}");
    world.server.stop().await;
}

#[tokio::test]
async fn rejected_receivers_of_copies_and_connections_are_named() {
    let route = "{route: [{destination: {host: pay.shop.example}}], mirror: {host: old.shop.example}}";
    let (_dir, world) = mk_world(route).await;
    let sql = "outbound|5432||old.shop.example";
    let (_stream, error) =
        connect_rejecting(&world, &[OLD, sql], &[PAY, "outbound|5432||pay.shop.example"]).await;
    let cases = [
        ("80", format!("RDS 80, copies of requests for pay.shop.example: the client rejected CDS {OLD}")),
        ("5432", format!("connections to pay.shop.example: the client rejected CDS {sql}")),
    ];
    for (port, text) in cases {
        let text = format!("{text} {LACKS}{error}");
        check(&world, &format!("why-not pay:{port}"), &text, Exit::Ok).await;
        check(&world, &format!("explain 10.0.0.1:{port} --host pay.shop.example"), &text, Exit::Ok).await;
    }
    world.server.stop().await;
}

#[tokio::test]
async fn rejected_destination_of_a_grpc_target_is_named() {
    let (_dir, world) = mk_world(CANARY).await;
    let target: [(&str, &[&str]); 2] = [(LDS, &["pay.shop.example:80"]), (RDS, &[PAY])];
    let mut stream = connect(&world, "grpc-1", "gRPC C-core", &target).await;
    stream.subscribe(CDS, &[PAY, OLD]).unwrap();
    let clusters = stream.next(LONG).await.unwrap();
    let error = format!("validation error for {OLD}");
    stream.nack(&clusters, &error).unwrap();
    stream.subscribe(EDS, &[PAY]).unwrap();
    world.until("get resources grpc-1 --type eds", PAY).await;
    let text =
        format!("RDS {PAY}, routes for pay.shop.example: the client rejected CDS {OLD} {LACKS}{error}");
    check_for(&world, "grpc-1", "explain 10.0.0.1:80 --host pay.shop.example", &text, Exit::Ok).await;
    check_for(&world, "grpc-1", "why-not pay:80", &text, Exit::Ok).await;
    world.server.stop().await;
}
