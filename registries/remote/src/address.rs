//! Addresses to which a kubeconfig may not lead: this machine, its links, and the metadata services of clouds.
//!
//! Vetting checks addresses that a kubeconfig spells out. A name resolves later, so that a connector checks every address again with
//! [`Allowed::check`] when it connects. Private ranges pass: API servers are there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::allowed::Allowed;

/// Class of addresses that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// Metadata service of a cloud, which hands out credentials of this machine.
    Metadata,
    /// No address, which connects to this machine.
    Unspecified,
    /// This machine.
    Loopback,
    /// Link of this machine.
    LinkLocal,
    /// Group of machines.
    Multicast,
    /// Every machine of a link.
    Broadcast,
}

impl AddressClass {
    /// Describes the class, as the end of a sentence about an address.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Metadata => "is the metadata service of a cloud",
            Self::Unspecified => "is an unspecified address, which leads to this machine",
            Self::Loopback => "is a loopback address, which leads to this machine",
            Self::LinkLocal => "is a link-local address",
            Self::Multicast => "is a multicast address",
            Self::Broadcast => "is a broadcast address",
        }
    }
}

/// Range of addresses that is refused by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// Class of the range.
    pub class: AddressClass,
    /// Range to allow, so that its addresses pass.
    pub range: IpNet,
}

const fn v4(class: AddressClass, [a, b, c, d]: [u8; 4], bits: u8) -> Blocked {
    Blocked { class, range: IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)) }
}

const fn v6(class: AddressClass, [a, b, h]: [u16; 3], bits: u8) -> Blocked {
    Blocked { class, range: IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, h), bits)) }
}

/// Refused ranges; a narrow one precedes the wide one that contains it.
const BLOCKED: [Blocked; 18] = [
    v4(AddressClass::Metadata, [169, 254, 169, 254], 32),
    v4(AddressClass::Metadata, [169, 254, 170, 2], 32),
    v4(AddressClass::Metadata, [169, 254, 170, 23], 32),
    v4(AddressClass::Metadata, [100, 100, 100, 200], 32),
    v4(AddressClass::Metadata, [168, 63, 129, 16], 32),
    v4(AddressClass::Metadata, [192, 0, 0, 192], 32),
    v4(AddressClass::Unspecified, [0, 0, 0, 0], 8),
    v4(AddressClass::Loopback, [127, 0, 0, 0], 8),
    v4(AddressClass::LinkLocal, [169, 254, 0, 0], 16),
    v4(AddressClass::Multicast, [224, 0, 0, 0], 4),
    v4(AddressClass::Broadcast, [255, 255, 255, 255], 32),
    v6(AddressClass::Metadata, [0xfd00, 0xec2, 0x254], 128),
    v6(AddressClass::Metadata, [0xfd00, 0xec2, 0x23], 128),
    v6(AddressClass::Metadata, [0xfd20, 0xce, 0x254], 128),
    v6(AddressClass::Unspecified, [0, 0, 0], 128),
    v6(AddressClass::Loopback, [0, 0, 1], 128),
    v6(AddressClass::LinkLocal, [0xfe80, 0, 0], 10),
    v6(AddressClass::Multicast, [0xff00, 0, 0], 8),
];

/// Names that resolve to refused addresses wherever they resolve, each with such an address.
const NAMES: [(&str, IpAddr); 4] = [
    ("localhost", IpAddr::V4(Ipv4Addr::LOCALHOST)),
    ("metadata", IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254))),
    ("metadata.google.internal", IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254))),
    ("instance-data", IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254))),
];

impl Allowed {
    /// Checks an address, in every form that it contains: an IPv6 address can carry an IPv4 one to a gateway that unpacks it.
    pub fn check(&self, address: IpAddr) -> Result<(), Blocked> {
        let passes = |form: IpAddr| self.servers.iter().any(|range| range.contains(&form));
        if passes(address) {
            return Ok(());
        }
        let forms = std::iter::once(address).chain(embedded(address).map(IpAddr::V4));
        let refused = forms.filter(|form| !passes(*form)).find_map(blocked);
        refused.map_or(Ok(()), Err)
    }
    /// Checks a name for those that lead to refused addresses everywhere. Others are checked when they resolve.
    pub fn check_name(&self, name: &str) -> Result<(), Blocked> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_below = |parent: &str| {
            name.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let known = NAMES
            .iter()
            .find(|(known, _)| if *known == "localhost" { is_below(known) } else { name == *known });
        known.map_or(Ok(()), |(_, address)| self.check(*address))
    }
}

fn blocked(address: IpAddr) -> Option<Blocked> {
    BLOCKED.into_iter().find(|one| one.range.contains(&address))
}

/// Returns the IPv4 addresses that an IPv6 address carries: mapped, compatible, translated, NAT64, 6to4 and Teredo.
fn embedded(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    let IpAddr::V6(address) = address else { return Vec::new().into_iter() };
    let o = address.octets();
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| o[place]));
    let last = [12, 13, 14, 15];
    let carried = match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            vec![at(last)]
        }
        // a prefix of local NAT64 may have any of these lengths; zeros are no address, but the rest of another length
        [0x64, 0xff9b, 1, ..] => {
            let forms = [last, [6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12]].map(at);
            forms.into_iter().filter(|form| form.octets()[0] != 0).collect()
        }
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), Ipv4Addr::from(!u32::from(at(last)))],
        _ => Vec::new(),
    };
    carried.into_iter()
}
