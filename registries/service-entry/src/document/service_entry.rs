//! ServiceEntry of `networking.istio.io`: hosts, their ports, and where their endpoints come from.

use std::sync::Arc;

use tributary_model::Labels;

use super::{Located, Text, WorkloadSpec};
use crate::read::fault::Pos;

/// Hosts and how to reach them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceEntry {
    /// Position of `spec`, or of the document without one.
    pub at: Located<()>,
    /// The declared hosts.
    pub hosts: Vec<Text>,
    /// IPs and CIDRs by which clients address the hosts.
    pub addresses: Vec<Text>,
    /// The ports.
    pub ports: Vec<SePort>,
    /// Whether it is inside or outside the mesh.
    pub location: Location,
    /// How endpoints are resolved.
    pub resolution: Located<Resolution>,
    /// Inline endpoints.
    pub endpoints: Vec<WorkloadSpec>,
    /// Selects workloads of its namespace; an empty selector selects nothing.
    pub selector: Option<Located<Labels>>,
    /// The namespaces that see it.
    pub export_to: Vec<Text>,
    /// Identities that clients accept from endpoints.
    pub subject_alt_names: Vec<Text>,
    /// `status.addresses`: allocated addresses, as (host, address).
    pub allocated: Vec<(Arc<str>, Arc<str>)>,
    /// Whether the object has a `status`.
    pub has_status: bool,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SePort {
    /// Position.
    pub at: Located<()>,
    /// Number that clients connect to.
    pub number: Located<i64>,
    /// Protocol name; empty if absent.
    pub protocol: Text,
    /// Its name.
    pub name: Text,
    /// Port number of endpoints, if it differs.
    pub target: Option<Located<i64>>,
}

/// Whether a service is inside or outside the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Location {
    /// Outside the mesh, without mesh TLS.
    #[default]
    External,
    /// Inside the mesh.
    Internal,
}

impl Location {
    /// The names in documents.
    pub(crate) const NAMES: [(&'static str, Self); 2] =
        [("MESH_EXTERNAL", Self::External), ("MESH_INTERNAL", Self::Internal)];
}

/// How endpoints are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolution {
    /// Passthrough to the original destination.
    #[default]
    None,
    /// Listed or selected endpoints.
    Static,
    /// All addresses of the DNS answer.
    Dns,
    /// One address of the DNS answer at a time.
    DnsRoundRobin,
    /// The proxy resolves the host of each request.
    DynamicDns,
}

impl Resolution {
    /// The names in documents.
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("NONE", Self::None),
        ("STATIC", Self::Static),
        ("DNS", Self::Dns),
        ("DNS_ROUND_ROBIN", Self::DnsRoundRobin),
        ("DYNAMIC_DNS", Self::DynamicDns),
    ];
    /// The name in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, r)| *r == self).map_or("NONE", |(name, _)| name)
    }
    /// Whether endpoints may be DNS names.
    #[must_use]
    pub const fn is_dns(self) -> bool {
        matches!(self, Self::Dns | Self::DnsRoundRobin)
    }
}

impl SePort {
    /// The position of the port.
    #[must_use]
    pub const fn pos(&self) -> Pos {
        self.at.at
    }
}
