//! The baseline: a consumer that long-polls the list of services and the list of all checks, and on a wake
//! reads every service again, a few at a time, as many consumers do.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;

use super::process::Flips;
use crate::changes::unix_nanos;

/// Concurrent reads.
const READERS: usize = 16;

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "Checks")]
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    #[serde(rename = "Status")]
    status: String,
}

/// State of the consumer: the checks of each service, and the time at which they last changed.
#[derive(Default)]
struct Known {
    statuses: HashMap<String, Vec<String>>,
    news: HashMap<usize, u64>,
    rounds: u64,
    is_reading: bool,
}

/// A running consumer; ends when dropped.
pub(super) struct Plain {
    known: Arc<Mutex<Known>>,
    _task: AbortOnDropHandle<()>,
}

impl Plain {
    /// Starts the consumer and returns when it has read everything once.
    pub(super) async fn start(url: String, authority: Option<&Path>, within: Duration) -> Result<Self> {
        let mut builder = reqwest::Client::builder();
        if let Some(file) = authority {
            builder = builder.tls_certs_only([reqwest::Certificate::from_pem(&std::fs::read(file)?)?]);
        }
        let (client, known) = (builder.build()?, Arc::<Mutex<Known>>::default());
        let shared = Arc::clone(&known);
        let task = tokio::spawn(async move {
            // a failure shows as flips that are never seen
            let _ = follow(&client, &url, &shared).await;
        });
        let plain = Self { known, _task: AbortOnDropHandle::new(task) };
        let deadline = Instant::now() + within;
        while plain.known.lock().rounds == 0 {
            ensure!(Instant::now() < deadline, "the plain consumer read nothing within {within:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        plain.known.lock().news.clear();
        Ok(plain)
    }
    /// Waits until it has seen every flip. Returns the delay of each in milliseconds.
    pub(super) async fn latencies(&self, flips: &Flips, within: Duration) -> Result<Vec<f64>> {
        let deadline = Instant::now() + within;
        loop {
            let late: Vec<f64> = {
                let known = self.known.lock();
                let late =
                    |(service, at): (&usize, &u64)| Some(known.news.get(service)?.saturating_sub(*at) as f64);
                flips.iter().filter_map(late).map(|nanos| nanos / 1e6).collect()
            };
            if late.len() == flips.len() {
                return Ok(late);
            }
            ensure!(Instant::now() < deadline, "the plain consumer saw {} of {}", late.len(), flips.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Plain {
    /// Waits until it has read everything that its last wake requires.
    pub(super) async fn idle(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while self.known.lock().is_reading {
            ensure!(Instant::now() < deadline, "the plain consumer still reads after {within:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

async fn follow(client: &reqwest::Client, url: &str, known: &Mutex<Known>) -> Result<()> {
    let (mut names_at, mut checks_at) = (None, None);
    loop {
        let names = wake(client, url, &mut names_at, &mut checks_at).await?;
        known.lock().is_reading = true;
        let reads = names.into_iter().map(|name| read(client, url, name, known));
        stream::iter(reads).buffer_unordered(READERS).try_collect::<()>().await?;
        let mut known = known.lock();
        known.rounds += 1;
        known.is_reading = false;
    }
}

/// Waits until either list moves; then reads the names.
async fn wake(
    client: &reqwest::Client,
    url: &str,
    names_at: &mut Option<u64>,
    checks_at: &mut Option<u64>,
) -> Result<Vec<String>> {
    let services = format!("{url}/v1/catalog/services");
    let checks = format!("{url}/v1/health/state/any");
    let wakes = (get(client, &services, *names_at), get(client, &checks, *checks_at));
    tokio::select! {
        moved = wakes.0, if names_at.is_some() => *names_at = Some(moved?.0),
        moved = wakes.1 => *checks_at = Some(moved?.0),
    }
    let (index, body) = get(client, &services, None).await?;
    *names_at = Some(index);
    let names: HashMap<String, Vec<String>> = serde_json::from_slice(&body)?;
    Ok(names.into_keys().filter(|name| name != "consul").collect())
}

async fn read(client: &reqwest::Client, url: &str, name: String, known: &Mutex<Known>) -> Result<()> {
    let (_, body) = get(client, &format!("{url}/v1/health/service/{name}"), None).await?;
    let entries: Vec<Entry> = serde_json::from_slice(&body)?;
    let statuses: Vec<String> =
        entries.into_iter().flat_map(|entry| entry.checks).map(|check| check.status).collect();
    let number = name.strip_prefix("svc-").and_then(|n| n.parse().ok());
    let mut known = known.lock();
    let is_news = known.statuses.get(&name) != Some(&statuses);
    known.statuses.insert(name, statuses);
    if let Some(number) = number.filter(|_| is_news) {
        known.news.insert(number, unix_nanos());
    }
    Ok(())
}

async fn get(client: &reqwest::Client, url: &str, index: Option<u64>) -> Result<(u64, bytes::Bytes)> {
    let mut request = client.get(url).query(&[("stale", "")]);
    if let Some(index) = index {
        request = request.query(&[("index", index.to_string()), ("wait", "60000ms".to_owned())]);
    }
    let response = request.send().await?.error_for_status()?;
    let index = response.headers().get("x-consul-index").and_then(|value| value.to_str().ok()?.parse().ok());
    Ok((index.unwrap_or(1), response.bytes().await?))
}
