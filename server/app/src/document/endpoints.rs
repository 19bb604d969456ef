//! Endpoints as documents, each with its source (law 12).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tributary_answer::endpoint_freshness;
use tributary_model::{
    Address, AddressRef, Catalog, EndpointSource, Freshness, PortView, ServiceView, ShardPriority,
};

use super::filter::Filter;
use super::{ObjectItem, Page};

/// One endpoint of one service port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointItem {
    /// `10.0.0.1:80`, `[::1]:80`, `name:80` or `unix:/path`.
    pub endpoint: String,
    /// Host of the service.
    pub host: String,
    /// Namespace of the service.
    pub namespace: String,
    /// Service port.
    pub port: u16,
    /// Health that its source reports.
    pub health: String,
    /// Share of traffic.
    pub weight: u32,
    /// `region/zone/subzone`.
    pub locality: String,
    /// Cluster, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Network, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// SPIFFE identity, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Labels, which subsets and localities select on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether it accepts mesh TLS.
    #[serde(default)]
    pub mtls: bool,
    /// Registry that reports it.
    pub registry: String,
    /// Provider and cluster of that registry.
    pub shard: String,
    /// Scope of the registry.
    pub scope: String,
    /// Generation of the registry.
    pub generation: u64,
    /// Freshness of that scope: `Live`, `Stale: why`, `Syncing`, `Unknown`.
    pub freshness: String,
    /// Object that lists it.
    pub source: ObjectItem,
    /// Object that declares the service port.
    pub declaration: ObjectItem,
    /// Workload behind it, if it is a different object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<ObjectItem>,
    /// Whether its removal is held: it is still served.
    #[serde(default)]
    pub held: bool,
    /// Whether the staleness policy lowers it by one priority.
    #[serde(default)]
    pub demoted: bool,
}

/// Returns the endpoints that match the filter, ordered by host, namespace precedence, port and source. Without a name or a searched
/// address it walks no endpoint off the page.
#[must_use]
pub fn list(catalog: &Catalog, filter: &Filter) -> Page<EndpointItem> {
    let mut out = Gathered { page: Page::default(), name: String::new() };
    for (_, entry) in catalog.hosts.iter().filter(|(host, _)| filter.takes_host(host.as_str())) {
        for view in entry.claimants.iter().filter(|v| filter.takes_namespace(v.key.namespace.as_str())) {
            let is_found = filter.finds([view.key.host.as_str(), view.key.namespace.as_str()]);
            for port in view.ports.iter() {
                gather((catalog, filter), (view, port), is_found, &mut out);
            }
        }
    }
    out.page
}

/// Items of the page, and the name of the endpoint that is compared.
struct Gathered {
    page: Page<EndpointItem>,
    name: String,
}

/// Adds the endpoints of a port. `is_found` is whether the service has the searched text, so that each of its endpoints matches.
fn gather(
    (catalog, filter): (&Catalog, &Filter),
    (view, port): (&ServiceView, &PortView),
    is_found: bool,
    out: &mut Gathered,
) {
    for source in port.endpoints.inputs.sources.iter() {
        if !filter.takes_registry(source.shard.registry.name.as_str()) {
            continue;
        }
        if is_found && filter.name.is_none() && out.page.skip(served(source), filter) {
            continue;
        }
        for (i, address) in source.group.addresses.iter().enumerate() {
            if !write_name(&mut out.name, source, address)
                || filter.name.as_deref().is_some_and(|wanted| !is_named(&out.name, wanted))
                || !(is_found || filter.finds([&*out.name]))
            {
                continue;
            }
            if out.page.wants_next(filter) {
                let endpoint = out.name.clone();
                out.page.items.push(item(catalog, view, port, source, (i, address), endpoint));
            }
            out.page.total += 1;
        }
    }
}

/// Returns the number of addresses of a source that have a port for the service port.
fn served(source: &EndpointSource) -> usize {
    let has_port = |set: usize| {
        let index = source.ports.get(set).copied().flatten();
        let ports = source.group.port_sets.get(set);
        index.zip(ports).is_some_and(|(index, ports)| usize::from(index) < ports.len())
    };
    if (0..source.group.port_sets.len()).all(has_port) {
        return source.group.addresses.len();
    }
    source.group.addresses.iter().filter(|address| has_port(usize::from(address.port_set))).count()
}

/// Returns the endpoint's name, or `None` if the address has no port for this service port.
#[must_use]
pub fn name(source: &EndpointSource, address: &Address) -> Option<String> {
    let mut out = String::new();
    write_name(&mut out, source, address).then_some(out)
}

/// Replaces a text by the endpoint's name. Returns false if the address has no port for this service port.
fn write_name(out: &mut String, source: &EndpointSource, address: &Address) -> bool {
    let index = source.ports.get(usize::from(address.port_set)).copied().flatten();
    let port = index.and_then(|index| source.group.ports(address).get(usize::from(index)));
    let Some(number) = port.map(|port| port.number) else { return false };
    let text = source.group.name(address).unwrap_or_default();
    out.clear();
    let written = match (address.at, number) {
        (AddressRef::Ip(ip), Some(port)) => write!(out, "{}", std::net::SocketAddr::new(ip, port.get())),
        (AddressRef::Ip(ip), None) => write!(out, "{ip}"),
        (AddressRef::Name(_), Some(port)) => write!(out, "{text}:{port}"),
        (AddressRef::Name(_), None) => write!(out, "{text}"),
        (AddressRef::Unix(_), _) => write!(out, "unix:{text}"),
    };
    written.is_ok()
}

/// Whether `wanted` is this endpoint's name, or its address without the port.
#[must_use]
pub fn is_named(endpoint: &str, wanted: &str) -> bool {
    if endpoint == wanted {
        return true;
    }
    let Some((address, _)) = endpoint.rsplit_once(':') else { return false };
    fn bare(text: &str) -> &str {
        text.trim_start_matches('[').trim_end_matches(']')
    }
    match (bare(address).parse::<std::net::IpAddr>(), bare(wanted).parse::<std::net::IpAddr>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => address == wanted,
    }
}

fn item(
    catalog: &Catalog,
    view: &ServiceView,
    port: &PortView,
    source: &EndpointSource,
    (index, address): (usize, &Address),
    endpoint: String,
) -> EndpointItem {
    let registry = &source.shard.registry;
    let text = |value: Option<String>| value.unwrap_or_default();
    EndpointItem {
        endpoint,
        host: view.key.host.to_string(),
        namespace: view.key.namespace.to_string(),
        port: port.number.get(),
        health: address.health.as_str().to_owned(),
        weight: address.weight.max(1),
        locality: address.topology.locality.to_string(),
        cluster: text(address.topology.cluster.as_ref().map(ToString::to_string)),
        network: text(address.topology.network.as_ref().map(ToString::to_string)),
        identity: text(address.identity.as_ref().map(ToString::to_string)),
        labels: address.labels.pairs().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        mtls: address.mtls,
        registry: registry.name.to_string(),
        shard: registry.to_string(),
        scope: source.shard.scope.to_string(),
        generation: catalog.registries.get(&registry.name).map_or(0, |r| r.generation.0),
        freshness: endpoint_freshness(catalog, source, address)
            .map_or_else(|| "Unknown".to_owned(), freshness_text),
        source: ObjectItem::from(&source.group.source),
        declaration: ObjectItem::from(&source.declaration.source),
        workload: address.origin.as_ref().map(|origin| ObjectItem::from(&origin.object)),
        held: u32::try_from(index).is_ok_and(|i| source.held.binary_search(&i).is_ok()),
        demoted: source.priority == ShardPriority::Demoted,
    }
}

/// Describes a freshness, with its reason.
#[must_use]
pub fn freshness_text(freshness: &Freshness) -> String {
    match freshness {
        Freshness::Unknown => "Unknown".to_owned(),
        Freshness::Syncing => "Syncing".to_owned(),
        Freshness::Live => "Live".to_owned(),
        Freshness::Stale { why, .. } => format!("Stale: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_matches_with_and_without_its_port() {
        for (endpoint, wanted) in [
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("10.0.0.1:80", "10.0.0.1"),
            ("[::1]:80", "::1"),
            ("[::1]:80", "[::1]"),
            ("[::1]:80", "0:0:0:0:0:0:0:1"),
            ("pay.example:80", "pay.example"),
            ("unix:/run/x", "unix:/run/x"),
        ] {
            assert!(is_named(endpoint, wanted), "{endpoint} by {wanted}");
        }
        for (endpoint, wanted) in [("10.0.0.1:80", "10.0.0.1:8"), ("10.0.0.11:80", "10.0.0.1")] {
            assert!(!is_named(endpoint, wanted), "{endpoint} by {wanted}");
        }
    }
}
