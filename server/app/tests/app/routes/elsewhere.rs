//! Services that the routes of other hosts lead to, while requests for their own host go elsewhere.

use super::*;

/// Starts a world with two services, whose VirtualServices have these routes, and connects a sidecar.
async fn mk_pair(of_pay: &str, of_old: &str) -> (tempfile::TempDir, World, AdsClient) {
    let (dir, world) = mk_world(of_pay).await;
    let spec = format!("hosts: [old.shop.example], http: [{of_old}]");
    std::fs::write(dir.path().join("old-routes.yaml"), mk_object("VirtualService", "old-routes", &spec))
        .unwrap();
    world.until("get policies", "old-routes").await;
    let stream = connect_sidecar(&world).await;
    (dir, world, stream)
}

#[tokio::test]
async fn answer_for_a_host_and_routes_of_another_host_are_both_named() {
    let to_old = "{match: [{uri: {prefix: /one}}], route: [{destination: {host: old.shop.example}}]}, {route: [{destination: {host: pay.shop.example}}]}";
    let (_dir, world, _stream) = mk_pair(to_old, "{directResponse: {status: 222}}").await;
    for command in ["why-not old.shop.example:80", "explain 10.0.0.2:80 --host old.shop.example"] {
        let shown = world.run(&format!("{command} --for-client {SIDECAR}")).await;
        assert_eq!(shown.exit, Ok(Exit::Ok), "{command}: {}", shown.out);
        let line =
            |text: &str| shown.out.lines().find(|line| line.contains(text)).unwrap_or_default().to_owned();
        assert!(shown.out.contains("TRB0532"), "{command}: {}", shown.out);
        let own = line("requests for old.shop.example get answer 222");
        assert!(own.contains("VirtualService shop/old-routes"), "{command}: {}", shown.out);
        let other = line("virtual host pay.shop.example:80: routes lead to xDS cluster outbound|80||old");
        assert!(
            other.contains("TRB0531") && other.contains("VirtualService shop/pay-routes"),
            "{command}: {}",
            shown.out
        );
        assert!(!shown.out.contains("TRB0534"), "no way of the host itself: {command}: {}", shown.out);
    }
    world.server.stop().await;
}

#[tokio::test]
async fn hosts_whose_routes_lead_to_each_other_name_both() {
    let to = |name: &str| format!("{{route: [{{destination: {{host: {name}.shop.example}}}}]}}");
    let (_dir, world, _stream) = mk_pair(&to("old"), &to("pay")).await;
    for (host, other, at) in [("pay", "old", 1), ("old", "pay", 2)] {
        let endpoint = format!("explain 10.0.0.{at}:80 --host {host}.shop.example");
        for command in [format!("why-not {host}.shop.example:80"), endpoint] {
            let shown = world.run(&format!("{command} --for-client {SIDECAR}")).await.out;
            let away = format!("requests for {host}.shop.example go to outbound|80||{other}.shop.example");
            let led = format!(
                "virtual host {other}.shop.example:80: routes lead to xDS cluster outbound|80||{host}"
            );
            assert!(shown.contains(&away) && shown.contains(&led), "{command}: {shown}");
            assert!(!shown.contains("TRB0534"), "{command}: {shown}");
        }
    }
    world.server.stop().await;
}
