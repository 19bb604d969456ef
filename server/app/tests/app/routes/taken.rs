//! Explanations of services whose address and port another service has.

use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use super::*;

#[tokio::test]
async fn routes_of_a_service_whose_address_another_one_has_do_not_count() {
    let service = |host: &str, endpoint: &str| {
        format!(
            "hosts: [{host}.shop.example], addresses: [10.96.0.3], ports: [{{number: 3306, name: sql, protocol: TCP}}], \
             resolution: STATIC, endpoints: [{{address: {endpoint}}}]"
        )
    };
    let routes = "hosts: [late.shop.example], tcp: [{route: [{destination: {host: other.shop.example}}]}]";
    let other = service("other", "10.0.0.3").replace("10.96.0.3", "10.96.0.4");
    let dir = mk_folder(&[
        ("a.yaml", mk_object("ServiceEntry", "early", &service("early", "10.0.0.1"))),
        ("b.yaml", mk_object("ServiceEntry", "late", &service("late", "10.0.0.2"))),
        ("c.yaml", mk_object("ServiceEntry", "other", &other)),
        ("routes.yaml", mk_object("VirtualService", "late-routes", routes)),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.3:3306").await;
    world.until("get policies", "late-routes").await;
    let names = ["early", "late", "other"].map(|name| format!("outbound|3306||{name}.shop.example"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, &names), (LDS, &["*"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let late = world.run(&format!("why-not late.shop.example --for-client {SIDECAR}")).await;
    let taken = "connections go to outbound|3306||early.shop.example, not to outbound|3306||other.shop.example as VirtualService \
                 shop/late-routes declares: another service has the address and port";
    assert_eq!(late.exit, Ok(Exit::No), "{}", late.out);
    assert!(late.out.contains(taken) && !late.out.contains("TRB0547"), "{}", late.out);
    assert!(!late.out.contains("a VirtualService leads the connections"), "{}", late.out);
    let explained = format!("explain 10.0.0.2:3306 --host late.shop.example --for-client {SIDECAR}");
    let explained = world.run(&explained).await.out;
    assert!(explained.contains("TRB0532") && !explained.contains("TRB0547"), "{explained}");
    let resources = world.run(&format!("get resources {SIDECAR} --type lds")).await.out;
    assert!(!resources.contains("late-routes"), "{resources}");
    world.server.stop().await;
}

#[tokio::test]
async fn requests_to_a_port_whose_listener_another_service_has_do_not_arrive() {
    let service = |host: &str, protocol: &str, endpoint: &str| {
        format!(
            "hosts: [{host}.shop.example], ports: [{{number: 8085, name: p, protocol: {protocol}}}], resolution: STATIC, \
             endpoints: [{{address: {endpoint}}}]"
        )
    };
    let dir = mk_folder(&[
        ("a.yaml", mk_object("ServiceEntry", "early", &service("early", "TCP", "10.0.0.1"))),
        ("b.yaml", mk_object("ServiceEntry", "late", &service("late", "HTTP", "10.0.0.2"))),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:8085").await;
    // listeners that bind their ports, on one address for services without one
    let mode = Value { kind: Some(Kind::StringValue("NONE".into())) };
    let metadata = Struct { fields: [("INTERCEPTION_MODE".to_owned(), mode)].into() };
    let names = ["early", "late"].map(|name| format!("outbound|8085||{name}.shop.example"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, &names), (LDS, &["*"])];
    let of = Node { metadata: Some(metadata), ..node(SIDECAR) };
    let _stream = connect_as(&world, of, &wanted).await;
    world.until("get clients", "SYNCED").await;
    let early = world.run(&format!("why-not early.shop.example --for-client {SIDECAR}")).await;
    assert_eq!(early.exit, Ok(Exit::Ok), "{}", early.out);
    let services = world.run("get services -o json").await.out;
    assert_eq!(services.matches("TRB0412").count(), 2, "both show that they need one listener: {services}");
    let late = world.run(&format!("why-not late.shop.example --for-client {SIDECAR}")).await;
    let taken =
        "connections go to outbound|8085||early.shop.example, and requests for the port have no listener";
    assert_eq!(late.exit, Ok(Exit::No), "{}", late.out);
    assert!(late.out.contains(taken) && !late.out.contains("TRB0534"), "{}", late.out);
    let explained = format!("explain 10.0.0.2:8085 --host late.shop.example --for-client {SIDECAR}");
    let explained = world.run(&explained).await.out;
    assert!(explained.contains("requests for the port have no listener"), "{explained}");
    world.server.stop().await;
}

#[tokio::test]
async fn requests_to_an_address_that_a_tcp_service_has_do_not_arrive() {
    let service = |host: &str, protocol: &str, endpoint: &str| {
        format!(
            "hosts: [{host}.shop.example], addresses: [10.96.0.3], ports: [{{number: 8085, name: p, protocol: {protocol}}}], \
             resolution: STATIC, endpoints: [{{address: {endpoint}}}]"
        )
    };
    let dir = mk_folder(&[
        ("a.yaml", mk_object("ServiceEntry", "early", &service("early", "HTTP", "10.0.0.1"))),
        ("b.yaml", mk_object("ServiceEntry", "late", &service("late", "TCP", "10.0.0.2"))),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.2:8085").await;
    let names = ["early", "late"].map(|name| format!("outbound|8085||{name}.shop.example"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wanted: [(&str, &[&str]); 4] = [(CDS, &["*"]), (EDS, &names), (LDS, &["*"]), (RDS, &["8085"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let tcp = world.run(&format!("why-not late.shop.example --for-client {SIDECAR}")).await;
    assert_eq!(tcp.exit, Ok(Exit::Ok), "{}", tcp.out);
    let http = world.run(&format!("why-not early.shop.example --for-client {SIDECAR}")).await;
    let taken = "LDS 10.96.0.3_8085: requests to 10.96.0.3 go to outbound|8085||late.shop.example: another service has the \
                 address and port";
    assert_eq!(http.exit, Ok(Exit::No), "{}", http.out);
    assert!(http.out.contains(taken) && !http.out.contains("TRB0534"), "{}", http.out);
    let explained = format!("explain 10.0.0.1:8085 --host early.shop.example --for-client {SIDECAR}");
    let explained = world.run(&explained).await.out;
    assert!(explained.contains(taken), "{explained}");
    let services = world.run("get services -o json").await.out;
    assert_eq!(services.matches("TRB0409").count(), 2, "{services}");
    world.server.stop().await;
}
