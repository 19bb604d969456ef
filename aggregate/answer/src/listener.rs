//! Plans the parts of a sidecar's listeners that one service port needs (LDS; `docs/reference/xds.md`).
//!
//! A part is a match within a listener. Several services may need the same match;
//! [`compose`](crate::compose) decides between them.

use std::net::IpAddr;

use tributary_model::{ClientKind, ListenerInputs, PortNumber, Projection, Protocol, Recorder, Resolution};

use crate::endpoints::{Destination, inline};
use crate::names::cluster_name;
use crate::vip::{any_address, loopback, vips};

/// Connections of a listener that a part handles; an empty match handles all connections without another match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Match {
    /// Only connections whose original destination is in this range of addresses.
    pub range: Option<(IpAddr, u8)>,
    /// Only TLS connections with this host as SNI.
    pub sni: Option<String>,
}

/// Target of connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Serves {
    /// HTTP, through the route table of the port (`"80"`), which all services of the port share.
    Routes,
    /// TCP, to the xDS cluster of this name.
    Cluster(String),
}

/// Part of a listener that a service port needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerPlan {
    /// Address of the listener. Its name is `<address>_<port>`.
    pub bind: IpAddr,
    /// Port of the listener.
    pub port: u16,
    /// Whether it opens a socket; otherwise the interceptor's listener hands its connections over.
    pub binds: bool,
    /// Connections that the part handles.
    pub matches: Match,
    /// Target of the connections.
    pub serves: Serves,
}

impl ListenerPlan {
    /// Returns the name of the listener.
    #[must_use]
    pub fn name(&self) -> String {
        listener_name(self.bind, self.port)
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
    let no_sidecar = matches!(client.kind, Some(ClientKind::Envoy | ClientKind::Grpc));
    let nothing = facts.protocol == Protocol::Udp || matches!(facts.resolution, Resolution::Alias(_));
    if no_sidecar || nothing {
        return Vec::new();
    }
    let binds = client.binds == Some(true);
    let wide = if binds { loopback(client) } else { any_address(client) };
    let plan = |bind, port, matches, serves| ListenerPlan { bind, port, binds, matches, serves };
    let port = facts.port.get();
    if facts.protocol.is_http() {
        return vec![plan(wide, port, Match::default(), Serves::Routes)];
    }
    let cluster = || Serves::Cluster(cluster_name(facts.port, &facts.service.host));
    let targets = targets(facts, client, binds, r);
    if targets.is_empty() {
        // Envoy rejects a whole listener for a partial wildcard as a server name.
        let has_no_name = facts.protocol.is_tls() && facts.service.host.is_partial_wildcard();
        return if has_no_name { Vec::new() } else { vec![plan(wide, port, by_name(facts), cluster())] };
    }
    let one = |target| match target {
        Target::Socket(ip, port) => plan(ip, port, Match::default(), cluster()),
        Target::Range(ip, prefix) => {
            plan(wide, port, Match { range: Some((ip, prefix)), sni: None }, cluster())
        }
    };
    targets.into_iter().map(one).collect()
}

enum Target {
    Socket(IpAddr, u16),
    Range(IpAddr, u8),
}

/// Returns the original destinations of connections for this port: virtual addresses, or each endpoint of a
/// headless service. A listener that binds can only use loopback addresses.
fn targets<R: Recorder>(facts: &ListenerInputs, client: &Projection, binds: bool, r: &mut R) -> Vec<Target> {
    let port = facts.port.get();
    let mut out: Vec<Target> = vips(&facts.addresses, client)
        .into_iter()
        .map(|a| if a.is_host() { Target::Socket(a.ip, port) } else { Target::Range(a.ip, a.prefix) })
        .collect();
    if let (true, Some(headless)) = (out.is_empty(), &facts.inline) {
        let assignment = inline(&headless.inputs, client, r);
        out.extend(assignment.endpoints().filter_map(|e| match e.target {
            Destination::Ip(ip, port) => Some(Target::Socket(ip, port)),
            Destination::Name(..) | Destination::Pipe(_) => None,
        }));
    }
    if binds {
        out.retain(|target| matches!(target, Target::Socket(ip, _) if ip.is_loopback()));
    }
    out
}

/// Returns the match of a service without an address: the SNI for TLS, else an empty match.
fn by_name(facts: &ListenerInputs) -> Match {
    let sni = facts.protocol.is_tls().then(|| facts.service.host.as_str().to_owned());
    Match { range: None, sni }
}

/// Returns the name of the route table that HTTP listeners of a port share.
#[must_use]
pub fn route_table_name(port: PortNumber) -> String {
    port.to_string()
}

#[cfg(test)]
mod tests {
    use tributary_model::{ClientDimensions, ResourceInputs, ServiceAddress, Shared};

    use super::*;
    use crate::fixtures::*;

    fn mk_facts_of(protocol: Protocol, addresses: &[(&str, u8)]) -> ListenerInputs {
        let address = |&(ip, prefix): &(&str, u8)| ServiceAddress {
            cluster: None,
            ip: ip.parse().unwrap(),
            prefix,
            allocated: false,
        };
        ListenerInputs {
            service: mk_key("pay.shop", "shop"),
            port: mk_port(80),
            protocol,
            resolution: Resolution::ClientSide,
            addresses: addresses.iter().map(address).collect(),
            inline: None,
        }
    }
    fn shown_for(facts: &ListenerInputs, client: &Projection) -> Vec<String> {
        let plans = listener(facts, client, &mut ());
        let line = |p: &ListenerPlan| {
            let range = p.matches.range.map(|(ip, prefix)| format!(" {ip}/{prefix}")).unwrap_or_default();
            let sni = p.matches.sni.as_ref().map(|s| format!(" sni {s}")).unwrap_or_default();
            let serves = if p.serves == Serves::Routes { "routes" } else { "cluster" };
            format!("{}{range}{sni} {serves}", p.name())
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
        assert_eq!(shown_for(&http, &sidecar()), ["0.0.0.0_80 routes"]);
        let tcp = mk_facts_of(Protocol::Tcp, &[("10.0.0.1", 32), ("10.1.0.0", 16)]);
        assert_eq!(shown_for(&tcp, &sidecar()), ["10.0.0.1_80 cluster", "0.0.0.0_80 10.1.0.0/16 cluster"]);
        assert_eq!(shown_for(&mk_facts_of(Protocol::Tcp, &[]), &sidecar()), ["0.0.0.0_80 cluster"]);
        let tls = mk_facts_of(Protocol::Tls, &[]);
        assert_eq!(shown_for(&tls, &sidecar()), ["0.0.0.0_80 sni pay.shop cluster"]);
        let six = Projection { families: Some((false, true)), ..sidecar() };
        assert_eq!(shown_for(&http, &six), ["::_80 routes"]);
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
    fn headless_service_has_a_listener_per_endpoint() {
        let mut facts = mk_facts_of(Protocol::Tcp, &[]);
        facts.resolution = Resolution::Passthrough;
        let endpoints = mk_one(vec![mk_address("10.0.0.7"), mk_address("10.0.0.8")]);
        facts.inline = Some(Shared::new(ResourceInputs::new(endpoints, ClientDimensions::NONE)));
        assert_eq!(shown_for(&facts, &sidecar()), ["10.0.0.7_8080 cluster", "10.0.0.8_8080 cluster"]);
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
