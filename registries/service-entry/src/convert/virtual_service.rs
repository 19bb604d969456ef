//! Converts a VirtualService to a policy. Its HTTP routes are converted by `http_route`.

use std::sync::Arc;

use tributary_model::{
    ClientMatch, DeclaredPolicy, ExportTo, Fact, GatewayMatch, HostPattern, Hostname, L4Destination, L4Match,
    Namespace, Policy, PolicyKey, PolicyKind, RouteDestination, Subset, TcpRoute, TlsMatch, TlsRoute,
    VirtualService,
};

use super::{endpoints, http_route};
use crate::document::http_route::{Destination, Weighted};
use crate::document::virtual_service::{self, Clients, L4Route, MESH};
use crate::document::{Meta, Object};
use crate::validate::range;

/// The policy of a document.
pub(super) fn fact(object: &Object, meta: &Meta, document: &virtual_service::VirtualService) -> Option<Fact> {
    let key = PolicyKey {
        kind: PolicyKind::VirtualService,
        namespace: meta.namespace.clone(),
        name: Arc::clone(&meta.name),
    };
    let mut ignored: Vec<Arc<str>> = document.ignored.iter().map(|path| Arc::clone(&path.value)).collect();
    ignored.extend(http_route::without_mirror(document));
    ignored.sort();
    let policy = Policy::VirtualService(VirtualService {
        // addresses of version 6 are no names, and no service has one as its host
        hosts: document.hosts.iter().filter_map(|host| HostPattern::new(&host.value).ok()).collect(),
        export: ExportTo::parse(document.export_to.iter().map(|item| &*item.value), &meta.namespace),
        mesh: document.is_of_mesh(),
        http: document
            .http
            .iter()
            .enumerate()
            .map(|route| http_route::route(route, &meta.namespace))
            .collect::<Option<_>>()?,
        tls: document.tls.iter().map(tls).collect(),
        tcp: document.tcp.iter().map(tcp).collect(),
        ignored: ignored.into(),
    });
    Some(Fact::Policy(
        key,
        Arc::new(DeclaredPolicy { source: object.source(), created: meta.created, policy }),
    ))
}

fn tls(route: &L4Route) -> TlsRoute {
    let matches = route.matches.iter().map(|found| TlsMatch {
        names: found.names.iter().filter_map(|name| HostPattern::new(&name.value).ok()).collect(),
        connection: l4_match(found),
    });
    TlsRoute { matches: matches.collect(), destinations: l4_destinations(&route.route) }
}

fn tcp(route: &L4Route) -> TcpRoute {
    TcpRoute {
        matches: route.matches.iter().map(l4_match).collect(),
        destinations: l4_destinations(&route.route),
    }
}

fn l4_match(found: &virtual_service::L4Match) -> L4Match {
    L4Match {
        subnets: found.subnets.iter().filter_map(|subnet| range(&subnet.value)).collect(),
        port: found.port.and_then(|port| endpoints::number_of(port.value)),
        clients: clients(&found.clients),
    }
}

fn l4_destinations(all: &[Weighted]) -> Arc<[L4Destination]> {
    let one = |weighted: &Weighted| {
        let destination = destination(weighted.destination.as_ref()?)?;
        Some(L4Destination { destination, weight: weighted.weight })
    };
    all.iter().filter_map(one).collect()
}

pub(super) fn clients(document: &Clients) -> ClientMatch {
    let is_mesh = document.gateways.iter().any(|gateway| &*gateway.value == MESH);
    let gateways = match (document.gateways.is_empty(), is_mesh) {
        (true, _) => GatewayMatch::Undeclared,
        (false, true) => GatewayMatch::Mesh,
        (false, false) => GatewayMatch::Other,
    };
    ClientMatch {
        labels: document.labels.value.clone(),
        namespace: document.namespace.as_ref().and_then(|namespace| Namespace::new(&namespace.value).ok()),
        gateways,
    }
}

pub(super) fn destination(document: &Destination) -> Option<RouteDestination> {
    Some(RouteDestination {
        host: Hostname::new(&document.host.as_ref()?.value).ok()?,
        subset: document.subset.as_ref().and_then(|subset| Subset::new(&subset.value)),
        port: document.port.and_then(|port| endpoints::number_of(port.value)),
    })
}
