//! `meshNetworks`: networks with their members and gateways (docs/reference/kubernetes.md).
//!
//! Networks are sorted by name, so that every replica gives a contested registry or range to the same network; a
//! problem names the others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Map, Value};
use tributary_model::{GatewayAddress, Hostname, NetworkId, PortNumber};

use super::tree::{get, list, map};

/// All networks, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MeshNetworks(Arc<[MeshNetwork]>);

/// Network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshNetwork {
    /// Name.
    pub id: NetworkId,
    /// Address ranges of its members.
    pub ranges: Arc<[IpNet]>,
    /// Registries (clusters) of its members.
    pub registries: Arc<[Arc<str>]>,
    /// Gateways into it.
    pub gateways: Arc<[MeshGateway]>,
}

/// Gateway into a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshGateway {
    /// Target.
    pub at: GatewayTarget,
    /// Auto-passthrough port.
    pub port: PortNumber,
}

/// Location of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayTarget {
    /// This address.
    Address(GatewayAddress),
    /// External addresses of this Service, in the clusters that belong to the network.
    Service(Hostname),
}

impl MeshNetworks {
    pub(super) fn parse(tree: &Map<String, Value>) -> Result<Self, String> {
        let empty = Map::new();
        let networks = get(tree, "networks").map(map).transpose()?.unwrap_or(&empty);
        let one = |(id, value): (&String, &Value)| {
            network(id, value)
                .map_err(|why| format!("networks.{} {why}", id.chars().take(80).collect::<String>()))
        };
        let mut all = networks.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Self(all.into()))
    }
    /// Iterates over the networks.
    pub fn iter(&self) -> impl Iterator<Item = &MeshNetwork> {
        self.0.iter()
    }
    /// Returns the first network that claims a registry.
    #[must_use]
    pub fn of_registry(&self, registry: &str) -> Option<&NetworkId> {
        self.iter().find(|network| network.claims(registry)).map(|network| &network.id)
    }
    /// Iterates over the ranges with their networks.
    pub fn ranges(&self) -> impl Iterator<Item = (&NetworkId, &IpNet)> {
        self.iter().flat_map(|network| network.ranges.iter().map(|range| (&network.id, range)))
    }
    /// Whether a gateway refers to a Service.
    #[must_use]
    pub fn names_services(&self) -> bool {
        self.iter()
            .flat_map(|network| network.gateways.iter())
            .any(|gateway| matches!(gateway.at, GatewayTarget::Service(_)))
    }
    /// Describes registries and ranges that several networks claim; the first network has them.
    #[must_use]
    pub fn contested(&self) -> Vec<String> {
        let mut claims: BTreeMap<String, Vec<&NetworkId>> = BTreeMap::new();
        for network in self.iter() {
            let registries = network.registries.iter().map(|registry| format!("registry {registry}"));
            for what in
                registries.chain(network.ranges.iter().map(|range| format!("range {}", range.trunc())))
            {
                let by = claims.entry(what).or_default();
                if !by.contains(&&network.id) {
                    by.push(&network.id);
                }
            }
        }
        let contested = claims.into_iter().filter(|(_, by)| by.len() > 1);
        contested
            .map(|(what, by)| {
                let by: Vec<&str> = by.into_iter().map(NetworkId::as_str).collect();
                format!("{what} is claimed by {}; the first has it", by.join(", "))
            })
            .collect()
    }
}

impl MeshNetwork {
    /// Whether the network claims a registry.
    #[must_use]
    pub fn claims(&self, registry: &str) -> bool {
        self.registries.iter().any(|known| **known == *registry)
    }
}

fn network(id: &str, value: &Value) -> Result<MeshNetwork, String> {
    let tree = map(value)?;
    let (mut ranges, mut registries) = (Vec::new(), Vec::new());
    for endpoint in list(tree, "endpoints")? {
        let endpoint = map(endpoint)?;
        match (text(endpoint, "fromCidr"), text(endpoint, "fromRegistry")) {
            (Some(range), None) => ranges.push(cidr(range)?),
            (None, Some(registry)) => registries.push(Arc::from(registry)),
            _ => return Err("endpoints: an item needs one of fromCidr and fromRegistry".into()),
        }
    }
    let gateways = list(tree, "gateways")?.iter().map(gateway).collect::<Result<_, _>>()?;
    let id = NetworkId::new(id).map_err(|error| error.to_string())?;
    Ok(MeshNetwork { id, ranges: ranges.into(), registries: registries.into(), gateways })
}

fn text<'v>(tree: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    get(tree, name).and_then(Value::as_str).filter(|text| !text.is_empty() && text.len() <= 253)
}

/// Parses a range; a bare address becomes a range of one.
fn cidr(text: &str) -> Result<IpNet, String> {
    let host = || text.parse::<IpAddr>().map(IpNet::from).ok();
    text.parse().ok().or_else(host).ok_or_else(|| format!("endpoints: {text:?} is not a CIDR"))
}

fn gateway(value: &Value) -> Result<MeshGateway, String> {
    let tree = map(value)?;
    let number = get(tree, "port").and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    let port = PortNumber::new(number.unwrap_or_default()).map_err(|error| format!("gateways: {error}"))?;
    let at = match (text(tree, "address"), text(tree, "registryServiceName")) {
        (Some(address), None) => GatewayTarget::Address(address_of(address)?),
        (None, Some(host)) => {
            GatewayTarget::Service(Hostname::new(host).map_err(|error| format!("gateways: {error}"))?)
        }
        _ => return Err("gateways: an item needs one of address and registryServiceName".into()),
    };
    Ok(MeshGateway { at, port })
}

/// Parses an IP address, or a host name that is resolved later.
pub(crate) fn address_of(text: &str) -> Result<GatewayAddress, String> {
    if let Ok(ip) = text.parse() {
        return Ok(GatewayAddress::Ip(ip));
    }
    let name = Hostname::new(text).ok().filter(|name| !name.is_wildcard());
    let name = name.ok_or_else(|| format!("{text:?} is neither an IP address nor a host name"))?;
    Ok(GatewayAddress::Name(name.as_str().into()))
}
