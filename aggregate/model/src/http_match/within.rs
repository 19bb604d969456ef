//! Whether a condition lies within another one, as routes of delegates must.
//!
//! The core merges delegates with it, and conditions of VirtualServices name what it leaves out. As in Istio, two parts that cannot be
//! compared, such as a pattern beside any other text, count as not within.

use std::sync::Arc;

use super::{ClientMatch, GatewayMatch, HttpMatch, TextMatch};

type Named = [(Arc<str>, TextMatch)];

impl HttpMatch {
    /// Whether this condition of a delegate's route lies within that of the route that names the delegate.
    #[must_use]
    pub fn is_within(&self, outer: &Self) -> bool {
        let texts = [
            (&self.uri, &outer.uri),
            (&self.scheme, &outer.scheme),
            (&self.method, &outer.method),
            (&self.authority, &outer.authority),
        ];
        let named = [
            (&self.headers, &outer.headers),
            (&self.without_headers, &outer.without_headers),
            (&self.query, &outer.query),
        ];
        let fits = |inner: &Named, outer: &Named| {
            inner.iter().all(|(name, text)| text_is_within(Some(text), find(outer, name)))
        };
        texts.iter().all(|(inner, outer)| text_is_within(inner.as_ref(), outer.as_ref()))
            && named.iter().all(|(inner, outer)| fits(inner, outer))
            && self.ignores_uri_case == outer.ignores_uri_case
            && (self.port.is_none() || outer.port.is_none() || self.port == outer.port)
            && clients_are_within(&self.clients, &outer.clients)
    }
}

fn find<'a>(all: &'a Named, name: &str) -> Option<&'a TextMatch> {
    all.iter().find(|(own, _)| **own == *name).map(|(_, text)| text)
}

fn text_is_within(inner: Option<&TextMatch>, outer: Option<&TextMatch>) -> bool {
    let (Some(inner), Some(outer)) = (inner, outer) else { return true };
    match (inner, outer) {
        (TextMatch::Exact(inner), TextMatch::Exact(outer)) => !outer.is_empty() && inner == outer,
        (TextMatch::Exact(inner) | TextMatch::Prefix(inner), TextMatch::Prefix(outer)) => {
            !outer.is_empty() && inner.starts_with(&**outer)
        }
        _ => false,
    }
}

fn clients_are_within(inner: &ClientMatch, outer: &ClientMatch) -> bool {
    let same_label =
        |(key, value): (&Arc<str>, &Arc<str>)| outer.labels.get(key).is_none_or(|outer| *outer == **value);
    // gateways without sidecars are within those with them, for all that is known here
    let gateways = (outer.gateways, inner.gateways) != (GatewayMatch::Other, GatewayMatch::Mesh);
    gateways
        && (outer.namespace.is_none() || inner.namespace == outer.namespace)
        && inner.labels.pairs().all(same_label)
}
