//! Memory of the registry alone, and its requests while nothing changes: it runs into an update channel whose
//! updates are discarded, without a core. Also measures the memory of a long poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use tributary_consul::client::{Client, Get};
use tributary_consul::{ConsulConfig, ConsulFactory};
use tributary_model::{ClusterId, Generation, RegistryName, RegistryUpdate};
use tributary_registry_api::{
    CancellationToken, ProcessClock, RegistryFactory as _, RegistryIo, Run, UpdateReceiver, Wake,
    confirm_channel, update_channel,
};

use super::PATIENCE;
use super::process::{Counted, Source};
use crate::intake::allocated;
use crate::usage;

/// Number of long polls measured: fewer than a connection carries, or than connections are allowed.
const POLLS: usize = 100;
/// Memory that a runtime keeps for its next tasks, in bytes.
const SMALL_CHANGE: i64 = 2 << 20;

/// A registry alone, after it has read everything.
pub(super) struct Alone {
    /// Allocated bytes.
    pub(super) kept: f64,
    /// Long polls that wait.
    pub(super) polls: u64,
    /// Requests and bytes during the measured time, while nothing changes.
    pub(super) idle: Counted,
    /// CPU time during the measured time.
    pub(super) cpu: Duration,
}

/// Runs a registry that has read everything for the given time. Before, it waits at this many long polls at least,
/// and sends at most this many other requests per second.
pub(super) async fn alone(
    config: ConsulConfig,
    source: &mut Source,
    (polls, a_second): (u64, u64),
    time: Duration,
) -> Result<Alone> {
    let before = allocated();
    let name = RegistryName::new("consul")?;
    let factory = ConsulFactory::new(name.clone(), ClusterId::new("bench")?, config)?.seeded(7);
    let wake = Wake::default();
    let run = Run { registry: name, generation: Generation(1) };
    let (out, receiver) = update_channel(run, Arc::new(ProcessClock::starting_now()), Arc::clone(&wake));
    let (_asks, asked) = confirm_channel();
    let registry = factory.build().map_err(|error| anyhow!("{error}"))?;
    let (stop, io) = (CancellationToken::new(), RegistryIo { out, confirms: asked, held: Arc::from([]) });
    let running = AbortOnDropHandle::new(tokio::spawn(registry.run(io, stop)));
    let (lists_ended, synced) = watch::channel(0);
    let emptying = AbortOnDropHandle::new(tokio::spawn(empty(receiver, wake, lists_ended)));
    listed(synced).await?;
    source.settled(polls, a_second, PATIENCE).await?;
    let kept = (allocated() - before) as f64;
    let polls = source.counts().await?.waiting;
    source.reset().await?;
    let cpu = usage::cpu();
    tokio::time::sleep(time).await;
    let (idle, cpu) = (source.counts().await?, usage::cpu() - cpu);
    drop((running, emptying));
    Ok(Alone { kept, polls, idle, cpu })
}

async fn empty(mut receiver: UpdateReceiver, wake: Wake, lists_ended: watch::Sender<usize>) {
    loop {
        wake.notified().await;
        let lists =
            receiver.take().iter().filter(|one| matches!(one.value, RegistryUpdate::ListEnded(..))).count();
        lists_ended.send_modify(|all| *all += lists);
    }
}

/// Waits until the registry has listed its two collections, and the two of the list of datacenters.
async fn listed(mut synced: watch::Receiver<usize>) -> Result<()> {
    tokio::time::timeout(PATIENCE, synced.wait_for(|lists| *lists >= 4))
        .await
        .context("nothing was listed")??;
    Ok(())
}

/// Bytes that a request allocates which waits at a server, with its connection if it has one of its own.
pub(super) async fn of_a_long_poll(config: &ConsulConfig, source: &mut Source) -> Result<f64> {
    let client = Client::new(config, &config.addresses)?;
    // open the connections before the measurement
    poll(client.clone(), "0").await?;
    let before = allocated();
    let mut polls = JoinSet::new();
    for _ in 0..POLLS {
        polls.spawn(poll(client.clone(), "99999999"));
    }
    source.settled(POLLS as u64, 0, PATIENCE).await?;
    Ok((allocated() - before) as f64 / POLLS as f64)
}

/// Polls the list of services, which does not change.
async fn poll(client: Client, index: &str) -> Result<()> {
    let query = vec![("index", index.to_owned()), ("wait", "300000ms".to_owned())];
    let get = Get { path: &["catalog", "services"], query, timeout: PATIENCE, skip: None };
    client.get(0, &get).await.map(drop).map_err(|fault| anyhow!("{}", fault.reason))
}

/// Waits until allocations above this mark are freed, except for small remainders.
pub(super) async fn given_back(before: i64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while allocated() - before > SMALL_CHANGE {
        ensure!(Instant::now() < deadline, "{} bytes were not given back", allocated() - before);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
