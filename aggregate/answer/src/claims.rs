//! What a host claims in the route tables of one client: the domains by which its requests find it.
//!
//! A service claims its names for its own virtual host. An alias claims its own names for the virtual host of the service
//! that it leads to, where the client sees the alias and its Sidecar imports it on the port; with a VirtualService it has a
//! virtual host of its own. A host without a service on port 80 has one there with the routes of the VirtualServices that
//! name it. Folds of route tables and the search for conflicts call it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tributary_model::{
    Catalog, Hostname, PortNumber, PortView, ResourceInputs, RouteInputs, ServiceView, Shared,
};

use crate::client::ClientClass;
use crate::egress::PortSet;
use crate::key::key;
use crate::members::hosts;
use crate::resolve::{concrete, own_routes, resolve};
use crate::route::{VirtualHostPlan, names_of, route};

/// The virtual host that has the domains which a host claims.
#[derive(Debug, Clone, Copy)]
pub struct HostClaim<'c> {
    /// Inputs of the virtual host.
    pub node: &'c Shared<ResourceInputs<RouteInputs>>,
    /// Whether the host is an alias of that virtual host's service.
    pub is_alias: bool,
}

impl<'c> HostClaim<'c> {
    /// Returns the host whose virtual host gets the domains.
    #[must_use]
    pub fn to(&self) -> &'c Hostname {
        &self.node.inputs.service.host
    }
    /// Plans the virtual host.
    #[must_use]
    pub fn plan(&self, class: &ClientClass) -> Option<VirtualHostPlan> {
        route(&self.node.inputs, &key(self.node, class))
    }
    /// Returns the domains that a host claims, in lower case.
    #[must_use]
    pub fn domains(&self, host: &Hostname, class: &ClientClass) -> Vec<String> {
        let Some(plan) = self.plan(class) else { return Vec::new() };
        if self.is_alias {
            return names_of(host, class.domain.as_deref(), self.node.inputs.headless);
        }
        plan.claims().cloned().collect()
    }
    fn same(&self, other: &Self) -> bool {
        self.is_alias == other.is_alias && self.node == other.node
    }
}

impl PartialEq for HostClaim<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

/// Returns what a resolved service claims, by port, itself or for the one that it is an alias of.
#[must_use]
pub fn service_claims<'c>(
    catalog: &'c Catalog,
    view: &'c Arc<ServiceView>,
    class: &ClientClass,
) -> BTreeMap<PortNumber, HostClaim<'c>> {
    let scope = class.scope();
    let mut out = BTreeMap::new();
    if let Some(end) = concrete(catalog, view, scope, &mut ()) {
        let is_alias = !Arc::ptr_eq(end, view);
        let admits = |port: &&PortView| !is_alias || scope.admits(view, port, PortSet::Routed);
        let ports = scope.ports(end, PortSet::Routed).filter(admits);
        out.extend(ports.map(|port| (port.number, HostClaim { node: &port.route, is_alias })));
    }
    if view.alias_target().is_some() {
        let own = scope.ports(view, PortSet::Routed).filter_map(|port| {
            let claim = HostClaim { node: &port.route, is_alias: false };
            claim.plan(class).map(|_| (port.number, claim))
        });
        out.extend(own);
    }
    out
}

/// Returns what a host claims, by port: for its service `view`, and on port 80 if that has no routes of its own there. Whether services match a
/// wildcard without one is for the caller to see ([`without_service`]).
#[must_use]
pub fn host_claims<'c>(
    catalog: &'c Catalog,
    host: &Hostname,
    view: Option<&'c Arc<ServiceView>>,
    class: &ClientClass,
) -> BTreeMap<PortNumber, HostClaim<'c>> {
    let mut out = view.map(|view| service_claims(catalog, view, class)).unwrap_or_default();
    let own = own_routes(catalog, host, class.scope()).filter(|_| !host.is_wildcard());
    let own = own.map(|node| HostClaim { node, is_alias: false });
    let routed = |claim: &HostClaim<'_>| !claim.is_alias && claim.plan(class).is_some();
    if !out.get(&PortNumber::HTTP).is_some_and(routed) {
        out.extend(own.filter(routed).map(|own| (PortNumber::HTTP, own)));
    }
    out
}

/// Returns the claim of a wildcard on port 80 if its own host has no service there.
#[must_use]
pub fn wildcard_claim<'c>(
    catalog: &'c Catalog,
    wildcard: &Hostname,
    class: &ClientClass,
) -> Option<HostClaim<'c>> {
    let node = own_routes(catalog, wildcard, class.scope())?;
    (!has_service(catalog, wildcard, class)).then_some(HostClaim { node, is_alias: false })
}

/// Whether a service has routes of requests to a host on port 80 for a client.
fn has_service(catalog: &Catalog, host: &Hostname, class: &ClientClass) -> bool {
    let view = resolve(catalog, host.as_str(), class.scope(), &mut ());
    let claims = view.map(|view| service_claims(catalog, view, class)).unwrap_or_default();
    claims.get(&PortNumber::HTTP).is_some_and(|claim| claim.plan(class).is_some())
}

/// Returns the wildcards with routes that match a host, or that a wildcard matches.
pub fn wildcards_beside<'c>(catalog: &'c Catalog, host: &Hostname) -> Vec<&'c Hostname> {
    let with_routes = |name: &str| {
        let (wildcard, entry) = catalog.hosts.get_key_value(name)?;
        entry.routes.is_some().then_some(wildcard)
    };
    let mut out: Vec<_> = tails(host.as_str()).filter_map(|tail| with_routes(&format!("*{tail}"))).collect();
    if host.is_wildcard() {
        let suffix = &host.as_str()[1..];
        let wildcards = catalog.hosts.iter().take_while(|(known, _)| known.is_wildcard());
        let within =
            wildcards.filter(|(known, entry)| entry.routes.is_some() && known.as_str().ends_with(suffix));
        out.extend(within.map(|(known, _)| known));
    }
    out
}

/// Returns the ends of a name, the longest first.
fn tails(name: &str) -> impl Iterator<Item = &str> {
    name.char_indices().filter_map(|(at, _)| name.get(at..)).filter(|tail| !tail.starts_with('*'))
}

/// Returns those of some wildcards that no service on port 80 matches for a client. Looks at every host once.
#[must_use]
pub fn without_service<'h>(
    catalog: &Catalog,
    wildcards: &BTreeSet<&'h Hostname>,
    class: &ClientClass,
) -> BTreeSet<&'h Hostname> {
    let mut left: HashMap<&str, &'h Hostname> =
        wildcards.iter().map(|wildcard| (&wildcard.as_str()[1..], *wildcard)).collect();
    let over = |wildcard: &Hostname| {
        let mut tails = tails(&wildcard.as_str()[1..]);
        tails.any(|tail| {
            Hostname::new(format!("*{tail}")).is_ok_and(|host| has_service(catalog, &host, class))
        })
    };
    left.retain(|_, wildcard| !over(wildcard));
    for host in hosts(catalog, class.scope()) {
        if left.is_empty() {
            break;
        }
        let matching: Vec<&str> = tails(host.as_str()).filter(|tail| left.contains_key(tail)).collect();
        if !matching.is_empty() && has_service(catalog, host, class) {
            left.retain(|suffix, _| !matching.contains(suffix));
        }
    }
    left.into_values().collect()
}

/// Claim of a host on domains of a port's route table.
#[derive(Debug, Clone)]
pub struct RouteClaim<'a> {
    /// Host that claims them.
    pub host: &'a Hostname,
    /// Its service; `None` for one without a service.
    pub by: Option<&'a Arc<ServiceView>>,
    /// Host whose virtual host gets them.
    pub to: &'a Hostname,
    /// Namespace of that host's service.
    pub namespace: &'a tributary_model::Namespace,
    /// The virtual host, if the host claims the domains for its own.
    pub plan: Option<VirtualHostPlan>,
    /// Domains in lower case.
    pub domains: Vec<String>,
}

impl<'a> RouteClaim<'a> {
    fn of(
        host: &'a Hostname,
        by: Option<&'a Arc<ServiceView>>,
        claim: HostClaim<'a>,
        class: &ClientClass,
    ) -> Option<Self> {
        let plan = claim.plan(class)?;
        let (domains, namespace) = (claim.domains(host, class), &claim.node.inputs.service.namespace);
        let plan = (!claim.is_alias).then_some(plan);
        Some(RouteClaim { host, by, to: claim.to(), namespace, plan, domains })
    }
}

/// Returns what all hosts claim in the route tables of a client, by port.
#[must_use]
pub fn route_claims<'c>(
    catalog: &'c Catalog,
    class: &ClientClass,
) -> BTreeMap<PortNumber, Vec<RouteClaim<'c>>> {
    let mut out: BTreeMap<PortNumber, Vec<RouteClaim<'_>>> = BTreeMap::new();
    let all = || -> BTreeSet<&'c Hostname> { catalog.hosts.keys().collect() };
    for host in all() {
        let view = resolve(catalog, host.as_str(), class.scope(), &mut ());
        for (port, claim) in host_claims(catalog, host, view, class) {
            let by = view.filter(|_| claim.node.inputs.has_service);
            out.entry(port).or_default().extend(RouteClaim::of(host, by, claim, class));
        }
    }
    let wildcards = all().into_iter().filter(|host| host.is_wildcard()).collect();
    for wildcard in without_service(catalog, &wildcards, class) {
        let claim = wildcard_claim(catalog, wildcard, class);
        let claim = claim.and_then(|claim| RouteClaim::of(wildcard, None, claim, class));
        out.entry(PortNumber::HTTP).or_default().extend(claim);
    }
    out
}
