//! The Consul registry on a whole runtime, and the time at which each of its services was last published.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use tributary_consul::{ConsulConfig, ConsulFactory};
use tributary_core::{Core, Counters};
use tributary_model::{Catalog, CatalogChanges, ClusterId, Health, ObservedSince, RegistryName};
use tributary_registry_api::ProcessClock;
use tributary_runtime::{Fanout, Handle, NoJournal, Runtime, RuntimeConfig, StartRule};

use super::process::Flips;
use crate::changes::unix_nanos;

/// Suffix of a service's short host.
const HOST: &str = ".service.consul";

/// First time at which each service was published since the last [`Follower::forget`].
#[derive(Default)]
struct Seen(Mutex<HashMap<usize, u64>>);

impl Fanout for Seen {
    fn published(&self, _: &Arc<Catalog>, changed: &CatalogChanges, _: ObservedSince) {
        let now = unix_nanos();
        let mut seen = self.0.lock();
        for service in changed.hosts.iter().filter_map(|host| number(host.as_str())) {
            seen.entry(service).or_insert(now);
        }
    }
}

/// Returns the number of the bench's service with this short host.
fn number(host: &str) -> Option<usize> {
    host.strip_suffix(HOST)?.strip_prefix("svc-")?.parse().ok()
}

/// A registry that follows a Consul; ends when dropped.
pub(super) struct Follower {
    seen: Arc<Seen>,
    handle: Handle,
    _runtime: Runtime,
}

impl Follower {
    /// Starts the registry and returns, with the elapsed time, when everything has been read.
    pub(super) async fn start(config: ConsulConfig, within: Duration) -> Result<(Self, Duration)> {
        let name = RegistryName::new("consul")?;
        let factory = ConsulFactory::new(name.clone(), ClusterId::new("bench")?, config)?.seeded(7);
        let start =
            StartRule { known: BTreeSet::from([name]), first_sync_timeout: None, ..StartRule::default() };
        let config = RuntimeConfig { start, ..RuntimeConfig::default() };
        let seen = Arc::new(Seen::default());
        let clock = Arc::new(ProcessClock::starting_now());
        let runtime = Runtime::start(config, clock, Arc::<Seen>::clone(&seen), Box::new(NoJournal));
        let handle = runtime.handle();
        let begun = Instant::now();
        handle.add_registry(Arc::new(factory)).await?;
        let mut readiness = handle.readiness();
        let ready = readiness.wait_for(tributary_runtime::Readiness::is_ready);
        tokio::time::timeout(within, ready)
            .await
            .with_context(|| format!("not ready within {within:?}"))??;
        Ok((Self { seen, handle, _runtime: runtime }, begun.elapsed()))
    }
    /// Clears the recorded publications.
    pub(super) fn forget(&self) {
        self.seen.0.lock().clear();
    }
    /// Waits until every flip has been published. Returns the delay of each in milliseconds.
    pub(super) async fn latencies(&self, flips: &Flips, within: Duration) -> Result<Vec<f64>> {
        let deadline = Instant::now() + within;
        loop {
            let missing = {
                let seen = self.seen.0.lock();
                flips.keys().filter(|service| !seen.contains_key(service)).count()
            };
            if missing == 0 {
                break;
            }
            ensure!(
                Instant::now() < deadline,
                "{missing} of {} flips were not seen in {within:?}",
                flips.len()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let seen = self.seen.0.lock();
        let late = |(service, at): (&usize, &u64)| {
            seen.get(service).map(|seen| seen.saturating_sub(*at) as f64 / 1e6)
        };
        Ok(flips.iter().filter_map(late).collect())
    }
    /// Waits until this many endpoints are served.
    pub(super) async fn serves(&self, endpoints: usize, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while self.served().0 != endpoints {
            let now = self.served().0;
            ensure!(
                Instant::now() < deadline,
                "{now} endpoints are served after {within:?}, not {endpoints}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
    /// Returns the core's counters.
    pub(super) async fn counters(&self) -> Result<Counters> {
        Ok(self.handle.inspect(Core::counters).await?)
    }
    /// Returns the number of served endpoints, and of the unhealthy ones among them.
    pub(super) fn served(&self) -> (usize, u64) {
        let catalog = self.handle.catalog();
        let of_bench = catalog.services().filter(|view| number(view.key.host.as_str()).is_some());
        let ports = of_bench.flat_map(|view| view.ports.iter().take(1));
        let (mut all, mut ill) = (0, 0);
        for port in ports {
            for source in &*port.endpoints.inputs.sources {
                all += source.group.addresses.len();
                ill += source.group.addresses.iter().filter(|a| a.health != Health::Healthy).count() as u64;
            }
        }
        (all, ill)
    }
}
