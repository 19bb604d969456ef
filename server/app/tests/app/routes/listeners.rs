//! Routes of connections, and listeners that a filter removes.

use super::*;

/// Returns a service without a virtual address.
fn mk_tls(name: &str, host: &str, address: &str) -> String {
    let spec = format!(
        "hosts: ['{host}'], ports: [{{number: 443, name: tls, protocol: TLS}}], resolution: STATIC, endpoints: [{{address: {address}}}]"
    );
    mk_object("ServiceEntry", name, &spec)
}

fn mk_tls_routes(name: &str, hosts: &str, routes: &[(&str, &str)]) -> String {
    let route = |(sni, to): &(&str, &str)| {
        format!("{{match: [{{sniHosts: ['{sni}']}}], route: [{{destination: {{host: {to}}}}}]}}")
    };
    let routes: Vec<String> = routes.iter().map(route).collect();
    mk_object("VirtualService", name, &format!("hosts: [{hosts}], tls: [{}]", routes.join(", ")))
}

#[tokio::test]
async fn connections_of_tls_are_those_of_the_host() {
    let routes = [("a.ext.test", "a.test"), ("b.ext.test", "b.test"), ("*.ext.test", "a.test")];
    let dir = mk_folder(&[
        ("ext.yaml", mk_tls("ext", "*.ext.test", "10.0.0.1")),
        ("free.yaml", mk_tls("free", "*.free.test", "10.0.0.4")),
        ("a.yaml", mk_tls("a", "a.test", "10.0.0.2")),
        ("b.yaml", mk_tls("b", "b.test", "10.0.0.3")),
        ("routes.yaml", mk_tls_routes("ext-routes", "'*.ext.test'", &routes)),
        ("both.yaml", mk_tls_routes("both", "a.test, b.test", &[("a.test", "a.test"), ("b.test", "a.test")])),
    ]);
    let world = World::start(&["--registry", &file_registry(&dir)]).await;
    world.until("get endpoints", "10.0.0.4:443").await;
    world.until("get policies", "ext-routes").await;
    let _stream = connect(&world, SIDECAR, "", &[(CDS, &["*"]), (LDS, &["*"])]).await;
    world.until("get clients", "SYNCED").await;
    let cases: [(&str, &[(&str, &str)]); 7] = [
        ("a.ext.test", &[("server name a.ext.test", "ext-routes")]),
        ("c.ext.test", &[("server name *.ext.test", "ext-routes")]),
        (
            "*.ext.test",
            &[
                ("server name a.ext.test", "ext-routes"),
                ("server name b.ext.test", "ext-routes"),
                ("server name *.ext.test", "ext-routes"),
            ],
        ),
        ("x.free.test", &[("server name *.free.test", "")]),
        ("*.free.test", &[("server name *.free.test", "")]),
        ("a.test", &[("server name a.test", "both")]),
        ("b.test", &[("server name b.test", "both")]),
    ];
    for (host, want) in cases {
        let list = world.run(&format!("get routes {host} --for-client {SIDECAR}")).await;
        let lines: Vec<&str> = list.out.lines().skip(1).collect();
        assert_eq!(lines.len(), want.len(), "{host}: {}{:?}", list.out, list.exit);
        for (line, (name, rule)) in lines.iter().zip(want) {
            assert!(line.contains(name) && line.contains(rule), "{host}: {line}");
            assert_eq!(line.contains("VirtualService"), !rule.is_empty(), "{host}: {line}");
        }
    }
    let none = world.run(&format!("get routes x.other.test --for-client {SIDECAR}")).await;
    assert_eq!(none.exit.unwrap_err().exit, Exit::NotFound);
    world.server.stop().await;
}

#[tokio::test]
async fn virtual_service_that_leads_to_its_own_host_is_named() {
    let (dir, world) = mk_world(CANARY).await;
    let spec = |of: &str| {
        format!(
            "hosts: [{of}.shop.example], tcp: [{{route: [{{destination: {{host: {of}.shop.example}}}}]}}]"
        )
    };
    put(dir.path(), "own.yaml", &mk_object("VirtualService", "own-routes", &spec("old")));
    world.until("get policies", "own-routes").await;
    let _stream = connect_sidecar(&world).await;
    let list = world.run(&format!("get routes old:5432 --for-client {SIDECAR}")).await.out;
    assert!(list.contains("VirtualService shop/own-routes") && list.contains("outbound|5432||old"), "{list}");
    let list = world.run(&format!("get resources {SIDECAR} --type lds")).await.out;
    let line = list.lines().find(|line| line.contains("10.96.0.2_5432")).unwrap_or_default();
    assert!(line.contains("VirtualService shop/own-routes"), "{list}");
    world.server.stop().await;
}

#[tokio::test]
async fn filter_that_removes_a_listener_is_named() {
    let (dir, world) = mk_world(CANARY).await;
    let remove = |name: &str, port: u16| {
        let patch = format!(
            "configPatches: [{{applyTo: LISTENER, match: {{listener: {{portNumber: {port}}}}}, patch: {{operation: REMOVE}}}}]"
        );
        mk_object("EnvoyFilter", name, &patch)
    };
    let texts = [remove("no-http", 80), remove("no-sql", 5432)];
    put(dir.path(), "filters.yaml", &texts.join("---\n"));
    world.until("get policies", "no-sql").await;
    let wanted: [(&str, &[&str]); 3] = [(CDS, &["*"]), (EDS, &[PAY, OLD]), (LDS, &["*"])];
    let _stream = connect(&world, SIDECAR, "", &wanted).await;
    world.until("get clients", "SYNCED").await;
    let shown = world.run(&format!("get resources {SIDECAR}")).await;
    let notes = shown.talk;
    assert!(notes.contains("EnvoyFilter shop/no-http removes LDS 0.0.0.0_80 from"), "{notes}");
    assert!(notes.contains("EnvoyFilter shop/no-sql removes LDS 10.96.0.1_5432, 10.96.0.2_5432"), "{notes}");
    let http = "EnvoyFilter shop/no-http removes the listener 0.0.0.0_80";
    let list = world.run(&format!("get routes pay:80 --for-client {SIDECAR}")).await;
    assert!(list.exit.as_ref().unwrap_err().message.contains(http), "{:?}", list.exit);
    let list = world.run(&format!("get routes old:5432 --for-client {SIDECAR}")).await;
    assert!(list.out.contains("NOT SENT") && list.out.contains("EnvoyFilter shop/no-sql"), "{}", list.out);
    let why = world.run(&format!("why-not pay:80 --for-client {SIDECAR}")).await;
    let lost = "the client was not sent the listener 0.0.0.0_80, which has the route table 80; EnvoyFilter shop/no-http removes it";
    assert!(why.out.contains(lost) && why.out.contains("not reached"), "{}", why.out);
    assert!(why.out.contains("TRB0554") && !why.out.contains("get clients"), "{}", why.out);
    let explain = format!("explain 10.0.0.1:80 --host pay.shop.example --for-client {SIDECAR}");
    let shown = world.run(&explain).await.out;
    assert!(shown.contains(lost) && !shown.contains("TRB0534"), "{shown}");
    world.server.stop().await;
}
