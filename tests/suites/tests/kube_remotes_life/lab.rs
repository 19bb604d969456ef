//! A config cluster, a remote cluster, and a Tributary that can be killed and started again with its state.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_suites::ads::node;
use tributary_suites::consul::PORT;
use tributary_suites::kube::remotes::{self, fill, mk_declaration, start_pair};
pub(crate) use tributary_suites::kube::remotes::{AWAY, HOME};
use tributary_suites::kube::{Login, Named, Watched, mk_slice};
use tributary_suites::{ApiServer, Follower, TestServer, Variant, eventually, http_client};

pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Shorter than `staleAfter` of the tests: a quiet watch counts as failed then, and a grace begins again when it is back.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// How long a cluster that leaves is used after others.
pub(crate) const DRAIN: Duration = Duration::from_secs(4);
/// Longer than several probes and audits of shortened intervals.
pub(crate) const WATCHED: Duration = Duration::from_secs(4);

/// Two clusters and a server that reads Secrets of the first.
pub(crate) struct Lab {
    pub(crate) home: ApiServer,
    pub(crate) away: ApiServer,
    server: Option<TestServer>,
    recorder: Option<Follower>,
    watched: Watched,
    state: PathBuf,
    config: Option<TempDir>,
    _folder: TempDir,
}

impl Lab {
    /// Starts everything and waits until the remote cluster is served.
    pub(crate) async fn joined() -> Result<Self> {
        let (home, away) = start_pair().await?;
        let folder = tempfile::tempdir()?;
        let state = folder.path().join("state");
        let watched = Watched::by(&home, &Login::user("admin"))?
            .config(&format!(
                "remotes: {{secrets: on, leaveGrace: {}s, drain: {}s, allowServerCidrs: [127.0.0.0/8]}}\n\
                 start: {{firstSyncTimeout: 2s}}",
                GRACE.as_secs(),
                DRAIN.as_secs()
            ))
            .arg("--state-dir")
            .arg(state.to_str().context("a path that is text")?);
        let (server, recorder, config) = (None, None, None);
        let mut lab = Self { home, away, server, recorder, watched, state, config, _folder: folder };
        lab.restart().await?;
        lab.declare(&[]).await?;
        lab.serves(&[HOME, AWAY]).await?;
        lab.is_live().await?;
        lab.recorder()?.forget();
        Ok(lab)
    }
    pub(crate) fn server(&self) -> Result<&TestServer> {
        self.server.as_ref().context("the server was killed")
    }
    pub(crate) fn recorder(&mut self) -> Result<&mut Follower> {
        self.recorder.as_mut().context("no client is connected")
    }
    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        (self.recorder, self.server) = (None, None);
    }
    /// Starts a server after the last one was killed, without waiting for it.
    pub(crate) fn launch(&mut self) -> Result<()> {
        self.kill();
        let (server, config) = self.watched.launch()?;
        (self.server, self.config) = (Some(server), Some(config));
        Ok(())
    }
    /// Kills the server, starts it again, and connects a client once it is ready.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.is_ready().await
    }
    pub(crate) async fn is_ready(&mut self) -> Result<()> {
        let server = self.server.as_mut().context("the server was killed")?;
        server.ready(SOON).await?;
        self.recorder = Some(Follower::like_envoy(server.xds(), Variant::Delta, node("recorder")).await?);
        Ok(())
    }
    /// Adds lines to the server's configuration, which it notices on its own.
    pub(crate) fn configure(&self, lines: &str) -> Result<()> {
        let file = self.config.as_ref().context("the server was killed")?.path().join("config.yaml");
        let text = std::fs::read_to_string(&file)?;
        Ok(std::fs::write(file, format!("{text}\n{lines}\n"))?)
    }
    pub(crate) async fn readyz(&self) -> Result<(u16, String)> {
        let (status, body) = http_client::get(self.server()?.admin(), "/readyz?verbose").await?;
        Ok((status.as_u16(), body))
    }
    /// Removes the server's state directory.
    pub(crate) fn forget_state(&self) -> Result<()> {
        Ok(std::fs::remove_dir_all(&self.state)?)
    }
    /// Starts another cluster with the same service.
    pub(crate) async fn another(&self, address: &str) -> Result<ApiServer> {
        let other = ApiServer::start().await?;
        fill(&other, address).await?;
        Ok(other)
    }
    /// Applies the Secret of the remote cluster with these annotations.
    pub(crate) async fn declare(&self, annotations: &[(&str, &str)]) -> Result<()> {
        self.declare_at(&self.away, annotations).await
    }
    /// Applies the Secret with this cluster in place of the remote one.
    pub(crate) async fn declare_at(&self, cluster: &ApiServer, annotations: &[(&str, &str)]) -> Result<()> {
        self.declare_as(cluster, "admin", annotations).await
    }
    /// Applies the Secret with the token of this user of a cluster.
    pub(crate) async fn declare_as(
        &self,
        cluster: &ApiServer,
        user: &str,
        annotations: &[(&str, &str)],
    ) -> Result<()> {
        let path = cluster.kubeconfig(&Login::user(user))?;
        let mut secret = secret(&std::fs::read_to_string(path)?);
        secret["metadata"]["annotations"] = annotations.iter().copied().collect::<Value>();
        self.home.api().apply(&secret).await.map(drop)
    }
    /// Applies the Secret with a kubeconfig that no server accepts.
    pub(crate) async fn declare_refused(&self) -> Result<()> {
        self.home.api().apply(&secret("clusters: [")).await.map(drop)
    }
    pub(crate) async fn undeclare(&self) -> Result<()> {
        self.home.api().remove(&Named::of(&secret(""))?).await
    }
    /// Sets the addresses of the service in the remote cluster.
    pub(crate) async fn move_away(&self, addresses: &[&str]) -> Result<()> {
        self.away.api().apply(&mk_slice("shop", "pay", "pay-1", addresses, &[("http", PORT)])).await.map(drop)
    }
    /// Waits until the client has exactly these endpoints.
    pub(crate) async fn serves(&mut self, endpoints: &[&str]) -> Result<()> {
        remotes::serves(self.recorder()?, endpoints, SOON).await
    }
    /// Returns whether the endpoints of the remote cluster are used after those of others.
    pub(crate) async fn is_demoted(&self) -> Result<bool> {
        let endpoints = self.server()?.items("endpoints?registry=away").await?;
        ensure!(!endpoints.is_empty(), "the remote cluster has endpoints");
        Ok(endpoints.iter().all(|one| one["demoted"] == true))
    }
    /// Asserts that nothing is sent for this long.
    pub(crate) async fn sends_nothing(&mut self, span: Duration) -> Result<()> {
        remotes::sends_nothing(self.recorder()?, span).await
    }
    pub(crate) async fn is_live(&self) -> Result<()> {
        for registry in ["kubernetes", "away", "away-entries"] {
            self.server()?.registry_is(registry, "Live", &[], SOON).await?;
        }
        Ok(())
    }
    pub(crate) async fn is_gone(&self) -> Result<()> {
        eventually("the registries of the cluster to be gone", SOON, || async {
            let text = self.server()?.command(&["get", "registries", "-o", "name"]).await?.1;
            ensure!(!text.contains("away"), "{text}");
            Ok(())
        })
        .await
    }
    /// Waits until everything that is served is on disk.
    pub(crate) async fn is_written(&self) -> Result<()> {
        eventually("everything to be written", SOON, || async {
            let state = self.server()?.debug("state").await?;
            let registries = state["registries"].as_array().context("registries")?;
            ensure!(registries.iter().all(|one| one["whole"] == true), "{state}");
            ensure!(state["journal"]["pendingKeys"] == 0, "{state}");
            Ok(())
        })
        .await
    }
}

/// Returns the identity of a cluster.
pub(crate) async fn uid_of(cluster: &ApiServer) -> Result<String> {
    let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
    let found = cluster.api().find(&Named::of(&system)?).await?.context("kube-system")?;
    Ok(found["metadata"]["uid"].as_str().context("no uid")?.to_owned())
}

fn secret(kubeconfig: &str) -> Value {
    mk_declaration("remote-away", "away", kubeconfig)
}
