//! Conditions under which a route of a VirtualService serves an HTTP request.
//!
//! Adapters build these values after validation. The answer of a client decides the conditions on the client itself,
//! which are its port, labels, namespace and gateway; a proxy decides the others.

mod within;

use std::sync::Arc;

use crate::id::Namespace;
use crate::labels::Labels;
use crate::port::PortNumber;

/// Conditions that a request must all fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct HttpMatch {
    /// Name; may be empty.
    pub name: Arc<str>,
    /// Path; any if absent. Never [`TextMatch::Present`].
    pub uri: Option<TextMatch>,
    /// Whether upper and lower case of the path are alike.
    pub ignores_uri_case: bool,
    /// Scheme.
    pub scheme: Option<TextMatch>,
    /// Method.
    pub method: Option<TextMatch>,
    /// Host of the request.
    pub authority: Option<TextMatch>,
    /// Headers that fulfil a condition, sorted by name; names keep their case.
    pub headers: Arc<[(Arc<str>, TextMatch)]>,
    /// Headers that do not fulfil a condition, sorted by name. A missing header is like an empty one, but does not
    /// count as present.
    pub without_headers: Arc<[(Arc<str>, TextMatch)]>,
    /// Parameters of the query, sorted by name.
    pub query: Arc<[(Arc<str>, TextMatch)]>,
    /// Port of the listener.
    pub port: Option<PortNumber>,
    /// Clients.
    pub clients: ClientMatch,
    /// Name of the statistics; may be empty.
    pub stat_prefix: Arc<str>,
}

impl HttpMatch {
    /// Whether a sidecar with these labels in this namespace has the route in a listener of this port. A list of
    /// gateways with `mesh` makes other conditions on the client void.
    #[must_use]
    pub fn admits(&self, port: PortNumber, labels: &Labels, namespace: Option<&Namespace>) -> bool {
        let is_client = match self.clients.gateways {
            GatewayMatch::Undeclared => self.clients.admits_workload(labels, namespace),
            GatewayMatch::Mesh => true,
            GatewayMatch::Other => false,
        };
        is_client && self.port.is_none_or(|own| own == port)
    }
    /// Whether every request of an admitted client matches, so that the routes behind it serve none: the path is any,
    /// the prefix `/` or the pattern `.*`, and nothing else is asked of the request.
    #[must_use]
    pub fn is_catch_all(&self) -> bool {
        self.is_any_path()
            && self.scheme.is_none()
            && self.method.is_none()
            && self.authority.is_none()
            && self.headers.is_empty()
            && self.without_headers.is_empty()
            && self.query.is_empty()
    }
}

impl HttpMatch {
    /// Whether every request of every client that fulfils another condition fulfils this one, as far as a comparison of
    /// texts shows. A condition that no sidecar fulfils covers nothing.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.covers_path(other)
            && covers(&self.scheme, &other.scheme)
            && covers(&self.method, &other.method)
            && covers(&self.authority, &other.authority)
            && covers_named(&self.headers, &other.headers)
            && self.without_headers.iter().all(|own| other.without_headers.contains(own))
            && covers_named(&self.query, &other.query)
            && (self.port.is_none() || self.port == other.port)
            && self.clients.covers(&other.clients)
    }
    fn covers_path(&self, other: &Self) -> bool {
        let (Some(own), Some(of)) = (&self.uri, &other.uri) else { return self.is_any_path() };
        let is_pattern = matches!(own, TextMatch::Regex(_));
        let is_covered = match (self.ignores_uri_case, other.ignores_uri_case) {
            (true, _) => own.lower_case().covers(&of.lower_case()),
            (false, false) => own.covers(of),
            // patterns have their own case
            (false, true) => is_pattern && own == of,
        };
        is_covered || self.is_any_path()
    }
    fn is_any_path(&self) -> bool {
        match &self.uri {
            None => true,
            Some(TextMatch::Prefix(prefix)) => &**prefix == "/",
            Some(TextMatch::Regex(pattern)) => &**pattern == ".*",
            Some(TextMatch::Exact(_) | TextMatch::Present) => false,
        }
    }
}

/// Whether every text that fulfils another condition fulfils this one.
fn covers(own: &Option<TextMatch>, other: &Option<TextMatch>) -> bool {
    let Some(own) = own else { return true };
    other.as_ref().is_some_and(|other| own.covers(other))
}

/// Whether each condition on a name is covered by that of another list on the name.
fn covers_named(own: &[(Arc<str>, TextMatch)], other: &[(Arc<str>, TextMatch)]) -> bool {
    let is_covered = |(name, text): &(Arc<str>, TextMatch)| {
        other.iter().any(|(of, other)| of == name && text.covers(other))
    };
    own.iter().all(is_covered)
}

impl TextMatch {
    /// Returns the condition with its text, unless it is a pattern, in lower case.
    fn lower_case(&self) -> Self {
        match self {
            Self::Exact(text) => Self::Exact(text.to_ascii_lowercase().into()),
            Self::Prefix(text) => Self::Prefix(text.to_ascii_lowercase().into()),
            Self::Present | Self::Regex(_) => self.clone(),
        }
    }
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Present, _) => true,
            (Self::Prefix(own), Self::Exact(text) | Self::Prefix(text)) => text.starts_with(&**own),
            _ => self == other,
        }
    }
}

/// Condition on a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum TextMatch {
    /// Any text.
    Present,
    /// This text, which may be empty.
    Exact(Arc<str>),
    /// A text that starts with this.
    Prefix(Arc<str>),
    /// A text that this RE2 pattern matches as a whole.
    Regex(Arc<str>),
}

/// Conditions on a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct ClientMatch {
    /// Labels that it must have; empty for any.
    pub labels: Labels,
    /// Its namespace.
    pub namespace: Option<Namespace>,
    /// Gateways through which the traffic comes.
    pub gateways: GatewayMatch,
}

impl ClientMatch {
    /// Whether a workload fulfils the conditions on labels and namespace.
    #[must_use]
    pub fn admits_workload(&self, labels: &Labels, namespace: Option<&Namespace>) -> bool {
        self.namespace.as_ref().is_none_or(|own| Some(own) == namespace) && self.labels.is_subset_of(labels)
    }
}

impl ClientMatch {
    /// Whether this asks nothing of a sidecar.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let is_void = self.gateways == GatewayMatch::Mesh;
        is_void
            || (self.gateways == GatewayMatch::Undeclared
                && self.labels.is_empty()
                && self.namespace.is_none())
    }
    fn covers(&self, other: &Self) -> bool {
        let is_within = || {
            self.gateways == other.gateways
                && (self.namespace.is_none() || self.namespace == other.namespace)
                && self.labels.is_subset_of(&other.labels)
        };
        self.gateways != GatewayMatch::Other && (self.is_any() || is_within())
    }
}

/// Gateways through which traffic comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
pub enum GatewayMatch {
    /// No condition is declared: those of the VirtualService.
    #[default]
    Undeclared,
    /// Sidecars are among them.
    Mesh,
    /// Sidecars are not among them.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_port(number: u32) -> PortNumber {
        PortNumber::new(number).unwrap()
    }
    fn mk_labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    #[test]
    fn match_admits_clients_by_port_labels_and_namespace() {
        let shop = Namespace::new("shop").unwrap();
        let clients = ClientMatch {
            labels: mk_labels(&[("app", "a")]),
            namespace: Some(shop.clone()),
            gateways: GatewayMatch::Undeclared,
        };
        let found = HttpMatch { port: Some(mk_port(80)), clients, ..HttpMatch::default() };
        let labels = mk_labels(&[("app", "a"), ("x", "y")]);
        assert!(found.admits(mk_port(80), &labels, Some(&shop)));
        assert!(!found.admits(mk_port(81), &labels, Some(&shop)));
        assert!(!found.admits(mk_port(80), &Labels::default(), Some(&shop)));
        assert!(!found.admits(mk_port(80), &labels, None));
        let through = |gateways| {
            let clients = ClientMatch { gateways, ..found.clients.clone() };
            HttpMatch { clients, ..found.clone() }.admits(mk_port(80), &Labels::default(), None)
        };
        assert!(through(GatewayMatch::Mesh) && !through(GatewayMatch::Other));
    }

    #[test]
    fn condition_covers_narrower_ones() {
        let prefix = |text: &str| Some(TextMatch::Prefix(text.into()));
        let exact = |text: &str| Some(TextMatch::Exact(text.into()));
        let path = |uri| HttpMatch { uri, ..HttpMatch::default() };
        let header = |text| HttpMatch { headers: [("x".into(), text)].into(), ..HttpMatch::default() };
        let client = |clients| HttpMatch { clients, ..HttpMatch::default() };
        let labels = |pairs| ClientMatch { labels: mk_labels(pairs), ..ClientMatch::default() };
        let through = |gateways| ClientMatch { gateways, ..labels(&[("a", "b")]) };
        let port = |number| HttpMatch { port: Some(mk_port(number)), ..HttpMatch::default() };
        let all = HttpMatch::default();
        let pattern = Some(TextMatch::Regex("/A.*".into()));
        let any_case = |uri| HttpMatch { ignores_uri_case: true, ..path(uri) };
        // each with whether it covers the next, and whether that covers it
        let cases = [
            (path(prefix("/a")), path(prefix("/ab")), true, false),
            (path(prefix("/a")), path(exact("/a")), true, false),
            (path(prefix("/")), all.clone(), true, true),
            (path(exact("/a")), path(exact("/b")), false, false),
            (any_case(prefix("/A")), path(prefix("/a")), true, false),
            (any_case(prefix("/a")), path(exact("/AB")), true, false),
            (any_case(exact("/a")), path(exact("/A")), true, false),
            (any_case(exact("/a")), path(exact("/ab")), false, false),
            (any_case(exact("/a")), any_case(exact("/A")), true, true),
            (any_case(pattern.clone()), path(pattern), true, true),
            (header(TextMatch::Present), header(TextMatch::Exact("1".into())), true, false),
            (header(TextMatch::Present), all.clone(), false, true),
            (HttpMatch { method: exact("GET"), ..all.clone() }, path(exact("/a")), false, false),
            (
                HttpMatch { without_headers: header(TextMatch::Present).headers, ..all.clone() },
                all.clone(),
                false,
                true,
            ),
            (
                HttpMatch { query: header(TextMatch::Present).headers, ..all.clone() },
                all.clone(),
                false,
                true,
            ),
            (port(80), port(81), false, false),
            (port(80), all.clone(), false, true),
            (client(labels(&[("a", "b")])), client(labels(&[("a", "b"), ("c", "d")])), true, false),
            (client(through(GatewayMatch::Mesh)), all.clone(), true, true),
            (client(through(GatewayMatch::Other)), all, false, true),
        ];
        for (one, two, forth, back) in cases {
            assert_eq!((one.covers(&two), two.covers(&one)), (forth, back), "{one:?} and {two:?}");
        }
    }

    #[test]
    fn any_path_without_conditions_catches_everything() {
        let of = |uri| HttpMatch { uri, ignores_uri_case: true, ..HttpMatch::default() };
        for uri in [None, Some(TextMatch::Prefix("/".into())), Some(TextMatch::Regex(".*".into()))] {
            let found = of(uri);
            assert!(found.is_catch_all(), "{found:?}");
            let headers = [("x".into(), TextMatch::Regex(".*".into()))].into();
            assert!(!HttpMatch { headers, ..found }.is_catch_all());
        }
        for uri in
            [TextMatch::Exact("/".into()), TextMatch::Prefix("".into()), TextMatch::Regex("/.*".into())]
        {
            assert!(!of(Some(uri.clone())).is_catch_all(), "{uri:?}");
        }
    }
}
