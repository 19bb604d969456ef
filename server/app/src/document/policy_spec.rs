//! Specs of policies as they are served, in the form of their source documents. Each kind has a module.
//!
//! Fields without effect are left out; a condition of the policy names them. A policy has no secrets, as it names files
//! of keys, or they are not shown.

mod authorization_policy;
mod destination_rule;
mod envoy_filter;
mod gateway;
mod http_route;
mod load_balancer;
mod peer_authentication;
mod request_authentication;
mod sidecar;
mod virtual_service;

use std::time::Duration;

use serde_json::{Map, Value};
use tributary_model::Policy;

/// Returns the spec of a policy.
#[must_use]
pub(super) fn spec(policy: &Policy) -> Value {
    match policy {
        Policy::Sidecar(policy) => sidecar::spec(policy),
        Policy::DestinationRule(policy) => destination_rule::spec(policy),
        Policy::VirtualService(policy) => virtual_service::spec(policy),
        Policy::EnvoyFilter(policy) => envoy_filter::spec(policy),
        Policy::PeerAuthentication(policy) => peer_authentication::spec(policy),
        Policy::AuthorizationPolicy(policy) => authorization_policy::spec(policy),
        Policy::RequestAuthentication(policy) => request_authentication::spec(policy),
        Policy::Gateway(gateway) => gateway::spec(gateway),
    }
}

fn add(out: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        out.insert(name.to_owned(), value);
    }
}

/// Adds a map that is not empty.
fn add_map(out: &mut Map<String, Value>, name: &str, value: Map<String, Value>) {
    add(out, name, (!value.is_empty()).then_some(Value::Object(value)));
}

/// Returns a duration in seconds, such as `1.5s`.
fn seconds(duration: Duration) -> Value {
    let nanos = format!(".{:09}", duration.subsec_nanos());
    let decimals = nanos.trim_end_matches('0').trim_end_matches('.');
    format!("{}{decimals}s", duration.as_secs()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_decimal_seconds() {
        for (millis, text) in [(0, "0s"), (1_500, "1.5s"), (30, "0.03s"), (5_400_000, "5400s")] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
    }
}
