//! ConfigMap of mesh configuration: its two documents, read field by field.

use std::sync::Arc;

use serde::Deserialize;
use tributary_model::settings::MeshText;

use super::meta::{Meta, RawMeta};
use super::text::Pairs;
use crate::interner::Interner;
use crate::kind::Kind;
use crate::mesh::Mesh;

/// Mesh configuration with its supported fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshConfig {
    /// Metadata.
    pub meta: Meta,
    /// Values.
    pub mesh: Mesh,
    /// Both documents as written; those of the last version without invalid fields, if there was one.
    pub text: Arc<MeshText>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    #[serde(borrow, default)]
    data: Option<Pairs<'a>>,
}

impl MeshConfig {
    /// Decodes the object. An invalid document is a fault of its fields, not of the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let Raw { metadata, data } = super::read::read(json)?;
        let data = data.unwrap_or_default();
        let mesh = Mesh::read(data.get("mesh"), data.get("meshNetworks"));
        let text = |key: &str| data.get(key).unwrap_or_default().into();
        let text = Arc::new(MeshText { mesh: text("mesh"), networks: text("meshNetworks") });
        Ok(Self { meta: metadata.meta(Kind::MeshConfig)?, mesh, text })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_documents_are_read_and_both_are_optional() {
        let json = |data: &str| format!(r#"{{"metadata":{{"name":"istio","namespace":"s"}},"data":{data}}}"#);
        let read = |data: &str| MeshConfig::parse(&json(data)).unwrap().mesh;
        let both = read(r#"{"mesh":"trustDomain: a.test","meshNetworks":"networks: {n: {}}"}"#);
        assert_eq!((both.trust_domain.as_deref(), both.networks.iter().count()), (Some("a.test"), 1));
        assert_eq!(read("null"), Mesh::default());
        assert_eq!(read(r#"{"other":"["}"#), Mesh::default());
        assert!(read(r#"{"mesh":"["}"#).complaint().is_some());
    }
}
