//! JSON formats of Consul's answers, as far as they are used.
//!
//! Called with the body of an answer with status 200. Tolerant: unknown fields are ignored, and `null` or an absent
//! field is empty. Bounded: a body over a limit is rejected as a whole, because a truncated one would look like a
//! removal. The output of checks is never kept.

pub mod lists;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Maximum body size in bytes.
pub const MAX_BODY: usize = 64 << 20;
/// Maximum instances of one service, or services of one datacenter.
pub const MAX_ITEMS: usize = 100_000;
/// Maximum tags, checks, ports or pairs of one instance.
pub const MAX_PARTS: usize = 1_024;

/// Error in a body.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The answer is not Consul's.
    #[error("the answer is {0:?}, not JSON; check that the address is Consul's and not a proxy's")]
    NotJson(String),
    /// The answer exceeds a limit.
    #[error("the answer has more {what} than {limit}; select fewer services")]
    TooMany {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The body is truncated or has another shape.
    #[error("the answer cannot be parsed: {0}; check that the address is Consul's")]
    Shape(#[from] serde_json::Error),
}

/// One instance of a service: its node, its service part, and the checks of both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthEntry {
    /// The node.
    pub node: Node,
    /// The service part.
    pub service: Service,
    /// Checks of the instance and of its node.
    #[serde(default, deserialize_with = "or_default")]
    pub checks: Vec<Check>,
}

/// Node of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Node {
    /// Name.
    pub node: String,
    /// Address.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
    /// Datacenter.
    #[serde(default, deserialize_with = "or_default")]
    pub datacenter: String,
    /// Partition.
    #[serde(default, deserialize_with = "or_default")]
    pub partition: String,
    /// Peer that it was imported from.
    #[serde(default, deserialize_with = "or_default")]
    pub peer_name: String,
    /// Addresses per network.
    #[serde(default, deserialize_with = "or_default")]
    pub tagged_addresses: BTreeMap<String, String>,
    /// Meta.
    #[serde(default, deserialize_with = "or_default")]
    pub meta: BTreeMap<String, String>,
    /// Region and zone.
    #[serde(default, deserialize_with = "or_default")]
    pub locality: Option<Locality>,
}

/// Service part of an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Service {
    /// Id, unique on its node.
    #[serde(rename = "ID", default, deserialize_with = "or_default")]
    pub id: String,
    /// Name of the service.
    pub service: String,
    /// Kind; empty for a plain service.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    /// Tags.
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    /// Address; empty for its node's.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
    /// Addresses per network.
    #[serde(default, deserialize_with = "or_default")]
    pub tagged_addresses: BTreeMap<String, Tagged>,
    /// Port; 0 for none.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i64,
    /// Named ports, in place of `port`.
    #[serde(default, deserialize_with = "or_default")]
    pub ports: Vec<NamedPort>,
    /// Unix socket in place of an address.
    #[serde(default, deserialize_with = "or_default")]
    pub socket_path: String,
    /// Meta.
    #[serde(default, deserialize_with = "or_default")]
    pub meta: BTreeMap<String, String>,
    /// Part in Consul's mesh.
    #[serde(default, deserialize_with = "or_default")]
    pub connect: Connect,
    /// Weights.
    #[serde(default, deserialize_with = "or_default")]
    pub weights: Option<Weights>,
    /// Region and zone.
    #[serde(default, deserialize_with = "or_default")]
    pub locality: Option<Locality>,
    /// Namespace.
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    /// Partition.
    #[serde(default, deserialize_with = "or_default")]
    pub partition: String,
    /// Peer that it was imported from.
    #[serde(default, deserialize_with = "or_default")]
    pub peer_name: String,
}

impl Service {
    /// Returns whether it is a plain service. Proxies and gateways have a kind, and so may what a later Consul adds.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.kind.is_empty()
    }
}

/// Part of an instance in Consul's mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Connect {
    /// Whether the instance itself speaks the mesh's TLS, without a sidecar.
    #[serde(default, deserialize_with = "or_default")]
    pub native: bool,
}

/// Status of a check, without its output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Check {
    /// Id; maintenance checks have fixed ids.
    #[serde(rename = "CheckID", default, deserialize_with = "or_default")]
    pub check_id: String,
    /// `passing`, `warning`, `critical`, `maintenance`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
}

/// Address in one network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Tagged {
    /// Address.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
    /// Port; 0 for the instance's own.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i64,
}

/// Named port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NamedPort {
    /// Name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Number.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i64,
    /// Whether it is the default port.
    #[serde(default, deserialize_with = "or_default")]
    pub default: bool,
}

/// Weights of an instance by its state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Weights {
    /// Weight in passing state.
    #[serde(default, deserialize_with = "or_default")]
    pub passing: i64,
    /// Weight in warning state.
    #[serde(default, deserialize_with = "or_default")]
    pub warning: i64,
}

/// Region and zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Locality {
    /// Region.
    #[serde(default, deserialize_with = "or_default")]
    pub region: String,
    /// Zone.
    #[serde(default, deserialize_with = "or_default")]
    pub zone: String,
}

/// Parses the answer of `/v1/health/service/NAME`.
pub fn health(content_type: Option<&str>, body: &[u8]) -> Result<Vec<HealthEntry>, WireError> {
    let entries: Vec<HealthEntry> = read(content_type, body)?;
    at_most("instances", entries.len(), MAX_ITEMS)?;
    entries.iter().try_for_each(parts)?;
    Ok(entries)
}

/// Parses the answer of `/v1/catalog/services`: names, each with the union of its instances' tags.
pub fn services(content_type: Option<&str>, body: &[u8]) -> Result<BTreeMap<String, Vec<String>>, WireError> {
    let named: BTreeMap<String, Option<Vec<String>>> = read(content_type, body)?;
    at_most("services", named.len(), MAX_ITEMS)?;
    Ok(named.into_iter().map(|(name, tags)| (name, tags.unwrap_or_default())).collect())
}

fn read<'a, T: Deserialize<'a>>(content_type: Option<&str>, body: &'a [u8]) -> Result<T, WireError> {
    if let Some(other) = content_type.filter(|kind| !kind.to_ascii_lowercase().contains("json")) {
        return Err(WireError::NotJson(other.chars().take(80).collect()));
    }
    at_most("bytes", body.len(), MAX_BODY)?;
    Ok(serde_json::from_slice(body)?)
}

fn parts(entry: &HealthEntry) -> Result<(), WireError> {
    let HealthEntry { node, service, checks } = entry;
    at_most("checks of one instance", checks.len(), MAX_PARTS)?;
    at_most("tags of one instance", service.tags.len(), MAX_PARTS)?;
    at_most("ports of one instance", service.ports.len(), MAX_PARTS)?;
    at_most("meta of one instance", service.meta.len().max(node.meta.len()), MAX_PARTS)?;
    let tagged = service.tagged_addresses.len().max(node.tagged_addresses.len());
    at_most("tagged addresses of one instance", tagged, MAX_PARTS)
}

const fn at_most(what: &'static str, have: usize, limit: usize) -> Result<(), WireError> {
    if have > limit { Err(WireError::TooMany { what, limit }) } else { Ok(()) }
}

/// Reads `null`, which Consul writes for empty values, as the default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Option<&str> = Some("application/json");

    #[test]
    fn entry_is_parsed_and_unknown_fields_are_ignored() {
        let body = br#"[{"Node":{"ID":"x","Node":"n1","Address":"10.0.0.1","Datacenter":"dc1",
            "TaggedAddresses":{"wan":"1.2.3.4"},"Meta":{"rack":"7"},"Locality":{"Region":"eu","Zone":"a"}},
            "Service":{"ID":"web-1","Service":"web","Tags":["v1"],"Port":8080,"New":{"deep":[1]},
            "TaggedAddresses":{"wan":{"Address":"1.2.3.5","Port":81}},"Weights":{"Passing":3,"Warning":1},
            "Connect":{"Native":true},
            "Ports":[{"Name":"admin","Port":9,"Default":true}]},
            "Checks":[{"CheckID":"serfHealth","Status":"passing","Output":"long"}]}]"#;
        let entries = health(JSON, body).unwrap();
        let HealthEntry { node, service, checks } = &entries[0];
        assert_eq!((node.node.as_str(), node.tagged_addresses["wan"].as_str()), ("n1", "1.2.3.4"));
        assert_eq!((service.id.as_str(), service.port, service.tags.len()), ("web-1", 8080, 1));
        assert_eq!(service.tagged_addresses["wan"], Tagged { address: "1.2.3.5".into(), port: 81 });
        assert_eq!(service.ports, [NamedPort { name: "admin".into(), port: 9, default: true }]);
        assert!(service.connect.native);
        assert_eq!(service.weights, Some(Weights { passing: 3, warning: 1 }));
        assert_eq!(checks, &[Check { check_id: "serfHealth".into(), status: "passing".into() }]);
    }

    #[test]
    fn null_is_the_default() {
        let body = br#"[{"Node":{"Node":"n","TaggedAddresses":null,"Meta":null,"Locality":null},
            "Service":{"Service":"s","Tags":null,"Meta":null,"TaggedAddresses":null,"Ports":null,"Weights":null,
            "Port":null,"Connect":null},"Checks":null}]"#;
        let entry = health(JSON, body).unwrap().remove(0);
        let (node, service) = (mk_node("n"), Service { service: "s".into(), ..Service::default() });
        assert_eq!(entry, HealthEntry { node, service, checks: vec![] });
    }

    fn mk_node(name: &str) -> Node {
        Node { node: name.into(), ..Node::default() }
    }

    #[test]
    fn foreign_answer_is_an_error_and_never_an_empty_list() {
        let page = b"<html>log in</html>";
        assert!(matches!(health(Some("text/html"), page), Err(WireError::NotJson(_))));
        assert!(matches!(health(Some("text/html"), b"[]"), Err(WireError::NotJson(_))));
        for body in [&page[..], b"", b"null", b"{}", b"[{}]", br#"[{"Node":{"Node":"n"},"Serv"#, b"[] []"] {
            assert!(
                matches!(health(JSON, body), Err(WireError::Shape(_))),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
        assert_eq!(health(Some("application/json; charset=utf-8"), b"[]").unwrap(), []);
    }

    #[test]
    fn answer_over_a_limit_is_refused_as_a_whole() {
        let tags = vec!["\"t\""; MAX_PARTS + 1].join(",");
        let body = format!(r#"[{{"Node":{{"Node":"n"}},"Service":{{"Service":"s","Tags":[{tags}]}}}}]"#);
        let error = health(JSON, body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("tags of one instance than 1024"), "{error}");
    }

    #[test]
    fn services_are_names_with_tags() {
        let named = services(JSON, br#"{"consul":[],"web":["a","b"],"odd name/#":null}"#).unwrap();
        assert_eq!(named.keys().collect::<Vec<_>>(), ["consul", "odd name/#", "web"]);
        assert_eq!(named["web"], ["a", "b"]);
        assert!(named["odd name/#"].is_empty());
        assert!(services(JSON, b"[]").is_err());
    }
}
