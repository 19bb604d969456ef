//! Policies: objects that change what clients receive, without being services.
//!
//! Adapters report them as facts. The core publishes each key once, from the first shard in precedence, with
//! the conditions that concern it.

use std::fmt;
use std::sync::Arc;

use crate::authorization::AuthorizationPolicy;
use crate::destination_rule::DestinationRule;
use crate::envoy_filter::EnvoyFilter;
use crate::forwarding::ForwardingGateway;
use crate::id::Namespace;
use crate::labels::Labels;
use crate::object::Source;
use crate::peer_authentication::PeerAuthentication;
use crate::precedence::{Precedence, PrecedenceKey};
use crate::request_authentication::RequestAuthentication;
use crate::sidecar::Sidecar;
use crate::time::Timestamp;
use crate::view::{Condition, ShardRef};
use crate::virtual_service::{DelegateRef, VirtualService};

/// Kind of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum PolicyKind {
    /// What workloads reach and receive.
    Sidecar,
    /// How clients use the endpoints of a host.
    DestinationRule,
    /// How the requests and connections of clients to certain hosts are routed.
    VirtualService,
    /// How resources of clients are changed.
    EnvoyFilter,
    /// Which connections workloads accept.
    PeerAuthentication,
    /// Which requests and connections workloads accept.
    AuthorizationPolicy,
    /// Which tokens of requests workloads accept.
    RequestAuthentication,
    /// What routers forward.
    Gateway,
}

impl PolicyKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Sidecar,
        Self::DestinationRule,
        Self::VirtualService,
        Self::EnvoyFilter,
        Self::PeerAuthentication,
        Self::AuthorizationPolicy,
        Self::RequestAuthentication,
        Self::Gateway,
    ];

    /// Name in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sidecar => "Sidecar",
            Self::DestinationRule => "DestinationRule",
            Self::VirtualService => "VirtualService",
            Self::EnvoyFilter => "EnvoyFilter",
            Self::PeerAuthentication => "PeerAuthentication",
            Self::AuthorizationPolicy => "AuthorizationPolicy",
            Self::RequestAuthentication => "RequestAuthentication",
            Self::Gateway => "Gateway",
        }
    }
    /// Whether of the policies that select a workload, and of those for its whole namespace, one applies to it.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Sidecar | Self::PeerAuthentication)
    }
    /// Returns the kind of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}
impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Identity of a policy. An edit of the policy keeps its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct PolicyKey {
    /// Kind.
    pub kind: PolicyKind,
    /// Namespace.
    pub namespace: Namespace,
    /// Name.
    pub name: Arc<str>,
}

impl From<&DelegateRef> for PolicyKey {
    fn from(to: &DelegateRef) -> Self {
        let name = Arc::clone(&to.name);
        Self { kind: PolicyKind::VirtualService, namespace: to.namespace.clone(), name }
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Content of a policy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub enum Policy {
    /// What workloads reach and receive.
    Sidecar(Sidecar),
    /// How clients use the endpoints of a host.
    DestinationRule(DestinationRule),
    /// How the requests and connections of clients to certain hosts are routed.
    VirtualService(VirtualService),
    /// How resources of clients are changed.
    EnvoyFilter(EnvoyFilter),
    /// Which connections workloads accept.
    PeerAuthentication(PeerAuthentication),
    /// Which requests and connections workloads accept.
    AuthorizationPolicy(AuthorizationPolicy),
    /// Which tokens of requests workloads accept.
    RequestAuthentication(RequestAuthentication),
    /// What routers forward.
    Gateway(ForwardingGateway),
}

impl Policy {
    /// Kind.
    #[must_use]
    pub const fn kind(&self) -> PolicyKind {
        match self {
            Self::Sidecar(_) => PolicyKind::Sidecar,
            Self::DestinationRule(_) => PolicyKind::DestinationRule,
            Self::VirtualService(_) => PolicyKind::VirtualService,
            Self::EnvoyFilter(_) => PolicyKind::EnvoyFilter,
            Self::PeerAuthentication(_) => PolicyKind::PeerAuthentication,
            Self::AuthorizationPolicy(_) => PolicyKind::AuthorizationPolicy,
            Self::RequestAuthentication(_) => PolicyKind::RequestAuthentication,
            Self::Gateway(_) => PolicyKind::Gateway,
        }
    }
    /// Labels of the workloads that it selects, empty for all workloads of its namespace, if its kind selects workloads. A Gateway
    /// selects those of every namespace.
    #[must_use]
    pub const fn selector(&self) -> Option<&Labels> {
        match self {
            Self::Sidecar(sidecar) => Some(&sidecar.selector),
            Self::PeerAuthentication(policy) => Some(&policy.selector),
            Self::AuthorizationPolicy(policy) => Some(&policy.selector),
            Self::RequestAuthentication(policy) => Some(&policy.selector),
            Self::Gateway(gateway) => Some(&gateway.selector),
            Self::DestinationRule(_) | Self::VirtualService(_) | Self::EnvoyFilter(_) => None,
        }
    }
    /// Whether it stands in for a policy of which no version is valid.
    #[must_use]
    pub fn is_stand_in(&self) -> bool {
        match self {
            Self::AuthorizationPolicy(policy) => policy.is_stand_in(),
            Self::RequestAuthentication(policy) => policy.is_stand_in(),
            Self::Sidecar(_)
            | Self::DestinationRule(_)
            | Self::VirtualService(_)
            | Self::EnvoyFilter(_)
            | Self::PeerAuthentication(_)
            | Self::Gateway(_) => false,
        }
    }
    /// Paths of valid fields that have no effect, sorted.
    #[must_use]
    pub fn ignored(&self) -> &[Arc<str>] {
        match self {
            Self::Sidecar(sidecar) => &sidecar.ignored,
            Self::DestinationRule(rule) => &rule.ignored,
            Self::VirtualService(service) => &service.ignored,
            Self::EnvoyFilter(filter) => &filter.ignored,
            Self::PeerAuthentication(policy) => &policy.ignored,
            Self::AuthorizationPolicy(policy) => &policy.ignored,
            Self::RequestAuthentication(policy) => &policy.ignored,
            Self::Gateway(gateway) => &gateway.ignored,
        }
    }
}

/// Policy as a source declares it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DeclaredPolicy {
    /// Source object.
    pub source: Source,
    /// Creation time, if the source has one.
    pub created: Option<Timestamp>,
    /// Content.
    pub policy: Policy,
}

/// Published policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyView {
    /// Shard that reports it; its registry's freshness is that of the policy.
    pub shard: Arc<ShardRef>,
    /// Position of the registry.
    pub precedence: Precedence,
    /// Policy with its source object.
    pub declared: Arc<DeclaredPolicy>,
    /// Conditions of the policy, sorted.
    pub conditions: Arc<[Condition]>,
}

impl PolicyView {
    /// Whether clients are served the same by both. Conditions are for operators.
    #[must_use]
    pub fn is_served_as(&self, other: &Self) -> bool {
        let of = |view: &Self| (Arc::clone(&view.shard), view.precedence, Arc::clone(&view.declared));
        of(self) == of(other)
    }
    /// Content.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.declared.policy
    }
    /// Content, if it is a Sidecar.
    #[must_use]
    pub fn sidecar(&self) -> Option<&Sidecar> {
        if let Policy::Sidecar(sidecar) = self.policy() { Some(sidecar) } else { None }
    }
    /// Content, if it is a DestinationRule.
    #[must_use]
    pub fn destination_rule(&self) -> Option<&DestinationRule> {
        if let Policy::DestinationRule(rule) = self.policy() { Some(rule) } else { None }
    }
    /// Content, if it is a VirtualService.
    #[must_use]
    pub fn virtual_service(&self) -> Option<&VirtualService> {
        if let Policy::VirtualService(service) = self.policy() { Some(service) } else { None }
    }
    /// Content, if it is an EnvoyFilter.
    #[must_use]
    pub fn envoy_filter(&self) -> Option<&EnvoyFilter> {
        if let Policy::EnvoyFilter(filter) = self.policy() { Some(filter) } else { None }
    }
    /// Content, if it is a PeerAuthentication.
    #[must_use]
    pub fn peer_authentication(&self) -> Option<&PeerAuthentication> {
        if let Policy::PeerAuthentication(policy) = self.policy() { Some(policy) } else { None }
    }
    /// Content, if it is an AuthorizationPolicy.
    #[must_use]
    pub fn authorization_policy(&self) -> Option<&AuthorizationPolicy> {
        if let Policy::AuthorizationPolicy(policy) = self.policy() { Some(policy) } else { None }
    }
    /// Content, if it is a RequestAuthentication.
    #[must_use]
    pub fn request_authentication(&self) -> Option<&RequestAuthentication> {
        if let Policy::RequestAuthentication(policy) = self.policy() { Some(policy) } else { None }
    }
    /// Key that decides its precedence: among the policies for one workload, the first applies.
    #[must_use]
    pub fn precedence_key(&self) -> PrecedenceKey<'_> {
        PrecedenceKey {
            shard: &self.shard,
            precedence: self.precedence,
            created: self.declared.created,
            object: &self.declared.source.object,
            federated: false,
        }
    }
}
