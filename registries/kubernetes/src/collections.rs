//! Parts of a cluster that fail independently, and the collections that each of them reports.
//!
//! Facts from an optional kind have a scope of their own, so that a credential that may not read that kind leaves the
//! other scopes confirmed and their removals free. Everything else is one part: one server, one credential. [`Options`]
//! uses it for the configured scopes, the index for every update.

use tributary_model::{Collection, CollectionKind, InvalidName, Scope};

use crate::kind::Kind;
use crate::options::Options;

/// Part of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Services, EndpointSlices, Pods and Nodes.
    Cluster,
    /// Declarations and endpoints that ServiceExports offer to other clusters.
    Exports,
    /// ServiceImports.
    Imports,
    /// Gateways of gateway-api.
    Gateways,
    /// Mesh configuration.
    Mesh,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 5] = [Self::Cluster, Self::Exports, Self::Imports, Self::Gateways, Self::Mesh];

    /// Returns the optional kind of the part; `None` for the cluster itself.
    #[must_use]
    pub const fn kind(self) -> Option<Kind> {
        match self {
            Self::Cluster => None,
            Self::Exports => Some(Kind::Export),
            Self::Imports => Some(Kind::Import),
            Self::Gateways => Some(Kind::Gateway),
            Self::Mesh => Some(Kind::MeshConfig),
        }
    }
    /// Returns the part that holds the facts of a kind.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Export => Self::Exports,
            Kind::Import => Self::Imports,
            Kind::Gateway => Self::Gateways,
            Kind::MeshConfig => Self::Mesh,
            Kind::Namespace | Kind::Service | Kind::Slice | Kind::Pod | Kind::Node => Self::Cluster,
        }
    }
}

/// Scope names of the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartScopes {
    cluster: Scope,
    exports: Scope,
    imports: Scope,
    gateways: Scope,
    mesh: Scope,
}

impl PartScopes {
    /// Builds the default names.
    pub fn new() -> Result<Self, InvalidName> {
        Ok(Self {
            cluster: Scope::new("cluster")?,
            exports: Scope::new("serviceexports")?,
            imports: Scope::new("serviceimports")?,
            gateways: Scope::new("gateways")?,
            mesh: Scope::new("configmaps")?,
        })
    }
    /// Returns the scope of a part.
    #[must_use]
    pub const fn of(&self, part: Part) -> &Scope {
        match part {
            Part::Cluster => &self.cluster,
            Part::Exports => &self.exports,
            Part::Imports => &self.imports,
            Part::Gateways => &self.gateways,
            Part::Mesh => &self.mesh,
        }
    }
}

/// Facts of one kind in one part: a collection, before it is bound to a scope name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listing {
    /// Part.
    pub part: Part,
    /// Kind of facts.
    pub kind: CollectionKind,
}

impl Listing {
    const fn new(part: Part, kind: CollectionKind) -> Self {
        Self { part, kind }
    }
    /// Declarations of Services.
    pub const SERVICES: Self = Self::new(Part::Cluster, CollectionKind::Services);
    /// Endpoints of slices.
    pub const GROUPS: Self = Self::new(Part::Cluster, CollectionKind::Groups);
    /// Workloads of pods.
    pub const WORKLOADS: Self = Self::new(Part::Cluster, CollectionKind::Workloads);
    /// Gateways that are Services.
    pub const SERVICE_GATEWAYS: Self = Self::new(Part::Cluster, CollectionKind::Gateways);
    /// Declarations that are offered to other clusters.
    pub const OFFERS: Self = Self::new(Part::Exports, CollectionKind::Services);
    /// Endpoints that are offered to other clusters.
    pub const OFFERED: Self = Self::new(Part::Exports, CollectionKind::Groups);
    /// Imports.
    pub const IMPORTS: Self = Self::new(Part::Imports, CollectionKind::Services);
    /// Gateways of gateway-api.
    pub const GATEWAYS: Self = Self::new(Part::Gateways, CollectionKind::Gateways);
    /// Mesh-wide settings.
    pub const SETTINGS: Self = Self::new(Part::Mesh, CollectionKind::Settings);
    /// Gateways that mesh networks name.
    pub const MESH_GATEWAYS: Self = Self::new(Part::Mesh, CollectionKind::Gateways);

    /// Every listing.
    pub const ALL: [Self; 10] = [
        Self::SERVICES,
        Self::GROUPS,
        Self::WORKLOADS,
        Self::SERVICE_GATEWAYS,
        Self::OFFERS,
        Self::OFFERED,
        Self::IMPORTS,
        Self::GATEWAYS,
        Self::SETTINGS,
        Self::MESH_GATEWAYS,
    ];

    /// Returns the kinds that its derivations join.
    #[must_use]
    pub const fn joined(self) -> &'static [Kind] {
        use CollectionKind::{Gateways, Groups, Services, Workloads};
        use Kind::{Export, Gateway, Import, MeshConfig, Namespace, Node, Pod, Service, Slice};
        match (self.part, self.kind) {
            (Part::Cluster | Part::Exports, Services) => &[Namespace, MeshConfig, Service, Export],
            (Part::Cluster, Groups) => &[Namespace, MeshConfig, Service, Slice, Pod, Node],
            (Part::Exports, _) => &[Namespace, MeshConfig, Service, Slice, Pod, Node, Export],
            (Part::Cluster, Workloads) => &[Namespace, MeshConfig, Pod, Slice, Node],
            (Part::Cluster, Gateways) => &[Namespace, MeshConfig, Service, Node],
            (Part::Imports, _) => &[Namespace, MeshConfig, Import],
            (Part::Gateways, _) => &[Namespace, MeshConfig, Service, Gateway],
            (Part::Cluster | Part::Mesh, _) => &[Namespace, MeshConfig],
        }
    }
    /// Returns the kinds whose objects become its facts. The other joined kinds only contribute to them.
    #[must_use]
    pub const fn made_of(self) -> &'static [Kind] {
        use CollectionKind::{Groups, Workloads};
        match (self.part, self.kind) {
            (Part::Cluster, Groups) => &[Kind::Slice],
            (Part::Cluster, Workloads) => &[Kind::Pod],
            (Part::Cluster, _) => &[Kind::Service],
            (Part::Exports, Groups) => &[Kind::Slice, Kind::Export],
            (Part::Exports, _) => &[Kind::Service, Kind::Export],
            (Part::Imports, _) => &[Kind::Import],
            (Part::Gateways, _) => &[Kind::Gateway],
            (Part::Mesh, _) => &[Kind::MeshConfig],
        }
    }
}

impl Options {
    /// Returns the scope of a part.
    #[must_use]
    pub const fn scope(&self, part: Part) -> &Scope {
        self.scopes.of(part)
    }
    /// Returns the parts that a run reports: the cluster, its mesh configuration unless that of the config cluster is in force, and
    /// the optional kinds that are read.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        let reported = |part: &Part| match part.kind() {
            None => true,
            Some(Kind::MeshConfig) => !self.follows_mesh,
            Some(kind) => self.kinds.contains(&kind) && self.reads(kind),
        };
        Part::ALL.into_iter().filter(reported)
    }
    /// Returns the scopes that a run reports.
    pub fn reported_scopes(&self) -> impl Iterator<Item = Scope> {
        self.parts().map(|part| self.scope(part).clone())
    }
    /// Returns the collection of a listing.
    #[must_use]
    pub fn collection(&self, listing: Listing) -> Collection {
        Collection { scope: self.scope(listing.part).clone(), kind: listing.kind }
    }
    /// Returns the listings that a run reports.
    pub fn listings(&self) -> impl Iterator<Item = Listing> {
        self.parts().flat_map(|part| Listing::ALL.into_iter().filter(move |listing| listing.part == part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mk_options;
    use crate::options::Mcs;

    fn scopes(options: &Options) -> Vec<String> {
        options.reported_scopes().map(|scope| scope.to_string()).collect()
    }

    #[test]
    fn optional_kinds_have_scopes_where_they_are_read() {
        let mut options = mk_options();
        assert_eq!(scopes(&options), ["cluster", "gateways", "configmaps"]);
        options.mcs = Mcs { discovery: true, host: true, ..Mcs::default() };
        assert_eq!(
            scopes(&options),
            ["cluster", "serviceexports", "serviceimports", "gateways", "configmaps"]
        );
        options.kinds = vec![Kind::Service];
        assert_eq!(scopes(&options), ["cluster", "configmaps"], "mesh-wide settings have defaults");
    }

    #[test]
    fn listing_joins_the_kinds_that_it_is_made_of() {
        for listing in Listing::ALL {
            assert!(listing.made_of().iter().all(|kind| listing.joined().contains(kind)), "{listing:?}");
        }
    }
}
