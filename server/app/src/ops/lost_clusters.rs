//! xDS clusters behind the routes and listeners that a client was sent for a host, and to which nothing can be sent: the client was
//! not sent them, rejected them, or has no endpoints of them. Subsets, destinations of VirtualServices and receivers of copies count,
//! whatever host they are of.
//!
//! [`super::routed`] and [`super::explain`] call it for connected clients, and lists of routes for their notes. Envoy answers the
//! requests of a route to such an xDS cluster with 503, and closes connections that lead there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_answer::{ClusterName, lost_destination};
use tributary_model::{Catalog, ClientKind, Code, Hostname, PolicyKey, TraceStep, Verdict};
use tributary_xds::answers::{ResourceType, empty_assignment};

use super::deliver_steps::{deliver_step, reference};
use super::rejected::step;
use super::sent_route::SentHost;
use super::sent_tables::SentTables;
use super::sessions::Found;

/// Most xDS clusters that are named for a host and a port.
const MAX_NAMED: usize = 8;

/// Most xDS clusters of a host and a port that are looked at.
const MAX_LOOKED: usize = 64;

/// What leads to xDS clusters, and their names.
pub(super) struct Led {
    /// Route table or listener: `RDS 80`.
    by: String,
    host: Hostname,
    what: Traffic,
    /// VirtualService that leads there.
    rule: Option<PolicyKey>,
    to: BTreeSet<String>,
}

/// What an xDS cluster receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Requests,
    Copies,
    Connections,
}

impl Led {
    /// Reads the routes of a virtual host.
    pub(super) fn by_routes(of: &SentHost, table: &str, host: &Hostname) -> [Self; 2] {
        let to = of.routes.iter().flat_map(|route| route.action.clusters()).map(str::to_owned).collect();
        let copies = of.routes.iter().flat_map(|route| route.copies.clone()).collect();
        let led = |what, to| Self {
            by: format!("RDS {table}"),
            host: host.clone(),
            what,
            rule: of.rules().first().map(|rule| (*rule).clone()),
            to,
        };
        [led(Traffic::Requests, to), led(Traffic::Copies, copies)]
    }
    /// Takes the xDS clusters of a listener.
    pub(super) fn by_listener(
        listener: &str,
        rule: Option<PolicyKey>,
        to: BTreeSet<String>,
        host: &Hostname,
    ) -> Self {
        let by = format!("LDS {listener}");
        Self { by, host: host.clone(), what: Traffic::Connections, rule, to }
    }
    /// Whether it leads requests or connections to an xDS cluster, as `is` decides.
    pub(super) fn is_to(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.receivers().any(|name| is(name))
    }
    /// Returns the xDS clusters that receive requests or connections.
    fn receivers(&self) -> impl Iterator<Item = &String> {
        self.to.iter().filter(|_| self.what != Traffic::Copies)
    }
    /// Names the routes or connections.
    fn noun(&self) -> String {
        let what = match self.what {
            Traffic::Requests => "routes for",
            Traffic::Copies => "copies of requests for",
            Traffic::Connections => "connections to",
        };
        format!("{}, {what} {}", self.by, self.host)
    }
    /// Returns the beginning of a sentence about an xDS cluster.
    fn leads_to(&self, name: &str) -> String {
        let what = match self.what {
            Traffic::Requests => format!("routes for {} lead to", self.host),
            Traffic::Copies => format!("routes for {} send copies to", self.host),
            Traffic::Connections => format!("connections to {} go to", self.host),
        };
        format!("{}: {what} xDS cluster {name}", self.by)
    }
}

/// What a client lacks of an xDS cluster of a service that it was sent routes or listeners to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lack {
    /// It was not sent the xDS cluster, although it receives all that it may use.
    Cluster,
    /// It was sent no endpoints of it.
    Endpoints,
}

impl Lack {
    /// Returns what a client lacks of an xDS cluster; `None` if nothing, or if this is not known.
    pub(super) fn of(found: &Found, name: &str) -> Option<Self> {
        name.parse::<ClusterName>().ok()?;
        let held = |kind| found.delivery(kind, name).version;
        let receives_all = found.sent(ResourceType::Cluster).is_some_and(|view| view.is_wildcard());
        if receives_all && held(ResourceType::Cluster).is_none() {
            return Some(Self::Cluster);
        }
        let is_empty = held(ResourceType::Endpoints) == Some(empty_assignment(name).version);
        is_empty.then_some(Self::Endpoints)
    }
    /// Returns the note of a route to an xDS cluster.
    pub(super) fn note(self, name: &str) -> String {
        match self {
            Self::Cluster => format!("no xDS cluster {name}"),
            Self::Endpoints => format!("no endpoints of xDS cluster {name}"),
        }
    }
}

/// Which xDS clusters count.
pub(super) struct Counted<'f> {
    /// Whether an xDS cluster is one that requests and connections should reach.
    pub(super) is_wanted: &'f dyn Fn(&str) -> bool,
    /// Whether an xDS cluster has its step here.
    pub(super) is_named: &'f dyn Fn(&str) -> bool,
}

/// Returns a step for each xDS cluster that receives nothing. It is a removal if nothing receives what is wanted, else a warning.
pub(super) fn steps(
    catalog: &Arc<Catalog>,
    found: &Found,
    led: &[Led],
    counted: &Counted<'_>,
) -> Vec<TraceStep> {
    let all = lost(catalog, found, led);
    let mut wanted = led.iter().flat_map(Led::receivers).filter(|name| (counted.is_wanted)(name)).peekable();
    let is_removed = |name: &String| all.get(name).is_some_and(|step| step.verdict == Verdict::Drop);
    let is_lost = wanted.peek().is_some() && wanted.all(is_removed);
    let judged = |(name, step): (String, TraceStep)| match is_lost && (counted.is_wanted)(&name) {
        true => step,
        false => TraceStep { verdict: Verdict::Warn, ..step },
    };
    let named = all.into_iter().filter(|(name, _)| (counted.is_named)(name));
    let mut out: Vec<TraceStep> = named.map(judged).collect();
    out.sort_by_key(|step| step.verdict != Verdict::Drop);
    out.truncate(MAX_NAMED);
    out
}

/// Returns a warning for each xDS cluster that a gRPC client rejected and to which routes for a port lead, except those of the port.
pub(super) fn of_grpc(catalog: &Arc<Catalog>, found: &Found, own: &ClusterName) -> Vec<TraceStep> {
    if found.client.class.kind != ClientKind::Grpc {
        return Vec::new();
    }
    let table = own.to_string();
    let hosts = SentTables::new(catalog, found).hosts(&table);
    let led: Vec<Led> = hosts.iter().flat_map(|of| Led::by_routes(of, &table, &own.host)).collect();
    let is_other = |name: &str| !name.parse::<ClusterName>().is_ok_and(|name| name.is_port_of(own));
    steps(catalog, found, &led, &Counted { is_wanted: &|_| false, is_named: &is_other })
}

/// Returns the steps of the first xDS clusters that receive nothing, or may not, each once.
fn lost(catalog: &Arc<Catalog>, found: &Found, led: &[Led]) -> BTreeMap<String, TraceStep> {
    let has_rejection = found.sent(ResourceType::Cluster).is_some_and(|view| view.has_rejection());
    let mut all = BTreeMap::new();
    for (of, name) in led.iter().flat_map(|led| led.to.iter().map(move |name| (led, name))) {
        if all.len() >= MAX_LOOKED {
            break;
        }
        if all.contains_key(name) {
            continue;
        }
        let rejected = if has_rejection { rejected(catalog, found, (of, name)) } else { None };
        let all_of = rejected.into_iter().chain(lacking(catalog, found, (of, name)));
        if let Some(step) = all_of.min_by_key(|step| step.verdict != Verdict::Drop) {
            all.insert(name.clone(), step);
        }
    }
    all
}

fn rejected(catalog: &Arc<Catalog>, found: &Found, (of, name): (&Led, &str)) -> Option<TraceStep> {
    let step = step(catalog, found, ResourceType::Cluster, name)?;
    Some(TraceStep { detail: format!("{}: {}", of.noun(), step.detail), ..step })
}

/// Returns the step of an xDS cluster that a client lacks, or of which it has no endpoints. A gRPC client requests the xDS clusters
/// of its routes, so explanations find what it lacks without what it was sent.
fn lacking(catalog: &Arc<Catalog>, found: &Found, (of, name): (&Led, &str)) -> Option<TraceStep> {
    let lack = Lack::of(found, name).filter(|_| found.client.class.kind != ClientKind::Grpc)?;
    let by = found.removed_by(ResourceType::Cluster, name).filter(|_| lack == Lack::Cluster);
    let (code, why) = match &by {
        Some(by) => (Code::REMOVED_BY_FILTER, format!("{by} removes it")),
        None => reason(catalog, found, (lack, name)),
    };
    let what = match lack {
        Lack::Cluster => "which the client was not sent",
        Lack::Endpoints => "of which the client was sent no endpoints",
    };
    // the filter that removes it, else the VirtualService that leads there
    let object = by.as_ref().or(of.rule.as_ref()).and_then(|key| reference(catalog, key));
    let detail = format!("{}, {what}: {why}", of.leads_to(name));
    Some(TraceStep { object, ..deliver_step((Verdict::Drop, code, detail)) })
}

/// Returns why a client lacks an xDS cluster, or endpoints of it.
fn reason(catalog: &Catalog, found: &Found, (lack, name): (Lack, &str)) -> (Code, String) {
    let parsed = name.parse::<ClusterName>().ok();
    let why = parsed.and_then(|to| lost_destination(catalog, &to, &found.client));
    why.unwrap_or_else(|| match lack {
        Lack::Cluster => (Code::NOT_DELIVERED, "the server has not sent it yet".to_owned()),
        Lack::Endpoints => (Code::ROUTE_WITHOUT_ENDPOINTS, "the server has sent none yet".to_owned()),
    })
}
