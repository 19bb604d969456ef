//! `Route`: one route of a VirtualService (docs/reference/xds.md#routes).
//!
//! `route` calls it for the routes of a virtual host. Everything is written in order of number, and the one map in order
//! of key. Any plan gives a route that Envoy accepts: texts that it would refuse, with all routes of the table, are left
//! out. Adapters refuse them before.

use tributary_answer::RoutePlan;
use tributary_answer::http_route::RouteAction;
use tributary_model::{DelegateRef, PolicyKey};
use tributary_proto::wire::Writer;

use super::header_changes::{self, HeaderFields};
use super::{route_action, route_filters, route_match};

const MATCH: u32 = 1;
const ACTION: u32 = 2;
const REDIRECT: u32 = 3;
const METADATA: u32 = 4;
const DIRECT_RESPONSE: u32 = 7;
const HEADERS: HeaderFields =
    HeaderFields { set_request: 9, set_response: 10, remove_response: 11, remove_request: 12 };
const FILTERS: u32 = 13;
const NAME: u32 = 14;
const STAT_PREFIX: u32 = 19;

/// Client that a route is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Envoy.
    Envoy,
    /// gRPC, which reads older fields of conditions and timeouts.
    Grpc,
}

impl Dialect {
    /// Returns the prefix of every path. gRPC matches any path by the empty one; Envoy needs a slash.
    pub(super) const fn any_path(self) -> &'static str {
        match self {
            Self::Envoy => "/",
            Self::Grpc => "",
        }
    }
}

/// Writes the fields of a route, with the VirtualService that it is from.
pub(super) fn write(wire: &mut Writer, plan: &RoutePlan, rule: Option<&PolicyKey>, dialect: Dialect) {
    wire.message(MATCH, |w| route_match::write(w, &plan.found, dialect));
    match &plan.action {
        RouteAction::Forward(forward) => {
            wire.message(ACTION, |w| route_action::forward(w, forward, dialect));
        }
        RouteAction::Redirect(redirect, port) => {
            wire.message(REDIRECT, |w| route_action::redirect(w, redirect, *port));
        }
        RouteAction::Respond(_) => {}
    }
    if let Some(rule) = rule.filter(|_| dialect == Dialect::Envoy) {
        wire.message(METADATA, |w| metadata(w, rule, plan.delegate.as_deref()));
    }
    if let RouteAction::Respond(response) = &plan.action {
        wire.message(DIRECT_RESPONSE, |w| route_action::respond(w, response));
    }
    header_changes::write(wire, plan.headers.iter().map(|changes| &**changes), HEADERS);
    if let Some(cors) = &plan.cors {
        wire.entry(FILTERS, "envoy.filters.http.cors", |w| route_filters::cors(w, cors));
    }
    if let Some(fault) = plan.fault.as_ref().filter(|fault| route_filters::has_effect(fault)) {
        wire.entry(FILTERS, "envoy.filters.http.fault", |w| route_filters::fault(w, fault));
    }
    wire.string(NAME, &plan.name);
    wire.string(STAT_PREFIX, &plan.found.stat_prefix);
}

/// Encodes `{istio: {config}}`, which access logs read, as for xDS clusters, and `{tributary.dev: {delegate}}`, by which
/// lists of routes name the object that declares one.
fn metadata(wire: &mut Writer, rule: &PolicyKey, delegate: Option<&DelegateRef>) {
    let PolicyKey { namespace, name, .. } = rule;
    let path = format!("/apis/networking.istio.io/v1/namespaces/{namespace}/virtual-service/{name}");
    wire.entry(1, "istio", |w| w.struct_string("config", &path));
    if let Some(DelegateRef { namespace, name }) = delegate {
        let path = format!("{namespace}/{name}");
        wire.entry(1, "tributary.dev", |w| w.struct_string("delegate", &path));
    }
}

#[cfg(test)]
mod tests;
