//! Rules on hosts and addresses.

use tributary_model::{Code, Hostname, Protocol};

use crate::address::{Range, parse_range};
use crate::document::{Resolution, ServiceEntry};
use crate::read::fault::{Faults, clip};

pub(super) fn at_least_one_host(entry: &ServiceEntry, faults: &mut Faults) {
    if entry.hosts.is_empty() {
        faults.refuse(Code::MISSING_FIELD, entry.at.at, "spec.hosts is empty; add at least one host");
    }
}

/// A bare `*` is not a name: it would claim every host. A name that ends in a number is an address to clients, and
/// Istio refuses it. Unlike Istio, `_` is accepted: hosts of Consul services contain it.
pub(super) fn hosts_are_names(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, host) in entry.hosts.iter().enumerate() {
        if let Err(error) = Hostname::new(&host.value) {
            let message = format!(
                "spec.hosts[{i}] {:?} {}; write a DNS name, optionally with a wildcard such as `*.` or `*-` in front",
                clip(&host.value),
                error.why
            );
            faults.refuse(Code::INVALID_HOST, host.at, message);
        } else if ends_in_a_number(&host.value) {
            let message = format!(
                "spec.hosts[{i}] {:?} ends in a number, which no domain does; write a DNS name, and an IP address under spec.addresses",
                clip(&host.value)
            );
            faults.refuse(Code::INVALID_HOST, host.at, message);
        }
    }
}

/// Whether the last of several labels is a number.
pub(super) fn ends_in_a_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.rsplit_once('.').is_some_and(|(_, last)| last.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(super) fn addresses_are_ips_or_cidrs(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, address) in entry.addresses.iter().enumerate() {
        if parse_range(&address.value).is_none() {
            let message = format!(
                "spec.addresses[{i}] {:?} is neither an IP address nor a CIDR; write 10.0.0.1 or 10.0.0.0/24",
                clip(&address.value)
            );
            faults.refuse(Code::INVALID_ADDRESS, address.at, message);
        }
    }
}

pub(super) fn cidrs_only_with_none_or_static(entry: &ServiceEntry, faults: &mut Faults) {
    let resolution = entry.resolution.value;
    if matches!(resolution, Resolution::None | Resolution::Static) {
        return;
    }
    for (i, address) in entry.addresses.iter().enumerate() {
        if matches!(parse_range(&address.value), Some(Range { cidr: true, .. })) {
            let message = format!(
                "spec.addresses[{i}] is a CIDR, which resolution {} does not allow; write single addresses, or use NONE or STATIC",
                resolution.as_str()
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, address.at, message);
        }
    }
}

/// Several hosts of one address are distinguishable only by a name in the protocol, except with
/// passthrough.
pub(super) fn several_hosts_need_http_or_tls(entry: &ServiceEntry, faults: &mut Faults) {
    if entry.hosts.len() < 2 || entry.resolution.value == Resolution::None {
        return;
    }
    for (i, port) in entry.ports.iter().enumerate() {
        let protocol = Protocol::from_service_entry(&port.protocol.value);
        if !(protocol.is_http() || matches!(protocol, Protocol::Https | Protocol::Tls)) {
            let message = format!(
                "spec.ports[{i}] has protocol {}, which cannot distinguish {} hosts; use one ServiceEntry for each host, or HTTP, HTTPS or TLS",
                protocol.as_str(),
                entry.hosts.len()
            );
            faults.refuse(Code::RESOLUTION_MISMATCH, port.pos(), message);
        }
    }
}
