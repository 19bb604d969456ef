//! A cluster that is replaced under a running Tributary, at the same address with the same credential. The
//! served facts stay, shown as stale, until an operator accepts the other cluster or the first one returns.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tributary_suites::ads::node;
use tributary_suites::consul::PORT;
use tributary_suites::kube::{ApiServerOptions, Watched, mk_slice};
use tributary_suites::{
    ApiServer, Entry, Etcd, Follower, TestServer, Variant, eventually, nowhere, outbound,
};

const SOON: Duration = Duration::from_secs(30);
/// An API server starts, and an absent kind is discovered twice.
const LATER: Duration = Duration::from_secs(120);
/// Longer than two audits.
const AUDITED: Duration = Duration::from_secs(6);
const REGISTRIES: [&str; 2] = ["kubernetes", "kubernetes-entries"];
const CHANGED: &str = "the source's identity changed";
const PAY: &str = "pay.shop.svc.cluster.local";

/// Two clusters, one of which answers, and a server that follows it.
struct Lab {
    etcds: [Arc<Etcd>; 2],
    cluster: ApiServer,
    server: TestServer,
    recorder: Follower,
    _config: TempDir,
}

impl Lab {
    async fn start() -> Result<Self> {
        let etcds = [Arc::new(Etcd::start().await?), Arc::new(Etcd::start().await?)];
        let cluster = ApiServer::start_with(ApiServerOptions::default().on(&etcds[0], "first")).await?;
        fill(&cluster, &["10.77.0.10", "10.77.0.11"], "old.test", 1).await?;
        let watched = Watched::by_admin(&cluster)?.registry("auditInterval: 2s");
        let (server, config) = watched.start().await?;
        let mut recorder = Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?;
        has_pay(&mut recorder, &["10.77.0.10:8080", "10.77.0.11:8080"]).await?;
        has(&mut recorder, "old.test", 1).await?;
        for registry in REGISTRIES {
            server.registry_is(registry, "Live", &[], SOON).await?;
        }
        recorder.forget();
        Ok(Self { etcds, cluster, server, recorder, _config: config })
    }
    /// Starts another, empty cluster in place of the first.
    async fn replace(&self) -> Result<()> {
        self.cluster.become_cluster(&self.etcds[1], "second").await?;
        self.waits().await
    }
    /// Asserts that both registries wait for an operator, and show stale facts.
    async fn waits(&self) -> Result<()> {
        for registry in REGISTRIES {
            eventually(&format!("{registry} to wait for an operator"), LATER, || async {
                let shown = self.server.registry(registry).await?;
                let waits = shown["waitsFor"].as_str().is_some_and(|why| why.contains(CHANGED));
                ensure!(waits && shown["state"] == "Stale", "{shown}");
                ensure!(shown["reason"].as_str().is_some_and(|why| why.contains("identity is")), "{shown}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
    /// Asserts that nothing was removed or shrank, and nothing of the other cluster appeared, by audits or
    /// lists either.
    async fn lost_nothing(&mut self) -> Result<()> {
        self.recorder.settle(AUDITED).await?;
        ensure!(self.recorder.answers().is_empty(), "{:?}", self.recorder.answers());
        Ok(())
    }
}

async fn fill(cluster: &ApiServer, pay: &[&str], host: &str, last: u8) -> Result<()> {
    cluster.api().fill_shop(PORT, pay, Some(Entry::http(host, PORT).at(nowhere(last)))).await
}

async fn has_pay(recorder: &mut Follower, hosts: &[&str]) -> Result<()> {
    let hosts = hosts.iter().map(|host| Ok(host.parse()?)).collect::<Result<Vec<_>>>()?;
    recorder.has_endpoints(&outbound(PORT, PAY), &hosts, LATER).await
}

async fn has(recorder: &mut Follower, host: &str, last: u8) -> Result<()> {
    recorder.has_endpoints(&outbound(PORT, host), &[nowhere(last)], LATER).await
}

#[tokio::test]
async fn cluster_replaced_at_its_address_waits_until_accepted() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.replace().await?;
    lab.lost_nothing().await?;
    fill(&lab.cluster, &["10.77.0.20"], "new.test", 2).await?;
    lab.lost_nothing().await?;
    lab.waits().await?;
    for registry in REGISTRIES {
        eventually("the other cluster to be accepted", LATER, || async {
            let (exit, out, err) = lab.server.command(&["state", "accept", registry]).await?;
            ensure!(exit.success(), "{exit}: {out}{err}");
            Ok(())
        })
        .await?;
    }
    has_pay(&mut lab.recorder, &["10.77.0.20:8080"]).await?;
    has(&mut lab.recorder, "new.test", 2).await?;
    for registry in REGISTRIES {
        let shown = lab.server.registry_is(registry, "Live", &[], SOON).await?;
        ensure!(shown["waitsFor"].is_null(), "{shown}");
    }
    Ok(())
}

#[tokio::test]
async fn first_cluster_that_returns_is_followed_again() -> Result<()> {
    let mut lab = Lab::start().await?;
    let pinned = lab.server.kubernetes().await?["identity"].clone();
    lab.replace().await?;
    lab.cluster.become_cluster(&lab.etcds[0], "first").await?;
    for registry in REGISTRIES {
        eventually(&format!("{registry} to follow the first cluster again"), LATER, || async {
            let shown = lab.server.registry(registry).await?;
            ensure!(shown["state"] == "Live" && shown["waitsFor"].is_null(), "{shown}");
            let sources = shown["sources"].as_array().context("no sources")?;
            let parts = sources.iter().flat_map(|source| source["parts"].as_array()).flatten();
            ensure!(parts.into_iter().all(|part| part["state"] == "Live"), "{shown}");
            Ok(())
        })
        .await?;
    }
    lab.lost_nothing().await?;
    ensure!(lab.server.kubernetes().await?["identity"] == pinned, "another identity is pinned");
    let slice = mk_slice("shop", "pay", "pay-1", &["10.77.0.12"], &[("http", PORT)]);
    lab.cluster.api().apply(&slice).await?;
    has_pay(&mut lab.recorder, &["10.77.0.12:8080"]).await
}
