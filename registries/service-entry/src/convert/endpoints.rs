//! Inline endpoints and DNS hosts as groups of addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, EndpointGroup, GroupPort, Hostname, PortName, PortNumber, PortSet, Source,
    WorkloadAddress,
};

use super::topology::{Places, augmented, speaks_mesh_tls};
use super::{Context, address};
use crate::document::{Location, Meta, Resolution, SePort, ServiceEntry, WorkloadSpec};

/// The endpoints that the entry lists, the same for all of its hosts; `None` where it lists none.
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
    let mut made = Made::default();
    for endpoint in &entry.endpoints {
        made.endpoint(meta, entry, endpoint, context);
    }
    Some(Arc::new(made.group(source)))
}

/// The one endpoint of a DNS entry that lists and selects none: its host, as DNS answers it.
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
    let mut made = Made::default();
    let ports = entry.ports.iter().filter_map(|port| group_port(port, port_number(port))).collect();
    let place = made.places.cluster(context);
    let at = made.name(host.as_str().into()).map(AddressRef::Name)?;
    let port_set = made.port_set(ports)?;
    made.addresses.push(Address { port_set, ..Address::new(at, place) });
    Some(Arc::new(made.group(source)))
}

/// A group in the making, with its tables.
#[derive(Default)]
struct Made {
    places: Places,
    port_sets: Vec<PortSet>,
    names: Vec<Arc<str>>,
    known_sets: BTreeMap<Vec<(PortName, Option<PortNumber>)>, u16>,
    addresses: Vec<Address>,
}

impl Made {
    /// An endpoint that has no address stands behind a gateway that is not known here: it is left
    /// out, as is one that does not suit the resolution.
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
        let place = self.places.of(spec, labels, entry.location == Location::External, context);
        let account = spec.account.as_ref().map_or("", |account| &*account.value);
        self.addresses.push(Address {
            port_set,
            mtls: speaks_mesh_tls(labels, account),
            weight: weight(spec),
            labels: augmented(labels, &place),
            identity: context.identity(&meta.namespace, account),
            ..Address::new(at, place)
        });
        Some(())
    }
    /// The index of a new name; `None` when the table is full, which validation does not let happen.
    fn name(&mut self, name: Arc<str>) -> Option<u16> {
        let index = u16::try_from(self.names.len()).ok()?;
        self.names.push(name);
        Some(index)
    }
    /// The index of a port set, shared by all addresses that have the same.
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

/// The workload's own number for the port, else the port's target, else its number.
fn target(spec: &WorkloadSpec, port: &SePort) -> Option<PortNumber> {
    let own = spec.ports.iter().find(|(name, _)| name.value == port.name.value);
    own.and_then(|(_, number)| number_of(number.value)).or_else(|| port_number(port))
}

fn port_number(port: &SePort) -> Option<PortNumber> {
    port.target.and_then(|target| number_of(target.value)).or_else(|| number_of(port.number.value))
}

pub(super) fn number_of(number: i64) -> Option<PortNumber> {
    u32::try_from(number).ok().and_then(|number| PortNumber::new(number).ok())
}

/// Nothing said, and 0, count as 1.
pub(super) fn weight(spec: &WorkloadSpec) -> u32 {
    let said = spec.weight.and_then(|weight| u32::try_from(weight.value).ok());
    said.unwrap_or(1).max(1)
}
