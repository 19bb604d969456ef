//! Intake bench: time and memory of the core for a first complete listing.
//!
//! The baseline is the memory of a plain consumer: one owned record per endpoint and port.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use tributary_core::{Core, CoreConfig, RunOrder};
use tributary_model::{
    ClusterId, Generation, Mono, ProviderId, Record, RegistryId, RegistryName, RegistrySpec, RegistryUpdate,
    Stamped,
};

use crate::ALLOCATOR;
use crate::report::Table;
use crate::world::{Size, World};

/// Maximum memory per workload, in bytes: its fact, and its entries in ledger, state and catalog.
const PER_WORKLOAD: f64 = 900.0;

/// Returns the bytes that are allocated now, counted by the allocator.
pub(crate) fn allocated() -> i64 {
    i64::try_from(ALLOCATOR.allocated()).unwrap_or(i64::MAX)
}

/// Returns the spec of the benches' registry.
pub(crate) fn spec() -> Result<RegistrySpec> {
    spec_of("bench")
}

/// Returns the spec of a registry of this name.
pub(crate) fn spec_of(name: &str) -> Result<RegistrySpec> {
    let id = RegistryId {
        name: RegistryName::new(name)?,
        provider: ProviderId::MEMORY,
        cluster: ClusterId::new(name)?,
    };
    Ok(RegistrySpec::new(Arc::new(id), 0))
}

/// Stamps updates as the update channel of the bench's registry does.
pub(crate) fn stamped(deltas: Vec<RegistryUpdate>) -> Result<Vec<Stamped<RegistryUpdate>>> {
    let registry = RegistryName::new("bench")?;
    let stamp = |value| Stamped { registry: registry.clone(), generation: Generation(1), at: Mono(1), value };
    Ok(deltas.into_iter().map(stamp).collect())
}

/// Returns a core that has read this list, and the records that it gives to a journal.
pub(crate) fn filled(list: Vec<RegistryUpdate>) -> Result<(Core, Vec<Record>)> {
    let mut core = Core::new(CoreConfig::default());
    let spec = spec()?;
    let mut records = core.add_registry(&spec)?.records;
    records.extend(core.serve(Mono(1), &RunOrder::first(spec))?.0.records);
    records.extend(core.apply(Mono(1), stamped(list)?).records);
    core.publish();
    Ok((core, records))
}

/// Runs once. Asserts the bytes per address, which are exact.
pub(crate) fn run(size: Size, table: &mut Table) -> Result<()> {
    let addresses = (size.services * size.addresses) as f64;
    let world = World::new(size)?;
    let before = allocated();
    let begun = Instant::now();
    let core = filled(world.listing()?)?.0;
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

/// Measures the memory that the core uses for workloads, in ledger, state and catalog.
pub(crate) fn workloads(count: usize, table: &mut Table) -> Result<()> {
    let world = World::new(Size { services: 0, ports: 1, addresses: 1, pods: false })?;
    let before = allocated();
    let begun = Instant::now();
    let core = filled(world.workloads(count)?)?.0;
    let took = begun.elapsed();
    let bytes = (allocated() - before) as f64 / count as f64;
    table.add("core: bytes per workload", "B", bytes);
    table.add("core: time per workload", "us", took.as_secs_f64() * 1e6 / count as f64);
    let kept: u64 = core.end_plan(&spec()?.id.name, None, None).iter().map(|plan| plan.facts).sum();
    ensure!(kept == count as u64, "{kept} of {count} workloads are kept");
    ensure!(bytes <= PER_WORKLOAD, "{bytes:.0} B per workload is over the budget of {PER_WORKLOAD} B");
    Ok(())
}

/// Memory of a plain consumer for one endpoint and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) port_name: String,
    pub(crate) locality: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) identity: String,
    pub(crate) network: String,
}

pub(crate) fn plain(size: Size, world: &World) -> BTreeMap<String, Vec<Plain>> {
    let mut all: BTreeMap<String, Vec<Plain>> = BTreeMap::new();
    for service in 0..size.services {
        let records = all.entry(world.host(service)).or_default();
        for (n, port) in (0..size.addresses).flat_map(|n| (0..size.ports).map(move |p| (n, p))) {
            records.push(Plain {
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
