//! Rules on the objects to which policies of `security.istio.io` are attached.

use tributary_model::Code;

use crate::document::SERVICE_ENTRY;
use crate::document::authorization_policy::Target;
use crate::read::fault::{Faults, Pos, clip};

/// Kinds to which a policy may be attached, with their groups.
const TARGETS: [(&str, &str); 5] = [
    ("", "Service"),
    ("core", "Service"),
    ("networking.istio.io", SERVICE_ENTRY),
    ("gateway.networking.k8s.io", "Gateway"),
    ("gateway.networking.k8s.io", "GatewayClass"),
];

/// Refuses a policy at this position that is attached in two ways, or attached and selecting.
pub(super) fn exclude_a_selector(selects: bool, targets: &[Target], at: Pos, faults: &mut Faults) {
    let is_single = |path: &str| path == "spec.targetRef";
    let single = targets.iter().any(|target| is_single(&target.path));
    let several = targets.iter().any(|target| !is_single(&target.path));
    if [selects, single, several].iter().filter(|is_set| **is_set).count() > 1 {
        let message =
            "spec.selector, spec.targetRef and spec.targetRefs exclude each other; keep one of them";
        faults.refuse(Code::VALUE_INVALID, at, message);
    }
}

/// Refuses targets that Istio does not have.
pub(super) fn are_gateways_and_services(targets: &[Target], faults: &mut Faults) {
    for target in targets {
        let path = &target.path;
        if target.name.value.is_empty() {
            let message = format!("{path}.name is missing; add it");
            faults.refuse(Code::MISSING_FIELD, target.at.at, message);
        }
        if !target.namespace.value.is_empty() {
            let message =
                format!("{path}.namespace is not allowed: targets are of the policy's namespace; remove it");
            faults.refuse(Code::VALUE_INVALID, target.namespace.at, message);
        }
        if !TARGETS.contains(&(&*target.group.value, &*target.kind.value)) {
            let message = format!(
                "{path}: {:?} of group {:?} is no target; write a Service, a ServiceEntry of networking.istio.io, or a \
                 Gateway or GatewayClass of gateway.networking.k8s.io",
                clip(&target.kind.value),
                clip(&target.group.value)
            );
            faults.refuse(Code::VALUE_INVALID, target.at.at, message);
        }
    }
}

/// Warns of a policy that is attached: it has no effect.
pub(super) fn concern_no_sidecar(targets: &[Target], faults: &mut Faults) {
    if let Some(target) = targets.first() {
        let message = format!(
            "{}: the policy concerns gateways and waypoints, which are not served, and no sidecar; write spec.selector for \
             one that sidecars follow",
            target.path
        );
        faults.warn(Code::KIND_NOT_SERVED, target.at.at, message);
    }
}
