//! Validates documents, rule by rule (see docs/reference/service-entry.md).
//!
//! [`crate::read::load`] calls it after decoding. Each rule is a function in a table, reads one document alone,
//! and reports the position of the field and a correction.

mod authorization_policy;
mod destination_rule;
mod envoy_filter;
mod gateway;
mod hosts;
mod http_match;
mod http_route;
mod limits;
mod load_balancer;
mod names;
mod pattern;
mod peer_authentication;
mod request_authentication;
mod resolution;
mod service_entry;
mod sidecar;
mod targets;
mod virtual_service;
mod workload;

use crate::document::{Body, Document, Meta};
use crate::read::fault::Faults;
pub(crate) use http_route::is_authority;
pub(crate) use virtual_service::range;

/// Runs every rule.
pub(crate) fn validate(document: &Document, faults: &mut Faults) {
    meta(&document.meta, faults);
    let namespace = &document.meta.namespace;
    match &document.body {
        Body::ServiceEntry(entry) => {
            for (_, rule) in service_entry::RULES {
                rule(entry, faults);
            }
        }
        Body::WorkloadEntry(entry) => workload::entry(entry, faults),
        Body::WorkloadGroup(group) => workload::group(group, faults),
        Body::Sidecar(sidecar) => {
            for (_, rule) in sidecar::RULES {
                rule(sidecar, faults);
            }
        }
        Body::DestinationRule(document) => {
            for (_, rule) in destination_rule::RULES {
                rule(document, faults);
            }
            destination_rule::selecting_rule_stays_in_its_namespace(document, namespace, faults);
        }
        Body::VirtualService(document) => {
            for (_, rule) in virtual_service::RULES {
                rule(document, faults);
            }
        }
        Body::EnvoyFilter(document) => {
            for (_, rule) in envoy_filter::RULES {
                rule(document, faults);
            }
        }
        Body::Gateway(document) => {
            for (_, rule) in gateway::RULES {
                rule(document, faults);
            }
        }
        Body::PeerAuthentication(document) => {
            for (_, rule) in peer_authentication::RULES {
                rule(document, faults);
            }
        }
        Body::AuthorizationPolicy(document) => {
            for (_, rule) in authorization_policy::RULES {
                rule(document, faults);
            }
        }
        Body::RequestAuthentication(document) => {
            for (_, rule) in request_authentication::RULES {
                rule(document, faults);
            }
        }
    }
}

fn meta(meta: &Meta, faults: &mut Faults) {
    names::labels(&meta.labels, "metadata.labels", faults);
}

#[cfg(test)]
mod tests;
