//! Rejected xDS clusters behind the routes and listeners that a client was sent for a host: subsets, destinations of
//! VirtualServices and receivers of copies, whatever host they are of.
//!
//! [`super::routed`] and [`super::explain`] call it for connected clients. The client has the routes to an xDS cluster that it
//! rejected, and without an earlier version of it Envoy answers their requests with 503.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_answer::ClusterName;
use tributary_model::{Catalog, ClientKind, Hostname, TraceStep, Verdict};
use tributary_xds::answers::ResourceType;

use super::rejected::step;
use super::sent_route::SentHost;
use super::sent_tables::SentTables;
use super::sessions::Found;

/// Most rejected xDS clusters that are named for a host and a port.
const MAX_NAMED: usize = 8;

/// What leads to xDS clusters, and their names.
pub(super) struct Led {
    by: String,
    to: BTreeSet<String>,
    /// Whether these are copies of requests.
    are_copies: bool,
}

impl Led {
    /// Reads the routes of a virtual host.
    pub(super) fn by_routes(of: &SentHost, by: &str, host: &Hostname) -> [Self; 2] {
        let to = of.routes.iter().flat_map(|route| route.action.clusters()).map(str::to_owned).collect();
        let copies = of.routes.iter().flat_map(|route| route.copies.clone()).collect();
        [
            Self { by: format!("{by}, routes for {host}"), to, are_copies: false },
            Self { by: format!("{by}, copies of requests for {host}"), to: copies, are_copies: true },
        ]
    }
    /// Takes the xDS clusters of a listener.
    pub(super) fn by_listener(listener: &str, to: BTreeSet<String>, host: &Hostname) -> Self {
        Self { by: format!("LDS {listener}, connections to {host}"), to, are_copies: false }
    }
}

/// Returns a step for each xDS cluster that the client rejected, by name. It is a removal if the client has no earlier version and
/// only such xDS clusters receive what `is_wanted` means, else a warning.
pub(super) fn steps(
    catalog: &Arc<Catalog>,
    found: &Found,
    led: &[Led],
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeMap<String, TraceStep> {
    let mut all = rejected(catalog, found, led);
    let receivers = led.iter().filter(|led| !led.are_copies).flat_map(|led| &led.to);
    let mut wanted = receivers.filter(|name| is_wanted(name)).peekable();
    let is_removed = |name: &String| all.get(name).is_some_and(|step| step.verdict == Verdict::Drop);
    let is_lost = wanted.peek().is_some() && wanted.all(is_removed);
    for (_, step) in all.iter_mut().filter(|(name, _)| !is_lost || !is_wanted(name)) {
        step.verdict = Verdict::Warn;
    }
    all
}

/// Returns a warning for each xDS cluster that a gRPC client rejected and to which routes for a port lead, except those of the port.
pub(super) fn of_grpc(catalog: &Arc<Catalog>, found: &Found, own: &ClusterName) -> Vec<TraceStep> {
    if found.client.class.kind != ClientKind::Grpc {
        return Vec::new();
    }
    let table = own.to_string();
    let hosts = SentTables::new(catalog, found).hosts(&table);
    let by = format!("RDS {table}");
    let led: Vec<Led> = hosts.iter().flat_map(|of| Led::by_routes(of, &by, &own.host)).collect();
    let is_own = |name: &str| {
        name.parse::<ClusterName>().is_ok_and(|name| name.port == own.port && name.host == own.host)
    };
    let all = steps(catalog, found, &led, |_| false).into_iter();
    all.filter(|(name, _)| !is_own(name)).map(|(_, step)| step).collect()
}

/// Returns the steps of the first rejected xDS clusters, each once.
fn rejected(catalog: &Arc<Catalog>, found: &Found, led: &[Led]) -> BTreeMap<String, TraceStep> {
    let mut all = BTreeMap::new();
    if !found.sent(ResourceType::Cluster).is_some_and(|view| view.has_rejection()) {
        return all;
    }
    for (of, name) in led.iter().flat_map(|led| led.to.iter().map(move |name| (led, name))) {
        if all.len() < MAX_NAMED
            && !all.contains_key(name)
            && let Some(step) = step(catalog, found, ResourceType::Cluster, name)
        {
            all.insert(name.clone(), TraceStep { detail: format!("{}: {}", of.by, step.detail), ..step });
        }
    }
    all
}
