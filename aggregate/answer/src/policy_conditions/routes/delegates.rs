//! Delegates of a VirtualService whose routes are left out: all of them, or those with conditions outside the root's.

use tributary_model::{Code, HttpAction, HttpRoute, PolicyKey, VirtualService};

use super::{Found, RouteConditions, matches_of, named, place};

impl<'c> RouteConditions<'c> {
    /// Returns the condition of delegates that cannot be used.
    pub(super) fn lost_delegates(&self, key: &PolicyKey, own: &VirtualService) -> Option<Found<'c>> {
        let lost = own.delegates().filter_map(|to| {
            let name = format!("{}/{}", to.namespace, to.name);
            Some(format!("{name} ({})", self.usable(key, &PolicyKey::from(to)).err()?))
        });
        let parts: Vec<String> = lost.collect();
        let message =
            || format!("routes to these delegates are left out: {}", named(parts.iter().map(String::as_str)));
        (!parts.is_empty()).then(|| Found(Code::ROUTE_DELEGATE_UNMATCHED, Vec::new(), message()))
    }
    /// Returns the condition of routes of delegates that lie outside the routes that name the delegates.
    pub(super) fn outside_routes(&self, key: &PolicyKey, own: &VirtualService) -> Option<Found<'c>> {
        let mut parts = Vec::new();
        for (at, root) in own.http.iter().enumerate() {
            let HttpAction::Delegate(to, _) = &root.action else { continue };
            let Ok(delegate) = self.usable(key, &PolicyKey::from(to)) else { continue };
            let lost = delegate.http.iter().enumerate().filter(|(_, route)| is_outside(route, root));
            parts.extend(lost.map(|(lost, route)| {
                let (inner, outer) = (place("http", lost, &route.name), place("http", at, &root.name));
                format!("{inner} of {}/{} (in {outer})", to.namespace, to.name)
            }));
        }
        let message = || {
            let parts = named(parts.iter().map(String::as_str));
            format!(
                "routes of delegates are left out, because a match of each lies within none of the route that names the delegate: {parts}"
            )
        };
        (!parts.is_empty()).then(|| Found(Code::ROUTE_DELEGATE_OUTSIDE, Vec::new(), message()))
    }
    /// Returns a delegate, or why it cannot be used.
    pub(super) fn usable(&self, by: &PolicyKey, to: &PolicyKey) -> Result<&'c VirtualService, &'static str> {
        let view = self.catalog.policies.get(to);
        let Some(delegate) = view.and_then(|view| view.virtual_service()) else {
            return Err("it does not exist, or no version of it is valid");
        };
        if !delegate.is_delegate() {
            return Err("it has hosts");
        }
        if delegate.is_delegate_for(&to.namespace, &by.namespace) {
            Ok(delegate)
        } else {
            Err("it is not exported to this namespace")
        }
    }
}

/// Whether a delegate's route has a condition that lies within none of the root's.
fn is_outside(route: &HttpRoute, root: &HttpRoute) -> bool {
    let roots = matches_of(root, &[]);
    !roots.is_empty() && route.matches.iter().any(|own| !roots.iter().any(|outer| own.is_within(outer)))
}
