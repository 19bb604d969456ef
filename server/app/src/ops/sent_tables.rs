//! Route tables and listeners that a client was sent, decoded when they are looked at.
//!
//! Lists of routes and explanations call it. What was sent is the only record of which of several services owns a domain or
//! an address for this client, so nothing is composed again here. The bytes that one answer decodes are bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as http;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;
use tributary_answer::ClusterName;
use tributary_model::{Catalog, PolicyKey};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{SentResource, SentView};

use super::sent_route::SentHost;
use super::sessions::{Found, MAX_DECODED};

/// Names of the types of network filters.
const HTTP_MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const TCP_PROXY: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";

/// Route tables and listeners of one client.
pub(super) struct SentTables {
    sent: Vec<(SentView, Vec<SentResource>)>,
    tables: BTreeMap<String, Option<Vec<SentHost>>>,
    left: usize,
}

/// Where the connections of a listener go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListenerTargets {
    /// xDS clusters that it names, each once.
    pub(super) clusters: BTreeSet<String>,
    /// Virtual hosts of the tables within it.
    pub(super) hosts: Vec<SentHost>,
}

impl SentTables {
    /// Reads the names of the tables and listeners that a client was sent.
    pub(super) fn new(catalog: &Arc<Catalog>, found: &Found) -> Self {
        let kinds = [ResourceType::Route, ResourceType::Listener];
        let sent = kinds.into_iter().flat_map(|kind| found.sent_resources(catalog, Some(kind))).collect();
        Self { sent, tables: BTreeMap::new(), left: MAX_DECODED }
    }
    /// Whether the client was sent any resource of a type.
    pub(super) fn has_any(&self, kind: ResourceType) -> bool {
        self.all().any(|(_, one)| one.kind == kind)
    }
    /// Returns the names of all route tables, sorted.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.names_of(ResourceType::Route)
    }
    /// Returns the names of all resources of a type, sorted.
    pub(super) fn names_of(&self, kind: ResourceType) -> BTreeSet<String> {
        self.all().filter(|(_, one)| one.kind == kind).map(|(_, one)| one.name.to_string()).collect()
    }
    /// Returns a resource and the view that has it.
    pub(super) fn resource(&self, kind: ResourceType, name: &str) -> Option<(&SentView, &SentResource)> {
        self.all().find(|(_, one)| one.kind == kind && &*one.name == name)
    }
    /// Returns the EnvoyFilters that changed a route table.
    pub(super) fn filters(&self, table: &str) -> Vec<PolicyKey> {
        let known = self.resource(ResourceType::Route, table);
        known.map(|(view, one)| view.patched_by(one)).unwrap_or_default()
    }
    /// Returns the virtual hosts of a route table; `None` if the client does not hold it, or beyond the bound.
    pub(super) fn table(&mut self, name: &str) -> Option<&[SentHost]> {
        if !self.tables.contains_key(name) {
            let hosts =
                self.decode::<RouteConfiguration>(ResourceType::Route, name).map(|table| hosts(&table));
            self.tables.insert(name.to_owned(), hosts);
        }
        self.tables.get(name)?.as_deref()
    }
    /// Returns where the connections of a listener go; `None` as for tables.
    pub(super) fn listener(&mut self, name: &str) -> Option<ListenerTargets> {
        self.decode::<Listener>(ResourceType::Listener, name).map(|listener| targets(&listener))
    }
    fn all(&self) -> impl Iterator<Item = (&SentView, &SentResource)> {
        self.sent.iter().flat_map(|(view, all)| all.iter().map(move |one| (view, one)))
    }
    fn decode<M: Message + Default>(&mut self, kind: ResourceType, name: &str) -> Option<M> {
        let (view, resource) = self.resource(kind, name)?;
        let body = view.body(resource).filter(|body| body.len() <= self.left)?;
        self.left -= body.len();
        M::decode(body).ok()
    }
}

/// Returns the xDS clusters of services, each once, that a client was not sent although it receives all that it may use.
pub(super) fn unsent<'n>(found: &Found, names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
    let Some(view) = found.sent(ResourceType::Cluster).filter(SentView::is_wildcard) else {
        return BTreeSet::new();
    };
    let of_service = names.filter(|name| name.parse::<ClusterName>().is_ok());
    of_service.filter(|name| found.delivery(view.kind(), name).version.is_none()).collect()
}

/// Returns the virtual hosts of an encoded route table; none if it does not decode.
pub(super) fn hosts_of(body: Bytes) -> Vec<SentHost> {
    RouteConfiguration::decode(body).map(|table| hosts(&table)).unwrap_or_default()
}

fn hosts(table: &RouteConfiguration) -> Vec<SentHost> {
    table.virtual_hosts.iter().map(SentHost::read).collect()
}

/// Reads where the connections of a listener go.
pub(super) fn targets(listener: &Listener) -> ListenerTargets {
    let mut out = ListenerTargets::default();
    let chains = listener.filter_chains.iter().chain(&listener.default_filter_chain);
    chains.flat_map(configurations).for_each(|any| add(&mut out, any));
    let hosts = out.hosts.iter().flat_map(|host| &host.routes).flat_map(|route| route.action.clusters());
    out.clusters.extend(hosts.map(str::to_owned).collect::<Vec<_>>());
    out
}

fn configurations(chain: &FilterChain) -> impl Iterator<Item = &Any> {
    chain.filters.iter().filter_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) => Some(any),
        Some(ConfigType::ConfigDiscovery(_)) | None => None,
    })
}

fn add(out: &mut ListenerTargets, any: &Any) {
    use http::http_connection_manager::RouteSpecifier;
    use tcp::tcp_proxy::ClusterSpecifier;
    if any.type_url == HTTP_MANAGER
        && let Ok(manager) = http::HttpConnectionManager::decode(&*any.value)
        && let Some(RouteSpecifier::RouteConfig(table)) = &manager.route_specifier
    {
        out.hosts.extend(hosts(table));
    }
    if any.type_url == TCP_PROXY
        && let Ok(proxy) = tcp::TcpProxy::decode(&*any.value)
    {
        match proxy.cluster_specifier {
            Some(ClusterSpecifier::Cluster(name)) => out.clusters.extend([name]),
            Some(ClusterSpecifier::WeightedClusters(all)) => {
                out.clusters.extend(all.clusters.into_iter().map(|of| of.name));
            }
            None => {}
        }
    }
}
