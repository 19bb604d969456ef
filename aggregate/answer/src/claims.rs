//! What a service claims in the route tables of one client: the domains by which its requests find it.
//!
//! An alias claims its own names for the virtual host of the service that it leads to, where the client sees the
//! alias and its Sidecar imports it on the port. Folds of route tables and the search for conflicts call it.

use std::sync::Arc;

use tributary_model::{Catalog, PortNumber, PortView, ServiceView};

use crate::client::ClientClass;
use crate::egress::PortSet;
use crate::key::key;
use crate::resolve::concrete;
use crate::route::{VirtualHostPlan, names_of, route};
use crate::scope::Scope;

/// Returns the service whose virtual hosts take the requests for the names of a resolved service, itself or the one
/// that it is an alias of, with the ports on which they may.
#[must_use]
pub fn routed_ports<'c>(
    catalog: &'c Catalog,
    view: &'c Arc<ServiceView>,
    scope: Scope<'_>,
) -> Option<(&'c Arc<ServiceView>, Vec<&'c PortView>)> {
    let end = concrete(catalog, view, scope, &mut ())?;
    let is_alias = !Arc::ptr_eq(end, view);
    let admits = |port: &&PortView| !is_alias || scope.admits(view, port, PortSet::Routed);
    Some((end, scope.ports(end, PortSet::Routed).filter(admits).collect()))
}

/// Claim of a service on domains of a port's route table.
#[derive(Debug, Clone)]
pub struct RouteClaim<'a> {
    /// Service that claims them.
    pub by: &'a Arc<ServiceView>,
    /// Service whose virtual host gets them.
    pub to: &'a Arc<ServiceView>,
    /// The virtual host, if the service claims the domains for its own.
    pub plan: Option<VirtualHostPlan>,
    /// Domains in lower case.
    pub domains: Vec<String>,
}

/// Returns what a resolved service claims, by port.
#[must_use]
pub fn route_claims<'c>(
    catalog: &'c Catalog,
    view: &'c Arc<ServiceView>,
    class: &ClientClass,
) -> Vec<(PortNumber, RouteClaim<'c>)> {
    let Some((end, ports)) = routed_ports(catalog, view, class.scope()) else { return Vec::new() };
    let claim = |port: &PortView| {
        let inputs = &port.route.inputs;
        let plan = route(inputs, &key(&port.route, class))?;
        let claim = if Arc::ptr_eq(end, view) {
            let domains = plan.claims().cloned().collect();
            RouteClaim { by: view, to: end, plan: Some(plan), domains }
        } else {
            let domains = names_of(&view.key.host, class.domain.as_deref(), inputs.headless);
            RouteClaim { by: view, to: end, plan: None, domains }
        };
        Some((port.number, claim))
    };
    ports.into_iter().filter_map(claim).collect()
}
