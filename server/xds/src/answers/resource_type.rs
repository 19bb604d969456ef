//! The resource types that are served from the catalog, one row each.

use std::ops::{Index, IndexMut};

/// A resource type. The order is that of a round (docs/reference/xds.md#order-of-a-push).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceType {
    /// CDS.
    Cluster,
    /// EDS.
    Endpoints,
    /// LDS.
    Listener,
    /// RDS.
    Route,
    /// SDS.
    Secret,
}

/// Protocol rules of a type.
struct TypeSpec {
    url: &'static str,
    name: &'static str,
    has_wildcard: bool,
    /// Position among the removals of a round; `None` if an empty resource takes the place of a removal.
    removal: Option<u8>,
}

/// In the order of [`ResourceType`].
const SPECS: TypeMap<TypeSpec> = TypeMap([
    TypeSpec {
        url: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        name: "cds",
        has_wildcard: true,
        removal: Some(2),
    },
    TypeSpec {
        url: "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        name: "eds",
        has_wildcard: false,
        removal: None,
    },
    TypeSpec {
        url: "type.googleapis.com/envoy.config.listener.v3.Listener",
        name: "lds",
        has_wildcard: true,
        removal: Some(0),
    },
    TypeSpec {
        url: "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        name: "rds",
        has_wildcard: false,
        removal: Some(1),
    },
    TypeSpec {
        url: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        name: "sds",
        has_wildcard: false,
        removal: Some(3),
    },
]);

impl ResourceType {
    /// Number of types.
    pub const COUNT: usize = 5;
    /// All types, in the order of a round.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Cluster, Self::Endpoints, Self::Listener, Self::Route, Self::Secret];

    const fn spec(self) -> &'static TypeSpec {
        &SPECS.0[self as usize]
    }
    /// Returns the type's URL.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        self.spec().url
    }
    /// Returns the type of a URL.
    #[must_use]
    pub fn parse(type_url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == type_url)
    }
    /// Whether a first request without names subscribes to all of them.
    #[must_use]
    pub const fn has_wildcard(self) -> bool {
        self.spec().has_wildcard
    }
    /// Returns a short name for metrics and output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.spec().name
    }
    /// Returns the types whose resources a round removes, in its order: a resource goes before the resources that
    /// it refers to.
    pub fn removals() -> impl Iterator<Item = Self> {
        let nth = |n: usize| move |kind: &Self| kind.spec().removal.map(usize::from) == Some(n);
        (0..Self::COUNT).filter_map(move |n| Self::ALL.into_iter().find(nth(n)))
    }
}

/// One value for each resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TypeMap<T>([T; ResourceType::COUNT]);

impl<T> TypeMap<T> {
    /// Creates the value of each type.
    pub fn from_fn(of: impl FnMut(ResourceType) -> T) -> Self {
        Self(ResourceType::ALL.map(of))
    }
    /// Returns the values with their types, in the order of a round.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceType, &T)> {
        ResourceType::ALL.into_iter().zip(&self.0)
    }
    /// Returns the values, in the order of a round.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
    /// Returns the values, in the order of a round.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<ResourceType> for TypeMap<T> {
    type Output = T;

    fn index(&self, kind: ResourceType) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<ResourceType> for TypeMap<T> {
    fn index_mut(&mut self, kind: ResourceType) -> &mut T {
        &mut self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_back_to_their_kind() {
        for kind in ResourceType::ALL {
            assert_eq!(ResourceType::parse(kind.type_url()), Some(kind));
        }
        assert_eq!(ResourceType::parse("type.googleapis.com/envoy.api.v2.Cluster"), None);
    }

    #[test]
    fn each_row_belongs_to_its_type() {
        let types = ["Cluster", "ClusterLoadAssignment", "Listener", "RouteConfiguration", "Secret"];
        for (kind, of) in ResourceType::ALL.into_iter().zip(types) {
            assert_eq!(kind.type_url().rsplit('.').next(), Some(of));
            assert_eq!(TypeMap::from_fn(|kind| kind)[kind], kind);
        }
        let removals: Vec<ResourceType> = ResourceType::removals().collect();
        let order =
            [ResourceType::Listener, ResourceType::Route, ResourceType::Cluster, ResourceType::Secret];
        assert_eq!(removals, order);
    }
}
