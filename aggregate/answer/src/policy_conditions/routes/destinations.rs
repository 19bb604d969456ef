//! Conditions of destinations: a host or port that no service has, a service that no client sees, a subset that no DestinationRule declares, and
//! endpoints that do not exist though requests are sent there.

use std::sync::Arc;

use tributary_model::{
    Code, Hostname, HttpRoute, L4Destination, PolicyKey, PortView, RouteDestination, ServiceView, Subset,
    VirtualService, WeightedDestination,
};

use super::ports::Listened;
use super::{Found, RouteConditions, named, place};
use crate::policy_conditions::MAX_LOOKS;
use crate::policy_conditions::clients::are_hidden;
use crate::policy_conditions::services::{has_labels, selects};

/// Destination with the place of its route.
struct Placed<'c> {
    place: String,
    to: &'c RouteDestination,
    /// Whether it receives a part of the requests.
    has_share: bool,
    /// Whether it receives requests: without a port of its own, on the port of the listener.
    is_http: bool,
}

impl<'c> RouteConditions<'c> {
    /// Returns the conditions of destinations that lead nowhere.
    pub(super) fn lost_destinations(
        &self,
        key: &PolicyKey,
        own: &'c VirtualService,
        listened: Option<&Listened>,
    ) -> Vec<Found<'c>> {
        let (mut missing, mut hidden) = (Vec::new(), Vec::new());
        let (mut undeclared, mut empty) = (Vec::new(), Vec::new());
        for placed in placed(own) {
            let to = placed.to;
            let host = to.host.completed(key.namespace.as_str(), self.catalog.settings.domain());
            let views = self.services.named(host.as_str());
            let ports: Vec<_> = views.iter().flat_map(|view| ports_of(view, to)).collect();
            if views.is_empty() && self.services.are_elsewhere(&host.clone().into()) {
                undeclared.extend(
                    to.subset
                        .as_ref()
                        .filter(|subset| !self.is_declared(&host, subset))
                        .map(|subset| format!("{} ({} of {host})", placed.place, subset.as_str())),
                );
            } else if views.is_empty() {
                missing.push(format!("{} ({})", placed.place, self.services.no_such_host(host.as_str())));
            } else if self.is_hidden(key, own, &views) {
                hidden.push(format!("{} ({host})", placed.place));
            } else if let (Some(port), true) = (to.port, ports.is_empty()) {
                missing.push(format!("{} ({host} has no port {port})", placed.place));
            } else if let Some(ports) = listened.and_then(|all| off_ports(&placed, &ports, all)) {
                missing.push(format!("{} ({host} has no port {ports}, as the hosts have)", placed.place));
            } else if let Some(subset) =
                to.subset.as_ref().filter(|_| !ports.iter().any(|port| declares(port, to)))
            {
                undeclared.push(format!("{} ({} of {host})", placed.place, subset.as_str()));
            } else if placed.has_share && views.iter().all(|view| self.is_empty(view, to)) {
                empty.push(format!("{} ({host})", placed.place));
            } else if let Some(subset) = to
                .subset
                .as_ref()
                .filter(|subset| placed.has_share && self.is_empty_subset(&views, to, subset))
            {
                empty.push(format!("{} ({} of {host})", placed.place, subset.as_str()));
            }
        }
        let all = [
            (Code::ROUTE_DESTINATION_UNMATCHED, "these destinations do not exist", missing),
            (Code::ROUTE_SUBSET_UNDECLARED, "no DestinationRule declares the subsets of", undeclared),
            (
                Code::ROUTE_DESTINATION_HIDDEN,
                "no client of it may see these destinations, by their exportTo",
                hidden,
            ),
            (Code::ROUTE_WITHOUT_ENDPOINTS, "these destinations have no endpoints", empty),
        ];
        let lost = all.into_iter().filter(|(_, _, parts)| !parts.is_empty());
        let found = |(code, what, parts): (_, &str, Vec<String>)| {
            Found(code, Vec::new(), format!("{what}: {}", named(parts.iter().map(String::as_str))))
        };
        lost.map(found).collect()
    }
    /// Whether no client of a VirtualService sees a destination. The clients of a delegate are those of others.
    fn is_hidden(&self, key: &PolicyKey, own: &VirtualService, views: &[&'c Arc<ServiceView>]) -> bool {
        let of = (&own.export, &key.namespace);
        !own.is_delegate() && are_hidden(views, of, self.inhabited.as_ref())
    }
    /// Whether any rule of a host declares a subset, of whichever clients.
    fn is_declared(&self, host: &Hostname, subset: &Subset) -> bool {
        let rules =
            self.catalog.policies.iter().filter_map(|(key, view)| Some((key, view.destination_rule()?)));
        let mut of_host = rules.filter(|(key, rule)| self.completed(key, &rule.host).matches(host));
        of_host.any(|(_, rule)| rule.subsets.iter().any(|own| own.name == *subset))
    }
    /// Whether no endpoint has the labels of a subset, by whichever rule, as far as that is known.
    fn is_empty_subset(
        &self,
        views: &[&'c Arc<ServiceView>],
        to: &RouteDestination,
        subset: &Subset,
    ) -> bool {
        let mut compared = self.compared.get();
        let is_unread = views.iter().any(|view| self.catalog.unread_endpoints(view).next().is_some());
        let mut is_matched = |port: &PortView| {
            let inputs = &port.endpoints.inputs;
            let policies = inputs.policy.iter();
            let all =
                policies.flat_map(|all| all.values()).flatten().flat_map(|policy| policy.subsets.iter());
            let mut labels = all.filter(|(name, ..)| name == subset).map(|(_, labels, _)| labels);
            !selects(&inputs.resolution) || labels.any(|labels| has_labels(inputs, labels, &mut compared))
        };
        let is_any = views.iter().flat_map(|view| ports_of(view, to)).any(&mut is_matched);
        self.compared.set(compared);
        !is_unread && !is_any && compared <= MAX_LOOKS
    }
    /// Whether a service has no endpoint on the port of a destination, as far as that is known.
    fn is_empty(&self, view: &Arc<ServiceView>, to: &RouteDestination) -> bool {
        let is_unread = self.catalog.unread_endpoints(view).next().is_some();
        let is_empty = |port: &PortView| {
            let inputs = &port.endpoints.inputs;
            selects(&inputs.resolution)
                && inputs.sources.iter().all(|source| source.group.addresses.is_empty())
        };
        !is_unread && ports_of(view, to).all(is_empty)
    }
}

fn ports_of<'v>(view: &'v Arc<ServiceView>, to: &RouteDestination) -> impl Iterator<Item = &'v PortView> {
    let port = to.port;
    view.ports.iter().filter(move |own| port.is_none_or(|number| own.number == number))
}

/// Returns the ports of requests of which the service of a destination has none.
fn off_ports(placed: &Placed<'_>, ports: &[&PortView], listened: &Listened) -> Option<String> {
    let is_on = |port: &&PortView| listened.http.contains(&port.number);
    let is_off = placed.is_http && placed.to.port.is_none() && !ports.iter().any(is_on);
    let all: Vec<String> = listened.http.iter().map(ToString::to_string).collect();
    (is_off && !all.is_empty()).then(|| named(all.iter().map(String::as_str)))
}

/// Whether a rule of any client declares the subset on a port.
fn declares(port: &PortView, to: &RouteDestination) -> bool {
    let policies = port.cluster.inputs.policy.iter().flat_map(|all| all.values()).flatten();
    let mut names = policies.flat_map(|policy| policy.subsets.iter().map(|(name, _)| name));
    names.any(|name| Some(name) == to.subset.as_ref())
}

fn placed(own: &VirtualService) -> Vec<Placed<'_>> {
    let http = own.http.iter().enumerate();
    let http = http.flat_map(|(at, route)| of_http(&place("http", at, &route.name), route));
    let tls = own.tls.iter().map(|route| ("tls", &route.destinations)).enumerate();
    let tcp = own.tcp.iter().map(|route| ("tcp", &route.destinations)).enumerate();
    let l4 = tls.chain(tcp).flat_map(|(at, (list, all))| of_connections(&place(list, at, ""), all));
    http.chain(l4).collect()
}

fn of_connections<'r>(place: &str, all: &'r [L4Destination]) -> Vec<Placed<'r>> {
    let placed = |one: &'r L4Destination| Placed {
        place: place.to_owned(),
        to: &one.destination,
        has_share: all.len() == 1 || one.weight > 0,
        is_http: false,
    };
    all.iter().map(placed).collect()
}

fn of_http<'r>(place: &str, route: &'r HttpRoute) -> Vec<Placed<'r>> {
    let all = route.action.destinations();
    let weighted = |one: &'r WeightedDestination| Placed {
        place: place.to_owned(),
        to: &one.destination,
        has_share: all.len() == 1 || one.weight > 0,
        is_http: true,
    };
    let mirrors = route.settings.mirrors();
    let mirrors = mirrors.map(|mirror| Placed {
        place: format!("{place} mirror"),
        to: &mirror.destination,
        has_share: false,
        is_http: true,
    });
    all.iter().map(weighted).chain(mirrors).collect()
}
