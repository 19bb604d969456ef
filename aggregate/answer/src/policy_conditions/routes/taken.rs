//! Condition of a VirtualService whose hosts others serve in its place: an older one for the same clients, one for
//! fewer clients, or one with a more specific host.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Code, HttpCandidate, HttpMatch, Namespace, PolicyKey, RouteInputs, ServiceView, VirtualService,
};

use super::{Found, RouteConditions, named};
use crate::policy_conditions::MAX_LOOKS;

impl<'c> RouteConditions<'c> {
    /// Returns the condition of hosts that others serve on every port and for every client. One whose routes some
    /// clients do not have takes nothing.
    pub(super) fn taken(&mut self, key: &PolicyKey, own: &VirtualService) -> Option<Found<'c>> {
        let mut taken: BTreeMap<String, BTreeSet<&'c PolicyKey>> = BTreeMap::new();
        for host in own.hosts.iter().filter(|_| !own.http.is_empty()) {
            let host = self.completed(key, host);
            for view in self.services.of(&host) {
                if let Some(by) = self.taken_of(key, view).filter(|by| !by.is_empty()) {
                    taken.entry(view.key.host.to_string()).or_default().extend(by);
                }
            }
        }
        let by: BTreeSet<&PolicyKey> = taken.values().flatten().copied().collect();
        let names: Vec<String> = by.iter().map(ToString::to_string).collect();
        let message = || {
            let hosts = named(taken.keys().map(String::as_str));
            format!(
                "{} applies in its place to every client of {hosts}",
                named(names.iter().map(String::as_str))
            )
        };
        (!taken.is_empty()).then(|| Found(Code::ROUTE_HOST_TAKEN, by.iter().copied().collect(), message()))
    }
    /// Returns those that precede one on all ports of a service; `None` if it serves some client of a port.
    fn taken_of(&mut self, key: &PolicyKey, view: &'c ServiceView) -> Option<BTreeSet<&'c PolicyKey>> {
        let mut by = BTreeSet::new();
        let inputs = view.ports.iter().map(|port| &port.route.inputs);
        for inputs in inputs.filter(|inputs| inputs.virtual_services.iter().any(|one| one.of.key == *key)) {
            self.looks += inputs.virtual_services.len();
            if self.looks > MAX_LOOKS {
                return None;
            }
            for namespace in namespaces(inputs, key) {
                by.extend(preceding(inputs, key, namespace)?);
            }
        }
        Some(by)
    }
}

/// Returns the namespaces whose clients may be served by different ones; `None` stands for all others.
fn namespaces<'a>(inputs: &'a RouteInputs, key: &'a PolicyKey) -> BTreeSet<Option<&'a Namespace>> {
    let named = inputs.virtual_services.iter().flat_map(|one| one.of.namespaces());
    named.map(Some).chain([None, Some(&key.namespace)]).collect()
}

/// Returns the one that precedes in a namespace, none if it is not exported there; `None` if it serves some client.
fn preceding<'a>(
    inputs: &'a RouteInputs,
    key: &PolicyKey,
    namespace: Option<&Namespace>,
) -> Option<Option<&'a PolicyKey>> {
    let tier = |one: &'a HttpCandidate| Some((one.of.tier(namespace)?, one));
    let mut seen: Vec<(u8, &HttpCandidate)> = inputs.virtual_services.iter().filter_map(tier).collect();
    if !seen.iter().any(|(_, one)| one.of.key == *key) {
        return Some(None);
    }
    seen.sort_by_key(|(tier, _)| *tier);
    let longest = seen.iter().map(|(_, one)| one.host.specificity()).max();
    seen.retain(|(_, one)| Some(one.host.specificity()) == longest);
    let is_last = |one: &&HttpCandidate| one.of.key == *key || is_for_all(one);
    let (_, first) = seen.into_iter().find(|(_, one)| is_last(one))?;
    (first.of.key != *key).then_some(Some(&first.of.key))
}

/// Whether every client has a route of one: conditions on ports and clients leave others without.
fn is_for_all(one: &HttpCandidate) -> bool {
    let is_any = |found: &HttpMatch| found.port.is_none() && found.clients.is_any();
    one.routes.iter().any(|route| route.matches.is_empty() || route.matches.iter().any(is_any))
}
