//! Which rejected resources keep a client from a port: listeners, route tables, xDS clusters and their secrets.
//!
//! `explain` and `why-not` call it for a connected client. A client that rejected the newest version of a resource uses
//! an earlier one, if it accepted one; else nothing that comes behind the resource is reached.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType as Discovery, DiscoveryType,
};
use prost::Message as _;
use tributary_answer::vip::long_forms;
use tributary_answer::{
    Carrier, ClusterName, Takes, carrier, concrete, connection_tls, forwarding_to, leading_resources, resolve,
};
use tributary_model::{Catalog, ClientKind, Code, PortView, ServiceView, Subset, TraceStep, Verdict};
use tributary_xds::answers::ResourceType;
use tributary_xds::encode::tls::SecretName;
use tributary_xds::session::{SentResource, SentView};

use super::deliver_steps::deliver_step;
use super::sessions::Found;

/// Most rejected resources that are named for a port.
const MAX_NAMED: usize = 8;

/// Rejected resources between a client and a port.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    /// A step for each, with the client's text: a removal if the port is not reached, else a warning.
    pub(super) steps: Vec<TraceStep>,
    /// Whether nothing leads the client to the port.
    pub(super) closed: bool,
    /// Whether a listener or route table is among them, so that what was sent last does not show where it leads.
    pub(super) on_path: bool,
}

/// Resources that lead to a port, one behind the other.
type Path = Vec<(ResourceType, String)>;

impl Rejections {
    /// Returns what a client rejected on its paths to a port, which it receives by these subsets; `None` stands for all of
    /// its endpoints.
    pub(super) fn new(
        catalog: &Arc<Catalog>,
        (found, subsets): (&Found, &[Option<Subset>]),
        view: &ServiceView,
        port: &PortView,
    ) -> Self {
        // which of a sidecar's routes name a subset is not known here
        let is_known = found.client.class.kind == ClientKind::Grpc || !subsets.iter().any(Option::is_some);
        let paths = if is_known { paths(catalog, found, view, port) } else { Vec::new() };
        let rejected: Vec<Option<TraceStep>> = paths.iter().map(|path| first(catalog, found, path)).collect();
        let is_closed = |step: &Option<TraceStep>| step.as_ref().is_some_and(|s| s.verdict == Verdict::Drop);
        let blocked = !rejected.is_empty() && rejected.iter().all(is_closed);
        let mut steps: Vec<TraceStep> = rejected.into_iter().flatten().take(MAX_NAMED).collect();
        let on_path = !steps.is_empty();
        if !blocked {
            steps.iter_mut().for_each(|step| step.verdict = Verdict::Warn);
        }
        // The xDS cluster itself carries the endpoints of other ports, and its delivery state is theirs.
        let by_assignment = |subset: &&Option<Subset>| {
            carrier(port, subset.as_ref(), &found.client.class) == Some(Carrier::Endpoints)
        };
        let cluster = |subset: &Option<Subset>| {
            let own = ClusterName::new(port.number, &view.key.host).of(Some(found.client.class.kind));
            let name = ClusterName { subset: subset.clone(), ..own }.to_string();
            let cluster = Some(subset).filter(by_assignment);
            let cluster = cluster.and_then(|_| step(catalog, found, ResourceType::Cluster, &name));
            cluster.or_else(|| secret(found, (port, subset.as_ref()), &name))
        };
        let clusters: Vec<Option<TraceStep>> = subsets.iter().map(cluster).collect();
        let is_lost = clusters.iter().all(is_closed);
        let warned = |step: TraceStep| match is_lost {
            true => step,
            false => TraceStep { verdict: Verdict::Warn, ..step },
        };
        steps.extend(clusters.into_iter().flatten().map(warned));
        let closed = steps.iter().any(|step| step.verdict == Verdict::Drop);
        Self { steps, closed, on_path }
    }
}

/// Returns the paths on which a client reaches a port; none if its listeners are its own.
fn paths(catalog: &Arc<Catalog>, found: &Found, view: &ServiceView, port: &PortView) -> Vec<Path> {
    let client = &found.client;
    match client.class.kind {
        ClientKind::Sidecar if client.takes >= Takes::Routes => {
            let paths = leading_resources(port, &client.class).into_iter();
            let table = |name: String| (ResourceType::Route, name);
            paths
                .map(|(listener, routes)| {
                    std::iter::once((ResourceType::Listener, listener)).chain(routes.map(table)).collect()
                })
                .collect()
        }
        ClientKind::Grpc => {
            let routes = (ResourceType::Route, ClusterName::new(port.number, &view.key.host).to_string());
            let targets = targets(catalog, found, view, port);
            match targets.is_empty() {
                true => vec![vec![routes]],
                false => targets
                    .into_iter()
                    .map(|target| vec![(ResourceType::Listener, target), routes.clone()])
                    .collect(),
            }
        }
        ClientKind::Router => {
            let listener = |name: String| vec![(ResourceType::Listener, name)];
            forwarding_to(&view.key.host, &client.class).into_iter().map(listener).collect()
        }
        ClientKind::Sidecar | ClientKind::Envoy => Vec::new(),
    }
}

/// Returns the targets of a gRPC client that mean a port, by the names of their listeners.
fn targets(catalog: &Arc<Catalog>, found: &Found, view: &ServiceView, port: &PortView) -> Vec<String> {
    let (class, scope) = (&found.client.class, found.client.class.scope());
    let means = |target: &str| {
        let Some((host, number)) = target.rsplit_once(':') else { return false };
        let mut hosts = long_forms(host, class.domain.as_deref()).into_iter();
        let of = hosts.find_map(|host| resolve(catalog, &host.to_ascii_lowercase(), scope, &mut ()));
        let of = of.and_then(|of| concrete(catalog, of, scope, &mut ()));
        number == port.number.to_string() && of.is_some_and(|of| of.key == view.key)
    };
    let sent = found.sent(ResourceType::Listener);
    let all = sent.into_iter().flat_map(|sent| sent.resources(catalog));
    all.map(|one| one.name.to_string()).filter(|name| means(name)).collect()
}

/// Returns the first rejected resource of a path that ends it, else the first of which an earlier version may be used.
fn first(catalog: &Arc<Catalog>, found: &Found, path: &Path) -> Option<TraceStep> {
    let steps = path.iter().filter_map(|(kind, name)| step(catalog, found, *kind, name));
    // of equal ones, the first
    steps.min_by_key(|step| step.verdict != Verdict::Drop)
}

/// Whether a client rejected an xDS cluster of which it has no earlier version.
pub(super) fn is_lost(catalog: &Arc<Catalog>, found: &Found, cluster: &str) -> bool {
    let has_rejection = found.sent(ResourceType::Cluster).is_some_and(|view| view.has_rejection());
    let step = if has_rejection { step(catalog, found, ResourceType::Cluster, cluster) } else { None };
    step.is_some_and(|step| step.verdict == Verdict::Drop)
}

/// Returns the step of a resource that the client rejected: a removal if it has no earlier version.
pub(super) fn step(
    catalog: &Arc<Catalog>,
    found: &Found,
    kind: ResourceType,
    name: &str,
) -> Option<TraceStep> {
    let delivery = found.delivery(kind, name);
    let text = delivery.refused?;
    let filters = changed_by(catalog, found, kind, name);
    let named = format!("{} {name}{filters}", kind.as_str().to_uppercase());
    let what = format!("the client rejected {named}");
    let holds = if kind == ResourceType::Cluster { holds_cluster(catalog, found, name) } else { None };
    let uses = "so it uses the version that it accepted earlier";
    let fails = "and has no earlier version of it, so what is sent there fails";
    let (verdict, detail) = match (holds, delivery.may_have_earlier) {
        _ if delivery.is_suspected => {
            (Verdict::Warn, format!("the client may have rejected {named}: {text}"))
        }
        (Some(true), _) => (Verdict::Warn, format!("{what}, {uses}: {text}")),
        (Some(false), _) => (Verdict::Drop, format!("{what} {fails}: {text}")),
        (None, true) => (Verdict::Warn, format!("{what}, {uses}, if it has one: {text}")),
        (None, false) => (Verdict::Drop, format!("{what}: {text}")),
    };
    Some(deliver_step((verdict, Code::NACKED, detail)))
}

/// Whether the client holds a version of an xDS cluster. It requests the endpoints of those that it holds, if they come from
/// the server; `None` if this is not known.
fn holds_cluster(catalog: &Arc<Catalog>, found: &Found, name: &str) -> Option<bool> {
    let is_named = |view: SentView| !view.is_wildcard() && view.wants(name);
    if found.sent(ResourceType::Endpoints).is_some_and(is_named) {
        return Some(true);
    }
    let (view, resource) = sent(catalog, found, ResourceType::Cluster, name)?;
    let cluster = Cluster::decode(view.body(&resource)?).ok()?;
    let is_eds = cluster.cluster_discovery_type == Some(Discovery::Type(DiscoveryType::Eds.into()));
    is_eds.then_some(false)
}

/// Returns the first rejected secret of the TLS to a port: the client opens no connection without it. A secret has no other version.
fn secret(found: &Found, (port, subset): (&PortView, Option<&Subset>), cluster: &str) -> Option<TraceStep> {
    let tls = connection_tls(port, subset, &found.client.class)?;
    let names = SecretName::of(tls).into_iter().map(|name| name.to_string());
    let rejected = |name: String| {
        let delivery = found.delivery(ResourceType::Secret, &name);
        let may = if delivery.is_suspected { "may have rejected" } else { "rejected" };
        let detail = format!(
            "the client {may} SDS {name}, without which it opens no connection of xDS cluster {cluster}: {}",
            delivery.refused?
        );
        let verdict = if delivery.is_suspected { Verdict::Warn } else { Verdict::Drop };
        Some(deliver_step((verdict, Code::NACKED, detail)))
    };
    names.filter_map(rejected).min_by_key(|step| step.verdict != Verdict::Drop)
}

/// Returns which EnvoyFilters changed a resource, as a part of a sentence.
pub(super) fn changed_by(catalog: &Arc<Catalog>, found: &Found, kind: ResourceType, name: &str) -> String {
    let filters = sent(catalog, found, kind, name).map(|(view, one)| view.patched_by(&one));
    let texts: Vec<String> = filters.iter().flatten().map(ToString::to_string).collect();
    if texts.is_empty() { String::new() } else { format!(" (changed by {})", texts.join(", ")) }
}

/// Returns a resource that the client was sent, and the view that has it.
fn sent(
    catalog: &Arc<Catalog>,
    found: &Found,
    kind: ResourceType,
    name: &str,
) -> Option<(SentView, SentResource)> {
    let view = found.sent(kind)?;
    let one = view.resources(catalog).into_iter().find(|one| *one.name == *name)?;
    Some((view, one))
}
