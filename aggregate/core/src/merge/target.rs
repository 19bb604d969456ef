//! Resolves a declaration's port on a selected workload.
//!
//! Called when a bucket of selected workloads is built. A port without a match yields no address and a
//! condition, never a default.

use tributary_model::{
    Declaration, PortNumber, ServicePort, Target, Workload, WorkloadAddress, WorkloadKind,
};

/// Port of one workload that serves a declared port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResolvedPort {
    /// Port number.
    Number(PortNumber),
    /// Unix path, which has no port number.
    Unix,
    /// No port of the workload matches.
    Miss,
}

/// Resolves a port's target on a workload.
///
/// A unix path has no ports. On a WorkloadEntry, its own port with the service port's name takes
/// precedence over a number, for Services that select entries and for ServiceEntries; on a pod, the
/// number does. A named target must exist on the workload.
pub(crate) fn resolve_target_port(
    port: &ServicePort,
    kind: WorkloadKind,
    workload: &Workload,
) -> ResolvedPort {
    if matches!(workload.addresses.first(), Some(WorkloadAddress::Unix(_))) {
        return ResolvedPort::Unix;
    }
    let own = || workload.port(&port.name);
    let by_entry = || if kind == WorkloadKind::Entry { own() } else { None };
    let number = match &port.target {
        Target::Same => by_entry().or(Some(port.number)),
        Target::Number(number) => by_entry().or(Some(*number)),
        Target::Name(name) => workload.port(name),
        Target::NamedOr(number) => own().or(*number).or(Some(port.number)),
    };
    number.map_or(ResolvedPort::Miss, ResolvedPort::Number)
}

/// Returns whether a selected workload is an endpoint of any port of the declaration.
pub(crate) fn serves_any_port(declaration: &Declaration, kind: WorkloadKind, workload: &Workload) -> bool {
    let serves = |port| resolve_target_port(port, kind, workload) != ResolvedPort::Miss;
    !workload.addresses.is_empty() && declaration.ports.iter().any(serves)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{ObjectId, PortName, Protocol, Source};

    use super::*;

    fn number(n: u32) -> PortNumber {
        PortNumber::new(n).unwrap()
    }
    fn mk_port(target: Target) -> ServicePort {
        let name = PortName::new("http").unwrap();
        ServicePort { number: number(80), name, protocol: Protocol::Http, target }
    }
    fn mk_workload(address: WorkloadAddress, ports: &[(&str, u32)]) -> Workload {
        let ports = ports.iter().map(|&(name, n)| (PortName::new(name).unwrap(), number(n)));
        Workload {
            addresses: Arc::from([address]),
            ports: ports.collect(),
            name: "a".into(),
            ..Workload::new(Source::new(ObjectId::new("WorkloadEntry", "shop", "a")))
        }
    }

    #[test]
    fn target_selects_the_workload_port() {
        use WorkloadKind::{Entry, Pod};
        let named = || Target::Name(PortName::new("web").unwrap());
        let cases = [
            (Target::Same, Pod, &[("http", 8080)][..], ResolvedPort::Number(number(80))),
            (Target::Same, Entry, &[("http", 8080)], ResolvedPort::Number(number(8080))),
            (Target::Same, Entry, &[], ResolvedPort::Number(number(80))),
            (Target::Number(number(81)), Pod, &[("http", 8080)], ResolvedPort::Number(number(81))),
            (Target::Number(number(81)), Entry, &[("http", 8080)], ResolvedPort::Number(number(8080))),
            (named(), Pod, &[("web", 8081)], ResolvedPort::Number(number(8081))),
            (named(), Entry, &[("http", 8080)], ResolvedPort::Miss),
            (Target::NamedOr(Some(number(81))), Pod, &[("http", 8080)], ResolvedPort::Number(number(8080))),
            (Target::NamedOr(Some(number(81))), Pod, &[], ResolvedPort::Number(number(81))),
            (Target::NamedOr(None), Entry, &[], ResolvedPort::Number(number(80))),
        ];
        for (target, kind, ports, want) in cases {
            let workload = mk_workload(WorkloadAddress::Ip([10, 0, 0, 1].into()), ports);
            let got = resolve_target_port(&mk_port(target.clone()), kind, &workload);
            assert_eq!(got, want, "{target:?} on a {kind:?} with {ports:?}");
        }
    }

    #[test]
    fn unix_path_has_no_port_number_with_any_target() {
        let workload = mk_workload(WorkloadAddress::Unix("/run/a.sock".into()), &[("http", 8080)]);
        for target in [Target::Same, Target::NamedOr(None), Target::Name(PortName::new("x").unwrap())] {
            assert_eq!(
                resolve_target_port(&mk_port(target), WorkloadKind::Entry, &workload),
                ResolvedPort::Unix
            );
        }
    }
}
