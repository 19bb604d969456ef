//! A reading of what a client must hold that shares no code with the product: names of clusters, addresses of endpoints,
//! hosts of route tables, and addresses of HTTP listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use envoy_types::pb::envoy::config::listener::v3::Listener;
use envoy_types::pb::envoy::config::route::v3::RouteConfiguration;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use proptest::prelude::*;
use tributary_fixtures::mk_ns;
use tributary_model::{CaptureMode, EgressListener, Namespace};

use super::super::scopes::{is_listed, reached};
use super::super::*;
use super::client::{Kind, Resources};
use super::facts::Facts;

/// Checks the names of clusters and the addresses of endpoints against a reading that shares no code with the product.
pub(super) fn is_naive(facts: &Facts, client: Kind, held: &Resources) -> Result<(), TestCaseError> {
    let sidecar = facts.sidecar(client.namespace, client.app);
    let egress = sidecar.and_then(|sidecar| sidecar.egress).map(|egress| egress.listeners().to_vec());
    let (own, egress) = (mk_ns(client.namespace), egress.unwrap_or_default());
    let reached = reached(&facts.services, &own, &egress);
    let service = |host: &str, ns: &str| {
        facts.services.iter().find(|svc| svc.host == host && svc.namespace == ns).unwrap()
    };
    let name = |port: &u32, host: &str| format!("outbound|{port}||{host}");
    let listed = reached.iter().filter(|(host, ns, port)| is_listed(service(host, ns), *port));
    let clusters: BTreeSet<String> = listed.map(|(host, _, port)| name(port, host)).collect();
    let of_services =
        held.keys().filter(|(kind, name)| *kind == ResourceType::Cluster && name.starts_with("outbound|"));
    let found: BTreeSet<String> = of_services.map(|(_, name)| name.clone()).collect();
    prop_assert!(!client.everything || found == clusters, "clusters {:?}, not {:?}", found, clusters);
    let endpoints: BTreeMap<String, BTreeSet<&str>> = reached
        .iter()
        .map(|(host, ns, port)| (name(port, host), service(host, ns)))
        .filter(|(_, svc)| !svc.resolution.is_dns())
        .map(|(name, svc)| (name, svc.endpoints.iter().map(String::as_str).collect()))
        .collect();
    for ((_, name), body) in held.iter().filter(|((kind, _), _)| *kind == ResourceType::Endpoints) {
        let body = ClusterLoadAssignment::decode(body.clone()).unwrap();
        let text = format!("{body:?}");
        let all = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"];
        let found: BTreeSet<&str> = all.into_iter().filter(|ip| text.contains(ip)).collect();
        prop_assert_eq!(found, endpoints.get(name).cloned().unwrap_or_default(), "{}", name);
    }
    let all: Vec<_> = reached.iter().map(|(host, ns, port)| (service(host, ns), *port)).collect();
    tables_are_naive(client, &own, &egress, &all, held)?;
    sockets_are_naive(client, &own, &egress, &all, held)
}

/// Checks which xDS clusters the route tables lead to.
fn tables_are_naive(
    client: Kind,
    own: &Namespace,
    egress: &[EgressListener],
    reached: &[(&Svc, u32)],
    held: &Resources,
) -> Result<(), TestCaseError> {
    for ((_, table), body) in held.iter().filter(|((kind, _), _)| *kind == ResourceType::Route) {
        let number: u32 = table.parse().unwrap();
        let routed = |(svc, port): &&(&Svc, u32)| {
            let alone = *port == number && !matches!(svc.resolution, Resolution::Alias(_));
            alone && is_http(svc, *port) && is_routed(svc, *port, own, egress)
        };
        let wanted: BTreeSet<String> = reached
            .iter()
            .filter(routed)
            .map(|(svc, port)| format!("outbound|{port}||{}", svc.host))
            .collect();
        let found: BTreeSet<String> =
            clusters_of(&RouteConfiguration::decode(body.clone()).unwrap()).collect();
        prop_assert_eq!(found, wanted, "table {} of {:?}", table, client);
    }
    Ok(())
}

/// Checks that each HTTP port has the listener that its egress listener describes, with the table of the port.
fn sockets_are_naive(
    client: Kind,
    own: &Namespace,
    egress: &[EgressListener],
    reached: &[(&Svc, u32)],
    held: &Resources,
) -> Result<(), TestCaseError> {
    let served = |(svc, port): &&(&Svc, u32)| {
        client.everything && !matches!(svc.resolution, Resolution::Alias(_)) && is_http(svc, *port)
    };
    for (svc, port) in reached.iter().filter(served) {
        let Some(ip) = socket(svc, *port, own, egress, client.binds) else { continue };
        let name = format!("{ip}_{port}");
        let body = held.get(&(ResourceType::Listener, name.clone()));
        prop_assert!(body.is_some(), "{:?} has no {} for {}", client, name, svc.host);
        // A service that is not HTTP may take a whole port.
        let shared = reached.iter().any(|(other, of)| of == port && !is_http(other, *of));
        let listener = format!("{:?}", Listener::decode(body.unwrap().clone()).unwrap());
        let http = listener.contains("http_connection_manager");
        prop_assert!(shared || http, "{} of {:?} is not HTTP", name, client);
    }
    Ok(())
}

/// The address of the listener for an HTTP port; none if its egress listener makes it TCP, or if its address is taken by
/// the listener of the port that does not import the service.
fn socket(svc: &Svc, port: u32, own: &Namespace, egress: &[EgressListener], binds: bool) -> Option<IpAddr> {
    let at = |listener: Option<&EgressListener>| {
        let capture = listener.map_or(CaptureMode::Default, |listener| listener.capture);
        let binds = capture == CaptureMode::None || capture == CaptureMode::Default && binds;
        let usual = if binds { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([0, 0, 0, 0]) };
        listener.and_then(|listener| listener.bind).unwrap_or(usual)
    };
    let of_port = || egress.iter().filter(|listener| has_port(listener, port));
    let importing = of_port().find(|listener| imports(listener, svc, own));
    let Some(serving) = importing else {
        let open = egress.iter().find(|listener| listener.port.is_none());
        let taken = of_port().next().map(|other| at(Some(other)));
        return Some(at(open)).filter(|ip| Some(*ip) != taken);
    };
    let is_tcp = serving.port.as_ref().is_some_and(|port| port.protocol == Protocol::Tcp);
    (!is_tcp).then(|| at(Some(serving)))
}

fn has_port(listener: &EgressListener, port: u32) -> bool {
    listener.port.as_ref().is_some_and(|of| u32::from(of.number.get()) == port)
}

fn imports(listener: &EgressListener, svc: &Svc, own: &Namespace) -> bool {
    let key = svc.key();
    listener.hosts.iter().any(|import| import.admits(own, &key.namespace, &key.host))
}

/// Whether routes of a port may lead to a service: its own egress listener alone decides, if there is one.
fn is_routed(svc: &Svc, port: u32, own: &Namespace, egress: &[EgressListener]) -> bool {
    let own_listener = egress.iter().any(|listener| has_port(listener, port));
    let decides = |listener: &&EgressListener| {
        if own_listener { has_port(listener, port) } else { listener.port.is_none() }
    };
    egress.is_empty() || egress.iter().filter(decides).any(|listener| imports(listener, svc, own))
}

/// The first protocol of a port wins.
fn is_http(svc: &Svc, port: u32) -> bool {
    let of_port = svc.ports.iter().filter(|(number, _)| *number == port).map(|(_, protocol)| *protocol);
    of_port.min().is_some_and(Protocol::is_http)
}

/// The xDS clusters of a table, without that for strangers.
fn clusters_of(table: &RouteConfiguration) -> impl Iterator<Item = String> {
    let known = table.virtual_hosts.iter().filter(|host| host.domains != ["*"]);
    known.flat_map(|host| &host.routes).map(|route| {
        let Some(Action::Route(action)) = &route.action else { panic!("{route:?}") };
        let Some(ClusterSpecifier::Cluster(name)) = &action.cluster_specifier else { panic!("{action:?}") };
        name.clone()
    })
}
