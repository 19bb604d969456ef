//! Compares a served group with a reported one: finds removed endpoints, and merges held endpoints with
//! reported ones.
//!
//! Called by apply, the removal guard and selection. An endpoint is an address with its ports: two
//! instances on one host are two endpoints.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{Address, AddressRef, EndpointGroup, GroupPort, Health, PortSet, WeightUnit};

type Endpoint<'a> = (Option<IpAddr>, Option<&'a str>, &'a [GroupPort]);

fn endpoint<'a>(group: &'a EndpointGroup, address: &'a Address) -> Endpoint<'a> {
    (address.ip(), group.name(address), group.ports(address))
}

fn index(group: &EndpointGroup) -> HashMap<Endpoint<'_>, Health> {
    group.addresses.iter().map(|a| (endpoint(group, a), a.health)).collect()
}

/// Returns whether an endpoint of `old` is absent from `new` or has a different health there.
pub(crate) fn loses(old: &EndpointGroup, new: &EndpointGroup) -> bool {
    let alike = |a: &Address, b: &Address| a.health == b.health && endpoint(old, a) == endpoint(new, b);
    // the common case, an addition, keeps the order of the others
    let mut rest = new.addresses.iter();
    if old.addresses.iter().all(|a| rest.any(|b| alike(a, b))) {
        return false;
    }
    let now = index(new);
    old.addresses.iter().any(|a| now.get(&endpoint(old, a)) != Some(&a.health))
}

/// Returns the indexes of the endpoints of `old` that are absent from `reported`.
pub(crate) fn missing(old: &EndpointGroup, reported: &EndpointGroup) -> Vec<u32> {
    let now = index(reported);
    let gone = old.addresses.iter().enumerate().filter(|(_, a)| !now.contains_key(&endpoint(old, a)));
    gone.filter_map(|(at, _)| u32::try_from(at).ok()).collect()
}

/// Returns the reported group followed by the `kept` endpoints of `old`, and the indexes of those.
pub(crate) fn with_kept(
    reported: &EndpointGroup,
    old: &EndpointGroup,
    kept: &[u32],
) -> (EndpointGroup, Arc<[u32]>) {
    let mut port_sets: Vec<PortSet> = reported.port_sets.to_vec();
    let mut names: Vec<Arc<str>> = reported.names.to_vec();
    let unit = reported.weight_unit.common(old.weight_unit);
    let mut addresses: Vec<Address> =
        reported.addresses.iter().map(|a| converted(a.clone(), reported.weight_unit, unit)).collect();
    let mut held: Vec<u32> = Vec::with_capacity(kept.len());
    for &at in kept {
        let Some(address) = old.addresses.get(at as usize) else { continue };
        let Some(moved) = carry(old, address, &mut port_sets, &mut names) else { continue };
        held.extend(u32::try_from(addresses.len()));
        addresses.push(converted(moved, old.weight_unit, unit));
    }
    let group = EndpointGroup::new(reported.source.clone(), port_sets, names, addresses);
    (group.in_unit(unit), held.into())
}

fn converted(address: Address, from: WeightUnit, to: WeightUnit) -> Address {
    if from == to {
        return address;
    }
    let weight = u32::try_from(from.convert(address.weight, to)).unwrap_or(u32::MAX);
    Address { weight, ..address }
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
        let reported = mk_group(&[("10.0.0.1", 81)]);
        assert_eq!(missing(&old, &reported), [0, 2]);
        assert!(loses(&old, &reported));
        assert!(!loses(&reported, &old));
    }

    #[test]
    fn kept_endpoints_follow_reported_ones() {
        let old = mk_group(&[("10.0.0.1", 80), ("a.example", 81), ("b.example", 80)]);
        let reported = mk_group(&[("c.example", 82), ("10.0.0.1", 80)]);
        let (both, held) = with_kept(&reported, &old, &[1, 2]);
        assert_eq!(texts(&both), ["c.example:82", "10.0.0.1:80", "a.example:81", "b.example:80"]);
        assert_eq!(&*held, [2, 3]);
    }

    #[test]
    fn replaced_endpoint_is_a_loss_and_added_one_is_not() {
        let old = mk_group(&[("10.0.0.1", 80), ("10.0.0.3", 80)]);
        assert!(!loses(&old, &mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80), ("10.0.0.3", 80)])));
        assert!(loses(&old, &mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80)])));
        assert!(loses(&old, &mk_group(&[("10.0.0.3", 80), ("10.0.0.2", 80), ("10.0.0.4", 80)])));
    }

    #[test]
    fn changed_health_is_a_loss_and_changed_order_is_not() {
        let old = mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80)]);
        assert!(!loses(&old, &mk_group(&[("10.0.0.2", 80), ("10.0.0.1", 80), ("10.0.0.3", 80)])));
        let mut sick = old.addresses.to_vec();
        sick[1].health = Health::Unhealthy;
        let sick = EndpointGroup { addresses: sick.into(), ..old.clone() };
        assert!(loses(&old, &sick));
        assert!(loses(&sick, &old), "becoming healthy counts too");
    }

    #[test]
    fn kept_endpoint_keeps_its_share_in_another_unit() {
        let unit = tributary_model::WeightUnit::new;
        let old = mk_group(&[("10.0.0.1", 80), ("10.0.0.2", 80)]).in_unit(unit(1));
        let reported = mk_group(&[("10.0.0.1", 80)]).in_unit(unit(10));
        let (kept, held) = with_kept(&reported, &old, &[1]);
        let weights: Vec<u32> = kept.addresses.iter().map(|a| a.weight).collect();
        assert_eq!((weights, kept.weight_unit, &*held), (vec![1, 10], unit(10), &[1][..]));
    }
}
