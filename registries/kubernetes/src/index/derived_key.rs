//! What the index can say, by the object that it is about.

use tributary_model::ObjectId;

use crate::input::{Kind, Name};
use crate::part::Listing;

/// The facts that one object comes to. The order is that in which they are said.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DerivedKey {
    /// A Service's declaration.
    Service(Name),
    /// A pod's workload. Its ground is read by groups, so it comes before them.
    Workload(Name),
    /// A slice's groups.
    Group(Name),
    /// What a ServiceImport says of a host of the set.
    Import(Name),
    /// The gateways that a Service is.
    ServiceGateways(Name),
    /// The gateways that a Gateway of gateway-api is.
    Gateways(Name),
    /// The gateways that mesh networks name by address.
    MeshGateways(Name),
    /// Mesh-wide values.
    Settings(Name),
    /// What several mesh networks claim.
    Contested(Name),
}

impl DerivedKey {
    /// The listing that holds it; what is offered to other clusters goes with what it is offered for.
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
    /// The object to which its problems belong; `None` where it never has any.
    #[must_use]
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Service(name) => Some(name.object(Kind::Service)),
            Self::Workload(name) => Some(name.object(Kind::Pod)),
            Self::Group(name) => Some(name.object(Kind::Slice)),
            Self::Settings(name) => Some(name.object(Kind::MeshConfig)),
            Self::Contested(name) => {
                let part = format!("{}#meshNetworks", name.name);
                Some(Name::new(&name.namespace, part).object(Kind::MeshConfig))
            }
            Self::Import(_) | Self::ServiceGateways(_) | Self::Gateways(_) | Self::MeshGateways(_) => None,
        }
    }
}
