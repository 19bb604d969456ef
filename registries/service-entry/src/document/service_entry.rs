//! ServiceEntry of `networking.istio.io`: hosts, their ports, and where their endpoints come from.

use std::sync::Arc;

use tributary_model::Labels;

use super::{Located, Text, WorkloadSpec};
use crate::fault::Pos;

/// Hosts and how to reach them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceEntry {
    /// `spec`, or the document where it has none.
    pub at: Located<()>,
    /// The hosts that it declares.
    pub hosts: Vec<Text>,
    /// IPs and CIDRs by which clients address it.
    pub addresses: Vec<Text>,
    /// Its ports.
    pub ports: Vec<SePort>,
    /// Inside or outside the mesh.
    pub location: Location,
    /// How endpoints are found.
    pub resolution: Located<Resolution>,
    /// Inline endpoints.
    pub endpoints: Vec<WorkloadSpec>,
    /// Selects workloads of its namespace; present and empty selects nothing.
    pub selector: Option<Located<Labels>>,
    /// Who sees it.
    pub export_to: Vec<Text>,
    /// Identities that endpoints may prove.
    pub subject_alt_names: Vec<Text>,
    /// `status.addresses`: what an allocator gave to its hosts, as (host, address).
    pub allocated: Vec<(Arc<str>, Arc<str>)>,
    /// Whether there is a `status`, whatever it says.
    pub has_status: bool,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SePort {
    /// Where it stands.
    pub at: Located<()>,
    /// What clients connect to.
    pub number: Located<i64>,
    /// What it speaks; empty where nothing is said.
    pub protocol: Text,
    /// Its name.
    pub name: Text,
    /// Where it leads, where that is another number.
    pub target: Option<Located<i64>>,
}

/// Inside or outside the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Location {
    /// Consumed through an API, without mesh TLS.
    #[default]
    External,
    /// Part of the mesh.
    Internal,
}

impl Location {
    /// Istio's names.
    pub(crate) const NAMES: [(&'static str, Self); 2] =
        [("MESH_EXTERNAL", Self::External), ("MESH_INTERNAL", Self::Internal)];
}

/// How endpoints are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolution {
    /// Where the connection was going anyway.
    #[default]
    None,
    /// The endpoints that are listed or selected.
    Static,
    /// All addresses that DNS answers.
    Dns,
    /// One address that DNS answers at a time.
    DnsRoundRobin,
    /// Each request's own host, resolved by the proxy.
    DynamicDns,
}

impl Resolution {
    /// Istio's names.
    pub(crate) const NAMES: [(&'static str, Self); 5] = [
        ("NONE", Self::None),
        ("STATIC", Self::Static),
        ("DNS", Self::Dns),
        ("DNS_ROUND_ROBIN", Self::DnsRoundRobin),
        ("DYNAMIC_DNS", Self::DynamicDns),
    ];
    /// Istio's name of it.
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
    /// Where the port stands.
    #[must_use]
    pub const fn pos(&self) -> Pos {
        self.at.at
    }
}
