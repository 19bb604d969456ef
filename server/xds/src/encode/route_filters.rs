//! Settings of a route for the filters of HTTP: faults and cross-origin requests (docs/reference/xds.md#routes).
//!
//! `http_route` calls it. The filters themselves are in every HTTP filter chain of a listener.

use std::time::Duration;

use tributary_model::{AbortStatus, Cors, FaultAbort, FaultDelay, FaultInjection, RequestShare};
use tributary_proto::wire::Writer;

use super::{route_match, write_duration};

const CORS: &str = "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy";
const FAULT: &str = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
/// Denominator of a share.
const MILLION: u64 = 2;

/// Writes the policy of cross-origin requests as an `Any`.
pub(super) fn cors(wire: &mut Writer, cors: &Cors) {
    packed(wire, CORS, |w| {
        for origin in &*cors.origins {
            w.message(1, |w| route_match::string_matcher(w, origin));
        }
        w.string(2, &cors.methods.join(","));
        w.string(3, &cors.headers.join(","));
        w.string(4, &cors.exposed.join(","));
        if let Some(age) = cors.max_age {
            w.string(5, &age.as_secs().to_string());
        }
        if let Some(credentials) = cors.credentials {
            flag(w, 6, credentials);
        }
        w.message(7, |w| w.message(1, |w| w.number(1, 100)));
        flag(w, 10, cors.forwards_unmatched);
    });
}

/// Whether any request may be delayed or refused.
pub(super) fn has_effect(fault: &FaultInjection) -> bool {
    fault.abort.is_some() || delay_of(fault).is_some()
}

/// Returns the delay; `None` for one without a duration, which Envoy refuses.
fn delay_of(fault: &FaultInjection) -> Option<&FaultDelay> {
    fault.delay.as_ref().filter(|delay| delay.duration > Duration::ZERO)
}

/// Writes faults as an `Any`.
pub(super) fn fault(wire: &mut Writer, fault: &FaultInjection) {
    packed(wire, FAULT, |w| {
        if let Some(delay) = delay_of(fault) {
            w.message(1, |w| {
                write_duration(w, 3, delay.duration);
                w.message(4, |w| share(w, delay.share));
            });
        }
        if let Some(found) = &fault.abort {
            w.message(2, |w| abort(w, found));
        }
    });
}

/// Envoy accepts statuses of HTTP from 200 to 599.
fn abort(wire: &mut Writer, abort: &FaultAbort) {
    if let AbortStatus::Http(status) = abort.status {
        wire.varint(2, status.clamp(200, 599).into());
    }
    if let Some(of) = abort.share {
        wire.message(3, |w| share(w, of));
    }
    if let AbortStatus::Grpc(status) = abort.status {
        wire.varint(5, status.into());
    }
}

/// Writes the fields of a `FractionalPercent`.
pub(super) fn share(wire: &mut Writer, share: RequestShare) {
    wire.number(1, share.millionths().into());
    wire.number(2, MILLION);
}

/// Writes a wrapped boolean, including `false`.
pub(super) fn flag(wire: &mut Writer, field: u32, value: bool) {
    wire.message(field, |w| w.number(1, value.into()));
}

fn packed(wire: &mut Writer, kind: &str, write: impl FnOnce(&mut Writer)) {
    wire.string(1, kind);
    // an `Any` holds its message as bytes, which are written like the message itself
    wire.message(2, write);
}
