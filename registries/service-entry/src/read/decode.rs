//! Decodes trees to documents, strictly: a field that Istio does not define is a fault.
//!
//! Called by [`crate::read::load`]. One pass finds all faults of a document; an invalid field is omitted and
//! decoding continues.

mod authorization_policy;
mod destination_rule;
mod envoy_filter;
mod fields;
mod gateway;
mod http_route;
mod http_settings;
mod load_balancer;
mod meta;
mod numbers;
mod peer_authentication;
mod request_authentication;
mod service_entry;
mod sidecar;
mod traffic_policy;
mod virtual_service;
mod workload;

use tributary_model::Code;

use crate::document::unserved::UnservedKind;
use crate::document::{
    API_GROUP, AUTHORIZATION_POLICY, Body, DESTINATION_RULE, Document, ENVOY_FILTER, GATEWAY, GATEWAY_API,
    Located, PEER_AUTHENTICATION, REQUEST_AUTHENTICATION, SECURITY_GROUP, SERVICE_ENTRY, SIDECAR,
    VIRTUAL_SERVICE, WORKLOAD_ENTRY, WORKLOAD_GROUP, api_of, known_kind,
};
use crate::read::fault::{Faults, Pos, clip};
use crate::read::node::{Node, Value};
pub(crate) use envoy_filter::MOST_PATCHES;
use fields::Fields;
pub(crate) use http_route::base64;
pub(crate) use virtual_service::is_ipv6;

/// Decodes a document; `None` if too much is missing. The faults decide whether it may be served.
pub(crate) fn decode(node: &Node, faults: &mut Faults) -> Option<Document> {
    let at = node.at;
    if !matches!(node.value, Value::Map(_)) {
        let message = format!(
            "the document is {}, not an object with apiVersion, kind, metadata and spec",
            node.value.what()
        );
        faults.refuse(Code::UNKNOWN_KIND, at, message);
        return None;
    }
    let mut root = Fields::open(node, String::new(), faults)?;
    let kind = kind(&mut root, faults)?;
    let meta = root.get("metadata").map(|(path, node)| meta::decode(node, path, faults));
    if meta.is_none() {
        faults.refuse(Code::MISSING_FIELD, at, "metadata is missing; add metadata.name");
    }
    let body = body(kind, &mut root, at, faults);
    root.finish(faults);
    Some(Document { at: Located::new(at, ()), meta: meta??, body })
}

fn body(kind: &'static str, root: &mut Fields<'_>, at: Pos, faults: &mut Faults) -> Body {
    let spec = root.get("spec");
    if spec.is_none() {
        faults.refuse(Code::MISSING_FIELD, at, format!("spec is missing; add what the {kind} declares"));
    }
    let status = root.get("status").map(|(_, node)| node);
    let empty = Node { at, value: Value::Null };
    let (path, spec) = spec.unwrap_or_else(|| ("spec".to_owned(), &empty));
    match kind {
        SERVICE_ENTRY => Body::ServiceEntry(service_entry::decode(spec, path, status, faults)),
        SIDECAR => Body::Sidecar(sidecar::decode(spec, path, faults)),
        DESTINATION_RULE => Body::DestinationRule(Box::new(destination_rule::decode(spec, path, faults))),
        VIRTUAL_SERVICE => Body::VirtualService(virtual_service::decode(spec, path, faults)),
        ENVOY_FILTER => Body::EnvoyFilter(Box::new(envoy_filter::decode(spec, path, faults))),
        GATEWAY => Body::Gateway(gateway::decode(spec, path, faults)),
        PEER_AUTHENTICATION => Body::PeerAuthentication(peer_authentication::decode(spec, path, faults)),
        AUTHORIZATION_POLICY => {
            Body::AuthorizationPolicy(Box::new(authorization_policy::decode(spec, path, faults)))
        }
        REQUEST_AUTHENTICATION => {
            Body::RequestAuthentication(Box::new(request_authentication::decode(spec, path, faults)))
        }
        WORKLOAD_ENTRY => Body::WorkloadEntry(workload::entry(spec, path, status, faults)),
        _ => Body::WorkloadGroup(workload::group(spec, path, faults)),
    }
}

/// The kind, if `apiVersion` and `kind` name a supported one.
fn kind(root: &mut Fields<'_>, faults: &mut Faults) -> Option<&'static str> {
    let kind = root.required_text("kind", faults);
    let version = root.required_text("apiVersion", faults);
    let (kind, version) = (kind?, version?);
    if let Some(known) = UnservedKind::find(&kind.value, &version.value) {
        let message = format!("{}; move it out of this source", known.message());
        faults.refuse(Code::KIND_NOT_SERVED, kind.at, message);
        return None;
    }
    let Some(known) = known_kind(&kind.value) else {
        let message = format!(
            "kind {:?} is not supported; use {SERVICE_ENTRY}, {WORKLOAD_ENTRY}, {WORKLOAD_GROUP}, {SIDECAR}, {DESTINATION_RULE}, {VIRTUAL_SERVICE}, {ENVOY_FILTER} or {GATEWAY} of {API_GROUP}, or {PEER_AUTHENTICATION}, {AUTHORIZATION_POLICY} or {REQUEST_AUTHENTICATION} of {SECURITY_GROUP}",
            clip(&kind.value)
        );
        faults.refuse(Code::UNKNOWN_KIND, kind.at, message);
        return None;
    };
    let (group, versions) = api_of(known);
    let ours = version.value.split_once('/').is_some_and(|(g, v)| g == group && versions.contains(&v));
    if version.value.split_once('/').is_some_and(|(found, _)| found == GATEWAY_API) {
        let message =
            format!("{} of {GATEWAY_API} is read from clusters; move it out of this source", kind.value);
        faults.refuse(Code::UNKNOWN_KIND, version.at, message);
        return None;
    }
    if !ours {
        let message = format!("apiVersion {:?} is not supported; write {group}/v1", clip(&version.value));
        faults.refuse(Code::UNKNOWN_KIND, version.at, message);
        return None;
    }
    Some(known)
}

#[cfg(test)]
mod tests;
