//! Plans the parts of a sidecar's listeners that one service port needs (LDS; `docs/reference/xds.md`).
//!
//! A part is a match within a listener. Several services may need the same match;
//! [`compose`](crate::compose) decides between them.

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    ClientKind, ConnectionPolicy, ListenerInputs, PolicyKey, PortNumber, Projection, Protocol, Recorder,
    Resolution,
};

use crate::endpoints::sockets;
use crate::l4_route::routed;
use crate::names::ClusterName;
use crate::vip::{ListenAddress, vips};

mod scoped;

use scoped::Socket;
pub use scoped::scoped_listener;
pub(crate) use scoped::{not_listened, protocol_for};

/// Connections of a listener that a part handles; an empty match handles all connections without another match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Match {
    /// Only connections whose original destination is in this range of addresses.
    pub range: Option<(IpAddr, u8)>,
    /// Only TLS connections with this host as SNI.
    pub sni: Option<String>,
    /// Only connections whose first bytes are HTTP.
    pub http: bool,
}

/// Target of connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Serves {
    /// HTTP, through the route table of the port (`"80"`), which all services of the port share.
    Routes,
    /// HTTP for any host, to the xDS cluster of this name.
    Http(ClusterName, Option<Arc<ConnectionPolicy>>),
    /// TCP, to the xDS cluster of this name.
    Cluster(ClusterName, Option<Arc<ConnectionPolicy>>),
    /// TCP, to these xDS clusters by their weights, which are above 0.
    Weighted(Arc<[(ClusterName, u32)]>, Option<Arc<ConnectionPolicy>>),
}

/// Part of a listener that a service port needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerPlan {
    /// Addresses of the listener. Its name is `<address>_<port>`.
    pub bind: ListenAddress,
    /// Port of the listener.
    pub port: u16,
    /// Whether it opens a socket; otherwise the interceptor's listener hands its connections over.
    pub binds: bool,
    /// Connections that the part handles.
    pub matches: Match,
    /// Target of the connections.
    pub serves: Serves,
    /// VirtualService whose route it is; absent for the port's own target.
    pub rule: Option<PolicyKey>,
}

impl ListenerPlan {
    /// Returns the name of the listener.
    #[must_use]
    pub fn name(&self) -> String {
        listener_name(self.bind.ip, self.port)
    }
}

/// Formats the name of a listener: `10.0.0.1_80`.
#[must_use]
pub fn listener_name(bind: IpAddr, port: u16) -> String {
    format!("{bind}_{port}")
}

/// Plans the parts of listeners for this port. Empty for UDP, for an alias, and for clients other than
/// sidecars.
pub fn listener<R: Recorder>(facts: &ListenerInputs, client: &Projection, r: &mut R) -> Vec<ListenerPlan> {
    open(listener_at(facts, client, Socket::of(client), r), client)
}

/// Removes the parts of listeners that the client cannot have.
fn open(mut parts: Vec<ListenerPlan>, client: &Projection) -> Vec<ListenerPlan> {
    let closed = client.closed.unwrap_or_default();
    parts.retain(|part| closed.reason(part.bind.ip, part.port, part.binds).is_none());
    parts
}

fn listener_at<R: Recorder>(
    facts: &ListenerInputs,
    client: &Projection,
    socket: Socket,
    r: &mut R,
) -> Vec<ListenerPlan> {
    let no_sidecar = matches!(client.kind, Some(ClientKind::Envoy | ClientKind::Grpc | ClientKind::Router));
    let nothing = facts.protocol == Protocol::Udp || matches!(facts.resolution, Resolution::Alias(_));
    if no_sidecar || nothing {
        return Vec::new();
    }
    let Socket { wide, binds, declared, alone } = socket;
    let plan = |bind, port, matches, serves| ListenerPlan { bind, port, binds, matches, serves, rule: None };
    let port = facts.port.get();
    if facts.protocol.is_http() {
        // A listener that does not bind has strangers' connections too; those without HTTP keep their destination.
        let matches = Match { http: !binds, ..Match::default() };
        return vec![plan(wide, port, matches, Serves::Routes)];
    }
    let policy = policy_of(facts, client);
    let cluster = || Serves::Cluster(ClusterName::new(facts.port, &facts.service.host), policy.clone());
    let whole = || plan(wide, port, Match::default(), cluster());
    let detects = facts.protocol == Protocol::Unspecified && !binds && !declared;
    let targets = if declared { Vec::new() } else { targets(facts, client, binds, r) };
    if targets.is_empty() {
        let matches = unaddressed(facts, binds || declared || alone);
        let parts = matches.into_iter().map(|matches| plan(wide, port, matches, cluster()));
        let http = if detects { detected(facts, client, wide, &[]) } else { Vec::new() };
        return routed(parts.chain(http).collect(), whole(), facts, client);
    }
    let one = |target| match target {
        Target::Socket(ip, port) => plan(ListenAddress::only(ip), port, Match::default(), cluster()),
        Target::Range(ip, port, prefix) => {
            plan(wide, port, Match { range: Some((ip, prefix)), ..Match::default() }, cluster())
        }
    };
    let mut parts: Vec<ListenerPlan> = targets.into_iter().map(one).collect();
    if detects {
        parts.extend(detected(facts, client, wide, &parts));
    }
    routed(parts, whole(), facts, client)
}

/// Returns what DestinationRules set for the client's connections.
fn policy_of(facts: &ListenerInputs, client: &Projection) -> Option<Arc<ConnectionPolicy>> {
    facts.policy_of(client.namespace.as_ref().and_then(Option::as_ref)).cloned()
}

/// Returns the parts of a port without a protocol for its HTTP connections. Those to an address of the service are
/// its own, whatever host they name; without a virtual address, its host finds it at any address.
fn detected(
    facts: &ListenerInputs,
    client: &Projection,
    wide: ListenAddress,
    parts: &[ListenerPlan],
) -> Vec<ListenerPlan> {
    let cluster = ClusterName::new(facts.port, &facts.service.host);
    let own = parts.iter().map(|part| ListenerPlan {
        matches: Match { http: true, ..part.matches.clone() },
        serves: Serves::Http(cluster.clone(), policy_of(facts, client)),
        ..part.clone()
    });
    let shared = vips(&facts.addresses, client).is_empty().then(|| ListenerPlan {
        bind: wide,
        port: facts.port.get(),
        binds: false,
        matches: Match { http: true, ..Match::default() },
        serves: Serves::Routes,
        rule: None,
    });
    own.chain(shared).collect()
}

/// Maximum endpoints of a service port that get a listener each. More share one filter chain: a listener each would
/// cost every client memory, and a shared chain closes its connections when an endpoint changes.
pub const MAX_ENDPOINT_LISTENERS: usize = 256;

enum Target {
    Socket(IpAddr, u16),
    Range(IpAddr, u16, u8),
}

/// Returns the original destinations of connections for this port: virtual addresses, else the endpoints. A
/// listener that binds can only use loopback addresses.
fn targets<R: Recorder>(facts: &ListenerInputs, client: &Projection, binds: bool, r: &mut R) -> Vec<Target> {
    let port = facts.port.get();
    let mut out: Vec<Target> = vips(&facts.addresses, client)
        .into_iter()
        .map(|a| if a.is_host() { Target::Socket(a.ip, port) } else { Target::Range(a.ip, port, a.prefix) })
        .collect();
    if binds {
        out.retain(|target| matches!(target, Target::Socket(ip, _) if ip.is_loopback()));
    } else if out.is_empty() {
        out = endpoint_targets(facts, client, r);
    }
    out
}

/// Returns the endpoints as destinations, at their own ports.
fn endpoint_targets<R: Recorder>(facts: &ListenerInputs, client: &Projection, r: &mut R) -> Vec<Target> {
    let Some(endpoints) = &facts.endpoints else { return Vec::new() };
    let mut sockets = sockets(&endpoints.inputs, client, r);
    sockets.retain(|(ip, _)| client.takes(*ip));
    let has_listeners = sockets.len() <= MAX_ENDPOINT_LISTENERS;
    let target = |(ip, port): (IpAddr, u16)| match has_listeners {
        true => Target::Socket(ip, port),
        false => Target::Range(ip, port, if ip.is_ipv4() { 32 } else { 128 }),
    };
    sockets.into_iter().map(target).collect()
}

/// Returns the match of a port without destinations: the SNI for TLS. Nothing marks connections
/// to a service without TLS, so it gets all of its port only if the listener is `alone` its own, or if they keep their
/// destination.
fn unaddressed(facts: &ListenerInputs, alone: bool) -> Option<Match> {
    if facts.protocol.is_tls() {
        // Envoy rejects a whole listener for a partial wildcard as a server name.
        let host = &facts.service.host;
        return (!host.is_partial_wildcard())
            .then(|| Match { sni: Some(host.as_str().to_owned()), ..Match::default() });
    }
    let is_open = facts.resolution == Resolution::Passthrough
        && facts.endpoints.is_none()
        && facts.addresses.iter().all(|address| address.allocated);
    (alone || is_open).then(Match::default)
}

/// Returns the name of the route table that HTTP listeners of a port share.
#[must_use]
pub fn route_table_name(port: PortNumber) -> String {
    port.to_string()
}

#[cfg(test)]
mod tests {
    use tributary_model::{ClientDimensions, ResourceInputs, Shared};

    use super::*;
    use crate::fixtures::*;
    use crate::vip::any_address;

    fn shown_for(facts: &ListenerInputs, client: &Projection) -> Vec<String> {
        let plans = listener(facts, client, &mut ());
        let line = |p: &ListenerPlan| {
            let range = p.matches.range.map(|(ip, prefix)| format!(" {ip}/{prefix}")).unwrap_or_default();
            let sni = p.matches.sni.as_ref().map(|s| format!(" sni {s}")).unwrap_or_default();
            let http = if p.matches.http { " http" } else { "" };
            let serves = match p.serves {
                Serves::Routes => "routes",
                Serves::Http(..) | Serves::Cluster(..) => "cluster",
                Serves::Weighted(..) => "clusters",
            };
            format!("{}{range}{sni}{http} {serves}", p.name())
        };
        plans.iter().map(line).collect()
    }
    fn sidecar() -> Projection {
        mk_projection(ClientKind::Sidecar)
    }
    fn binding() -> Projection {
        Projection { binds: Some(true), ..sidecar() }
    }

    #[test]
    fn http_shares_a_listener_and_tcp_has_one_per_address() {
        let http = mk_facts_of(Protocol::Http, &[("10.0.0.1", 32)]);
        assert_eq!(shown_for(&http, &sidecar()), ["0.0.0.0_80 http routes"]);
        let tcp = mk_facts_of(Protocol::Tcp, &[("10.0.0.1", 32), ("10.1.0.0", 16)]);
        assert_eq!(shown_for(&tcp, &sidecar()), ["10.0.0.1_80 cluster", "0.0.0.0_80 10.1.0.0/16 cluster"]);
        let tls = mk_facts_of(Protocol::Tls, &[]);
        assert_eq!(shown_for(&tls, &sidecar()), ["0.0.0.0_80 sni pay.shop cluster"]);
        let six = Projection { families: Some((false, true)), ..sidecar() };
        assert_eq!(shown_for(&http, &six), ["::_80 http routes"]);
        let both = Projection { families: Some((true, true)), ..sidecar() };
        let plans = listener(&http, &both, &mut ());
        assert_eq!((plans[0].name(), plans[0].bind), ("0.0.0.0_80".into(), any_address(&both)));
    }

    #[test]
    fn partial_wildcard_has_no_server_name() {
        let mut tls = mk_facts_of(Protocol::Tls, &[]);
        tls.service = mk_key("*-docker.pkg.dev", "shop");
        assert!(shown_for(&tls, &sidecar()).is_empty(), "Envoy rejects a listener with such a server name");
        tls.service = mk_key("*.pkg.dev", "shop");
        assert_eq!(shown_for(&tls, &sidecar()), ["0.0.0.0_80 sni *.pkg.dev cluster"]);
    }

    #[test]
    fn port_without_protocol_has_http_beside_tcp() {
        let facts = mk_facts_of(Protocol::Unspecified, &[("10.0.0.1", 32), ("10.1.0.0", 16)]);
        let wanted = [
            "10.0.0.1_80 cluster",
            "0.0.0.0_80 10.1.0.0/16 cluster",
            "10.0.0.1_80 http cluster",
            "0.0.0.0_80 10.1.0.0/16 http cluster",
        ];
        assert_eq!(shown_for(&facts, &sidecar()), wanted);
        assert_eq!(shown_for(&facts, &binding()), ["127.0.0.1_80 cluster"], "its port has one service");
        let mut open = mk_facts_of(Protocol::Unspecified, &[]);
        assert_eq!(shown_for(&open, &sidecar()), ["0.0.0.0_80 http routes"]);
        open.resolution = Resolution::Passthrough;
        assert_eq!(shown_for(&open, &sidecar()), ["0.0.0.0_80 cluster", "0.0.0.0_80 http routes"]);
        let endpoint = mk_facts_at(Resolution::Passthrough, &["10.0.0.7"]);
        let endpoint = ListenerInputs { protocol: Protocol::Unspecified, ..endpoint };
        let wanted = ["10.0.0.7_8080 cluster", "10.0.0.7_8080 http cluster", "0.0.0.0_80 http routes"];
        assert_eq!(shown_for(&endpoint, &sidecar()), wanted);
    }

    fn mk_facts_at(resolution: Resolution, endpoints: &[&str]) -> ListenerInputs {
        let endpoints = mk_one(endpoints.iter().map(|ip| mk_address(ip)).collect());
        ListenerInputs {
            resolution,
            endpoints: Some(Shared::new(ResourceInputs::new(endpoints, ClientDimensions::NONE))),
            ..mk_facts_of(Protocol::Tcp, &[])
        }
    }

    #[test]
    fn headless_service_has_a_listener_per_endpoint() {
        let facts = mk_facts_at(Resolution::Passthrough, &["10.0.0.7", "10.0.0.8"]);
        assert_eq!(shown_for(&facts, &sidecar()), ["10.0.0.7_8080 cluster", "10.0.0.8_8080 cluster"]);
    }

    #[test]
    fn tcp_port_without_address_matches_its_endpoints() {
        let six = Projection { families: Some((false, true)), ..sidecar() };
        for resolution in
            [Resolution::ClientSide, Resolution::Passthrough, Resolution::DnsStrict, Resolution::DnsLogical]
        {
            let shown = |endpoints: &[&str], client: &Projection| {
                shown_for(&mk_facts_at(resolution.clone(), endpoints), client)
            };
            assert_eq!(shown(&["10.0.0.7"], &sidecar()), ["10.0.0.7_8080 cluster"], "{resolution:?}");
            assert_eq!(shown(&["10.0.0.7", "fd00::7"], &six), ["fd00::7_8080 cluster"], "{resolution:?}");
            assert_eq!(shown(&[], &sidecar()), [""; 0], "{resolution:?}");
            assert_eq!(shown(&["10.0.0.7"], &binding()), ["127.0.0.1_80 cluster"], "{resolution:?}");
        }
    }

    #[test]
    fn tcp_port_without_endpoints_or_address_is_open_if_none() {
        let shown = |resolution| {
            let facts = ListenerInputs { resolution, ..mk_facts_of(Protocol::Tcp, &[]) };
            shown_for(&facts, &sidecar())
        };
        assert_eq!(shown(Resolution::Passthrough), ["0.0.0.0_80 cluster"], "it keeps each destination");
        assert_eq!(shown(Resolution::ClientSide), [""; 0]);
        assert_eq!(shown(Resolution::DnsStrict), [""; 0]);
        assert_eq!(shown(Resolution::Dynamic), [""; 0]);
        let six = Projection { families: Some((false, true)), ..sidecar() };
        assert_eq!(shown_for(&mk_facts_of(Protocol::Tcp, &[("10.0.0.1", 32)]), &six), [""; 0]);
    }

    #[test]
    fn many_endpoints_share_one_filter_chain() {
        let ips = |count: usize| (0..count).map(|i| format!("10.0.{}.{}", i / 256, i % 256)).collect();
        let shown = |count| {
            let ips: Vec<String> = ips(count);
            let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
            shown_for(&mk_facts_at(Resolution::ClientSide, &ips), &sidecar())
        };
        assert_eq!(shown(MAX_ENDPOINT_LISTENERS)[255], "10.0.0.255_8080 cluster");
        let more = shown(MAX_ENDPOINT_LISTENERS + 1);
        assert_eq!((more.len(), &*more[256]), (257, "0.0.0.0_8080 10.0.1.0/32 cluster"));
    }

    #[test]
    fn binding_listener_uses_loopback_addresses_only() {
        let http = mk_facts_of(Protocol::Http, &[("10.0.0.1", 32)]);
        assert_eq!(shown_for(&http, &binding()), ["127.0.0.1_80 routes"]);
        let tcp = mk_facts_of(Protocol::Tcp, &[("10.0.0.1", 32), ("127.0.9.1", 32), ("127.8.0.0", 16)]);
        assert_eq!(shown_for(&tcp, &binding()), ["127.0.9.1_80 cluster"]);
        assert_eq!(
            shown_for(&mk_facts_of(Protocol::Tcp, &[("10.0.0.1", 32)]), &binding()),
            ["127.0.0.1_80 cluster"]
        );
    }

    #[test]
    fn udp_aliases_and_other_clients_have_no_listeners() {
        let mut alias = mk_facts_of(Protocol::Http, &[]);
        alias.resolution = Resolution::Alias(mk_host("b.shop"));
        assert_eq!(shown_for(&alias, &sidecar()), [""; 0]);
        assert_eq!(shown_for(&mk_facts_of(Protocol::Udp, &[]), &sidecar()), [""; 0]);
        let http = mk_facts_of(Protocol::Http, &[]);
        assert_eq!(shown_for(&http, &mk_projection(ClientKind::Grpc)), [""; 0]);
    }
}
