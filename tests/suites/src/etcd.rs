//! etcd, one member, without fsync: the storage of the API server under a test. Several API servers may share
//! one, each with its own prefix.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Daemon, Rest, eventually, ports, tools};

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// A running etcd; its data are removed with it.
#[derive(Debug)]
pub struct Etcd {
    daemon: Daemon,
    url: String,
    rest: Rest,
    _data: TempDir,
}

impl Etcd {
    /// Starts etcd on free ports and waits until it is healthy.
    pub async fn start() -> Result<Self> {
        let data = tempfile::tempdir().context("make a folder for etcd")?;
        let url = format!("http://127.0.0.1:{}", ports::free_port()?);
        let peer = format!("http://127.0.0.1:{}", ports::free_port()?);
        let folder = data.path().display().to_string();
        let cluster = format!("e={peer}");
        let args = [
            ["--name", "e"],
            ["--data-dir", &folder],
            ["--listen-client-urls", &url],
            ["--advertise-client-urls", &url],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &cluster],
            ["--log-level", "warn"],
        ];
        let mut args: Vec<String> = args.iter().flatten().map(|&arg| arg.to_owned()).collect();
        args.push("--unsafe-no-fsync".to_owned());
        let daemon = Daemon::start("etcd", tools::etcd()?, args)?;
        let etcd = Self { daemon, rest: Rest::plain(&url)?, url, _data: data };
        etcd.ready().await?;
        Ok(etcd)
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the process, to be killed, paused and restarted.
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Waits until it is healthy.
    pub async fn ready(&self) -> Result<()> {
        eventually("etcd to be healthy", STARTS_WITHIN, || async {
            self.daemon.check_running()?;
            let health = self.rest.get("/health").await?;
            ensure!(health["health"] == "true", "{health}");
            Ok(())
        })
        .await
    }

    /// Returns the current revision.
    pub async fn revision(&self) -> Result<u64> {
        // AA== is the key of one zero byte: it does not exist, but the header has the revision.
        let answer = self.rest.post("/v3/kv/range", &json!({"key": "AA=="})).await?;
        let revision = answer["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        revision.with_context(|| format!("no revision in {answer}"))
    }

    /// Compacts all history, so a watch from an older version cannot be resumed.
    pub async fn compact(&self) -> Result<u64> {
        let revision = self.revision().await?;
        let body: Value = json!({"revision": revision.to_string(), "physical": true});
        self.rest.post("/v3/kv/compaction", &body).await.context("compact etcd")?;
        Ok(revision)
    }
}
