//! `ClusterLoadAssignment`: the hot path (docs/reference/xds.md#endpoints).
//!
//! The locality message and all weights are always present, because gRPC rejects or ignores entries without them.

use tributary_answer::endpoints::Destination;
use tributary_answer::{Assignment, Endpoint, LocalityEndpoints};
use tributary_model::{Health, Locality};

use tributary_proto::wire::Writer;

/// Typical size of an endpoint in bytes, for the buffer.
const ENDPOINT: usize = 56;

/// Encodes the assignment of this name.
#[must_use]
pub fn assignment(name: &str, plan: &Assignment<'_>) -> Vec<u8> {
    let count: usize = plan.localities.iter().map(|l| l.endpoints.len() * ENDPOINT + 64).sum();
    let mut wire = Writer::with_capacity(count + name.len() + 8);
    write(&mut wire, name, plan);
    wire.finish()
}

/// Encodes an assignment inside another message.
pub(crate) fn write(wire: &mut Writer, name: &str, plan: &Assignment<'_>) {
    wire.string(1, name);
    for group in &plan.localities {
        wire.message(2, |w| locality_endpoints(w, group));
    }
}

/// Encodes the assignment of one endpoint without a location inside another message.
pub(crate) fn write_one(wire: &mut Writer, name: &str, target: Destination<'_>) {
    wire.string(1, name);
    wire.message(2, |w| w.message(2, |w| w.message(1, |w| w.message(1, |w| address(w, target)))));
}

fn locality_endpoints(wire: &mut Writer, group: &LocalityEndpoints<'_>) {
    wire.message(1, |w| locality(w, &group.locality));
    for endpoint in &group.endpoints {
        wire.message(2, |w| lb_endpoint(w, endpoint));
    }
    wire.wrapped(3, group.weight);
    wire.number(5, group.priority.into());
}

fn locality(wire: &mut Writer, locality: &Locality) {
    wire.string(1, &locality.region);
    wire.string(2, &locality.zone);
    wire.string(3, &locality.subzone);
}

fn lb_endpoint(wire: &mut Writer, endpoint: &Endpoint<'_>) {
    wire.message(1, |w| w.message(1, |w| address(w, endpoint.target)));
    wire.number(2, health(endpoint.health));
    let workload = endpoint.workload();
    if endpoint.mtls || workload.is_some() {
        wire.message(3, |w| metadata(w, endpoint.mtls, workload.as_deref()));
    }
    wire.wrapped(4, endpoint.weight);
}

/// `envoy.config.core.v3.Address`.
pub(crate) fn address(wire: &mut Writer, target: Destination<'_>) {
    match target {
        Destination::Ip(ip, port) => wire.message(1, |w| {
            w.string(2, &ip.to_string());
            w.number(3, port.into());
        }),
        Destination::Name(name, port) => wire.message(1, |w| {
            w.string(2, name);
            w.number(3, port.into());
        }),
        Destination::Pipe(path) => wire.message(2, |w| w.string(1, path)),
    }
}

/// `envoy.config.core.v3.HealthStatus`.
const fn health(health: Health) -> u64 {
    match health {
        Health::Healthy => 1,
        Health::Unhealthy => 2,
        // Terminating endpoints are excluded earlier; if one arrives here, it counts as draining.
        Health::Draining | Health::Terminating => 3,
    }
}

/// Encodes the metadata that selects the transport socket and names the workload, in order of key.
fn metadata(wire: &mut Writer, mtls: bool, workload: Option<&str>) {
    if mtls {
        wire.entry(1, "envoy.transport_socket_match", |w| w.struct_string("tlsMode", "istio"));
    }
    if let Some(workload) = workload {
        wire.entry(1, "istio", |w| w.struct_string("workload", workload));
    }
}
