//! The kinds that are watched in a cluster, and their scopes.

use tributary_kube_client::Resource;
use tributary_model::{CollectionKind, InvalidName, Namespace, Scope};

use crate::document::unserved::{UNSERVED, UnservedKind};
use crate::document::{
    API_GROUP, API_VERSIONS, AUTHORIZATION_POLICY, DESTINATION_RULE, ENVOY_FILTER, GATEWAY,
    PEER_AUTHENTICATION, REQUEST_AUTHENTICATION, SECURITY_GROUP, SECURITY_VERSIONS, SERVICE_ENTRY, SIDECAR,
    VIRTUAL_SERVICE, WORKLOAD_ENTRY, WORKLOAD_GROUP,
};
use crate::source::{Content, Need};

/// The kinds of a cluster to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kinds {
    /// ServiceEntry, WorkloadEntry, WorkloadGroup, Sidecar, DestinationRule, VirtualService, EnvoyFilter,
    /// Gateway, PeerAuthentication, AuthorizationPolicy and RequestAuthentication, and the names of objects of the kinds that are not served: for the config cluster.
    #[default]
    All,
    /// WorkloadEntry alone: for a remote cluster, whose Services may select them.
    WorkloadEntries,
}

/// The ServiceEntry resource.
pub(crate) const SERVICE_ENTRIES: Resource = Resource {
    group: std::borrow::Cow::Borrowed(API_GROUP),
    versions: &API_VERSIONS,
    plural: "serviceentries",
    kind: SERVICE_ENTRY,
    namespaced: true,
    optional: true,
};
/// The WorkloadEntry resource.
pub(crate) const WORKLOAD_ENTRIES: Resource =
    Resource { plural: "workloadentries", kind: WORKLOAD_ENTRY, ..SERVICE_ENTRIES };
/// The WorkloadGroup resource.
pub(crate) const WORKLOAD_GROUPS: Resource =
    Resource { plural: "workloadgroups", kind: WORKLOAD_GROUP, ..SERVICE_ENTRIES };

/// The Sidecar resource.
pub(crate) const SIDECARS: Resource = Resource { plural: "sidecars", kind: SIDECAR, ..SERVICE_ENTRIES };

/// The DestinationRule resource.
pub(crate) const DESTINATION_RULES: Resource =
    Resource { plural: "destinationrules", kind: DESTINATION_RULE, ..SERVICE_ENTRIES };

/// The VirtualService resource.
pub(crate) const VIRTUAL_SERVICES: Resource =
    Resource { plural: "virtualservices", kind: VIRTUAL_SERVICE, ..SERVICE_ENTRIES };

/// The EnvoyFilter resource.
pub(crate) const ENVOY_FILTERS: Resource =
    Resource { plural: "envoyfilters", kind: ENVOY_FILTER, ..SERVICE_ENTRIES };

/// The Gateway resource.
pub(crate) const GATEWAYS: Resource = Resource { plural: "gateways", kind: GATEWAY, ..SERVICE_ENTRIES };

/// The PeerAuthentication resource.
pub(crate) const PEER_AUTHENTICATIONS: Resource = Resource {
    group: std::borrow::Cow::Borrowed(SECURITY_GROUP),
    versions: &SECURITY_VERSIONS,
    plural: "peerauthentications",
    kind: PEER_AUTHENTICATION,
    namespaced: true,
    optional: true,
};

/// The AuthorizationPolicy resource.
pub(crate) const AUTHORIZATION_POLICIES: Resource =
    Resource { plural: "authorizationpolicies", kind: AUTHORIZATION_POLICY, ..PEER_AUTHENTICATIONS };

/// The RequestAuthentication resource.
pub(crate) const REQUEST_AUTHENTICATIONS: Resource =
    Resource { plural: "requestauthentications", kind: REQUEST_AUTHENTICATION, ..PEER_AUTHENTICATIONS };

/// What the objects of a kind contain. Without the ServiceEntries clients lose hosts, without the Sidecars it is unknown
/// which clients they restrict, without the DestinationRules clients connect without their TLS, without the
/// VirtualServices requests go elsewhere, without the EnvoyFilters clients may lack filters that protect them, without the Gateways
/// routers forward nothing, without
/// the PeerAuthentications workloads may accept plain connections, without the AuthorizationPolicies any request, and without
/// the RequestAuthentications any token.
pub(crate) fn content(resource: &Resource) -> Content {
    let (kinds, need): (&[CollectionKind], Need) = match resource.kind {
        SERVICE_ENTRY => (&[CollectionKind::Services, CollectionKind::Groups], Need::Always),
        SIDECAR
        | DESTINATION_RULE
        | VIRTUAL_SERVICE
        | ENVOY_FILTER
        | GATEWAY
        | PEER_AUTHENTICATION
        | AUTHORIZATION_POLICY
        | REQUEST_AUTHENTICATION => (&[CollectionKind::Policies], Need::Always),
        WORKLOAD_ENTRY => (&[CollectionKind::Workloads], Need::WhileReadable),
        // it has no facts: the list only ends the problems of its objects
        _ => (&[CollectionKind::Groups], Need::WhileReadable),
    };
    Content { kinds, need }
}

impl Kinds {
    /// The resources to watch. All of them are optional: a cluster without their definitions or the right to read them is read.
    pub fn resources(self) -> &'static [Resource] {
        const ALL: [Resource; 11] = [
            SERVICE_ENTRIES,
            WORKLOAD_ENTRIES,
            WORKLOAD_GROUPS,
            SIDECARS,
            DESTINATION_RULES,
            VIRTUAL_SERVICES,
            ENVOY_FILTERS,
            GATEWAYS,
            PEER_AUTHENTICATIONS,
            AUTHORIZATION_POLICIES,
            REQUEST_AUTHENTICATIONS,
        ];
        const ENTRIES: [Resource; 1] = [WORKLOAD_ENTRIES];
        match self {
            Self::All => &ALL,
            Self::WorkloadEntries => &ENTRIES,
        }
    }
    /// The kinds to list whose objects are not served.
    pub(crate) fn unserved(self) -> &'static [UnservedKind] {
        match self {
            Self::All => &UNSERVED,
            Self::WorkloadEntries => &[],
        }
    }
    /// API group and plural of every resource to list and watch.
    pub fn read(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = self.resources().iter().chain(self.unserved().iter().map(|known| &known.resource));
        all.map(|resource| (&*resource.group, resource.plural))
    }
}

/// The scope of a kind, per namespace if namespaces are configured. No fact joins objects of two
/// kinds, so a kind that cannot be read leaves the others complete.
pub(crate) fn scope(resource: &Resource, namespace: Option<&Namespace>) -> Result<Scope, InvalidName> {
    match namespace {
        Some(namespace) => Scope::new(format!("{}/{namespace}", resource.plural)),
        None => Scope::new(resource.plural),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_of_a_cluster_is_required() {
        let decides = Kinds::All.resources().iter().filter(|resource| content(resource).need == Need::Always);
        let decides: Vec<&str> = decides.map(|resource| resource.plural).collect();
        assert_eq!(
            decides,
            [
                "serviceentries",
                "sidecars",
                "destinationrules",
                "virtualservices",
                "envoyfilters",
                "gateways",
                "peerauthentications",
                "authorizationpolicies",
                "requestauthentications"
            ]
        );
        assert_eq!(content(&DESTINATION_RULES).kinds, [CollectionKind::Policies]);
    }
}
