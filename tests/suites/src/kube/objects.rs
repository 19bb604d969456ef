//! Kubernetes objects for suites: builders that name only the relevant fields, and [`With`] for the rest.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Map, Value, json};

/// Further fields of an object.
pub trait With {
    /// Merges these fields over its own: objects are merged, null removes, everything else is replaced.
    #[must_use]
    fn with(self, more: Value) -> Self;
}

impl With for Value {
    fn with(mut self, more: Value) -> Self {
        merge(&mut self, more);
        self
    }
}

fn merge(into: &mut Value, more: Value) {
    let Value::Object(fields) = more else {
        *into = more;
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(own) = into else { return };
    for (name, value) in fields {
        if value.is_null() {
            own.remove(&name);
        } else {
            merge(own.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Returns a namespace.
pub fn mk_namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Returns a Service that selects `app: NAME`; ports are (name, number, target).
pub fn mk_service(namespace: &str, name: &str, ports: &[(&str, u16, u16)]) -> Value {
    let port = |&(name, port, target): &(&str, u16, u16)| json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"});
    let ports: Vec<Value> = ports.iter().map(port).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"app": name}, "ports": ports},
    })
}

/// Returns a slice of a Service with ready addresses without pods; ports are (name, number).
pub fn mk_slice(
    namespace: &str,
    service: &str,
    slice: &str,
    addresses: &[&str],
    ports: &[(&str, u16)],
) -> Value {
    let endpoint = |address: &&str| json!({"addresses": [address], "conditions": {"ready": true}});
    let port = |&(name, port): &(&str, u16)| json!({"name": name, "port": port, "protocol": "TCP"});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": namespace, "name": slice,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": if addresses.iter().any(|address| address.contains(':')) { "IPv6" } else { "IPv4" },
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": ports.iter().map(port).collect::<Vec<_>>(),
    })
}

/// Slices of a Service with these endpoints, one for each port that they listen on.
pub fn mk_slices(namespace: &str, service: &str, port: &str, hosts: &[SocketAddr]) -> Vec<Value> {
    let mut by_port: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for host in hosts {
        by_port.entry(host.port()).or_default().push(host.ip().to_string());
    }
    let slice = |(number, addresses): (u16, Vec<String>)| {
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        mk_slice(namespace, service, &format!("{service}-{number}"), &addresses, &[(port, number)])
    };
    by_port.into_iter().map(slice).collect()
}

/// Returns a ready pod with this address on this node.
pub fn mk_pod(namespace: &str, name: &str, ip: &str, node: &str, labels: &[(&str, &str)]) -> Value {
    let labels: Map<String, Value> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Returns a node with a region and zone.
pub fn mk_node(name: &str, region: &str, zone: &str) -> Value {
    let labels = json!({"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": zone});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_merged_and_null_removes() {
        let service = mk_service("shop", "pay", &[("http", 80, 8080)]).with(
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"selector": null, "clusterIP": "None"}}),
        );
        assert_eq!(service["metadata"]["name"], "pay");
        assert_eq!(service["metadata"]["labels"]["a"], "b");
        assert_eq!(service["spec"]["selector"], Value::Null);
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 8080);
    }
}
