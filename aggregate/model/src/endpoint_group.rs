//! The endpoints that one source object gives one declaration: the unit of truth.

use std::net::IpAddr;
use std::sync::Arc;

use crate::address::{Address, AddressRef};
use crate::declaration::ServiceKey;
use crate::id::{Identity, NetworkId};
use crate::object::{ObjectId, Source};
use crate::port::{PortName, PortNumber};

/// Which group. A group of more than [`EndpointGroup::BUCKET`] addresses that was made by selection is
/// split into buckets, so that one workload's change copies one bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct EndpointGroupKey {
    /// The service whose endpoints these are.
    pub service: ServiceKey,
    /// The declaration behind whose ports they stand.
    pub declaration: ObjectId,
    /// The object that lists them.
    pub object: ObjectId,
    /// Which bucket.
    pub bucket: u16,
}

/// One port of an address: the name by which a declaration's port finds it, and its number.
/// `None` where the address is a unix path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct GroupPort {
    /// Matches the declaration's port name.
    pub name: PortName,
    /// What to connect to.
    pub number: Option<PortNumber>,
}

/// The ports that an address has; shared by all addresses that have the same.
pub type PortSet = Arc<[GroupPort]>;

/// An address that a group's object lists and that is not served yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct WaitingAddress {
    /// The address.
    pub ip: IpAddr,
    /// The object that has to be seen first.
    pub waits_for: Arc<ObjectId>,
}

/// What a view needs to know of a group without walking its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// The identities of all addresses, whatever their health, sorted.
    pub identities: Arc<[Identity]>,
    /// The networks of all addresses, sorted.
    pub networks: Arc<[NetworkId]>,
    /// Whether an address is IPv4.
    pub v4: bool,
    /// Whether an address is IPv6.
    pub v6: bool,
    /// Whether an address is a DNS name.
    pub names: bool,
    /// Whether an address is a unix path.
    pub unix: bool,
}

/// Addresses and their ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointGroup {
    /// Provenance.
    pub source: Source,
    /// The distinct port sets; an address names one by index.
    pub port_sets: Arc<[PortSet]>,
    /// DNS names and unix paths; an address names one by index.
    pub names: Arc<[Arc<str>]>,
    /// The addresses, in the source's order.
    pub addresses: Arc<[Address]>,
    /// Derived from the addresses by [`EndpointGroup::new`].
    pub summary: Summary,
}

impl EndpointGroup {
    /// How many addresses one bucket of a selected group holds at most.
    pub const BUCKET: usize = 512;

    /// Keeps the addresses whose indexes lie within the tables; derives the summary.
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
        Self { source, port_sets: port_sets.into(), names: names.into(), addresses, summary }
    }
    /// The ports of an address of this group.
    #[must_use]
    pub fn ports(&self, address: &Address) -> &[GroupPort] {
        self.port_sets.get(usize::from(address.port_set)).map_or(&[], |set| set)
    }
    /// The name or path of an address that is not an IP.
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
    use crate::address::Topology;

    #[test]
    fn an_address_outside_the_tables_is_not_kept() {
        let place = Arc::new(Topology::default());
        let source = Source::new(ObjectId::new("Test", "", "g"));
        let bad =
            Address { port_set: 3, ..Address::new(AddressRef::Ip([10, 0, 0, 1].into()), place.clone()) };
        let unnamed = Address::new(AddressRef::Name(0), place.clone());
        let good = Address::new(AddressRef::Ip([10, 0, 0, 2].into()), place);
        let group = EndpointGroup::new(source, vec![Arc::from([])], vec![], vec![bad, unnamed, good.clone()]);
        assert_eq!(&*group.addresses, &[good]);
        assert!(group.summary.v4 && !group.summary.names);
    }
}
