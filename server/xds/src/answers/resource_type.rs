//! The resource types that are served from the catalog.

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
}

impl ResourceType {
    /// All types, in the order of a round.
    pub const ALL: [Self; 4] = [Self::Cluster, Self::Endpoints, Self::Listener, Self::Route];

    /// Returns the type's URL.
    #[must_use]
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }
    /// Returns the type of a URL.
    #[must_use]
    pub fn parse(type_url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == type_url)
    }
    /// Whether a first request without names subscribes to all of them.
    #[must_use]
    pub const fn has_wildcard(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }
    /// Returns a short name for metrics and output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cds",
            Self::Endpoints => "eds",
            Self::Listener => "lds",
            Self::Route => "rds",
        }
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
}
