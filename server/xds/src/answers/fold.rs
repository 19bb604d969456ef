//! Functions that folds of composites share: precedence of claims, and changes.
//!
//! A fold advances the tables of one generation to another for one class, or those of a base to its overlay
//! within one generation. It reads only where it starts and where it ends, so the result does not depend on the
//! generations in between.

use std::cmp::Ordering;
use std::sync::Arc;

use tributary_answer::members::Difference;
use tributary_answer::{ClusterName, PortSet, Scope, differing, key, own_routes, precedence, resolve, route};
use tributary_model::{
    Catalog, ClientKind, Hostname, OutboundMode, PortNumber, PortView, ResourceInputs, RouteInputs,
    ServiceView, Shared,
};

use super::layer::Layer;
use super::store::Store;
use super::{ClientClassKey, ResourceType};
use crate::encode::defaults::{Defaults, Handling};
use crate::encode::route::Unclaimed;

/// Inputs of a fold beside the tables: the store of encoded resources, the class and the catalog.
#[derive(Clone, Copy)]
pub(crate) struct Fold<'a> {
    pub(crate) store: &'a Store,
    pub(crate) class: &'a ClientClassKey,
    pub(crate) catalog: &'a Catalog,
}

/// Where a fold starts: the tables of a class in a generation.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) class: &'a ClientClassKey,
    /// The overlay to fold; without one, the fold is from another generation of the same class.
    overlay: Option<&'a Layer>,
}

impl<'a> Start<'a> {
    /// Starts from another generation of the same class.
    pub(crate) fn earlier(catalog: &'a Catalog, class: &'a ClientClassKey) -> Self {
        Self { catalog, class, overlay: None }
    }
    /// Starts from the base of a class in the same generation.
    pub(crate) fn base(catalog: &'a Catalog, layer: &'a Layer) -> Self {
        Self { catalog, class: &layer.base, overlay: Some(layer) }
    }
    /// Whether equal inputs give both ends the same.
    pub(crate) const fn is_same_class(&self) -> bool {
        self.overlay.is_none()
    }
    /// Returns the hosts that may differ at the end.
    pub(crate) fn differences(&self, to: Fold<'a>) -> Vec<Difference<'a>> {
        let Some(layer) = self.overlay else {
            return differing(self.catalog, to.catalog, to.scope()).collect();
        };
        let difference =
            |host: &'a Hostname| Difference { host, before: self.view(host), after: to.view(host) };
        layer.hosts().map(difference).collect()
    }
    /// Returns the service that a host means at the start.
    pub(crate) fn view(&self, host: &Hostname) -> Option<&'a Arc<ServiceView>> {
        resolve(self.catalog, host.as_str(), self.class.scope(), &mut ())
    }
}

impl<'a> Fold<'a> {
    /// Returns what the class may see.
    pub(crate) fn scope(&self) -> Scope<'a> {
        self.class.scope()
    }
    /// Returns the service that a host means to the class.
    pub(crate) fn view(&self, host: &Hostname) -> Option<&'a Arc<ServiceView>> {
        resolve(self.catalog, host.as_str(), self.scope(), &mut ())
    }
    /// Returns the inputs of a host's own part of a route table, if it may have one.
    pub(crate) fn node(
        &self,
        host: &Hostname,
        number: PortNumber,
    ) -> Option<&'a Shared<ResourceInputs<RouteInputs>>> {
        let of_port = |view: &'a Arc<ServiceView>| {
            let admits = |port: &&PortView| self.scope().admits(view, port, PortSet::Routed);
            view.port(number).filter(admits).map(|port| &port.route)
        };
        let service = self.view(host).and_then(of_port);
        let own = own_routes(self.catalog, host, self.scope()).filter(|_| number == PortNumber::HTTP);
        let routed = |node: &&'a Shared<ResourceInputs<RouteInputs>>| {
            own.is_none() || route(&node.inputs, &key(node, self.class)).is_some()
        };
        service.filter(routed).or(own)
    }
    /// Compares the precedence of two hosts' claims.
    pub(crate) fn order(&self, a: &Hostname, b: &Hostname) -> Ordering {
        order(a, self.view(a), b, self.view(b))
    }
    /// Returns the handling of traffic that matches no service.
    pub(crate) fn unclaimed(&self) -> Unclaimed {
        unclaimed(self.catalog, self.class)
    }
    /// Returns the mesh-wide values of listeners.
    pub(crate) fn listener_defaults(&self) -> Defaults {
        defaults(self.catalog, self.class, ResourceType::Listener)
    }
}

/// Returns the handling of traffic that matches no service: that of the client's Sidecar, else the mesh's. An egress proxy
/// is named whether or not the client has its xDS cluster: without it, the traffic fails and does not pass.
pub(crate) fn unclaimed(catalog: &Catalog, class: &ClientClassKey) -> Unclaimed {
    match class.sidecar.as_ref().and_then(|sidecar| sidecar.outbound.as_ref()) {
        Some(OutboundMode::AllowAny) => Unclaimed::Pass,
        Some(OutboundMode::RegistryOnly) => Unclaimed::Block,
        Some(OutboundMode::Proxy(proxy)) => Unclaimed::To(ClusterName::new(proxy.port, &proxy.host)),
        None if catalog.settings.block_unknown == Some(true) => Unclaimed::Block,
        None => Unclaimed::Pass,
    }
}

/// Returns the mesh-wide values that a set of this type depends on. Routes of tables have theirs in their inputs.
pub(crate) fn defaults(catalog: &Catalog, class: &ClientClassKey, kind: ResourceType) -> Defaults {
    let handles = matches!(kind, ResourceType::Listener | ResourceType::Route);
    let usual = Defaults::new(if handles { unclaimed(catalog, class) } else { Unclaimed::Pass });
    let has_listeners = matches!(class.kind, ClientKind::Sidecar | ClientKind::Router);
    if kind != ResourceType::Listener || !has_listeners {
        return usual;
    }
    Defaults { retries: catalog.settings.http_retries.clone(), handling: handling(catalog), ..usual }
}

/// Returns the reports of the requests and connections of sidecars.
pub(crate) fn handling(catalog: &Catalog) -> Handling {
    let log = catalog.settings.access_log.clone().filter(|log| !log.file.is_empty());
    let tracing = catalog.settings.tracing.clone().filter(|tracing| tracing.enabled);
    let paths = catalog.settings.path_normalization.unwrap_or_default();
    Handling { log, tracing, paths }
}

/// Compares the precedence of two hosts' claims. Only a host of the generation claims anything; the
/// order is total in every case.
pub(crate) fn order(
    a: &Hostname,
    view_a: Option<&Arc<ServiceView>>,
    b: &Hostname,
    view_b: Option<&Arc<ServiceView>>,
) -> Ordering {
    let by_view = match (view_a, view_b) {
        (Some(a), Some(b)) => precedence(a, b),
        (first, second) => second.is_some().cmp(&first.is_some()),
    };
    by_view.then_with(|| a.cmp(b))
}

/// Whether the precedence of a service's claims changed, though its ports may be unchanged.
pub(crate) fn moved(difference: &Difference<'_>) -> bool {
    match (difference.before.and_then(|v| v.first()), difference.after.and_then(|v| v.first())) {
        (Some(before), Some(after)) => before.precedence_key().order(&after.precedence_key()).is_ne(),
        (None, None) => false,
        _ => true,
    }
}
