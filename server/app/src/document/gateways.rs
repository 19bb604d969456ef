//! Gateways of networks as documents, each with the object that declares it and with what it lacks.

use serde::{Deserialize, Serialize};
use tributary_model::{Catalog, Gateway, GatewayAddress, GatewayKey, Mono, PortNumber};

use super::filter::Filter;
use super::{ObjectItem, Page};

/// One gateway: an address of the object that declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayItem {
    /// Network that is behind it.
    pub network: String,
    /// Cluster that reports it.
    pub cluster: String,
    /// `203.0.113.9:15443`, or a host name with its port; without a port for mesh TLS only the address. Empty without an address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Addresses that the host name has, if the address is one. While it cannot be resolved, they are those of the last answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<String>,
    /// Why the host name cannot be resolved now. Without addresses the gateway is unusable.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failing: String,
    /// How long it cannot be resolved, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_millis_ago: Option<u64>,
    /// Port for HBONE, which is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hbone_port: Option<u16>,
    /// `Used` or `Unusable`.
    pub state: String,
    /// What an unusable one lacks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Object that declares it.
    pub source: ObjectItem,
}

/// Returns the gateways that match the filter, ordered by network, cluster and object.
#[must_use]
pub fn list(catalog: &Catalog, filter: &Filter, now: Mono) -> Page<GatewayItem> {
    let all = catalog.gateways.iter().map(|(key, gateway)| item(catalog, (key, gateway), now));
    Page::of(all.filter(|item| takes(filter, item)), filter, |item| item)
}

/// Whether the filter matches: by the network, the address or the object as the name, and by the namespace of the object.
fn takes(filter: &Filter, item: &GatewayItem) -> bool {
    let ObjectItem { kind, namespace, name, .. } = &item.source;
    let is_named = filter.takes_name(&item.network)
        || filter.takes_name(&item.address)
        || item.resolved.iter().any(|ip| filter.takes_name(ip))
        || filter.takes_object(kind, namespace, name);
    is_named && filter.takes_namespace(namespace)
}

fn item(catalog: &Catalog, (key, gateway): (&GatewayKey, &Gateway), now: Mono) -> GatewayItem {
    let (lack, resolved) = (catalog.lack_of(gateway), catalog.resolved(gateway));
    let failure = resolved.and_then(|of| of.failure.as_ref());
    GatewayItem {
        network: key.network.to_string(),
        cluster: key.cluster.to_string(),
        address: address(gateway),
        resolved: resolved.iter().flat_map(|of| of.addresses.iter()).map(ToString::to_string).collect(),
        failing: failure.map(|failure| failure.reason.to_string()).unwrap_or_default(),
        failing_millis_ago: failure
            .map(|failure| u64::try_from(now.since(failure.since).as_millis()).unwrap_or(u64::MAX)),
        hbone_port: gateway.hbone_port.map(PortNumber::get),
        state: if lack.is_none() { "Used" } else { "Unusable" }.to_owned(),
        reason: lack.unwrap_or_default().into_owned(),
        source: ObjectItem::from(&gateway.source),
    }
}

fn address(gateway: &Gateway) -> String {
    match (&gateway.address, gateway.mtls_port) {
        (None, _) => String::new(),
        (Some(GatewayAddress::Ip(ip)), Some(port)) => std::net::SocketAddr::new(*ip, port.get()).to_string(),
        (Some(GatewayAddress::Ip(ip)), None) => ip.to_string(),
        (Some(GatewayAddress::Name(name)), Some(port)) => format!("{name}:{port}"),
        (Some(GatewayAddress::Name(name)), None) => name.to_string(),
    }
}
