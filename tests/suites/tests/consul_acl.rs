//! A real Consul with ACLs: no token, a narrow one, one that is revoked, one that is rotated in its file.

mod consul_support;

use std::time::Duration;

use anyhow::Result;
use consul_support::{addresses, at, none_held, says, served};
use tributary_suites::consul::{Consul, ConsulOptions};
use tributary_suites::{ServerOptions, TestServer, eventually};

const SOON: Duration = Duration::from_secs(20);
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

#[tokio::test]
async fn a_narrow_token_serves_what_it_sees_and_says_that_it_is_narrow() -> Result<()> {
    let consul = with_acl().await?;
    let (_, secret) = consul.token("narrow", WEB).await?;
    let server = TestServer::start(over(&consul).env("CONSUL_HTTP_TOKEN", &secret)).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    assert!(addresses(&server, "pay").await?.is_empty());
    says(&server, "filtered by ACLs", SOON).await?;
    // its view is its baseline: what goes in it is gone
    consul.deregister("n1", "web-1").await?;
    served(&server, "web", &[2], SOON).await?;
    consul.deregister("n2", "web-2").await?;
    served(&server, "web", &[], SOON).await
}

#[tokio::test]
async fn a_revoked_token_takes_nothing_away_and_another_one_in_its_file_goes_on() -> Result<()> {
    let consul = with_acl().await?;
    let home = tempfile::tempdir()?;
    let file = home.path().join("token");
    let (accessor, secret) = consul.token("first", ALL).await?;
    std::fs::write(&file, secret)?;
    let options = over(&consul).env("CONSUL_HTTP_TOKEN_FILE", &file.display().to_string());
    let server = TestServer::start(options).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    served(&server, "pay", &[3], SOON).await?;

    consul.revoke(&accessor).await?;
    consul.instance("web", "web-9", "n3", at(9)).await?;
    says(&server, "refuses the token", Duration::from_secs(60)).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    served(&server, "pay", &[3], SOON).await?;

    let (_, secret) = consul.token("second", ALL).await?;
    std::fs::write(&file, secret)?;
    served(&server, "web", &[1, 2, 9], Duration::from_secs(60)).await?;
    consul.deregister("n1", "pay-1").await?;
    served(&server, "pay", &[], SOON).await
}

#[tokio::test]
async fn a_token_that_sees_less_than_the_last_one_takes_nothing_away() -> Result<()> {
    let consul = with_acl().await?;
    let home = tempfile::tempdir()?;
    let file = home.path().join("token");
    std::fs::write(&file, consul.token("wide", ALL).await?.1)?;
    let options = over(&consul).env("CONSUL_HTTP_TOKEN_FILE", &file.display().to_string());
    let server = TestServer::start(options).await?;
    served(&server, "pay", &[3], SOON).await?;
    std::fs::write(&file, consul.token("narrow", WEB).await?.1)?;
    says(&server, "sees less", SOON).await?;
    consul.instance("web", "web-9", "n3", at(9)).await?;
    served(&server, "web", &[1, 2, 9], SOON).await?;
    served(&server, "pay", &[3], SOON).await?;
    // with its policies back, what was hidden is seen again, and is gone when it is gone
    std::fs::write(&file, consul.token("wide-again", ALL).await?.1)?;
    eventually("the view to be whole", Duration::from_secs(60), || async {
        let said = consul_support::registry(&server).await?.to_string();
        anyhow::ensure!(!said.contains("sees less"), "{said}");
        Ok(())
    })
    .await?;
    consul.deregister("n1", "pay-1").await?;
    served(&server, "pay", &[], SOON).await?;
    none_held(&server, SOON).await
}

#[tokio::test]
async fn without_a_token_a_server_that_denies_serves_nothing_and_removes_nothing() -> Result<()> {
    let consul = with_acl().await?;
    let server = TestServer::launch(over(&consul))?;
    eventually("the registry to be there", SOON, || async {
        consul_support::registry(&server).await.map(drop)
    })
    .await?;
    says(&server, "filtered by ACLs", SOON).await?;
    assert!(addresses(&server, "web").await?.is_empty());
    let said = consul_support::registry(&server).await?;
    let reason = said["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("no token is given"), "its one line tells, too: {said}");
    Ok(())
}
