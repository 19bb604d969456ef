//! Services to which a destination leads, and what clients of a namespace lack of it.
//!
//! The conditions of destinations use it. Where several namespaces declare a host, the services are those that clients of
//! the VirtualService get.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Code, Hostname, Namespace, PolicyKey, PortNumber, PortView, RouteDestination, ServiceKey, ServiceView,
    Subset,
};

use super::destinations::{Placed, declare, ports_of};
use super::partly::applied;
use super::{RouteConditions, named};
use crate::policy_conditions::clients::{Concerned, concerned_by, see};
use crate::policy_conditions::services::ends;
use crate::resolve::is_exported;
use crate::scope::Scope;

/// Services to which a destination leads.
#[derive(Clone)]
pub(super) struct Target<'c> {
    /// Its host.
    pub(super) host: Hostname,
    /// Services of its host.
    pub(super) named: Vec<&'c Arc<ServiceView>>,
    /// Services at the end of their aliases.
    pub(super) ends: Vec<&'c Arc<ServiceView>>,
    /// Whether several services have the host, so that clients of different namespaces may get different ones.
    pub(super) is_of_several: bool,
}

/// What clients lack of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack<'c> {
    /// They do not see its service.
    Service,
    /// None of these rules, which apply to them, declares its subset.
    Subset(&'c [PolicyKey]),
    /// The service that they get has no such port.
    Port(&'c ServiceKey, PortNumber),
    /// The service that they get has no endpoints.
    Endpoints(&'c ServiceKey),
}

impl<'c> RouteConditions<'c> {
    /// Returns the services of a host that some of these clients get; those that declare it if no client gets one, and `None`
    /// beyond [`super::super::MAX_LOOKS`].
    pub(super) fn target(&self, host: Hostname, clients: &Concerned) -> Option<Target<'c>> {
        let (named, ends) = (self.services.named(host.as_str()), self.services.ends(host.as_str()));
        let is_of_several = named.len() > 1 || ends.len() > 1;
        let all = Target { host, named, ends, is_of_several };
        if !is_of_several {
            return Some(all);
        }
        let concerned = all.clients(clients);
        self.look(concerned.len())?;
        let mut some = Target { named: Vec::new(), ends: Vec::new(), ..all.clone() };
        for client in concerned {
            let own = self.target_of(&all, client);
            some.named.extend(own.named);
            some.ends.extend(own.ends);
        }
        some.named = distinct(some.named);
        some.ends = distinct(some.ends);
        Some(if some.ends.is_empty() { all } else { some })
    }
    /// Whether some of these clients get a service, or none gets one of its host.
    pub(super) fn is_got(&self, view: &ServiceView, clients: &Concerned) -> bool {
        let host = &view.key.host;
        let is_it = |got: &Target<'_>| got.named.iter().any(|one| one.key == view.key);
        let is_of_several = self.resolved.claimants(host.as_str()).len() > 1;
        !is_of_several || self.target(host.clone(), clients).is_none_or(|got| is_it(&got))
    }
    /// Returns a target with the services that clients of a namespace get.
    pub(super) fn target_of(&self, all: &Target<'c>, client: Option<&Namespace>) -> Target<'c> {
        if !all.is_of_several {
            return all.clone();
        }
        let of = |host: &str| self.resolved.of(host, client).to_vec();
        let named = of(all.host.as_str());
        Target { ends: ends(named.clone(), of), named, ..all.clone() }
    }
    /// Returns what clients of a namespace lack of a destination.
    pub(super) fn lack(
        &self,
        placed: &Placed<'_>,
        target: &Target<'c>,
        client: Option<&Namespace>,
    ) -> Option<Lack<'c>> {
        let own = self.target_of(target, client);
        let service = own.ends.first().map(|view| &view.key);
        let of_service = || {
            let service = service.filter(|_| own.is_of_several)?;
            let port = placed.to.port.filter(|_| own.ports(placed.to).next().is_none());
            let port = port.map(|port| Lack::Port(service, port));
            port.or_else(|| self.lost_endpoints(placed, &own).map(|_| Lack::Endpoints(service)))
        };
        own.lack(placed.to, client).or_else(of_service)
    }
}

impl<'c> Target<'c> {
    /// Returns the namespaces of clients that may get different services, `None` for most others.
    pub(super) fn clients<'s>(&'s self, clients: &'s Concerned) -> BTreeSet<Option<&'s Namespace>> {
        let (named, ends) = (clients.of_services(&self.named), clients.of_services(&self.ends));
        let views = self.named.iter().chain(&self.ends);
        let views = views.filter(|_| self.is_of_several && clients.may_be_anywhere());
        named.chain(ends).chain(views.flat_map(|view| concerned_by(view)).map(Some)).collect()
    }
    /// Names the service: by its host, which alone does not name one of several.
    pub(super) fn service(&self) -> String {
        let keys: Vec<String> = self.ends.iter().map(|view| view.key.to_string()).collect();
        match self.is_of_several && !keys.is_empty() {
            true => named(keys.iter().map(String::as_str)),
            false => self.host.to_string(),
        }
    }
    /// Returns the host of which DestinationRules declare the subsets of the destination.
    pub(super) fn end(&self) -> &Hostname {
        self.ends.first().map_or(&self.host, |end| &end.key.host)
    }
    /// Names the host of which DestinationRules declare the subsets of the destination: for an alias that at its end.
    pub(super) fn shown(&self) -> String {
        let (host, end) = (&self.host, self.end());
        match host == end {
            true => host.to_string(),
            false => format!("{end}, of which {host} is an alias"),
        }
    }
    pub(super) fn ports(&self, to: &RouteDestination) -> impl Iterator<Item = &'c PortView> {
        self.ends.iter().flat_map(move |&view| ports_of(view, to))
    }
    /// Iterates over the namespaces to whose clients DestinationRules of their own apply.
    pub(super) fn ruled(&self, to: &RouteDestination) -> impl Iterator<Item = &'c Namespace> {
        let policies = self.ports(to).filter_map(|port| port.cluster.inputs.policy.as_ref());
        policies.flat_map(|policy| policy.namespaces())
    }
    /// Whether clients of all namespaces have the same of it.
    pub(super) fn is_alike(&self, to: &RouteDestination) -> bool {
        let is_public = |view: &&Arc<ServiceView>| is_exported(view, Scope::of(None));
        let is_ruled = |port: &PortView| {
            port.cluster.inputs.policy.as_ref().is_some_and(|policy| policy.namespaces().next().is_some())
        };
        !self.is_of_several
            && self.named.iter().chain(&self.ends).all(is_public)
            && !self.ports(to).any(is_ruled)
    }
    /// Returns the condition of a destination that all clients lack whose requests or connections go there.
    pub(super) fn lost(&self, to: &RouteDestination, lack: Lack<'_>) -> (Code, String) {
        match (lack, &to.subset) {
            (Lack::Subset(rules), Some(subset)) => {
                let (subset, host) = (subset.as_str(), self.shown());
                (
                    Code::ROUTE_SUBSET_UNDECLARED,
                    format!("{subset} of {host} to its clients: {}", applied(rules)),
                )
            }
            (Lack::Port(service, port), _) => {
                (Code::ROUTE_DESTINATION_UNMATCHED, format!("{service} has no port {port}"))
            }
            (Lack::Endpoints(service), subset) => {
                (Code::ROUTE_WITHOUT_ENDPOINTS, of_subset(subset.as_ref(), &service.to_string()))
            }
            _ => (Code::ROUTE_DESTINATION_HIDDEN, self.host.to_string()),
        }
    }
    /// Returns what clients of a namespace lack by the rules and the `exportTo` that apply to them.
    pub(super) fn lack(&self, to: &RouteDestination, client: Option<&Namespace>) -> Option<Lack<'c>> {
        if !see(&self.named, client) || !see(&self.ends, client) {
            return Some(Lack::Service);
        }
        to.subset.as_ref()?;
        let seen = self.ends.iter().filter(|view| is_exported(view, Scope::of(client)));
        let ports: Vec<&'c PortView> = seen.flat_map(|&view| ports_of(view, to)).collect();
        let mut rules = ports.iter().filter_map(|port| port.cluster.inputs.policy_of(client));
        let lost = !ports.is_empty() && !declare(&ports, to, client);
        lost.then(|| Lack::Subset(rules.next().map_or(&[][..], |policy| &*policy.from)))
    }
}

/// Names a subset of a service, or the service.
pub(super) fn of_subset(subset: Option<&Subset>, service: &str) -> String {
    subset.map_or_else(|| service.to_owned(), |subset| format!("{} of {service}", subset.as_str()))
}

fn distinct(mut views: Vec<&Arc<ServiceView>>) -> Vec<&Arc<ServiceView>> {
    let mut seen = BTreeSet::new();
    views.retain(|view| seen.insert(&view.key));
    views
}
