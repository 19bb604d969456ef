//! ServiceExport and ServiceImport of the multi-cluster services API, in each of its versions.

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tributary_model::PortNumber;

use super::meta::{Meta, RawMeta};
use super::text::Text;
use crate::interner::Interner;
use crate::kind::Kind;

const MOST: usize = 1024;

/// ServiceExport: offers the Service of the same name to other clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Metadata.
    pub meta: Meta,
}

/// ServiceImport: uses a multi-cluster service in this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Metadata.
    pub meta: Meta,
    /// Virtual addresses in this cluster, sorted; empty for a headless import.
    pub ips: Box<[IpAddr]>,
    /// Ports of the import, sorted.
    pub ports: Box<[PortNumber]>,
}

#[derive(Deserialize)]
struct RawImport<'a> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    #[serde(borrow, default)]
    spec: Option<RawFields<'a>>,
    /// Later versions have the fields at the top level.
    #[serde(borrow, flatten)]
    top: RawFields<'a>,
}

#[derive(Deserialize, Default)]
struct RawFields<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    ips: Option<Vec<Text<'a>>>,
    #[serde(default)]
    ports: Option<Vec<RawPort>>,
}

#[derive(Deserialize)]
struct RawPort {
    port: u32,
}

impl Export {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, IgnoredAny, IgnoredAny) = super::read::read_object(json)?;
        Ok(Self { meta: metadata.meta(Kind::Export)? })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}

impl Import {
    /// Decodes the object. Ignores invalid addresses.
    pub fn parse(json: &str) -> Result<Self, String> {
        let RawImport { metadata, spec, top } = super::read::read(json)?;
        let spec = spec.unwrap_or_default();
        let kind = spec.kind.or(top.kind);
        let ips = spec.ips.or(top.ips).filter(|_| kind.as_deref() != Some("Headless")).unwrap_or_default();
        let ports = spec.ports.or(top.ports).unwrap_or_default();
        super::read::bounded("ips", &ips, MOST)?;
        super::read::bounded("ports", &ports, MOST)?;
        let mut ips: Vec<IpAddr> = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
        let mut ports: Vec<PortNumber> =
            ports.iter().filter_map(|port| PortNumber::new(port.port).ok()).collect();
        ips.sort_unstable();
        ips.dedup();
        ports.sort_unstable();
        ports.dedup();
        Ok(Self { meta: metadata.meta(Kind::Import)?, ips: ips.into(), ports: ports.into() })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(fields: &str) -> Import {
        let json = format!(r#"{{"apiVersion":"x","metadata":{{"name":"pay","namespace":"shop"}},{fields}}}"#);
        Import::parse(&json).unwrap()
    }

    #[test]
    fn fields_are_read_at_the_level_of_each_version() {
        let fields = r#"{"type":"ClusterSetIP","ips":["10.9.0.2","junk","10.9.0.1"],"ports":[{"port":443},{"port":80,"name":"http"}]}"#;
        let inner = mk(&format!(r#""spec":{fields}"#));
        let ips: Vec<String> = inner.ips.iter().map(ToString::to_string).collect();
        assert_eq!(ips, ["10.9.0.1", "10.9.0.2"], "sorted, without invalid ones");
        assert_eq!(inner.ports.iter().map(|p| p.get()).collect::<Vec<_>>(), [80, 443]);
        let top = mk(&fields[1..fields.len() - 1]);
        assert_eq!(top, inner);
    }

    #[test]
    fn headless_import_has_no_address() {
        assert!(mk(r#""spec":{"type":"Headless","ips":["10.9.0.1"]}"#).ips.is_empty());
        assert!(mk(r#""spec":{"type":"ClusterSetIP"}"#).ips.is_empty());
        assert!(mk(r#""status":{}"#).ips.is_empty());
    }
}
