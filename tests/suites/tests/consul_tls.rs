//! A real Consul behind TLS: its authority, a name for its certificate, a client certificate, and rotations.

mod consul_support;

use std::time::Duration;

use anyhow::{Result, ensure};
use consul_support::{at, reports, served};
use tributary_suites::consul::{Consul, ConsulOptions};
use tributary_suites::{Authority, ServerOptions, TestServer};

const SOON: Duration = Duration::from_secs(30);

fn over(consul: &Consul) -> ServerOptions {
    ServerOptions::default().arg("--registry").arg(&format!("consul={}", consul.url()))
}

#[tokio::test]
async fn own_authority_is_the_only_trusted_one_and_rotations_work() -> Result<()> {
    let authority = Authority::new()?;
    let consul = Consul::start_with(ConsulOptions::default().tls(&authority)?).await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    let ca = authority.file().display().to_string();
    let server = TestServer::start(over(&consul).env("CONSUL_CACERT", &ca)).await?;
    served(&server, "web", &[1], SOON).await?;

    // another certificate of the same authority
    authority.server("consul")?;
    consul.reload().await?;
    consul.instance("web", "web-2", "n2", at(2)).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    consul.daemon().kill();
    reports(&server, "cannot be reached", SOON).await?;
    served(&server, "web", &[1, 2], SOON).await?;
    consul.restart().await?;
    consul.instance("web", "web-3", "n3", at(3)).await?;
    // a dev agent has lost the others, and its leader confirms that
    served(&server, "web", &[3], Duration::from_secs(90)).await
}

#[tokio::test]
async fn certificate_of_an_untrusted_authority_is_rejected() -> Result<()> {
    let (authority, other) = (Authority::new()?, Authority::new()?);
    let consul = Consul::start_with(ConsulOptions::default().tls(&authority)?).await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    let ca = authority.path().join("trusted.pem");
    std::fs::copy(other.file(), &ca)?;
    let server = TestServer::launch(over(&consul).env("CONSUL_CACERT", &ca.display().to_string()))?;
    reports(&server, "certificate", SOON).await?;
    ensure!(consul_support::addresses(&server, "web").await?.is_empty());
    // the right authority in the same file is found without a restart
    std::fs::copy(authority.file(), &ca)?;
    served(&server, "web", &[1], SOON).await
}

#[tokio::test]
async fn server_name_is_verified_when_it_differs_from_the_address() -> Result<()> {
    let authority = Authority::new()?;
    let consul = Consul::start_with(ConsulOptions::default().tls(&authority)?).await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    let ca = authority.file().display().to_string();
    let options = || over(&consul).env("CONSUL_CACERT", &ca);
    let wrong = TestServer::launch(options().env("CONSUL_TLS_SERVER_NAME", "server.dc9.consul"))?;
    reports(&wrong, "certificate", SOON).await?;
    let right = TestServer::start(options().env("CONSUL_TLS_SERVER_NAME", "localhost")).await?;
    served(&right, "web", &[1], SOON).await
}

/// Consul no longer accepts the authority of the client certificate; another certificate replaces the file, and
/// the registry continues.
#[tokio::test]
async fn rejected_client_certificate_is_replaced_without_a_restart() -> Result<()> {
    let (authority, later) = (Authority::new()?, Authority::new()?);
    let mine = authority.client("mine", "spiffe://tests/operator")?;
    let trusted = authority.path().join("trusted.pem");
    std::fs::copy(authority.file(), &trusted)?;
    // keeps its data, unlike a dev agent
    let options = ConsulOptions::default().server_of(1).tls(&authority)?.only_known(mine.clone());
    let mut consul = Consul::start_with(options).await?;
    consul.instance("web", "web-1", "n1", at(1)).await?;
    let ours = authority.client("ours", "spiffe://tests/tributary")?;
    let server = TestServer::start(
        over(&consul)
            .env("CONSUL_CACERT", &trusted.display().to_string())
            .env("CONSUL_CLIENT_CERT", &ours.certificate_file.display().to_string())
            .env("CONSUL_CLIENT_KEY", &ours.key_file.display().to_string()),
    )
    .await?;
    served(&server, "web", &[1], SOON).await?;

    // from its next start it trusts only the later authority; its own certificate stays
    std::fs::copy(later.file(), authority.file())?;
    let mine_now = later.client("mine", "spiffe://tests/operator")?;
    consul.daemon().kill();
    consul.show(&mine_now)?;
    consul.restart().await?;
    let refused = consul.rest_showing(&mine)?.get("/v1/status/leader").await;
    ensure!(refused.is_err(), "the first certificate is still accepted: {refused:?}");
    consul.instance("web", "web-2", "n2", at(2)).await?;
    reports(&server, "cannot be reached", SOON).await?;
    ensure!(consul_support::addresses(&server, "web").await? == [at(1).to_string()], "nothing is lost");

    let ours_now = later.client("ours", "spiffe://tests/tributary")?;
    std::fs::copy(&ours_now.key_file, &ours.key_file)?;
    std::fs::copy(&ours_now.certificate_file, &ours.certificate_file)?;
    served(&server, "web", &[1, 2], Duration::from_secs(60)).await?;
    reports(&server, "Live", SOON).await
}
