//! Listeners of routers that forward mesh TLS by its server name, which is the name of an xDS cluster (docs/reference/gateway.md).
//!
//! A listener reads the servers of Gateways and nothing of services: one filter takes the xDS cluster that the client names. A
//! name without an xDS cluster closes the connection, and so do all names but those of forwarded services: the proxy has xDS
//! clusters of its own.

use envoy_types::pb::envoy::extensions::filters::network::sni_cluster::v3::SniCluster;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3::{
    ApplicationProtocolInput, ServerNameInput,
};
use envoy_types::pb::google::protobuf::StringValue;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::predicate::{
    MatchType, PredicateList, SinglePredicate, single_predicate,
};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::matcher_list::{FieldMatcher, Predicate};
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{self, MatcherList, MatcherType, OnMatch};
use envoy_types::pb::xds::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::xds::r#type::matcher::v3::{Matcher, StringMatcher};
use tributary_model::ForwardingServer;

use super::*;

/// Name of the filter chain.
const CHAIN: &str = "forward";
/// Begin of the names of forwarded services.
const SERVICE: &str = "outbound_.";
/// Begin of the protocols of mesh TLS, within the quoted list of those that a client offers.
const MESH: &str = "'istio";

/// Encodes the listener of a server.
#[must_use]
pub fn forwarding(server: &ForwardingServer, bind: ListenAddress, defaults: &Defaults) -> Vec<u8> {
    let (name, port) = (listener_name(bind.ip, server.port.get()), server.port.get());
    let mut body = base(&name, bind, port, TrafficDirection::Outbound);
    body.listener_filters =
        vec![listener_filter("envoy.filters.listener.tls_inspector", &TlsInspector::default())];
    body.access_log = access_log::unmatched(defaults.handling.log.as_deref());
    body.filter_chain_matcher = Some(matcher(server));
    let chain = tcp_chain(&name, names::BLACK_HOLE, &defaults.handling);
    let by_name = filter("envoy.filters.network.sni_cluster", any(&SniCluster {}));
    let filters = std::iter::once(by_name).chain(chain.filters).collect();
    body.filter_chains = vec![pb::FilterChain { name: CHAIN.into(), filters, ..chain }];
    body.encode_to_vec()
}

/// Takes connections of mesh TLS to a host of the server.
fn matcher(server: &ForwardingServer) -> Matcher {
    let service = single(input("sni", &ServerNameInput {}), MatchPattern::Prefix(SERVICE.into()));
    let protocol = single(input("alpn", &ApplicationProtocolInput {}), MatchPattern::Contains(MESH.into()));
    let all = [service, protocol].into_iter().chain(of_hosts(server)).collect();
    let action = TypedExtensionConfig {
        name: CHAIN.into(),
        typed_config: Some(any(&StringValue { value: CHAIN.into() })),
    };
    let on_match =
        OnMatch { on_match: Some(matcher::on_match::OnMatch::Action(action)), ..OnMatch::default() };
    let only = FieldMatcher {
        predicate: Some(Predicate {
            match_type: Some(MatchType::AndMatcher(PredicateList { predicate: all })),
        }),
        on_match: Some(on_match),
    };
    let list = MatcherList { matchers: vec![only] };
    Matcher { matcher_type: Some(MatcherType::MatcherList(list)), ..Matcher::default() }
}

/// Returns the condition on the host at the end of a server name; none if the server has every host.
fn of_hosts(server: &ForwardingServer) -> Option<Predicate> {
    let ends: BTreeSet<String> = server.hosts.iter().map(|import| end(&import.host)).collect();
    if ends.contains("") {
        return None;
    }
    let mut all: Vec<Predicate> = ends
        .into_iter()
        .map(|end| single(input("sni", &ServerNameInput {}), MatchPattern::Suffix(end)))
        .collect();
    if all.len() < 2 {
        return all.pop();
    }
    Some(Predicate { match_type: Some(MatchType::OrMatcher(PredicateList { predicate: all })) })
}

/// Returns the end of server names of a host. One without a wildcard follows the separator of the name's parts.
fn end(host: &HostPattern) -> String {
    host.suffix().map_or_else(|| format!("_.{host}"), str::to_owned)
}

fn input<M: Message + Name>(name: &str, config: &M) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.into(), typed_config: Some(any(config)) }
}

fn single(input: TypedExtensionConfig, pattern: MatchPattern) -> Predicate {
    let value = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
    let only =
        SinglePredicate { input: Some(input), matcher: Some(single_predicate::Matcher::ValueMatch(value)) };
    Predicate { match_type: Some(MatchType::SinglePredicate(only)) }
}

#[cfg(test)]
mod tests {
    use tributary_model::{HostImport, ImportNamespace, PortNumber};

    use super::*;

    fn ends(hosts: &[&str]) -> Vec<String> {
        let import = |host: &&str| HostImport {
            namespace: ImportNamespace::Any,
            host: HostPattern::new(*host).unwrap(),
        };
        let port = PortNumber::new(15_443).unwrap();
        let server = ForwardingServer { port, bind: None, hosts: hosts.iter().map(import).collect() };
        let suffix = |predicate: Predicate| match predicate.match_type {
            Some(MatchType::SinglePredicate(only)) => match only.matcher {
                Some(single_predicate::Matcher::ValueMatch(StringMatcher {
                    match_pattern: Some(MatchPattern::Suffix(end)),
                    ..
                })) => end,
                other => panic!("not a suffix: {other:?}"),
            },
            other => panic!("not single: {other:?}"),
        };
        match of_hosts(&server) {
            None => Vec::new(),
            Some(Predicate { match_type: Some(MatchType::OrMatcher(all)) }) => {
                all.predicate.into_iter().map(suffix).collect()
            }
            Some(only) => vec![suffix(only)],
        }
    }

    #[test]
    fn server_names_end_in_a_host_of_the_server() {
        assert_eq!(ends(&["*.local"]), [".local"]);
        assert_eq!(ends(&["pay.shop", "*.local"]), [".local", "_.pay.shop"], "not a.pay.shop");
        assert_eq!(ends(&["*.local", "*"]), [""; 0], "every host");
    }
}
