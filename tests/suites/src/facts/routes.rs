//! Facts of route tables: virtual hosts, their domains and routes.

use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    RetryPolicy, Route, RouteConfiguration, RouteMatch, VirtualHost,
};

use super::{Facts, attribute, compact, policy, put, seconds};

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
    for (name, value) in policy::virtual_host(host) {
        attribute(facts, &of, &name, value);
    }
    for (number, one) in host.routes.iter().enumerate() {
        route(facts, format!("{of} route {number}"), one);
    }
}

fn route(facts: &mut Facts, key: String, route: &Route) {
    let matches = route.r#match.as_ref().map(matching).unwrap_or_default();
    let of = put(facts, key, format!("{matches} to {}", target(route)));
    for (name, value) in policy::route(route) {
        attribute(facts, &of, &name, value);
    }
    let Some(Action::Route(action)) = &route.action else { return };
    attribute(facts, &of, "timeout", action.timeout.map(seconds).unwrap_or_default());
    attribute(facts, &of, "idle", action.idle_timeout.map(seconds).unwrap_or_default());
    attribute(facts, &of, "retry", action.retry_policy.as_ref().map(retry).unwrap_or_default());
}

fn matching(matches: &RouteMatch) -> String {
    let simple = match &matches.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => format!("prefix {prefix}"),
        _ => compact::text(matches),
    };
    policy::extended(simple, matches)
}

fn target(route: &Route) -> String {
    match &route.action {
        Some(Action::Route(action)) => match &action.cluster_specifier {
            Some(ClusterSpecifier::Cluster(name)) => name.clone(),
            Some(ClusterSpecifier::WeightedClusters(clusters)) => compact::text(clusters),
            other => format!("{other:?}"),
        },
        Some(Action::DirectResponse(response)) => policy::direct_response(response),
        Some(Action::Redirect(redirect)) => format!("redirect {}", compact::text(redirect)),
        other => format!("{other:?}"),
    }
}

fn retry(retry: &RetryPolicy) -> String {
    let number = retry.num_retries.map_or(1, |number| number.value);
    let predicates: Vec<&str> =
        retry.retry_host_predicate.iter().map(|one| super::short(&one.name)).collect();
    let codes: Vec<String> = retry.retriable_status_codes.iter().map(u32::to_string).collect();
    let parts = [
        format!("{number} times"),
        retry.retry_on.clone(),
        codes.join(","),
        predicates.join(","),
        format!("{} hosts", retry.host_selection_retry_max_attempts),
        retry.per_try_timeout.map(|time| format!("each {}", seconds(time))).unwrap_or_default(),
        retry
            .retry_back_off
            .and_then(|wait| wait.base_interval)
            .map(|wait| format!("wait {}", seconds(wait)))
            .unwrap_or_default(),
        retry.retry_priority.as_ref().map(|one| super::short(&one.name).to_owned()).unwrap_or_default(),
        policy::further_retry(retry),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
