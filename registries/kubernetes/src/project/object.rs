//! Object of any kind, as decoded.
//!
//! Watches produce it, the tables of the state hold it, and invalidation compares two of it.

use std::sync::Arc;

use tributary_kube_client::Event;

use super::configmap::MeshConfig;
use super::gateway::Gateway;
use super::mcs::{Export, Import};
use super::namespace::Namespace;
use super::node::Node;
use super::pod::Pod;
use super::service::Service;
use super::slice::Slice;
use crate::interner::Interner;
use crate::kind::{Kind, Name};

/// Event of a watch, with its object of any kind.
pub type ObjectEvent = Event<Object, Name>;

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

impl Object {
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        match self {
            Self::Namespace(object) => Arc::make_mut(object).share(shared),
            Self::Service(object) => Arc::make_mut(object).share(shared),
            Self::Slice(object) => Arc::make_mut(object).share(shared),
            Self::Pod(object) => Arc::make_mut(object).share(shared),
            Self::Node(object) => Arc::make_mut(object).share(shared),
            Self::Export(object) => Arc::make_mut(object).share(shared),
            Self::Import(object) => Arc::make_mut(object).share(shared),
            Self::Gateway(object) => Arc::make_mut(object).share(shared),
            Self::MeshConfig(object) => Arc::make_mut(object).share(shared),
        }
    }
}
