//! An immutable picture of one service: what the core has merged, ready to be answered from.
//!
//! Built by the core, read by answer and xds. A view holds all that its answers read, so nothing
//! that was made from it is ever invalidated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::code::Code;
use crate::declaration::{
    Attributes, Declaration, Resolution, ServiceAddress, ServiceKey, TrafficDistribution,
};
use crate::endpoint_group::EndpointGroup;
use crate::export::Visibility;
use crate::hostname::Hostname;
use crate::id::{Identity, NetworkId, RegistryId, Scope};
use crate::labels::Labels;
use crate::object::ObjectRef;
use crate::port::{PortName, PortNumber};
use crate::precedence::PrecedenceKey;
use crate::protocol::Protocol;
use crate::resource_inputs::ResourceInputs;
use crate::shared::Shared;
use crate::status::ShardPriority;

/// Whose word a shard is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ShardRef {
    /// The registry.
    pub registry: Arc<RegistryId>,
    /// The scope.
    pub scope: Scope,
}

/// Something about a service that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Condition {
    /// What it is.
    pub code: Code,
    /// The objects that it is about, the one that is served first.
    pub objects: Arc<[ObjectRef]>,
    /// It, in words.
    pub message: Arc<str>,
}

/// A declaration with whose word it is and who sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclarationView {
    /// Whose word.
    pub shard: Arc<ShardRef>,
    /// The declaration.
    pub declaration: Arc<Declaration>,
    /// Its registry's rank within its provider.
    pub rank: u16,
    /// Its visibility, resolved.
    pub visibility: Visibility,
    /// Whether it is another service's, which an alias joins.
    pub federated: bool,
}

impl DeclarationView {
    /// What decides its precedence.
    #[must_use]
    pub fn precedence_key(&self) -> PrecedenceKey<'_> {
        let (created, object) = (self.declaration.created, &self.declaration.source.object);
        PrecedenceKey { shard: &self.shard, rank: self.rank, created, object, joined: self.federated }
    }
}

/// A service whose host is another name for a service (resolution Alias). Its own declarations decide who sees the name
/// and how early it claims its domain; those of the service that it leads to do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasHost {
    /// Its host and namespace.
    pub service: ServiceKey,
    /// Who sees one of its declarations.
    pub visibility: Visibility,
}

/// One service, merged from all its declarations.
#[derive(Debug, Clone)]
pub struct ServiceView {
    /// Its host and namespace.
    pub key: ServiceKey,
    /// Its declarations, in order of precedence. Never empty.
    pub declarations: Arc<[DeclarationView]>,
    /// Its ports, by number.
    pub ports: Arc<[PortView]>,
    /// What is odd about it.
    pub conditions: Arc<[Condition]>,
    /// Services of other hosts that lead here (resolution Alias), sorted.
    pub aliases: Arc<[AliasHost]>,
    /// How many addresses all its groups have.
    pub addresses: u32,
}

/// One port of a service.
#[derive(Debug, Clone)]
pub struct PortView {
    /// Its number.
    pub number: PortNumber,
    /// Its name, by the first declaration that has the number.
    pub name: PortName,
    /// Its protocol, by the same.
    pub protocol: Protocol,
    /// What CDS serves.
    pub cluster: Shared<ResourceInputs<ClusterInputs>>,
    /// What EDS serves.
    pub endpoints: Shared<ResourceInputs<EndpointInputs>>,
    /// What LDS serves of it.
    pub listener: Shared<ResourceInputs<ListenerInputs>>,
    /// What RDS serves of it.
    pub route: Shared<ResourceInputs<RouteInputs>>,
}

/// All that an xDS cluster is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterInputs {
    /// The service.
    pub service: ServiceKey,
    /// The port.
    pub port: PortNumber,
    /// What it speaks.
    pub protocol: Protocol,
    /// How its endpoints are found, by the first declaration.
    pub resolution: Resolution,
    /// The first declaration's attributes.
    pub attributes: Arc<Attributes>,
    /// Identities of all its endpoints and declarations, sorted.
    pub identities: Arc<[Identity]>,
    /// How long a connection attempt may take.
    pub connect_timeout: Duration,
    /// Its endpoints, where they stand inside the xDS cluster (DNS).
    pub inline: Option<Shared<ResourceInputs<EndpointInputs>>>,
}

/// All that an assignment is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointInputs {
    /// The service.
    pub service: ServiceKey,
    /// The service port.
    pub port: PortNumber,
    /// How endpoints are found, by the first declaration.
    pub resolution: Resolution,
    /// What is near first, by the first declaration.
    pub traffic: TrafficDistribution,
    /// The groups behind this port, in order of precedence of their shards.
    pub sources: Arc<[EndpointSource]>,
    /// Networks that have gateways and are not reached directly, sorted.
    pub gated: Arc<[NetworkId]>,
}

/// One group behind one service port.
#[derive(Debug, Clone)]
pub struct EndpointSource {
    /// Whose word.
    pub shard: Arc<ShardRef>,
    /// Normal, or one priority lower.
    pub priority: ShardPriority,
    /// The declaration that puts the group behind this port.
    pub declaration: Arc<Declaration>,
    /// Who sees that declaration.
    pub visibility: Visibility,
    /// The addresses.
    pub group: Arc<EndpointGroup>,
    /// For each port set of the group, which of its ports stands behind this service port.
    pub ports: Arc<[Option<u16>]>,
    /// Addresses of the group whose removal is held, by index, sorted.
    pub held: Arc<[u32]>,
    /// What the alias says of it, where the service is one.
    pub federation: Option<Arc<FederationInfo>>,
}

/// What an alias says of a member's endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct FederationInfo {
    /// The member's place in the alias.
    pub member: u16,
    /// The member's host.
    pub host: Hostname,
    /// Its share of traffic; by endpoints where no member says one.
    pub share: Option<u32>,
    /// Whether it waits for the active members to fail.
    pub standby: bool,
    /// How many healthy active endpoints keep standby ones out; without it they stand one priority lower.
    pub min_healthy: Option<u32>,
    /// Whether its registry has been silent for longer than the alias gives, so that it keeps no standby out.
    pub stale: bool,
    /// What its endpoints are labelled with beside their own labels.
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
            && self.federation == other.federation
    }
}

/// All that a port's part in listeners is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerInputs {
    /// The service.
    pub service: ServiceKey,
    /// The port.
    pub port: PortNumber,
    /// What it speaks.
    pub protocol: Protocol,
    /// How its endpoints are found.
    pub resolution: Resolution,
    /// Its virtual addresses over all declarations, sorted.
    pub addresses: Arc<[ServiceAddress]>,
    /// Its endpoints, where each has a listener of its own (headless and not HTTP).
    pub inline: Option<Shared<ResourceInputs<EndpointInputs>>>,
}

/// All that a port's part in route tables is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteInputs {
    /// The service.
    pub service: ServiceKey,
    /// The port.
    pub port: PortNumber,
    /// What it speaks.
    pub protocol: Protocol,
    /// How its endpoints are found.
    pub resolution: Resolution,
    /// Its virtual addresses over all declarations, sorted.
    pub addresses: Arc<[ServiceAddress]>,
    /// Services of other hosts that lead here, sorted.
    pub aliases: Arc<[AliasHost]>,
    /// Headless: `*.host` leads here too.
    pub headless: bool,
}

impl ServiceView {
    /// A port by its number.
    #[must_use]
    pub fn port(&self, number: PortNumber) -> Option<&PortView> {
        self.ports.binary_search_by(|p| p.number.cmp(&number)).ok().map(|i| &self.ports[i])
    }
    /// The other hosts that lead here, sorted.
    #[must_use]
    pub fn alias_hosts(&self) -> BTreeSet<&Hostname> {
        self.aliases.iter().map(|alias| &alias.service.host).collect()
    }
    /// The declaration that decides; `None` only for a view that no core has built.
    #[must_use]
    pub fn first(&self) -> Option<&DeclarationView> {
        self.declarations.first()
    }
}
