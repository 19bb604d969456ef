//! Plans the routes of a virtual host from the HTTP routes of a VirtualService (`docs/reference/xds.md`).
//!
//! `route` calls it once the VirtualService of a client is chosen. Names are completed and delegates merged before; what
//! the client decides, it learns from [`RouteContext::applies`]. The plans have the order of the matches, in which a
//! proxy tries them.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Cors, DelegateRef, DirectResponse, FaultInjection, HashKey, HeaderChanges, Hostname, HttpAction,
    HttpMatch, HttpRetries, HttpRoute, PathRewrite, PortNumber, Redirect, RedirectPort, RequestShare,
    RouteDestination, RouteRetries, RouteSettings, WeightedDestination,
};

use crate::names::ClusterName;

/// Status of requests that no destination takes.
const NO_DESTINATION: u16 = 503;

/// Routes of a virtual host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Routes {
    /// One route for all requests, to the service's own xDS cluster.
    #[default]
    Default,
    /// Those of a VirtualService, in order. A request that matches none is not served.
    Of(Arc<[RoutePlan]>),
}

/// Route of a virtual host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RoutePlan {
    /// Name; may be empty.
    pub name: Arc<str>,
    /// Conditions on requests. Those on clients and ports are fulfilled.
    pub found: HttpMatch,
    /// What happens to requests.
    pub action: RouteAction,
    /// Changes of headers, in the order in which they apply.
    pub headers: Vec<Arc<HeaderChanges>>,
    /// Deliberate errors.
    pub fault: Option<Arc<FaultInjection>>,
    /// Cross-origin requests.
    pub cors: Option<Arc<Cors>>,
    /// Delegate that declares it; `None` if its VirtualService does.
    pub delegate: Option<Arc<DelegateRef>>,
}

impl RoutePlan {
    /// Returns the xDS clusters that receive its requests; copies are not requests.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterName> {
        let (one, weighted): (_, &[WeightedTarget]) = match &self.action {
            RouteAction::Forward(Forward { targets: Targets::One(to), .. }) => (Some(to), &[]),
            RouteAction::Forward(Forward { targets: Targets::Weighted(all), .. }) => (None, all),
            RouteAction::Redirect(..) | RouteAction::Respond(_) => (None, &[]),
        };
        one.into_iter().chain(weighted.iter().map(|to| &to.cluster))
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RouteAction {
    /// It goes to a service.
    Forward(Forward),
    /// The client is sent elsewhere; to this port, or else the usual one of the scheme.
    Redirect(Arc<Redirect>, Option<PortNumber>),
    /// The proxy answers.
    Respond(Arc<DirectResponse>),
}

/// How requests go to services.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Forward {
    /// Receivers.
    pub targets: Targets,
    /// Change of the path.
    pub path: Option<PathRewrite>,
    /// Host that requests get; wins over that of a target.
    pub authority: Option<Arc<str>>,
    /// Longest duration of a request; no limit if absent.
    pub timeout: Option<Duration>,
    /// Retries; the usual ones if absent.
    pub retries: Option<Arc<HttpRetries>>,
    /// xDS clusters that receive copies, with the share of requests that are copied, which is never none.
    pub mirrors: Vec<(ClusterName, RequestShare)>,
    /// Properties of requests that decide their endpoint, in order.
    pub hash: Vec<Arc<HashKey>>,
}

/// Receivers of requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Targets {
    /// One xDS cluster.
    One(ClusterName),
    /// At least one, each with a weight above 0.
    Weighted(Vec<WeightedTarget>),
}

/// Receiver of a share of requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedTarget {
    /// xDS cluster. Several may be the same.
    pub cluster: ClusterName,
    /// Share in relation to the other weights.
    pub weight: u32,
    /// Changes of headers.
    pub headers: Option<Arc<HeaderChanges>>,
}

/// What a destination leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host of the service; that of the destination if no service has it.
    pub host: Hostname,
    /// Property of requests that decides their endpoint.
    pub hash: Option<Arc<HashKey>>,
}

impl Target {
    /// Returns the target of a destination that is neither an alias nor has a hash.
    #[must_use]
    pub fn of(destination: &RouteDestination) -> Self {
        Self { host: destination.host.clone(), hash: None }
    }
}

/// What the routes of a VirtualService depend on beside it.
#[derive(Clone, Copy)]
pub struct RouteContext<'a> {
    /// Port of the route table.
    pub port: PortNumber,
    /// Retries of the mesh; the usual ones if absent.
    pub retries: Option<&'a Arc<HttpRetries>>,
    /// Whether the client fulfils the conditions of a match on it. The number is the position of the match among those
    /// of all routes.
    pub applies: &'a dyn Fn(usize, &HttpMatch) -> bool,
    /// Finds what a destination leads to.
    pub resolve: &'a dyn Fn(&RouteDestination) -> Target,
}

impl std::fmt::Debug for RouteContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteContext").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Plans the routes for a client and port; none if no match applies. What follows a route for every request serves none
/// and is left out, as is a route whose delegate is missing.
#[must_use]
pub fn http_routes(routes: &[HttpRoute], context: &RouteContext<'_>) -> Vec<RoutePlan> {
    declared_routes(routes, context).into_iter().map(|(_, plan)| plan).collect()
}

/// Plans what [`http_routes`] does, each route with the one that it is planned from.
pub(crate) fn declared_routes<'r>(
    routes: &'r [HttpRoute],
    context: &RouteContext<'_>,
) -> Vec<(&'r HttpRoute, RoutePlan)> {
    let any = HttpMatch::default();
    let mut plans = Vec::new();
    let mut at = 0;
    for route in routes {
        let first = at;
        at += route.matches.len();
        let everything = route.matches.is_empty().then_some(&any);
        let admitted = route.matches.iter().enumerate().filter(|(of, found)| {
            found.port.is_none_or(|port| port == context.port) && (context.applies)(first + of, found)
        });
        for found in admitted.map(|(_, found)| found).chain(everything) {
            let Some(plan) = plan(route, found, context) else { break };
            plans.push((route, plan));
            if found.is_catch_all() {
                return plans;
            }
        }
    }
    plans
}

fn plan(route: &HttpRoute, found: &HttpMatch, context: &RouteContext<'_>) -> Option<RoutePlan> {
    let settings = &route.settings;
    let mut headers: Vec<_> = settings.headers.iter().cloned().collect();
    let action = match &route.action {
        HttpAction::Route(destinations) => {
            if let [only] = &**destinations {
                headers.extend(only.headers.clone());
            }
            forward(destinations, settings, context)
        }
        HttpAction::Redirect(redirect) => {
            RouteAction::Redirect(Arc::clone(redirect), redirect_port(redirect, context.port))
        }
        HttpAction::Respond(response) => RouteAction::Respond(Arc::clone(response)),
        HttpAction::Delegate(..) => return None,
    };
    let (fault, cors, delegate) = (settings.fault.clone(), settings.cors.clone(), route.delegate.clone());
    Some(RoutePlan {
        name: route.name_of(found),
        found: found.clone(),
        action,
        headers,
        fault,
        cors,
        delegate,
    })
}

fn forward(
    destinations: &[WeightedDestination],
    settings: &RouteSettings,
    context: &RouteContext<'_>,
) -> RouteAction {
    let receiving = destinations.iter().filter(|to| destinations.len() == 1 || to.weight > 0);
    let resolved: Vec<_> = receiving.map(|to| (to, (context.resolve)(&to.destination))).collect();
    let hash: Vec<_> = resolved.iter().filter_map(|(_, target)| target.hash.clone()).collect();
    let keeps_host = destinations.len() == 1 && !hash.is_empty();
    let rewrite = settings.rewrite.as_deref();
    let targets = match &*resolved {
        [] => return RouteAction::Respond(Arc::new(DirectResponse { status: NO_DESTINATION, body: None })),
        [(to, target)] if destinations.len() == 1 => {
            Targets::One(cluster_of(&to.destination, target, context.port))
        }
        several => Targets::Weighted(several.iter().map(|found| weighted(found, context.port)).collect()),
    };
    RouteAction::Forward(Forward {
        targets,
        path: rewrite.and_then(|rewrite| rewrite.path.clone()),
        authority: authority(destinations, settings),
        timeout: settings.timeout,
        retries: retries(settings.retries.as_deref(), context.retries, keeps_host),
        mirrors: mirrors(settings, context),
        hash,
    })
}

fn weighted((to, target): &(&WeightedDestination, Target), port: PortNumber) -> WeightedTarget {
    let cluster = cluster_of(&to.destination, target, port);
    WeightedTarget { cluster, weight: to.weight, headers: to.headers.clone() }
}

/// Names the xDS cluster of a destination, which need not exist. Without a port it has that of the route table.
fn cluster_of(to: &RouteDestination, target: &Target, port: PortNumber) -> ClusterName {
    ClusterName { subset: to.subset.clone(), ..ClusterName::new(to.port.unwrap_or(port), &target.host) }
}

/// Returns the host that requests get: that of the rewrite, else of the headers, else of the only destination.
fn authority(destinations: &[WeightedDestination], settings: &RouteSettings) -> Option<Arc<str>> {
    let of_headers = |headers: &Option<Arc<HeaderChanges>>| headers.as_ref()?.authority.clone();
    let of_rewrite = settings.rewrite.as_ref().and_then(|rewrite| rewrite.authority.clone());
    let only = if let [only] = destinations { of_headers(&only.headers) } else { None };
    let all = [of_rewrite, of_headers(&settings.headers), only];
    all.into_iter().flatten().find(|authority| !authority.is_empty())
}

/// Returns the retries of a route. Where a hash decides the only destination's endpoint, they prefer no other endpoint
/// unless the route declares it.
fn retries(
    own: Option<&RouteRetries>,
    mesh: Option<&Arc<HttpRetries>>,
    keeps_host: bool,
) -> Option<Arc<HttpRetries>> {
    let declared = own.is_some_and(|own| own.declares_other_hosts);
    let set = own.map(|own| Arc::new(own.retries.clone())).or_else(|| mesh.cloned());
    if declared || !keeps_host {
        return set;
    }
    let set = set.map_or_else(HttpRetries::default, |set| (*set).clone());
    Some(Arc::new(HttpRetries { other_hosts: false, ..set }))
}

fn mirrors(settings: &RouteSettings, context: &RouteContext<'_>) -> Vec<(ClusterName, RequestShare)> {
    let mirrored = settings.mirrors().filter(|mirror| mirror.share > RequestShare::NONE);
    let named = mirrored.map(|mirror| {
        let target = (context.resolve)(&mirror.destination);
        (cluster_of(&mirror.destination, &target, context.port), mirror.share)
    });
    named.collect()
}

/// Returns the port of a redirect; `None` for the usual one of its scheme.
fn redirect_port(redirect: &Redirect, listener: PortNumber) -> Option<PortNumber> {
    let port = match redirect.port {
        RedirectPort::Undeclared | RedirectPort::OfScheme => None,
        RedirectPort::OfListener => Some(listener),
        RedirectPort::Number(number) => Some(number),
    };
    let usual = match redirect.scheme.as_deref() {
        None | Some("http" | "") => Some(80),
        Some("https") => Some(443),
        Some(_) => None,
    };
    port.filter(|port| Some(port.get()) != usual)
}

#[cfg(test)]
mod tests;
