//! etcd, one member, without fsync: what the API server under a test keeps its objects in. Several API servers may
//! share one, each with a prefix of its own.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Daemon, Rest, eventually, ports, tools};

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// A running etcd; its data go with it.
#[derive(Debug)]
pub struct Etcd {
    daemon: Daemon,
    url: String,
    rest: Rest,
    _data: TempDir,
}

impl Etcd {
    /// Starts it on free ports and waits until it is healthy.
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

    /// Where its clients go.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process, to be killed, paused and started again.
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

    /// The revision that it is at.
    pub async fn revision(&self) -> Result<u64> {
        // AA== is the key of one zero byte: nothing is there, but the header tells the revision.
        let answer = self.rest.post("/v3/kv/range", &json!({"key": "AA=="})).await?;
        let revision = answer["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        revision.with_context(|| format!("no revision in {answer}"))
    }

    /// Forgets all history before now, so that a watch from an older version cannot be resumed.
    pub async fn compact(&self) -> Result<u64> {
        let revision = self.revision().await?;
        let body: Value = json!({"revision": revision.to_string(), "physical": true});
        self.rest.post("/v3/kv/compaction", &body).await.context("compact etcd")?;
        Ok(revision)
    }
}
