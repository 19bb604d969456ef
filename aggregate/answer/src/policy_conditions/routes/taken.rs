//! Conditions of a VirtualService whose requests others route in its place: an older one for the same clients, one for
//! fewer clients, or one with a more specific host, which may be meant as an exception.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Code, HttpCandidate, HttpMatch, Namespace, PolicyKey, RouteInputs, ServiceView, VirtualService,
};

use super::{Found, RouteConditions, named};

/// Hosts whose clients have no route of a VirtualService, with those that precede it.
#[derive(Default)]
struct Taken<'c> {
    /// Others serve every client.
    served: ByHost<'c>,
    /// Others name the host more exactly and serve some clients; the others have the usual route.
    named: ByHost<'c>,
    /// Others name the host more exactly and serve every client.
    excepted: ByHost<'c>,
    /// Whether it serves clients of some host.
    serves: bool,
    /// Whether it has routes of connections, which others do not replace.
    has_connections: bool,
}

/// Those that precede a VirtualService on a host.
#[derive(Default)]
struct Preceding<'c> {
    /// They serve every client of some namespace.
    serving: BTreeSet<&'c PolicyKey>,
    /// They name the host more exactly, with routes for some clients of a namespace only.
    naming: BTreeSet<&'c PolicyKey>,
    /// Whether one of them names the host as exactly.
    is_equal: bool,
}

impl<'c> RouteConditions<'c> {
    /// Returns the conditions of hosts of which no client has a route of a VirtualService, because others precede it on every
    /// port. One whose routes some clients do not have takes nothing, unless it names the host more exactly.
    pub(super) fn taken(&mut self, key: &PolicyKey, own: &VirtualService) -> Vec<Found<'c>> {
        let has_connections = !own.tcp.is_empty() || !own.tls.is_empty();
        let mut taken = Taken { has_connections, ..Taken::default() };
        for host in own.hosts.iter().filter(|_| !own.http.is_empty()) {
            let host = self.completed(key, host);
            for view in self.services.of(&host) {
                match self.taken_of(key, view) {
                    Some(by) => taken.add(view, by),
                    None => taken.serves = true,
                }
            }
        }
        taken.found()
    }
    /// Returns those that precede one on all ports of a service; `None` if it serves some client of a port.
    fn taken_of(&mut self, key: &PolicyKey, view: &'c ServiceView) -> Option<Preceding<'c>> {
        let mut by = Preceding::default();
        let inputs = view.ports.iter().map(|port| &port.route.inputs);
        for inputs in inputs.filter(|inputs| inputs.virtual_services.iter().any(|one| one.of.key == *key)) {
            self.look(inputs.virtual_services.len())?;
            for namespace in namespaces(inputs, key) {
                by.add(inputs, key, namespace)?;
            }
        }
        Some(by)
    }
}

impl<'c> Taken<'c> {
    fn add(&mut self, view: &ServiceView, by: Preceding<'c>) {
        let list = match (by.naming.is_empty(), by.is_equal) {
            (false, _) => &mut self.named,
            (true, true) => &mut self.served,
            (true, false) => &mut self.excepted,
        };
        let all: BTreeSet<&PolicyKey> = by.serving.into_iter().chain(by.naming).collect();
        if !all.is_empty() {
            list.entry(view.key.host.to_string()).or_default().extend(all);
        }
    }
    /// Returns the conditions. Exceptions have one of their own if it serves something beside them.
    fn found(mut self) -> Vec<Found<'c>> {
        let mut excepted = std::mem::take(&mut self.excepted);
        if !self.serves {
            for (host, by) in std::mem::take(&mut excepted) {
                self.served.entry(host).or_default().extend(by);
            }
        }
        let lost = condition(Code::ROUTE_HOST_TAKEN, &[&self.served, &self.named], self.message());
        let apart = text(&excepted, |names, hosts, is_one| {
            let (name, route) = if is_one { ("names", "routes") } else { ("name", "route") };
            format!(
                "{names} {name} these hosts more exactly and {route} their requests in its place: {hosts}"
            )
        });
        let apart = apart.map(|text| self.about_requests(text)).unwrap_or_default();
        let apart = condition(Code::ROUTE_HOST_EXCEPTED, &[&excepted], apart);
        lost.into_iter().chain(apart).collect()
    }
    fn message(&self) -> String {
        let served = text(&self.served, |names, hosts, is_one| {
            let verb = if is_one { "routes" } else { "route" };
            format!("{names} {verb} in its place the requests of every client of {hosts}")
        });
        let named = text(&self.named, |names, hosts, is_one| {
            let verb = if is_one { "names" } else { "name" };
            format!(
                "no client of {hosts} has its http routes: {names} {verb} the host more exactly, with routes for some clients or ports only"
            )
        });
        self.about_requests(served.into_iter().chain(named).collect::<Vec<_>>().join("; "))
    }
    /// Adds to a message what it is not about.
    fn about_requests(&self, message: String) -> String {
        if self.has_connections {
            format!("{message}; its tcp and tls routes apply nonetheless")
        } else {
            message
        }
    }
}

type ByHost<'c> = BTreeMap<String, BTreeSet<&'c PolicyKey>>;

/// Returns the condition of hosts that others serve; none without hosts.
fn condition<'c>(code: Code, hosts: &[&ByHost<'c>], message: String) -> Option<Found<'c>> {
    let by: BTreeSet<&'c PolicyKey> = hosts.iter().flat_map(|all| all.values()).flatten().copied().collect();
    (!by.is_empty()).then(|| Found(code, by.into_iter().collect(), message))
}

/// Whether requests of clients of a namespace to a service have the routes of a VirtualService.
pub(super) fn serves(view: &ServiceView, key: &PolicyKey, client: Option<&Namespace>) -> bool {
    let mut all = view.ports.iter().map(|port| &port.route.inputs);
    all.any(|inputs| Preceding::default().add(inputs, key, client).is_none())
}

/// Returns a sentence about hosts and those that precede; `None` without hosts.
fn text(
    all: &BTreeMap<String, BTreeSet<&PolicyKey>>,
    sentence: impl Fn(&str, &str, bool) -> String,
) -> Option<String> {
    let by: BTreeSet<&PolicyKey> = all.values().flatten().copied().collect();
    let names: Vec<String> = by.iter().map(ToString::to_string).collect();
    let hosts = named(all.keys().map(String::as_str));
    (!all.is_empty()).then(|| sentence(&named(names.iter().map(String::as_str)), &hosts, names.len() == 1))
}

/// Returns the namespaces whose clients may be served by different ones; `None` stands for all others.
fn namespaces<'a>(inputs: &'a RouteInputs, key: &'a PolicyKey) -> BTreeSet<Option<&'a Namespace>> {
    let named = inputs.virtual_services.iter().flat_map(|one| one.of.namespaces());
    named.map(Some).chain([None, Some(&key.namespace)]).collect()
}

impl<'c> Preceding<'c> {
    /// Adds those that precede in a namespace, none if it is not exported there; `None` if it serves some client.
    fn add(&mut self, inputs: &'c RouteInputs, key: &PolicyKey, namespace: Option<&Namespace>) -> Option<()> {
        let tier = |one: &'c HttpCandidate| Some((one.of.tier(namespace)?, one));
        let mut seen: Vec<(u8, &HttpCandidate)> = inputs.virtual_services.iter().filter_map(tier).collect();
        let own = seen.iter().find(|(_, one)| one.of.key == *key);
        let Some(own) = own.map(|(_, one)| one.host.specificity()) else { return Some(()) };
        seen.sort_by_key(|(tier, _)| *tier);
        let longest = seen.iter().map(|(_, one)| one.host.specificity()).max();
        self.is_equal |= Some(own) == longest;
        seen.retain(|(_, one)| Some(one.host.specificity()) == longest);
        let is_last = |one: &&HttpCandidate| one.of.key == *key || is_for_all(one);
        match seen.iter().find(|(_, one)| is_last(one)) {
            Some((_, first)) if first.of.key == *key => return None,
            Some((_, first)) => _ = self.serving.insert(&first.of.key),
            None => self.naming.extend(seen.iter().map(|(_, one)| &one.of.key)),
        }
        Some(())
    }
}

/// Whether every client has a route of one: conditions on ports and clients leave others without.
fn is_for_all(one: &HttpCandidate) -> bool {
    let is_any = |found: &HttpMatch| found.port.is_none() && found.clients.is_any();
    one.routes.iter().any(|route| route.matches.is_empty() || route.matches.iter().any(is_any))
}
