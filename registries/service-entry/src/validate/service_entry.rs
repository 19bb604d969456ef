//! The table of a ServiceEntry's rules, and the rules on its ports, endpoints and selector.

use std::collections::BTreeMap;

use tributary_model::{Code, PortNumber, Protocol};

use super::{hosts, names, resolution, workload};
use crate::document::{Located, SePort, ServiceEntry};
use crate::read::fault::{Faults, Pos, clip};

pub(super) type Rule = fn(&ServiceEntry, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("size_is_within_limits", size_is_within_limits),
    ("selector_or_endpoints", selector_or_endpoints),
    ("selector_has_labels", selector_has_labels),
    ("at_least_one_host", hosts::at_least_one_host),
    ("hosts_are_names", hosts::hosts_are_names),
    ("addresses_are_ips_or_cidrs", hosts::addresses_are_ips_or_cidrs),
    ("cidrs_only_with_none_or_static", hosts::cidrs_only_with_none_or_static),
    ("port_names_and_numbers_are_unique", port_names_and_numbers_are_unique),
    ("ports_are_valid", ports_are_valid),
    ("protocols_are_known", protocols_are_known),
    ("none_takes_no_endpoints", resolution::none_takes_no_endpoints),
    ("static_endpoints_are_ips_or_unix", resolution::static_endpoints_are_ips_or_unix),
    ("unix_takes_one_port", resolution::unix_takes_one_port),
    ("dns_without_endpoints_needs_names", resolution::dns_without_endpoints_needs_names),
    ("round_robin_takes_one_endpoint", resolution::round_robin_takes_one_endpoint),
    ("dynamic_dns_takes_wildcards_alone", resolution::dynamic_dns_takes_wildcards_alone),
    ("partial_wildcards_suit_dynamic_dns", resolution::partial_wildcards_suit_dynamic_dns),
    ("dynamic_dns_speaks_http_or_tls", resolution::dynamic_dns_speaks_http_or_tls),
    ("several_hosts_need_http_or_tls", hosts::several_hosts_need_http_or_tls),
    ("endpoints_are_workloads", endpoints_are_workloads),
    ("endpoint_ports_are_declared", endpoint_ports_are_declared),
    ("export_to_names_namespaces", names::export_to_names_namespaces),
    ("subject_alt_names_are_identities", names::subject_alt_names_are_identities),
];

/// Maximum number of items in one entry: every host becomes a declaration with all ports.
const MOST: [(&str, usize); 4] =
    [("hosts", 1_024), ("ports", 512), ("addresses", 4_096), ("endpoints", 50_000)];

fn size_is_within_limits(entry: &ServiceEntry, faults: &mut Faults) {
    let have = [entry.hosts.len(), entry.ports.len(), entry.addresses.len(), entry.endpoints.len()];
    for ((name, most), have) in MOST.into_iter().zip(have) {
        if have > most {
            let message = format!("spec.{name} has {have} items, more than {most}; split the entry");
            faults.refuse(Code::DOCUMENT_TOO_LARGE, entry.at.at, message);
        }
    }
}

fn selector_or_endpoints(entry: &ServiceEntry, faults: &mut Faults) {
    if let (Some(selector), false) = (&entry.selector, entry.endpoints.is_empty()) {
        let message = "spec.workloadSelector and spec.endpoints are both set; keep one of them";
        faults.refuse(Code::SELECTOR_AND_ENDPOINTS, selector.at, message);
    }
}

/// A warning: the entry is served without endpoints.
fn selector_has_labels(entry: &ServiceEntry, faults: &mut Faults) {
    let Some(selector) = &entry.selector else { return };
    if selector.value.is_empty() {
        let message = "spec.workloadSelector has no labels, so it selects nothing; add at least one label";
        faults.warn(Code::EMPTY_SELECTOR, selector.at, message);
    }
    names::labels(selector, "spec.workloadSelector.labels", faults);
}

fn port_names_and_numbers_are_unique(entry: &ServiceEntry, faults: &mut Faults) {
    let mut names = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for (i, port) in entry.ports.iter().enumerate() {
        if let Some(first) = names.insert(&*port.name.value, i) {
            let name = clip(&port.name.value);
            twice(faults, port.name.at, i, &format!("name {name:?}"), first);
        }
        if let Some(first) = numbers.insert(port.number.value, i) {
            twice(faults, port.number.at, i, &format!("number {}", port.number.value), first);
        }
    }
}

fn twice(faults: &mut Faults, at: Pos, i: usize, what: &str, first: usize) {
    let message = format!("spec.ports[{i}] has the {what} of spec.ports[{first}]; give it its own");
    faults.refuse(Code::INVALID_PORT, at, message);
}

fn ports_are_valid(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, port) in entry.ports.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        number(&port.number, &format!("{path}.number"), faults);
        if let Some(target) = &port.target {
            number(target, &format!("{path}.targetPort"), faults);
        }
        port_name(port, &path, faults);
    }
}

fn port_name(port: &SePort, path: &str, faults: &mut Faults) {
    if !names::is_port_name(&port.name.value) {
        let message = format!(
            "{path}.name {:?} is not valid; use up to 63 letters, digits and `-`",
            clip(&port.name.value)
        );
        faults.refuse(Code::INVALID_PORT, port.name.at, message);
    }
}

/// 1 to 65535.
pub(super) fn number(number: &Located<i64>, path: &str, faults: &mut Faults) {
    let ok = u32::try_from(number.value).is_ok_and(|n| PortNumber::new(n).is_ok());
    if !ok {
        let message = format!("{path} is {}; write a port from 1 to 65535", number.value);
        faults.refuse(Code::INVALID_PORT, number.at, message);
    }
}

/// A warning: an unknown protocol is served as TCP that clients may sniff.
fn protocols_are_known(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, port) in entry.ports.iter().enumerate() {
        let text = &port.protocol;
        if !text.value.is_empty() && Protocol::parse(&text.value).is_none() {
            let message = format!(
                "spec.ports[{i}].protocol {:?} is not known and counts as unspecified; write HTTP, HTTPS, HTTP2, GRPC, TLS, TCP, UDP, MONGO, MYSQL or REDIS",
                clip(&text.value)
            );
            faults.warn(Code::INVALID_PORT, text.at, message);
        }
    }
}

fn endpoints_are_workloads(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, endpoint) in entry.endpoints.iter().enumerate() {
        workload::spec(endpoint, &format!("spec.endpoints[{i}]"), faults);
    }
}

fn endpoint_ports_are_declared(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, endpoint) in entry.endpoints.iter().enumerate() {
        for (name, _) in &endpoint.ports {
            if !entry.ports.iter().any(|port| port.name.value == name.value) {
                let message = format!(
                    "spec.endpoints[{i}].ports names {:?}, which is not a port of the entry; declare it in spec.ports or remove it",
                    clip(&name.value)
                );
                faults.refuse(Code::UNKNOWN_ENDPOINT_PORT, name.at, message);
            }
        }
    }
}
