//! Kinds of objects and names of objects.
//!
//! Adapters declare resources as constants, except for a group that a flag names. Only this module builds their paths.

use std::borrow::Cow;
use std::fmt;

/// A kind of object that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Versions that can be decoded, in order of preference. The first one that the server serves is used.
    pub versions: &'static [&'static str],
    /// Plural name in paths and statuses, such as `services`.
    pub plural: &'static str,
    /// Kind name, such as `Service`.
    pub kind: &'static str,
    /// Whether objects belong to namespaces.
    pub namespaced: bool,
    /// An absent or forbidden optional kind affects no other kind.
    pub optional: bool,
}

impl Resource {
    /// Returns the path of all objects of one version, restricted to a namespace where one is given.
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

/// Name of one object of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectName {
    /// Namespace, for a namespaced kind.
    pub namespace: Option<String>,
    /// Object name.
    pub name: String,
}

impl ObjectName {
    /// Builds a name; an empty namespace becomes `None`.
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
