//! Merges a VirtualService with its delegates, and orders those that a service's host matches.
//!
//! The build merges each changed VirtualService once; every service that it concerns shares the result.

use std::sync::Arc;

use tributary_model::{
    HostPattern, Hostname, HttpAction, HttpCandidate, HttpRoute, L4Candidate, L4Destination, L4Routes,
    Mirror, Policy, PolicyKey, RouteCandidate, RouteDestination, RouteOwner, ServiceKey, TcpRoute, TlsRoute,
    VirtualService, Visibility,
};

use crate::state::MergeContext;
use crate::state::policies::rank;
use crate::state::virtual_services::MergedVirtualService;

/// Merges a VirtualService; `None` unless it exists and its hosts are those of sidecars' requests.
pub(crate) fn merged(context: &MergeContext, key: &PolicyKey) -> Option<MergedVirtualService> {
    let own = first(context, key).filter(|own| own.mesh && !own.is_delegate())?;
    let names = Names { namespace: key.namespace.as_str(), domain: context.settings.effective.domain() };
    let mut delegates: Vec<PolicyKey> = Vec::new();
    let mut http: Vec<HttpRoute> = Vec::new();
    for route in own.http.iter() {
        let HttpAction::Delegate(to, _) = &route.action else {
            http.push(names.complete_http(route));
            continue;
        };
        let to = PolicyKey::from(to);
        let Some(delegate) = delegate(context, &to, key) else { continue };
        let names = Names { namespace: to.namespace.as_str(), ..names };
        http.extend(route.delegated(&delegate.http).iter().map(|route| names.complete_http(route)));
        if !delegates.contains(&to) {
            delegates.push(to);
        }
    }
    let owner = RouteOwner {
        key: key.clone(),
        visibility: own.export.resolve(&Visibility::Public),
        hosts: shared(&own.hosts, own.hosts.iter().map(|host| host.completed(names.namespace, names.domain))),
        delegates: delegates.into(),
    };
    let l4 = L4Routes {
        tls: shared(&own.tls, own.tls.iter().map(|route| names.complete_tls(route))),
        tcp: shared(&own.tcp, own.tcp.iter().map(|route| names.complete_tcp(route))),
    };
    let named = own.delegates().map(PolicyKey::from).collect();
    Some(MergedVirtualService { owner: Arc::new(owner), http: shared(&own.http, http), l4, named })
}

/// Returns what is declared if nothing in it was completed: most names have a dot, and the memory is shared then.
fn shared<T: PartialEq>(declared: &Arc<[T]>, completed: impl IntoIterator<Item = T>) -> Arc<[T]> {
    let completed: Vec<T> = completed.into_iter().collect();
    if completed[..] == declared[..] { Arc::clone(declared) } else { completed.into() }
}

fn first<'c>(context: &'c MergeContext, key: &PolicyKey) -> Option<&'c VirtualService> {
    let (_, declared) = context.policies.ranked(key, &context.shards).first().copied()?;
    match &declared.policy {
        Policy::VirtualService(own) => Some(own),
        Policy::Sidecar(_)
        | Policy::DestinationRule(_)
        | Policy::EnvoyFilter(_)
        | Policy::PeerAuthentication(_)
        | Policy::AuthorizationPolicy(_)
        | Policy::RequestAuthentication(_)
        | Policy::Gateway(_) => None,
    }
}

/// Returns a delegate, if it is one and the namespace of the VirtualService may use it.
fn delegate<'c>(context: &'c MergeContext, to: &PolicyKey, by: &PolicyKey) -> Option<&'c VirtualService> {
    first(context, to).filter(|own| own.is_delegate_for(&to.namespace, &by.namespace))
}

/// Completes names without a dot: they mean Kubernetes services of the namespace.
#[derive(Clone, Copy)]
struct Names<'a> {
    namespace: &'a str,
    domain: &'a str,
}

impl Names<'_> {
    fn complete_http(self, route: &HttpRoute) -> HttpRoute {
        let mut out = route.clone();
        if let HttpAction::Route(all) = &mut out.action {
            self.complete_all(all, |weighted| &mut weighted.destination);
        }
        let of_mirror =
            |mirror: &Mirror| Mirror { destination: self.complete(&mirror.destination), ..mirror.clone() };
        if let Some(mirroring) = out.settings.mirroring.as_mut().map(Arc::make_mut) {
            mirroring.first = mirroring.first.as_ref().map(of_mirror);
            if let Some(others) = &mut mirroring.others {
                self.complete_all(others, |mirror| &mut mirror.destination);
            }
        }
        out
    }
    fn complete_tls(self, route: &TlsRoute) -> TlsRoute {
        TlsRoute { destinations: self.complete_l4(&route.destinations), ..route.clone() }
    }
    fn complete_tcp(self, route: &TcpRoute) -> TcpRoute {
        TcpRoute { destinations: self.complete_l4(&route.destinations), ..route.clone() }
    }
    fn complete_l4(self, destinations: &Arc<[L4Destination]>) -> Arc<[L4Destination]> {
        let mut out = Arc::clone(destinations);
        self.complete_all(&mut out, |weighted| &mut weighted.destination);
        out
    }
    fn complete_all<T: Clone + PartialEq>(
        self,
        all: &mut Arc<[T]>,
        of: impl Fn(&mut T) -> &mut RouteDestination,
    ) {
        let complete = |one: &T| {
            let mut out = one.clone();
            let destination = of(&mut out);
            *destination = self.complete(destination);
            out
        };
        *all = shared(all, all.iter().map(complete));
    }
    fn complete(self, to: &RouteDestination) -> RouteDestination {
        RouteDestination { host: to.host.completed(self.namespace, self.domain), ..to.clone() }
    }
}

/// VirtualServices of a service, in order of precedence.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// With routes of requests; empty if none has any.
    pub(crate) http: Vec<HttpCandidate>,
    /// Those with routes of connections.
    pub(crate) l4: Vec<L4Candidate>,
}

/// Returns the VirtualServices of which a host matches that of a service.
pub(crate) fn candidates(context: &MergeContext, service: &ServiceKey) -> Candidates {
    if context.virtual_services.is_empty() {
        return Candidates::default();
    }
    let mut out = Candidates::default();
    for merged in in_order(context, context.virtual_services.matching(&service.host)) {
        let matching = merged.owner.hosts.iter().filter(|pattern| pattern.matches(&service.host));
        let Some(host) = matching.max_by_key(|pattern| pattern.specificity()) else { continue };
        // one without routes of requests still takes the host from those with a less specific host
        out.http.push(candidate(merged, host, Arc::clone(&merged.http)));
        if merged.l4 != L4Routes::default() {
            out.l4.push(candidate(merged, host, merged.l4.clone()));
        }
    }
    if out.http.iter().all(|candidate| candidate.routes.is_empty()) {
        out.http.clear();
    }
    out
}

/// Returns the VirtualServices with routes of requests of which a host is this one, a wildcard included, in order of
/// precedence.
pub(crate) fn naming(context: &MergeContext, host: &Hostname) -> Vec<HttpCandidate> {
    let found = context.virtual_services.naming_host(host).filter(|merged| !merged.http.is_empty());
    let pattern = HostPattern::from(host.clone());
    let own = |merged: &Arc<MergedVirtualService>| candidate(merged, &pattern, Arc::clone(&merged.http));
    in_order(context, found).into_iter().map(own).collect()
}

/// Sorts VirtualServices by precedence.
fn in_order<'c>(
    context: &'c MergeContext,
    found: impl IntoIterator<Item = &'c Arc<MergedVirtualService>>,
) -> Vec<&'c Arc<MergedVirtualService>> {
    let ranked = found.into_iter().filter_map(|merged| {
        let first = context.policies.ranked(&merged.owner.key, &context.shards).first().copied()?;
        Some((rank(first), merged))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|(a, _), (b, _)| a.order_by_name(b));
    ranked.into_iter().map(|(_, merged)| merged).collect()
}

fn candidate<R>(merged: &MergedVirtualService, host: &HostPattern, routes: R) -> RouteCandidate<R> {
    RouteCandidate { of: Arc::clone(&merged.owner), host: host.clone(), routes }
}
