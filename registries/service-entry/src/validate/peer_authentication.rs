//! The rules of a PeerAuthentication.

use tributary_model::Code;

use super::names;
use crate::document::peer_authentication::{PeerAuthentication, PortMode, port_of};
use crate::read::fault::{Faults, clip};

pub(super) type Rule = fn(&PeerAuthentication, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("peer_size_is_within_limits", peer_size_is_within_limits),
    ("peer_selector_is_valid", peer_selector_is_valid),
    ("port_modes_need_a_selector", port_modes_need_a_selector),
    ("port_modes_are_of_ports", port_modes_are_of_ports),
];

/// Path of the modes of single ports, for messages.
const PORTS: &str = "spec.portLevelMtls";
/// Maximum number of ports with a mode of their own.
const MOST_PORTS: usize = 1_024;

fn ports(policy: &PeerAuthentication) -> impl Iterator<Item = &PortMode> {
    policy.ports.iter().flat_map(|ports| &ports.value)
}

fn peer_size_is_within_limits(policy: &PeerAuthentication, faults: &mut Faults) {
    if ports(policy).count() > MOST_PORTS {
        let message =
            format!("{PORTS} has more than {MOST_PORTS} ports; set spec.mtls.mode for most of them");
        faults.refuse(Code::DOCUMENT_TOO_LARGE, policy.at.at, message);
    }
}

fn peer_selector_is_valid(policy: &PeerAuthentication, faults: &mut Faults) {
    if let Some(selector) = &policy.selector {
        names::labels(selector, "spec.selector.matchLabels", faults);
    }
}

fn port_modes_need_a_selector(policy: &PeerAuthentication, faults: &mut Faults) {
    let Some(ports) = policy.ports.as_ref().filter(|_| !policy.selects()) else { return };
    let message = format!(
        "{PORTS} needs spec.selector.matchLabels: ports are those of selected workloads; add labels, or remove it"
    );
    faults.refuse(Code::MISSING_FIELD, ports.at, message);
}

fn port_modes_are_of_ports(policy: &PeerAuthentication, faults: &mut Faults) {
    if let Some(ports) = policy.ports.as_ref().filter(|ports| ports.value.is_empty()) {
        faults.refuse(Code::MISSING_FIELD, ports.at, format!("{PORTS} is empty; add a port, or remove it"));
    }
    for PortMode { port, .. } in ports(policy).filter(|one| port_of(&one.port.value).is_none()) {
        let message =
            format!("{PORTS}: key {:?} is not a port; write one from 1 to 65535", clip(&port.value));
        faults.refuse(Code::INVALID_PORT, port.at, message);
    }
}
