//! Clients that take route tables and no listeners: their own listeners lead connections, whatever VirtualServices route.

use super::*;

#[tokio::test]
async fn routes_of_connections_are_not_listed_for_a_client_with_its_own_listeners() {
    let (_dir, world) = mk_world(CANARY).await;
    let sql = "outbound|5432||pay.shop.example";
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, &[PAY, OLD, sql]), (RDS, &["80"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let run = async |command: &str| world.run(&format!("{command} --for-client {SIDECAR}")).await;
    let why = run("why-not pay.shop.example").await;
    assert_eq!(why.exit, Ok(Exit::Ok), "{}", why.out);
    for part in [
        "port 80 (HTTP): route table 80 leads requests for pay.shop.example to",
        "port 5432 (TCP): listeners are the client's own; it receives xDS cluster outbound|5432||pay.shop.example",
        "WARN TRB0550  port 5432: it routes connections, and the client has listeners of its own",
    ] {
        assert!(why.out.contains(part), "{part}: {}", why.out);
    }
    let explained = run("explain 10.0.0.1:5432 --host pay.shop.example").await.out;
    assert!(explained.contains("TRB0550") && !explained.contains("listener 10.96"), "{explained}");
    let routes = run("get routes pay.shop.example").await;
    let note = "the client has listeners of its own, which lead its connections to port 5432";
    assert!(routes.talk.contains(note), "{}", routes.talk);
    assert!(routes.out.contains("canary") && !routes.out.contains("NOT SENT"), "{}", routes.out);
    let none = run("get routes pay.shop.example:5432").await.exit.unwrap_err();
    assert!(none.exit == Exit::NotFound && none.message.contains(note), "{}", none.message);
    world.server.stop().await;
}
