//! `tributary check` on real API servers and real Consuls: every check of its table is red by a real fault and green without it.
//!
//! Here all is green before and after the installation; then a right is missing, a certificate has expired and a token is wrong, and each
//! is red with its next step. [`before`] has the other faults before an installation, [`running`] those of a running server, [`replicas`]
//! those of several, and [`covered`] compares the list of proofs with the table.

mod before;
mod checked;
mod covered;
mod replicas;
mod running;
mod site;

use anyhow::{Context as _, Result, ensure};
use checked::{after, before, run, until_red};
use site::Site;
use tributary_suites::TestServer;
use tributary_suites::kube::{READ, READABLE, without};

#[tokio::test]
async fn installation_is_green_and_each_fault_is_red_with_its_next_step() -> Result<()> {
    let site = Site::start().await?;
    let good = site.authority.server("xds")?;
    let config = site.config(&good)?;
    before(&config).await?.is_green().context("before the installation")?;

    let server = site.serve(&config).await?;
    // the state directory is in use now
    before(&config).await?.is_red(&[("before-state", "is held by process")])?;
    after(&server, &["--wait", "60s", "--connect"]).await?.is_green().context("after the installation")?;
    let admin = server.admin().to_string();
    let goals = [
        "ready",
        "registry/consul=Live",
        "cluster/Kubernetes=Live",
        "endpoints/pay.shop.svc.cluster.local=1",
    ];
    let goals: Vec<String> = goals.iter().map(|goal| format!("--for={goal}")).collect();
    let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
    let (code, out, notes) = run(&[&["wait", "--server", &admin], &goals[..]].concat()).await?;
    ensure!(code == Some(0) && out.lines().count() == 4, "{out}{notes}");

    site.cluster.api().allow("reader", &READ, &without("pods")).await?;
    let lost = ("rights", "grant its account what `tributary rbac print` shows");
    let waited = until_red(&server, "rights").await?;
    waited.is_red(&[lost, ("clusters-live", "pods"), ("cluster-tries", "pods")])?;
    ensure!(waited.0 == Some(3), "exit {:?}", waited.0);
    let missing = before(&config).await?;
    let hint = ("before-rights", "list pods in every namespace; apply what `tributary rbac print` shows");
    missing.is_red(&[hint, ("before-state", "held")])?;
    site.cluster.api().allow("reader", &READ, &READABLE).await?;

    let token = std::fs::read(site.path("token"))?;
    std::fs::write(site.path("token"), "00000000-0000-4000-8000-000000000000")?;
    let refused = before(&config).await?;
    refused.is_red(&[("before-consul-token", "correct the token"), ("before-state", "held")])?;
    let refused = until_red(&server, "registries-live").await?;
    ensure!(refused.red().iter().any(|one| one.starts_with("consul-tokens: ")), "{:#?}", refused.red());
    std::fs::write(site.path("token"), token)?;
    drop(server);

    let config = site.config(&site.authority.expired("expired")?)?;
    before(&config).await?.is_red(&[("before-certificates", "replace the certificate")])?;
    let server = site.serve(&config).await?;
    let found = after(&server, &["--wait", "5s"]).await?;
    ensure!(found.0 == Some(5), "the certificate stays expired: exit {:?}", found.0);
    found.is_red(&[("certificates", "replace the certificate")])?;
    report(&server, &site).await
}

/// The archive of a server holds no token, no key and no kubeconfig.
async fn report(server: &TestServer, site: &Site) -> Result<()> {
    let file = site.path("report.tar.gz");
    let (admin, output) = (server.admin().to_string(), file.display().to_string());
    let (code, out, notes) = run(&["bug-report", "--server", &admin, "--output", &output]).await?;
    ensure!(code == Some(0), "{out}{notes}");
    let unpacked = std::process::Command::new("tar").args(["-xzOf", &output]).output()?;
    let text = String::from_utf8_lossy(&unpacked.stdout);
    ensure!(text.contains("CheckList") && text.contains("tributary_build_info"), "the archive lacks parts");
    let token = std::fs::read_to_string(site.path("token"))?;
    ensure!(!text.contains(token.trim()) && !text.contains("PRIVATE KEY"), "the archive has a secret");
    Ok(())
}
