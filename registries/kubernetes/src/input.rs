//! Inputs of the index: kinds, names, watch scopes and the inputs themselves.
//!
//! The run loop converts the events of each watch into inputs ([`Input::of`]) and applies them in order.

use std::fmt;
use std::sync::Arc;

use tributary_kube_client::{Event, ObjectName};
use tributary_model::{Namespace as NamespaceName, ObjectId, Withheld};

use crate::project::{Export, Gateway, Import, MeshConfig, Namespace, Node, Pod, Service, Slice};

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
        self.namespace.as_ref().is_none_or(|namespace| namespace.as_str() == &*name.namespace)
    }
}

macro_rules! objects {
    ($($variant:ident($type:ty);)*) => {
        /// Decoded object of one kind.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = concat!("Object of kind `", stringify!($variant), "`.")] $variant(Arc<$type>),)*
        }
        impl Object {
            /// Returns the kind.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$variant,)* }
            }
            /// Returns the name.
            #[must_use]
            pub fn name(&self) -> &Name {
                match self { $(Self::$variant(object) => &object.meta.name,)* }
            }
        }
        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$variant(Arc::new(object))
            }
        })*
    };
}

objects! {
    Namespace(Namespace);
    Service(Service);
    Slice(Slice);
    Pod(Pod);
    Node(Node);
    Export(Export);
    Import(Import);
    Gateway(Gateway);
    MeshConfig(MeshConfig);
}

/// Input of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An object was created or changed.
    Put(Object),
    /// Part of a list: the object is unchanged.
    Seen(Kind, Name),
    /// The server deleted this object.
    Gone(Kind, Name),
    /// The object cannot be decoded, for this reason; its last valid version stays.
    Bad(Kind, Name, Arc<str>),
    /// A list begins.
    Restart(WatchScope),
    /// A list is complete: objects that it did not name since its `Restart` are removed.
    Listed(WatchScope),
    /// No other event happened so far.
    Confirmed(WatchScope),
    /// The server does not serve the kind: counts as an empty complete list.
    Absent(WatchScope),
    /// The kind cannot be read, with the reason: nothing waits for it, and none of its objects is known to be deleted.
    Withheld(WatchScope, Withheld),
    /// The kind can be read again, and no event was missed.
    Resumed(WatchScope),
    /// Objects of an unreadable kind from an earlier run; applied if this run knows none.
    Recall(WatchScope, Vec<Object>),
}

impl Input {
    /// Converts an event of a watch; `None` for events that affect only the status.
    #[must_use]
    pub fn of<P: Into<Object>>(feed: &WatchScope, event: Event<P>) -> Option<Self> {
        let kind = feed.kind;
        Some(match event {
            Event::Apply(object) => Self::Put(object.into()),
            Event::Unchanged(name) => Self::Seen(kind, Name::from(&name)),
            Event::Delete(name) => Self::Gone(kind, Name::from(&name)),
            Event::Invalid(name, why) => Self::Bad(kind, Name::from(&name), why.into()),
            Event::Init => Self::Restart(feed.clone()),
            Event::InitDone => Self::Listed(feed.clone()),
            Event::Confirmed => Self::Confirmed(feed.clone()),
            Event::NotServed => Self::Absent(feed.clone()),
            Event::Unavailable(why) => Self::Withheld(feed.clone(), why),
            Event::Resumed => Self::Resumed(feed.clone()),
            Event::Status(_) | Event::Recovered(_) => return None,
        })
    }
}
