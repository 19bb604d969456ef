//! The JSON that Consul answers, as far as it is used.
//!
//! Called with the body of a 200. Tolerant: fields that are not known are ignored, and `null` or nothing is an
//! empty list or text. Bounded: what is too long is refused whole, because an answer that was cut would look like
//! a removal. A check's output is never kept.

pub mod lists;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// The longest body that is read.
pub const MAX_BODY: usize = 64 << 20;
/// The most instances of one service, or services of one datacenter, that are taken.
pub const MAX_ITEMS: usize = 100_000;
/// The most tags, checks, ports or pairs of one instance that are taken.
pub const MAX_PARTS: usize = 1_024;

/// Why a body is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Somebody else's answer.
    #[error("the answer is {0:?}, not JSON; check that the address is Consul's and not a proxy's")]
    NotJson(String),
    /// Too long.
    #[error("the answer has more {what} than {limit}; select fewer services")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much is taken.
        limit: usize,
    },
    /// Cut short, or of another shape.
    #[error("the answer cannot be read: {0}; check that the address is Consul's")]
    Shape(#[from] serde_json::Error),
}

/// One instance of a service: its node, itself, its checks and its node's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthEntry {
    /// Where it runs.
    pub node: Node,
    /// What it is.
    pub service: Service,
    /// What is checked.
    #[serde(default, deserialize_with = "or_default")]
    pub checks: Vec<Check>,
}

/// A node of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Node {
    /// Its name.
    pub node: String,
    /// Its address.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
    /// Its datacenter.
    #[serde(default, deserialize_with = "or_default")]
    pub datacenter: String,
    /// Its partition.
    #[serde(default, deserialize_with = "or_default")]
    pub partition: String,
    /// The peer that it was imported from.
    #[serde(default, deserialize_with = "or_default")]
    pub peer_name: String,
    /// Its addresses per network.
    #[serde(default, deserialize_with = "or_default")]
    pub tagged_addresses: BTreeMap<String, String>,
    /// What else is said of it.
    #[serde(default, deserialize_with = "or_default")]
    pub meta: BTreeMap<String, String>,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub locality: Option<Locality>,
}

/// An instance's own part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Service {
    /// Unique on its node.
    #[serde(rename = "ID", default, deserialize_with = "or_default")]
    pub id: String,
    /// The service's name.
    pub service: String,
    /// Empty, or what kind of helper it is.
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    /// Its tags.
    #[serde(default, deserialize_with = "or_default")]
    pub tags: Vec<String>,
    /// Its address; empty for its node's.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
    /// Its addresses per network.
    #[serde(default, deserialize_with = "or_default")]
    pub tagged_addresses: BTreeMap<String, Tagged>,
    /// Its one port; 0 for none.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i64,
    /// Its named ports, which stand instead of the one.
    #[serde(default, deserialize_with = "or_default")]
    pub ports: Vec<NamedPort>,
    /// A unix socket instead of an address.
    #[serde(default, deserialize_with = "or_default")]
    pub socket_path: String,
    /// What else is said of it.
    #[serde(default, deserialize_with = "or_default")]
    pub meta: BTreeMap<String, String>,
    /// Its share of traffic.
    #[serde(default, deserialize_with = "or_default")]
    pub weights: Option<Weights>,
    /// Where it stands.
    #[serde(default, deserialize_with = "or_default")]
    pub locality: Option<Locality>,
    /// Its namespace.
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    /// Its partition.
    #[serde(default, deserialize_with = "or_default")]
    pub partition: String,
    /// The peer that it was imported from.
    #[serde(default, deserialize_with = "or_default")]
    pub peer_name: String,
}

/// A check's outcome, without its output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Check {
    /// Its id, by which maintenance is known.
    #[serde(rename = "CheckID", default, deserialize_with = "or_default")]
    pub check_id: String,
    /// `passing`, `warning`, `critical`, `maintenance`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
}

/// An address of one network.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Tagged {
    /// The address.
    #[serde(default, deserialize_with = "or_default")]
    pub address: String,
    /// The port there; 0 for the instance's own.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i64,
}

/// A port with a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NamedPort {
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// Its number.
    #[serde(default, deserialize_with = "or_default")]
    pub port: i64,
    /// Whether it is the one that is meant where none is named.
    #[serde(default, deserialize_with = "or_default")]
    pub default: bool,
}

/// An instance's share of traffic by its state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Weights {
    /// While it passes.
    #[serde(default, deserialize_with = "or_default")]
    pub passing: i64,
    /// While it warns.
    #[serde(default, deserialize_with = "or_default")]
    pub warning: i64,
}

/// Region and zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Locality {
    /// The region.
    #[serde(default, deserialize_with = "or_default")]
    pub region: String,
    /// The zone.
    #[serde(default, deserialize_with = "or_default")]
    pub zone: String,
}

/// The answer of `/v1/health/service/NAME`.
pub fn health(content_type: Option<&str>, body: &[u8]) -> Result<Vec<HealthEntry>, WireError> {
    let entries: Vec<HealthEntry> = read(content_type, body)?;
    at_most("instances", entries.len(), MAX_ITEMS)?;
    entries.iter().try_for_each(parts)?;
    Ok(entries)
}

/// The answer of `/v1/catalog/services`: names and the union of their instances' tags.
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

/// Consul writes `null` for what is empty.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: Option<&str> = Some("application/json");

    #[test]
    fn an_entry_is_read_and_what_is_not_known_is_ignored() {
        let body = br#"[{"Node":{"ID":"x","Node":"n1","Address":"10.0.0.1","Datacenter":"dc1",
            "TaggedAddresses":{"wan":"1.2.3.4"},"Meta":{"rack":"7"},"Locality":{"Region":"eu","Zone":"a"}},
            "Service":{"ID":"web-1","Service":"web","Tags":["v1"],"Port":8080,"New":{"deep":[1]},
            "TaggedAddresses":{"wan":{"Address":"1.2.3.5","Port":81}},"Weights":{"Passing":3,"Warning":1},
            "Ports":[{"Name":"admin","Port":9,"Default":true}]},
            "Checks":[{"CheckID":"serfHealth","Status":"passing","Output":"long"}]}]"#;
        let entries = health(JSON, body).unwrap();
        let HealthEntry { node, service, checks } = &entries[0];
        assert_eq!((node.node.as_str(), node.tagged_addresses["wan"].as_str()), ("n1", "1.2.3.4"));
        assert_eq!((service.id.as_str(), service.port, service.tags.len()), ("web-1", 8080, 1));
        assert_eq!(service.tagged_addresses["wan"], Tagged { address: "1.2.3.5".into(), port: 81 });
        assert_eq!(service.ports, [NamedPort { name: "admin".into(), port: 9, default: true }]);
        assert_eq!(service.weights, Some(Weights { passing: 3, warning: 1 }));
        assert_eq!(checks, &[Check { check_id: "serfHealth".into(), status: "passing".into() }]);
    }

    #[test]
    fn null_is_nothing() {
        let body = br#"[{"Node":{"Node":"n","TaggedAddresses":null,"Meta":null,"Locality":null},
            "Service":{"Service":"s","Tags":null,"Meta":null,"TaggedAddresses":null,"Ports":null,"Weights":null,
            "Port":null},"Checks":null}]"#;
        let entry = health(JSON, body).unwrap().remove(0);
        let (node, service) = (mk_node("n"), Service { service: "s".into(), ..Service::default() });
        assert_eq!(entry, HealthEntry { node, service, checks: vec![] });
    }

    fn mk_node(name: &str) -> Node {
        Node { node: name.into(), ..Node::default() }
    }

    #[test]
    fn an_answer_that_is_not_consuls_is_an_error_and_never_an_empty_list() {
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
    fn too_much_is_refused_whole() {
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
