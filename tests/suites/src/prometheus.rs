//! Debian's Prometheus: scrapes servers under test each second, evaluates rules, and answers queries.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{Process, http_client, ports, tools, wait};

const STARTS_WITHIN: Duration = Duration::from_secs(20);
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// A running Prometheus; its data is removed with it.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    addr: SocketAddr,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts it with these rules and targets, each with its job, and waits until it has scraped each target.
    pub async fn start(rules: &Value, targets: &[(&str, SocketAddr)]) -> Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for Prometheus")?;
        let jobs = targets
            .iter()
            .map(|(job, target)| json!({"targets": [target.to_string()], "labels": {"job": job}}));
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "tributary", "static_configs": jobs.collect::<Vec<_>>()}],
        });
        // JSON is valid YAML.
        std::fs::write(folder.path().join("rules.yml"), rules.to_string())?;
        std::fs::write(folder.path().join("prometheus.yml"), config.to_string())?;
        let addr = ports::free_addr()?;
        let mut command = Command::new(tools::prometheus()?);
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        command.args([
            flag("config.file", &folder.path().join("prometheus.yml").display()),
            flag("storage.tsdb.path", &folder.path().join("data").display()),
            flag("web.listen-address", &addr),
        ]);
        let mut started = Self { process: Process::spawn("prometheus", command)?, addr, _folder: folder };
        started.has_scraped(targets.len()).await?;
        Ok(started)
    }

    async fn has_scraped(&mut self, targets: usize) -> Result<()> {
        let addr = self.addr;
        self.process
            .until("every target to be scraped", STARTS_WITHIN, async || {
                let up = query(addr, "up == 1").await?;
                ensure!(up.len() == targets, "{} of {targets} are: {up:?}", up.len());
                Ok(())
            })
            .await
    }

    /// Returns the samples of a query now.
    pub async fn query(&self, query_text: &str) -> Result<Vec<Value>> {
        query(self.addr, query_text).await
    }

    /// Returns the series of a query over a span up to now, each with its values in steps of a second.
    pub async fn query_range(&self, query_text: &str, span: Duration) -> Result<Vec<Value>> {
        let end = jiff::Timestamp::now().as_second();
        let start = end.saturating_sub(i64::try_from(span.as_secs()).unwrap_or(i64::MAX));
        let path =
            format!("/api/v1/query_range?query={}&start={start}&end={end}&step=1", encoded(query_text));
        result(self.addr, &path).await
    }
}

async fn query(addr: SocketAddr, query: &str) -> Result<Vec<Value>> {
    result(addr, &format!("/api/v1/query?query={}", encoded(query))).await
}

async fn result(addr: SocketAddr, path: &str) -> Result<Vec<Value>> {
    let answer = http_client::get_json(addr, path).await?;
    let result = answer["data"]["result"].as_array().cloned();
    result.with_context(|| format!("{path}: {answer}"))
}

/// Encodes a text for the query of a URL.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Runs promtool in a folder. Fails with its output unless it succeeds.
pub async fn promtool(folder: &Path, args: &[&str]) -> Result<String> {
    promtool_with(folder, args, Stdio::null()).await
}

/// Lets promtool parse and judge an answer of `/metrics` in the text format of Prometheus.
pub async fn check_metrics(text: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("metrics.txt");
    std::fs::write(&file, text)?;
    let input = std::fs::File::open(&file)?;
    promtool_with(folder.path(), &["check", "metrics"], input.into()).await.map(|_| ())
}

async fn promtool_with(folder: &Path, args: &[&str], input: Stdio) -> Result<String> {
    let mut command = Command::new(tools::prometheus()?.with_file_name("promtool"));
    command.args(args).current_dir(folder).stdin(input).kill_on_drop(true);
    let output =
        wait::in_time(&args.join(" "), ANSWERS_WITHIN, async { Ok(command.output().await?) }).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "promtool {}: {all}", args.join(" "));
    Ok(all)
}
