//! The routes of a delegate in the place of the route that names it.
//!
//! As in Istio, each condition of a delegate must lie within one of the route's; a delegate's route with a condition
//! that lies within none is left out, which is a condition of the VirtualService. The core merges delegates with it, and
//! conditions of delegates follow from its result.

use std::sync::Arc;

use super::{DirectResponse, HttpAction, HttpRoute, RoutePosition};
use crate::http_match::{ClientMatch, GatewayMatch, HttpMatch, TextMatch};
use crate::virtual_service::DelegateRef;

/// Most conditions of one route: a delegate multiplies them.
const MOST_MATCHES: usize = 4096;

impl HttpRoute {
    /// Returns the routes of its delegate as it takes them; none unless it names a delegate.
    #[must_use]
    pub fn delegated(&self, routes: &[Self]) -> Vec<Self> {
        let HttpAction::Delegate(to, answer) = &self.action else { return Vec::new() };
        let delegate = Arc::new(to.clone());
        routes.iter().filter_map(|own| delegated_route((self, answer.as_ref()), own, &delegate)).collect()
    }
}

fn delegated_route(
    (root, answer): (&HttpRoute, Option<&Arc<DirectResponse>>),
    own: &HttpRoute,
    delegate: &Arc<DelegateRef>,
) -> Option<HttpRoute> {
    Some(HttpRoute {
        name: joined(&root.name, &own.name),
        matches: matches(&root.matches, &own.matches)?,
        action: action(answer, &own.action)?,
        settings: own.settings.over(&root.settings),
        delegate: Some(Arc::clone(delegate)),
        position: RoutePosition { own: root.position.own, in_delegate: own.position.own },
    })
}

/// Returns both names; only one if the other is empty.
fn joined(root: &Arc<str>, own: &Arc<str>) -> Arc<str> {
    match (&**root, &**own) {
        ("", _) => Arc::clone(own),
        (_, "") => Arc::clone(root),
        (root, own) => format!("{root}-{own}").into(),
    }
}

/// An answer of the root takes the place of destinations. A delegate has no delegates.
fn action(answer: Option<&Arc<DirectResponse>>, own: &HttpAction) -> Option<HttpAction> {
    match (own, answer) {
        (HttpAction::Delegate(..), _) => None,
        (HttpAction::Route(_), Some(answer)) => Some(HttpAction::Respond(Arc::clone(answer))),
        _ => Some(own.clone()),
    }
}

/// Returns every pair of a delegate's condition and one of the root that it lies within; `None` if one lies within none,
/// or there are too many.
fn matches(root: &Arc<[HttpMatch]>, own: &Arc<[HttpMatch]>) -> Option<Arc<[HttpMatch]>> {
    if root.is_empty() || own.is_empty() {
        return Some(Arc::clone(if root.is_empty() { own } else { root }));
    }
    let mut out = Vec::new();
    for inner in own.iter() {
        let before = out.len();
        out.extend(root.iter().filter(|outer| inner.is_within(outer)).map(|outer| united(inner, outer)));
        if out.len() == before || out.len() > MOST_MATCHES {
            return None;
        }
    }
    Some(out.into())
}

type Named = [(Arc<str>, TextMatch)];

/// Returns a condition with the parts of both; those of the inner one precede.
fn united(inner: &HttpMatch, outer: &HttpMatch) -> HttpMatch {
    let text = |inner: &Option<TextMatch>, outer: &Option<TextMatch>| inner.clone().or_else(|| outer.clone());
    let (own, above) = (&inner.clients, &outer.clients);
    let gateways = if own.gateways == GatewayMatch::Undeclared { above.gateways } else { own.gateways };
    HttpMatch {
        name: joined(&outer.name, &inner.name),
        uri: text(&inner.uri, &outer.uri),
        ignores_uri_case: inner.ignores_uri_case,
        scheme: text(&inner.scheme, &outer.scheme),
        method: text(&inner.method, &outer.method),
        authority: text(&inner.authority, &outer.authority),
        headers: all_named(&inner.headers, &outer.headers),
        without_headers: all_named(&inner.without_headers, &outer.without_headers),
        query: all_named(&inner.query, &outer.query),
        port: inner.port.or(outer.port),
        clients: ClientMatch {
            labels: above.labels.pairs().chain(own.labels.pairs()).map(pair).collect(),
            namespace: own.namespace.clone().or_else(|| above.namespace.clone()),
            gateways,
        },
        stat_prefix: Arc::clone(if inner.stat_prefix.is_empty() {
            &outer.stat_prefix
        } else {
            &inner.stat_prefix
        }),
    }
}

fn pair((key, value): (&Arc<str>, &Arc<str>)) -> (Arc<str>, Arc<str>) {
    (Arc::clone(key), Arc::clone(value))
}

fn all_named(inner: &Arc<Named>, outer: &Arc<Named>) -> Arc<Named> {
    if outer.is_empty() {
        return Arc::clone(inner);
    }
    let above = outer.iter().filter(|(name, _)| !inner.iter().any(|(own, _)| own == name));
    let mut out: Vec<_> = inner.iter().chain(above).cloned().collect();
    out.sort_by(|(a, _), (b, _)| a.cmp(b));
    out.into()
}
