//! Listeners of a service port for a client whose Sidecar has egress listeners: their address, capture mode and
//! protocol in place of the client's and the port's own.

use tributary_model::{
    CaptureMode, Code, EgressListener, ListenerInputs, PortClosed, PortView, Projection, Protocol, Recorder,
    ServiceView, Stage, TraceStep, Verdict,
};

use super::{ListenerPlan, listener_at, open};
use crate::client::ClientClass;
use crate::key::key;
use crate::scope::Scope;
use crate::steps::service_step;
use crate::vip::{ListenAddress, any_address, loopback};

/// Where the parts of a port are that have no address of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    /// Addresses of the listener for the whole port.
    pub(super) wide: ListenAddress,
    /// Whether listeners open sockets.
    pub(super) binds: bool,
    /// Whether the address is declared, and serves also what has an address of its own.
    pub(super) declared: bool,
    /// Whether a port that is neither HTTP nor TLS gets all connections if nothing separates them.
    pub(super) alone: bool,
}

impl Socket {
    pub(super) fn of(client: &Projection) -> Self {
        let binds = client.binds == Some(true);
        let wide = if binds { loopback(client) } else { any_address(client) };
        Self { wide, binds, declared: false, alone: false }
    }
    fn through(listener: &EgressListener, client: &Projection) -> Self {
        let binds = match listener.capture {
            CaptureMode::Default => client.binds,
            CaptureMode::Iptables => Some(false),
            CaptureMode::None => Some(true),
        };
        let own = Self::of(&Projection { binds, ..client.clone() });
        let Some(ip) = listener.bind else { return own };
        let wide = ListenAddress::only(ip);
        // Without a socket, a wildcard address receives every redirected connection of the port, also those to strangers:
        // addresses of services separate them, as without `bind`.
        let strangers = !own.binds && ip.is_unspecified();
        Self { wide, declared: !strangers, alone: strangers, ..own }
    }
}

/// Plans the parts of listeners for this port of a service, for a client that reaches it by its Sidecar. Empty if no
/// egress listener imports it.
pub fn scoped_listener<R: Recorder>(
    facts: &ListenerInputs,
    client: &Projection,
    scope: Scope<'_>,
    r: &mut R,
) -> Vec<ListenerPlan> {
    open(wanted(facts, client, scope, r), client)
}

/// Plans the parts as if every port were open to the client.
fn wanted<R: Recorder>(
    facts: &ListenerInputs,
    client: &Projection,
    scope: Scope<'_>,
    r: &mut R,
) -> Vec<ListenerPlan> {
    let Some(egress) = scope.egress() else { return listener_at(facts, client, Socket::of(client), r) };
    let Some((serving, other)) = egress.serving(scope.namespace, &facts.service, facts.port) else {
        return Vec::new();
    };
    let socket = Socket::through(serving, client);
    let protocol = protocol(serving, facts.protocol);
    let alone = protocol == Protocol::Tcp && protocol != facts.protocol;
    let facts = ListenerInputs { protocol, ..facts.clone() };
    let mut parts = listener_at(&facts, client, Socket { alone: alone || socket.alone, ..socket }, r);
    if let Some(other) = other {
        // The address of the listener that is for this port alone is taken.
        let taken = Socket::through(other, client).wide;
        parts.retain(|part| part.bind.ip != taken.ip);
    }
    parts
}

/// Returns the step of a port that has no listener because the client's proxy cannot listen there.
pub(crate) fn not_listened(view: &ServiceView, port: &PortView, class: &ClientClass) -> Option<TraceStep> {
    let inputs = &port.listener;
    let parts = wanted(&inputs.inputs, &key(inputs, class), class.scope(), &mut ());
    let reason =
        |part: &ListenerPlan| Some((part.port, class.closed.reason(part.bind.ip, part.port, part.binds)?));
    let (at, closed) = parts.iter().find_map(reason)?;
    let why = match closed {
        PortClosed::Privileged => "opens no port below 1024 (UNPRIVILEGED_POD)",
        PortClosed::Taken => "has a listener of its own there",
    };
    let detail = format!(
        "port {} of {} has no listener on port {at}: the client's proxy {why}",
        port.number, view.key
    );
    Some(service_step(Stage::Deliver, Verdict::Warn, Code::PORT_CLOSED, None, detail))
}

/// Returns the protocol that a port has for a client with this scope.
pub(crate) fn protocol_for(facts: &ListenerInputs, scope: Scope<'_>) -> Protocol {
    let serving =
        scope.egress().and_then(|egress| egress.serving(scope.namespace, &facts.service, facts.port));
    serving.map_or(facts.protocol, |(listener, _)| protocol(listener, facts.protocol))
}

/// Returns the protocol of a port behind an egress listener: that of the listener, if it has one. HTTP of a port that is
/// not HTTP stays the port's protocol, because its service has no routes.
fn protocol(listener: &EgressListener, own: Protocol) -> Protocol {
    let declared = listener.port.as_ref().map_or(Protocol::Unspecified, |port| port.protocol);
    let no_routes = declared.is_http() && !own.is_http();
    if declared == Protocol::Unspecified || own == Protocol::Udp || no_routes { own } else { declared }
}

#[cfg(test)]
mod tests {
    use tributary_model::{
        ClientDimensions, ClientKind, ClosedPorts, EndpointInputs, ResourceInputs, Shared, Sidecar,
        Visibility,
    };

    use super::*;
    use crate::fixtures::*;
    use crate::scope::ClientSidecar;

    fn mk_facts(protocol: Protocol, vip: Option<&str>) -> ListenerInputs {
        let addresses: Vec<(&str, u8)> = vip.into_iter().map(|ip| (ip, 32)).collect();
        mk_facts_of(protocol, &addresses)
    }
    /// Returns an egress listener for the port, or for all ports, that imports these hosts.
    fn mk_listener(port: Option<(u32, Protocol)>, hosts: &str) -> EgressListener {
        let mut listener = mk_egress(&[(port.map(|(number, _)| number), &[hosts])])[0].clone();
        if let (Some(of), Some((_, protocol))) = (&mut listener.port, port) {
            of.protocol = protocol;
        }
        listener
    }
    fn shown(listeners: &[EgressListener], facts: &ListenerInputs) -> Vec<String> {
        shown_to(listeners, facts, false)
    }
    fn shown_to(listeners: &[EgressListener], facts: &ListenerInputs, client_binds: bool) -> Vec<String> {
        let sidecar = Sidecar { egress: listeners.into(), ..Sidecar::default() };
        let (key, _) = mk_sidecar("web", "default", sidecar.clone());
        let (namespace, sidecar) = (mk_ns("web"), ClientSidecar::new(&key, &sidecar));
        let scope = Scope { namespace: Some(&namespace), sidecar: Some(&sidecar) };
        let client = Projection { binds: Some(client_binds), ..mk_projection(ClientKind::Sidecar) };
        let line = |part: &ListenerPlan| {
            let binds = if part.binds { " binds" } else { "" };
            let http = if part.matches.http { " http" } else { "" };
            format!("{}{binds}{http} {:?}", part.name(), part.serves).replace(", None)", ")")
        };
        scoped_listener(facts, &client, scope, &mut ()).iter().map(line).collect()
    }
    const TCP: &str = "Cluster(\"outbound|80||pay.shop\")";

    #[test]
    fn egress_listener_has_its_address_and_capture_mode() {
        let (http, tcp) = (mk_facts(Protocol::Http, None), mk_facts(Protocol::Tcp, Some("10.96.0.1")));
        let at = |bind: &str, capture| EgressListener {
            bind: bind.parse().ok(),
            capture,
            ..mk_listener(None, "shop/pay.shop")
        };
        let (default, captured, free) = (CaptureMode::Default, CaptureMode::Iptables, CaptureMode::None);
        for (listener, client_binds, of_http, of_tcp) in [
            (at("", default), false, "0.0.0.0_80 http Routes", "10.96.0.1_80 CLUSTER"),
            (at("127.0.0.9", default), false, "127.0.0.9_80 http Routes", "127.0.0.9_80 CLUSTER"),
            (at("", free), false, "127.0.0.1_80 binds Routes", "127.0.0.1_80 binds CLUSTER"),
            (at("127.0.0.9", free), false, "127.0.0.9_80 binds Routes", "127.0.0.9_80 binds CLUSTER"),
            (at("", default), true, "127.0.0.1_80 binds Routes", "127.0.0.1_80 binds CLUSTER"),
            (at("127.0.0.9", default), true, "127.0.0.9_80 binds Routes", "127.0.0.9_80 binds CLUSTER"),
            (at("", captured), true, "0.0.0.0_80 http Routes", "10.96.0.1_80 CLUSTER"),
        ] {
            let all = std::slice::from_ref(&listener);
            assert_eq!(shown_to(all, &http, client_binds), [of_http], "{listener:?}");
            let of_tcp = of_tcp.replace("CLUSTER", TCP);
            assert_eq!(shown_to(all, &tcp, client_binds), [of_tcp], "{listener:?}");
        }
    }

    /// Istio 1.32 (`pilot/pkg/networking/core/listener.go`) makes a listener of the wildcard address that opens no socket. Its
    /// TCP part matches everything, so the first service has the connections of the others, and of strangers.
    #[test]
    fn wildcard_address_without_a_socket_leaves_strangers_alone() {
        let at = |bind: &str, capture| {
            let bind = bind.parse().ok();
            [EgressListener {
                bind,
                capture,
                ..mk_listener(Some((80, Protocol::Unspecified)), "shop/pay.shop")
            }]
        };
        let default = CaptureMode::Default;
        let (http, tcp) = (mk_facts(Protocol::Http, None), mk_facts(Protocol::Tcp, Some("10.96.0.1")));
        let (tls, auto) = (mk_facts(Protocol::Tls, None), mk_facts(Protocol::Unspecified, None));
        for wildcard in ["0.0.0.0", "::"] {
            let wide = |text: &str| text.replace("WIDE", wildcard).replace("CLUSTER", TCP);
            let of = |facts| shown(&at(wildcard, default), facts);
            assert_eq!(of(&http), [wide("WIDE_80 http Routes")]);
            assert_eq!(of(&tcp), [wide("10.96.0.1_80 CLUSTER")]);
            assert_eq!(of(&tls), [wide("WIDE_80 CLUSTER")], "by its server name");
            assert_eq!(of(&auto), [wide("WIDE_80 CLUSTER"), wide("WIDE_80 http Routes")]);
            let alone = mk_facts(Protocol::Tcp, None);
            assert_eq!(
                of(&alone),
                [wide("WIDE_80 CLUSTER")],
                "nothing separates it, and `bind` gives it the port"
            );
            assert_eq!(shown(&at(wildcard, CaptureMode::None), &tcp), [wide("WIDE_80 binds CLUSTER")]);
        }
    }

    /// The rule of Istio 1.32, `Proxy.CanBindToPort` of `pilot/pkg/model/context.go`, which skips such ports too.
    #[test]
    fn listener_that_the_proxy_cannot_have_is_left_out() {
        let all = ClosedPorts { privileged: true, status: true, metrics: true };
        let names = |facts: &ListenerInputs, binds: bool, closed: ClosedPorts| -> Vec<String> {
            let client = mk_projection(ClientKind::Sidecar);
            let client = Projection { binds: Some(binds), closed: Some(closed), ..client };
            scoped_listener(facts, &client, Scope::default(), &mut ())
                .iter()
                .map(ListenerPlan::name)
                .collect()
        };
        let at = |port, protocol, vip| ListenerInputs { port: mk_port(port), ..mk_facts(protocol, vip) };
        let http = |port| at(port, Protocol::Http, None);
        assert_eq!(names(&http(80), true, all), [""; 0], "no privilege");
        assert_eq!(names(&http(80), false, all), ["0.0.0.0_80"], "it opens no socket");
        assert_eq!(names(&http(1_024), true, all), ["127.0.0.1_1024"]);
        for port in [15_001, 15_006, 15_021, 15_090] {
            assert_eq!(names(&http(port), false, all), [""; 0], "{port}");
            let tcp = at(port, Protocol::Tcp, Some("10.96.0.1"));
            assert_eq!(names(&tcp, false, all), [format!("10.96.0.1_{port}")]);
        }
        assert_eq!(
            names(&http(15_001), false, ClosedPorts::default()),
            [""; 0],
            "every sidecar listens there"
        );
        assert_eq!(names(&http(15_021), false, ClosedPorts::default()), ["0.0.0.0_15021"]);
    }

    #[test]
    fn step_names_the_port_that_is_closed() {
        let facts = EndpointInputs { service: mk_key("pay.shop", "shop"), ..mk_one(Vec::new()) };
        let port = mk_port_view(facts);
        let dimensions = ClientDimensions::KIND | ClientDimensions::BINDS;
        let inputs = ResourceInputs::new(port.listener.inputs.clone(), dimensions);
        let port = PortView { listener: Shared::new(inputs), ..port };
        let view = mk_view("pay.shop", "shop", &[Visibility::Public]);
        let closed = ClosedPorts { privileged: true, ..ClosedPorts::default() };
        let captured = ClientClass { closed, ..ClientClass::new(ClientKind::Sidecar) };
        assert!(not_listened(&view, &port, &captured).is_none());
        let step = not_listened(&view, &port, &ClientClass { binds: true, ..captured }).unwrap();
        assert_eq!((step.code, step.verdict), (Code::PORT_CLOSED, Verdict::Warn));
        let detail = "port 80 of shop/pay.shop has no listener on port 80: the client's proxy opens no port below 1024 \
                      (UNPRIVILEGED_POD)";
        assert_eq!(step.detail, detail);
    }

    #[test]
    fn egress_listener_of_a_port_decides_the_protocol() {
        let through = |protocol| [mk_listener(Some((80, protocol)), "shop/pay.shop")];
        let (http, tcp) = (mk_facts(Protocol::Http, None), mk_facts(Protocol::Tcp, Some("10.96.0.1")));
        let addressed = mk_facts(Protocol::Http, Some("10.96.0.1"));
        assert_eq!(shown(&through(Protocol::Tcp), &http), [format!("0.0.0.0_80 {TCP}")]);
        assert_eq!(shown(&through(Protocol::Tcp), &addressed), [format!("10.96.0.1_80 {TCP}")]);
        assert_eq!(shown(&through(Protocol::Unspecified), &http), ["0.0.0.0_80 http Routes"]);
        assert_eq!(
            shown(&through(Protocol::Http), &tcp),
            [format!("10.96.0.1_80 {TCP}")],
            "it has no routes"
        );
        assert_eq!(shown(&through(Protocol::Tcp), &mk_facts(Protocol::Udp, None)), [""; 0]);
    }

    #[test]
    fn port_with_its_own_listener_hides_only_the_listener_of_the_whole_port() {
        let rest = mk_listener(None, "*/*");
        let all = [mk_listener(Some((80, Protocol::Http)), "shop/other.shop"), rest];
        assert_eq!(shown(&all, &mk_facts(Protocol::Http, Some("10.96.0.1"))), [""; 0]);
        let tcp = mk_facts(Protocol::Tcp, Some("10.96.0.1"));
        assert_eq!(shown(&all, &tcp), [format!("10.96.0.1_80 {TCP}")]);
        assert_eq!(shown(&all[..1], &tcp), [""; 0], "nothing imports it");
    }
}
