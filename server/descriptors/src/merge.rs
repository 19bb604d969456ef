//! Merges messages as protobuf does, with Istio's exceptions: durations and nested messages of any type are replaced whole,
//! and so are the entries of maps.

use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};

use crate::types::ANY;

/// Full name of durations.
const DURATION: &str = "google.protobuf.Duration";

/// Merges a message of the same type into another one: set fields replace, lists append, messages merge.
pub fn merge(into: &mut DynamicMessage, from: &DynamicMessage) {
    for (field, value) in from.fields() {
        merge_field(into, &field, value);
    }
}

fn merge_field(into: &mut DynamicMessage, field: &FieldDescriptor, value: &Value) {
    let is_set = into.has_field(field);
    match value {
        Value::List(more) if is_set => {
            if let Value::List(items) = into.get_field_mut(field) {
                items.extend_from_slice(more);
            }
        }
        Value::Map(more) if is_set => {
            if let Value::Map(entries) = into.get_field_mut(field) {
                entries.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        Value::Message(more) if is_set && !is_whole(more) => {
            if let Value::Message(message) = into.get_field_mut(field) {
                merge(message, more);
            }
        }
        value => into.set_field(field, value.clone()),
    }
}

/// Whether a message is replaced whole.
pub(crate) fn is_whole(message: &DynamicMessage) -> bool {
    matches!(message.descriptor().full_name(), ANY | DURATION)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::{Decoder, Types, encode};

    const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

    fn merged(old: &Json, patch: &Json) -> Json {
        let types = Types::shared().unwrap();
        let message = |value| types.decode(CLUSTER, &types.read(CLUSTER, value).unwrap().bytes).unwrap();
        let mut into = message(old);
        merge(&mut into, &message(patch));
        Decoder::new().unwrap().decode(CLUSTER, &encode(&into))
    }

    #[test]
    fn lists_append_and_messages_merge() {
        let one = |port: u32| json!({"address": {"socket_address": {"address": "a", "port_value": port}}});
        let lists = |ports: &[u32]| {
            let all: Vec<_> = ports.iter().map(|port| json!({"endpoint": one(*port)})).collect();
            json!({"name": "c", "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": all}]}})
        };
        let out = merged(&lists(&[1]), &lists(&[2]));
        assert_eq!(out["load_assignment"]["endpoints"].as_array().map(Vec::len), Some(2));
        let out = merged(
            &json!({"circuit_breakers": {"thresholds": [{"max_retries": 1}]}, "ignore_health_on_host_removal": true}),
            &json!({"circuit_breakers": {"thresholds": [{"max_requests": 2}]}}),
        );
        let expected = json!([{"max_retries": 1}, {"max_requests": 2}]);
        assert_eq!(out["circuit_breakers"]["thresholds"], expected);
        assert_eq!(out["ignore_health_on_host_removal"], true);
    }

    #[test]
    fn entries_of_maps_durations_and_nested_types_are_replaced() {
        let with = |value: Json| json!({"metadata": {"filter_metadata": {"a": value}}});
        let out = merged(&with(json!({"x": 1})), &with(json!({"y": 2})));
        assert_eq!(out["metadata"]["filter_metadata"]["a"], json!({"y": 2.0}));
        let out = merged(&json!({"connect_timeout": "1.5s"}), &json!({"connect_timeout": "2s"}));
        assert_eq!(out["connect_timeout"], "2s");
        let out = merged(&json!({"connect_timeout": "1.5s"}), &json!({"connect_timeout": "0s"}));
        assert_eq!(out["connect_timeout"], "0s");
        let socket = |value: Json| json!({"transport_socket": {"name": "t", "typed_config": value}});
        let tls = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        let out = merged(
            &socket(json!({"@type": tls, "sni": "old", "allow_renegotiation": true})),
            &socket(json!({"@type": tls, "sni": "new"})),
        );
        assert_eq!(out["transport_socket"]["typed_config"], json!({"@type": tls, "sni": "new"}));
    }

    #[test]
    fn zero_values_change_nothing_and_set_absent_wrappers() {
        let old = json!({"lb_policy": "LEAST_REQUEST", "per_connection_buffer_limit_bytes": 7});
        let zero =
            json!({"lb_policy": "ROUND_ROBIN", "per_connection_buffer_limit_bytes": 0, "alt_stat_name": ""});
        assert_eq!(merged(&old, &zero), old);
        let out = merged(&json!({"name": "c"}), &zero);
        assert_eq!(out, json!({"name": "c", "per_connection_buffer_limit_bytes": 0}));
    }

    #[test]
    fn other_branch_of_a_oneof_replaces() {
        let old = json!({"type": "EDS", "eds_cluster_config": {"service_name": "s"}});
        let out = merged(&old, &json!({"cluster_type": {"name": "x"}}));
        assert_eq!(out, json!({"cluster_type": {"name": "x"}, "eds_cluster_config": {"service_name": "s"}}));
    }
}
