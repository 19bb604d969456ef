//! What the index is told: kinds, names, feeds and the inputs themselves.
//!
//! The rim turns each watch's events into inputs ([`Input::of`]) and applies them in order.

use std::fmt;
use std::sync::Arc;

use tributary_kube_client::{Event, ObjectName};
use tributary_model::{Namespace as NamespaceName, ObjectId, Withheld};

use crate::project::{Export, Gateway, Import, MeshConfig, Namespace, Node, Pod, Service, Slice};

/// A kind of input.
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
    /// Every kind, in the order in which a rim starts them.
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

    /// The name that objects of the kind have.
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
    /// Whether its objects live in namespaces.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Node)
    }
}

/// An object's name within its kind; the namespace is empty where the kind has none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Its namespace, or empty.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Name {
    /// From its parts.
    #[must_use]
    pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
        Self { namespace: namespace.as_ref().into(), name: name.as_ref().into() }
    }
    /// The object of a kind that has this name.
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

/// One watch: a kind, of one namespace where only some are read. Lists begin and end per feed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchScope {
    /// The kind.
    pub kind: Kind,
    /// The namespace; all of them where it is `None`.
    pub namespace: Option<NamespaceName>,
}

impl WatchScope {
    /// A kind in all namespaces.
    #[must_use]
    pub const fn all(kind: Kind) -> Self {
        Self { kind, namespace: None }
    }
    /// Whether the feed lists an object of its kind.
    #[must_use]
    pub fn covers(&self, name: &Name) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| namespace.as_str() == &*name.namespace)
    }
}

macro_rules! objects {
    ($($variant:ident($type:ty);)*) => {
        /// One object of one kind, as projected.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = concat!("One of kind `", stringify!($variant), "`.")] $variant(Arc<$type>),)*
        }
        impl Object {
            /// Its kind.
            #[must_use]
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$variant,)* }
            }
            /// Its name.
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

/// What the index is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// This object is now so.
    Put(Object),
    /// Part of a list: this object is still what it was.
    Seen(Kind, Name),
    /// The server said that this object was deleted.
    Gone(Kind, Name),
    /// This object cannot be read, for this reason; its last good version stays.
    Bad(Kind, Name, Arc<str>),
    /// A list begins.
    Restart(WatchScope),
    /// A list is complete: what was not named since its `Restart` is gone.
    Listed(WatchScope),
    /// Nothing else has happened up to now.
    Confirmed(WatchScope),
    /// The kind is not served: counts as listed, and what was known of it as gone.
    Absent(WatchScope),
    /// The kind cannot be read now, with the reason: nothing waits for it, and nothing is known to be gone.
    Withheld(WatchScope, Withheld),
    /// The kind can be read again, and nothing of it was missed.
    Resumed(WatchScope),
    /// What an earlier run knew of a kind that cannot be read; taken where this run knows nothing of it.
    Recall(WatchScope, Vec<Object>),
}

impl Input {
    /// What a watch's event says to the index; `None` for what is only for statuses.
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
