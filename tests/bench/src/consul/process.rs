//! The scripted Consul's process, from the bench: where it is, what it was asked for, and what it is to change.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use tributary_suites::tls::Authority;

use super::catalog::Shape;
use crate::children::Helper;

/// How it was asked, since it was told to count anew.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) busiest_second: u64,
    pub(super) waiting: u64,
    pub(super) most_connections: u64,
    pub(super) connections_made: u64,
    pub(super) most_streams: u64,
    pub(super) critical: u64,
}

/// When the check of which service flipped, in nanoseconds of the machine's clock.
pub(super) type Flips = HashMap<usize, u64>;

/// A running one.
pub(super) struct Source {
    process: Helper,
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    /// Services that have flipped so far, since each flips once before any does again.
    flipped: usize,
}

impl Source {
    /// Over TLS by that authority, or plain.
    pub(super) async fn start(shape: Shape, authority: Option<&Authority>) -> Result<Self> {
        let mut args = vec![shape.services.to_string(), shape.instances.to_string()];
        if let Some(authority) = authority {
            let identity = authority.server("consul")?;
            args.extend(
                [identity.certificate_file, identity.key_file].map(|file| file.display().to_string()),
            );
        }
        let mut process = Helper::start("consul-server", &args, None)?;
        let told = process.event("listening").await?;
        let address = told["address"].as_str().context("it does not say where it listens")?.to_owned();
        Ok(Self { process, address, flipped: 0 })
    }
    /// So many checks flip, so many a second; returns when they have.
    pub(super) async fn flip(&mut self, count: usize, rate: f64) -> Result<Flips> {
        let from = self.flipped;
        self.flipped += count;
        self.process.tell(&format!("flip {count} {rate} {from}")).await?;
        self.flips().await
    }
    /// A check of every service flips at once.
    pub(super) async fn flip_all(&mut self) -> Result<Flips> {
        self.process.tell(&format!("all {}", self.flipped)).await?;
        self.flips().await
    }

    async fn flips(&mut self) -> Result<Flips> {
        let told = self.process.event("flipped").await?;
        Ok(serde_json::from_value::<Vec<(usize, u64)>>(told["flips"].clone())?.into_iter().collect())
    }
    /// What it has counted.
    pub(super) async fn counts(&mut self) -> Result<Counted> {
        self.process.tell("counts").await?;
        Ok(serde_json::from_value(self.process.event("counts").await?)?)
    }
    /// It counts anew.
    pub(super) async fn reset(&mut self) -> Result<()> {
        self.process.tell("reset").await?;
        self.process.event("anew").await.map(drop)
    }
    /// Waits until so many long polls wait, everything has been read, and hardly anything else is asked: at most so many
    /// requests a second.
    pub(super) async fn settled(&mut self, polls: u64, a_second: u64, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        let mut before = self.counts().await?.requests;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = self.counts().await?;
            let asked = (now.requests - std::mem::replace(&mut before, now.requests)).saturating_mul(2);
            if now.waiting >= polls && asked <= a_second {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the registry did not come to rest within {within:?}: {now:?}"
            );
        }
    }
}
