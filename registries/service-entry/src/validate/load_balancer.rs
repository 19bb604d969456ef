//! The rules of the load balancers of a DestinationRule.

use std::collections::BTreeSet;

use tributary_model::locality_setting::{is_region, is_topology, place_faults};
use tributary_model::{Code, Labels};

use super::destination_rule::MOST_ITEMS;
use super::names;
use crate::document::traffic_policy::{ConsistentHash, LoadBalancer, Locality, Share, TrafficPolicy};
use crate::document::{DestinationRule, Located, Text};
use crate::read::fault::{Faults, Pos, clip};

/// Larger than each table of Maglev that Istio and Envoy accept.
const MOST_TABLE: u64 = 5_000_010;

pub(super) fn refuse(faults: &mut Faults, at: Pos, message: &str) {
    faults.refuse(Code::VALUE_INVALID, at, message);
}

/// The lists of a policy's load balancer: path, length, most items.
pub(super) fn lists(policy: &TrafficPolicy) -> Vec<(&'static str, usize, usize)> {
    let Some(balancer) = &policy.balancer else { return Vec::new() };
    let cookie = balancer.hash.as_ref().and_then(|hash| hash.cookie.as_ref());
    let mut lists = vec![(
        "loadBalancer.consistentHash.httpCookie.attributes",
        cookie.map_or(0, |cookie| cookie.attributes.len()),
        MOST_ITEMS,
    )];
    if let Some(locality) = &balancer.locality {
        let longest = locality.distribute.iter().map(|share| share.to.len()).max().unwrap_or_default();
        lists.extend([
            ("loadBalancer.localityLbSetting.distribute", locality.distribute.len(), MOST_ITEMS),
            ("loadBalancer.localityLbSetting.distribute[].to", longest, MOST_ITEMS),
            ("loadBalancer.localityLbSetting.failover", locality.failover.len(), MOST_ITEMS),
            ("loadBalancer.localityLbSetting.failoverPriority", locality.labels.len(), MOST_ITEMS),
        ]);
    }
    lists
}

fn balancers(rule: &DestinationRule) -> impl Iterator<Item = (String, &LoadBalancer)> {
    rule.policies()
        .filter_map(|(path, policy)| Some((format!("{path}.loadBalancer"), policy.balancer.as_ref()?)))
}

fn hashes(rule: &DestinationRule) -> impl Iterator<Item = (String, &ConsistentHash)> {
    balancers(rule)
        .filter_map(|(path, balancer)| Some((format!("{path}.consistentHash"), balancer.hash.as_ref()?)))
}

fn localities(rule: &DestinationRule) -> impl Iterator<Item = (String, &Locality)> {
    balancers(rule).filter_map(|(path, balancer)| {
        Some((format!("{path}.localityLbSetting"), balancer.locality.as_ref()?))
    })
}

pub(super) fn balancers_have_one_algorithm(rule: &DestinationRule, faults: &mut Faults) {
    for (path, balancer) in balancers(rule) {
        if let (Some(simple), Some(_)) = (&balancer.simple, &balancer.hash) {
            refuse(
                faults,
                simple.at,
                &format!("{path} has both simple and consistentHash; keep one of them"),
            );
        }
        if let (Some(locality), true) = (&balancer.locality, balancer.is_zone_aware) {
            let fix = "has both localityLbSetting and zoneAwareLbSetting; keep one of them";
            refuse(faults, locality.at.at, &format!("{path} {fix}"));
        }
    }
}

pub(super) fn hashes_have_one_key(rule: &DestinationRule, faults: &mut Faults) {
    for (path, hash) in hashes(rule) {
        if hash.keys() > 1 {
            let fix = "keep one of httpHeaderName, httpCookie, useSourceIp, httpQueryParameterName";
            refuse(faults, hash.at.at, &format!("{path} has {} keys; {fix}", hash.keys()));
        }
        let ring = hash.minimum_ring.filter(|size| size.value > 0).is_some();
        let algorithms = [hash.ring.is_some(), hash.maglev.is_some(), ring];
        let count = algorithms.into_iter().filter(|is| *is).count();
        if count > 1 {
            let fix = "keep one of ringHash, maglev, minimumRingSize";
            refuse(faults, hash.at.at, &format!("{path} has {count} algorithms; {fix}"));
        }
    }
}

pub(super) fn hash_keys_are_named(rule: &DestinationRule, faults: &mut Faults) {
    for (path, hash) in hashes(rule) {
        if let Some(header) = hash.header.as_ref().filter(|header| !is_token(&header.value)) {
            let path = format!("{path}.httpHeaderName {:?}", clip(&header.value));
            let message = format!("{path} is not the name of a header; use letters, digits and `-`");
            faults.refuse(Code::INVALID_NAME, header.at, message);
        }
        if let Some(query) = hash.query.as_ref().filter(|query| query.value.is_empty()) {
            let message = format!("{path}.httpQueryParameterName is empty; name the parameter");
            faults.refuse(Code::INVALID_NAME, query.at, message);
        }
        let Some(cookie) = &hash.cookie else { continue };
        let path = format!("{path}.httpCookie");
        match &cookie.name {
            None => {
                faults.refuse(Code::MISSING_FIELD, cookie.at.at, format!("{path}.name is missing; add it"));
            }
            Some(name) => cookie_name(name, &format!("{path}.name"), faults),
        }
        let mut seen = BTreeSet::new();
        for (i, (name, _)) in cookie.attributes.iter().enumerate() {
            let path = format!("{path}.attributes[{i}].name");
            cookie_name(name, &path, faults);
            if !seen.insert(&*name.value) {
                let message = format!("{path} {:?} occurs twice; remove one", clip(&name.value));
                refuse(faults, name.at, &message);
            }
        }
    }
}

fn cookie_name(name: &Text, path: &str, faults: &mut Faults) {
    if !is_token(&name.value) {
        let message =
            format!("{path} {:?} is not valid; use letters, digits, `-` and `_`", clip(&name.value));
        faults.refuse(Code::INVALID_NAME, name.at, message);
    }
}

/// Whether a text is a token of RFC 9110, as names of headers and cookies are.
pub(super) fn is_token(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fine)
}

pub(super) fn hash_tables_have_a_size(rule: &DestinationRule, faults: &mut Faults) {
    for (path, hash) in hashes(rule) {
        let Some(maglev) = &hash.maglev else { continue };
        let size = maglev.size.map_or(0, |size| size.value);
        if size > MOST_TABLE || !is_prime(size) {
            let at = maglev.size.map_or(maglev.at.at, |size| size.at);
            let fix = "write a prime number below 5000011, such as 65537";
            refuse(faults, at, &format!("{path}.maglev.tableSize is {size}; {fix}"));
        }
    }
}

fn is_prime(number: u64) -> bool {
    let odd = || (3..).step_by(2).take_while(|factor| factor * factor <= number);
    number == 2 || (number > 1 && number % 2 == 1 && odd().all(|factor| !number.is_multiple_of(factor)))
}

pub(super) fn warmups_have_a_duration(rule: &DestinationRule, faults: &mut Faults) {
    for (path, balancer) in balancers(rule) {
        if let Some(warmup) = balancer.warmup.as_ref().filter(|warmup| warmup.duration.is_none()) {
            let message = format!("{path}.warmup.duration is missing; add it");
            faults.refuse(Code::MISSING_FIELD, warmup.at.at, message);
        }
    }
}

pub(super) fn localities_are_distributed_or_fail_over(rule: &DestinationRule, faults: &mut Faults) {
    for (path, locality) in localities(rule) {
        if !locality.distribute.is_empty() && !locality.failover.is_empty() {
            let message = format!("{path} has both distribute and failover; keep one of them");
            refuse(faults, locality.at.at, &message);
        }
        let topology = locality.labels.iter().find(|label| is_topology(&label.value));
        if let Some(label) = topology.filter(|_| !locality.failover.is_empty()) {
            let message = format!(
                "{path}.failoverPriority has {} beside failover, which both order regions; remove one of them",
                label.value
            );
            refuse(faults, label.at, &message);
        }
    }
}

fn shares(rule: &DestinationRule) -> impl Iterator<Item = (String, &Share)> {
    localities(rule).flat_map(|(path, locality)| {
        let all = locality.distribute.iter().enumerate();
        all.map(|(i, share)| (format!("{path}.distribute[{i}]"), share)).collect::<Vec<_>>()
    })
}

pub(super) fn shares_add_up_to_100(rule: &DestinationRule, faults: &mut Faults) {
    for (path, share) in shares(rule) {
        for (place, weight) in share.to.iter().filter(|(_, weight)| !(1..=100).contains(&weight.value)) {
            let path = format!("{path}.to[{:?}]", clip(&place.value));
            let message = format!("{path} is {}; write a share from 1 to 100", weight.value);
            refuse(faults, weight.at, &message);
        }
        let sum = share.to.iter().fold(0_i64, |sum, (_, weight)| sum.saturating_add(weight.value));
        if sum != 100 {
            let message = format!("the shares of {path}.to add up to {sum}; make them add up to 100");
            refuse(faults, share.at.at, &message);
        }
    }
}

/// Places do not contain each other, as in Istio: neither those of clients, nor those of one share.
pub(super) fn shares_have_separate_places(rule: &DestinationRule, faults: &mut Faults) {
    for (path, locality) in localities(rule) {
        for (i, share) in locality.distribute.iter().enumerate() {
            if share.from.is_none() {
                let message = format!("{path}.distribute[{i}].from is missing; add it");
                faults.refuse(Code::MISSING_FIELD, share.at.at, message);
            }
        }
        separate(
            &format!("{path}.distribute[].from"),
            locality.distribute.iter().filter_map(|s| s.from.as_ref()),
            faults,
        );
    }
    for (path, share) in shares(rule) {
        separate(&format!("{path}.to"), share.to.iter().map(|(place, _)| place), faults);
    }
}

fn separate<'p>(path: &str, places: impl Iterator<Item = &'p Text>, faults: &mut Faults) {
    let places: Vec<&Text> = places.collect();
    for (at, fault) in place_faults(places.iter().map(|place| &*place.value)) {
        let Some(place) = places.get(at) else { continue };
        refuse(faults, place.at, &format!("{path}: {:?} {fault}", clip(&place.value)));
    }
}

pub(super) fn regions_fail_over_to_others(rule: &DestinationRule, faults: &mut Faults) {
    for (path, locality) in localities(rule) {
        for (i, failover) in locality.failover.iter().enumerate() {
            let path = format!("{path}.failover[{i}]");
            let (Some(from), Some(to)) = (&failover.from, &failover.to) else {
                let message = format!("{path} names no region; add from and to");
                faults.refuse(Code::MISSING_FIELD, failover.at.at, message);
                continue;
            };
            for region in [from, to].into_iter().filter(|text| !is_region(&text.value)) {
                let what = clip(&region.value);
                refuse(faults, region.at, &format!("{path}: {what:?} is not a region; write its name alone"));
            }
            if from.value == to.value {
                refuse(faults, failover.at.at, &format!("{path} has from and to alike; name another region"));
            }
        }
    }
}

pub(super) fn failover_labels_are_named(rule: &DestinationRule, faults: &mut Faults) {
    for (path, locality) in localities(rule) {
        for (i, label) in locality.labels.iter().enumerate() {
            let (key, value) = label.value.split_once('=').unwrap_or((&*label.value, ""));
            let labels: Labels = [(key, value)].into_iter().collect();
            names::labels(&Located::new(label.at, labels), &format!("{path}.failoverPriority[{i}]"), faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_a_sieve() {
        let primes: Vec<u64> = (0..50).filter(|number| is_prime(*number)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]);
        assert!(is_prime(65_537) && is_prime(4_999_999) && !is_prime(65_536) && !is_prime(2_209));
    }
}
