//! Immutable view of one service: the merged result that answers are built from.
//!
//! The core builds views; answer and xds read them. A view holds every input of its answers, so an
//! answer built from a view never becomes invalid.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::by_namespace::ByNamespace;
use crate::code::Code;
use crate::declaration::{
    Attributes, Declaration, Resolution, ServiceAddress, ServiceKey, TrafficDistribution,
};
use crate::destination_rule::{ClusterPolicy, ConnectionPolicy, EndpointPolicy};
use crate::endpoint_group::EndpointGroup;
use crate::export::Visibility;
use crate::gateway::GatedNetwork;
use crate::hostname::Hostname;
use crate::id::{Namespace, NetworkId, RegistryId, Scope};
use crate::identity_set::IdentitySet;
use crate::labels::Labels;
use crate::object::ObjectRef;
use crate::port::{PortName, PortNumber};
use crate::precedence::{Precedence, PrecedenceKey};
use crate::protocol::Protocol;
use crate::requests::HttpRetries;
use crate::resource_inputs::ResourceInputs;
use crate::route_candidate::{ConnectionTarget, HttpCandidate, L4Candidate, ResolvedDestination};
use crate::shared::Shared;
use crate::status::ShardPriority;
use crate::traffic_policy::{HashKey, LocalityBalancing};

/// Registry and scope that report a shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ShardRef {
    /// Registry.
    pub registry: Arc<RegistryId>,
    /// Scope.
    pub scope: Scope,
}

/// Visible conflict or fault of a service or registry, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Condition {
    /// Code of the condition.
    pub code: Code,
    /// Objects concerned, the served one first.
    pub objects: Arc<[ObjectRef]>,
    /// Description.
    pub message: Arc<str>,
}

/// Declaration with its shard and resolved visibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclarationView {
    /// Shard that reports it.
    pub shard: Arc<ShardRef>,
    /// Declaration.
    pub declaration: Arc<Declaration>,
    /// Position of the registry.
    pub precedence: Precedence,
    /// Resolved visibility.
    pub visibility: Visibility,
    /// Whether it belongs to a member of this federated service.
    pub federated: bool,
}

impl DeclarationView {
    /// Key that decides its precedence.
    #[must_use]
    pub fn precedence_key(&self) -> PrecedenceKey<'_> {
        let (created, object) = (self.declaration.created, &self.declaration.source.object);
        PrecedenceKey {
            shard: &self.shard,
            precedence: self.precedence,
            created,
            object,
            federated: self.federated,
        }
    }
}

/// One service, merged from all its declarations.
#[derive(Debug, Clone)]
pub struct ServiceView {
    /// Host and namespace.
    pub key: ServiceKey,
    /// Declarations in order of precedence. Never empty.
    pub declarations: Arc<[DeclarationView]>,
    /// Ports, sorted by number.
    pub ports: Arc<[PortView]>,
    /// Conditions of the service.
    pub conditions: Arc<[Condition]>,
    /// Services of other hosts that are aliases of this host to a client that sees everything, sorted.
    pub aliases: Arc<[ServiceKey]>,
    /// Number of addresses in all its groups.
    pub addresses: u32,
    /// The service as clients see it that see some of its declarations; empty if all have one visibility.
    pub audiences: Arc<[AudienceView]>,
}

/// A service, merged from the declarations that some clients see.
#[derive(Debug, Clone)]
pub struct AudienceView {
    /// For each declaration of the service, whether these clients see it.
    pub visible: Arc<[bool]>,
    /// The service for these clients.
    pub view: Arc<ServiceView>,
}

impl PartialEq for AudienceView {
    fn eq(&self, other: &Self) -> bool {
        self.visible == other.visible && Arc::ptr_eq(&self.view, &other.view)
    }
}

/// One port of a service.
#[derive(Debug, Clone)]
pub struct PortView {
    /// Number.
    pub number: PortNumber,
    /// Name, from the first declaration that has the number.
    pub name: PortName,
    /// Protocol, from the same declaration.
    pub protocol: Protocol,
    /// Inputs of the CDS resource.
    pub cluster: Shared<ResourceInputs<ClusterInputs>>,
    /// Inputs of the EDS resource.
    pub endpoints: Shared<ResourceInputs<EndpointInputs>>,
    /// Inputs of its part of LDS resources.
    pub listener: Shared<ResourceInputs<ListenerInputs>>,
    /// Inputs of its part of RDS resources.
    pub route: Shared<ResourceInputs<RouteInputs>>,
}

/// Inputs of an xDS cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterInputs {
    /// Service.
    pub service: ServiceKey,
    /// Port.
    pub port: PortNumber,
    /// Protocol.
    pub protocol: Protocol,
    /// Resolution, from the first declaration.
    pub resolution: Resolution,
    /// Port that replaces that of the original destination (resolution Passthrough only).
    pub target: Option<PortNumber>,
    /// Attributes of the first declaration.
    pub attributes: Arc<Attributes>,
    /// Identities of all its endpoints and declarations, those of the trust domain under its aliases too.
    pub identities: Arc<IdentitySet>,
    /// Whether clients with certificates use mesh TLS where no rule decides: the mesh does, and the service is inside it.
    pub automatic_tls: bool,
    /// Whether all endpoints accept mesh TLS. Only where connections keep their destination, so that clients cannot treat
    /// endpoints differently; false elsewhere.
    pub all_meshed: bool,
    /// Maximum duration of a connection attempt.
    pub connect_timeout: Duration,
    /// Endpoints carried inside the xDS cluster (DNS resolutions only).
    pub inline: Option<Shared<ResourceInputs<EndpointInputs>>>,
    /// Setting of the mesh on localities, which applies where neither a rule nor the traffic distribution decides.
    pub locality: Option<Arc<LocalityBalancing>>,
    /// What DestinationRules set, by the namespace of the client.
    pub policy: Option<Arc<ByNamespace<Option<Arc<ClusterPolicy>>>>>,
}

impl ClusterInputs {
    /// Returns what DestinationRules set for a client.
    #[must_use]
    pub fn policy_of(&self, namespace: Option<&Namespace>) -> Option<&ClusterPolicy> {
        self.policy.as_ref()?.get(namespace).as_deref()
    }
}

/// Inputs of an endpoint assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointInputs {
    /// Service.
    pub service: ServiceKey,
    /// Service port.
    pub port: PortNumber,
    /// Resolution, from the first declaration.
    pub resolution: Resolution,
    /// Traffic distribution, from the first declaration.
    pub traffic: TrafficDistribution,
    /// Groups behind this port, in order of precedence of their shards.
    pub sources: Arc<[EndpointSource]>,
    /// Networks that clients of other networks enter through gateways only, sorted by name.
    pub gated: Arc<[Arc<GatedNetwork>]>,
    /// Whether clients use mesh TLS without a rule.
    pub automatic_tls: bool,
    /// Setting of the mesh on localities, which applies where neither a rule nor the traffic distribution decides.
    pub locality: Option<Arc<LocalityBalancing>>,
    /// What DestinationRules set, by the namespace of the client.
    pub policy: Option<Arc<ByNamespace<Option<Arc<EndpointPolicy>>>>>,
}

impl EndpointInputs {
    /// Returns what DestinationRules set for a client.
    #[must_use]
    pub fn policy_of(&self, namespace: Option<&Namespace>) -> Option<&EndpointPolicy> {
        self.policy.as_ref()?.get(namespace).as_deref()
    }
    /// Returns a network that gateways separate from others.
    #[must_use]
    pub fn gated(&self, network: &NetworkId) -> Option<&Arc<GatedNetwork>> {
        let at = self.gated.binary_search_by(|gated| gated.id.cmp(network)).ok()?;
        self.gated.get(at)
    }
}

/// One endpoint group behind one service port.
#[derive(Debug, Clone)]
pub struct EndpointSource {
    /// Shard that reports it.
    pub shard: Arc<ShardRef>,
    /// Normal, or one priority lower.
    pub priority: ShardPriority,
    /// Declaration that connects the group to this port.
    pub declaration: Arc<Declaration>,
    /// Visibility of that declaration.
    pub visibility: Visibility,
    /// Addresses.
    pub group: Arc<EndpointGroup>,
    /// For each port set of the group, the index of the port behind this service port.
    pub ports: Arc<[Option<u16>]>,
    /// Indexes of addresses whose removal is held, sorted.
    pub held: Arc<[u32]>,
    /// Indexes of addresses that accept no mesh TLS although they are of the mesh, sorted: a PeerAuthentication disables it.
    pub plain: Arc<[u32]>,
    /// Role of the group in a federated service.
    pub federation: Option<Arc<FederationInfo>>,
}

/// How a federated service uses a member's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct FederationInfo {
    /// Index of the member.
    pub member: u16,
    /// Host of the member.
    pub host: Hostname,
    /// Share of traffic; without any shares, traffic follows the number of endpoints.
    pub share: Option<u32>,
    /// Whether it takes traffic only after active members fail.
    pub standby: bool,
    /// Number of healthy active endpoints that exclude standby endpoints; without it standby endpoints have a lower priority.
    pub min_healthy: Option<u32>,
    /// Whether its registry has been stale for longer than configured; its endpoints then do not exclude standby endpoints.
    pub stale: bool,
    /// Labels added to those of its endpoints.
    pub labels: Labels,
}

impl PartialEq for EndpointSource {
    fn eq(&self, other: &Self) -> bool {
        let same_group = Arc::ptr_eq(&self.group, &other.group) || self.group == other.group;
        let same_decl =
            Arc::ptr_eq(&self.declaration, &other.declaration) || self.declaration == other.declaration;
        same_group
            && same_decl
            && self.shard == other.shard
            && self.priority == other.priority
            && self.visibility == other.visibility
            && self.ports == other.ports
            && self.held == other.held
            && self.plain == other.plain
            && self.federation == other.federation
    }
}

/// Inputs of a port's part of listeners.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerInputs {
    /// Service.
    pub service: ServiceKey,
    /// Port.
    pub port: PortNumber,
    /// Protocol.
    pub protocol: Protocol,
    /// Resolution.
    pub resolution: Resolution,
    /// Virtual addresses of all declarations, sorted.
    pub addresses: Arc<[ServiceAddress]>,
    /// Endpoints whose addresses listeners match, if neither host, SNI nor virtual address identifies the port.
    pub endpoints: Option<Shared<ResourceInputs<EndpointInputs>>>,
    /// What DestinationRules set, by the namespace of the client.
    pub policy: Option<Arc<ByNamespace<Option<Arc<ConnectionPolicy>>>>>,
    /// VirtualServices whose hosts match, in order of precedence.
    pub virtual_services: Arc<[L4Candidate]>,
    /// What the destinations of their routes lead to, sorted; those that only lead to what they name are not here. Several
    /// destinations of a route have the policy of the first one without its subset.
    pub destinations: Arc<[ConnectionTarget]>,
}

impl ListenerInputs {
    /// Returns what DestinationRules set, for the port and for each destination of routes.
    pub fn policies(&self) -> impl Iterator<Item = &ByNamespace<Option<Arc<ConnectionPolicy>>>> {
        let routed = self.destinations.iter().filter_map(|to| to.policy.as_deref());
        self.policy.as_deref().into_iter().chain(routed)
    }
    /// Returns what DestinationRules set for a client.
    #[must_use]
    pub fn policy_of(&self, namespace: Option<&Namespace>) -> Option<&Arc<ConnectionPolicy>> {
        self.policy.as_ref()?.get(namespace).as_ref()
    }
}

/// Inputs of a port's part of route tables.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteInputs {
    /// Service.
    pub service: ServiceKey,
    /// Port.
    pub port: PortNumber,
    /// Protocol.
    pub protocol: Protocol,
    /// Resolution.
    pub resolution: Resolution,
    /// Virtual addresses of all declarations, sorted.
    pub addresses: Arc<[ServiceAddress]>,
    /// Whether the service is headless: `*.host` routes to it too.
    pub headless: bool,
    /// Retries of requests; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
    /// Property of a request that decides its endpoint, as DestinationRules set it, by the namespace of the client.
    pub hash: Option<Arc<ByNamespace<Option<Arc<HashKey>>>>>,
    /// VirtualServices whose hosts match, in order of precedence.
    pub virtual_services: Arc<[HttpCandidate]>,
    /// What the destinations of their routes lead to, sorted; those that only lead to what they name are not here.
    pub destinations: Arc<[ResolvedDestination]>,
    /// Whether a service has the host. A host without one has the routes of a VirtualService or none, and no other name.
    pub has_service: bool,
}

impl RouteInputs {
    /// Returns the property of a client's request that decides its endpoint.
    #[must_use]
    pub fn hash_of(&self, namespace: Option<&Namespace>) -> Option<&Arc<HashKey>> {
        self.hash.as_ref()?.get(namespace).as_ref()
    }
}

impl ServiceView {
    /// Returns the port with this number.
    #[must_use]
    pub fn port(&self, number: PortNumber) -> Option<&PortView> {
        self.ports.binary_search_by(|p| p.number.cmp(&number)).ok().map(|i| &self.ports[i])
    }
    /// Returns the hosts of its aliases, sorted.
    #[must_use]
    pub fn alias_hosts(&self) -> BTreeSet<&Hostname> {
        self.aliases.iter().map(|alias| &alias.host).collect()
    }
    /// Returns the host that this service is an alias of; `None` if it is not an alias.
    #[must_use]
    pub fn alias_target(&self) -> Option<&Hostname> {
        self.first()?.declaration.alias_target()
    }
    /// Returns the service as clients of this namespace see it: merged from the declarations that they see.
    #[must_use]
    pub fn seen_by<'v>(self: &'v Arc<Self>, namespace: Option<&Namespace>) -> &'v Arc<Self> {
        let sees =
            |declaration: &DeclarationView| declaration.visibility.admits(&self.key.namespace, namespace);
        let fits = |audience: &&AudienceView| {
            self.declarations.iter().map(sees).eq(audience.visible.iter().copied())
        };
        self.audiences.iter().find(fits).map_or(self, |audience| &audience.view)
    }
    /// Returns the declaration with the highest precedence; `None` only for a view that the core did not build.
    #[must_use]
    pub fn first(&self) -> Option<&DeclarationView> {
        self.declarations.first()
    }
}
