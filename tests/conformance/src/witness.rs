//! Records every catalog that clients would see, and every address that vanished without a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tributary_model::{Catalog, CatalogChanges, Hostname, ObservedSince};
use tributary_runtime::Fanout;

use crate::stage::served;

#[derive(Debug, Default)]
struct Seen {
    served: BTreeMap<Hostname, BTreeSet<IpAddr>>,
    may_go: BTreeSet<(Hostname, IpAddr)>,
    unexplained: Vec<String>,
    generations: Vec<u64>,
    host_changes: BTreeMap<Hostname, usize>,
}

/// A fan-out that records instead of sending.
#[derive(Debug)]
pub struct Witness {
    seen: Mutex<Seen>,
    last: watch::Sender<u64>,
}

impl Default for Witness {
    fn default() -> Self {
        Self { seen: Mutex::default(), last: watch::Sender::new(0) }
    }
}

impl Witness {
    /// Allows these addresses to vanish from now on.
    pub fn may_go(&self, host: &Hostname, addresses: impl IntoIterator<Item = IpAddr>) {
        self.seen.lock().may_go.extend(addresses.into_iter().map(|ip| (host.clone(), ip)));
    }
    /// Forbids these addresses to vanish from now on.
    pub fn must_stay(&self, host: &Hostname, addresses: impl IntoIterator<Item = IpAddr>) {
        let mut seen = self.seen.lock();
        for ip in addresses {
            seen.may_go.remove(&(host.clone(), ip));
        }
    }
    /// Waits until this generation or a later one was published to the witness.
    pub async fn saw(&self, generation: u64) {
        let seen = self.last.subscribe().wait_for(|last| *last >= generation).await.is_ok();
        assert!(seen, "the witness holds the sender");
    }
    /// Returns the number of changes, over all hosts.
    pub fn host_changes(&self) -> usize {
        self.seen.lock().host_changes.values().sum()
    }
    /// Returns the number of changes by host.
    pub fn changes_by_host(&self) -> BTreeMap<Hostname, usize> {
        self.seen.lock().host_changes.clone()
    }
    /// Returns the number of published catalogs.
    pub fn passes(&self) -> usize {
        self.seen.lock().generations.len()
    }
    /// Asserts that no address vanished without a reason and that generations arrived in order.
    pub fn assert_nothing_unexplained(&self) {
        let seen = self.seen.lock();
        assert!(seen.unexplained.is_empty(), "lost without evidence: {:?}", seen.unexplained);
        assert!(seen.generations.is_sorted(), "generations decreased: {:?}", seen.generations);
    }
}

impl Fanout for Witness {
    fn published(&self, catalog: &Arc<Catalog>, changed: &CatalogChanges, _: ObservedSince) {
        let now = served(catalog);
        let mut seen = self.seen.lock();
        let before = std::mem::take(&mut seen.served);
        for (host, ips) in before {
            for ip in ips {
                let stays = now.get(&host).is_some_and(|now| now.contains(&ip));
                if !stays && !seen.may_go.contains(&(host.clone(), ip)) {
                    seen.unexplained.push(format!("{host} {ip} in generation {}", catalog.generation));
                }
            }
        }
        seen.served = now;
        seen.generations.push(catalog.generation);
        for host in &changed.hosts {
            *seen.host_changes.entry(host.clone()).or_default() += 1;
        }
        drop(seen);
        self.last.send_replace(catalog.generation);
    }
}
