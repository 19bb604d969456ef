//! Routes of an alias, which only a Kubernetes Service of type ExternalName declares: a scripted API server has one.

use std::net::Ipv4Addr;

use serde_json::json;
use tributary_scripted_api::{ApiServer, Kind};
use tributary_suites::kube::{Login, mk_namespace, mk_service as mk_kube_service, mk_slice};
use tributary_suites::tls::{Authority, TlsFront};

use super::*;

const ALIAS: &str = "old.shop.svc.cluster.local";
const END: &str = "pay.shop.svc.cluster.local";

/// Starts the API server of a cluster with a service and an alias of it.
async fn mk_cluster(dir: &tempfile::TempDir) -> TlsFront {
    let server = ApiServer::new(&Kind::OF_A_CLUSTER);
    server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "uid"}}));
    server.put("namespaces", mk_namespace("shop"));
    server.put("services", mk_kube_service("shop", "pay", &[("http", 80, 8080)]));
    server.put("endpointslices", mk_slice("shop", "pay", "pay-x", &["10.0.0.1"], &[("http", 8080)]));
    let mut alias = mk_kube_service("shop", "old", &[("http", 80, 80)]);
    alias["spec"] = json!({"type": "ExternalName", "externalName": END, "ports": alias["spec"]["ports"]});
    server.put("services", alias);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let backend = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, server.router()).await });
    let authority = Authority::new().unwrap();
    let front = authority.front(&authority.server("cluster").unwrap(), backend, false).await.unwrap();
    let url = format!("https://{}", front.addr());
    let kubeconfig = Login::Token("token".to_owned()).kubeconfig(&url, authority.certificate(), "test");
    std::fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
    front
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alias_that_its_routes_lead_elsewhere_is_not_reached() {
    let to = |name: &str, host: &str, end: &str| {
        let spec = format!("hosts: [{host}], http: [{{route: [{{destination: {{host: {end}}}}}]}}]");
        mk_object("VirtualService", name, &spec)
    };
    let other = mk_service("other", "10.0.0.9", "{number: 80, name: http, protocol: HTTP}");
    let dir = mk_folder(&[
        ("other.yaml", other),
        ("alias.yaml", to("alias-routes", ALIAS, "other.shop.example")),
        ("pay.yaml", to("pay-routes", END, END)),
    ]);
    let cluster = tempfile::tempdir().unwrap();
    let _front = mk_cluster(&cluster).await;
    let (files, kubeconfig) = (file_registry(&dir), cluster.path().join("kubeconfig").display().to_string());
    let flags = ["--registry", "kubernetes", "--kubeconfig", &kubeconfig, "--registry", &files];
    let world = World::start(&flags).await;
    world.until("get endpoints", "10.0.0.1:8080").await;
    world.until("get services", ALIAS).await;
    world.until("get policies", "pay-routes").await;
    let mut readiness = world.server.live().handle.readiness();
    tokio::time::timeout(LONG, readiness.wait_for(|start| start.is_ready())).await.unwrap().unwrap();
    let cluster = format!("outbound|80||{END}");
    let wanted: [(&str, &[&str]); 4] = [(CDS, &["*"]), (EDS, &[&cluster]), (LDS, &["*"]), (RDS, &["80"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let why = world.run(&format!("why-not {ALIAS}:80 --for-client {SIDECAR}")).await;
    assert_eq!(why.exit, Ok(Exit::No), "{}", why.out);
    let led = format!("requests for {ALIAS} go to outbound|80||other.shop.example");
    assert!(why.out.contains("TRB0532") && why.out.contains(&led), "{}", why.out);
    let rules = (why.out.contains("VirtualService shop/alias-routes"), why.out.contains("pay-routes"));
    assert_eq!(rules, (true, false), "{}", why.out);
    assert!(why.out.contains("not reached") && !why.out.contains("TRB0531"), "{}", why.out);
    let end = world.run(&format!("why-not {END}:80 --for-client {SIDECAR}")).await;
    assert!(end.exit == Ok(Exit::Ok) && end.out.contains("TRB0531"), "{}", end.out);
    world.server.stop().await;
}
