//! Where the ingress listeners of a Sidecar receive, and where they send. Called for each client by
//! [`received`](super::received).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tributary_model::{
    CaptureMode, ClientDimensions, IngressEndpoint, IngressListener, PortNumber, Protocol,
};

use super::{InboundPort, mode};
use crate::client::ClientClass;
use crate::endpoints::Destination;
use crate::vip::{ListenAddress, any_address};

/// Port on which a client receives, and where its connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundPath {
    /// Port.
    pub port: InboundPort,
    /// Destination of its connections.
    pub to: InboundTarget,
    /// Address of its own socket; without one, connections to the port are redirected to the client.
    pub bind: Option<ListenAddress>,
}

/// Destination of received connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum InboundTarget {
    /// Their original destination.
    Original,
    /// This address.
    Ip(IpAddr, PortNumber),
    /// A Unix socket: an absolute path, or `@` and an abstract name.
    Unix(Arc<str>),
}

impl InboundTarget {
    /// Returns the only endpoint; `None` for the original destination.
    #[must_use]
    pub fn fixed(&self) -> Option<Destination<'_>> {
        match self {
            Self::Original => None,
            Self::Ip(ip, port) => Some(Destination::Ip(*ip, port.get())),
            Self::Unix(path) => Some(Destination::Pipe(path)),
        }
    }
}

impl InboundPath {
    /// Returns the path of a port whose redirected connections keep their destination.
    pub(super) const fn captured(port: InboundPort) -> Self {
        Self { port, to: InboundTarget::Original, bind: None }
    }
}

/// Returns the paths of ingress listeners, sorted by port; the first listener of a port serves it.
pub(super) fn paths(listeners: &[IngressListener], class: &ClientClass, ips: &[IpAddr]) -> Vec<InboundPath> {
    let mut out = BTreeMap::new();
    for listener in listeners.iter().filter(|listener| listener.port.protocol != Protocol::Udp) {
        out.entry(listener.port.number).or_insert_with(|| path(listener, class, ips));
    }
    out.into_values().collect()
}

fn path(listener: &IngressListener, class: &ClientClass, ips: &[IpAddr]) -> InboundPath {
    let port = InboundPort {
        target: listener.port.number,
        service: listener.port.number,
        protocol: listener.port.protocol,
        mode: mode(class, listener.port.number),
    };
    let binds = match listener.capture {
        CaptureMode::Default => class.binds,
        CaptureMode::Iptables => false,
        CaptureMode::None => true,
    };
    let bind = binds.then(|| listener.bind.map_or_else(|| own_address(class, ips), ListenAddress::only));
    InboundPath { port, to: target(listener.endpoint.as_ref(), class, ips), bind }
}

/// Returns the first address of each family that other hosts reach, else the unspecified addresses: the application
/// listens on the same port of a loopback address.
fn own_address(class: &ClientClass, ips: &[IpAddr]) -> ListenAddress {
    let routed = || ips.iter().filter(|ip| is_routed(ip));
    let four = routed().find(|ip| ip.is_ipv4());
    let six = routed().find_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None });
    match (four, six) {
        (Some(ip), additional) => ListenAddress { ip: *ip, additional },
        (None, Some(ip)) => ListenAddress::only(ip.into()),
        (None, None) => any_address(&class.project(ClientDimensions::FAMILIES)),
    }
}

fn is_routed(ip: &IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !is_link_local && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
}

fn target(endpoint: Option<&IngressEndpoint>, class: &ClientClass, ips: &[IpAddr]) -> InboundTarget {
    match endpoint {
        None => InboundTarget::Original,
        Some(IngressEndpoint::Unix(path)) => InboundTarget::Unix(Arc::clone(path)),
        Some(IngressEndpoint::Address(ip, port)) => InboundTarget::Ip(address(*ip, class, ips), *port),
    }
}

/// Returns the client's own address for an unspecified one, and the loopback address of a family that it has for
/// another one.
fn address(declared: Option<IpAddr>, class: &ClientClass, ips: &[IpAddr]) -> IpAddr {
    let declared = declared.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let own = || ips.iter().find(|ip| ip.is_ipv4() == declared.is_ipv4()).copied();
    let of_family = loopback(declared.is_ipv4());
    if declared.is_unspecified() {
        return own().unwrap_or(of_family);
    }
    match (declared.is_ipv4(), class.families) {
        (true, (false, true)) | (false, (true, false)) => loopback(!declared.is_ipv4()),
        _ => of_family,
    }
}

fn loopback(four: bool) -> IpAddr {
    if four { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

#[cfg(test)]
mod tests {
    use tributary_model::{Catalog, ClientKind, ClosedPorts, ListenerPort, PortName, Sidecar};

    use super::*;
    use crate::fixtures::*;
    use crate::{ClientSidecar, OwnSide, received};

    const FOUR: (bool, bool) = (true, false);
    const SIX: (bool, bool) = (false, true);
    const BOTH: (bool, bool) = (true, true);

    fn mk_listener(number: u32, capture: CaptureMode, endpoint: Option<IngressEndpoint>) -> IngressListener {
        let name = PortName::new("http").unwrap();
        let port = ListenerPort { number: mk_port(number), protocol: Protocol::Http, name };
        IngressListener { port, bind: None, capture, endpoint }
    }
    fn mk_class(families: (bool, bool), binds: bool, ingress: &[IngressListener]) -> ClientClass {
        let sidecar = Sidecar { ingress: ingress.into(), ..Sidecar::default() };
        let (key, _) = mk_sidecar("shop", "default", sidecar.clone());
        let sidecar = Some(Arc::new(ClientSidecar::new(&key, &sidecar)));
        ClientClass { families, binds, sidecar, ..ClientClass::new(ClientKind::Sidecar) }
    }
    /// Returns `PORT [ADDRESS OF THE SOCKET] to DESTINATION` of each path.
    fn shown(class: &ClientClass, ips: &[&str]) -> Vec<String> {
        let ips: Vec<IpAddr> = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let own = OwnSide { workloads: &[], ips: &ips };
        let line = |path: &InboundPath| {
            let also = |bind: ListenAddress| bind.additional.map(|ip| format!(",{ip}")).unwrap_or_default();
            let bind = path.bind.map(|bind| format!(" at {}{}", bind.ip, also(bind))).unwrap_or_default();
            let to = path.to.fixed().map_or_else(|| "original".to_owned(), |to| to.to_string());
            format!("{}{bind} to {to}", path.port.target)
        };
        received(&Catalog::default(), class, own).iter().map(line).collect()
    }
    fn sends_to(endpoint: Option<IngressEndpoint>, families: (bool, bool), ips: &[&str]) -> String {
        let class = mk_class(families, false, &[mk_listener(80, CaptureMode::Default, endpoint)]);
        shown(&class, ips).remove(0)
    }
    fn at(ip: &str) -> Option<IngressEndpoint> {
        Some(IngressEndpoint::Address(ip.parse().ok(), mk_port(8080)))
    }

    #[test]
    fn ingress_sends_to_loopback_own_address_or_socket() {
        let (four, six) = ("10.0.0.7", "fd00::7");
        for (endpoint, families, ips, wanted) in [
            (None, FOUR, &[four][..], "80 to original"),
            (at("127.0.0.1"), FOUR, &[four], "80 to 127.0.0.1:8080"),
            (at("127.0.0.1"), BOTH, &[six, four], "80 to 127.0.0.1:8080"),
            (at("127.0.0.1"), SIX, &[six], "80 to [::1]:8080"),
            (at("::1"), SIX, &[six], "80 to [::1]:8080"),
            (at("::1"), FOUR, &[four], "80 to 127.0.0.1:8080"),
            (at(""), FOUR, &[four], "80 to 127.0.0.1:8080"),
            (at(""), SIX, &[six], "80 to [::1]:8080"),
            (at("0.0.0.0"), BOTH, &[six, four, "10.0.0.8"], "80 to 10.0.0.7:8080"),
            (at("::"), BOTH, &[four, six], "80 to [fd00::7]:8080"),
            (at("0.0.0.0"), SIX, &[six], "80 to 127.0.0.1:8080"),
            (Some(IngressEndpoint::Unix("/run/a".into())), FOUR, &[four], "80 to unix:/run/a"),
        ] {
            assert_eq!(sends_to(endpoint.clone(), families, ips), wanted, "{endpoint:?} {ips:?}");
        }
    }

    #[test]
    fn ingress_that_is_not_captured_has_a_socket() {
        let bound = |number, bind: &str| IngressListener {
            bind: bind.parse().ok(),
            ..mk_listener(number, CaptureMode::None, None)
        };
        let captured = |number| IngressListener {
            bind: "10.0.0.9".parse().ok(),
            ..mk_listener(number, CaptureMode::Iptables, None)
        };
        let all =
            [bound(83, "10.0.0.9"), bound(82, ""), mk_listener(81, CaptureMode::Default, None), captured(80)];
        let own = &["fe80::1", "10.0.0.7"];
        let socket = "82 at 10.0.0.7 to original";
        let wanted = ["80 to original", "81 to original", socket, "83 at 10.0.0.9 to original"];
        assert_eq!(shown(&mk_class(FOUR, false, &all), own), wanted);
        let wanted = ["80 to original", "81 at 10.0.0.7 to original", socket, "83 at 10.0.0.9 to original"];
        assert_eq!(shown(&mk_class(FOUR, true, &all), own), wanted, "a client whose listeners bind");
        let at = |families, ips: &[&str]| shown(&mk_class(families, false, &[bound(82, "")]), ips).remove(0);
        assert_eq!(at(BOTH, &["fd00::7", "fd00::8", "10.0.0.7"]), "82 at 10.0.0.7,fd00::7 to original");
        assert_eq!(at(SIX, &["::1", "fd00::7"]), "82 at fd00::7 to original");
        assert_eq!(at(SIX, &["::1"]), "82 at :: to original");
    }

    #[test]
    fn ingress_without_privilege_opens_no_port_below_1024() {
        let listener = |number, capture| mk_listener(number, capture, None);
        let ingress = [
            listener(80, CaptureMode::None),
            listener(81, CaptureMode::Iptables),
            listener(8080, CaptureMode::None),
        ];
        let closed = ClosedPorts { privileged: true, ..ClosedPorts::default() };
        let class = ClientClass { closed, ..mk_class(FOUR, false, &ingress) };
        let paths = received(&Catalog::default(), &class, OwnSide::default());
        let ports: Vec<u16> = paths.iter().map(|path| path.port.target.get()).collect();
        assert_eq!(ports, [81, 8080]);
    }

    #[test]
    fn first_ingress_listener_of_a_port_serves_it() {
        let udp = mk_listener(53, CaptureMode::Default, None);
        let port = ListenerPort { protocol: Protocol::Udp, ..udp.port.clone() };
        let all = [
            IngressListener { port, ..udp },
            mk_listener(80, CaptureMode::Default, at("127.0.0.1")),
            mk_listener(80, CaptureMode::None, None),
        ];
        assert_eq!(shown(&mk_class(FOUR, false, &all), &["10.0.0.7"]), ["80 to 127.0.0.1:8080"]);
    }
}
