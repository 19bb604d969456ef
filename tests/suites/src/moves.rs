//! Moves under load: a new backend is added and seen by the client, the old one is removed from the client, and
//! is then closed at once, under traffic that never retries. The steps are the same for Envoy and for gRPC; the
//! caller provides the function that sets endpoints.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::grpc::Calls;
use crate::{Backend, Envoy, GrpcClient, Load, LoadPlan, Tally};

const STEP_WITHIN: Duration = Duration::from_secs(20);
/// Answers of a new backend before the old one is removed, and of others before one counts as unused.
const ENOUGH: u64 = 5;
/// Answers of a new backend after the old one was removed from Envoy's main thread: two on each connection, so
/// the serving thread has received the change too.
const APPLIED: u64 = 16;

/// Result of the moves.
#[derive(Debug, Clone)]
pub struct Moved<T> {
    /// Every request or call of the whole run.
    pub tally: T,
    /// Time from setting the endpoints until the client had them, two for each move.
    pub seen_after: Vec<Duration>,
}

impl<T> Moved<T> {
    /// Returns the longest time until a client had a change.
    pub fn slowest(&self) -> Duration {
        self.seen_after.iter().max().copied().unwrap_or_default()
    }
}

/// Moves `cluster` of `envoy` `rounds` times with at least 200 HTTP requests per second on its first listener.
/// The cluster must have `first` as its only endpoint. The result is clean only if [`Tally::check_clean`]
/// passes.
pub async fn through_envoy<F>(
    envoy: &Envoy,
    cluster: &str,
    first: Backend,
    rounds: usize,
    set: F,
) -> Result<Moved<Tally>>
where
    F: AsyncFnMut(&[SocketAddr]) -> Result<()>,
{
    let plan = LoadPlan::to(envoy.listener(0)?).at_least(200.0);
    through_listener(envoy, &plan, cluster, first, rounds, set).await
}

/// As [`through_envoy`], with a load of the caller's choice, such as one on a discovered listener.
pub async fn through_listener<F>(
    envoy: &Envoy,
    plan: &LoadPlan,
    cluster: &str,
    first: Backend,
    rounds: usize,
    mut set: F,
) -> Result<Moved<Tally>>
where
    F: AsyncFnMut(&[SocketAddr]) -> Result<()>,
{
    envoy.has_hosts(cluster, &[first.addr()], STEP_WITHIN).await?;
    let load = Load::start(plan);
    load.reaches(first.name(), ENOUGH, STEP_WITHIN).await?;
    let (mut old, mut seen_after) = (first, Vec::new());
    for turn in 1..=rounds {
        let new = Backend::start_on(&format!("moved-{turn}"), old.addr().ip()).await?;
        for hosts in [&[old.addr(), new.addr()][..], &[new.addr()][..]] {
            let began = Instant::now();
            set(hosts).await.with_context(|| format!("set the endpoints of move {turn}"))?;
            envoy.has_hosts(cluster, hosts, STEP_WITHIN).await.with_context(|| format!("move {turn}"))?;
            seen_after.push(began.elapsed());
        }
        load.reaches(new.name(), APPLIED, STEP_WITHIN).await.with_context(|| format!("move {turn}"))?;
        old.close().await;
        old = new;
    }
    load.keeps(plan.at_least, STEP_WITHIN).await?;
    Ok(Moved { tally: load.finish().await, seen_after })
}

/// Moves the endpoints of `target` `rounds` times with 200 calls per second on `client`. The target must have
/// `first` as its only endpoint. The result is clean only if [`Calls::check_clean`] passes.
pub async fn through_grpc<F>(
    client: &mut GrpcClient,
    target: &str,
    first: Backend,
    rounds: usize,
    mut set: F,
) -> Result<Moved<Calls>>
where
    F: AsyncFnMut(&[SocketAddr]) -> Result<()>,
{
    let called = client.call(target, STEP_WITHIN, true).await?;
    anyhow::ensure!(called.ok, "the first call to {target}: {called:?}");
    client.start_load(target, 200, 8).await?;
    client.reaches(first.name(), ENOUGH, STEP_WITHIN).await?;
    let (mut old, mut seen_after) = (first, Vec::new());
    for turn in 1..=rounds {
        let new = Backend::start_on(&format!("moved-{turn}"), old.addr().ip()).await?;
        let began = Instant::now();
        set(&[old.addr(), new.addr()]).await.with_context(|| format!("set the endpoints of move {turn}"))?;
        client.reaches(new.name(), ENOUGH, STEP_WITHIN).await.with_context(|| format!("move {turn}"))?;
        seen_after.push(began.elapsed());
        let began = Instant::now();
        set(&[new.addr()]).await.with_context(|| format!("set the endpoints of move {turn}"))?;
        client.avoids(old.name(), ENOUGH, STEP_WITHIN).await.with_context(|| format!("move {turn}"))?;
        seen_after.push(began.elapsed());
        old.close().await;
        old = new;
    }
    let tally = client.stop_load().await?;
    Ok(Moved { tally, seen_after })
}
