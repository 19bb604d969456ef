//! Objects, their history and their versions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Served kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural name, such as `pods`.
    pub plural: &'static str,
    /// Kind name, such as `Pod`.
    pub kind: &'static str,
    /// Whether objects belong to namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// Kinds that are read of every cluster, and the Secrets that declare remote clusters.
    pub const OF_A_CLUSTER: [Self; 7] = [
        Self::v1("", "namespaces", "Namespace", false),
        Self::v1("", "services", "Service", true),
        Self::v1("", "pods", "Pod", true),
        Self::v1("", "nodes", "Node", false),
        Self::v1("", "configmaps", "ConfigMap", true),
        Self::v1("", "secrets", "Secret", true),
        Self::v1("discovery.k8s.io", "endpointslices", "EndpointSlice", true),
    ];

    const fn v1(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Self {
        Self { group, version: "v1", plural, kind, namespaced }
    }
    pub(crate) fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }
}

/// Namespace and name.
pub(crate) type Name = (String, String);

#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) plural: &'static str,
    pub(crate) event: &'static str,
    pub(crate) object: Value,
    /// Whether watches receive the event.
    pub(crate) watched: bool,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) objects: BTreeMap<&'static str, BTreeMap<Name, Value>>,
    pub(crate) history: Vec<Change>,
    pub(crate) version: u64,
    /// Versions up to this one have expired.
    pub(crate) compacted: u64,
}

impl Store {
    pub(crate) fn new(kinds: Vec<Kind>) -> Self {
        Self { kinds, objects: BTreeMap::new(), history: Vec::new(), version: 100, compacted: 0 }
    }
    pub(crate) fn kind(&self, plural: &str) -> Kind {
        *self.kinds.iter().find(|kind| kind.plural == plural).expect("a kind that is served")
    }
    /// Returns the kind and the namespace of a path, and the object name if the path has one.
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
    pub(crate) fn put(&mut self, plural: &'static str, mut object: Value, watched: bool) -> Value {
        self.version += 1;
        let kind = self.kind(plural);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object.get("kind").is_none() {
            object["kind"] = json!(kind.kind);
        }
        let name = name_of(&object);
        let known = self.objects.entry(plural).or_default();
        let event = if known.insert(name, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        self.history.push(Change { version: self.version, plural, event, object: object.clone(), watched });
        object
    }
    pub(crate) fn delete(&mut self, plural: &'static str, name: &Name, watched: bool) -> Option<Value> {
        let mut object = self.objects.entry(plural).or_default().remove(name)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let event = "DELETED";
        self.history.push(Change { version: self.version, plural, event, object: object.clone(), watched });
        Some(object)
    }
    /// Returns the changes of a kind after a version.
    pub(crate) fn since(&self, plural: &str, version: u64) -> Vec<Change> {
        let later = |change: &&Change| change.plural == plural && change.version > version && change.watched;
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
