//! The scripted Consul's process, as the bench uses it: its address, its counters, and its commands.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tributary_suites::tls::Authority;

use super::catalog::Shape;
use crate::children::Helper;

/// Counters since the last reset.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    /// Bytes of answers about one service; the rest are lists.
    pub(super) service_bytes: u64,
    pub(super) busiest_second: u64,
    pub(super) waiting: u64,
    pub(super) most_connections: u64,
    pub(super) connections_made: u64,
    pub(super) most_streams: u64,
    pub(super) critical: u64,
    /// Whether the last list of names that was sent is current.
    pub(super) names_read: bool,
}

/// Times at which the check of each service flipped, in nanoseconds of the machine's clock.
pub(super) type Flips = HashMap<usize, u64>;

/// A running scripted Consul.
pub(super) struct Source {
    process: Helper,
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    /// Services that have flipped so far; each flips once before any flips again.
    flipped: usize,
}

impl Source {
    /// Starts the process, with TLS by that authority or in plain text.
    pub(super) async fn start(shape: Shape, authority: Option<&Authority>) -> Result<Self> {
        let mut args = vec![shape.services.to_string(), shape.instances.to_string()];
        if let Some(authority) = authority {
            let identity = authority.server("consul")?;
            args.extend(
                [identity.certificate_file, identity.key_file].map(|file| file.display().to_string()),
            );
        }
        let mut process = Helper::start("consul-server", &args, None)?;
        let event = process.event("listening").await?;
        let address = event["address"].as_str().context("the listening event has no address")?.to_owned();
        Ok(Self { process, address, flipped: 0 })
    }
    /// Flips this many checks at this rate per second. Returns when all have flipped.
    pub(super) async fn flip(&mut self, count: usize, rate: f64) -> Result<Flips> {
        let from = self.flipped;
        self.flipped += count;
        self.process.send(&format!("flip {count} {rate} {from}")).await?;
        self.flips().await
    }
    /// Flips a check of every service at once.
    pub(super) async fn flip_all(&mut self) -> Result<Flips> {
        self.process.send(&format!("all {}", self.flipped)).await?;
        self.flips().await
    }

    async fn flips(&mut self) -> Result<Flips> {
        let event = self.process.event("flipped").await?;
        Ok(serde_json::from_value::<Vec<(usize, u64)>>(event["flips"].clone())?.into_iter().collect())
    }
    /// Removes the first services at this rate per second. Returns when all are removed.
    pub(super) async fn remove(&mut self, count: usize, rate: f64) -> Result<()> {
        self.process.send(&format!("remove {count} {rate}")).await?;
        self.process.event("changed").await.map(drop)
    }
    /// Registers these services again, with all their instances. Returns when all are registered.
    pub(super) async fn bring_back(&mut self, count: usize, rate: f64) -> Result<()> {
        self.process.send(&format!("return {count} {rate}")).await?;
        self.process.event("changed").await.map(drop)
    }
    /// Returns the counters.
    pub(super) async fn counts(&mut self) -> Result<Counted> {
        self.process.send("counts").await?;
        Ok(serde_json::from_value(self.process.event("counts").await?)?)
    }
    /// Resets the counters.
    pub(super) async fn reset(&mut self) -> Result<()> {
        self.process.send("reset").await?;
        self.process.event("reset").await.map(drop)
    }
    /// Waits until this many long polls wait, everything has been read, and at most this many other requests
    /// arrive per second.
    pub(super) async fn settled(&mut self, polls: u64, a_second: u64, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        let mut before = self.counts().await?.requests;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = self.counts().await?;
            let asked = (now.requests - std::mem::replace(&mut before, now.requests)).saturating_mul(2);
            if now.names_read && now.waiting >= polls && asked <= a_second {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the registry did not come to rest within {within:?}: {now:?}"
            );
        }
    }
}
