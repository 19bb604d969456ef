//! Names the VirtualServices whose routes a client has on a port, and what gRPC clients lack of them.
//!
//! Explain and why-not call it for each port; lists of routes and of resources read [`applied_routes`].

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, Code, PolicyKey, PolicyView, PortView, Protocol, ServiceView, Stage, TraceStep,
    Verdict, VirtualService, Visibility,
};

use crate::client::{Client, ClientClass, Takes};
use crate::grpc_route::GrpcGap;
use crate::key::key;
use crate::route::{DeclaredAt, grpc_delegates, grpc_gaps, owner_of_routes};
use crate::steps::{named, place, service_step};
use crate::virtual_service::{owners_of_connections, preferred_to};

/// Most VirtualServices without routes that are named for a port.
const MAX_NAMED: usize = 8;

/// Description of the routes of connections that a client has.
pub(super) const ROUTES_CONNECTIONS: &str = "it routes connections";

/// Description of the routes of connections that a client with listeners of its own does not have.
const OWN_LISTENERS: &str = "it routes connections, and the client has listeners of its own";

/// VirtualServices whose routes a client has on a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedRoutes<'c> {
    /// The one that routes requests.
    pub requests: Option<&'c PolicyKey>,
    /// Those that route connections, in order.
    pub connections: Vec<&'c PolicyKey>,
}

/// Returns the VirtualServices whose routes clients of this class have on a port.
#[must_use]
pub fn applied_routes<'c>(port: &'c PortView, class: &ClientClass) -> AppliedRoutes<'c> {
    let (route, listener) = (&port.route, &port.listener);
    AppliedRoutes {
        requests: owner_of_routes(&route.inputs, &key(route, class)),
        connections: owners_of_connections(&listener.inputs, &key(listener, class)).collect(),
    }
}

/// Returns the delegates whose routes a VirtualService takes, in the order in which it names them.
fn delegates_of(catalog: &Catalog, key: &PolicyKey) -> Vec<PolicyKey> {
    let own = catalog.policies.get(key).and_then(|view| view.virtual_service());
    let mut out: Vec<PolicyKey> = Vec::new();
    for to in own.into_iter().flat_map(VirtualService::delegates).map(PolicyKey::from) {
        let named = catalog.policies.get(&to).and_then(|view| view.virtual_service());
        let is_usable = |own: &VirtualService| own.is_delegate_for(&to.namespace, &key.namespace);
        if named.is_some_and(is_usable) && !out.contains(&to) {
            out.push(to);
        }
    }
    out
}

/// Returns the name of each route that gRPC clients of this class have to a port, in order, with the delegate that declares it.
/// Their resources do not name it.
#[must_use]
pub fn grpc_declared(port: &PortView, class: &ClientClass) -> Vec<(Arc<str>, Option<PolicyKey>)> {
    let all = grpc_delegates(&port.route.inputs, &key(&port.route, class)).into_iter();
    all.map(|(name, delegate)| (name, delegate.as_deref().map(PolicyKey::from))).collect()
}

/// Returns which VirtualServices route a client's requests and connections to a port, and what gRPC does not use of them. A warning
/// is about those that do not, because the client has listeners or routes of its own.
pub(super) fn steps(
    catalog: &Catalog,
    (view, port): (&ServiceView, &PortView),
    client: &Client,
) -> Vec<TraceStep> {
    let class = &client.class;
    let is_taken = |what| class.kind != ClientKind::Sidecar || client.takes >= what;
    let applied = applied_routes(port, class);
    let mut out = Vec::new();
    let mut add = |key: &PolicyKey, verdict, code, what: &str| {
        let detail = format!("port {}: {what}", port.number);
        out.extend(catalog.policies.get(key).map(|view| step(view, verdict, code, detail)));
    };
    if let Some(key) = applied.requests.filter(|_| !is_taken(Takes::Routes)) {
        add(
            key,
            Verdict::Warn,
            Code::ROUTES_EMPTY,
            "it routes requests, and the client has routes of its own",
        );
    } else if let Some(key) = applied.requests {
        add(key, Verdict::Pass, Code::ROUTES_APPLY, &described(catalog, key));
        if let Some(unread) = unread_by_grpc(catalog, key, port, class) {
            add(key, Verdict::Warn, Code::ROUTES_NOT_FOR_GRPC, &format!("gRPC does not use {unread}"));
        }
    }
    let missing = without_routes(catalog, (view, port), class);
    for key in missing.iter().filter(|_| applied.requests.is_none() && applied.connections.is_empty()) {
        match class.kind {
            ClientKind::Grpc if !port.protocol.is_http() => {
                add(
                    key,
                    Verdict::Warn,
                    Code::ROUTES_NOT_FOR_GRPC,
                    "gRPC does not use its tcp and tls routes",
                );
            }
            _ => {
                let detail = without_route(key, port, class);
                add(key, Verdict::Warn, Code::ROUTES_EMPTY, &detail);
            }
        }
    }
    for key in applied.connections {
        match is_taken(Takes::Listeners) {
            true => add(key, Verdict::Pass, Code::ROUTES_APPLY, ROUTES_CONNECTIONS),
            false => add(key, Verdict::Warn, Code::ROUTES_EMPTY, OWN_LISTENERS),
        }
    }
    out
}

/// Returns why a client has no route of a VirtualService that names the host.
fn without_route(key: &PolicyKey, port: &PortView, class: &ClientClass) -> String {
    if !port.protocol.is_http() {
        return "none of its routes is for connections of the client".to_owned();
    }
    let inputs = &port.route.inputs;
    let preferred = preferred_to(key, inputs, class);
    let Some(first) = preferred.first() else {
        return "none of its routes is for requests of the client".to_owned();
    };
    let names: Vec<String> = preferred.iter().map(|one| one.of.key.to_string()).collect();
    let verb = if names.len() == 1 { "names" } else { "name" };
    let names = named(names.iter().map(String::as_str));
    let host = &inputs.service.host;
    match first.is_exact() {
        true => format!("its routes do not count, because {names} {verb} {host} exactly"),
        false => {
            let wildcard = &first.host;
            format!("its routes do not count, because {names} {verb} {wildcard}, which precedes its own host")
        }
    }
}

/// Returns the VirtualServices that could route a client's requests or connections to a port and do not: their routes are for
/// others, or are left out with a delegate. Clients with routes of their own have none.
fn without_routes<'c>(
    catalog: &'c Catalog,
    (view, port): (&ServiceView, &PortView),
    class: &ClientClass,
) -> Vec<&'c PolicyKey> {
    if class.kind == ClientKind::Envoy || class.scope().rank(view).is_none() {
        return Vec::new();
    }
    let (host, domain) = (&view.key.host, catalog.settings.domain());
    let is_of_host = |key: &PolicyKey, own: &VirtualService| {
        own.hosts.iter().any(|of| of.completed(key.namespace.as_str(), domain).matches(host))
    };
    let is_for = |key: &PolicyKey, own: &VirtualService| {
        own.export.resolve(&Visibility::Public).admits(&key.namespace, class.namespace.as_ref())
    };
    let all = catalog.policies.iter().filter_map(|(key, view)| Some((key, view.virtual_service()?)));
    let all = all.filter(|(_, own)| own.mesh && has_routes(own, port.protocol));
    all.filter(|(key, own)| is_of_host(key, own) && is_for(key, own))
        .map(|(key, _)| key)
        .take(MAX_NAMED)
        .collect()
}

/// Whether a VirtualService has routes for a protocol, whatever their conditions.
fn has_routes(own: &VirtualService, protocol: Protocol) -> bool {
    match protocol {
        Protocol::Udp => false,
        http if http.is_http() => !own.http.is_empty(),
        tls if tls.is_tls() => !own.tls.is_empty(),
        _ => !own.tcp.is_empty(),
    }
}

fn described(catalog: &Catalog, key: &PolicyKey) -> String {
    let delegates: Vec<String> =
        delegates_of(catalog, key).iter().map(|to| format!("{}/{}", to.namespace, to.name)).collect();
    if delegates.is_empty() {
        return "it routes requests".to_owned();
    }
    format!("it routes requests, with the routes of its delegates {}", delegates.join(", "))
}

/// Returns the fields that a gRPC client does not read, with the routes of the VirtualService that have them; `None` for other
/// clients, and if there are none.
fn unread_by_grpc(
    catalog: &Catalog,
    own: &PolicyKey,
    port: &PortView,
    class: &ClientClass,
) -> Option<String> {
    let route = &port.route;
    let gaps = grpc_gaps(&route.inputs, &key(route, class));
    let text = |(gap, all): (GrpcGap, BTreeSet<DeclaredAt<'_>>)| {
        let places: Vec<String> = all.into_iter().map(|at| declared_at(catalog, own, at)).collect();
        format!("{} ({})", gap.as_str(), named(places.iter().map(String::as_str)))
    };
    let gaps: Vec<String> = gaps.into_iter().map(text).collect();
    (class.kind == ClientKind::Grpc && !gaps.is_empty()).then(|| gaps.join("; "))
}

/// Returns where a route is declared, such as `http[0] canary`, or `http[0] canary of shop/cart (in http[2])` in a delegate.
fn declared_at(catalog: &Catalog, own: &PolicyKey, (position, delegate): DeclaredAt<'_>) -> String {
    let declared = |key: &PolicyKey, at: usize| {
        let of = catalog.policies.get(key).and_then(|view| view.virtual_service());
        let name = of.and_then(|of| of.http.get(at)).map(|route| &*route.name);
        place("http", at, name.unwrap_or_default())
    };
    let outer = declared(own, position.own);
    let Some(to) = delegate else { return outer };
    let inner = declared(&PolicyKey::from(to), position.in_delegate);
    format!("{inner} of {}/{} (in {outer})", to.namespace, to.name)
}

fn step(view: &PolicyView, verdict: Verdict, code: Code, detail: String) -> TraceStep {
    let step = service_step(Stage::Merge, verdict, code, Some(&view.shard), detail);
    TraceStep { object: Some(view.declared.source.reference()), ..step }
}
