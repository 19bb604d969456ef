//! Listeners as a client was sent them: which connections go to which xDS clusters, and the route tables within them.
//!
//! [`super::sent_tables`] reads listeners into them; lists of routes and explanations show them. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as http;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp;
use envoy_types::pb::google::protobuf::Any;
use ipnet::IpNet;
use prost::Message;
use tributary_answer::Match;

use super::sent_route::SentHost;

/// Names of the types of network filters.
const HTTP_MANAGER: &str =
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const TCP_PROXY: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";

/// xDS clusters with their weights.
pub(super) type Targets = Vec<(String, u32)>;

/// Where the connections of a listener go.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SentListener {
    /// xDS clusters that it names, each once.
    pub(super) clusters: BTreeSet<String>,
    /// Route tables that it names.
    pub(super) tables: BTreeSet<String>,
    /// Virtual hosts of the tables within it.
    pub(super) hosts: Vec<SentHost>,
    chains: Vec<Chain>,
}

/// Connections with one target.
#[derive(Debug, PartialEq)]
struct Chain {
    matches: FilterChainMatch,
    /// xDS clusters of its TCP proxy, if it has one.
    to: Targets,
}

impl SentListener {
    /// Reads an encoded listener; `None` if it does not decode.
    pub(super) fn read(body: Bytes) -> Option<Self> {
        let listener = Listener::decode(body).ok()?;
        let mut out = Self::default();
        for chain in listener.filter_chains.into_iter().chain(listener.default_filter_chain) {
            out.add(chain);
        }
        let hosts = out.hosts.iter().flat_map(|host| &host.routes).flat_map(|route| route.action.clusters());
        let within: Vec<String> = hosts.map(str::to_owned).collect();
        let connected = out.chains.iter().flat_map(|chain| &chain.to).map(|(name, _)| name.clone());
        out.clusters = connected.chain(within).collect();
        Some(out)
    }
    /// Whether it has this route table, or a table of its own.
    pub(super) fn takes_requests(&self, table: &str) -> bool {
        self.tables.contains(table) || !self.hosts.is_empty()
    }
    /// Whether it names one of these xDS clusters.
    pub(super) fn leads_to_any(&self, to: &BTreeSet<String>) -> bool {
        to.iter().any(|name| self.clusters.contains(name))
    }
    /// Returns the xDS clusters of the connections with a match, empty if it forwards them by other filters; `None` if it does not take
    /// them.
    pub(super) fn targets(&self, of: &Match) -> Option<&Targets> {
        self.chains.iter().find(|chain| chain.is_of(of)).map(|chain| &chain.to)
    }
    /// Returns the xDS clusters of the connections to the narrowest range around an address; `None` without such a range.
    pub(super) fn targets_at(&self, ip: IpAddr) -> Option<&Targets> {
        let own = self.chains.iter().filter(|chain| chain.matches.application_protocols.is_empty());
        let ranged = own.filter_map(|chain| Some((chain.range_around(ip)?, &chain.to)));
        ranged.max_by_key(|(length, _)| *length).map(|(_, to)| to)
    }
    #[cfg(test)]
    pub(super) fn leading_to(clusters: &[&str], tables: &[&str]) -> Self {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self { clusters: set(clusters), tables: set(tables), ..Self::default() }
    }
    fn add(&mut self, mut chain: FilterChain) {
        let matches = chain.filter_chain_match.take().unwrap_or_default();
        let mut to = Targets::new();
        for any in configurations(&chain) {
            match route_specifier(any) {
                Some(RouteSpecifier::RouteConfig(table)) => self.hosts.extend(SentHost::all(&table)),
                Some(RouteSpecifier::Rds(rds)) => drop(self.tables.insert(rds.route_config_name)),
                Some(RouteSpecifier::ScopedRoutes(_)) | None => {}
            }
            to.extend(proxied(any));
        }
        self.chains.push(Chain { matches, to });
    }
}

impl Chain {
    /// Returns the length of its longest prefix around an address.
    fn range_around(&self, ip: IpAddr) -> Option<u8> {
        let lengths = self.matches.prefix_ranges.iter().filter_map(|of| {
            let length = u8::try_from(of.prefix_len.as_ref()?.value).ok()?;
            let range = IpNet::new(of.address_prefix.parse().ok()?, length).ok()?;
            range.contains(&ip).then_some(length)
        });
        lengths.max()
    }
    /// Whether it takes the connections of a match that are not seen to be HTTP.
    fn is_of(&self, of: &Match) -> bool {
        let ranges = &self.matches.prefix_ranges;
        let is_range = |(ip, prefix): &(IpAddr, u8)| {
            let (ip, prefix) = (ip.to_string(), u32::from(*prefix));
            ranges.iter().any(|of| {
                of.address_prefix == ip && of.prefix_len.as_ref().map(|of| of.value) == Some(prefix)
            })
        };
        let names = &self.matches.server_names;
        self.matches.application_protocols.is_empty()
            && of.range.as_ref().map_or(ranges.is_empty(), is_range)
            && of.sni.as_ref().map_or(names.is_empty(), |sni| names.contains(sni))
    }
}

fn configurations(chain: &FilterChain) -> impl Iterator<Item = &Any> {
    chain.filters.iter().filter_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) => Some(any),
        Some(ConfigType::ConfigDiscovery(_)) | None => None,
    })
}

/// Returns where a network filter has its routes, if it is for requests.
fn route_specifier(any: &Any) -> Option<RouteSpecifier> {
    let manager = (any.type_url == HTTP_MANAGER).then(|| http::HttpConnectionManager::decode(&*any.value));
    manager?.ok()?.route_specifier
}

/// Returns the xDS clusters of a network filter that forwards connections.
fn proxied(any: &Any) -> Targets {
    use tcp::tcp_proxy::ClusterSpecifier;
    let proxy = (any.type_url == TCP_PROXY).then(|| tcp::TcpProxy::decode(&*any.value));
    match proxy.and_then(Result::ok).and_then(|proxy| proxy.cluster_specifier) {
        Some(ClusterSpecifier::Cluster(name)) => vec![(name, 1)],
        Some(ClusterSpecifier::WeightedClusters(all)) => {
            all.clusters.into_iter().map(|of| (of.name, of.weight)).collect()
        }
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::CidrRange;
    use envoy_types::pb::envoy::config::listener::v3::Filter;
    use envoy_types::pb::google::protobuf::UInt32Value;

    use super::*;

    fn mk_chain(matches: FilterChainMatch, to: Option<&str>) -> FilterChain {
        let cluster_specifier = to.map(|to| tcp::tcp_proxy::ClusterSpecifier::Cluster(to.into()));
        let proxy = tcp::TcpProxy { cluster_specifier, ..tcp::TcpProxy::default() };
        let any = Any { type_url: TCP_PROXY.into(), value: proxy.encode_to_vec() };
        let filter = Filter { config_type: Some(ConfigType::TypedConfig(any)), ..Filter::default() };
        FilterChain {
            filter_chain_match: (matches != FilterChainMatch::default()).then_some(matches),
            filters: vec![filter],
            ..FilterChain::default()
        }
    }
    fn mk_range(ip: &str, prefix: u32) -> FilterChainMatch {
        let range = CidrRange { address_prefix: ip.into(), prefix_len: Some(UInt32Value { value: prefix }) };
        FilterChainMatch { prefix_ranges: vec![range], ..FilterChainMatch::default() }
    }

    #[test]
    fn targets_are_those_of_the_match() {
        let http = FilterChainMatch { application_protocols: vec!["h2c".into()], ..mk_range("10.1.0.0", 16) };
        let named = FilterChainMatch { server_names: vec!["a.test".into()], ..FilterChainMatch::default() };
        let listener = Listener {
            filter_chains: vec![
                mk_chain(http, Some("http")),
                mk_chain(mk_range("10.1.0.0", 16), Some("range")),
                mk_chain(named, None),
            ],
            default_filter_chain: Some(mk_chain(FilterChainMatch::default(), Some("rest"))),
            ..Listener::default()
        };
        let sent = SentListener::read(listener.encode_to_vec().into()).unwrap();
        let to = |name: &str| Some(vec![(name.to_owned(), 1)]);
        let range = |prefix| Match { range: Some(([10, 1, 0, 0].into(), prefix)), ..Match::default() };
        let name = |sni: &str| Match { sni: Some(sni.into()), ..Match::default() };
        let cases = [
            (range(16), to("range")),
            (range(8), None),
            (Match::default(), to("rest")),
            (name("a.test"), Some(Vec::new())),
            (name("b.test"), None),
        ];
        for (of, want) in cases {
            assert_eq!(sent.targets(&of), want.as_ref(), "{of:?}");
        }
        let at = |ip: [u8; 4]| sent.targets_at(ip.into()).cloned();
        assert_eq!((at([10, 1, 2, 3]), at([10, 2, 0, 1])), (to("range"), None));
        assert_eq!(sent.clusters, ["http", "range", "rest"].map(str::to_owned).into());
    }
}
