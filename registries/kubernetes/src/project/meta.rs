//! What every object says of itself: name, version, creation time, labels.

use serde::Deserialize;
use tributary_model::{Labels, Namespace, ObjectVersion, Source, Timestamp};

use super::text::{Pairs, Text};
use crate::input::{Kind, Name};
use crate::interner::Interner;

/// An object's metadata, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Its name.
    pub name: Name,
    /// The server's version of it, for people; not compared.
    pub version: ObjectVersion,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: Labels,
}

impl Meta {
    /// Provenance of what is said by the object.
    #[must_use]
    pub fn source(&self, kind: Kind) -> Source {
        Source { version: self.version.clone(), ..Source::new(self.name.object(kind)) }
    }
    /// Exchanges what others have too for the shared copy.
    pub fn share(&mut self, shared: &mut Interner) {
        self.name.namespace = shared.text(&self.name.namespace);
        self.labels = shared.labels(&self.labels);
    }
}

/// Metadata as it stands in the document.
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

/// An owner of an object.
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
    /// An annotation's value.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key)
    }
    /// Checks what names are made of; a creation time that cannot be read counts as none.
    pub(crate) fn meta(&self, kind: Kind) -> Result<Meta, String> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        if kind.is_namespaced() || !namespace.is_empty() {
            Namespace::new(namespace).map_err(|error| format!("metadata.namespace: {error}"))?;
        }
        if self.name.is_empty() || self.name.len() > 253 || !self.name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("metadata.name: is not 1 to 253 visible characters".into());
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
