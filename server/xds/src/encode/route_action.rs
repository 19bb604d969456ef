//! What a `Route` does with requests: it forwards them, redirects clients or answers (docs/reference/xds.md#routes).
//!
//! `http_route` calls it.

use tributary_answer::http_route::{Forward, Targets, WeightedTarget};
use tributary_model::{
    DirectResponse, PathRewrite, PortNumber, Redirect, RedirectPath, RequestShare, ResponseBody,
};
use tributary_proto::wire::Writer;

use super::header_changes::{self, HeaderFields, is_value};
use super::http_route::Dialect;
use super::retries::Retries;
use super::route_filters::{flag, share};
use super::{hash, route_match, scaled, write_duration};

const CLUSTER: u32 = 1;
const WEIGHTED_CLUSTERS: u32 = 3;
const PREFIX_REWRITE: u32 = 5;
const HOST_REWRITE: u32 = 6;
const TIMEOUT: u32 = 8;
const RETRY_POLICY: u32 = 9;
const MAX_GRPC_TIMEOUT: u32 = 23;
const MIRRORS: u32 = 30;
const REGEX_REWRITE: u32 = 32;
const MAX_STREAM_DURATION: u32 = 36;
const WEIGHT_HEADERS: HeaderFields =
    HeaderFields { set_request: 4, set_response: 5, remove_response: 6, remove_request: 9 };
const WEIGHT_HOST: u32 = 11;

/// Longest body of an answer. The route table names the same limit.
pub(super) const MOST_BODY: usize = 1 << 20;

/// Writes the fields of a `RouteAction`.
pub(super) fn forward(wire: &mut Writer, forward: &Forward, dialect: Dialect) {
    match &forward.targets {
        Targets::One(cluster) => wire.string(CLUSTER, &cluster.to_string()),
        Targets::Weighted(all) => wire.message(WEIGHTED_CLUSTERS, |w| weighted(w, all, dialect)),
    }
    if let Some(PathRewrite::Prefix(path)) = &forward.path
        && is_value(path)
    {
        wire.string(PREFIX_REWRITE, path);
    }
    if let Some(host) = forward.authority.as_deref().filter(|host| is_value(host)) {
        wire.string(HOST_REWRITE, host);
    }
    let timeout = forward.timeout.unwrap_or_default();
    write_duration(wire, TIMEOUT, timeout);
    Retries::Outbound(forward.retries.as_deref()).write(wire, RETRY_POLICY);
    for key in &forward.hash {
        hash::write(wire, key);
    }
    if dialect == Dialect::Envoy {
        // requests of gRPC may state a timeout, which this limits
        write_duration(wire, MAX_GRPC_TIMEOUT, timeout);
    }
    for (cluster, of) in &forward.mirrors {
        wire.message(MIRRORS, |w| mirror(w, &cluster.to_string(), *of));
    }
    if let Some(PathRewrite::Regex(pattern, substitution)) = &forward.path
        && !pattern.is_empty()
        && is_value(substitution)
    {
        wire.message(REGEX_REWRITE, |w| {
            w.message(1, |w| route_match::regex(w, pattern));
            w.string(2, substitution);
        });
    }
    if let (Dialect::Grpc, Some(timeout)) = (dialect, forward.timeout) {
        wire.message(MAX_STREAM_DURATION, |w| write_duration(w, 1, timeout));
    }
}

/// Writes the fields of a `WeightedCluster`.
fn weighted(wire: &mut Writer, all: &[WeightedTarget], dialect: Dialect) {
    let weight = scaled(all.iter().map(|to| to.weight));
    for to in all {
        wire.message(1, |w| {
            w.string(1, &to.cluster.to_string());
            w.wrapped(2, weight(to.weight));
            header_changes::write(w, to.headers.as_deref().into_iter(), WEIGHT_HEADERS);
            let host = to.headers.as_ref().and_then(|changes| changes.authority.as_deref());
            w.string(WEIGHT_HOST, host.filter(|host| is_value(host)).unwrap_or_default());
        });
    }
    if dialect == Dialect::Grpc {
        // older versions take 100 for the sum
        wire.wrapped(3, all.iter().map(|to| weight(to.weight)).fold(0, u32::saturating_add));
    }
}

fn mirror(wire: &mut Writer, cluster: &str, of: RequestShare) {
    wire.string(1, cluster);
    wire.message(3, |w| w.message(1, |w| share(w, of)));
    flag(wire, 4, false);
    // the copy has the host of the request, not `HOST-shadow`
    wire.number(6, 1);
}

/// Writes the fields of a `RedirectAction`. A path is always declared; an empty one keeps that of the request.
pub(super) fn redirect(wire: &mut Writer, redirect: &Redirect, port: Option<PortNumber>) {
    let text = |text: &str| if is_value(text) { text.to_owned() } else { String::new() };
    let (path, prefix) = match &redirect.path {
        RedirectPath::Keep => (String::new(), String::new()),
        RedirectPath::Whole(path) => (text(path), String::new()),
        RedirectPath::Prefix(prefix) => (String::new(), text(prefix)),
    };
    wire.string(1, &text(redirect.authority.as_deref().unwrap_or_default()));
    if prefix.is_empty() {
        wire.present(2, path);
    }
    wire.number(3, redirect_code(redirect.status));
    wire.string(5, &prefix);
    wire.string(7, &text(redirect.scheme.as_deref().unwrap_or_default()));
    wire.number(8, port.map_or(0, |port| port.get().into()));
}

/// Returns Envoy's number of a status.
const fn redirect_code(status: u16) -> u64 {
    match status {
        302 => 1,
        303 => 2,
        307 => 3,
        308 => 4,
        _ => 0,
    }
}

/// Writes the fields of a `DirectResponseAction`. Envoy accepts statuses from 200 to 599.
pub(super) fn respond(wire: &mut Writer, response: &DirectResponse) {
    wire.varint(1, response.status.clamp(200, 599).into());
    match &response.body {
        Some(ResponseBody::Bytes(bytes)) if bytes.len() <= MOST_BODY => {
            wire.message(2, |w| w.present(2, bytes));
        }
        Some(ResponseBody::Text(text)) if text.len() <= MOST_BODY => {
            wire.message(2, |w| w.present(3, &**text));
        }
        Some(ResponseBody::Bytes(_) | ResponseBody::Text(_)) | None => {}
    }
}
