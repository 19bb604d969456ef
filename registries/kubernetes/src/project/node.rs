//! Node: its locality and its external addresses.

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tributary_model::labels::{REGION, SUBZONE, ZONE};
use tributary_model::{Labels, Locality};

use super::meta::Meta;
use super::text::Text;
use crate::interner::Interner;
use crate::kind::Kind;

const REGION_OLD: &str = "failure-domain.beta.kubernetes.io/region";
const ZONE_OLD: &str = "failure-domain.beta.kubernetes.io/zone";
const MOST_ADDRESSES: usize = 256;

/// Node with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Metadata; labels select gateways.
    pub meta: Meta,
    /// Locality.
    pub locality: Locality,
    /// ExternalIP addresses, in the object's order.
    pub external: Box<[IpAddr]>,
}

#[derive(Deserialize, Default)]
struct RawStatus<'a> {
    #[serde(borrow, default)]
    addresses: Option<Vec<RawAddress<'a>>>,
}

#[derive(Deserialize)]
struct RawAddress<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    address: Text<'a>,
}

impl Node {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, IgnoredAny, status) = super::read::read_object::<_, RawStatus<'_>>(json)?;
        let meta = metadata.meta(Kind::Node)?;
        let addresses = status.addresses.unwrap_or_default();
        super::read::bounded("status.addresses", &addresses, MOST_ADDRESSES)?;
        let external = addresses.iter().filter(|a| &*a.kind == "ExternalIP");
        let external = external.filter_map(|a| a.address.parse().ok()).collect();
        Ok(Self { locality: locality(&meta.labels), meta, external })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}

fn locality(labels: &Labels) -> Locality {
    let of = |key, old| labels.get(key).or_else(|| labels.get(old)).unwrap_or_default();
    Locality::new(of(REGION, REGION_OLD), of(ZONE, ZONE_OLD), labels.get(SUBZONE).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &str, addresses: &str) -> Node {
        let json = format!(
            r#"{{"metadata":{{"name":"n1","labels":{labels}}},"spec":{{}},"status":{{"addresses":{addresses}}}}}"#
        );
        Node::parse(&json).unwrap()
    }

    #[test]
    fn locality_is_in_labels_with_legacy_names_as_fallback() {
        let new = r#"{"topology.kubernetes.io/region":"eu","topology.kubernetes.io/zone":"b","topology.istio.io/subzone":"r1"}"#;
        assert_eq!(node(new, "null").locality, Locality::new("eu", "b", "r1"));
        let old = r#"{"failure-domain.beta.kubernetes.io/region":"eu","failure-domain.beta.kubernetes.io/zone":"a","topology.kubernetes.io/zone":"b"}"#;
        assert_eq!(node(old, "[]").locality, Locality::new("eu", "b", ""));
        assert!(node("null", "[]").locality.is_empty());
    }

    #[test]
    fn only_external_ips_are_external() {
        let addresses = r#"[{"type":"InternalIP","address":"10.0.0.1"},{"type":"ExternalIP","address":"34.0.0.1"},
            {"type":"ExternalIP","address":"2001:db8::1"},{"type":"ExternalDNS","address":"n1.test"},{"type":"ExternalIP","address":"junk"}]"#;
        let external: Vec<IpAddr> = vec!["34.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(*node("{}", addresses).external, external);
    }
}
