//! Kinds of objects, names of objects, and scopes of watches.
//!
//! Used by every layer of this crate; depends on none of them.

use std::fmt;
use std::sync::Arc;

use tributary_kube_client::ObjectName;
use tributary_model::{Namespace as NamespaceName, ObjectId};

/// Kind of input object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Namespaces.
    Namespace,
    /// Services.
    Service,
    /// EndpointSlices.
    Slice,
    /// Pods.
    Pod,
    /// Nodes.
    Node,
    /// ServiceExports (MCS).
    Export,
    /// ServiceImports (MCS).
    Import,
    /// Gateways of gateway-api.
    Gateway,
    /// ConfigMaps of mesh configuration.
    MeshConfig,
}

impl Kind {
    /// Every kind, in the order in which a run starts their watches.
    pub const ALL: [Self; 9] = [
        Self::MeshConfig,
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::Export,
        Self::Import,
        Self::Gateway,
        Self::Slice,
    ];

    /// Returns the kind name of its objects.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::Slice => "EndpointSlice",
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Export => "ServiceExport",
            Self::Import => "ServiceImport",
            Self::Gateway => "Gateway",
            Self::MeshConfig => "ConfigMap",
        }
    }
    /// Whether its objects belong to namespaces.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node)
    }
}

/// Name of an object within its kind; the namespace is empty for a cluster-scoped kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Namespace, or empty.
    pub namespace: Arc<str>,
    /// Object name.
    pub name: Arc<str>,
}

impl Name {
    /// Builds a name.
    #[must_use]
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: namespace.as_ref().into(), name: name.as_ref().into() }
    }
    /// Returns the id of the object of this kind and name.
    #[must_use]
    pub fn object(&self, kind: Kind) -> ObjectId {
        ObjectId { kind: kind.as_str(), namespace: self.namespace.clone(), name: self.name.clone() }
    }
}
impl From<&ObjectName> for Name {
    fn from(name: &ObjectName) -> Self {
        Self::new(name.namespace.as_deref().unwrap_or_default(), &name.name)
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Scope of one watch: a kind, in one namespace where only some are read. Lists begin and end per watch scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchScope {
    /// Kind.
    pub kind: Kind,
    /// Namespace; `None` means all namespaces.
    pub namespace: Option<NamespaceName>,
}

impl WatchScope {
    /// Builds the scope of a kind in all namespaces.
    #[must_use]
    pub const fn all(kind: Kind) -> Self {
        Self { kind, namespace: None }
    }
    /// Whether the watch covers an object of its kind.
    #[must_use]
    pub fn covers(&self, name: &Name) -> bool {
        let of = if self.kind == Kind::Namespace { &name.name } else { &name.namespace };
        self.namespace.as_ref().is_none_or(|namespace| *namespace.as_str() == **of)
    }
}
