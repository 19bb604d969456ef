//! Converts documents to facts (see docs/reference/service-entry.md).
//!
//! [`convert`] is pure and total: it reads no file, keeps no state, and omits the parts that
//! validation refuses. The facts of one object depend on that object and its context alone, in a
//! fixed order; the core merges the declarations of a host.

mod authorization_policy;
mod context;
mod destination_rule;
pub(crate) mod endpoints;
mod envoy_filter;
mod gateway;
mod http_route;
mod load_balancer;
mod peer_authentication;
mod request_authentication;
mod service_entry;
mod sidecar;
mod topology;
mod virtual_service;
mod workload;

use tributary_model::Fact;

pub(crate) use authorization_policy::is_dry_run;
pub use context::Context;

use crate::document::{Body, Object};

/// The annotations that conversion reads; a source that keeps many objects retains only these.
pub(crate) const ANNOTATIONS: [&str; 5] = [
    workload::HEALTH_CHECKS,
    workload::GROUP,
    service_entry::TRAFFIC,
    service_entry::CONNECT,
    authorization_policy::DRY_RUN,
];

/// Returns the facts of one object. A WorkloadGroup has none: it is a template for workloads
/// that register themselves.
#[must_use]
pub fn convert(object: &Object, context: &Context) -> Vec<Fact> {
    let meta = &object.document.meta;
    let context = &context.within(&object.cluster_context);
    match &object.document.body {
        Body::ServiceEntry(entry) => service_entry::facts(object, meta, entry, context),
        Body::WorkloadEntry(entry) => workload::fact(object, meta, entry, context).into_iter().collect(),
        Body::WorkloadGroup(_) => Vec::new(),
        Body::Sidecar(document) => vec![sidecar::fact(object, meta, document)],
        Body::DestinationRule(document) => {
            destination_rule::fact(object, meta, document).into_iter().collect()
        }
        Body::VirtualService(document) => virtual_service::fact(object, meta, document).into_iter().collect(),
        Body::EnvoyFilter(document) => vec![envoy_filter::fact(object, meta, document)],
        Body::Gateway(document) => vec![gateway::fact(object, meta, document)],
        Body::PeerAuthentication(document) => vec![peer_authentication::fact(object, meta, document)],
        Body::AuthorizationPolicy(document) => {
            authorization_policy::fact(object, meta, document).into_iter().collect()
        }
        Body::RequestAuthentication(document) => {
            request_authentication::fact(object, meta, document).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod context_tests;
#[cfg(test)]
mod tests;
