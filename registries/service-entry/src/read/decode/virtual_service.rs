//! The fields of a VirtualService. Its HTTP routes are decoded by `http_route`. What concerns gateways only is kept by
//! path and shown.

use super::fields::Fields;
use super::http_route;
use crate::document::http_route::{Destination, Weighted};
use crate::document::virtual_service::{Clients, L4Match, L4Route, MESH, VirtualService};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> VirtualService {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return VirtualService { at, ..VirtualService::default() };
    };
    let mut ignored = Vec::new();
    let hosts = fields.texts("hosts", faults);
    ipv6_hosts(&hosts, &fields.path("hosts"), &mut ignored);
    let gateways = gateways(&mut fields, &mut ignored, faults);
    let http = fields.list("http", faults).into_iter();
    let http = http.map(|(path, node)| http_route::decode(node, path, &mut ignored, faults)).collect();
    let tls = l4_routes(&mut fields, "tls", &mut ignored, faults);
    let tcp = l4_routes(&mut fields, "tcp", &mut ignored, faults);
    let export_to = fields.texts("exportTo", faults);
    fields.finish(faults);
    VirtualService { at, hosts, gateways, http, tls, tcp, export_to, ignored }
}

/// No service has an address as its host, and one of version 6 is not a name either.
fn ipv6_hosts(hosts: &[Text], path: &str, ignored: &mut Vec<Text>) {
    let addresses = hosts.iter().enumerate().filter(|(_, host)| is_ipv6(&host.value));
    ignored.extend(addresses.map(|(i, host)| Located::new(host.at, format!("{path}[{i}]").into())));
}

/// Whether a host is an address of version 6.
pub(crate) fn is_ipv6(host: &str) -> bool {
    host.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Decodes gateways, and keeps those by path that are not served.
fn gateways(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Vec<Text> {
    let path = fields.path("gateways");
    let gateways = fields.texts("gateways", faults);
    let others = gateways.iter().enumerate().filter(|(_, gateway)| &*gateway.value != MESH);
    ignored.extend(others.map(|(i, gateway)| Located::new(gateway.at, format!("{path}[{i}]").into())));
    gateways
}

fn l4_routes(
    fields: &mut Fields<'_>,
    name: &'static str,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Vec<L4Route> {
    let routes = fields.list(name, faults).into_iter();
    routes.map(|(path, node)| l4_route(node, path, name == "tls", ignored, faults)).collect()
}

fn l4_route(
    node: &Node,
    path: String,
    is_tls: bool,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> L4Route {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return L4Route { at, ..L4Route::default() };
    };
    let matches = fields.list("match", faults).into_iter();
    let matches = matches.map(|(path, node)| l4_match(node, path, is_tls, ignored, faults)).collect();
    let route = fields.list("route", faults).into_iter();
    let route = route.map(|(path, node)| weighted(node, path, false, faults)).collect();
    fields.finish(faults);
    L4Route { at, matches, route }
}

fn l4_match(
    node: &Node,
    path: String,
    is_tls: bool,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> L4Match {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return L4Match { at, ..L4Match::default() };
    };
    let names = if is_tls {
        fields.texts("sniHosts", faults)
    } else {
        fields.ignored("sourceSubnet", ignored);
        Vec::new()
    };
    let found = L4Match {
        at,
        names,
        subnets: fields.texts("destinationSubnets", faults),
        port: port(&mut fields, faults),
        clients: clients(&mut fields, ignored, faults),
    };
    fields.finish(faults);
    found
}

/// The port of a match; 0 is unset.
pub(super) fn port(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Located<i64>> {
    fields.int("port", faults).filter(|port| port.value != 0)
}

/// Decodes the conditions on a client.
pub(super) fn clients(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Clients {
    Clients {
        labels: fields.labels("sourceLabels", faults).unwrap_or_default(),
        namespace: fields.filled("sourceNamespace", faults),
        gateways: gateways(fields, ignored, faults),
    }
}

/// Decodes a destination with its weight; only those of HTTP have headers.
pub(super) fn weighted(node: &Node, path: String, has_headers: bool, faults: &mut Faults) -> Weighted {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Weighted { at, ..Weighted::default() };
    };
    let weighted = Weighted {
        at,
        destination: fields.get("destination").map(|(path, node)| destination(node, path, faults)),
        weight: fields.count("weight", faults).map(|weight| weight.value).unwrap_or_default(),
        headers: if has_headers { http_route::headers(&mut fields, faults) } else { None },
    };
    fields.finish(faults);
    weighted
}

pub(super) fn destination(node: &Node, path: String, faults: &mut Faults) -> Destination {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Destination { at, ..Destination::default() };
    };
    let port = fields.get("port").and_then(|(path, node)| {
        let mut port = Fields::open(node, path, faults)?;
        let number = port.int("number", faults);
        port.finish(faults);
        Some(number.unwrap_or_else(|| Located::new(node.at, 0)))
    });
    let destination =
        Destination { at, host: fields.text("host", faults), subset: fields.filled("subset", faults), port };
    fields.finish(faults);
    destination
}
