//! Which source object a fact came from.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::id::InvalidName;

/// Names one object of a source: its kind, namespace and name. Built by adapters, which have
/// checked its parts; ordered for stable output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ObjectId {
    /// `ServiceEntry`, `EndpointSlice`, `Instance`, …
    pub kind: &'static str,
    /// Its namespace, empty where the source has none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Finds the static text of a kind's name, for names that come from a file. A name that is new to the
/// process is kept for its lifetime; at most [`MOST_KINDS`] are.
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
    if kinds.len() >= MOST_KINDS {
        return fault("is one kind too many");
    }
    let kept: &'static str = Box::leak(text.into());
    kinds.insert(kept);
    Ok(kept)
}

/// How many kinds of objects [`intern_kind`] keeps.
pub const MOST_KINDS: usize = 1024;

impl ObjectId {
    /// From its parts.
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

/// An object and where a person finds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ObjectRef {
    /// The object.
    #[serde(flatten)]
    pub id: ObjectId,
    /// `shop/pay.yaml:12:1`, where the source has places; else empty.
    pub place: Arc<str>,
}

impl ObjectRef {
    /// An object without a place.
    #[must_use]
    pub fn new(id: ObjectId) -> Self {
        Self { id, place: "".into() }
    }
}
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)?;
        if self.place.is_empty() { Ok(()) } else { write!(f, " ({})", self.place) }
    }
}

/// The source's own version of an object, for people. Two versions are always equal in
/// comparisons: an object that was rewritten with the same content has not changed.
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

/// Where a fact comes from: provenance that is kept with it but does not make it different.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Source {
    /// The object.
    pub object: ObjectId,
    /// Its place, for people; not compared.
    pub place: ObjectVersion,
    /// Its version, for people; not compared.
    pub version: ObjectVersion,
}

impl Source {
    /// An object without place and version.
    #[must_use]
    pub fn new(object: ObjectId) -> Self {
        Self { object, place: ObjectVersion::default(), version: ObjectVersion::default() }
    }
    /// The object with its place.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { id: self.object.clone(), place: self.place.0.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_from_a_file_is_kept_once_and_checked() {
        let kept = intern_kind("SomeKind").unwrap();
        assert!(std::ptr::eq(kept, intern_kind("SomeKind").unwrap()));
        assert!(
            intern_kind("").is_err() && intern_kind("a b").is_err() && intern_kind(&"x".repeat(64)).is_err()
        );
    }

    #[test]
    fn a_version_does_not_make_a_difference() {
        let mut a = Source::new(ObjectId::new("Pod", "shop", "web"));
        let b = a.clone();
        a.version = ObjectVersion("7".into());
        assert_eq!(a, b);
    }
}
