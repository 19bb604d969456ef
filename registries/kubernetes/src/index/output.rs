//! What the index can say, by the object that it is about.

use tributary_model::{CollectionKind, ObjectId};

use crate::input::{Kind, Name};

/// The facts that one object comes to. The order is that in which they are said.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Output {
    /// A Service's declaration.
    Service(Name),
    /// A pod's workload. Its ground is read by groups, so it comes before them.
    Workload(Name),
    /// A slice's groups.
    Group(Name),
}

impl Output {
    /// The collection that holds it.
    #[must_use]
    pub const fn collection(&self) -> CollectionKind {
        match self {
            Self::Service(_) => CollectionKind::Services,
            Self::Workload(_) => CollectionKind::Workloads,
            Self::Group(_) => CollectionKind::Groups,
        }
    }
    /// The object that it is about, to which its problems belong.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        match self {
            Self::Service(name) => name.object(Kind::Service),
            Self::Workload(name) => name.object(Kind::Pod),
            Self::Group(name) => name.object(Kind::Slice),
        }
    }
}
