//! Endpoint queries: which endpoint an operator means, and which service ports it serves.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use tributary_model::{Address, Catalog, EndpointSource, PortView};

use super::ServingPort;
use crate::endpoints::Destination;

/// Endpoint as an operator writes it: an IP with or without a port, or a name or path as explain
/// shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Every port of an address.
    Ip(IpAddr),
    /// One port of an address.
    Socket(SocketAddr),
    /// `db.example.com`, `db.example.com:5432`, `unix:/run/x`.
    Text(String),
}

impl FromStr for Query {
    type Err = std::convert::Infallible;
    /// Accepts any text; text that is not an address is compared literally.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        Ok(match (bare.parse(), text.parse()) {
            (Ok(ip), _) => Self::Ip(ip),
            (_, Ok(socket)) => Self::Socket(socket),
            _ => Self::Text(text.to_owned()),
        })
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Socket(socket) => socket.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Query {
    /// Returns the service ports that matching endpoints serve, each once per endpoint, up to `max`.
    /// Walks all addresses; for operator requests only.
    pub(super) fn serving_ports<'c>(&self, catalog: &'c Catalog, max: usize) -> Vec<ServingPort<'c>> {
        let mut out: Vec<ServingPort<'c>> = Vec::new();
        for view in catalog.services() {
            for port in view.ports.iter() {
                for endpoint in self.endpoints_of(port) {
                    if out.len() < max {
                        out.push(ServingPort { view, port, endpoint });
                    }
                }
            }
        }
        out
    }
    fn endpoints_of(&self, port: &PortView) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for source in port.endpoints.inputs.sources.iter() {
            let meant = |address: &&Address| self.means_address(address);
            for address in source.group.addresses.iter().filter(meant) {
                let target = target(source, address).filter(|t| self.means(t));
                if let Some(text) = target.map(|t| t.to_string()).filter(|t| !out.contains(t)) {
                    out.push(text);
                }
            }
        }
        out
    }
    /// Returns the address of the query; `None` for a name or a path.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(*ip),
            Self::Socket(socket) => Some(socket.ip()),
            Self::Text(_) => None,
        }
    }
    /// Whether the query matches an address without a known port.
    pub(super) fn means_ip(&self, ip: IpAddr) -> bool {
        self.ip() == Some(ip)
    }
    /// Cheap filter by address, before ports are compared.
    pub(super) fn means_address(&self, address: &Address) -> bool {
        match self {
            Self::Ip(ip) => address.ip() == Some(*ip),
            Self::Socket(socket) => address.ip() == Some(socket.ip()),
            Self::Text(_) => address.ip().is_none(),
        }
    }
    pub(super) fn means(&self, target: &Destination<'_>) -> bool {
        match (self, target) {
            (Self::Ip(_), _) => true,
            (Self::Socket(socket), Destination::Ip(_, port)) => socket.port() == *port,
            (Self::Socket(_), _) => false,
            (Self::Text(text), Destination::Name(name, _)) if name == text => true,
            (Self::Text(text), target) => target.to_string() == *text,
        }
    }
}

fn target<'a>(source: &'a EndpointSource, address: &'a Address) -> Option<Destination<'a>> {
    let at = source.ports.get(usize::from(address.port_set)).copied().flatten()?;
    let port = source.group.ports(address).get(usize::from(at))?;
    Destination::of(&source.group, address, port.number)
}
