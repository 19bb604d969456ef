//! Patches that are left out of resources, in explanations.

use super::*;

#[tokio::test]
async fn patch_that_is_left_out_is_named_for_the_host_alone() {
    let moved = "{match: [{uri: {prefix: /old}}], redirect: {uri: /new}}, {route: [{destination: {host: pay.shop.example}}]}";
    let (dir, world) = mk_world(moved).await;
    let merge = |apply_to: &str, of: &str, value: &str| {
        format!("{{applyTo: {apply_to}, match: {{{of}}}, patch: {{operation: MERGE, value: {{{value}}}}}}}")
    };
    let patches = [
        merge("HTTP_ROUTE", "", "route: {timeout: 5s}"),
        merge("CLUSTER", "cluster: {service: old.shop.example}", "transport_socket: {name: ''}"),
    ];
    let filter = mk_object("EnvoyFilter", "slow", &format!("configPatches: [{}]", patches.join(", ")));
    put(dir.path(), "filter.yaml", &filter);
    world.until("get policies", "slow").await;
    let _stream = connect_sidecar(&world).await;
    let of_route = "EnvoyFilter shop/slow: spec.configPatches[0] is left out of a part of RDS 80, which Envoy would refuse with it: route needs";
    let of_cluster = format!("spec.configPatches[1] is left out of a part of CDS {OLD}");
    for (host, address, own, other) in
        [("pay", "10.0.0.1", of_route, &*of_cluster), ("old", "10.0.0.2", &*of_cluster, of_route)]
    {
        let why = world.run(&format!("why-not {host}:80 --for-client {SIDECAR}")).await.out;
        let explain = format!("explain {address}:80 --host {host}.shop.example --for-client {SIDECAR}");
        for shown in [why, world.run(&explain).await.out] {
            assert!(shown.contains(own) && shown.contains("TRB0469") && !shown.contains(other), "{shown}");
        }
    }
    world.server.stop().await;
}
