//! Remote clusters that Secrets of the config cluster declare, on real API servers: added, rotated, removed and read without a right,
//! while a client of ADS is connected.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::ads::node;
use tributary_suites::consul::PORT;
use tributary_suites::kube::remotes::{
    AWAY, HOME, NAMESPACE, mk_declaration, sends_nothing, serves, start_pair,
};
use tributary_suites::kube::{Login, Named, READ, READABLE, Watched, mk_namespace, mk_slice};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually};

const SOON: Duration = Duration::from_secs(60);
/// Longer than the longest pause between two tries.
const LATER: Duration = Duration::from_secs(180);
/// Shorter than `staleAfter` of the tests: a quiet watch counts as failed then, and a grace begins again when it is back.
const GRACE: Duration = Duration::from_secs(3);
/// Longer than several probes and audits of shortened intervals.
const WATCHED: Duration = Duration::from_secs(4);
/// A config cluster, a remote cluster, and a server that reads Secrets of the first.
struct Lab {
    home: ApiServer,
    away: ApiServer,
    server: TestServer,
    recorder: Follower,
    _config: TempDir,
}

impl Lab {
    async fn start() -> Result<Self> {
        Self::start_as("admin").await
    }
    /// Starts with a login at the config cluster.
    async fn start_as(user: &str) -> Result<Self> {
        let (home, away) = start_pair().await?;
        if user != "admin" {
            home.api().allow(user, &READ, &READABLE).await?;
        }
        let watched = Watched::by(&home, &Login::user(user))?.config(&format!(
            "remotes: {{secrets: on, leaveGrace: {}s, drain: 1s, allowServerCidrs: [127.0.0.0/8]}}\n\
             start: {{firstSyncTimeout: 2s}}",
            GRACE.as_secs()
        ));
        let (server, config) = watched.start().await?;
        let recorder = Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?;
        let mut lab = Self { home, away, server, recorder, _config: config };
        lab.serves(&[HOME]).await?;
        Ok(lab)
    }
    /// Applies the Secret of the remote cluster with this token.
    async fn declare(&self, token: &str) -> Result<()> {
        let path = self.away.kubeconfig(&Login::Token(token.to_owned()))?;
        self.declare_text(&std::fs::read_to_string(path)?).await
    }
    async fn declare_text(&self, kubeconfig: &str) -> Result<()> {
        self.home.api().apply(&secret(kubeconfig)).await.map(drop)
    }
    async fn undeclare(&self) -> Result<()> {
        self.home.api().remove(&Named::of(&secret(""))?).await
    }
    /// Waits until the client has exactly these endpoints.
    async fn serves(&mut self, endpoints: &[&str]) -> Result<()> {
        self.serves_within(endpoints, SOON).await
    }
    async fn serves_within(&mut self, endpoints: &[&str], within: Duration) -> Result<()> {
        serves(&mut self.recorder, endpoints, within).await
    }
    /// Asserts that nothing is sent for this long.
    async fn sends_nothing(&mut self, span: Duration) -> Result<()> {
        sends_nothing(&mut self.recorder, span).await
    }
    async fn joined(&mut self) -> Result<()> {
        self.declare("admin-token").await?;
        self.serves(&[HOME, AWAY]).await?;
        self.server.registry_is("away", "Live", &[], SOON).await?;
        self.server.registry_is("away-entries", "Live", &[], SOON).await?;
        self.recorder.forget();
        Ok(())
    }
    /// Waits until the registry serves another generation than this one.
    async fn rotated(&self, from: &Value) -> Result<Value> {
        eventually("another run to serve the cluster", SOON, || async {
            let shown = self.server.registry("away").await?;
            ensure!(shown["generation"] != *from && shown["state"] == "Live", "{shown}");
            Ok(shown["generation"].clone())
        })
        .await
    }
}

fn secret(kubeconfig: &str) -> Value {
    mk_declaration("remote-away", "away", kubeconfig)
}

#[tokio::test]
async fn cluster_of_a_secret_is_served_rotated_and_removed() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.joined().await?;
    let first = lab.server.registry("away").await?["generation"].clone();

    // a valid credential takes over without a resource
    lab.declare("reader-token").await?;
    lab.away.api().allow("reader", &READ, &READABLE).await?;
    let second = lab.rotated(&first).await?;
    lab.sends_nothing(WATCHED).await?;

    // one that the server refuses, and a text that is no kubeconfig, take nothing away
    lab.declare("garbage-token").await?;
    lab.sends_nothing(WATCHED).await?;
    lab.declare_text("garbage").await?;
    lab.sends_nothing(WATCHED).await?;
    let kept = lab.server.registry("away").await?;
    ensure!(kept["generation"] == second, "{kept}");

    lab.declare("admin-token").await?;
    lab.rotated(&second).await?;
    lab.sends_nothing(WATCHED).await?;

    // the rotated run is followed
    lab.away
        .api()
        .apply(&mk_slice("shop", "pay", "pay-1", &["10.78.0.10", "10.78.0.11"], &[("http", PORT)]))
        .await?;
    lab.serves(&[HOME, AWAY, "10.78.0.11:8080"]).await?;

    lab.undeclare().await?;
    lab.serves(&[HOME]).await?;
    eventually("the registries of the cluster to be gone", SOON, || async {
        let text = lab.server.command(&["get", "registries", "-o", "name"]).await?.1;
        ensure!(!text.contains("away"), "{text}");
        Ok(())
    })
    .await
}

/// The account that Istio's own tools create for a remote cluster may not read ConfigMaps.
#[tokio::test]
async fn cluster_follows_the_mesh_configuration_of_the_config_cluster() -> Result<()> {
    let mut lab = Lab::start().await?;
    let readable: Vec<&str> = READABLE.into_iter().filter(|of| *of != "configmaps").collect();
    lab.away.api().allow("reader", &READ, &readable).await?;
    lab.declare("reader-token").await?;
    lab.serves(&[HOME, AWAY]).await?;
    // a cluster is Live once both of its registries are
    eventually("the cluster to be Live", SOON, || async {
        let shown = lab.server.command(&["get", "clusters", "away"]).await?.1;
        ensure!(shown.contains(" Live ") && !shown.contains("configmaps"), "{shown}");
        Ok(())
    })
    .await?;

    let selected = labelled("shop", "shop");
    lab.home.api().apply(&selected).await?;
    lab.home.api().apply(&mesh("discoverySelectors: [{matchLabels: {team: shop}}]")).await?;
    lab.serves(&[HOME]).await?;
    lab.away.api().apply(&selected).await?;
    lab.serves(&[HOME, AWAY]).await?;

    // what the remote cluster has of its own selects nothing
    lab.away.api().apply(&mk_namespace(NAMESPACE)).await?;
    lab.away.api().apply(&mesh("discoverySelectors: [{matchLabels: {team: other}}]")).await?;
    lab.away.api().allow("reader", &READ, &READABLE).await?;
    lab.recorder.forget();
    lab.sends_nothing(WATCHED).await
}

fn labelled(namespace: &str, team: &str) -> Value {
    let mut object = mk_namespace(namespace);
    object["metadata"]["labels"] = json!({"team": team});
    object
}

fn mesh(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": "istio"},
        "data": {"mesh": text},
    })
}

#[tokio::test]
async fn secret_that_returns_within_the_grace_sends_nothing() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.joined().await?;
    let generation = lab.server.registry("away").await?["generation"].clone();
    lab.undeclare().await?;
    lab.sends_nothing(GRACE / 3).await?;
    lab.declare("admin-token").await?;
    lab.sends_nothing(GRACE * 2).await?;
    let shown = lab.server.registry("away").await?;
    ensure!(shown["generation"] == generation, "the credential is equal: {shown}");
    Ok(())
}

#[tokio::test]
async fn secrets_that_may_no_longer_be_read_remove_nothing() -> Result<()> {
    let mut lab = Lab::start_with_secrets().await?;
    lab.joined().await?;
    lab.home.api().allow("reader", &READ, &READABLE).await?;
    lab.waits_for_log("may not be read").await?;
    lab.undeclare().await?;
    lab.sends_nothing(GRACE * 4).await?;
    lab.home.api().allow("reader", &READ, &with_secrets()).await?;
    // the right is back: the deletion is proven at the next try of both watches
    lab.serves_within(&[HOME], LATER).await
}

fn with_secrets() -> Vec<&'static str> {
    READABLE.into_iter().chain(["secrets"]).collect()
}

impl Lab {
    /// Starts with a login that may also read Secrets.
    async fn start_with_secrets() -> Result<Self> {
        let lab = Self::start_as("reader").await?;
        lab.home.api().allow("reader", &READ, &with_secrets()).await?;
        Ok(lab)
    }
    async fn waits_for_log(&mut self, text: &str) -> Result<()> {
        let until = Instant::now() + SOON;
        while !self.server.process().output().contains(text) {
            ensure!(Instant::now() < until, "no line of the log has {text:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}
