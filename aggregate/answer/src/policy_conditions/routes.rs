//! Conditions of VirtualServices: hosts that no service has or other VirtualServices serve, destinations that lead
//! nowhere or that some clients lack, routes behind others that take their requests or for ports that no service has,
//! delegates that are missing, and those that no client uses.
//!
//! The list of policies calls it once. Comparisons of a request are bounded by [`MAX_LOOKS`]; what is beyond has no
//! condition.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tributary_model::{
    Catalog, Code, Condition, HostPattern, HttpMatch, HttpRoute, PolicyKey, PolicyKind, PolicyView,
    VirtualService, Visibility,
};

use super::clients::{Concerned, Inhabited, inhabited, uninhabited};
use super::found::{Found, named};
use super::resolved::ResolvedServices;
use super::services::Services;
use super::{Beside, MAX_LOOKS};
use crate::steps::place;
use listening::Table;

mod delegates;
mod destinations;
mod listening;
mod order;
mod partly;
mod ports;
mod shadowed;
mod taken;
mod target;
mod withheld;

/// Conditions of VirtualServices.
pub(super) struct RouteConditions<'c> {
    catalog: &'c Catalog,
    beside: Beside<'c>,
    services: Services<'c>,
    resolved: ResolvedServices<'c>,
    /// Namespaces with clients; `None` while they are not known.
    inhabited: Option<Inhabited<'c>>,
    /// Delegates that some VirtualService names, with the VirtualServices that name them.
    delegates: BTreeMap<PolicyKey, Vec<(&'c PolicyKey, &'c VirtualService)>>,
    /// Tables of VirtualServices with hosts that were merged.
    tables: BTreeMap<&'c PolicyKey, Rc<Table<'c>>>,
    /// Comparisons so far.
    looks: Cell<usize>,
    /// Endpoints whose labels were compared so far.
    compared: Cell<usize>,
}

impl<'c> RouteConditions<'c> {
    /// Reads which delegates are named; nothing if no VirtualService is wanted.
    pub(super) fn new(catalog: &'c Catalog, beside: Beside<'c>, wanted: &dyn Fn(&PolicyKey) -> bool) -> Self {
        let services = Services::new(catalog, beside.elsewhere);
        let mut out = Self {
            catalog,
            beside,
            services,
            resolved: ResolvedServices::new(catalog, beside),
            inhabited: None,
            delegates: BTreeMap::new(),
            tables: BTreeMap::new(),
            looks: Cell::new(0),
            compared: Cell::new(0),
        };
        if catalog.policies.keys().any(|key| key.kind == PolicyKind::VirtualService && wanted(key)) {
            out.inhabited = inhabited(catalog, beside);
            let all = catalog.policies.iter().filter_map(|(key, view)| Some((key, view.virtual_service()?)));
            for (key, root) in all {
                for delegate in root.delegates().map(PolicyKey::from) {
                    out.delegates.entry(delegate).or_default().push((key, root));
                }
            }
        }
        out
    }
    /// Returns the conditions of a VirtualService.
    pub(super) fn of(&mut self, key: &'c PolicyKey, view: &'c PolicyView) -> Vec<Condition> {
        let Some(own) = view.virtual_service() else { return Vec::new() };
        if let Some(found) = self.without_clients(key, own) {
            return vec![found.condition(self.catalog, view)];
        }
        let mut found: Vec<Found<'c>> = self.lost_hosts(key, own).into_iter().collect();
        found.extend(self.taken(key, own));
        let listening = self.listening(key, own);
        let listening = listening.as_ref();
        let known = listening.and_then(|listening| listening.known.as_ref());
        found.extend(known.and_then(|known| ports::portless(own, known)));
        found.extend(self.lost_destinations(key, own, listening));
        found.extend(listening.and_then(|listening| self.partly_off(key, own, listening)));
        found.extend(listening.and_then(|listening| self.shadowed(key, own, listening)));
        found.extend(self.lost_delegates(key, own));
        found.extend(self.outside_routes(key, own));
        found.into_iter().map(|found| found.condition(self.catalog, view)).collect()
    }
    /// Counts comparisons; `None` beyond [`MAX_LOOKS`].
    fn look(&self, comparisons: usize) -> Option<()> {
        self.looks.set(self.looks.get().saturating_add(comparisons));
        (self.looks.get() <= MAX_LOOKS).then_some(())
    }
    fn completed(&self, key: &PolicyKey, host: &HostPattern) -> HostPattern {
        host.completed(key.namespace.as_str(), self.catalog.settings.domain())
    }
    fn without_clients(&self, key: &PolicyKey, own: &VirtualService) -> Option<Found<'c>> {
        let message = if own.is_delegate() {
            let is_named = self.delegates.contains_key(key);
            (!is_named).then(|| "it has no hosts, and no VirtualService names it as a delegate".to_owned())
        } else if !own.mesh {
            Some("its gateways do not name mesh, and gateways are not served".to_owned())
        } else {
            self.unexported(own)
        };
        message.map(|message| Found(Code::ROUTE_WITHOUT_CLIENTS, Vec::new(), message))
    }
    /// Returns the clients of a VirtualService; those of a delegate are those of all that name it.
    fn clients(&self, key: &PolicyKey, own: &VirtualService) -> Concerned {
        let of = |key: &PolicyKey, of: &VirtualService| {
            Concerned::of((&of.export, &key.namespace), self.inhabited.as_ref())
        };
        if !own.is_delegate() {
            return of(key, own);
        }
        let mut all = Concerned::default();
        let roots = self.delegates.get(key).into_iter().flatten();
        roots.filter(|(_, root)| root.mesh).for_each(|(key, root)| all.add(of(key, root)));
        all
    }
    /// Returns why no client is in a namespace that one is exported to.
    fn unexported(&self, own: &VirtualService) -> Option<String> {
        if own.export.resolve(&Visibility::Public) == Visibility::Hidden {
            return Some("its exportTo names no namespace".to_owned());
        }
        let empty = uninhabited(&own.export, self.inhabited.as_ref());
        let names = named(empty.iter().map(|namespace| namespace.as_str()));
        let message = || {
            format!("no known workload and no connected client is in a namespace of its exportTo: {names}")
        };
        (!empty.is_empty()).then(message)
    }
    fn lost_hosts(&mut self, key: &PolicyKey, own: &VirtualService) -> Option<Found<'c>> {
        let hosts: Vec<HostPattern> = own.hosts.iter().map(|host| self.completed(key, host)).collect();
        let services = &mut self.services;
        let mut is_lost = |host: &&HostPattern| !services.are_elsewhere(host) && services.of(host).is_empty();
        let lost: Vec<_> = hosts.iter().filter(&mut is_lost).collect();
        let parts: Vec<String> =
            lost.into_iter().map(|host| self.services.no_such_host(host.as_str())).collect();
        let message = named(parts.iter().map(String::as_str));
        (!parts.is_empty()).then(|| Found(Code::ROUTE_HOST_UNMATCHED, Vec::new(), message))
    }
}

fn matches_of<'r>(route: &'r HttpRoute, all: &'r [HttpMatch]) -> &'r [HttpMatch] {
    if route.matches.is_empty() { all } else { &route.matches }
}

#[cfg(test)]
mod tests;
