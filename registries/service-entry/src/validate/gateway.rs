//! The rules of a Gateway. They concern the servers that are served.

use std::net::IpAddr;

use tributary_model::{Code, Protocol};

use super::limits::refuse_longer;
use super::names;
use crate::convert::endpoints::number_of;
use crate::document::gateway::{FORWARDS, Gateway, Server, host};
use crate::read::fault::{Faults, clip};

pub(super) type Rule = fn(&Gateway, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("gateway_has_servers", gateway_has_servers),
    ("gateway_size_is_within_limits", gateway_size_is_within_limits),
    ("gateway_selector_is_valid", gateway_selector_is_valid),
    ("tls_modes_are_known", tls_modes_are_known),
    ("servers_have_ports_of_tls", servers_have_ports_of_tls),
    ("servers_bind_to_ips", servers_bind_to_ips),
    ("servers_have_hosts", servers_have_hosts),
];

/// Maximum number of servers of one Gateway.
const MOST_SERVERS: usize = 512;
/// Maximum number of hosts of one Gateway.
const MOST_HOSTS: usize = 4_096;
/// Modes of Istio.
const MODES: [&str; 7] = ["", "PASSTHROUGH", "SIMPLE", "MUTUAL", "ISTIO_MUTUAL", "OPTIONAL_MUTUAL", FORWARDS];

/// Returns the servers that are served, by their paths.
fn forwarding(gateway: &Gateway) -> impl Iterator<Item = (String, &Server)> {
    let all = gateway.servers.iter().enumerate().filter(|(_, server)| server.forwards());
    all.map(|(i, server)| (format!("spec.servers[{i}]"), server))
}

fn gateway_has_servers(gateway: &Gateway, faults: &mut Faults) {
    if gateway.servers.is_empty() {
        faults.refuse(Code::MISSING_FIELD, gateway.at.at, "spec.servers is empty; add a server");
    }
}

fn gateway_size_is_within_limits(gateway: &Gateway, faults: &mut Faults) {
    let hosts = gateway.servers.iter().map(|server| server.hosts.len()).sum();
    let have = [("servers", gateway.servers.len(), MOST_SERVERS), ("servers[].hosts", hosts, MOST_HOSTS)];
    let lists = have.map(|(name, have, most)| (format!("spec.{name}"), have, most));
    refuse_longer(lists, gateway.at.at, "use wildcards", faults);
}

fn gateway_selector_is_valid(gateway: &Gateway, faults: &mut Faults) {
    if let Some(selector) = &gateway.selector {
        names::labels(selector, "spec.selector", faults);
    }
}

fn tls_modes_are_known(gateway: &Gateway, faults: &mut Faults) {
    for (i, server) in gateway.servers.iter().enumerate() {
        if !MODES.contains(&&*server.mode.value) {
            let message = format!(
                "spec.servers[{i}].tls.mode {:?} is not a mode; write {FORWARDS}, the one that is served",
                clip(&server.mode.value)
            );
            faults.refuse(Code::WRONG_TYPE, server.mode.at, message);
        }
    }
}

fn servers_have_ports_of_tls(gateway: &Gateway, faults: &mut Faults) {
    for (path, server) in forwarding(gateway) {
        let Some(port) = &server.port else {
            faults.refuse(Code::MISSING_FIELD, server.at.at, format!("{path}.port is missing; add it"));
            continue;
        };
        if number_of(port.number.value).is_none() {
            let message =
                format!("{path}.port.number {} is not a port; write one from 1 to 65535", port.number.value);
            faults.refuse(Code::INVALID_PORT, port.number.at, message);
        }
        if !Protocol::from_service_entry(&port.protocol.value).is_tls() {
            let message = format!(
                "{path}.port.protocol {:?} does not fit {FORWARDS}, which forwards TLS; write TLS",
                clip(&port.protocol.value)
            );
            faults.refuse(Code::INVALID_PORT, port.protocol.at, message);
        }
    }
}

fn servers_bind_to_ips(gateway: &Gateway, faults: &mut Faults) {
    for (path, server) in forwarding(gateway) {
        if let Some(bind) = server.bind.as_ref().filter(|bind| bind.value.parse::<IpAddr>().is_err()) {
            let message = format!("{path}.bind {:?} is not an IP address; write one", clip(&bind.value));
            faults.refuse(Code::INVALID_ADDRESS, bind.at, message);
        }
    }
}

fn servers_have_hosts(gateway: &Gateway, faults: &mut Faults) {
    for (path, server) in forwarding(gateway) {
        if server.hosts.is_empty() {
            faults.refuse(
                Code::MISSING_FIELD,
                server.at.at,
                format!("{path}.hosts is empty; add a host, such as \"*.local\""),
            );
        }
        for (j, name) in server.hosts.iter().enumerate() {
            if let Err(fix) = host(&name.value) {
                let message = format!("{path}.hosts[{j}] {:?} is not valid; {fix}", clip(&name.value));
                faults.refuse(Code::INVALID_HOST, name.at, message);
            }
        }
    }
}
