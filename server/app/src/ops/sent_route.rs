//! Routes of requests as a client was sent them, as an operator reads them: conditions, targets and settings.
//!
//! [`super::sent_tables`] reads route tables into them; lists of routes and explanations show them. Pure: the same bytes
//! give the same texts. A part that has no text here is named as one that is not shown, so nothing is left out silently.

mod action;
mod conditions;

use envoy_types::pb::envoy::config::route::v3 as pb;
use envoy_types::pb::google::protobuf::value::Kind;
use tributary_model::{Namespace, PolicyKey, PolicyKind};

pub(super) use action::{Action, shares};

/// Virtual host of a route table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentHost {
    /// Name.
    pub(super) name: String,
    /// Hosts of the requests that it takes.
    pub(super) domains: Vec<String>,
    /// Routes, in the order in which they are tried.
    pub(super) routes: Vec<SentRoute>,
}

/// Route of a virtual host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentRoute {
    /// Name; empty if it has none.
    pub(super) name: String,
    /// Conditions that a request fulfils, all of them; empty if every request takes the route.
    pub(super) conditions: Vec<String>,
    /// What happens to requests.
    pub(super) action: Action,
    /// xDS clusters that receive copies of the requests.
    pub(super) copies: Vec<String>,
    /// Settings, such as timeouts and retries.
    pub(super) settings: Vec<String>,
    /// VirtualService that it is from.
    pub(super) rule: Option<PolicyKey>,
    /// Delegate that declares it; `None` if the VirtualService does.
    pub(super) delegate: Option<PolicyKey>,
}

impl SentHost {
    /// Reads a virtual host.
    pub(super) fn read(host: &pb::VirtualHost) -> Self {
        let routes = host.routes.iter().map(SentRoute::read).collect();
        Self { name: host.name.clone(), domains: host.domains.clone(), routes }
    }
    /// Reads the virtual hosts of a route table.
    pub(super) fn all(table: &pb::RouteConfiguration) -> Vec<Self> {
        table.virtual_hosts.iter().map(Self::read).collect()
    }
    /// Whether it takes the requests that no other one takes.
    pub(super) fn is_rest(&self) -> bool {
        is_rest(&self.domains)
    }
    /// Whether requests of a route go to the destination that each of them names.
    pub(super) fn is_open(&self) -> bool {
        self.routes.iter().any(|route| route.action == Action::Requested)
    }
    /// Returns the VirtualServices that its routes are from, delegates included, each once, in order.
    pub(super) fn rules(&self) -> Vec<&PolicyKey> {
        let mut out: Vec<&PolicyKey> = Vec::new();
        for rule in self.routes.iter().flat_map(|route| route.rule.iter().chain(&route.delegate)) {
            if !out.contains(&rule) {
                out.push(rule);
            }
        }
        out
    }
}

impl SentRoute {
    /// Returns the xDS clusters that receive copies of its requests.
    pub(super) fn copied_to(&self) -> impl Iterator<Item = &str> {
        self.copies.iter().map(String::as_str)
    }
    /// Returns the xDS clusters that receive its requests or copies of them.
    pub(super) fn receivers(&self) -> impl Iterator<Item = &str> {
        self.action.clusters().chain(self.copied_to())
    }
    fn read(route: &pb::Route) -> Self {
        let action = Action::read(route.action.as_ref());
        // no request arrives behind a fault that answers all of them
        let abort = action::abort_of_all(route);
        Self {
            name: route.name.clone(),
            conditions: route.r#match.as_ref().map(conditions::read).unwrap_or_default(),
            action: abort.map_or(action, Action::Answer),
            copies: action::copies(route),
            settings: action::settings(route),
            rule: rule(route),
            delegate: delegate(route),
        }
    }
}

/// Returns the VirtualService that the metadata of a route names.
fn rule(route: &pb::Route) -> Option<PolicyKey> {
    let path = metadata(route, "istio", "config")?;
    let named = path.strip_prefix("/apis/networking.istio.io/v1/namespaces/")?;
    virtual_service(named.split_once("/virtual-service/")?)
}

/// Returns the delegate that the metadata of a route names.
fn delegate(route: &pb::Route) -> Option<PolicyKey> {
    virtual_service(metadata(route, "tributary.dev", "delegate")?.split_once('/')?)
}

fn metadata<'r>(route: &'r pb::Route, key: &str, field: &str) -> Option<&'r str> {
    let of = route.metadata.as_ref()?.filter_metadata.get(key)?;
    let Some(Kind::StringValue(text)) = &of.fields.get(field)?.kind else { return None };
    Some(text)
}

fn virtual_service((namespace, name): (&str, &str)) -> Option<PolicyKey> {
    let namespace = Namespace::new(namespace).ok()?;
    Some(PolicyKey { kind: PolicyKind::VirtualService, namespace, name: name.into() })
}

/// Whether these are the domains of the virtual host for the requests that no other one takes.
pub(super) fn is_rest(domains: &[String]) -> bool {
    domains.iter().any(|domain| domain == "*")
}

/// Returns how well the domains of a virtual host match a host, as Envoy chooses: the host itself before the longest wildcard in
/// front; `None` if none matches.
pub(super) fn rank(domains: &[String], host: &str) -> Option<usize> {
    let matches = |domain: &str| match domain.strip_prefix('*') {
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => domain.eq_ignore_ascii_case(host),
    };
    let rank = |domain: &str| if domain.starts_with('*') { domain.len() } else { usize::MAX };
    domains.iter().filter(|domain| matches(domain)).map(|domain| rank(domain)).max()
}

/// Returns the virtual host of a table that takes requests for a host, as Envoy chooses it: that with the host itself,
/// else with the longest wildcard in front, else with `*`.
pub(super) fn host_for<'h>(hosts: &'h [SentHost], host: &str) -> Option<&'h SentHost> {
    let of = |of: &'h SentHost| Some((rank(&of.domains, host)?, of));
    // of equal ranks the first, as in a table no domain occurs twice
    let best = hosts.iter().filter_map(of).reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map(|(_, of)| of)
}

#[cfg(test)]
mod tests;
