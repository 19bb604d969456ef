//! Values of EnvoyFilters, as pilot-discovery reads or refuses them.

use serde_json::json;

use super::*;
use crate::Decoder;

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const HTTP_FILTER: &str = "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter";
const LUA: &str = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua";

fn read(of: &str, value: &Json) -> Result<(Json, Vec<String>), String> {
    let read = Types::shared().unwrap().read(of, value);
    let read = read.map_err(|error| format!("{} {}", error.at, error.why))?;
    let shown = Decoder::new().unwrap().decode(of, &read.bytes);
    Ok((shown, read.unknown.iter().map(ToString::to_string).collect()))
}

#[test]
fn both_names_of_a_field_are_known_and_that_of_json_wins() {
    let (shown, _) = read(CLUSTER, &json!({"connectTimeout": "2s", "connect_timeout": "1s"})).unwrap();
    assert_eq!(shown, json!({"connect_timeout": "2s"}));
}

#[test]
fn numbers_texts_enums_and_wrappers_are_read() {
    let value = json!({"lb_policy": 1, "per_connection_buffer_limit_bytes": "32", "dns_lookup_family": "V4_ONLY",
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": 7}}, "name": null});
    let (shown, _) = read(CLUSTER, &value).unwrap();
    assert_eq!(
        (&shown["lb_policy"], &shown["dns_lookup_family"]),
        (&json!("LEAST_REQUEST"), &json!("V4_ONLY"))
    );
    assert_eq!(shown["per_connection_buffer_limit_bytes"], 32);
    assert_eq!(shown["upstream_connection_options"]["tcp_keepalive"]["keepalive_time"], 7);
    assert_eq!(shown.get("name"), None);
}

#[test]
fn wrong_values_are_refused_with_their_path() {
    for (value, at) in [
        (json!({"per_connection_buffer_limit_bytes": "x"}), "per_connection_buffer_limit_bytes"),
        (json!({"per_connection_buffer_limit_bytes": -1}), "per_connection_buffer_limit_bytes"),
        (json!({"per_connection_buffer_limit_bytes": 1.5}), "per_connection_buffer_limit_bytes"),
        (json!({"name": 7}), "name"),
        (json!({"connect_timeout": "1"}), "connect_timeout"),
        (json!({"connect_timeout": 1}), "connect_timeout"),
        (json!({"lb_policy": "NOPE"}), "lb_policy"),
        (json!({"circuit_breakers": []}), "circuit_breakers"),
        (json!({"health_checks": {}}), "health_checks"),
        (json!({"health_checks": [{}, {"timeout": 1}]}), "health_checks[1].timeout"),
        (json!({"transport_socket": {"typed_config": {"sni": "x"}}}), "transport_socket.typed_config"),
        (
            json!({"transport_socket": {"typed_config": {"@type": "a/no.Such"}}}),
            "transport_socket.typed_config",
        ),
        (json!([]), ""),
    ] {
        let error = read(CLUSTER, &value).unwrap_err();
        assert!(error.starts_with(&format!("{at} ")), "{value}: {error}");
    }
}

#[test]
fn unknown_fields_are_left_out_and_returned() {
    let (shown, unknown) = read(
        HTTP_FILTER,
        &json!({"name": "x", "config": {"a": 1}, "typed_config": {"@type": LUA, "nope": 1}}),
    )
    .unwrap();
    assert_eq!(shown, json!({"name": "x", "typed_config": {"@type": LUA}}));
    assert_eq!(unknown, ["config", "typed_config.nope"]);
    let many: serde_json::Map<_, _> = (0..100).map(|i| (format!("u{i}"), Json::Null)).collect();
    assert_eq!(read(CLUSTER, &Json::Object(many)).unwrap().1.len(), MAX_UNKNOWN);
}

#[test]
fn nested_types_need_no_host_and_may_be_structs() {
    let name = "envoy.extensions.filters.http.lua.v3.Lua";
    for (url, kept) in [
        (name, LUA),
        ("x.y/envoy.extensions.filters.http.lua.v3.Lua", "x.y/envoy.extensions.filters.http.lua.v3.Lua"),
    ] {
        let (shown, _) = read(HTTP_FILTER, &json!({"typed_config": {"@type": url}})).unwrap();
        assert_eq!(shown["typed_config"]["@type"], kept);
    }
    for package in ["udpa.type.v1", "xds.type.v3"] {
        let url = format!("type.googleapis.com/{package}.TypedStruct");
        let value =
            json!({"@type": url, "type_url": "no.Such", "value": {"b": [1, null, {"c": true}], "a": "x"}});
        let bytes =
            Types::shared().unwrap().read(HTTP_FILTER, &json!({"typed_config": value})).unwrap().bytes;
        assert!(bytes.windows(7).any(|part| part == b"no.Such"));
        assert_eq!(
            bytes,
            Types::shared().unwrap().read(HTTP_FILTER, &json!({"typed_config": value})).unwrap().bytes
        );
    }
    let url = "type.googleapis.com/google.protobuf.StringValue";
    let (shown, _) = read(HTTP_FILTER, &json!({"typed_config": {"@type": url, "value": "x"}})).unwrap();
    assert_eq!(shown["typed_config"]["value"], "x");
}

#[test]
fn deep_value_is_refused() {
    let mut value = json!("x");
    for _ in 0..200 {
        value = json!({"a": value});
    }
    let error = read(CLUSTER, &json!({"metadata": {"filter_metadata": {"m": value}}})).unwrap_err();
    assert!(error.ends_with("is nested too deep"), "{error}");
}

#[test]
fn of_two_branches_of_a_oneof_the_later_one_is_set() {
    let (shown, _) = read(CLUSTER, &json!({"cluster_type": {"name": "x"}, "type": "EDS"})).unwrap();
    assert_eq!(shown, json!({"cluster_type": {"name": "x"}}));
}
