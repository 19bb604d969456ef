//! Rules on workloads: WorkloadEntry, inline endpoints, and the template and probe of WorkloadGroup.

use std::net::IpAddr;

use tributary_model::Code;

use super::names;
use super::service_entry::number;
use crate::document::workload::ProbeMethod;
use crate::document::{Located, Probe, Text, WorkloadEntry, WorkloadGroup, WorkloadSpec};
use crate::read::fault::{Faults, Pos, clip};

pub(super) fn entry(entry: &WorkloadEntry, faults: &mut Faults) {
    spec(&entry.spec, "spec", faults);
}

/// A template has no address: a workload that registers has its own.
pub(super) fn group(group: &WorkloadGroup, faults: &mut Faults) {
    names::labels(&group.labels, "spec.metadata.labels", faults);
    match &group.template {
        Some(template) => named_parts(template, "spec.template", faults),
        None => faults.refuse(
            Code::MISSING_FIELD,
            group.at.at,
            "spec.template is missing; add the common fields of the workloads, at least `template: {}`",
        ),
    }
    if let Some(probe) = &group.probe {
        probe_has_one_method(probe, faults);
        probe_numbers_are_valid(probe, faults);
    }
}

pub(super) fn spec(spec: &WorkloadSpec, path: &str, faults: &mut Faults) {
    let at = spec.at.at;
    match spec.address.as_ref().filter(|address| !address.value.is_empty()) {
        Some(text) => address(text, path, faults),
        None => without_address(spec, path, faults),
    }
    if spec.unix_path().is_some() && !spec.ports.is_empty() {
        let message = format!("{path}.ports is set, and a unix path has no ports; remove them");
        faults.refuse(Code::INVALID_PORT, at, message);
    }
    named_parts(spec, path, faults);
}

/// Only a warning beside a network, as in Istio, where the endpoint stands for the gateways of the network.
fn without_address(spec: &WorkloadSpec, path: &str, faults: &mut Faults) {
    match spec.network.as_ref().filter(|network| !network.value.is_empty()) {
        Some(network) => {
            let message = format!(
                "{path} has network {:?} and no address, so it is no endpoint; give it its address there: the gateways of the network \
                 stand in for it",
                clip(&network.value)
            );
            faults.warn(Code::ADDRESS_MISSING, spec.at.at, message);
        }
        None => {
            let message = format!("{path} has neither address nor network; give it an address");
            faults.refuse(Code::ADDRESS_MISSING, spec.at.at, message);
        }
    }
}

fn named_parts(spec: &WorkloadSpec, path: &str, faults: &mut Faults) {
    ports(spec, path, faults);
    names::labels(&spec.labels, &format!("{path}.labels"), faults);
    if let Some(network) = &spec.network {
        names::network(network, path, faults);
    }
    if let Some(account) = &spec.account {
        names::account(account, path, faults);
    }
    if let Some(weight) = &spec.weight
        && u32::try_from(weight.value).is_err()
    {
        let message = format!("{path}.weight is {}; write a number from 0 to {}", weight.value, u32::MAX);
        faults.refuse(Code::WRONG_TYPE, weight.at, message);
    }
}

fn ports(spec: &WorkloadSpec, path: &str, faults: &mut Faults) {
    for (name, value) in &spec.ports {
        if !names::is_port_name(&name.value) {
            let message = format!(
                "{path}.ports: name {:?} is not valid; use up to 63 letters, digits and `-`",
                clip(&name.value)
            );
            faults.refuse(Code::INVALID_PORT, name.at, message);
        }
        number(value, &format!("{path}.ports[{:?}]", clip(&name.value)), faults);
    }
}

fn address(address: &Text, path: &str, faults: &mut Faults) {
    let text = &*address.value;
    let fault = match text.strip_prefix(crate::document::workload::UNIX) {
        Some(unix) => {
            (!is_unix_path(unix)).then_some("write unix:// and an absolute path of up to 107 bytes")
        }
        None => (!is_ip_or_name(text)).then_some("write an IP address, a DNS name, or unix:// and a path"),
    };
    if let Some(fix) = fault {
        let message = format!("{path}.address {:?} is not valid; {fix}", clip(text));
        faults.refuse(Code::INVALID_ADDRESS, address.at, message);
    }
}

/// Whether it is an absolute path, or an abstract one (`@`), that fits a socket address.
fn is_unix_path(path: &str) -> bool {
    path.len() > 1 && path.len() <= 107 && path.starts_with(['/', '@']) && !path.contains('\0')
}

fn is_ip_or_name(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || crate::address::name(text).is_some()
}

fn probe_has_one_method(probe: &Probe, faults: &mut Faults) {
    if probe.methods.len() != 1 {
        let message = format!(
            "spec.probe has {} probe methods; keep exactly one of httpGet, tcpSocket, exec, grpc",
            probe.methods.len()
        );
        faults.refuse(Code::MISSING_FIELD, probe.at.at, message);
    }
}

fn probe_numbers_are_valid(probe: &Probe, faults: &mut Faults) {
    for (name, value) in &probe.timing {
        if i32::try_from(value.value).map_or(true, |n| n < 0) {
            let message = format!("spec.probe.{name} is {}; write a number of at least 0", value.value);
            faults.refuse(Code::WRONG_TYPE, value.at, message);
        }
    }
    for method in &probe.methods {
        probe_method(method, faults);
    }
}

fn probe_method(method: &Located<ProbeMethod>, faults: &mut Faults) {
    match &method.value {
        ProbeMethod::Http { port, scheme, .. } => {
            number(port, "spec.probe.httpGet.port", faults);
            probe_scheme(scheme, faults);
        }
        ProbeMethod::Tcp { port, .. } => number(port, "spec.probe.tcpSocket.port", faults),
        ProbeMethod::Grpc { port, .. } => number(port, "spec.probe.grpc.port", faults),
        ProbeMethod::Exec { command } if command.is_empty() => empty_command(method.at, faults),
        ProbeMethod::Exec { .. } => {}
    }
}

fn empty_command(at: Pos, faults: &mut Faults) {
    faults.refuse(Code::MISSING_FIELD, at, "spec.probe.exec.command is empty; add the command");
}

fn probe_scheme(scheme: &Text, faults: &mut Faults) {
    if !matches!(&*scheme.value, "HTTP" | "HTTPS") {
        let message =
            format!("spec.probe.httpGet.scheme {:?} is not known; write HTTP or HTTPS", clip(&scheme.value));
        faults.refuse(Code::WRONG_TYPE, scheme.at, message);
    }
}
