//! A real Consul with ACLs: no token, a narrow one, a revoked one, and one that is rotated in its file.

mod consul_support;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use consul_support::{addresses, at, none_held, reports, served};
use serde_json::json;
use tempfile::TempDir;
use tributary_suites::consul::{Consul, ConsulOptions, Served};
use tributary_suites::{ServerOptions, TestServer, eventually};

const SOON: Duration = Duration::from_secs(20);
const LATER: Duration = Duration::from_secs(60);
const FILE: &str = "CONSUL_HTTP_TOKEN_FILE";
const ALL: &str = r#"service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }"#;
const WEB: &str = r#"service_prefix "web" { policy = "read" } node_prefix "" { policy = "read" }"#;

async fn with_acl() -> Result<Consul> {
    let consul = Consul::start_with(ConsulOptions::default().acl()).await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    consul.instance("web", "web-2", "n2", at(2)).await?;
    consul.instance("pay", "pay-1", "n1", at(3)).await?;
    Ok(consul)
}

fn over(consul: &Consul) -> ServerOptions {
    ServerOptions::default().arg("--registry").arg(&format!("consul={}", consul.url()))
}

/// A server with a token.
struct World {
    consul: Consul,
    server: TestServer,
    /// Accessor of the first token.
    accessor: String,
    home: TempDir,
}

impl World {
    /// Starts with a token of these rules, in the variable itself or in the file that it names.
    async fn start(rules: &str, variable: &str) -> Result<Self> {
        let consul = with_acl().await?;
        let (accessor, secret) = consul.token("first", rules).await?;
        let home = tempfile::tempdir()?;
        let file = file_in(&home);
        std::fs::write(&file, &secret)?;
        let value = if variable == FILE { file.display().to_string() } else { secret };
        let server = TestServer::start(over(&consul).env(variable, &value)).await?;
        served(&server, "web", &[1, 2], SOON).await?;
        Ok(Self { consul, server, accessor, home })
    }
    /// Writes a new token to the file.
    async fn renew(&self, name: &str, rules: &str) -> Result<()> {
        let (_, secret) = self.consul.token(name, rules).await?;
        Ok(std::fs::write(file_in(&self.home), secret)?)
    }
    async fn has(&self, service: &str, last: &[u8]) -> Result<()> {
        served(&self.server, service, last, LATER).await
    }
}

fn file_in(home: &TempDir) -> PathBuf {
    home.path().join("token")
}

#[tokio::test]
async fn narrow_token_serves_its_view_and_reports_a_partial_view() -> Result<()> {
    let world = World::start(WEB, "CONSUL_HTTP_TOKEN").await?;
    assert!(addresses(&world.server, "pay").await?.is_empty());
    reports(&world.server, "filtered by ACLs", SOON).await?;
    // the view of a narrow token is its baseline: a removal in it applies
    world.consul.deregister("n1", "web-1").await?;
    world.has("web", &[2]).await?;
    world.consul.deregister("n2", "web-2").await?;
    world.has("web", &[]).await
}

#[tokio::test]
async fn revoked_token_removes_nothing_and_its_replacement_continues() -> Result<()> {
    let world = World::start(ALL, FILE).await?;
    world.has("pay", &[3]).await?;

    world.consul.revoke(&world.accessor).await?;
    world.consul.instance("web", "web-9", "n3", at(9)).await?;
    reports(&world.server, "refuses the token", LATER).await?;
    world.has("web", &[1, 2]).await?;
    world.has("pay", &[3]).await?;

    world.renew("second", ALL).await?;
    world.has("web", &[1, 2, 9]).await?;
    world.consul.deregister("n1", "pay-1").await?;
    world.has("pay", &[]).await
}

#[tokio::test]
async fn token_that_sees_less_than_the_last_one_removes_nothing() -> Result<()> {
    let world = World::start(ALL, FILE).await?;
    world.has("pay", &[3]).await?;
    world.renew("narrow", WEB).await?;
    reports(&world.server, "sees less", SOON).await?;
    world.consul.instance("web", "web-9", "n3", at(9)).await?;
    world.has("web", &[1, 2, 9]).await?;
    world.has("pay", &[3]).await?;
    eventually("the scope to show its held removals", SOON, || async {
        let report = consul_support::registry(&world.server).await?;
        let sources = report["sources"].as_array().cloned().unwrap_or_default();
        let dc1 = sources.iter().find(|source| source["scope"] == "dc1").map(|source| source["held"].clone());
        anyhow::ensure!(dc1.as_ref() == Some(&report["heldTotal"]) && report["heldTotal"] == 2, "{report}");
        Ok(())
    })
    .await?;
    // after its policies are restored, the token sees everything again, and removals apply
    world.renew("wide-again", ALL).await?;
    eventually("the view to be whole", LATER, || async {
        let report = consul_support::registry(&world.server).await?.to_string();
        anyhow::ensure!(!report.contains("sees less"), "{report}");
        Ok(())
    })
    .await?;
    world.consul.deregister("n1", "pay-1").await?;
    world.has("pay", &[]).await?;
    none_held(&world.server, SOON).await
}

#[tokio::test]
async fn default_deny_without_a_token_serves_and_removes_nothing() -> Result<()> {
    let consul = with_acl().await?;
    let server = TestServer::launch(over(&consul))?;
    eventually("the registry to be there", SOON, || async {
        consul_support::registry(&server).await.map(drop)
    })
    .await?;
    reports(&server, "filtered by ACLs", SOON).await?;
    assert!(addresses(&server, "web").await?.is_empty());
    eventually("the reason to show it", SOON, || async {
        let report = consul_support::registry(&server).await?;
        let reason = report["reason"].as_str().unwrap_or_default();
        anyhow::ensure!(reason.starts_with("no token is configured"), "{report}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn token_in_the_configuration_is_used_and_reloaded() -> Result<()> {
    let consul = with_acl().await?;
    let (_, narrow) = consul.token("narrow", WEB).await?;
    let (_, wide) = consul.token("wide", ALL).await?;
    let config = |token: &str| {
        let consul = json!({"kind": "consul", "name": "consul", "addresses": [consul.url()], "token": token,
            "wait": "10s", "streams": 100});
        json!({"registries": [consul]})
    };
    let registry = Served::start(&config(&narrow)).await?;
    served(&registry.server, "web", &[1, 2], SOON).await?;
    assert!(addresses(&registry.server, "pay").await?.is_empty(), "the narrow token does not see it");
    registry.reload(&config(&wide))?;
    served(&registry.server, "pay", &[3], LATER).await?;
    served(&registry.server, "web", &[1, 2], SOON).await
}
