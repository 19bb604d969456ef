//! Many small scenarios, each from a seed: three sources that change, fail, stall, tear their lists and
//! are rotated, under a runtime whose runs crash. No fact may vanish without a reason at any time, and
//! in the end exactly the facts of the sources are served.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tributary_conformance::memory::{MemorySource, memory_host};
use tributary_conformance::tamper::{Crash, Tamper};
use tributary_conformance::{Act, Witness, served};
use tributary_model::Hostname;
use tributary_registry_api::{BackoffPolicy, ProcessClock, RandomSource, SplitMix};
use tributary_runtime::{Handle, NoJournal, Runtime, RuntimeConfig};

use crate::support::mk_memory;

const REGISTRIES: [&str; 3] = ["east", "west", "files"];
const SERVICES: [&str; 4] = ["pay", "cart", "stock", "mail"];

type Truth = BTreeMap<Hostname, BTreeSet<IpAddr>>;

struct World {
    chance: SplitMix,
    sources: Vec<MemorySource>,
    /// Facts by source and service.
    held: BTreeMap<(usize, usize), BTreeSet<IpAddr>>,
    tamper: Arc<Tamper>,
    witness: Arc<Witness>,
    handle: Handle,
}

impl World {
    fn below(&mut self, n: usize) -> usize {
        (self.chance.unit() * n as f64) as usize
    }
    fn truth(&self) -> Truth {
        let mut truth = Truth::new();
        for ((_, service), ips) in &self.held {
            truth.entry(memory_host(SERVICES[*service])).or_default().extend(ips);
        }
        truth
    }
    /// Facts that vanish from the truth may vanish from the served catalog; facts in it must not.
    fn explain(&self, before: &Truth) {
        let now = self.truth();
        for (host, ips) in before {
            let kept = now.get(host).cloned().unwrap_or_default();
            self.witness.may_go(host, ips.difference(&kept).copied());
        }
    }
    async fn step(&mut self) {
        let (source, service) = (self.below(REGISTRIES.len()), self.below(SERVICES.len()));
        match self.below(16) {
            0..=6 => self.set(source, service),
            7..=8 => self.delete(source, service),
            9 => self.sources[source].act(Act::Fail(None)),
            10..=11 => self.sources[source].act(Act::Recover),
            12 => self.sources[source].act(Act::Tear(2)),
            13 => self.sources[source].act(Act::Relist),
            14 => self.tamper.crash(if service % 2 == 0 { Crash::Error } else { Crash::Panic }),
            _ => self.rotate(source).await,
        }
        let pause = self.below(150) as u64;
        sleep(Duration::from_millis(pause)).await;
    }
    fn set(&mut self, source: usize, service: usize) {
        let before = self.truth();
        // Addresses belong to one source: a shared one would not show which source serves it.
        let count = 1 + self.below(6);
        let ips: BTreeSet<IpAddr> = (0..count).map(|_| self.address(source, service)).collect();
        self.held.insert((source, service), ips.clone());
        self.explain(&before);
        self.sources[source].set(0, SERVICES[service], ips);
    }
    fn address(&mut self, source: usize, service: usize) -> IpAddr {
        let byte = |n: usize| u8::try_from(n).unwrap();
        IpAddr::from([10, byte(service), byte(source), byte(self.below(12))])
    }
    fn delete(&mut self, source: usize, service: usize) {
        let before = self.truth();
        self.held.remove(&(source, service));
        self.explain(&before);
        self.sources[source].delete(SERVICES[service]);
    }
    async fn rotate(&mut self, source: usize) {
        let factory = self.tamper.around(mk_memory(REGISTRIES[source], &self.sources[source]));
        self.handle.rotate(factory).await.unwrap();
    }
}

async fn play(seed: u64) {
    let witness = Arc::new(Witness::default());
    let backoff = BackoffPolicy { first: Duration::from_millis(50), ..BackoffPolicy::default() };
    let config = RuntimeConfig { seed, backoff, ..RuntimeConfig::default() };
    let clock = Arc::new(ProcessClock::starting_now());
    let runtime = Runtime::start(config, clock, witness.clone(), Box::new(NoJournal));
    let sources: Vec<MemorySource> = REGISTRIES.iter().map(|_| MemorySource::default()).collect();
    let (tamper, handle) = (Tamper::new(), runtime.handle());
    for (name, source) in REGISTRIES.iter().zip(&sources) {
        handle.add_registry(tamper.around(mk_memory(name, source))).await.unwrap();
    }
    let chance = SplitMix::seeded(seed);
    let mut world = World { chance, sources, held: BTreeMap::new(), tamper, witness, handle };
    for _ in 0..80 {
        world.step().await;
    }
    world.sources.iter().for_each(|source| source.act(Act::Recover));
    let mut generation = world.handle.generation();
    let quiet = async {
        while served(&world.handle.catalog()) != world.truth() || !world.handle.catalog().complete {
            generation.changed().await.unwrap();
        }
    };
    let came = tokio::time::timeout(Duration::from_secs(7200), quiet).await;
    assert!(
        came.is_ok(),
        "seed {seed}: served {:?}, held {:?}",
        served(&world.handle.catalog()),
        world.truth()
    );
    sleep(Duration::from_secs(120)).await;
    assert_eq!(served(&world.handle.catalog()), world.truth(), "seed {seed}: the catalog changed afterwards");
    let held = world.handle.inspect(|core| core.held().count()).await.unwrap();
    assert_eq!(held, 0, "seed {seed}: a removal is held although every source can answer");
    world.witness.assert_nothing_unexplained();
    runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn any_fault_sequence_ends_with_the_facts_of_the_sources() {
    for seed in 0..60 {
        play(seed).await;
    }
}
