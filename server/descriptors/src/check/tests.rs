//! Values that break rules of the API, and values that hold.

use serde_json::{Value as Json, json};

use super::*;

fn check(of: &str, value: &Json, whole: bool) -> Result<(), String> {
    let types = Types::shared().unwrap();
    let read = types.read(of, value).unwrap();
    types.check(of, &read.bytes, whole).map_err(|error| format!("{} {}", error.at, error.why))
}

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const HOST: &str = "envoy.config.route.v3.VirtualHost";
const FILTER: &str = "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter";

#[test]
fn values_that_break_a_rule_are_named_with_their_path() {
    for (of, value, why) in [
        (CLUSTER, json!({"connect_timeout": "-1s"}), "connect_timeout is -1s; it must be more than 0s"),
        (CLUSTER, json!({"connect_timeout": "0s"}), "connect_timeout is 0s; it must be more than 0s"),
        (
            CLUSTER,
            json!({"health_checks": [{"timeout": "1s"}]}),
            "health_checks[0].interval is missing; add it",
        ),
        (
            CLUSTER,
            json!({"ring_hash_lb_config": {"maximum_ring_size": 9_000_000}}),
            "ring_hash_lb_config.maximum_ring_size is 9000000; it must be at most 8388608",
        ),
        (CLUSTER, json!({"lb_policy": 77}), "lb_policy is 77, which Envoy's API does not define"),
        (HOST, json!({"domains": ["a", "b\n"]}), "domains[1] is \"b\\n\", which Envoy does not accept"),
        (
            HOST,
            json!({"request_headers_to_add": [{"header": {"key": "a\nb"}}]}),
            "request_headers_to_add[0].header.key is \"a\\nb\", which Envoy does not accept",
        ),
    ] {
        let error = check(of, &value, false).expect_err(why);
        assert!(error.starts_with(why), "{value}: {error}");
    }
}

#[test]
fn whole_values_need_what_is_required_and_merged_ones_do_not() {
    let route = json!({"redirect": {"host_redirect": "a.test"}});
    for (of, value, why) in [
        (HOST, json!({"name": "a"}), "domains has 0 items; it must have at least 1"),
        (HOST, json!({"domains": ["a"]}), "name has 0 characters; it must have at least 1"),
        (FILTER, json!({}), "name has 0 characters; it must have at least 1"),
        ("envoy.config.route.v3.Route", route, "match is missing; add it"),
        (
            "envoy.config.route.v3.Route",
            json!({"match": {"prefix": "/"}}),
            " needs one of the fields route, redirect, direct_response, filter_action, non_forwarding_action",
        ),
    ] {
        assert_eq!(check(of, &value, true), Err(why.to_owned()), "{value}");
        assert_eq!(check(of, &value, false), Ok(()), "{value}");
    }
}

#[test]
fn configuration_of_filters_is_checked_too() {
    let config = |seconds: i32| {
        let bucket = json!({"max_tokens": 1, "fill_interval": format!("{seconds}s")});
        json!({"name": "limit", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "x", "token_bucket": bucket,
        }})
    };
    assert_eq!(check(FILTER, &config(1), true), Ok(()));
    let error = check(FILTER, &config(0), true).unwrap_err();
    assert_eq!(error, "typed_config.token_bucket.fill_interval is 0s; it must be more than 0s");
    let other =
        json!({"name": "a", "typed_config": {"@type": "udpa.type.v1.TypedStruct", "type_url": "a/b"}});
    assert_eq!(check(FILTER, &other, true), Ok(()));
}

#[test]
fn ordinary_values_hold() {
    let cluster = json!({
        "name": "a", "type": "STRICT_DNS", "connect_timeout": "1s",
        "load_assignment": {"cluster_name": "a", "endpoints": [{"lb_endpoints": [{"endpoint": {
            "address": {"socket_address": {"address": "a.test", "port_value": 80}},
        }}]}]},
    });
    assert_eq!(check(CLUSTER, &cluster, true), Ok(()));
    let routes = json!([{"match": {"prefix": "/"}, "route": {"cluster": "a", "timeout": "0s"}}]);
    assert_eq!(check(HOST, &json!({"name": "a", "domains": ["*"], "routes": routes}), true), Ok(()));
    let outlier = json!({"outlier_detection": {"consecutive_5xx": 0, "base_ejection_time": "30s"}});
    assert_eq!(check(CLUSTER, &outlier, false), Ok(()));
}

/// Returns why a value cannot be merged into another one, or nothing; and checks that the merged message agrees.
fn merged(of: &str, own: &Json, more: &Json) -> String {
    let types = Types::shared().unwrap();
    let message = |value| types.decode(of, &types.read(of, value).unwrap().bytes).unwrap();
    let (mut own, more) = (message(own), message(more));
    let checked = types.check_merge(&own, &more);
    crate::merge(&mut own, &more);
    assert_eq!(types.check_message(&own).is_ok(), checked.is_ok(), "{own}");
    checked.map_or_else(|error| format!("{} {}", error.at, error.why), |()| String::new())
}

#[test]
fn merge_needs_what_its_new_parts_require() {
    const ROUTE: &str = "envoy.config.route.v3.Route";
    let route = |action: Json| {
        let mut out = action;
        out["match"] = json!({"prefix": "/"});
        out
    };
    let direct = route(json!({"direct_response": {"status": 201}}));
    let routed = route(json!({"route": {"cluster": "a"}}));
    let timeout = json!({"route": {"timeout": "5s"}});
    let why = "route needs one of the fields cluster, ";
    assert!(merged(ROUTE, &direct, &timeout).starts_with(why));
    assert_eq!(merged(ROUTE, &routed, &timeout), "");
    assert_eq!(merged(ROUTE, &direct, &json!({"route": {"cluster": "b", "timeout": "5s"}})), "");
    assert_eq!(merged(ROUTE, &routed, &json!({"redirect": {"host_redirect": "b"}})), "");
    let percent = json!({"route": {"request_mirror_policies": [{"cluster": "m"}]}});
    assert_eq!(merged(ROUTE, &routed, &percent), "");
}

#[test]
fn merge_counts_the_items_of_both_lists() {
    let header = |at: usize| json!({"header": {"key": format!("x{at}"), "value": "a"}});
    let host = |from: usize, headers: usize| {
        let all: Vec<_> = (from..from + headers).map(header).collect();
        json!({"name": "a", "domains": ["a"], "request_headers_to_add": all})
    };
    let why = "request_headers_to_add has 1200 items; it must have at most 1000";
    assert_eq!(merged(HOST, &host(0, 600), &host(600, 600)), why);
    assert_eq!(merged(HOST, &host(0, 600), &host(600, 400)), "");
}

#[test]
fn zero_in_a_wrapper_is_checked_where_none_is_set() {
    let zero =
        json!({"ring_hash_lb_config": {"minimum_ring_size": 0}, "circuit_breakers": {"thresholds": []}});
    assert_eq!(merged(CLUSTER, &json!({"name": "a"}), &zero), "");
    let socket = |value: Json| json!({"name": "a", "transport_socket": value});
    let why = "transport_socket.name has 0 characters; it must have at least 1";
    assert_eq!(merged(CLUSTER, &json!({"name": "a"}), &socket(json!({}))), why);
}
