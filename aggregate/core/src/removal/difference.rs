//! Comparing what a group was with what it is said to be now: which endpoints went, and how those
//! that are doubted stay beside those that were said.
//!
//! Called by the store, the gate and selection. An endpoint is an address with its ports: two
//! instances on one host are two.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{Address, AddressRef, EndpointGroup, GroupPort, Health, PortSet};

type Endpoint<'a> = (Option<IpAddr>, Option<&'a str>, &'a [GroupPort]);

fn endpoint<'a>(group: &'a EndpointGroup, address: &'a Address) -> Endpoint<'a> {
    (address.ip(), group.name(address), group.ports(address))
}

fn index(group: &EndpointGroup) -> HashMap<Endpoint<'_>, Health> {
    group.addresses.iter().map(|a| (endpoint(group, a), a.health)).collect()
}

/// Whether an endpoint of `old` is gone from `new`, or of another health there.
pub(crate) fn loses(old: &EndpointGroup, new: &EndpointGroup) -> bool {
    let alike = |a: &Address, b: &Address| a.health == b.health && endpoint(old, a) == endpoint(new, b);
    // the usual addition leaves all others in their order
    let mut rest = new.addresses.iter();
    if old.addresses.iter().all(|a| rest.any(|b| alike(a, b))) {
        return false;
    }
    let now = index(new);
    old.addresses.iter().any(|a| now.get(&endpoint(old, a)) != Some(&a.health))
}

/// The endpoints of `old` that `said` does not name, by index.
pub(crate) fn missing(old: &EndpointGroup, said: &EndpointGroup) -> Vec<u32> {
    let now = index(said);
    let gone = old.addresses.iter().enumerate().filter(|(_, a)| !now.contains_key(&endpoint(old, a)));
    gone.filter_map(|(at, _)| u32::try_from(at).ok()).collect()
}

/// What was said, followed by these endpoints of `old`; and where those stand now.
pub(crate) fn with_kept(
    said: &EndpointGroup,
    old: &EndpointGroup,
    kept: &[u32],
) -> (EndpointGroup, Arc<[u32]>) {
    let mut port_sets: Vec<PortSet> = said.port_sets.to_vec();
    let mut names: Vec<Arc<str>> = said.names.to_vec();
    let mut addresses: Vec<Address> = said.addresses.to_vec();
    let mut held: Vec<u32> = Vec::with_capacity(kept.len());
    for &at in kept {
        let Some(address) = old.addresses.get(at as usize) else { continue };
        let Some(moved) = carry(old, address, &mut port_sets, &mut names) else { continue };
        held.extend(u32::try_from(addresses.len()));
        addresses.push(moved);
    }
    (EndpointGroup::new(said.source.clone(), port_sets, names, addresses), held.into())
}

fn carry(
    old: &EndpointGroup,
    address: &Address,
    port_sets: &mut Vec<PortSet>,
    names: &mut Vec<Arc<str>>,
) -> Option<Address> {
    let set = old.port_sets.get(usize::from(address.port_set))?;
    let port_set = u16::try_from(find_or_push(port_sets, set)).ok()?;
    let at = match address.at {
        AddressRef::Ip(ip) => AddressRef::Ip(ip),
        AddressRef::Name(i) => {
            AddressRef::Name(u16::try_from(find_or_push(names, old.names.get(usize::from(i))?)).ok()?)
        }
        AddressRef::Unix(i) => {
            AddressRef::Unix(u16::try_from(find_or_push(names, old.names.get(usize::from(i))?)).ok()?)
        }
    };
    Some(Address { at, port_set, ..address.clone() })
}

fn find_or_push<T: ?Sized + PartialEq>(list: &mut Vec<Arc<T>>, value: &Arc<T>) -> usize {
    list.iter().position(|known| known == value).unwrap_or_else(|| {
        list.push(Arc::clone(value));
        list.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use tributary_model::{ObjectId, PortName, PortNumber, Source, Topology};

    use super::*;

    fn mk_group(endpoints: &[(&str, u32)]) -> EndpointGroup {
        let mut sets: Vec<PortSet> = Vec::new();
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut addresses = Vec::new();
        for &(at, port) in endpoints {
            let name = PortName::new("http").unwrap();
            let set: PortSet = Arc::from([GroupPort { name, number: PortNumber::new(port).ok() }]);
            let port_set = u16::try_from(find_or_push(&mut sets, &set)).unwrap();
            let at = match at.parse() {
                Ok(ip) => AddressRef::Ip(ip),
                Err(_) => AddressRef::Name(u16::try_from(find_or_push(&mut names, &at.into())).unwrap()),
            };
            addresses.push(Address { port_set, ..Address::new(at, Arc::new(Topology::default())) });
        }
        EndpointGroup::new(Source::new(ObjectId::new("X", "", "g")), sets, names, addresses)
    }
    fn texts(group: &EndpointGroup) -> Vec<String> {
        let text = |a: &Address| crate::merge::conditions::endpoint_text(group, a, group.ports(a)[0].number);
        group.addresses.iter().map(text).collect()
    }

    #[test]
    fn two_instances_on_one_host_are_two_endpoints() {
        let old = mk_group(&[("10.0.0.1", 80), ("10.0.0.1", 81), ("b.example", 80)]);
        let said = mk_group(&[("10.0.0.1", 81)]);
        assert_eq!(missing(&old, &said), [0, 2]);
        assert!(loses(&old, &said));
        assert!(!loses(&said, &old));
    }

    #[test]
    fn kept_endpoints_follow_what_was_said_with_their_ports_and_names() {
        let old = mk_group(&[("10.0.0.1", 80), ("a.example", 81), ("b.example", 80)]);
        let said = mk_group(&[("c.example", 82), ("10.0.0.1", 80)]);
        let (both, held) = with_kept(&said, &old, &[1, 2]);
        assert_eq!(texts(&both), ["c.example:82", "10.0.0.1:80", "a.example:81", "b.example:80"]);
        assert_eq!(&*held, [2, 3]);
    }

    #[test]
    fn an_endpoint_between_others_is_no_loss_and_one_in_place_of_another_is() {
        let old = mk_group(&[("10.0.0.1", 80), ("10.0.0.3", 80)]);
        assert!(!loses(&old, &mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80), ("10.0.0.3", 80)])));
        assert!(loses(&old, &mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80)])));
        assert!(loses(&old, &mk_group(&[("10.0.0.3", 80), ("10.0.0.2", 80), ("10.0.0.4", 80)])));
    }

    #[test]
    fn a_change_of_health_is_a_loss_and_a_change_of_order_is_none() {
        let old = mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80)]);
        assert!(!loses(&old, &mk_group(&[("10.0.0.2", 80), ("10.0.0.1", 80), ("10.0.0.3", 80)])));
        let mut sick = old.addresses.to_vec();
        sick[1].health = Health::Unhealthy;
        let sick = EndpointGroup { addresses: sick.into(), ..old.clone() };
        assert!(loses(&old, &sick));
        assert!(loses(&sick, &old), "becoming healthy is told at once too");
    }
}
