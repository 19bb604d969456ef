//! Keys of the derived outputs, by the object that they are about.

use tributary_model::ObjectId;

use crate::collections::Listing;
use crate::kind::{Kind, Name};

/// Key of the facts of one object. Its order is the order of publication.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DerivedKey {
    /// A Service's declaration.
    Service(Name),
    /// Workload of a pod. Groups read it, so it precedes them.
    Workload(Name),
    /// Groups of a slice.
    Group(Name),
    /// Declaration of a ServiceImport.
    Import(Name),
    /// Gateways that a Service is.
    ServiceGateways(Name),
    /// Gateways that a Gateway of gateway-api is.
    Gateways(Name),
    /// Gateways that mesh networks name by address.
    MeshGateways(Name),
    /// Mesh-wide values.
    Settings(Name),
    /// Contested claims of mesh networks.
    Contested(Name),
}

impl DerivedKey {
    /// Returns the listing that holds it; offers to other clusters belong to the output that they offer.
    #[must_use]
    pub const fn listing(&self) -> Listing {
        match self {
            Self::Service(_) => Listing::SERVICES,
            Self::Import(_) => Listing::IMPORTS,
            Self::Workload(_) => Listing::WORKLOADS,
            Self::Group(_) => Listing::GROUPS,
            Self::ServiceGateways(_) => Listing::SERVICE_GATEWAYS,
            Self::Gateways(_) => Listing::GATEWAYS,
            Self::MeshGateways(_) => Listing::MESH_GATEWAYS,
            Self::Settings(_) | Self::Contested(_) => Listing::SETTINGS,
        }
    }
    /// Returns the object of its problems, or the part of it; `None` if it never has any.
    #[must_use]
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Service(name) => Some(name.object(Kind::Service)),
            Self::Workload(name) => Some(name.object(Kind::Pod)),
            Self::Group(name) => Some(name.object(Kind::Slice)),
            Self::Settings(name) => Some(name.object(Kind::MeshConfig)),
            Self::Contested(name) => Some(part(name, "meshNetworks", Kind::MeshConfig)),
            Self::ServiceGateways(name) => Some(part(name, "gateway", Kind::Service)),
            Self::Gateways(name) => Some(part(name, "gateway", Kind::Gateway)),
            Self::MeshGateways(name) => Some(part(name, "meshNetworks.gateways", Kind::MeshConfig)),
            Self::Import(_) => None,
        }
    }
}

/// Returns a part of an object. Its problem withholds no facts of the object.
fn part(name: &Name, part: &str, kind: Kind) -> ObjectId {
    Name::new(&name.namespace, format!("{}#{part}", name.name)).object(kind)
}
