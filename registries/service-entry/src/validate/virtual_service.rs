//! The rules of a VirtualService: hosts, gateways, clients, destinations and connections. Those of HTTP routes are in
//! `http_route`.

use ipnet::IpNet;
use tributary_model::{Code, HostPattern, Hostname, Namespace, Subset};

use super::destination_rule::MOST_ITEMS;
use super::limits::refuse_longer;
use super::load_balancer::refuse;
use super::{http_match, http_route, names, service_entry};
use crate::document::http_route::{Destination, Weighted};
use crate::document::{Text, VirtualService};
use crate::read::decode::is_ipv6;
use crate::read::fault::{Faults, clip};
use tributary_model::kubernetes_names::{is_label_name, is_object_name};

pub(super) type Rule = fn(&VirtualService, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Rule)] = &[
    ("service_size_is_within_limits", service_size_is_within_limits),
    ("service_names_its_hosts", service_names_its_hosts),
    ("hosts_are_apart", hosts_are_apart),
    ("delegates_have_http_routes_only", delegates_have_http_routes_only),
    ("service_has_routes", service_has_routes),
    ("service_is_exported_to_namespaces", service_is_exported_to_namespaces),
    ("gateways_are_named", gateways_are_named),
    ("clients_are_named", clients_are_named),
    ("destinations_are_named", destinations_are_named),
    ("weights_have_a_sum", weights_have_a_sum),
    ("connections_have_a_destination", connections_have_a_destination),
    ("subnets_are_ranges", subnets_are_ranges),
    ("server_names_are_those_of_hosts", server_names_are_those_of_hosts),
    ("routes_have_one_action", http_route::routes_have_one_action),
    ("delegates_are_named", http_route::delegates_are_named),
    ("redirects_lead_elsewhere", http_route::redirects_lead_elsewhere),
    ("responses_have_a_status", http_route::responses_have_a_status),
    ("rewrites_change_something", http_route::rewrites_change_something),
    ("authority_is_set_once", http_route::authority_is_set_once),
    ("changed_headers_are_valid", http_route::changed_headers_are_valid),
    ("retries_are_conditional", http_route::retries_are_conditional),
    ("faults_delay_or_abort", http_route::faults_delay_or_abort),
    ("mirrors_are_declared_once", http_route::mirrors_are_declared_once),
    ("cors_names_origins_and_methods", http_route::cors_names_origins_and_methods),
    ("matched_headers_are_named", http_match::matched_headers_are_named),
    ("matched_texts_are_not_empty", http_match::matched_texts_are_not_empty),
    ("patterns_are_those_of_proxies", http_match::patterns_are_those_of_proxies),
];

/// Maximum number of hosts.
pub(super) const MOST_HOSTS: usize = 1_024;
/// Maximum number of routes and matches of one kind, each of which is a route of a proxy.
pub(super) const MOST_ROUTES: usize = 20_000;
/// Maximum number of destinations of one route.
pub(super) const MOST_DESTINATIONS: usize = 256;

fn service_size_is_within_limits(service: &VirtualService, faults: &mut Faults) {
    let l4 = service.l4_routes().map(|(_, route)| 1 + route.matches.len()).sum::<usize>();
    let http = service.http.iter().map(|route| 1 + route.matches.len()).sum();
    let own = [
        ("spec.hosts".to_owned(), service.hosts.len(), MOST_HOSTS),
        ("spec.gateways".to_owned(), service.gateways.len(), MOST_ITEMS),
        ("spec.exportTo".to_owned(), service.export_to.len(), MOST_ITEMS),
        ("spec.http with its matches".to_owned(), http, MOST_ROUTES),
        ("spec.tls and spec.tcp with their matches".to_owned(), l4, MOST_ROUTES),
    ];
    let weighted = service.weighted().map(|(path, all)| (path, all.len(), MOST_DESTINATIONS));
    let connections = service.l4_matches().flat_map(|(path, found)| {
        let names = (format!("{path}.sniHosts"), found.names.len(), MOST_ITEMS);
        [names, (format!("{path}.destinationSubnets"), found.subnets.len(), MOST_ITEMS)]
    });
    let gateways = service
        .clients()
        .map(|(path, clients, _)| (format!("{path}.gateways"), clients.gateways.len(), MOST_ITEMS));
    let inner = weighted.chain(connections).chain(gateways).chain(http_route::lists(service));
    let fix = "split the VirtualService, or remove some";
    refuse_longer(own.into_iter().chain(inner), service.at.at, fix, faults);
}

fn service_names_its_hosts(service: &VirtualService, faults: &mut Faults) {
    for (i, host) in service.hosts.iter().enumerate() {
        let fault = match HostPattern::new(&host.value) {
            _ if is_ipv6(&host.value) => continue,
            Ok(pattern) if pattern.as_str() == "*" && service.is_of_mesh() => {
                "is every host, which only gateways may serve; name a domain".to_owned()
            }
            Ok(_) => continue,
            Err(error) => format!("{}; write a DNS name, optionally with a wildcard in front", error.why),
        };
        let message = format!("spec.hosts[{i}] {:?} {fault}", clip(&host.value));
        faults.refuse(Code::INVALID_HOST, host.at, message);
    }
}

/// No host of one VirtualService contains another one, as in Istio.
fn hosts_are_apart(service: &VirtualService, faults: &mut Faults) {
    let hosts = service.hosts.iter().take(MOST_HOSTS);
    let hosts: Vec<_> = hosts.filter_map(|host| Some((host, HostPattern::new(&host.value).ok()?))).collect();
    for (i, (text, host)) in hosts.iter().enumerate() {
        let earlier = hosts.iter().take(i);
        let mut other = earlier.filter(|(_, other)| covers(other, host) || covers(host, other));
        if let Some((_, other)) = other.next() {
            let message = format!(
                "spec.hosts: {:?} and {:?} have hosts in common; remove one",
                clip(&text.value),
                clip(other.as_str())
            );
            refuse(faults, text.at, &message);
        }
    }
}

/// Whether a pattern has every host of another one.
pub(super) fn covers(outer: &HostPattern, inner: &HostPattern) -> bool {
    outer == inner || outer.suffix().is_some_and(|suffix| inner.as_str().ends_with(suffix))
}

fn delegates_have_http_routes_only(service: &VirtualService, faults: &mut Faults) {
    if !service.is_delegate() {
        return;
    }
    let lists =
        [("gateways", service.gateways.len()), ("tls", service.tls.len()), ("tcp", service.tcp.len())];
    for (name, _) in lists.into_iter().filter(|(_, count)| *count > 0) {
        let message = format!(
            "spec.{name} is set without hosts; a delegate has HTTP routes only: remove it, or add hosts"
        );
        refuse(faults, service.at.at, &message);
    }
    for (path, route) in service.routes() {
        if let Some(delegate) = &route.delegate {
            let message =
                format!("{path}.delegate is in a delegate; name its routes in the VirtualService with hosts");
            refuse(faults, delegate.at.at, &message);
        }
    }
}

fn service_has_routes(service: &VirtualService, faults: &mut Faults) {
    if service.http.is_empty() && service.tls.is_empty() && service.tcp.is_empty() {
        let message = "spec has no routes; add http, tls or tcp";
        faults.refuse(Code::MISSING_FIELD, service.at.at, message);
    }
}

/// Unlike a service, a VirtualService cannot be hidden from all clients.
fn service_is_exported_to_namespaces(service: &VirtualService, faults: &mut Faults) {
    for (i, item) in service.export_to.iter().enumerate() {
        let is_namespace = &*item.value != "~" && Namespace::new(&item.value).is_ok();
        if !matches!(&*item.value, "*" | ".") && !is_namespace {
            let message = format!(
                "spec.exportTo[{i}] {:?} is not valid; write `*`, `.` or a namespace",
                clip(&item.value)
            );
            faults.refuse(Code::INVALID_NAME, item.at, message);
        }
    }
}

fn gateways_are_named(service: &VirtualService, faults: &mut Faults) {
    let own =
        service.gateways.iter().enumerate().map(|(i, gateway)| (format!("spec.gateways[{i}]"), gateway));
    let inner = service.clients().flat_map(|(path, clients, _)| {
        let all = clients.gateways.iter().enumerate();
        all.map(move |(i, gateway)| (format!("{path}.gateways[{i}]"), gateway))
    });
    for (path, gateway) in own.chain(inner).filter(|(_, gateway)| !is_gateway(&gateway.value)) {
        let message =
            format!("{path} {:?} is not a gateway; write `mesh` or NAMESPACE/NAME", clip(&gateway.value));
        faults.refuse(Code::INVALID_NAME, gateway.at, message);
    }
}

fn is_gateway(text: &str) -> bool {
    match text.split_once('/') {
        Some((namespace, name)) => is_label_name(namespace) && is_label_name(name),
        None => is_object_name(text),
    }
}

fn clients_are_named(service: &VirtualService, faults: &mut Faults) {
    for (path, clients, port) in service.clients() {
        names::labels(&clients.labels, &format!("{path}.sourceLabels"), faults);
        if let Some(port) = port {
            service_entry::number(port, &format!("{path}.port"), faults);
        }
        let namespace = clients.namespace.as_ref().filter(|namespace| !is_label_name(&namespace.value));
        if let Some(namespace) = namespace {
            let message = format!(
                "{path}.sourceNamespace {:?} is not a namespace; use up to 63 lower-case letters, digits and `-`",
                clip(&namespace.value)
            );
            faults.refuse(Code::INVALID_NAME, namespace.at, message);
        }
    }
}

fn destinations_are_named(service: &VirtualService, faults: &mut Faults) {
    for (path, all) in service.weighted() {
        for (i, weighted) in all.iter().enumerate() {
            named(&format!("{path}[{i}]"), weighted, faults);
        }
    }
    for (path, route) in service.routes() {
        if let Some(mirror) = &route.mirror {
            destination(&format!("{path}.mirror"), mirror, faults);
        }
        for (i, mirror) in route.mirrors.iter().flat_map(|mirrors| mirrors.value.iter().enumerate()) {
            let path = format!("{path}.mirrors[{i}].destination");
            match &mirror.destination {
                Some(found) => destination(&path, found, faults),
                None => {
                    faults.refuse(Code::MISSING_FIELD, mirror.at.at, format!("{path} is missing; add it"));
                }
            }
        }
    }
}

fn named(path: &str, weighted: &Weighted, faults: &mut Faults) {
    match &weighted.destination {
        Some(found) => destination(&format!("{path}.destination"), found, faults),
        None => {
            let message = format!("{path}.destination is missing; add it");
            faults.refuse(Code::MISSING_FIELD, weighted.at.at, message);
        }
    }
}

fn destination(path: &str, found: &Destination, faults: &mut Faults) {
    match &found.host {
        None => {
            let message = format!("{path}.host is missing; add it");
            faults.refuse(Code::MISSING_FIELD, found.at.at, message);
        }
        Some(host) => {
            if let Err(error) = Hostname::new(&host.value) {
                let message =
                    format!("{path}.host {:?} {}; write the host of a service", clip(&host.value), error.why);
                faults.refuse(Code::INVALID_HOST, host.at, message);
            }
        }
    }
    if let Some(subset) = found.subset.as_ref().filter(|subset| Subset::new(&subset.value).is_none()) {
        let message = format!(
            "{path}.subset {:?} is not valid; use up to 63 letters, digits and `-`",
            clip(&subset.value)
        );
        faults.refuse(Code::INVALID_NAME, subset.at, message);
    }
    if let Some(port) = &found.port {
        service_entry::number(port, &format!("{path}.port.number"), faults);
    }
}

/// Proxies add weights in 32 bits.
fn weights_have_a_sum(service: &VirtualService, faults: &mut Faults) {
    for (path, all) in service.weighted().filter(|(_, all)| all.len() > 1) {
        let sum: u64 = all.iter().map(|weighted| u64::from(weighted.weight)).sum();
        let at = all.first().map_or(service.at.at, |weighted| weighted.at.at);
        if sum == 0 {
            refuse(faults, at, &format!("the weights of {path} are all 0; give one of them a weight"));
        } else if u32::try_from(sum).is_err() {
            let most = u32::MAX;
            refuse(
                faults,
                at,
                &format!("the weights of {path} add up to {sum}, more than {most}; lower them"),
            );
        }
    }
}

fn connections_have_a_destination(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.l4_routes().filter(|(_, route)| route.route.is_empty()) {
        let message = format!("{path}.route is missing; add a destination");
        faults.refuse(Code::MISSING_FIELD, route.at.at, message);
    }
}

fn subnets_are_ranges(service: &VirtualService, faults: &mut Faults) {
    for (path, found) in service.l4_matches() {
        for (i, subnet) in found.subnets.iter().enumerate().filter(|(_, text)| range(&text.value).is_none()) {
            let what = clip(&subnet.value);
            let message = format!(
                "{path}.destinationSubnets[{i}] {what:?} is not a range; write for example 10.1.0.0/16"
            );
            refuse(faults, subnet.at, &message);
        }
    }
}

/// Parses a range, or an address as the range of it alone.
pub(crate) fn range(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| Some(IpNet::from(text.parse::<std::net::IpAddr>().ok()?)))
}

fn server_names_are_those_of_hosts(service: &VirtualService, faults: &mut Faults) {
    let hosts: Vec<HostPattern> =
        service.hosts.iter().filter_map(|host| HostPattern::new(&host.value).ok()).collect();
    for (i, route) in service.tls.iter().enumerate() {
        if route.matches.is_empty() {
            let message = format!("spec.tls[{i}].match is missing; add one with sniHosts");
            faults.refuse(Code::MISSING_FIELD, route.at.at, message);
        }
        for (j, found) in route.matches.iter().enumerate() {
            let path = format!("spec.tls[{i}].match[{j}].sniHosts");
            if found.names.is_empty() {
                faults.refuse(Code::MISSING_FIELD, found.at.at, format!("{path} is missing; add a host"));
            }
            found.names.iter().for_each(|name| server_name(&path, name, &hosts, faults));
        }
    }
}

fn server_name(path: &str, name: &Text, hosts: &[HostPattern], faults: &mut Faults) {
    match HostPattern::new(&name.value) {
        Err(error) => {
            let message = format!("{path}: {:?} {}; write a DNS name", clip(&name.value), error.why);
            faults.refuse(Code::INVALID_HOST, name.at, message);
        }
        Ok(pattern) if !hosts.iter().any(|host| covers(host, &pattern)) => {
            let message =
                format!("{path}: {:?} is not within a host of spec.hosts; add it there", clip(&name.value));
            refuse(faults, name.at, &message);
        }
        Ok(_) => {}
    }
}
