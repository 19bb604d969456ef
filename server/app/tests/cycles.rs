//! A thousand clusters that are added, rotated and removed: nothing of them stays. The server and scripted API servers run in this
//! process, which has no other test: it counts live bytes, tasks and sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{Lab, name};
use tributary_app::document::timeline::TimelineItem;
use tributary_app::ops::receipts::MOST_RECEIPTS;
use tributary_app::ops::removed::{Address, Removals, Removed, RemovedEndpoint, RemovedHost};
use tributary_app::ops::timeline::Timeline;
use tributary_model::{Catalog, Freshness, Hostname, Mono, ObjectId, ObjectRef, PortNumber, RegistryName};
use world::World;

#[path = "cycles/cluster.rs"]
mod cluster;
#[path = "support/world.rs"]
mod world;

#[global_allocator]
static ALLOCATOR: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// Clusters that are added, rotated and removed at a time.
const AT_ONCE: usize = 20;
const CYCLES: usize = 1_000;
/// Cycles after which the state is the baseline: receipts, pools and tables have their size by then.
const WARM: usize = 100;
/// Time limit of one step of all clusters.
const STEP: Duration = Duration::from_secs(60);

/// What one moment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    tasks: usize,
    sockets: usize,
    bytes: usize,
}

impl Held {
    fn now() -> Self {
        let is_socket = |entry: std::io::Result<std::fs::DirEntry>| {
            let target = entry.ok().and_then(|entry| std::fs::read_link(entry.path()).ok());
            target.is_some_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        let sockets = std::fs::read_dir("/proc/self/fd").unwrap().map(is_socket);
        let sockets = sockets.filter(|is_socket| *is_socket).count();
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Self { tasks, sockets, bytes: ALLOCATOR.allocated() }
    }
    /// Waits until tasks and sockets do not change for a second and are at most those of `before`: idle connections of the config
    /// cluster may have ended since. The bytes are the fewest of that second.
    async fn settled(before: Option<Self>) -> Self {
        let (mut last, mut fewest, mut calm) = (Self::now(), usize::MAX, 0);
        let until = tokio::time::Instant::now() + STEP;
        while calm < 20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = Self::now();
            let is_same = (now.tasks, now.sockets) == (last.tasks, last.sockets);
            let is_back =
                before.is_none_or(|before| now.tasks <= before.tasks && now.sockets <= before.sockets);
            (calm, fewest) =
                if is_same && is_back { (calm + 1, fewest.min(now.bytes)) } else { (0, usize::MAX) };
            assert!(tokio::time::Instant::now() < until, "{now:?} does not return to {before:?}");
            last = now;
        }
        Self { bytes: fewest, ..last }
    }
}

/// Returns the generations of the remote clusters whose registries have listed all that they require.
fn live(catalog: &Catalog) -> BTreeMap<RegistryName, u64> {
    let is_live = |collections: &[(_, Freshness)]| {
        !collections.is_empty() && collections.iter().all(|(_, freshness)| *freshness == Freshness::Live)
    };
    let all = catalog.registries.iter().filter(|(name, _)| name.as_str().starts_with("remote-"));
    all.filter(|(_, view)| is_live(&view.collections))
        .map(|(name, view)| (name.clone(), view.generation.0))
        .collect()
}

async fn until(world: &World, what: &str, holds: impl Fn(&Catalog) -> bool) {
    let handle = &world.server.live().handle;
    let mut generation = handle.generation();
    let waiting = async {
        while !holds(&handle.catalog()) {
            generation.changed().await.unwrap();
        }
    };
    let came = tokio::time::timeout(STEP, waiting).await;
    assert!(came.is_ok(), "{what}: {:?}", live(&handle.catalog()));
}

/// Adds, rotates and removes clusters.
async fn cycle(world: &World, lab: &Lab, round: usize) {
    // one registry of objects and one of entries
    let all = AT_ONCE * 2;
    lab.declare(&format!("first-{round}"));
    until(world, "all join", |catalog| live(catalog).len() == all).await;
    let handle = &world.server.live().handle;
    let before = live(&handle.catalog());
    lab.declare(&format!("second-{round}"));
    let is_other = |(name, generation): (&RegistryName, &u64)| before.get(name) != Some(generation);
    until(world, "all rotate", |catalog| {
        let now = live(catalog);
        now.len() == all && now.iter().all(is_other)
    })
    .await;
    lab.remove();
    let is_remote = |name: &RegistryName| name.as_str().starts_with("remote-");
    until(world, "all leave", |catalog| !catalog.registries.keys().any(is_remote)).await;
    assert!(handle.catalog().hosts.get(cluster::HOST).is_none(), "endpoints of removed clusters stay");
    let live = world.server.live();
    let receipts = ((round + 1) * AT_ONCE).min(MOST_RECEIPTS);
    tokio::time::timeout(STEP, async {
        while live.receipts.all().len() < receipts || live.objects.all().contains_key(&name(0)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("a removal has no receipt, or its objects are counted after it");
    lab.undeclare();
}

/// Fills what is bounded and grows until then, the timeline and the removals, with the same entries before each measurement.
fn fill_bounded(world: &World) {
    let (host, registry) = (Hostname::new("h.test").unwrap(), RegistryName::new("r").unwrap());
    let (port, object) = (PortNumber::new(80).unwrap(), ObjectRef::new(ObjectId::new("Pod", "n", "p")));
    let at = Address::Ip(std::net::Ipv4Addr::LOCALHOST.into());
    let of_host = RemovedHost { host: host.clone(), registry: registry.clone(), object: object.clone() };
    let workload = Some(ObjectId::new("Pod", "n", "w"));
    let endpoint = RemovedEndpoint { at, number: None, host, port, registry, object, workload };
    let removals = Removals {
        endpoints: vec![endpoint; Removed::MOST_ENDPOINTS],
        hosts: vec![of_host; Removed::MOST_HOSTS],
    };
    world.server.live().removed.add(Mono(0), removals);
    let entry = TimelineItem { message: "m".repeat(200), ..TimelineItem::default() };
    let timeline = &world.server.live().timeline;
    (0..Timeline::MOST).for_each(|_| timeline.add(jiff::Timestamp::UNIX_EPOCH, entry.clone()));
}

/// istio#60033, #48224: state of a cluster outlived the cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and is a stage of its own: ./test cycles"]
async fn add_rotate_remove_1000_returns_to_baseline() {
    let lab = Lab::start(AT_ONCE).await;
    let config = lab.config_file();
    let world = World::start(&["--config", &config]).await;
    let mut warm = None;
    let begun = std::time::Instant::now();
    for round in 0..CYCLES / AT_ONCE {
        cycle(&world, &lab, round).await;
        if (round + 1) * AT_ONCE == WARM {
            lab.forget();
            fill_bounded(&world);
            warm = Some(Held::settled(None).await);
        }
    }
    let warm = warm.unwrap();
    lab.forget();
    fill_bounded(&world);
    let end = Held::settled(Some(warm)).await;
    println!("{CYCLES} cycles in {:?}: {warm:?}, then {end:?}", begun.elapsed());
    let grown = end.bytes.saturating_sub(warm.bytes);
    assert!(grown * 50 <= warm.bytes, "{grown} bytes stay after {} cycles: {warm:?}, {end:?}", CYCLES - WARM);
    world.server.stop().await;
}
