//! Names what leads a client to a port of a service: its listeners, its route table or its target, and the xDS cluster
//! behind them; or why nothing does.
//!
//! Explain and why-not call it. It plans with the functions that serve clients, so it names what they plan; whether the
//! client was sent that is the application's to add.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Catalog, ClientKind, ClientTls, Code, HostPattern, PolicyKey, PortView, Protocol, Resolution,
    ServiceAddress, ServiceView, Stage, Subset, Trace, TraceStep, Verdict,
};

use super::subsets::{is_led_away, routed_subsets};
use crate::client::{Client, ClientClass, Takes};
use crate::cluster::{Discovery, cluster, udp_not_served};
use crate::endpoints::Destination;
use crate::forwarding::forwarding_to;
use crate::key::key;
use crate::listener::{ListenerPlan, Serves, not_listened, route_table_name, scoped_listener};
use crate::names::ClusterName;
use crate::scope::trace::not_routed;
use crate::steps::{self, service_step};
use crate::vip::vips;

/// Description of a target whose routes lead to other services, answer, or are not for gRPC.
const LED_AWAY: &str = "no route of the target leads to it";

/// Description of a port of resolution NONE without endpoints.
const NO_DESTINATION: &str =
    "gRPC cannot keep the destination of a connection, as resolution NONE without endpoints needs";

/// Beginning of the description of a listener whose connections a VirtualService leads elsewhere.
pub(super) const LED_BY_ROUTES: &str = "a VirtualService leads the connections of listener";

/// Maximum number of listeners in a step.
const MAX_NAMED: usize = 8;

/// Resource that carries the endpoints of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// The assignment.
    Endpoints,
    /// The xDS cluster; the client resolves its names.
    Cluster,
    /// The xDS cluster, which needs none: each connection or request names its destination.
    Destination,
}

/// Returns the resource that carries the endpoints of a port, or of a subset of them, to clients of this class; `None` if
/// they receive nothing for it.
#[must_use]
pub fn carrier(port: &PortView, subset: Option<&Subset>, class: &ClientClass) -> Option<Carrier> {
    let plan = cluster(&port.cluster.inputs, subset, &key(&port.cluster, class), &mut ())?;
    Some(match plan.discovery {
        Discovery::Eds => Carrier::Endpoints,
        Discovery::StrictDns(_) | Discovery::LogicalDns(_) => Carrier::Cluster,
        Discovery::OriginalDestination(_) | Discovery::ForwardProxy => Carrier::Destination,
    })
}

/// Returns the TLS of a client's connections to the endpoints of a port, or to a subset of them; `None` for plain text and
/// for what DestinationRules do not set.
#[must_use]
pub fn connection_tls<'p>(
    port: &'p PortView,
    subset: Option<&Subset>,
    class: &ClientClass,
) -> Option<&'p ClientTls> {
    cluster(&port.cluster.inputs, subset, &key(&port.cluster, class), &mut ())?.policy?.tls.as_deref()
}

/// Returns the listeners of a sidecar that lead connections to a port, or to a subset of it, by name.
#[must_use]
pub fn leading_listeners(port: &PortView, class: &ClientClass) -> BTreeSet<String> {
    let parts = leading_parts(port, class);
    parts.iter().filter(|part| leads(part, port)).map(ListenerPlan::name).collect()
}

/// Returns the parts of a sidecar's listeners that a port has, with the targets of their connections.
#[must_use]
pub fn leading_parts(port: &PortView, class: &ClientClass) -> Vec<ListenerPlan> {
    let inputs = &port.listener;
    scoped_listener(&inputs.inputs, &key(inputs, class), class.scope(), &mut ())
}

/// Returns the listeners of a sidecar that lead to a port, each with its route table if requests take one.
#[must_use]
pub fn leading_resources(port: &PortView, class: &ClientClass) -> BTreeSet<(String, Option<String>)> {
    let parts = leading_parts(port, class);
    let table = |part: &ListenerPlan| (part.serves == Serves::Routes).then(|| route_table_name(port.number));
    parts.iter().map(|part| (part.name(), table(part))).collect()
}

/// Returns the virtual addresses of a port whose requests a sidecar takes by the listener of the whole port. A listener of another
/// service for such an address comes first.
#[must_use]
pub fn requested_addresses<'p>(port: &'p PortView, class: &ClientClass) -> Vec<&'p ServiceAddress> {
    let is_shared =
        |part: &ListenerPlan| part.serves == Serves::Routes && part.bind.ip.is_unspecified() && !part.binds;
    let route = &port.route;
    match leading_parts(port, class).iter().any(is_shared) {
        true => vips(&route.inputs.addresses, &key(route, class)),
        false => Vec::new(),
    }
}

/// Whether a part leads connections to a port, or to a subset of it; routes of a VirtualService may lead them elsewhere.
fn leads(part: &ListenerPlan, port: &PortView) -> bool {
    own_clusters(part, port).next().is_some()
}

/// Returns the xDS clusters of a port, and of subsets of it, that receive the connections of a part.
fn own_clusters<'p>(part: &'p ListenerPlan, port: &PortView) -> impl Iterator<Item = &'p ClusterName> {
    let own = &port.cluster.inputs;
    clusters(part).filter(|to| to.port == own.port && to.host == own.service.host)
}

/// Returns the xDS clusters that receive a sidecar's connections to a port, by listener and the VirtualService that leads them there,
/// which may lead them to other ports.
#[must_use]
pub fn connection_targets(
    port: &PortView,
    class: &ClientClass,
) -> BTreeMap<(String, Option<PolicyKey>), BTreeSet<String>> {
    let mut out: BTreeMap<(String, Option<PolicyKey>), BTreeSet<String>> = BTreeMap::new();
    for part in leading_parts(port, class) {
        let to = clusters(&part).map(ToString::to_string).collect::<Vec<_>>();
        out.entry((part.name(), part.rule)).or_default().extend(to);
    }
    out
}

/// Returns the subsets of a port to which the routes of a sidecar's connections lead.
pub(super) fn connected_subsets(port: &PortView, class: &ClientClass) -> BTreeSet<Subset> {
    let parts = leading_parts(port, class);
    parts.iter().flat_map(|part| own_clusters(part, port)).filter_map(|to| to.subset.clone()).collect()
}

/// Returns the xDS clusters that receive the connections of a part.
fn clusters(part: &ListenerPlan) -> impl Iterator<Item = &ClusterName> {
    let (one, shared) = match &part.serves {
        Serves::Cluster(to, _) => (Some(to), None),
        Serves::Weighted(all, _) => (None, Some(all)),
        Serves::Routes | Serves::Http(..) => (None, None),
    };
    one.into_iter().chain(shared.into_iter().flat_map(|all| all.iter().map(|(to, _)| to)))
}

/// Returns the step of a port whose connections a VirtualService leads elsewhere.
fn led_elsewhere(port: &PortView, class: &ClientClass) -> Option<TraceStep> {
    let parts = leading_parts(port, class);
    let led = parts.iter().filter(|part| clusters(part).next().is_some() && !leads(part, port));
    // of TLS, the part for the host itself, which need not be the first
    let host = &port.cluster.inputs.service.host;
    let is_named = |part: &&ListenerPlan| {
        let name = part.matches.sni.as_ref().and_then(|name| HostPattern::new(name).ok());
        name.is_some_and(|name| name.matches(host))
    };
    let led = led.clone().find(is_named).or_else(|| led.clone().next())?;
    let to: Vec<String> = clusters(led).take(MAX_NAMED).map(ToString::to_string).collect();
    let why = format!("{LED_BY_ROUTES} {} to {}", matched(led), to.join(", "));
    Some(step(port, Verdict::Warn, Code::ROUTED_ELSEWHERE, &why))
}

/// Returns what leads clients of this class to a port that they import, or why nothing does; a warning if they receive
/// endpoints that nothing leads to. Empty if another step explains the port. The client names the service by the host
/// `named`, which may be an alias. Only a route that names a subset leads to it.
pub(super) fn reach(
    catalog: &Catalog,
    view: &ServiceView,
    port: &PortView,
    client: &Client,
    (named, subset): (&str, Option<&Subset>),
) -> Vec<TraceStep> {
    let class = &client.class;
    let mut reasons = Trace::default();
    let Some(plan) = cluster(&port.cluster.inputs, subset, &key(&port.cluster, class), &mut reasons) else {
        // The assignment's own trace has the steps of endpoints.
        reasons.steps.retain(|step| step.endpoint.is_empty() && step.verdict == Verdict::Drop);
        return reasons.steps;
    };
    if plan.discovery == Discovery::Eds && !has_endpoints(port) {
        return if waits(catalog, view) { Vec::new() } else { vec![without_endpoints(port)] };
    }
    let one = |way: &str| vec![(way.to_owned(), By::Itself)];
    let own = || one("listeners and routes are the client's own; it receives");
    let ways = match class.kind {
        ClientKind::Sidecar if client.takes == Takes::Clusters => own(),
        ClientKind::Sidecar if client.takes == Takes::Routes && !takes_requests(port, class) => {
            one("listeners are the client's own; it receives")
        }
        ClientKind::Sidecar if subset.is_some() => {
            one("a route that names the subset, and nothing else, leads to")
        }
        ClientKind::Sidecar | ClientKind::Grpc if class.scope().rank(view).is_none() => {
            one("a route of a VirtualService, and nothing else, leads to")
        }
        ClientKind::Sidecar if not_routed(catalog, view, port, class.scope()).is_some() => return Vec::new(),
        ClientKind::Sidecar if client.takes == Takes::Routes => {
            let table = route_table_name(port.number);
            vec![(format!("route table {table} leads requests for {named} to"), By::Requests)]
        }
        ClientKind::Sidecar => listeners(port, class, named),
        ClientKind::Grpc if is_led_away(port, class) => {
            return vec![step(port, Verdict::Warn, Code::ROUTED_ELSEWHERE, LED_AWAY)];
        }
        ClientKind::Grpc => vec![(format!("target {named}:{} leads to", port.number), By::Requests)],
        ClientKind::Router => forwarded(view, class),
        ClientKind::Envoy => own(),
    };
    if ways.is_empty() && class.kind == ClientKind::Router {
        return vec![step(port, Verdict::Drop, Code::PORT_CLOSED, NO_SERVER)];
    }
    if ways.is_empty() {
        let why = not_listened(view, port, class).or_else(|| led_elsewhere(port, class));
        return vec![why.unwrap_or_else(|| unmatched(port))];
    }
    let end = kept(&plan.discovery);
    ways.into_iter()
        .map(|(way, by)| {
            let names = match by {
                By::Requests if subset.is_none() => routed(port, class),
                By::Connections => connected(port, class),
                By::Requests | By::Itself => vec![plan.name.to_string()],
            };
            let noun = if names.len() == 1 { "xDS cluster" } else { "xDS clusters" };
            let names = steps::named(names.iter().map(String::as_str));
            step(port, Verdict::Pass, Code::REACHED, &format!("{way} {noun} {names}{end}"))
        })
        .collect()
}

/// Reason why a router that reaches a service takes no connections for it.
const NO_SERVER: &str = "the router has no listener for it: its servers are at addresses of other IP families, or at ports that its proxy cannot open";

/// Returns the listeners at which a router takes connections for a service.
fn forwarded(view: &ServiceView, class: &ClientClass) -> Vec<(String, By)> {
    let way = |listener: String| {
        (format!("LDS {listener} leads connections of mesh TLS with its name as server name to"), By::Itself)
    };
    forwarding_to(&view.key.host, class).into_iter().map(way).collect()
}

/// Whether endpoints of a service may exist that are not known yet.
pub(super) fn waits(catalog: &Catalog, view: &ServiceView) -> bool {
    let is_unread = catalog.unread_endpoints(view).next().is_some();
    is_unread || catalog.pending.contains_key(view.key.host.as_str())
}

/// Returns the xDS clusters to which the routes of a client's requests to a port lead.
fn routed(port: &PortView, class: &ClientClass) -> Vec<String> {
    let own = ClusterName::new(port.number, &port.cluster.inputs.service.host);
    let name = |subset| ClusterName { subset, ..own.clone() }.to_string();
    routed_subsets(port, class).into_iter().map(name).collect()
}

/// Returns the xDS clusters of a port to which a sidecar's listeners lead connections.
fn connected(port: &PortView, class: &ClientClass) -> Vec<String> {
    let parts = leading_parts(port, class);
    let names: BTreeSet<String> =
        parts.iter().flat_map(|part| own_clusters(part, port)).map(ToString::to_string).collect();
    names.into_iter().collect()
}

/// Returns why no client receives anything for a UDP port; `None` for other ports.
pub(super) fn not_served(view: &ServiceView, port: &PortView) -> Option<TraceStep> {
    let detail = || format!("{}: {}", view.key, udp_not_served(port.number));
    let step = || service_step(Stage::Merge, Verdict::Drop, Code::UDP_NOT_SERVED, None, detail());
    (port.protocol == Protocol::Udp).then(step)
}

/// What names the xDS clusters to which a way leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The port, or the subset that is asked for.
    Itself,
    /// Routes of requests.
    Requests,
    /// Routes of connections.
    Connections,
}

/// Returns the beginnings of sentences about the listeners and the route table of a port, and what names the ends.
fn listeners(port: &PortView, class: &ClientClass, named_by: &str) -> Vec<(String, By)> {
    let parts = leading_parts(port, class);
    let own: Vec<String> = parts.iter().filter(|part| leads(part, port)).map(matched).collect();
    let routes = parts.iter().find(|part| part.serves == Serves::Routes);
    let of_routes = routes.map(|part| {
        let (name, table) = (part.name(), route_table_name(port.number));
        (format!("listener {name} leads requests for {named_by} by route table {table} to"), By::Requests)
    });
    named(&own).map(|way| (way, By::Connections)).into_iter().chain(of_routes).collect()
}

/// Whether the requests to a port take a route table.
fn takes_requests(port: &PortView, class: &ClientClass) -> bool {
    leading_parts(port, class).iter().any(|part| part.serves == Serves::Routes)
}

/// Describes which connections a part of a listener handles.
fn matched(part: &ListenerPlan) -> String {
    let range = part.matches.range.map(|(ip, prefix)| format!(" ({ip}/{prefix})"));
    let sni = part.matches.sni.as_ref().map(|sni| format!(" (server name {sni})"));
    format!("{}{}", part.name(), range.or(sni).unwrap_or_default())
}

fn named(all: &[String]) -> Option<String> {
    let shown = all.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => None,
        1 => Some(format!("listener {shown} leads connections to")),
        count if count <= MAX_NAMED => Some(format!("listeners {shown} lead connections to")),
        count => Some(format!("listeners {shown} and {} more lead connections to", count - MAX_NAMED)),
    }
}

/// Returns the end of a sentence: how the client finds the endpoints of an xDS cluster.
const fn kept(discovery: &Discovery<'_>) -> &'static str {
    match discovery {
        Discovery::Eds => "",
        Discovery::StrictDns(_) | Discovery::LogicalDns(_) => ", whose names the client resolves",
        Discovery::OriginalDestination(None) => ", which keeps the destination of each connection",
        Discovery::OriginalDestination(Some(_)) => {
            ", which keeps the destination of each connection except the port"
        }
        Discovery::ForwardProxy => ", which resolves the host of each request",
    }
}

/// Whether any source lists an endpoint of the port, healthy or not.
fn has_endpoints(port: &PortView) -> bool {
    port.endpoints.inputs.sources.iter().any(|source| {
        source.group.addresses.iter().any(|address| {
            let at = source.ports.get(usize::from(address.port_set)).copied().flatten();
            let of = at.and_then(|at| source.group.ports(address).get(usize::from(at)));
            of.is_some_and(|of| Destination::of(&source.group, address, of.number).is_some())
        })
    })
}

fn without_endpoints(port: &PortView) -> TraceStep {
    let listed = port.endpoints.inputs.sources.iter().any(|source| !source.group.addresses.is_empty());
    // the endpoints of a headless service may come; of other kinds of clients, connections keep their destination
    let needs_none = port.cluster.inputs.resolution == Resolution::Passthrough && !port.route.inputs.headless;
    let (code, why) = match listed {
        true => (Code::NO_ENDPOINTS, "the listed endpoints have no port for it"),
        false if needs_none => (Code::KIND_CANNOT_REACH, NO_DESTINATION),
        false => (Code::NO_ENDPOINTS, "no source lists an endpoint"),
    };
    step(port, Verdict::Drop, code, why)
}

fn unmatched(port: &PortView) -> TraceStep {
    let why = "it has no virtual address that the client uses, no endpoint with an IP address that the client uses, and \
               no host in its protocol, so no listener of the client matches its connections";
    step(port, Verdict::Warn, Code::NO_LISTENER_MATCHES, why)
}

fn step(port: &PortView, verdict: Verdict, code: Code, detail: &str) -> TraceStep {
    let protocol = match port.protocol {
        Protocol::Unspecified => String::new(),
        known => format!(" ({})", known.as_str()),
    };
    service_step(Stage::Deliver, verdict, code, None, format!("port {}{protocol}: {detail}", port.number))
}

#[cfg(test)]
mod tests;
