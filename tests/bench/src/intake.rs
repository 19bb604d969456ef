//! Intake: what the core spends on, and keeps of, a first complete listing.
//!
//! The baseline is what a plain consumer keeps: one owned record per endpoint and port.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use tributary_core::{Core, CoreConfig, RunOrder};
use tributary_model::{
    ClusterId, Delta, Generation, Mono, Provider, RegistryId, RegistryName, RegistrySpec, Stamped,
};

use crate::ALLOCATOR;
use crate::report::Table;
use crate::world::{Size, World};

/// Bytes that are allocated now, by count of the allocator.
pub(crate) fn allocated() -> i64 {
    i64::try_from(ALLOCATOR.allocated()).unwrap_or(i64::MAX)
}

/// The registry of all benches.
pub(crate) fn spec() -> Result<RegistrySpec> {
    let id = RegistryId {
        name: RegistryName::new("bench")?,
        provider: Provider::Memory,
        cluster: ClusterId::new("bench")?,
    };
    Ok(RegistrySpec::new(Arc::new(id), 0))
}

/// Stamps deltas as the inlet of the bench's registry does.
pub(crate) fn stamped(deltas: Vec<Delta>) -> Result<Vec<Stamped<Delta>>> {
    let registry = RegistryName::new("bench")?;
    let stamp = |value| Stamped { registry: registry.clone(), generation: Generation(1), at: Mono(1), value };
    Ok(deltas.into_iter().map(stamp).collect())
}

/// A core with this world in it.
pub(crate) fn filled(world: &World) -> Result<Core> {
    let mut core = Core::new(CoreConfig::default());
    let spec = spec()?;
    core.join(&spec)?;
    core.serve(Mono(1), &RunOrder::first(spec.clone()))?;
    core.apply(Mono(1), stamped(world.listing()?)?);
    core.publish();
    Ok(core)
}

/// One run; the bytes per address are asserted, being a count.
pub(crate) fn run(size: Size, table: &mut Table) -> Result<()> {
    let addresses = (size.services * size.addresses) as f64;
    let world = World::new(size)?;
    let before = allocated();
    let begun = Instant::now();
    let core = filled(&world)?;
    let took = begun.elapsed();
    let bytes = (allocated() - before) as f64 / addresses;
    let shape = if size.pods { "each with a pod" } else { "without pods" };
    table.add(format!("core, addresses {shape}: bytes per address"), "B", bytes);
    table.add(
        format!("core, addresses {shape}: time per address"),
        "us",
        took.as_secs_f64() * 1e6 / addresses,
    );
    ensure!(core.counters().views as usize >= size.services, "not every service became a view");
    ensure!(bytes <= 250.0, "{bytes:.0} B per address is over the budget of 250 B");
    drop(core);

    let before = allocated();
    let begun = Instant::now();
    let plain = plain(size, &world);
    table.add(
        "baseline, a record per endpoint and port: bytes per address",
        "B",
        (allocated() - before) as f64 / addresses,
    );
    table.add("baseline: time per address", "us", begun.elapsed().as_secs_f64() * 1e6 / addresses);
    drop(plain);
    Ok(())
}

/// What a plain consumer keeps of one endpoint and port.
#[allow(dead_code, reason = "kept for its size, not read")]
struct Record {
    address: String,
    port: u16,
    port_name: String,
    locality: String,
    labels: BTreeMap<String, String>,
    identity: String,
    network: String,
}

fn plain(size: Size, world: &World) -> BTreeMap<String, Vec<Record>> {
    let mut all: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for service in 0..size.services {
        let records = all.entry(World::host(service)).or_default();
        for (n, port) in (0..size.addresses).flat_map(|n| (0..size.ports).map(move |p| (n, p))) {
            records.push(Record {
                address: world.ip(service, n, false).to_string(),
                port: 8080 + port,
                port_name: format!("http-{port}"),
                locality: "eu/a".to_owned(),
                labels: [("app", "bench"), ("version", "v1")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
                identity: String::new(),
                network: String::new(),
            });
        }
    }
    all
}
