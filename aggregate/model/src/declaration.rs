//! One source object's word that a service exists, and how.

use std::net::IpAddr;
use std::sync::Arc;

use crate::code::Code;
use crate::export::ExportTo;
use crate::hostname::Hostname;
use crate::id::{ClusterId, Identity, Namespace};
use crate::labels::Labels;
use crate::object::{ObjectId, Source};
use crate::port::ServicePort;
use crate::time::Timestamp;
use crate::workload::WorkloadKind;

/// What a service is: its host and the namespace that declares it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServiceKey {
    /// The host that clients name.
    pub host: Hostname,
    /// The namespace of its declarations.
    pub namespace: Namespace,
}

impl std::fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.host)
    }
}

/// Which declaration: the service and the object that declares it. One object may declare several
/// services, and several objects one service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct DeclKey {
    /// The service.
    pub service: ServiceKey,
    /// The declaring object.
    pub object: ObjectId,
}

/// How a client finds the endpoints (`registries.md` 1.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Resolution {
    /// The control plane tells them (EDS).
    ClientSide,
    /// Every address that DNS answers (STRICT_DNS).
    DnsStrict,
    /// One logical endpoint behind a DNS name (LOGICAL_DNS).
    DnsLogical,
    /// Where the connection was going anyway.
    Passthrough,
    /// Resolved by the proxy per request (wildcard hosts).
    Dynamic,
    /// Another name for that host.
    Alias(Hostname),
}

impl Resolution {
    /// Whether endpoints are carried inside the xDS cluster.
    #[must_use]
    pub const fn is_dns(&self) -> bool {
        matches!(self, Self::DnsStrict | Self::DnsLogical)
    }
}

/// A virtual address of a service, valid in one cluster or, where `cluster` is `None`, everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServiceAddress {
    /// The cluster in which clients use it.
    pub cluster: Option<ClusterId>,
    /// The address.
    pub ip: IpAddr,
    /// Its prefix length: 32 or 128 for one address.
    pub prefix: u8,
    /// Whether an allocator chose it, so that only clients with DNS capture use it.
    pub allocated: bool,
}

impl ServiceAddress {
    /// Whether it is a single address.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        self.prefix == if self.ip.is_ipv4() { 32 } else { 128 }
    }
}

/// How traffic prefers what is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum TrafficDistribution {
    /// All endpoints alike.
    #[default]
    Any,
    /// The client's zone, then its region, then the rest (PreferClose, PreferSameZone).
    SameZone,
    /// The client's node, then as `SameZone` with the subzone between.
    SameNode,
}

impl TrafficDistribution {
    /// An annotation's or field's value, whatever its case; what is not known is `Any`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let is = |name: &str| text.eq_ignore_ascii_case(name);
        if is("PreferClose") || is("PreferSameZone") {
            Self::SameZone
        } else if is("PreferSameNode") {
            Self::SameNode
        } else {
            Self::Any
        }
    }
}

/// Selects workloads as endpoints. No pairs select nothing, never everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Selector {
    /// All of these must be on the workload.
    pub labels: Labels,
    /// Which kinds of workload it takes, sorted.
    pub kinds: Arc<[WorkloadKind]>,
    /// Only workloads of this cluster; `None` takes every cluster's.
    pub cluster: Option<ClusterId>,
    /// Whether workloads whose address is a name or a unix path are taken (DNS types only).
    pub names: bool,
    /// Whether it is matched against the labels as augmented with topology (ServiceEntry) or the
    /// workload's own (Kubernetes Services and pods).
    pub augmented: bool,
}

/// What else a declaration says; equal attributes make equal answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Attributes {
    /// The object's labels.
    pub labels: Labels,
    /// Outside the mesh.
    pub mesh_external: bool,
    /// Only endpoints on the client's own node (internalTrafficPolicy: Local).
    pub node_local: bool,
    /// Endpoints of other clusters are left out.
    pub cluster_local: bool,
    /// Only endpoints of the client's own cluster are discoverable (MCS without export).
    pub own_cluster_only: bool,
    /// What is near first.
    pub traffic: TrafficDistribution,
    /// Endpoints that are not ready stand in DNS tables.
    pub publish_not_ready: bool,
    /// Draining endpoints keep their sessions.
    pub persistent_sessions: bool,
    /// Identities that the object itself names.
    pub identities: Arc<[Identity]>,
    /// Connect to all addresses of a DNS answer at once, first wins.
    pub race_connect: bool,
    /// Headless: no virtual address by design; DNS answers the endpoints.
    pub headless: bool,
    /// What its adapter has to say of it to people, sorted; each becomes a condition of the service.
    pub remarks: Arc<[DeclarationWarning]>,
    /// How much of a service it is.
    pub part: DeclarationRole,
}

/// How much of a service a declaration is. A multi-cluster service is declared in two parts, by different
/// clusters as a rule: it is there while each part has somebody who declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum DeclarationRole {
    /// All of it.
    #[default]
    Whole,
    /// What is offered: ports and endpoints. Nobody reaches it before somebody imports it.
    Offer,
    /// What is imported: virtual addresses. It has no ports of its own; those that it names are only
    /// compared with what is offered.
    Import,
}

/// Something that an adapter noticed about a declaration that stands all the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct DeclarationWarning {
    /// What it is.
    pub code: Code,
    /// It, in one line, without times or counts that change by themselves.
    pub message: Arc<str>,
}

/// One source object's declaration of a service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Declaration {
    /// Provenance.
    pub source: Source,
    /// When the object was created; none sorts last.
    pub created: Option<Timestamp>,
    /// Its ports, in the object's order; numbers are unique.
    pub ports: Arc<[ServicePort]>,
    /// Its virtual addresses, sorted.
    pub addresses: Arc<[ServiceAddress]>,
    /// How endpoints are found.
    pub resolution: Resolution,
    /// Selects workloads as its endpoints.
    pub selector: Option<Selector>,
    /// Who sees it.
    pub export: ExportTo,
    /// Everything else.
    pub attributes: Attributes,
}

impl Declaration {
    /// A declaration without ports, of which nothing else is known.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self {
            source,
            created: None,
            ports: Arc::default(),
            addresses: Arc::default(),
            resolution: Resolution::ClientSide,
            selector: None,
            export: ExportTo::Default,
            attributes: Attributes::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_distribution_knows_its_names() {
        assert_eq!(TrafficDistribution::parse("preferclose"), TrafficDistribution::SameZone);
        assert_eq!(TrafficDistribution::parse("PreferSameNode"), TrafficDistribution::SameNode);
        assert_eq!(TrafficDistribution::parse("Nearest"), TrafficDistribution::Any);
    }
}
