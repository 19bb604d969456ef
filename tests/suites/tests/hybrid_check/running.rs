//! Faults of a running server and of its sources: each makes `check` red, and its correction green.

use anyhow::{Context as _, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tributary_suites::consul::Consul;
use tributary_suites::front::Changes;
use tributary_suites::kube::Login;
use tributary_suites::{Front, TestServer, eventually, replace};

use crate::checked::{LATER, after, check};
use crate::site::Site;

/// Path of a kind that the server reads, and can do without.
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/gateways";
/// Rules of a token that sees one service.
const WEB: &str = r#"service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }"#;

#[tokio::test]
async fn each_fault_of_a_running_server_is_red() -> Result<()> {
    let site = Site::start().await?;
    let (front, _outside, kubeconfig) = site.front().await?;
    let remotes = site.path("remotes");
    std::fs::create_dir(&remotes)?;
    let mut config = site.document(&site.authority.server("xds")?)?;
    config["registries"][0]["kubeconfig"] = json!(kubeconfig);
    config["remotes"] =
        json!({"directory": remotes, "allowServerCidrs": ["127.0.0.0/8"], "leaveGrace": "1s", "drain": "1s"});
    let server = site.serve(&site.write(&config)?).await?;
    after(&server, &["--wait", "60s", "--connect"]).await?.is_green().context("without a fault")?;

    sides(&server).await?;
    clocks(&server, &front).await?;
    kind(&server, &front).await?;
    run(&site, &server, &config).await?;
    identity(&site, &server).await
}

/// Version and clock of the server are other ones than those of this side.
async fn sides(server: &TestServer) -> Result<()> {
    let front = Front::plain(server.admin()).await?;
    let at = front.addr().to_string();
    check(&["--server", &at]).await?.is_green().context("through a front")?;
    let version = || ("/debug/version", "/version", json!("0.0.1"));
    front.set(Changes { fields: vec![version()], ..Changes::default() });
    check(&["--server", &at]).await?.is_red(&[("server-version", "the server has 0.0.1")])?;
    let early = (Timestamp::now() - SignedDuration::from_mins(5)).to_string();
    front.set(Changes { fields: vec![("/debug/version", "/asOf", json!(early))], ..Changes::default() });
    check(&["--server", &at]).await?.is_red(&[("server-clock", "s apart; synchronize both clocks")])
}

/// The clock of the API server is five minutes ahead.
async fn clocks(server: &TestServer, front: &Front) -> Result<()> {
    front.set(Changes { seconds: 300, ..Changes::default() });
    settled(server, &["--connect"], |found| found.is_red(&[("cluster-clocks", "s apart")])).await?;
    front.set(Changes::default());
    settled(server, &["--connect"], |found| found.is_green()).await
}

/// The API server fails for one kind.
async fn kind(server: &TestServer, front: &Front) -> Result<()> {
    front.set(Changes { broken: vec![GATEWAYS], ..Changes::default() });
    // its watch would continue
    front.cut();
    settled(server, &[], |found| found.has_red("kinds", "gateways")).await?;
    front.set(Changes::default());
    settled(server, &[], |found| found.is_green()).await
}

/// A new token sees less, so that the new run waits to be accepted.
async fn run(site: &Site, server: &TestServer, config: &Value) -> Result<()> {
    narrow(&site.consul, site).await?;
    let mut narrower = config.clone();
    narrower["registries"][1]["tokenFile"] = json!(site.path("narrow"));
    site.write(&narrower)?;
    settled(server, &[], |found| found.has_red("registry-runs", "state accept consul")).await?;
    site.write(config)?;
    settled(server, &[], |found| found.is_green()).await
}

async fn narrow(consul: &Consul, site: &Site) -> Result<()> {
    // what it does not see is lost
    consul.instance("pay", "pay-1", "n1", ([10, 0, 0, 3], 8080).into()).await?;
    replace(&site.path("narrow"), &consul.token("narrow", WEB).await?.1)
}

/// One real cluster is declared under a second name.
async fn identity(site: &Site, server: &TestServer) -> Result<()> {
    let twin = site.cluster.kubeconfig(&Login::user("reader"))?;
    replace(&site.path("remotes").join("twin"), &std::fs::read_to_string(twin)?)?;
    settled(server, &[], |found| found.has_red("cluster-identities", "one cluster with")).await?;
    std::fs::remove_file(site.path("remotes").join("twin"))?;
    settled(server, &[], |found| found.is_green()).await
}

/// Repeats `check` until its result is as expected.
async fn settled(
    server: &TestServer,
    more: &[&str],
    expected: impl Fn(&crate::checked::Checked) -> Result<()>,
) -> Result<()> {
    eventually("the result of the check", LATER, || async { expected(&after(server, more).await?) }).await
}
