//! Traffic policy on every service: a storm of clients, the change of a rule and of a weight on many streams, and what
//! loading the policies costs beside the same services without them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::children::Clients;
use crate::intake::{allocated, filled};
use crate::report::{Table, quantile};
use crate::rig::Rig;
use crate::storm::raw;
use crate::usage;
use crate::world::{Policies, Size, World};

/// Changes of each kind per run.
const TIMES: u32 = 20;
/// Maximum memory per policy in bytes.
const PER_POLICY: f64 = 2_048.0;

/// Most resident memory during a storm without the pages of the binary, in megabytes.
const RESIDENT: f64 = 80.0;

/// Both kinds.
const BOTH: Policies = Policies { rules: true, routes: true, mesh: false };

/// A storm: the policies of its world, and what it must keep to.
#[derive(Debug, Clone, Copy)]
struct Storm {
    policies: Policies,
    /// What each service has.
    name: &'static str,
    mode: &'static str,
    /// Most encodes per port.
    encodes: f64,
    /// Most milliseconds of CPU per client: ten times the aim.
    limit: f64,
}

/// A cluster and an assignment of the port and of its subset, and a virtual host.
const ROUTED: Storm = Storm {
    policies: BOTH,
    name: "a DestinationRule and a VirtualService",
    mode: "sidecars:0:1",
    encodes: 5.5,
    limit: 50.0,
};

/// A cluster with two transport sockets, an assignment and a virtual host.
const MESHED: Storm = Storm {
    policies: Policies { rules: false, routes: false, mesh: true },
    name: "mesh TLS and a DestinationRule",
    mode: "meshed:0:1",
    encodes: 3.5,
    limit: 40.0,
};

/// Clients of each part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) storm: usize,
    pub(crate) streams: usize,
}

/// Runs the parts with clients once.
pub(crate) async fn run(size: Size, load: Load, table: &mut Table) -> Result<()> {
    // first, because the memory that the other frees stays resident for a while
    storm(ROUTED, size, load.storm, table).await?;
    changes(size, load.streams, table).await
}

/// Runs the storm of sidecars with mesh TLS once.
pub(crate) async fn meshed(size: Size, clients: usize, table: &mut Table) -> Result<()> {
    storm(MESHED, size, clients, table).await
}

/// Connects clients with clusters, endpoints, listeners and the routes of port 80.
async fn storm(of: Storm, size: Size, clients: usize, table: &mut Table) -> Result<()> {
    let rig = Rig::serve(World::with_policies(size, of.policies)?).await?;
    let cpu = usage::cpu();
    let mut storm = Clients::ads(&rig.addr, clients, of.mode, 0, 0)?;
    let ready = storm.event("ready").await?;
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e3 / clients as f64;
    let name = format!("{} services with {} each, {clients} clients", size.services, of.name);
    table.add(format!("{name}: CPU per client"), "ms", spent);
    let bytes = ready["bytes"].as_f64().unwrap_or_default();
    table.add("bytes per client", "B", bytes);
    let (resident, code) = (usage::resident(), usage::code());
    table.add("resident", "MB", resident as f64 / 1e6);
    let own = resident.saturating_sub(code) as f64 / 1e6;
    table.add("resident without the pages of the binary", "MB", own);
    let ports = (size.services * usize::from(size.ports)) as f64;
    let encodes = rig.encodes() as f64 / ports;
    table.add("encodes per port", "", encodes);
    ensure!(rig.has_mesh_tls() == of.policies.mesh, "mesh TLS is where it should not be, or is absent");
    ensure!(encodes <= of.encodes, "{encodes} encodes per port: clients do not share them");
    // pages of the binary are the system's cache of files, which it takes back
    ensure!(own <= RESIDENT, "{own} MB resident, more than {RESIDENT}");
    ensure!(spent <= of.limit, "{spent} ms of CPU per client: ten times the aim");
    drop((storm, rig));
    raw(bytes as usize, clients, table).await
}

/// A change that is measured.
#[derive(Debug, Clone, Copy)]
struct Change {
    name: &'static str,
    /// Responses to each stream. A rule changes xDS clusters, and their assignments follow, without which a client does
    /// not use a changed xDS cluster; a weight changes the route table.
    responses: u64,
    /// Most encodes per port of a service.
    encodes: f64,
    /// Whether the responses are small, so that the streams of the class repeat those of the first.
    is_repeated: bool,
    /// Most milliseconds until the last send: ten times the aim.
    limit: f64,
    make: fn(&Rig, u32) -> Result<()>,
    clients: fn(&str, usize, &str) -> Result<Clients>,
}

/// The changes. A rule's small responses fit the sockets' buffers: clients that read them later leave the CPU to the
/// server, as those on other machines do. A weight's change sends the whole table of a port, which a client must read
/// while it is sent.
const CHANGES: [Change; 2] = [
    Change {
        name: "a rule's change",
        responses: 2,
        encodes: 2.0,
        is_repeated: true,
        limit: 500.0,
        make: |rig, change| rig.change_rule(3, 2_000 + change),
        clients: Clients::behind,
    },
    Change {
        name: "a weight's change",
        responses: 1,
        encodes: 1.0,
        is_repeated: false,
        limit: 10_000.0,
        make: |rig, change| rig.change_route(3, 50 + change),
        clients: |addr, count, mode| Clients::ads(addr, count, mode, 0, 0),
    },
];

/// Changes one policy at a time while many streams hold all that is served.
async fn changes(size: Size, streams: usize, table: &mut Table) -> Result<()> {
    for change in CHANGES {
        let rig = Rig::serve(World::with_policies(size, BOTH)?).await?;
        let mut clients = (change.clients)(&rig.addr, streams, "sidecars:0:1")?;
        clients.event("ready").await?;
        rig.quiet().await?;
        measure(&rig, streams, size.ports, change, table).await?;
    }
    Ok(())
}

async fn measure(rig: &Rig, streams: usize, ports: u16, change: Change, table: &mut Table) -> Result<()> {
    let (encodes, idle) = (rig.encodes(), rig.count("wakeups_for_nothing"));
    let (joined, cpu) = (rig.count("sends_joined"), usage::cpu());
    let (repeated, waits) = (rig.count("rounds_repeated"), rig.count("waits"));
    let mut took = Vec::new();
    for at in 0..TIMES {
        tokio::time::sleep(Duration::from_millis(100)).await;
        took.push(one_change(rig, change.responses * streams as u64, || (change.make)(rig, at)).await?);
    }
    let name = format!("{} on {streams} streams", change.name);
    let spent = (usage::cpu() - cpu).as_secs_f64() * 1e6 / f64::from(TIMES) / streams as f64;
    let p50 = quantile(&mut took, 0.5);
    table.add(format!("{name}: to the last send"), "ms", p50);
    table.add(format!("{name}: CPU per stream, with its acknowledgements"), "us", spent);
    table.add(format!("{name}: worst"), "ms", quantile(&mut took, 1.0));
    let per_change = |total: u64| total as f64 / f64::from(TIMES);
    let encodes = per_change(rig.encodes() - encodes);
    table.add(format!("{name}: encodes"), "", encodes);
    let idle = per_change(rig.count("wakeups_for_nothing") - idle);
    table.add(format!("{name}: wake-ups for nothing"), "", idle);
    let joined = per_change(rig.count("sends_joined") - joined);
    table.add(format!("{name}: responses that left with the one before"), "", joined);
    // small responses to one change leave in one write, but for streams that an earlier change still concerns
    let least = ((change.responses - 1) * streams as u64) as f64 / 2.0;
    ensure!(joined >= least, "{name}: {joined} responses left with the one before, fewer than {least}");
    let repeated = per_change(rig.count("rounds_repeated") - repeated);
    table.add(format!("{name}: rounds repeated from another stream"), "", repeated);
    let least = if change.is_repeated { streams as f64 / 2.0 } else { 0.0 };
    ensure!(repeated >= least, "{name}: {repeated} rounds repeated, fewer than {least}");
    // one for the change, one for each acknowledgement; large responses leave in several writes
    let waits = per_change(rig.count("waits") - waits) / streams as f64;
    table.add(format!("{name}: waits of a stream's task"), "", waits);
    let most = if change.is_repeated { 1.5 + change.responses as f64 } else { 4.0 };
    ensure!(waits <= most, "{name}: {waits} waits of a stream's task, more than {most}");
    let most = change.encodes * f64::from(ports);
    ensure!(encodes <= most, "{name}: {encodes} encodes, more than {most}");
    ensure!(p50 <= change.limit, "{name}: {p50} ms: ten times the aim");
    Ok(())
}

/// Makes a change. Returns the milliseconds until all responses to it were sent.
async fn one_change(rig: &Rig, responses: u64, make: impl Fn() -> Result<()>) -> Result<f64> {
    let (expected, begun) = (rig.count("sends") + responses, Instant::now());
    make()?;
    while rig.count("sends") < expected {
        // a loop without a pause would take a core from the server
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = begun.elapsed().as_secs_f64() * 1e3;
    rig.quiet().await?;
    let more = rig.count("sends") - expected;
    ensure!(more == 0, "{more} more responses than {responses} to one change");
    Ok(took)
}

/// Loads services with and without policies of a kind. The memory and time of the policies is the difference. Has a
/// process of its own: what a server frees late would count.
pub(crate) fn loading(services: usize, table: &mut Table) -> Result<()> {
    let size = Size { services, ports: 1, addresses: 2, pods: false };
    let none = load(&World::with_policies(size, Policies::default())?)?;
    table.add(format!("baseline, {services} services without policies: loaded in"), "ms", none.0);
    for (kind, of) in [
        ("DestinationRule", Policies { rules: true, ..Policies::default() }),
        ("VirtualService", Policies { routes: true, ..Policies::default() }),
    ] {
        let (took, bytes) = load(&World::with_policies(size, of)?)?;
        let (more, bytes) = (took - none.0, (bytes - none.1) as f64 / services as f64);
        table.add(format!("{services} services with a {kind} each: loaded in"), "ms", took);
        table.add(format!("bytes per {kind}"), "B", bytes);
        ensure!(bytes <= PER_POLICY, "{bytes} bytes per {kind}");
        ensure!(more <= services as f64, "{services} {kind}s took {more} ms: ten times the aim");
    }
    Ok(())
}

/// Returns milliseconds and bytes of a core that read a world.
fn load(world: &World) -> Result<(f64, i64)> {
    let before = allocated();
    let listing = world.listing()?;
    let begun = Instant::now();
    let core = filled(listing)?.0;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(core.counters().views as usize >= world.services(), "not every service became a view");
    Ok((took, allocated() - before))
}
