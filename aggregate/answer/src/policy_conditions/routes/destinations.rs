//! Conditions of destinations: a host or port that no service has, a service that no client sees, a subset that no DestinationRule declares, and
//! endpoints that do not exist though requests are sent there.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{
    ClientKind, ClientMatch, ClusterPolicy, Code, Hostname, HttpRoute, L4Destination, Namespace, PolicyKey,
    PortNumber, PortView, RequestShare, RouteDestination, ServiceView, Subset, VirtualService,
};

use super::listening::Listening;
use super::order::List;
use super::partly::Partly;
use super::target::{Lack, Target, of_subset};
use super::withheld::Withheld;
use super::{Found, RouteConditions, named, place};
use crate::policy_conditions::MAX_LOOKS;
use crate::policy_conditions::clients::Concerned;
use crate::policy_conditions::services::{any_has_labels, selects};

/// Destination with the place of its route.
pub(super) struct Placed<'c> {
    pub(super) place: String,
    pub(super) to: &'c RouteDestination,
    /// Whether it receives copies: no request fails without them.
    is_mirror: bool,
    /// List and position of its route.
    pub(super) route: (List, usize),
    /// Namespaces that the matches of the route name.
    pub(super) namespaces: Vec<&'c Namespace>,
}

/// Conditions of destinations that lead nowhere, in the order of their messages, which name the destinations.
const LOST: [(Code, &str); 4] = [
    (Code::ROUTE_DESTINATION_UNMATCHED, "these destinations do not exist"),
    (
        Code::ROUTE_SUBSET_UNDECLARED,
        "no DestinationRule declares these subsets, or no version of it is valid",
    ),
    (Code::ROUTE_DESTINATION_HIDDEN, "no client of it may see these destinations, by their exportTo"),
    (Code::ROUTE_WITHOUT_ENDPOINTS, "these destinations have no endpoints"),
];

impl<'c> RouteConditions<'c> {
    /// Returns the conditions of destinations that lead nowhere.
    pub(super) fn lost_destinations(
        &self,
        key: &PolicyKey,
        own: &'c VirtualService,
        listening: Option<&Listening<'_>>,
    ) -> Vec<Found<'c>> {
        let clients = self.clients(key, own);
        let mut lost: BTreeMap<Code, Vec<String>> = BTreeMap::new();
        let (mut partly, mut withheld) = (Partly::default(), Withheld::default());
        let listening = listening.map(|all| (key, all));
        // gRPC clients do not use faults
        let has_grpc = self.beside.clients.iter().any(|client| client.kind == ClientKind::Grpc);
        let is_answered = |placed: &Placed<'_>| {
            !has_grpc && listening.is_some_and(|(key, all)| all.is_answered(key, placed.route))
        };
        for placed in placed(own).into_iter().filter(|placed| !is_answered(placed)) {
            let host = placed.to.host.completed(key.namespace.as_str(), self.catalog.settings.domain());
            let Some(target) = self.target(host, &clients) else { continue };
            let lacked = || self.add_lacks(&mut partly, (&placed, &target), &clients, listening?);
            let nowhere = self.lost(&placed, &target, &clients, listening).or_else(lacked);
            let Some((code, what)) = nowhere else { continue };
            let is_undeclared = code == Code::ROUTE_SUBSET_UNDECLARED;
            if let Some(rule) = self.withholding(placed.to, &target, &clients).filter(|_| is_undeclared) {
                withheld.add((&placed.place, placed.to, &target), rule);
            } else {
                lost.entry(code).or_default().push(format!("{} ({what})", placed.place));
            }
        }
        let found = |(code, what): (Code, &str)| {
            let parts = lost.get(&code)?;
            Some(Found(code, Vec::new(), format!("{what}: {}", named(parts.iter().map(String::as_str)))))
        };
        LOST.into_iter().filter_map(found).chain(withheld.found()).chain(partly.found()).collect()
    }
    /// Returns the condition of a destination that leads nowhere, with the text that names what it lacks.
    fn lost(
        &self,
        placed: &Placed<'_>,
        target: &Target<'c>,
        clients: &Concerned,
        listening: Option<(&PolicyKey, &Listening<'_>)>,
    ) -> Option<(Code, String)> {
        let Target { host, named, ends, .. } = target;
        if ends.is_empty() {
            return self.lost_without_service(placed.to, host);
        }
        if clients.see_none(named) || clients.see_none(ends) {
            return Some((Code::ROUTE_DESTINATION_HIDDEN, host.to_string()));
        }
        let port = match placed.to.port.filter(|_| target.ports(placed.to).next().is_none()) {
            Some(port) => Some(format!("{} has no port {port}", target.service())),
            None => listening
                .and_then(|all| self.off_ports(placed, ends, all))
                .map(|ports| format!("{} has no port {ports}, as the hosts have", target.service())),
        };
        port.map(|what| (Code::ROUTE_DESTINATION_UNMATCHED, what))
            .or_else(|| self.lost_subset(placed.to, target, clients))
            .or_else(|| self.lost_endpoints(placed, target))
    }
    /// Returns what a destination lacks of which no service is known. Services that may be declared elsewhere lack nothing but
    /// subsets.
    fn lost_without_service(&self, to: &RouteDestination, host: &Hostname) -> Option<(Code, String)> {
        if !self.services.are_elsewhere(&host.clone().into()) {
            return Some((Code::ROUTE_DESTINATION_UNMATCHED, self.services.no_such_host(host.as_str())));
        }
        let subset = to.subset.as_ref().filter(|subset| !self.is_declared(host, subset))?;
        Some((Code::ROUTE_SUBSET_UNDECLARED, format!("{} of {host}", subset.as_str())))
    }
    /// Returns the subset of a destination that no rule declares for a client.
    fn lost_subset(
        &self,
        to: &RouteDestination,
        target: &Target<'c>,
        clients: &Concerned,
    ) -> Option<(Code, String)> {
        let subset = to.subset.as_ref()?;
        let has = |client: Option<&Namespace>| {
            let ports: Vec<_> = self.target_of(target, client).ports(to).collect();
            declare(&ports, to, client)
        };
        let has_other = clients.may_be_anywhere() && target.ruled(to).any(|namespace| has(Some(namespace)));
        let is_had = || target.is_of_several && target.clients(clients).into_iter().any(has);
        let is_lost = !has_other && !is_had() && clients.all_lack(&target.ends, has);
        // where a rule declares it, it is of interest which one applies
        let is_declared = || self.is_declared(&target.host, subset);
        let of = |client| self.target_of(target, client).lack(to, client);
        let lack = || clients.of_services(&target.ends).find_map(of);
        is_lost.then(|| match lack().filter(|_| is_declared()) {
            Some(lack @ Lack::Subset(_)) => target.lost(to, lack),
            _ => (Code::ROUTE_SUBSET_UNDECLARED, format!("{} of {}", subset.as_str(), target.shown())),
        })
    }
    /// Returns the service or subset of a destination that has no endpoints. Copies may be lost.
    pub(super) fn lost_endpoints(&self, placed: &Placed<'_>, target: &Target<'c>) -> Option<(Code, String)> {
        let ends = &target.ends;
        let what = if placed.is_mirror {
            None
        } else if ends.iter().all(|view| self.is_empty(view, placed.to)) {
            Some(target.service())
        } else {
            let subset = placed.to.subset.as_ref();
            let empty = subset.filter(|subset| self.is_empty_subset(ends, placed.to, subset));
            empty.map(|subset| of_subset(Some(subset), &target.service()))
        };
        what.map(|what| (Code::ROUTE_WITHOUT_ENDPOINTS, what))
    }
    /// Returns the condition of destinations without a port whose services lack some of the ports of the hosts.
    pub(super) fn partly_off(
        &self,
        key: &PolicyKey,
        own: &'c VirtualService,
        listening: &Listening<'_>,
    ) -> Option<Found<'c>> {
        let clients = self.clients(key, own);
        let part = |placed: &Placed<'c>| {
            let host = placed.to.host.completed(key.namespace.as_str(), self.catalog.settings.domain());
            let views = self.target(host.clone(), &clients)?.ends;
            let (on, off) = self.split_ports(placed, &views, (key, listening));
            (!on.is_empty() && !off.is_empty())
                .then(|| format!("{} ({host} has no port {})", placed.place, shown(&off)))
        };
        let parts: Vec<String> = placed(own).iter().filter_map(part).collect();
        let message = || {
            let parts = named(parts.iter().map(String::as_str));
            format!(
                "these destinations name no port and lack ports of the hosts, so that what comes there fails: {parts}"
            )
        };
        (!parts.is_empty()).then(|| Found(Code::ROUTE_PORT_PARTLY_UNMATCHED, Vec::new(), message()))
    }
    /// Returns the ports of a destination's requests or connections, if its service has none of them.
    fn off_ports(
        &self,
        placed: &Placed<'_>,
        views: &[&Arc<ServiceView>],
        listening: (&PolicyKey, &Listening<'_>),
    ) -> Option<String> {
        let (on, off) = self.split_ports(placed, views, listening);
        (on.is_empty() && !off.is_empty()).then(|| shown(&off))
    }
    /// Returns those ports of a destination's requests or connections that its service has, and those that it lacks. A declared
    /// port is that of all of them, connections have the only port of a service, and routes before its own may take those to a
    /// port.
    fn split_ports(
        &self,
        placed: &Placed<'_>,
        views: &[&Arc<ServiceView>],
        listening: (&PolicyKey, &Listening<'_>),
    ) -> (Vec<PortNumber>, Vec<PortNumber>) {
        let (list, _) = placed.route;
        let has_several = || views.first().is_some_and(|view| view.ports.len() > 1);
        if placed.to.port.is_some() || !(list == List::Http || has_several()) {
            return (Vec::new(), Vec::new());
        }
        let receives = |port: &PortNumber| self.receives(listening, placed.route, *port);
        let has = |wanted: &PortNumber| views.iter().any(|view| view.port(*wanted).is_some());
        let known = listening.1.known.as_ref().map(|known| known.of_services(list)).unwrap_or_default();
        let (mut on, mut off): (Vec<_>, Vec<_>) = known.into_iter().partition(has);
        off.retain(receives);
        on.retain(|port| !off.is_empty() && receives(port));
        (on, off)
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
            !selects(&inputs.resolution) || labels.any(|labels| any_has_labels(inputs, labels, &mut compared))
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

pub(super) fn ports_of<'v>(
    view: &'v Arc<ServiceView>,
    to: &RouteDestination,
) -> impl Iterator<Item = &'v PortView> {
    let port = to.port;
    view.ports.iter().filter(move |own| port.is_none_or(|number| own.number == number))
}

fn shown(ports: &[PortNumber]) -> String {
    let all: Vec<String> = ports.iter().map(ToString::to_string).collect();
    named(all.iter().map(String::as_str))
}

/// Whether a rule of a client declares the subset on one of these ports.
pub(super) fn declare(ports: &[&PortView], to: &RouteDestination, client: Option<&Namespace>) -> bool {
    let has =
        |policy: &ClusterPolicy| policy.subsets.iter().any(|(name, _)| Some(name) == to.subset.as_ref());
    ports.iter().any(|port| port.cluster.inputs.policy_of(client).is_some_and(has))
}

/// Returns the destinations of all routes, without those that receive nothing: one of several with weight 0.
fn placed(own: &VirtualService) -> Vec<Placed<'_>> {
    let http = own.http.iter().enumerate().flat_map(|(at, route)| of_http(at, route));
    let tls = own.tls.iter().enumerate().flat_map(|(at, route)| {
        let clients = route.matches.iter().map(|found| &found.connection.clients);
        of_connections((List::Tls, at), clients, &route.destinations)
    });
    let tcp = own.tcp.iter().enumerate().flat_map(|(at, route)| {
        let clients = route.matches.iter().map(|found| &found.clients);
        of_connections((List::Tcp, at), clients, &route.destinations)
    });
    http.chain(tls).chain(tcp).collect()
}

/// Whether one of some destinations receives something.
const fn has_share(weight: u32, destinations: usize) -> bool {
    destinations == 1 || weight > 0
}

fn of_connections<'c>(
    route: (List, usize),
    clients: impl Iterator<Item = &'c ClientMatch>,
    all: &'c [L4Destination],
) -> Vec<Placed<'c>> {
    let place = place(if route.0 == List::Tls { "tls" } else { "tcp" }, route.1, "");
    let namespaces: Vec<&Namespace> = clients.filter_map(|of| of.namespace.as_ref()).collect();
    let used = all.iter().filter(|one| has_share(one.weight, all.len())).map(|one| &one.destination);
    used.map(|to| Placed {
        place: place.clone(),
        to,
        is_mirror: false,
        route,
        namespaces: namespaces.clone(),
    })
    .collect()
}

fn of_http<'c>(at: usize, route: &'c HttpRoute) -> Vec<Placed<'c>> {
    let (all, place) = (route.action.destinations(), place("http", at, &route.name));
    let clients = route.matches.iter().map(|found| &found.clients);
    let namespaces: Vec<&Namespace> = clients.filter_map(|of| of.namespace.as_ref()).collect();
    let placed = |place: String, to, is_mirror| Placed {
        place,
        to,
        is_mirror,
        route: (List::Http, at),
        namespaces: namespaces.clone(),
    };
    let used = all.iter().filter(|one| has_share(one.weight, all.len()));
    let used = used.map(|one| placed(place.clone(), &one.destination, false));
    let copies = route.settings.mirrors().filter(|mirror| mirror.share != RequestShare::NONE);
    let copies = copies.map(|mirror| placed(format!("{place} mirror"), &mirror.destination, true));
    used.chain(copies).collect()
}
