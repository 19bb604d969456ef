//! Metadata of an object: name, version, creation time, labels.

use serde::Deserialize;
use tributary_model::{Labels, Namespace, ObjectVersion, Source, Timestamp};

use super::text::{Pairs, Text};
use crate::interner::Interner;
use crate::kind::{Kind, Name};

/// Metadata with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Name.
    pub name: Name,
    /// Resource version, for operators; not compared.
    pub version: ObjectVersion,
    /// Creation time.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: Labels,
}

impl Meta {
    /// Returns the source of facts from this object.
    #[must_use]
    pub fn source(&self, kind: Kind) -> Source {
        Source { version: self.version.clone(), ..Source::new(self.name.object(kind)) }
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.name.namespace = shared.text(&self.name.namespace);
        self.labels = shared.labels(&self.labels);
    }
}

/// Metadata as in the document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawMeta<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow, default)]
    pub(crate) namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource_version: Option<Text<'a>>,
    #[serde(borrow, default)]
    creation_timestamp: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) deletion_timestamp: Option<Text<'a>>,
    #[serde(borrow, default)]
    labels: Option<Pairs<'a>>,
    #[serde(borrow, default)]
    annotations: Option<Pairs<'a>>,
    #[serde(borrow, default)]
    pub(crate) owner_references: Option<Vec<RawOwner<'a>>>,
}

/// Owner of an object.
#[derive(Debug, Deserialize)]
pub(crate) struct RawOwner<'a> {
    #[serde(borrow)]
    pub(crate) kind: Text<'a>,
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(default)]
    pub(crate) controller: Option<bool>,
}

impl RawMeta<'_> {
    /// Returns the value of an annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key)
    }
    /// Validates the names; an invalid creation time counts as missing.
    pub(crate) fn meta(&self, kind: Kind) -> Result<Meta, String> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        if kind.is_namespaced() || !namespace.is_empty() {
            Namespace::new(namespace).map_err(|error| format!("metadata.namespace: {error}"))?;
        }
        if self.name.is_empty() || self.name.len() > 253 || !self.name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("metadata.name: it must have 1 to 253 visible characters".into());
        }
        let created = self.creation_timestamp.as_deref().and_then(|text| text.parse().ok());
        Ok(Meta {
            name: Name::new(namespace, &*self.name),
            version: ObjectVersion(self.resource_version.as_deref().unwrap_or_default().into()),
            created,
            labels: self.labels.as_ref().map(Pairs::labels).unwrap_or_default(),
        })
    }
}
