//! Rules on hosts, addresses and endpoints that depend on the resolution.

use tributary_model::{Code, Hostname, Protocol};

use super::hosts::ends_in_a_number;
use crate::address;
use crate::document::{Resolution, ServiceEntry, Text, WorkloadSpec};
use crate::read::fault::{Faults, clip};

pub(super) fn none_takes_no_endpoints(entry: &ServiceEntry, faults: &mut Faults) {
    if let (Resolution::None, Some(first)) = (entry.resolution.value, entry.endpoints.first()) {
        let message = "spec.endpoints is set, but resolution NONE sends connections to their original destination; \
                       remove them, or use STATIC or DNS";
        faults.refuse(Code::RESOLUTION_MISMATCH, first.at.at, message);
    }
}

pub(super) fn static_endpoints_are_ips_or_unix(entry: &ServiceEntry, faults: &mut Faults) {
    if entry.resolution.value != Resolution::Static {
        return;
    }
    for (i, address) in addresses(entry) {
        if address::name(&address.value).is_some() {
            let message = format!(
                "spec.endpoints[{i}].address {:?} is a name, which resolution STATIC does not look up; write an IP address, or use DNS",
                clip(&address.value)
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, address.at, message);
        }
    }
}

pub(super) fn unix_takes_one_port(entry: &ServiceEntry, faults: &mut Faults) {
    let unix = |(_, endpoint): &(usize, &WorkloadSpec)| endpoint.unix_path().is_some();
    for (i, endpoint) in entry.endpoints.iter().enumerate().filter(unix) {
        if entry.ports.len() != 1 {
            let message = format!(
                "spec.endpoints[{i}] is a unix path, which has exactly one port; spec.ports has {}",
                entry.ports.len()
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, endpoint.at.at, message);
        }
        if entry.resolution.value.is_dns() {
            let message =
                format!("spec.endpoints[{i}] is a unix path, which DNS does not look up; use STATIC");
            faults.refuse(Code::RESOLUTION_MISMATCH, endpoint.at.at, message);
        }
    }
}

pub(super) fn dns_without_endpoints_needs_names(entry: &ServiceEntry, faults: &mut Faults) {
    let resolution = entry.resolution.value;
    if !resolution.is_dns() || !entry.endpoints.is_empty() || entry.selector.is_some() {
        return;
    }
    for (i, host) in entry.hosts.iter().enumerate() {
        let is_name = Hostname::new(&host.value).is_ok() && !ends_in_a_number(&host.value);
        if is_name && address::name(&host.value).is_none() {
            let message = format!(
                "spec.hosts[{i}] {:?} cannot be looked up by resolution {}; write a name such as pay.example.com, or list endpoints",
                clip(&host.value),
                resolution.as_str()
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, host.at, message);
        }
    }
}

pub(super) fn round_robin_takes_one_endpoint(entry: &ServiceEntry, faults: &mut Faults) {
    if let (Resolution::DnsRoundRobin, Some(second)) = (entry.resolution.value, entry.endpoints.get(1)) {
        let message = "spec.endpoints has more than one, and resolution DNS_ROUND_ROBIN allows one; remove the others, or use DNS";
        faults.refuse(Code::RESOLUTION_MISMATCH, second.at.at, message);
    }
}

pub(super) fn dynamic_dns_takes_wildcards_alone(entry: &ServiceEntry, faults: &mut Faults) {
    if entry.resolution.value != Resolution::DynamicDns {
        return;
    }
    for (i, host) in entry.hosts.iter().enumerate() {
        if Hostname::new(&host.value).is_ok_and(|host| !host.is_wildcard()) {
            let message = format!(
                "spec.hosts[{i}] {:?} is not a wildcard, and resolution DYNAMIC_DNS serves wildcards only; write *.example.com, or use DNS",
                clip(&host.value)
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, host.at, message);
        }
    }
    if let Some(address) = entry.addresses.first() {
        let message = "spec.addresses is set, and resolution DYNAMIC_DNS allows none; remove them";
        faults.refuse(Code::RESOLUTION_MISMATCH, address.at, message);
    }
    if let Some(endpoint) = entry.endpoints.first() {
        let message = "spec.endpoints is set, and resolution DYNAMIC_DNS allows none; remove them";
        faults.refuse(Code::RESOLUTION_MISMATCH, endpoint.at.at, message);
    }
}

/// A warning, as in Istio: Envoy refuses a partial wildcard as a TLS server name, so it is not used as one.
pub(super) fn partial_wildcards_suit_dynamic_dns(entry: &ServiceEntry, faults: &mut Faults) {
    if entry.resolution.value == Resolution::DynamicDns {
        return;
    }
    for (i, host) in entry.hosts.iter().enumerate() {
        if Hostname::new(&host.value).is_ok_and(|host| host.is_partial_wildcard()) {
            let message = format!(
                "spec.hosts[{i}] {:?} is a partial wildcard, which TLS cannot match by server name; use DYNAMIC_DNS, or write `*.` and a domain",
                clip(&host.value)
            );
            faults.warn(Code::INVALID_HOST, host.at, message);
        }
    }
}

pub(super) fn dynamic_dns_speaks_http_or_tls(entry: &ServiceEntry, faults: &mut Faults) {
    if entry.resolution.value != Resolution::DynamicDns {
        return;
    }
    for (i, port) in entry.ports.iter().enumerate() {
        let protocol = Protocol::from_service_entry(&port.protocol.value);
        if !matches!(protocol, Protocol::Http | Protocol::Http2 | Protocol::Grpc | Protocol::Tls) {
            let message = format!(
                "spec.ports[{i}] has protocol {}, and resolution DYNAMIC_DNS serves HTTP, HTTP2, GRPC and TLS only; change it, or use NONE",
                protocol.as_str()
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, port.protocol.at, message);
        }
    }
}

fn addresses(entry: &ServiceEntry) -> impl Iterator<Item = (usize, &Text)> {
    entry.endpoints.iter().enumerate().filter_map(|(i, endpoint)| Some((i, endpoint.address.as_ref()?)))
}
