//! A ConfigMap of mesh configuration: its two documents, read part by part.

use serde::Deserialize;

use super::meta::{Meta, RawMeta};
use super::text::Pairs;
use crate::input::Kind;
use crate::interner::Interner;
use crate::mesh::Mesh;

/// Mesh configuration, as far as it is honoured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshConfig {
    /// Its metadata.
    pub meta: Meta,
    /// What it says.
    pub mesh: Mesh,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    #[serde(borrow, default)]
    data: Option<Pairs<'a>>,
}

impl MeshConfig {
    /// From the object's JSON. A document that is not valid is a fault of what it says, not of the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let Raw { metadata, data } = super::read(json)?;
        let data = data.unwrap_or_default();
        let mesh = Mesh::read(data.get("mesh"), data.get("meshNetworks"));
        Ok(Self { meta: metadata.meta(Kind::MeshConfig)?, mesh })
    }
    /// Exchanges what others have too for the shared copy.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_documents_are_read_and_neither_need_be_there() {
        let json = |data: &str| format!(r#"{{"metadata":{{"name":"istio","namespace":"s"}},"data":{data}}}"#);
        let read = |data: &str| MeshConfig::parse(&json(data)).unwrap().mesh;
        let both = read(r#"{"mesh":"trustDomain: a.test","meshNetworks":"networks: {n: {}}"}"#);
        assert_eq!((both.trust_domain.as_deref(), both.networks.iter().count()), (Some("a.test"), 1));
        assert_eq!(read("null"), Mesh::default());
        assert_eq!(read(r#"{"other":"["}"#), Mesh::default());
        assert!(read(r#"{"mesh":"["}"#).complaint().is_some());
    }
}
