//! Listeners of inbound connections: plain text, mesh TLS or both on each port (docs/reference/xds.md#inbound-connections).
//!
//! RequestAuthentications and AuthorizationPolicies decide first: their filters precede the others of each chain. A port that takes both has a chain for each. Sidecars offer protocols of their own in the greeting of mesh TLS, so that TLS
//! of the application passes through as it is.

use envoy_types::pb::envoy::config::core::v3::TransportSocket;
use hcm::http_connection_manager::{ForwardClientCertDetails, SetCurrentClientCertDetails};
use tributary_answer::{InboundSecurity, InboundTls};
use tributary_model::{MtlsMode, PeerModes, PortNumber};

use super::*;
use crate::encode::{authorization, mesh_tls, tokens};

/// Name of the listener for all inbound traffic.
pub const VIRTUAL_INBOUND: &str = "virtualInbound";

/// Transport of connections that are seen to be TLS.
const TLS: &str = "tls";
/// Protocols that Istio's sidecars offer for HTTP.
const MESH_HTTP: [&str; 3] = ["istio-http/1.0", "istio-http/1.1", "istio-h2"];
/// Protocols that sidecars offer for any connection: Tributary's and Istio's.
const MESH: [&str; 2] = ["istio", "istio-peer-exchange"];

/// Encodes the listener that receives all inbound traffic of a workload. HTTP is detected on ports without a protocol and on
/// ports that no service has. It has no default chain: Envoy would take it for connections that a port does not accept.
#[must_use]
pub fn virtual_inbound(
    bind: ListenAddress,
    ports: &[InboundPort],
    security: &InboundSecurity,
    handling: &Handling,
) -> Vec<u8> {
    let mut body = base(VIRTUAL_INBOUND, bind, INBOUND_PORT, TrafficDirection::Inbound);
    body.listener_filters = vec![listener_filter("envoy.filters.listener.original_dst", &OriginalDst {})];
    let bare = without_service(ports, &security.modes);
    let of_services = || ports.iter().filter(|port| port.target.get() != INBOUND_PORT);
    let own = || of_services().chain(&bare);
    let chains = Chains::new(security, handling);
    body.filter_chains = std::iter::once(loop_guard(VIRTUAL_INBOUND, INBOUND_PORT))
        .chain(of_services().flat_map(|port| chains.of_port(port)))
        .chain(bare.iter().flat_map(|port| chains.of_bare_port(port)))
        .chain(chains.of_others())
        .collect();
    body.access_log = access_log::unmatched(handling.log.as_deref());
    let numbers = |is: &dyn Fn(&InboundPort) -> bool| -> Vec<u16> {
        own().filter(|port| is(port)).map(|port| port.target.get()).chain([INBOUND_PORT]).collect()
    };
    let is_both = |port: &InboundPort| chains.needs_greeting(port.protocol, port.mode);
    if own().any(is_both) || chains.needs_greeting(Protocol::Unspecified, security.modes.usual()) {
        inspect_tls(&mut body, &numbers(&|port| !is_both(port)));
    }
    detect_http(&mut body, &numbers(&|port| port.protocol != Protocol::Unspecified));
    body.encode_to_vec()
}

/// Returns the ports that no service has and for which a policy sets a mode.
fn without_service(ports: &[InboundPort], modes: &PeerModes) -> Vec<InboundPort> {
    let is_bare = |port: PortNumber| {
        port.get() != INBOUND_PORT && !ports.iter().any(|of_service| of_service.target == port)
    };
    let bare = modes.others().filter(|(port, _)| is_bare(*port));
    let protocol = Protocol::Unspecified;
    bare.map(|(target, mode)| InboundPort { target, service: target, protocol, mode }).collect()
}

/// Encodes the listener of a port on which a workload receives connections that are not redirected.
#[must_use]
pub fn inbound(
    bind: ListenAddress,
    port: &InboundPort,
    security: &InboundSecurity,
    handling: &Handling,
) -> Vec<u8> {
    let number = port.target.get();
    let mut body = base(&listener_name(bind.ip, number), bind, number, TrafficDirection::Inbound);
    body.access_log = access_log::unmatched(handling.log.as_deref());
    let chains = Chains::new(security, handling);
    body.filter_chains = chains.of_port(port);
    if chains.needs_greeting(port.protocol, port.mode) {
        inspect_tls(&mut body, &[]);
    }
    if port.protocol == Protocol::Unspecified {
        detect_http(&mut body, &[]);
    }
    body.encode_to_vec()
}

/// Adds what detects TLS in the first bytes of connections, but for those to these ports. It comes before the detection of HTTP,
/// which leaves TLS alone.
fn inspect_tls(body: &mut pb::Listener, except: &[u16]) {
    let inspector = listener_filter("envoy.filters.listener.tls_inspector", &TlsInspector::default());
    body.listener_filters.push(pb::ListenerFilter { filter_disabled: to_any_of(except), ..inspector });
    wait_for_bytes(body);
}

/// Adds what detects HTTP in the first bytes of connections, but for those to these ports: a protocol in which the
/// server speaks first would never begin there.
fn detect_http(body: &mut pb::Listener, except: &[u16]) {
    let inspector = listener_filter("envoy.filters.listener.http_inspector", &HttpInspector {});
    let filter_disabled = to_any_of(except);
    body.listener_filters.push(pb::ListenerFilter { filter_disabled, ..inspector });
    wait_for_bytes(body);
}

/// Returns a predicate for connections to one of these ports; `None` if there are none. Envoy refuses an `or` of one.
fn to_any_of(ports: &[u16]) -> Option<pb::ListenerFilterChainMatchPredicate> {
    let rule = |port: &u16| {
        let range = Int32Range { start: (*port).into(), end: i32::from(*port) + 1 };
        pb::ListenerFilterChainMatchPredicate { rule: Some(Rule::DestinationPortRange(range)) }
    };
    let mut rules: Vec<_> = ports.iter().map(rule).collect();
    if rules.len() < 2 {
        return rules.pop();
    }
    let any = pb::listener_filter_chain_match_predicate::MatchSet { rules };
    Some(pb::ListenerFilterChainMatchPredicate { rule: Some(Rule::OrMatch(any)) })
}

/// Where the connections of some chains go.
#[derive(Clone, Copy)]
struct To<'a> {
    cluster: &'a str,
    /// Prefix of their statistics.
    name: &'a str,
    service: u16,
    protocol: Protocol,
}

/// Their original destination.
const PASSED_ON: To<'static> = To {
    cluster: names::INBOUND_PASSTHROUGH,
    name: VIRTUAL_INBOUND,
    service: 0,
    protocol: Protocol::Unspecified,
};

/// Builds the chains of a workload's listeners.
struct Chains<'a> {
    security: &'a InboundSecurity,
    handling: &'a Handling,
    /// Filters that check tokens of requests, and accept or refuse these.
    for_requests: Vec<hcm::HttpFilter>,
    /// Filters that accept or refuse connections of which no request is read.
    for_connections: Vec<pb::Filter>,
}

impl<'a> Chains<'a> {
    fn new(security: &'a InboundSecurity, handling: &'a Handling) -> Self {
        let of = security.authorization.as_ref();
        let mut for_requests = security.tokens.as_deref().map(tokens::http_filters).unwrap_or_default();
        for_requests
            .extend(of.into_iter().flat_map(|of| authorization::http_filters(&of.policies, &of.domains)));
        let for_connections = of.map(|of| authorization::network_filters(&of.policies, &of.domains));
        let for_connections = for_connections.unwrap_or_default();
        Self { security, handling, for_requests, for_connections }
    }
    /// Whether only the greeting of a connection shows which chain takes it.
    fn needs_greeting(&self, protocol: Protocol, mode: MtlsMode) -> bool {
        let by_mode = match mode {
            MtlsMode::Disable => false,
            MtlsMode::Permissive => true,
            MtlsMode::Strict => protocol == Protocol::Unspecified,
        };
        by_mode && self.security.tls.is_some()
    }
    fn of_port(&self, port: &InboundPort) -> Vec<pb::FilterChain> {
        let name = names::inbound_name(port.target);
        let (service, protocol) = (port.service.get(), port.protocol);
        let to = To { cluster: &name, name: &name, service, protocol };
        self.all(to, &to_port(port.target.get()), port.mode)
    }
    /// Returns the chains of a port that no service has.
    fn of_bare_port(&self, port: &InboundPort) -> Vec<pb::FilterChain> {
        self.all(PASSED_ON, &to_port(port.target.get()), port.mode)
    }
    fn of_others(&self) -> Vec<pb::FilterChain> {
        self.all(PASSED_ON, &pb::FilterChainMatch::default(), self.security.modes.usual())
    }
    fn all(&self, to: To<'_>, found: &pb::FilterChainMatch, mode: MtlsMode) -> Vec<pb::FilterChain> {
        match (mode, &self.security.tls) {
            (MtlsMode::Disable, _) | (MtlsMode::Permissive, None) => self.plain(to, found, false),
            (MtlsMode::Permissive, Some(tls)) => {
                let plain = self.plain(to, found, true);
                self.meshed(to, found, false, tls).into_iter().chain(plain).collect()
            }
            (MtlsMode::Strict, Some(tls)) => self.meshed(to, found, true, tls),
            (MtlsMode::Strict, None) => vec![self.refused(to, found)],
        }
    }
    /// Returns a chain that closes every connection.
    fn refused(&self, to: To<'_>, found: &pb::FilterChainMatch) -> pb::FilterChain {
        let chain = tcp_chain(to.name, names::BLACK_HOLE, self.handling);
        pb::FilterChain { filter_chain_match: Some(found.clone()), ..chain }
    }
    /// Returns the chains of mesh TLS. One that is alone takes every connection, and refuses those without TLS.
    fn meshed(
        &self,
        to: To<'_>,
        found: &pb::FilterChainMatch,
        is_strict: bool,
        tls: &InboundTls,
    ) -> Vec<pb::FilterChain> {
        let http = |found| self.secured(self.http(to, found, true), mesh_tls::server(tls, true));
        let tcp = |found| self.secured(self.tcp(to, found), mesh_tls::server(tls, false));
        let all: Vec<&str> = MESH_HTTP.into_iter().chain(MESH).collect();
        match to.protocol {
            Protocol::Unspecified if is_strict => {
                vec![http(greeted(found, &MESH_HTTP)), tcp(greeted(found, &[]))]
            }
            Protocol::Unspecified => vec![http(greeted(found, &MESH_HTTP)), tcp(greeted(found, &MESH))],
            protocol if protocol.is_http() && is_strict => vec![http(found.clone())],
            protocol if protocol.is_http() => vec![http(greeted(found, &all))],
            _ if is_strict => vec![tcp(found.clone())],
            _ => vec![tcp(greeted(found, &all))],
        }
    }
    /// Returns the chains of plain text. Beside those of mesh TLS they name the transport: without it, Envoy would look no
    /// further than the ones that name it. TLS of the application passes to ports without HTTP.
    fn plain(&self, to: To<'_>, found: &pb::FilterChainMatch, beside: bool) -> Vec<pb::FilterChain> {
        let raw = || pb::FilterChainMatch { transport_protocol: RAW.into(), ..found.clone() };
        let only = || if beside { raw() } else { found.clone() };
        let passed = beside.then(|| self.tcp(to, greeted(found, &[])));
        match to.protocol {
            Protocol::Unspecified => {
                let http = self.http(to, of_http(found.clone()), false);
                [http, self.tcp(to, raw())].into_iter().chain(passed).collect()
            }
            protocol if protocol.is_http() => vec![self.http(to, only(), false)],
            _ => std::iter::once(self.tcp(to, only())).chain(passed).collect(),
        }
    }
    fn tcp(&self, to: To<'_>, found: pb::FilterChainMatch) -> pb::FilterChain {
        let mut chain = tcp_chain(to.name, to.cluster, self.handling);
        chain.filters.splice(..0, self.for_connections.iter().cloned());
        pb::FilterChain { filter_chain_match: Some(found), ..chain }
    }
    /// Returns a chain for HTTP; the port of the service names its virtual host, as in Istio. Behind mesh TLS the application
    /// gets the identity of the client, and from no other connection.
    fn http(&self, to: To<'_>, found: pb::FilterChainMatch, forwards_identity: bool) -> pb::FilterChain {
        let routes = RouteSpecifier::RouteConfig(inbound_routes(to.cluster, to.service, to.protocol));
        let mut manager = http_manager(to.cluster, routes, false, self.handling);
        manager.http_filters.splice(..0, self.for_requests.iter().cloned());
        if forwards_identity {
            let yes = Some(BoolValue { value: true });
            manager.forward_client_cert_details = ForwardClientCertDetails::AppendForward.into();
            manager.set_current_client_cert_details = Some(SetCurrentClientCertDetails {
                subject: yes,
                uri: true,
                dns: true,
                ..SetCurrentClientCertDetails::default()
            });
        }
        pb::FilterChain { filter_chain_match: Some(found), ..managed(&manager) }
    }
    fn secured(&self, chain: pb::FilterChain, socket: TransportSocket) -> pb::FilterChain {
        pb::FilterChain { transport_socket: Some(socket), ..chain }
    }
}

/// Narrows a match to TLS whose greeting offers one of these protocols; to any TLS without protocols.
fn greeted(found: &pb::FilterChainMatch, protocols: &[&str]) -> pb::FilterChainMatch {
    let application_protocols = protocols.iter().map(|name| (*name).to_owned()).collect();
    pb::FilterChainMatch { transport_protocol: TLS.into(), application_protocols, ..found.clone() }
}

fn inbound_routes(name: &str, service: u16, protocol: Protocol) -> RouteConfiguration {
    one_host(name, |plan| {
        let name = format!("inbound|http|{service}");
        inbound_host(&VirtualHostPlan { name, ..plan.clone() }, protocol)
    })
}

#[cfg(test)]
mod tests;
