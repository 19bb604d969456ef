//! Condition of destinations that clients of some namespaces lack and those of others have: a DestinationRule without the
//! subset applies to them, or they do not see the service.
//!
//! Namespaces with known clients are compared; while none is known, those that the VirtualService, a service or a rule
//! names, and most others. One counts if requests or connections of its clients go to the destination, which none do whose
//! Sidecar does not import the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Code, Hostname, Namespace, PolicyKey, PortView, RouteDestination, ServiceView};

use super::destinations::{Placed, declare, ports_of};
use super::listening::Listening;
use super::{Found, RouteConditions, named};
use crate::policy_conditions::clients::{Concerned, see};
use crate::policy_conditions::found::MAX_OTHERS;
use crate::resolve::is_exported;
use crate::scope::Scope;

/// Services to which a destination leads.
pub(super) struct Target<'c> {
    /// Its host.
    pub(super) host: Hostname,
    /// Services of its host.
    pub(super) named: Vec<&'c Arc<ServiceView>>,
    /// Services at the end of their aliases.
    pub(super) ends: Vec<&'c Arc<ServiceView>>,
}

/// What clients lack of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lack<'c> {
    /// They do not see its service.
    Service,
    /// None of these rules, which apply to them, declares its subset.
    Subset(&'c [PolicyKey]),
}

/// Destinations that some clients lack.
#[derive(Default)]
pub(super) struct Partly<'c> {
    parts: Vec<String>,
    rules: BTreeSet<&'c PolicyKey>,
}

impl<'c> Partly<'c> {
    /// Returns the condition; `None` without a destination.
    pub(super) fn found(self) -> Option<Found<'c>> {
        let Self { parts, rules } = self;
        let message =
            || format!("some clients lack these destinations: {}", named(parts.iter().map(String::as_str)));
        let others = || rules.into_iter().take(MAX_OTHERS).collect();
        (!parts.is_empty()).then(|| Found(Code::ROUTE_LACKED_BY_SOME, others(), message()))
    }
    fn add(&mut self, placed: &Placed<'_>, host: &str, lack: Lack<'c>, clients: &[Option<&Namespace>]) {
        let what = match (lack, &placed.to.subset) {
            (Lack::Subset(rules), Some(subset)) => {
                self.rules.extend(rules);
                format!("have no subset {} of {host}: {}", subset.as_str(), applied(rules))
            }
            _ => format!("may not see {host}, by its exportTo"),
        };
        self.parts.push(format!("{} ({} {what})", placed.place, described(clients)));
    }
}

impl<'c> RouteConditions<'c> {
    /// Adds what clients of some namespaces lack of a destination; nothing if all clients have the same. If all clients lack it whose
    /// requests or connections go there, returns the condition of a destination that leads nowhere, with the text that names it.
    pub(super) fn add_lacks(
        &self,
        out: &mut Partly<'c>,
        (placed, target): (&Placed<'c>, &Target<'c>),
        clients: &Concerned,
        listening: (&PolicyKey, &Listening<'_>),
    ) -> Option<(Code, String)> {
        if target.ends.is_empty() || target.is_alike(placed.to) {
            return None;
        }
        let goes_there = |client| self.receives_from(listening, placed.route, client);
        let mut lacks: BTreeMap<Lack<'c>, Vec<Option<&Namespace>>> = BTreeMap::new();
        let mut others = Vec::new();
        for client in self.compared(placed, target, clients) {
            match target.lack(placed.to, client) {
                None => others.push(client),
                Some(lack) if self.may_have(client) && goes_there(client) => {
                    lacks.entry(lack).or_default().push(client);
                }
                Some(_) => {}
            }
        }
        let last = lacks.keys().next_back()?;
        if !others.into_iter().any(goes_there) {
            return Some(target.lost(placed.to, *last));
        }
        for (lack, clients) in lacks {
            out.add(placed, &target.shown(), lack, &clients);
        }
        None
    }
    /// Returns the namespaces whose clients are compared, with clients or not; `None` stands for most others.
    fn compared<'s>(
        &self,
        placed: &Placed<'s>,
        target: &'s Target<'c>,
        clients: &'s Concerned,
    ) -> BTreeSet<Option<&'s Namespace>> {
        let named = placed.namespaces.iter().copied().chain(target.ruled(placed.to)).map(Some);
        let seeing = clients.of_services(&target.ends).chain(clients.of_services(&target.named));
        seeing.chain(named).collect()
    }
    /// Whether clients of a namespace are known, or of most others without one, or no client is.
    fn may_have(&self, client: Option<&Namespace>) -> bool {
        let known = self.inhabited.as_ref().filter(|known| !known.is_empty());
        known.is_none_or(|known| client.is_some_and(|client| known.contains(client)))
    }
}

impl<'c> Target<'c> {
    /// Names the host of which DestinationRules declare the subsets of the destination: for an alias that at its end.
    pub(super) fn shown(&self) -> String {
        let host = &self.host;
        match self.ends.first().map(|end| &end.key.host).filter(|end| *end != host) {
            Some(end) => format!("{end}, of which {host} is an alias"),
            None => host.to_string(),
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
    fn is_alike(&self, to: &RouteDestination) -> bool {
        let is_public = |view: &&Arc<ServiceView>| is_exported(view, Scope::of(None));
        let is_ruled = |port: &PortView| {
            port.cluster.inputs.policy.as_ref().is_some_and(|policy| policy.namespaces().next().is_some())
        };
        self.named.iter().chain(&self.ends).all(is_public) && !self.ports(to).any(is_ruled)
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
            _ => (Code::ROUTE_DESTINATION_HIDDEN, self.host.to_string()),
        }
    }
    /// Returns what clients of a namespace lack.
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

/// Returns which rules apply to clients.
fn applied(rules: &[PolicyKey]) -> String {
    let names: Vec<String> = rules.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [] => "no DestinationRule applies to them".to_owned(),
        [one] => format!("{one} applies to them"),
        all => format!("{} apply to them", named(all.iter().map(String::as_str))),
    }
}

/// Names the clients of some namespaces.
fn described(clients: &[Option<&Namespace>]) -> String {
    let listed: Vec<&str> = clients.iter().flatten().map(|namespace| namespace.as_str()).collect();
    let own = match listed.as_slice() {
        [] => return "clients of most namespaces".to_owned(),
        [one] => format!("clients of namespace {one}"),
        _ => format!("clients of namespaces {}", named(listed)),
    };
    if clients.contains(&None) { format!("{own} and of most others") } else { own }
}
