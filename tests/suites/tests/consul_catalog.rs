//! A real Consul's catalog through the real server: instances are registered, changed, flipped, put into
//! maintenance and removed, and each is served as in the catalog.

mod consul_support;

use std::time::Duration;

use anyhow::Result;
use consul_support::{at, held, none_held, served, serves, states};
use serde_json::json;
use tributary_suites::consul::{Consul, mk_instance};
use tributary_suites::kube::With;
use tributary_suites::{ServerOptions, TestServer, eventually};

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
