//! The objects, their history and their versions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A kind that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its group; empty for the core group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// `pods`.
    pub plural: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    pub(crate) fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// `namespace/name`.
pub(crate) type Name = (String, String);

#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) plural: &'static str,
    pub(crate) word: &'static str,
    pub(crate) object: Value,
    /// Whether watches are told.
    pub(crate) told: bool,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) objects: BTreeMap<&'static str, BTreeMap<Name, Value>>,
    pub(crate) history: Vec<Change>,
    pub(crate) version: u64,
    /// What happened up to here is forgotten.
    pub(crate) compacted: u64,
}

impl Store {
    pub(crate) fn new(kinds: Vec<Kind>) -> Self {
        Self { kinds, objects: BTreeMap::new(), history: Vec::new(), version: 100, compacted: 0 }
    }
    pub(crate) fn kind(&self, plural: &str) -> Kind {
        *self.kinds.iter().find(|kind| kind.plural == plural).expect("a kind that is served")
    }
    /// The kind and the namespace that a path is about, and the object where it names one.
    pub(crate) fn resolve(&self, path: &str) -> Option<(Kind, Option<String>, Option<String>)> {
        let kind = |rest: &str, root: &str| {
            let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
            let (namespace, plural, name) = match parts.as_slice() {
                ["namespaces", namespace, plural] => (Some(*namespace), *plural, None),
                ["namespaces", namespace, plural, name, ..] => (Some(*namespace), *plural, Some(*name)),
                [plural] => (None, *plural, None),
                [plural, name, ..] => (None, *plural, Some(*name)),
                [] => return None,
            };
            let found = self.kinds.iter().find(|kind| kind.plural == plural && kind.root() == root)?;
            Some((*found, namespace.map(str::to_owned), name.map(str::to_owned)))
        };
        self.kinds
            .iter()
            .find_map(|one| path.strip_prefix(&one.root()).and_then(|rest| kind(rest, &one.root())))
    }
    pub(crate) fn put(&mut self, plural: &'static str, mut object: Value, told: bool) -> Value {
        self.version += 1;
        let kind = self.kind(plural);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object.get("kind").is_none() {
            object["kind"] = json!(kind.kind);
        }
        let name = name_of(&object);
        let known = self.objects.entry(plural).or_default();
        let word = if known.insert(name, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.history.push(Change { version: self.version, plural, word, object: object.clone(), told });
        object
    }
    pub(crate) fn delete(&mut self, plural: &'static str, name: &Name, told: bool) -> Option<Value> {
        let mut object = self.objects.entry(plural).or_default().remove(name)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let word = "DELETED";
        self.history.push(Change { version: self.version, plural, word, object: object.clone(), told });
        Some(object)
    }
    /// What happened to a kind after a version.
    pub(crate) fn since(&self, plural: &str, version: u64) -> Vec<Change> {
        let later = |change: &&Change| change.plural == plural && change.version > version && change.told;
        self.history.iter().filter(later).cloned().collect()
    }
    pub(crate) fn list(&self, plural: &str, namespace: Option<&str>) -> Vec<(Name, Value)> {
        let all = self.objects.get(plural).into_iter().flatten();
        all.filter(|((of, _), _)| namespace.is_none_or(|namespace| of == namespace))
            .map(|(name, object)| (name.clone(), object.clone()))
            .collect()
    }
}

pub(crate) fn name_of(object: &Value) -> Name {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}
