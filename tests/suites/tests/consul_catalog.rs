//! A real Consul's catalog through the real server: instances are registered, changed, flipped, put into
//! maintenance and removed, and each is served as in the catalog.

mod consul_support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use consul_support::{at, held, none_held, reports, served, serves, states};
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use serde_json::{Value, json};
use tributary_suites::ads::{EDS, node};
use tributary_suites::consul::{Consul, ConsulOptions, Served, mk_instance};
use tributary_suites::files::{Files, service_entry};
use tributary_suites::follower::address;
use tributary_suites::kube::With;
use tributary_suites::{Follower, ServerOptions, TestServer, Variant, eventually, outbound};

const SOON: Duration = Duration::from_secs(15);

async fn following(consul: &Consul) -> Result<TestServer> {
    TestServer::start(ServerOptions::default().arg("--registry").arg(&format!("consul={}", consul.url())))
        .await
}

#[tokio::test]
async fn registrations_edits_and_removals_are_served() -> Result<()> {
    let consul = Consul::start().await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    let server = following(&consul).await?;
    served(&server, "web", &[1], SOON).await?;
    consul.instance("web", "web-2", "n2", at(2)).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    consul.instance("web", "web-1", "n1", at(7)).await?;
    served(&server, "web", &[2, 7], SOON).await?;
    consul.deregister("n2", "web-2").await?;
    served(&server, "web", &[7], SOON).await?;
    consul.deregister("n1", "web-1").await?;
    served(&server, "web", &[], SOON).await?;
    eventually("the service to be gone", SOON, || async {
        let services = server.items("services?host=web.service.consul").await?;
        anyhow::ensure!(services.is_empty(), "{services:?}");
        Ok(())
    })
    .await?;
    // the leader has confirmed all of it
    none_held(&server, SOON).await?;
    consul.instance("web", "web-3", "n3", at(3)).await?;
    served(&server, "web", &[3], SOON).await
}

#[tokio::test]
async fn checks_and_maintenance_decide_the_health() -> Result<()> {
    let consul = Consul::start().await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    consul.instance("web", "web-2", "n2", at(2)).await?;
    let server = following(&consul).await?;
    states(&server, "web", &[(1, "Healthy"), (2, "Healthy")], SOON).await?;
    consul.check("web-1", "n1", "http", "critical").await?;
    states(&server, "web", &[(1, "Unhealthy"), (2, "Healthy")], SOON).await?;
    consul.check("web-1", "n1", "http", "warning").await?;
    states(&server, "web", &[(1, "Healthy"), (2, "Healthy")], SOON).await?;
    consul.maintenance("web-2", "n2", true).await?;
    states(&server, "web", &[(1, "Healthy"), (2, "Draining")], SOON).await?;
    consul.check("web-1", "n1", "http", "critical").await?;
    states(&server, "web", &[(1, "Unhealthy"), (2, "Draining")], SOON).await?;
    assert_eq!(held(&server).await?, 0, "what is all unhealthy is not gone");
    consul.maintenance("web-2", "n2", false).await?;
    consul.check("web-1", "n1", "http", "passing").await?;
    states(&server, "web", &[(1, "Healthy"), (2, "Healthy")], SOON).await
}

/// Returns the weights that a client holds for a host, in the order of addresses.
fn weights(client: &Follower, host: &str) -> Option<Vec<u32>> {
    let assignment: ClusterLoadAssignment = client.decode(EDS, &outbound(80, host)).ok()?;
    let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    let all = endpoints.map(|one| Some((address(one)?, one.load_balancing_weight?.value)));
    let sorted: BTreeMap<String, u32> = all.collect::<Option<_>>()?;
    Some(sorted.into_values().collect())
}

#[tokio::test]
async fn warning_lowers_the_weight_of_its_own_instance() -> Result<()> {
    let consul = Consul::start().await?;
    for last in 1..=2 {
        let instance = mk_instance("web", &format!("web-{last}"), &format!("n{last}"), at(last));
        let weights = json!({"Service": {"Weights": {"Passing": 10, "Warning": 1}}});
        consul.register(&instance.with(weights)).await?;
    }
    let files = Files::new()?;
    files.put("web.yaml", &service_entry("web.files", "HTTP", 80, &[at(9)]))?;
    let members = json!([{"host": "web.files"}, {"host": "web.service.consul", "ports": {"80": 8080}}]);
    let served = Served::start(&json!({
        "registries": [
            {"kind": "file", "name": "files", "path": files.path()},
            {"kind": "consul", "name": "consul", "addresses": [consul.url()]},
        ],
        "federatedServices": [{"host": "all.mesh", "members": members}],
    }))
    .await?;
    let mut client = Follower::like_envoy(served.server.xds(), Variant::Delta, node("weights")).await?;
    let has = |want: [u32; 3]| {
        move |now: &Follower| weights(now, "all.mesh").filter(|have| have[..] == want[..]).map(drop)
    };
    client.until("equal weights", SOON, has([1, 1, 1])).await?;
    // the file's endpoint keeps the weight of an instance that passes
    consul.check("web-1", "n1", "http", "warning").await?;
    client.until("one lower weight", SOON, has([1, 10, 10])).await?;
    consul.check("web-1", "n1", "http", "passing").await?;
    client.until("equal weights again", SOON, has([1, 1, 1])).await
}

#[tokio::test]
async fn one_id_on_two_nodes_is_two_instances() -> Result<()> {
    let consul = Consul::start().await?;
    consul.instance("web", "web", "n1", at(1)).await?;
    consul.instance("web", "web", "n2", at(2)).await?;
    let server = following(&consul).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    consul.deregister("n1", "web").await?;
    served(&server, "web", &[2], SOON).await
}

#[tokio::test]
async fn change_of_meta_alone_is_served() -> Result<()> {
    let consul = Consul::start().await?;
    consul.register(&mk_instance("web", "web-1", "n1", at(1))).await?;
    let server = following(&consul).await?;
    served(&server, "web", &[1], SOON).await?;
    let meta = json!({"Service": {"Meta": {"service-port": "80", "team": "pay"}, "Tags": ["v=2", "blue"]}});
    consul.register(&mk_instance("web", "web-1", "n1", at(1)).with(meta)).await?;
    eventually("port 80", SOON, || async {
        let endpoints = serves(&server, "web").await?;
        anyhow::ensure!(endpoints.iter().all(|one| one["port"] == 80), "{endpoints:?}");
        // labels come from Meta and tags
        let labels = &endpoints[0]["labels"];
        anyhow::ensure!(labels["team"] == "pay" && labels["v"] == "2", "{endpoints:?}");
        Ok(())
    })
    .await
}

/// Returns the port numbers of `web` that clients see, and the codes of its conditions.
async fn ports(server: &TestServer) -> Result<(Vec<u64>, String)> {
    let services = server.items("services?host=web.service.consul").await?;
    let ports = services.iter().flat_map(|one| one["ports"].as_array().into_iter().flatten());
    let numbers = ports.filter_map(|port| port["number"].as_u64()).collect();
    Ok((numbers, services.iter().map(|one| one["conditions"].to_string()).collect()))
}

#[tokio::test]
async fn fifth_port_number_keeps_the_first_four() -> Result<()> {
    let consul = Consul::start().await?;
    let at_port = |last: u8| SocketAddr::from(([10, 0, 0, last], 8080 + u16::from(last)));
    for last in 1..=4 {
        consul.instance("web", &format!("web-{last}"), "n1", at_port(last)).await?;
    }
    let server = following(&consul).await?;
    let four: Vec<u64> = (8081..=8084).collect();
    let serves_four = |code: &'static str| {
        let (server, four) = (&server, &four);
        eventually("four ports", SOON, move || async move {
            let (numbers, codes) = ports(server).await?;
            anyhow::ensure!(
                &numbers == four && codes.contains("TRB0421") != code.is_empty(),
                "{numbers:?} {codes}"
            );
            Ok(())
        })
    };
    serves_four("").await?;
    consul.instance("web", "web-5", "n1", at_port(5)).await?;
    serves_four("TRB0421").await?;
    consul.deregister("n1", "web-5").await?;
    serves_four("").await
}

#[tokio::test]
async fn agent_is_followed_over_a_unix_socket() -> Result<()> {
    let home = tempfile::tempdir()?;
    let path = home.path().join("consul.sock");
    let listen = format!("addresses {{ http = \"127.0.0.1 unix://{}\" }}", path.display());
    let consul = Consul::start_with(ConsulOptions::default().hcl(&listen)).await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    let registry = format!("consul=unix://{}", path.display());
    let server = TestServer::start(ServerOptions::default().arg("--registry").arg(&registry)).await?;
    served(&server, "web", &[1], SOON).await?;
    consul.instance("web", "web-2", "n2", at(2)).await?;
    served(&server, "web", &[1, 2], SOON).await
}

#[tokio::test]
async fn mesh_services_show_a_condition_and_sidecars_are_not_followed() -> Result<()> {
    let consul = Consul::start().await?;
    let server = following(&consul).await?;
    let service =
        |name: &str, more: Value| json!({"Name": name, "Address": "10.0.0.1", "Port": 8080}).with(more);
    let registered = [
        service("web", json!({"Connect": {"SidecarService": {}}})),
        service("api", json!({"Connect": {"Native": true}})),
        service("plain", json!({})),
        service("gateway", json!({"Kind": "mesh-gateway"})),
    ];
    for body in &registered {
        consul.rest().put("/v1/agent/service/register", body).await?;
    }
    let in_mesh = || async {
        let services = server.items("services").await?;
        let mesh = services.iter().filter(|one| one["conditions"].to_string().contains("TRB0428"));
        let mut hosts: Vec<String> = mesh.map(|one| one["host"].to_string()).collect();
        hosts.sort();
        hosts.dedup();
        anyhow::Ok(hosts.join(" "))
    };
    let both = "\"api.service.consul\" \"api.service.dc1.dc.consul\" \"web.service.consul\" \"web.service.dc1.dc.consul\"";
    eventually("both services of the mesh", SOON, || async {
        let hosts = in_mesh().await?;
        anyhow::ensure!(hosts == both, "{hosts}");
        Ok(())
    })
    .await?;
    // web, api and plain; neither the sidecar nor the gateway
    reports(&server, "\"name\":\"services\",\"number\":3", SOON).await?;
    consul.rest().put("/v1/agent/service/deregister/web-sidecar-proxy", &Value::Null).await?;
    eventually("one service of the mesh", SOON, || async {
        let hosts = in_mesh().await?;
        anyhow::ensure!(!hosts.contains("web"), "{hosts}");
        Ok(())
    })
    .await
}
