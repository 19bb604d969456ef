//! Converts inline endpoints and DNS hosts to endpoint groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, EndpointGroup, GroupPort, Hostname, PortName, PortNumber, PortSet, Source,
    WorkloadAddress,
};

use super::context::Context;
use super::topology::{Topologies, accepts_mesh_tls, augmented, inherited_network};
use crate::address;
use crate::document::{Location, Meta, Resolution, SePort, ServiceEntry, WorkloadSpec};

/// The endpoints that the entry lists, the same for all of its hosts; `None` if it lists none.
pub(super) fn inline(
    source: &Source,
    meta: &Meta,
    entry: &ServiceEntry,
    context: &Context,
) -> Option<Arc<EndpointGroup>> {
    let listed =
        matches!(entry.resolution.value, Resolution::Static | Resolution::Dns | Resolution::DnsRoundRobin);
    if !listed || entry.selector.is_some() || entry.endpoints.is_empty() {
        return None;
    }
    let mut builder = GroupBuilder::default();
    for endpoint in &entry.endpoints {
        builder.endpoint(meta, entry, endpoint, context);
    }
    Some(Arc::new(builder.group(source)))
}

/// The single endpoint of a DNS entry without endpoints and selector: its own host name.
pub(super) fn host(
    source: &Source,
    entry: &ServiceEntry,
    host: &Hostname,
    context: &Context,
) -> Option<Arc<EndpointGroup>> {
    let looked_up = entry.resolution.value.is_dns() && entry.selector.is_none() && entry.endpoints.is_empty();
    if !looked_up || host.is_wildcard() {
        return None;
    }
    let mut builder = GroupBuilder::default();
    let ports = entry.ports.iter().filter_map(|port| group_port(port, port_number(port))).collect();
    let topology = builder.topologies.cluster(context);
    let at = builder.name(host.as_str().into()).map(AddressRef::Name)?;
    let port_set = builder.port_set(ports)?;
    builder.addresses.push(Address { port_set, ..Address::new(at, topology) });
    Some(Arc::new(builder.group(source)))
}

/// An endpoint group under construction, with its tables.
#[derive(Default)]
struct GroupBuilder {
    topologies: Topologies,
    port_sets: Vec<PortSet>,
    names: Vec<Arc<str>>,
    known_sets: BTreeMap<Vec<(PortName, Option<PortNumber>)>, u16>,
    addresses: Vec<Address>,
}

impl GroupBuilder {
    /// Adds an endpoint. Omits one without an address, which validation shows, and one that
    /// does not suit the resolution.
    fn endpoint(
        &mut self,
        meta: &Meta,
        entry: &ServiceEntry,
        spec: &WorkloadSpec,
        context: &Context,
    ) -> Option<()> {
        let named = entry.resolution.value.is_dns();
        let (at, unix) = match address::of(spec)? {
            WorkloadAddress::Ip(ip) => (AddressRef::Ip(ip), false),
            WorkloadAddress::Name(name) if named => (AddressRef::Name(self.name(name)?), false),
            WorkloadAddress::Unix(path) if !named => (AddressRef::Unix(self.name(path)?), true),
            WorkloadAddress::Name(_) | WorkloadAddress::Unix(_) => return None,
        };
        let ports = entry.ports.iter();
        let ports =
            ports.filter_map(|port| group_port(port, if unix { None } else { target(spec, port) })).collect();
        let port_set = self.port_set(ports)?;
        let labels = &spec.labels.value;
        let topology = self.topologies.of(spec, labels, context);
        let inside = entry.location != Location::External;
        let inherited = inherited_network(spec, context).filter(|_| inside);
        let account = spec.account.as_ref().map_or("", |account| &*account.value);
        self.addresses.push(Address {
            port_set,
            mtls: accepts_mesh_tls(labels, account),
            weight: weight(spec),
            labels: augmented(labels, &topology, inherited),
            identity: context.identity(&meta.namespace, account),
            ..Address::new(at, topology)
        });
        Some(())
    }
    /// The index of a new name; `None` if the table is full, which validation prevents.
    fn name(&mut self, name: Arc<str>) -> Option<u16> {
        let index = u16::try_from(self.names.len()).ok()?;
        self.names.push(name);
        Some(index)
    }
    /// The index of a port set; equal sets share one index.
    fn port_set(&mut self, ports: Vec<GroupPort>) -> Option<u16> {
        let key: Vec<_> = ports.iter().map(|port| (port.name.clone(), port.number)).collect();
        if let Some(index) = self.known_sets.get(&key) {
            return Some(*index);
        }
        let index = u16::try_from(self.port_sets.len()).ok()?;
        self.port_sets.push(ports.into());
        self.known_sets.insert(key, index);
        Some(index)
    }
    fn group(self, source: &Source) -> EndpointGroup {
        EndpointGroup::new(source.clone(), self.port_sets, self.names, self.addresses)
    }
}

fn group_port(port: &SePort, number: Option<PortNumber>) -> Option<GroupPort> {
    Some(GroupPort { name: PortName::new(&port.name.value).ok()?, number })
}

/// The endpoint's own number for the port, else the port's target, else the port's number.
fn target(spec: &WorkloadSpec, port: &SePort) -> Option<PortNumber> {
    let own = spec.ports.iter().find(|(name, _)| name.value == port.name.value);
    own.and_then(|(_, number)| number_of(number.value)).or_else(|| port_number(port))
}

fn port_number(port: &SePort) -> Option<PortNumber> {
    port.target.and_then(|target| number_of(target.value)).or_else(|| number_of(port.number.value))
}

pub(crate) fn number_of(number: i64) -> Option<PortNumber> {
    u32::try_from(number).ok().and_then(|number| PortNumber::new(number).ok())
}

/// The weight; absent and 0 count as 1.
pub(super) fn weight(spec: &WorkloadSpec) -> u32 {
    let weight = spec.weight.and_then(|weight| u32::try_from(weight.value).ok());
    weight.unwrap_or(1).max(1)
}
