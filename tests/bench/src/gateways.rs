//! Gateways bench: one endpoint's change in a network behind gateways, from the update of a registry to the assignment of a client of
//! another network, without a socket. The baseline is a client of the same network.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tributary_answer::ClusterName;
use tributary_model::{ClientKind, Mono, NetworkId, PortNumber};
use tributary_xds::answers::{CatalogAnswers, ClientClass, ClientClassKey, ResourceProvider, ResourceType};

use crate::intake::{filled, stamped};
use crate::report::{Table, quantile};
use crate::world::{Size, World};

/// Number of measured changes.
const CHANGES: usize = 1_000;
/// Most microseconds of a change, as a median: ten times the aim.
const LIMIT: f64 = 10_000.0;

/// Runs once.
pub(crate) fn run(size: Size, table: &mut Table) -> Result<()> {
    let world = World::behind_gateways(size)?;
    for (of, network) in [("a client of the network (baseline)", "far"), ("a client of another one", "near")]
    {
        let (took, endpoints) = changes(&world, size, network)?;
        let shape = format!("{} endpoints behind gateways, {of}", size.services * size.addresses);
        table.add(format!("{shape}: an endpoint's change to the assignment, median"), "us", took);
        table.add(format!("{shape}: addresses of an assignment"), "", endpoints as f64);
        let want = if network == "far" { size.addresses } else { 2 };
        ensure!(endpoints >= want && endpoints <= 3 * want, "{endpoints} addresses, not about {want}");
        ensure!(took <= LIMIT, "{took} us: ten times the aim");
    }
    Ok(())
}

/// Moves endpoints one by one. Returns the median of the microseconds until a client of a network has the assignment, and the
/// number of its addresses.
fn changes(world: &World, size: Size, network: &str) -> Result<(f64, usize)> {
    let (mut core, _) = filled(world.listing()?)?;
    let answers = CatalogAnswers::default();
    let class = ClientClass {
        network: Some(NetworkId::new(network)?),
        certificates: tributary_model::CertificateSource::Files,
        ..ClientClass::new(ClientKind::Sidecar)
    };
    let class = ClientClassKey::alone(class);
    let (mut took, mut endpoints) = (Vec::with_capacity(CHANGES), 0);
    for change in 0..CHANGES {
        let service = change % size.services;
        let name = ClusterName::new(PortNumber::new(80)?, &world.key(service)?.host).to_string();
        let update = stamped(vec![world.group(service, change / size.services + 1)?])?;
        let begun = Instant::now();
        core.apply(Mono(2), update);
        let catalog = core.publish();
        let found = answers.one(&catalog, &class, ResourceType::Endpoints, &name);
        took.push(begun.elapsed().as_secs_f64() * 1e6);
        endpoints = addresses(&found.and_then(|found| found.body()).context("no assignment")?)?;
    }
    Ok((quantile(&mut took, 0.5), endpoints))
}

fn addresses(body: &[u8]) -> Result<usize> {
    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    use prost::Message as _;
    let assignment = ClusterLoadAssignment::decode(body)?;
    Ok(assignment.endpoints.iter().map(|locality| locality.lb_endpoints.len()).sum())
}
