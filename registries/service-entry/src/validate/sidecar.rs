//! The rules of a Sidecar.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tributary_model::{Code, Protocol};

use super::limits::refuse_longer;
use super::{names, service_entry};
use crate::document::sidecar::{self, Port, Sidecar, endpoint, import};
use crate::document::{Text, workload};
use crate::read::fault::{Faults, clip};

pub(super) type Rule = fn(&Sidecar, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("sidecar_is_not_empty", sidecar_is_not_empty),
    ("sidecar_size_is_within_limits", sidecar_size_is_within_limits),
    ("sidecar_selector_is_valid", sidecar_selector_is_valid),
    ("egress_imports_hosts", egress_imports_hosts),
    ("egress_without_port_is_last", egress_without_port_is_last),
    ("ingress_names_a_port", ingress_names_a_port),
    ("listener_ports_are_valid", listener_ports_are_valid),
    ("listener_ports_are_unique", listener_ports_are_unique),
    ("listeners_bind_to_ips", listeners_bind_to_ips),
    ("ingress_destinations_are_own", ingress_destinations_are_own),
    ("egress_proxy_is_a_port_of_a_host", egress_proxy_is_a_port_of_a_host),
];

/// Path of the egress proxy, for messages.
const PROXY: &str = "spec.outboundTrafficPolicy.egressProxy";

/// Maximum number of items in one Sidecar.
const MOST_LISTENERS: usize = 512;
const MOST_HOSTS: usize = 4_096;

fn sidecar_is_not_empty(sidecar: &Sidecar, faults: &mut Faults) {
    let pool = sidecar.ignored.iter().any(|path| &*path.value == "spec.inboundConnectionPool");
    if sidecar.egress.is_empty() && sidecar.ingress.is_empty() && sidecar.outbound.is_none() && !pool {
        let message =
            "spec has none of egress, ingress, outboundTrafficPolicy and inboundConnectionPool; add one";
        faults.refuse(Code::MISSING_FIELD, sidecar.at.at, message);
    }
}

fn sidecar_size_is_within_limits(sidecar: &Sidecar, faults: &mut Faults) {
    let hosts = sidecar.egress.iter().map(|listener| listener.hosts.len()).sum();
    let have = [
        ("egress", sidecar.egress.len(), MOST_LISTENERS),
        ("ingress", sidecar.ingress.len(), MOST_LISTENERS),
        ("egress[].hosts", hosts, MOST_HOSTS),
    ];
    let lists = have.map(|(name, have, most)| (format!("spec.{name}"), have, most));
    refuse_longer(lists, sidecar.at.at, "use wildcards", faults);
}

fn sidecar_selector_is_valid(sidecar: &Sidecar, faults: &mut Faults) {
    if let Some(selector) = &sidecar.selector {
        names::labels(selector, "spec.workloadSelector.labels", faults);
    }
}

fn egress_imports_hosts(sidecar: &Sidecar, faults: &mut Faults) {
    for (i, listener) in sidecar.egress.iter().enumerate() {
        if listener.hosts.is_empty() {
            let message = format!("spec.egress[{i}].hosts is empty; add a host, or `~/*` for none");
            faults.refuse(Code::MISSING_FIELD, listener.at.at, message);
        }
        for (j, host) in listener.hosts.iter().enumerate() {
            if let Err(fix) = import(&host.value) {
                let message =
                    format!("spec.egress[{i}].hosts[{j}] {:?} is not valid; {fix}", clip(&host.value));
                faults.refuse(Code::INVALID_HOST, host.at, message);
            }
        }
    }
}

fn egress_without_port_is_last(sidecar: &Sidecar, faults: &mut Faults) {
    let last = sidecar.egress.len().saturating_sub(1);
    for (i, listener) in sidecar.egress.iter().enumerate() {
        if listener.port.is_none() && i != last {
            let message = format!(
                "spec.egress[{i}] has no port and takes the traffic of all later ones; give it one, or move it to the end"
            );
            faults.refuse(Code::INVALID_PORT, listener.at.at, message);
        }
    }
}

fn ingress_names_a_port(sidecar: &Sidecar, faults: &mut Faults) {
    for (i, listener) in sidecar.ingress.iter().enumerate().filter(|(_, listener)| listener.port.is_none()) {
        faults.refuse(
            Code::MISSING_FIELD,
            listener.at.at,
            format!("spec.ingress[{i}].port is missing; add it"),
        );
    }
}

fn egress_proxy_is_a_port_of_a_host(sidecar: &Sidecar, faults: &mut Faults) {
    let Some(outbound) = &sidecar.outbound else { return };
    let Some(proxy) = &outbound.proxy else { return };
    if !outbound.passes {
        let message = format!(
            "{PROXY} has no meaning where unknown hosts are blocked; set `mode: ALLOW_ANY` beside it"
        );
        faults.refuse(Code::FIELD_NOT_SERVED, proxy.at.at, message);
    }
    match &proxy.host {
        None => faults.refuse(Code::MISSING_FIELD, proxy.at.at, format!("{PROXY}.host is missing; add it")),
        Some(host) if sidecar::proxy_host(&host.value).is_none() => {
            let message = format!(
                "{PROXY}.host {:?} is not valid; write the whole DNS name of the service, without a wildcard",
                clip(&host.value)
            );
            faults.refuse(Code::INVALID_HOST, host.at, message);
        }
        Some(_) => {}
    }
    match &proxy.port {
        None => {
            faults.refuse(Code::MISSING_FIELD, proxy.at.at, format!("{PROXY}.port.number is missing; add it"))
        }
        Some(number) => service_entry::number(number, &format!("{PROXY}.port.number"), faults),
    }
}

fn ports(sidecar: &Sidecar) -> impl Iterator<Item = (String, &Port)> {
    let egress = (0..).zip(&sidecar.egress).map(|(i, l): (usize, _)| ("egress", i, &l.port));
    let ingress = (0..).zip(&sidecar.ingress).map(|(i, l): (usize, _)| ("ingress", i, &l.port));
    let all = egress.chain(ingress);
    all.filter_map(|(list, i, port)| Some((format!("spec.{list}[{i}].port"), port.as_ref()?)))
}

fn listener_ports_are_valid(sidecar: &Sidecar, faults: &mut Faults) {
    for (path, port) in ports(sidecar) {
        service_entry::number(&port.number, &format!("{path}.number"), faults);
        if !port.name.value.is_empty() && !names::is_port_name(&port.name.value) {
            let message = format!(
                "{path}.name {:?} is not valid; use up to 63 letters, digits and `-`",
                clip(&port.name.value)
            );
            faults.refuse(Code::INVALID_PORT, port.name.at, message);
        }
        if !port.protocol.value.is_empty() && Protocol::parse(&port.protocol.value).is_none() {
            let message = format!(
                "{path}.protocol {:?} is not known; write HTTP, HTTPS, HTTP2, GRPC, TLS, TCP, MONGO, MYSQL or REDIS, or remove it",
                clip(&port.protocol.value)
            );
            faults.refuse(Code::INVALID_PORT, port.protocol.at, message);
        }
    }
}

fn listener_ports_are_unique(sidecar: &Sidecar, faults: &mut Faults) {
    let mut seen = BTreeMap::new();
    for (path, port) in ports(sidecar) {
        let list = path.split('[').next().unwrap_or_default().to_owned();
        if let Some(first) = seen.insert((list, port.number.value), path.clone()) {
            let message = format!("{path}.number {} is that of {first}; give it its own", port.number.value);
            faults.refuse(Code::INVALID_PORT, port.number.at, message);
        }
    }
}

fn listeners_bind_to_ips(sidecar: &Sidecar, faults: &mut Faults) {
    let egress =
        (0..).zip(&sidecar.egress).map(|(i, l): (usize, _)| (format!("spec.egress[{i}].bind"), &l.bind));
    let ingress =
        (0..).zip(&sidecar.ingress).map(|(i, l): (usize, _)| (format!("spec.ingress[{i}].bind"), &l.bind));
    for (path, bind) in egress.chain(ingress) {
        if let Some(bind) = bind {
            bind_to_ip(&path, bind, faults);
        }
    }
}

fn bind_to_ip(path: &str, bind: &Text, faults: &mut Faults) {
    if bind.value.starts_with(workload::UNIX) {
        let message = format!("{path}: listeners on Unix sockets are not served; write an IP address");
        faults.refuse(Code::FIELD_NOT_SERVED, bind.at, message);
    } else if !bind.value.is_empty() && bind.value.parse::<IpAddr>().is_err() {
        let message = format!("{path} {:?} is not an IP address; write one", clip(&bind.value));
        faults.refuse(Code::INVALID_ADDRESS, bind.at, message);
    }
}

fn ingress_destinations_are_own(sidecar: &Sidecar, faults: &mut Faults) {
    for (i, listener) in sidecar.ingress.iter().enumerate() {
        let Some(text) = &listener.endpoint else { continue };
        if let Err(fix) = endpoint(&text.value) {
            let message =
                format!("spec.ingress[{i}].defaultEndpoint {:?} is not valid; {fix}", clip(&text.value));
            faults.refuse(Code::INVALID_ADDRESS, text.at, message);
        }
    }
}
