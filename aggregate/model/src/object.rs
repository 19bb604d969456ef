//! Source objects: the provenance of facts.
//!
//! Adapters build these values; messages, problems and explain show them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::id::InvalidName;

/// Identity of one object of a source: kind, namespace and name. Adapters check the parts
/// before they build it. Ordered for stable output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ObjectId {
    /// Kind: `ServiceEntry`, `EndpointSlice`, `Instance`, …
    pub kind: &'static str,
    /// Namespace; empty if the source has no namespaces.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// Returns the static text of a kind's name, for names read from a file. New names stay allocated until
/// the process ends. Fails for an invalid name, and for a new name beyond [`MAX_KINDS`].
pub fn intern_kind(text: &str) -> Result<&'static str, InvalidName> {
    static KINDS: Mutex<BTreeSet<&'static str>> = parking_lot::const_mutex(BTreeSet::new());
    let fault = |why| Err(InvalidName::new("kind", text, why));
    if text.is_empty() || text.len() > 63 || !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return fault("is not 1 to 63 ASCII letters and digits");
    }
    let mut kinds = KINDS.lock();
    if let Some(known) = kinds.get(text) {
        return Ok(known);
    }
    if kinds.len() >= MAX_KINDS {
        return fault("exceeds the number of different kinds");
    }
    let kept: &'static str = Box::leak(text.into());
    kinds.insert(kept);
    Ok(kept)
}

/// Maximum number of kinds that [`intern_kind`] keeps.
pub const MAX_KINDS: usize = 1024;

impl ObjectId {
    /// Builds an identity from its parts.
    #[must_use]
    pub fn new(kind: &'static str, namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { kind, namespace: namespace.as_ref().into(), name: name.as_ref().into() }
    }
}
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Object and its position in the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ObjectRef {
    /// Object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// Position in the source.
    pub position: Position,
}

impl ObjectRef {
    /// Creates a reference without a position.
    #[must_use]
    pub fn new(id: ObjectId) -> Self {
        Self { id, position: Position::default() }
    }
}
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)?;
        if self.position.is_empty() { Ok(()) } else { write!(f, " ({})", self.position) }
    }
}

/// Where an object is in its source, such as `shop/pay.yaml:12:1`; empty if the source has no positions.
///
/// For display. Clones are one position, which [`Position::follow`] changes for all: an object that only moved is shown where
/// it is by every fact, view and condition that names it, and none of them is built again. All positions compare equal.
#[derive(Clone, Default)]
pub struct Position(Option<Arc<RwLock<Arc<str>>>>);

impl Position {
    /// Creates a position of its own.
    #[must_use]
    pub fn new(text: Arc<str>) -> Self {
        Self((!text.is_empty()).then(|| Arc::new(RwLock::new(text))))
    }
    /// Returns the position.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        let text = self.0.as_ref().map(|text| Arc::clone(&text.read()));
        text.unwrap_or_default()
    }
    /// Returns whether the source has no positions.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    /// Takes the text of a newer position. A position of a source without positions stays empty.
    pub fn follow(&self, newer: &Self) {
        if let (Some(text), Some(_)) = (&self.0, &newer.0) {
            let newer = newer.text();
            *text.write() = newer;
        }
    }
}
impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Position {}
impl std::hash::Hash for Position {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}
impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Position {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), f)
    }
}
impl serde::Serialize for Position {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

/// The source's own version of an object, for display. All versions compare equal: an object
/// rewritten with the same content has not changed.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[serde(transparent)]
pub struct ObjectVersion(pub Arc<str>);

impl PartialEq for ObjectVersion {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for ObjectVersion {}
impl std::hash::Hash for ObjectVersion {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// Provenance of a fact. Only the object takes part in comparisons.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Source {
    /// Object.
    pub object: ObjectId,
    /// Position, for display; not compared.
    pub position: Position,
    /// Version, for display; not compared.
    pub version: ObjectVersion,
}

impl Source {
    /// Creates a source without position and version.
    #[must_use]
    pub fn new(object: ObjectId) -> Self {
        Self { object, position: Position::default(), version: ObjectVersion::default() }
    }
    /// Object with its position.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { id: self.object.clone(), position: self.position.clone() }
    }
    /// Returns whether the object is where the other one is.
    #[must_use]
    pub fn is_at(&self, other: &Self) -> bool {
        self.position.text() == other.position.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_interned_once_and_checked() {
        let kept = intern_kind("SomeKind").unwrap();
        assert!(std::ptr::eq(kept, intern_kind("SomeKind").unwrap()));
        assert!(
            intern_kind("").is_err() && intern_kind("a b").is_err() && intern_kind(&"x".repeat(64)).is_err()
        );
    }

    #[test]
    fn versions_are_ignored_in_comparisons() {
        let mut a = Source::new(ObjectId::new("Pod", "shop", "web"));
        let b = a.clone();
        a.version = ObjectVersion("7".into());
        assert_eq!(a, b);
    }
}
