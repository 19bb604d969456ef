//! Declarations: how one source object declares a service.
//!
//! Adapters report declarations; the core merges those of one service into a view.

use std::net::IpAddr;
use std::sync::Arc;

use crate::code::Code;
use crate::export::ExportTo;
use crate::hostname::Hostname;
use crate::id::{ClusterId, Identity, Namespace};
use crate::labels::Labels;
use crate::merge_name::MergeName;
use crate::object::{ObjectId, Source};
use crate::port::ServicePort;
use crate::time::Timestamp;
use crate::workload::WorkloadKind;

/// Identity of a service: its host and the namespace that declares it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServiceKey {
    /// Host that clients request.
    pub host: Hostname,
    /// Namespace of its declarations.
    pub namespace: Namespace,
}

impl std::fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.host)
    }
}

/// Identity of a declaration: the service and the declaring object. One object may declare several
/// services, and several objects may declare one service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct DeclKey {
    /// Service.
    pub service: ServiceKey,
    /// Declaring object.
    pub object: ObjectId,
}

/// How a client finds the endpoints (`docs/explanation/model.md`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Resolution {
    /// The server sends them (EDS).
    ClientSide,
    /// Every address that DNS returns (STRICT_DNS).
    DnsStrict,
    /// One logical endpoint behind a DNS name (LOGICAL_DNS).
    DnsLogical,
    /// The original destination of the connection.
    Passthrough,
    /// Resolved by the proxy per request (wildcard hosts).
    Dynamic,
    /// Another name for this host.
    Alias(Hostname),
}

impl Resolution {
    /// Whether endpoints are carried inside the xDS cluster.
    #[must_use]
    pub const fn is_dns(&self) -> bool {
        matches!(self, Self::DnsStrict | Self::DnsLogical)
    }
}

/// Virtual address of a service, valid in one cluster, or in all clusters if `cluster` is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServiceAddress {
    /// Cluster whose clients use it.
    pub cluster: Option<ClusterId>,
    /// Address.
    pub ip: IpAddr,
    /// Prefix length: 32 or 128 for a single address.
    pub prefix: u8,
    /// Whether an allocator chose it. Only clients with DNS capture use allocated addresses.
    pub allocated: bool,
}

impl ServiceAddress {
    /// Whether it is a single address.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        self.prefix == if self.ip.is_ipv4() { 32 } else { 128 }
    }
}

/// Preference for nearby endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum TrafficDistribution {
    /// No preference.
    #[default]
    Any,
    /// The client's zone, then its region, then other regions (PreferClose, PreferSameZone).
    SameZone,
    /// The client's node, then its subzone, then as `SameZone`.
    SameNode,
}

impl TrafficDistribution {
    /// Parses the value of an annotation or field in any case; unknown values are `Any`.
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

/// Selector of workloads as endpoints. A selector without labels selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Selector {
    /// Labels that the workload must have.
    pub labels: Labels,
    /// Kinds of workload that it selects, sorted.
    pub kinds: Arc<[WorkloadKind]>,
    /// Cluster of the workloads; `None` selects from all clusters.
    pub cluster: Option<ClusterId>,
    /// Whether it selects workloads whose address is a name or a unix path (DNS resolutions only).
    pub names: bool,
    /// Whether it matches the labels augmented with topology (ServiceEntry) instead of the
    /// workload's own labels (Kubernetes Services).
    pub augmented: bool,
}

/// Other attributes of a declaration. Equal attributes give equal answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Attributes {
    /// Labels of the object.
    pub labels: Labels,
    /// Whether the service is outside the mesh.
    pub mesh_external: bool,
    /// Whether clients use only endpoints on their own node (internalTrafficPolicy: Local).
    pub node_local: bool,
    /// Whether clients never use endpoints of other clusters.
    pub cluster_local: bool,
    /// Whether clients discover only endpoints of their own cluster (MCS without export).
    pub own_cluster_only: bool,
    /// Preference for nearby endpoints.
    pub traffic: TrafficDistribution,
    /// Whether DNS tables contain endpoints that are not ready.
    pub publish_not_ready: bool,
    /// Whether draining endpoints keep their sessions.
    pub persistent_sessions: bool,
    /// Identities that the object itself lists.
    pub identities: Arc<[Identity]>,
    /// Whether clients connect to all addresses of a DNS answer at once and use the first that succeeds.
    pub race_connect: bool,
    /// Whether the service is headless: it has no virtual address, and DNS returns its endpoints.
    pub headless: bool,
    /// Warnings of its adapter, sorted; each becomes a condition of the service.
    pub warnings: Arc<[DeclarationWarning]>,
    /// Which part of a service it declares.
    pub role: DeclarationRole,
}

/// Which part of a service a declaration covers. Two parts, usually in different clusters, declare a
/// multi-cluster service; it exists while each part has at least one declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum DeclarationRole {
    /// The whole service.
    #[default]
    Whole,
    /// The exported part: ports and endpoints. Clients reach it only after a cluster imports it.
    Offer,
    /// The imported part: virtual addresses. It has no ports of its own; the core only compares its ports
    /// with the exported ones.
    Import,
}

/// Warning of an adapter about a declaration that is served nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct DeclarationWarning {
    /// Code.
    pub code: Code,
    /// Text, one line, without times or counts that change by themselves.
    pub message: Arc<str>,
}

/// Declaration of a service by one source object.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Declaration {
    /// Provenance.
    pub source: Source,
    /// Creation time of the object; `None` sorts last.
    pub created: Option<Timestamp>,
    /// Ports, in the object's order; numbers are unique.
    pub ports: Arc<[ServicePort]>,
    /// Virtual addresses, sorted.
    pub addresses: Arc<[ServiceAddress]>,
    /// Resolution.
    pub resolution: Resolution,
    /// Selector of workloads as endpoints.
    pub selector: Option<Selector>,
    /// Declared visibility.
    pub export: ExportTo,
    /// Other attributes.
    pub attributes: Attributes,
    /// Name for merges by name; `None` excludes the service from them.
    pub merge_name: Option<MergeName>,
}

impl Declaration {
    /// Returns the host that it makes its host an alias of.
    #[must_use]
    pub fn alias_target(&self) -> Option<&Hostname> {
        match &self.resolution {
            Resolution::Alias(host) => Some(host),
            _ => None,
        }
    }
    /// Creates a declaration without ports, with default values.
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
            merge_name: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_distribution_parses_known_names() {
        assert_eq!(TrafficDistribution::parse("preferclose"), TrafficDistribution::SameZone);
        assert_eq!(TrafficDistribution::parse("PreferSameNode"), TrafficDistribution::SameNode);
        assert_eq!(TrafficDistribution::parse("Nearest"), TrafficDistribution::Any);
    }
}
