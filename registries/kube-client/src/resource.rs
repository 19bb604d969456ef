//! Which kind of object is meant, and which object.
//!
//! Resources are constants of the adapters, but for a group that a flag names; their paths are made here and nowhere else.

use std::borrow::Cow;
use std::fmt;

/// A kind of object that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The versions that can be read, the preferred one first. The first that is served is used.
    pub versions: &'static [&'static str],
    /// `services`, as it stands in paths and in statuses.
    pub plural: &'static str,
    /// `Service`.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Nothing waits for an optional kind: where it is absent or forbidden, it is so alone.
    pub optional: bool,
}

impl Resource {
    /// The path of all objects of one version, of one namespace where one is named.
    #[must_use]
    pub fn path(&self, version: &str, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{}/{version}", self.group)
        };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}

/// Names one object of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectName {
    /// Its namespace, where its kind has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// From its parts; an empty namespace is none.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()).map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICES: Resource = Resource {
        group: std::borrow::Cow::Borrowed("discovery.k8s.io"),
        versions: &["v1"],
        plural: "endpointslices",
        kind: "EndpointSlice",
        namespaced: true,
        optional: false,
    };
    const NODES: Resource = Resource {
        group: std::borrow::Cow::Borrowed(""),
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        ..SLICES
    };

    #[test]
    fn paths_follow_group_version_and_namespace() {
        assert_eq!(SLICES.path("v1", None), "/apis/discovery.k8s.io/v1/endpointslices");
        assert_eq!(
            SLICES.path("v1", Some("shop")),
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
        );
        assert_eq!(NODES.path("v1", Some("shop")), "/api/v1/nodes");
    }
}
