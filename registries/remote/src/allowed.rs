//! What an operator allows in kubeconfigs beyond the default.
//!
//! Built from the operator's own flags or configuration, never from a Secret. Vetting reads it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Part of a kubeconfig that is refused unless the operator allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// The server's certificate is not checked.
    InsecureSkipTlsVerify,
    /// Requests go through a proxy that the kubeconfig names.
    ProxyUrl,
    /// User and password.
    Basic,
    /// Requests name another user than the one who authenticates.
    Impersonation,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 4] =
        [Self::InsecureSkipTlsVerify, Self::ProxyUrl, Self::Basic, Self::Impersonation];

    /// Returns the name in flags and configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InsecureSkipTlsVerify => "insecure-skip-tls-verify",
            Self::ProxyUrl => "proxy-url",
            Self::Basic => "basic",
            Self::Impersonation => "impersonation",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Name that is not one of a feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no such kubeconfig feature; use insecure-skip-tls-verify, proxy-url, basic or impersonation (others cannot be allowed)"
)]
pub struct UnknownFeature;

impl FromStr for Feature {
    type Err = UnknownFeature;
    fn from_str(text: &str) -> Result<Self, UnknownFeature> {
        Self::ALL.into_iter().find(|feature| feature.as_str() == text).ok_or(UnknownFeature)
    }
}

/// Opt-ins of the operator. The default allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Allowed features.
    pub features: BTreeSet<Feature>,
    /// Ranges in which a server may be although its class is refused.
    pub servers: Vec<IpNet>,
}

/// Text that is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a range of addresses; write an IP address or a CIDR such as 127.0.0.0/8")]
pub struct InvalidCidr;

/// Parses a CIDR, or an address as the range of itself.
pub fn parse_cidr(text: &str) -> Result<IpNet, InvalidCidr> {
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(alone).ok_or(InvalidCidr)
}
