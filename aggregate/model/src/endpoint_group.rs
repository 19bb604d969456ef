//! Endpoint groups: the endpoints that one source object lists for one declaration.
//!
//! Adapters report groups; the core keeps, merges and removes them as a unit.

use std::net::IpAddr;
use std::sync::Arc;

use crate::address::{Address, AddressRef, Topology};
use crate::declaration::ServiceKey;
use crate::health::Health;
use crate::id::{Identity, NetworkId};
use crate::object::{ObjectId, Source};
use crate::port::{PortName, PortNumber};
use crate::weight::WeightUnit;

/// Identity of a group. The core splits a selected group of more than [`EndpointGroup::BUCKET`]
/// addresses into buckets, so a change of one workload copies one bucket only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct EndpointGroupKey {
    /// Service of the endpoints.
    pub service: ServiceKey,
    /// Declaration whose ports the endpoints serve.
    pub declaration: ObjectId,
    /// Object that lists them.
    pub object: ObjectId,
    /// Number of the bucket.
    pub bucket: u16,
}

/// One port of an address: its number, and the name that a declaration's port matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct GroupPort {
    /// Name, equal to that of the declaration's port.
    pub name: PortName,
    /// Number to connect to; `None` if the address is a unix path.
    pub number: Option<PortNumber>,
}

/// Ports of an address; shared by all addresses with the same ports.
pub type PortSet = Arc<[GroupPort]>;

/// Address that a group's object lists and the server does not serve yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct WaitingAddress {
    /// Address.
    pub ip: IpAddr,
    /// Object that the adapter must read first.
    pub waits_for: Arc<ObjectId>,
}

/// Properties of a group that views read without walking its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Identities of all addresses in any state of health, sorted.
    pub identities: Arc<[Identity]>,
    /// Networks of all addresses, sorted.
    pub networks: Arc<[NetworkId]>,
    /// Whether any address is IPv4.
    pub v4: bool,
    /// Whether any address is IPv6.
    pub v6: bool,
    /// Whether any address is a DNS name.
    pub names: bool,
    /// Whether any address is a unix path.
    pub unix: bool,
    /// Whether any address does not accept mesh TLS.
    pub plain: bool,
}

/// Addresses and their ports, from one source object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointGroup {
    /// Provenance.
    pub source: Source,
    /// Distinct port sets; addresses refer to them by index.
    pub port_sets: Arc<[PortSet]>,
    /// DNS names and unix paths; addresses refer to them by index.
    pub names: Arc<[Arc<str>]>,
    /// Addresses, in the source's order.
    pub addresses: Arc<[Address]>,
    /// Unit of their weights.
    pub weight_unit: WeightUnit,
    /// Derived from the addresses by [`EndpointGroup::new`].
    pub summary: Summary,
}

impl EndpointGroup {
    /// Maximum number of addresses in one bucket of a selected group.
    pub const BUCKET: usize = 512;

    /// Creates a group with weights in [`WeightUnit::ONE`] and derives its summary. Removes addresses whose indexes are out of range.
    #[must_use]
    pub fn new(
        source: Source,
        port_sets: Vec<PortSet>,
        names: Vec<Arc<str>>,
        addresses: Vec<Address>,
    ) -> Self {
        let inside = |a: &Address| {
            let named = match a.at {
                AddressRef::Ip(_) => true,
                AddressRef::Name(i) | AddressRef::Unix(i) => usize::from(i) < names.len(),
            };
            named && usize::from(a.port_set) < port_sets.len()
        };
        let addresses: Arc<[Address]> = addresses.into_iter().filter(inside).collect();
        let summary = Summary::of(&addresses);
        let (port_sets, names, weight_unit) = (port_sets.into(), names.into(), WeightUnit::ONE);
        Self { source, port_sets, names, addresses, weight_unit, summary }
    }
    /// Sets the unit of the weights; keeps the weights.
    #[must_use]
    pub const fn in_unit(mut self, unit: WeightUnit) -> Self {
        self.weight_unit = unit;
        self
    }
    /// Creates a group of IP addresses that serve one port, each with its own number of it and its health.
    #[must_use]
    pub fn of_ips(
        source: Source,
        port: &PortName,
        endpoints: impl IntoIterator<Item = (IpAddr, PortNumber, Health)>,
    ) -> Self {
        let mut port_sets: Vec<PortSet> = Vec::new();
        let mut addresses = Vec::new();
        let topology = Arc::new(Topology::default());
        for (ip, number, health) in endpoints {
            let set = [GroupPort { name: port.clone(), number: Some(number) }];
            let index = port_sets.iter().position(|known| **known == set).unwrap_or_else(|| {
                port_sets.push(Arc::from(set));
                port_sets.len() - 1
            });
            let address = Address::new(AddressRef::Ip(ip), Arc::clone(&topology));
            // one port has fewer numbers than u16 has values
            addresses.push(Address { port_set: u16::try_from(index).unwrap_or(u16::MAX), health, ..address });
        }
        Self::new(source, port_sets, Vec::new(), addresses)
    }
    /// Returns the ports of an address of this group.
    #[must_use]
    pub fn ports(&self, address: &Address) -> &[GroupPort] {
        self.port_sets.get(usize::from(address.port_set)).map_or(&[], |set| set)
    }
    /// Returns the DNS name or unix path of an address; `None` for an IP.
    #[must_use]
    pub fn name(&self, address: &Address) -> Option<&str> {
        match address.at {
            AddressRef::Ip(_) => None,
            AddressRef::Name(i) | AddressRef::Unix(i) => self.names.get(usize::from(i)).map(|n| &**n),
        }
    }
}

impl Summary {
    fn of(addresses: &[Address]) -> Self {
        let mut identities: Vec<Identity> = Vec::new();
        let mut networks: Vec<NetworkId> = Vec::new();
        let mut out = Self::default();
        for address in addresses {
            note(&mut identities, address.identity.as_ref());
            note(&mut networks, address.topology.network.as_ref());
            out.plain |= !address.mtls;
            match address.at {
                AddressRef::Ip(ip) if ip.is_ipv4() => out.v4 = true,
                AddressRef::Ip(_) => out.v6 = true,
                AddressRef::Name(_) => out.names = true,
                AddressRef::Unix(_) => out.unix = true,
            }
        }
        Self { identities: identities.into(), networks: networks.into(), ..out }
    }
}

fn note<T: Ord + Clone>(sorted: &mut Vec<T>, value: Option<&T>) {
    let Some(value) = value else { return };
    if let Err(at) = sorted.binary_search(value) {
        sorted.insert(at, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ips_with_the_same_port_number_share_a_port_set() {
        let (port, number) = (PortName::new("main").unwrap(), |n| PortNumber::new(n).unwrap());
        let endpoint = |last: u8, n, health| ([10, 0, 0, last].into(), number(n), health);
        let source = Source::new(ObjectId::new("Test", "", "g"));
        let endpoints = [
            endpoint(1, 80, Health::Healthy),
            endpoint(2, 81, Health::Unhealthy),
            endpoint(3, 80, Health::Healthy),
        ];
        let group = EndpointGroup::of_ips(source, &port, endpoints);
        assert_eq!(group.port_sets.len(), 2);
        let shown = group.addresses.iter().map(|a| (group.ports(a)[0].number.unwrap().get(), a.health));
        let expected = [(80, Health::Healthy), (81, Health::Unhealthy), (80, Health::Healthy)];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn address_with_index_out_of_range_is_removed() {
        let topology = Arc::new(Topology::default());
        let source = Source::new(ObjectId::new("Test", "", "g"));
        let bad =
            Address { port_set: 3, ..Address::new(AddressRef::Ip([10, 0, 0, 1].into()), topology.clone()) };
        let unnamed = Address::new(AddressRef::Name(0), topology.clone());
        let good = Address::new(AddressRef::Ip([10, 0, 0, 2].into()), topology);
        let group = EndpointGroup::new(source, vec![Arc::from([])], vec![], vec![bad, unnamed, good.clone()]);
        assert_eq!(&*group.addresses, &[good]);
        assert!(group.summary.v4 && !group.summary.names);
    }
}
