//! Facts of route tables: virtual hosts, their domains and routes.

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    RetryPolicy, Route, RouteConfiguration, RouteMatch, VirtualHost,
};

use super::{Facts, attribute, put, seconds};

/// Adds the facts of a table.
pub(super) fn table(facts: &mut Facts, body: &RouteConfiguration) {
    let port = if body.ignore_port_in_host_matching { "ignores the port" } else { "matches the port" };
    let of = put(facts, format!("rds {}", body.name), port);
    hosts(facts, &of, body);
}

/// Adds the facts of a table's virtual hosts under a key.
pub(super) fn hosts(facts: &mut Facts, of: &str, body: &RouteConfiguration) {
    for host in &body.virtual_hosts {
        virtual_host(facts, of, host);
    }
}

fn virtual_host(facts: &mut Facts, of: &str, host: &VirtualHost) {
    let mut domains = host.domains.clone();
    domains.sort();
    let of = put(facts, format!("{of} host {}", host.name), domains.join(","));
    for (number, one) in host.routes.iter().enumerate() {
        route(facts, format!("{of} route {number}"), one);
    }
}

fn route(facts: &mut Facts, key: String, route: &Route) {
    let matches = route.r#match.as_ref().map(matching).unwrap_or_default();
    let of = put(facts, key, format!("{matches} to {}", target(route)));
    let Some(Action::Route(action)) = &route.action else { return };
    attribute(facts, &of, "timeout", action.timeout.map(seconds).unwrap_or_default());
    attribute(facts, &of, "idle", action.idle_timeout.map(seconds).unwrap_or_default());
    attribute(facts, &of, "retry", action.retry_policy.as_ref().map(retry).unwrap_or_default());
}

fn matching(matches: &RouteMatch) -> String {
    match &matches.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => format!("prefix {prefix}"),
        other => format!("{other:?}"),
    }
}

fn target(route: &Route) -> String {
    match &route.action {
        Some(Action::Route(action)) => match &action.cluster_specifier {
            Some(ClusterSpecifier::Cluster(name)) => name.clone(),
            other => format!("{other:?}"),
        },
        Some(Action::DirectResponse(response)) => format!("status {}", response.status),
        other => format!("{other:?}"),
    }
}

fn retry(policy: &RetryPolicy) -> String {
    let number = policy.num_retries.map_or(1, |number| number.value);
    let predicates: Vec<&str> =
        policy.retry_host_predicate.iter().map(|one| super::short(&one.name)).collect();
    let codes: Vec<String> = policy.retriable_status_codes.iter().map(u32::to_string).collect();
    let parts = [
        format!("{number} times"),
        policy.retry_on.clone(),
        codes.join(","),
        predicates.join(","),
        format!("{} hosts", policy.host_selection_retry_max_attempts),
        policy.per_try_timeout.map(|time| format!("each {}", seconds(time))).unwrap_or_default(),
        policy
            .retry_back_off
            .and_then(|wait| wait.base_interval)
            .map(|wait| format!("wait {}", seconds(wait)))
            .unwrap_or_default(),
        policy.retry_priority.as_ref().map(|one| super::short(&one.name).to_owned()).unwrap_or_default(),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
