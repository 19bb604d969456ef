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
