//! Composes explanations: the core's trace (source, merge), the answers' trace (visibility to weight) and,
//! for a client, the delivery state of its session (deliver).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tributary_answer::{
    Carrier, ClientClass, ClusterName, Explanation, PortSet, Query, StepDocument, Takes, WhyNot, carrier,
    concrete, explain_with, is_in_subset, not_listed, not_routed, received_subsets, resolve,
};
use tributary_core::ProblemView;
use tributary_model::{
    Catalog, ClientKind, Code, Hostname, Mono, Namespace, ObjectRef, PortNumber, PortView, ServiceKey,
    ServiceView, Stage, StepTime, Subset, TraceStep, Verdict,
};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{Delivery, SyncStatus};

use super::deliver_steps::{deliver_step, reference};
use super::notices::Withdrawn;
use super::rejected::{Rejections, changed_by};
use super::removed::{self, Removed};
use super::routed::Routed;
use super::sessions::{Found, Sessions};
use super::ways::{self, Ways};
use super::{invalid, left_out, lost_clusters};
use crate::admin::backend::{Answer, Explained};
use crate::document::{Filter, ObjectItem, endpoints, filter::same_host, short_name, timestamp};

/// Maximum number of services whose history is requested; one address in more services is a mistake.
const MAX_SERVICES: usize = 64;

/// Request for the explanation of an endpoint.
pub struct ExplainRequest {
    /// Catalog that is served.
    pub catalog: Arc<Catalog>,
    /// Endpoint, as written.
    pub endpoint: String,
    /// Only as an endpoint of this host, port and subset.
    pub of: PartOfService,
    /// Connected clients.
    pub sessions: Arc<Sessions>,
    /// As this client receives it.
    pub client: Option<String>,
    /// Registries and scopes that a staleness policy withdraws.
    pub withdrawn: Withdrawn,
    /// Removals of this endpoint, the latest first.
    pub removed: Vec<TraceStep>,
    /// Current time on the core's clock.
    pub now: Mono,
}

/// Part of a service that an operator names: its host, one of its ports, and a subset of the endpoints.
#[derive(Debug, Clone, Default)]
pub struct PartOfService {
    host: Option<String>,
    port: Option<PortNumber>,
    subset: Option<Subset>,
}

impl PartOfService {
    /// Reads a host, whose first labels are enough, with or without a port, or the name of an xDS cluster, and the name of a
    /// subset.
    pub fn read(catalog: &Catalog, host: Option<&str>, subset: Option<&str>) -> Result<Self, String> {
        let subset = self::subset(subset)?;
        let Some(host) = host else { return Ok(Self { subset, ..Self::default() }) };
        let part = short_name::part(catalog, host, None)?;
        Ok(Self { host: Some(part.host), port: part.port, subset: part.subset.or(subset) })
    }
    /// Host and port, if they are named.
    #[must_use]
    pub fn named(&self) -> (Option<&str>, Option<PortNumber>) {
        (self.host.as_deref(), self.port)
    }
}

/// What lists an endpoint.
#[derive(Debug, Default)]
pub struct Listing {
    /// Services that have it.
    pub services: Vec<ServiceKey>,
    /// Objects of the workloads behind it, where a service selects them.
    pub workloads: Vec<ObjectItem>,
}

/// Facts of the core about what lists an endpoint.
#[derive(Debug, Default)]
pub struct History {
    /// Steps of each service.
    pub services: BTreeMap<ServiceKey, Vec<TraceStep>>,
    /// Objects of the workloads behind the endpoint.
    pub workloads: Vec<ObjectItem>,
    /// Problems of the objects in the steps, and of the workloads.
    pub problems: Vec<ProblemView>,
}

/// Reads the name of a subset.
pub fn subset(text: Option<&str>) -> Result<Option<Subset>, String> {
    let read = |text| Subset::new(text).ok_or_else(|| format!("`{text}` is not the name of a subset"));
    text.map(read).transpose()
}

impl ExplainRequest {
    /// Returns what lists this endpoint.
    #[must_use]
    pub fn listing(&self) -> Listing {
        let filter = Filter {
            name: Some(self.endpoint.clone()),
            host: self.of.host.clone(),
            limit: Some(Filter::MAX),
            ..Filter::default()
        };
        let items = endpoints::list(&self.catalog, &filter).items;
        let keys: BTreeSet<ServiceKey> = items
            .iter()
            .filter_map(|item| {
                let (host, namespace) =
                    (Hostname::new(&item.host).ok()?, Namespace::new(&item.namespace).ok()?);
                Some(ServiceKey { host, namespace })
            })
            .take(MAX_SERVICES)
            .collect();
        let workloads = items.into_iter().filter_map(|item| item.workload).take(MAX_SERVICES).collect();
        Listing { services: keys.into_iter().collect(), workloads }
    }
}

/// Explains how an endpoint came to be served, or where it was dropped.
pub fn explain(request: &ExplainRequest, history: &History) -> Explained {
    let found =
        request.client.as_deref().map(|id| request.sessions.find(&request.catalog, id)).transpose()?;
    let query: Query = match request.endpoint.parse() {
        Ok(query) => query,
        Err(never) => match never {},
    };
    let traced = |key: &ServiceKey| history.services.get(key).cloned().unwrap_or_default();
    let client = found.as_ref().map(|found| &found.client);
    let PartOfService { host, port, subset } = &request.of;
    let subset = subset.as_ref();
    let mut all = explain_with(&request.catalog, (&query, subset), client, &traced);
    let served_by = host.as_deref().map(|host| served_by(&request.catalog, host, found.as_ref()));
    all.retain(|one| served_by.as_deref().is_none_or(|host| is_of_host(one, host)));
    all.retain(|one| port.is_none() || one.port.is_none() || one.port == *port);
    if all.is_empty() {
        all.push(not_listed(&request.catalog, &query, client, host.as_deref()));
    }
    if let Some(found) = &found {
        let mut tables = is_led(found).then(|| Routed::new(&request.catalog, found));
        all.iter_mut().for_each(|one| deliver(&request.catalog, (found, subset), tables.as_mut(), one));
    }
    all.iter_mut().for_each(|one| name_withdrawn(one, &request.withdrawn));
    let is_listed =
        |step: &StepDocument| !matches!(step.code, Code::NO_SUCH_ENDPOINT | Code::WORKLOAD_NOT_SELECTED);
    for one in all.iter_mut().filter(|one| !one.steps.iter().all(is_listed)) {
        one.add(
            request.removed.iter().cloned().map(|step| removed::unless_withdrawn(step, &request.withdrawn)),
        );
    }
    all.iter_mut().for_each(|one| invalid::add_of_sources(one, &history.workloads, &history.problems));
    let now = Timestamp::now();
    all.iter_mut().for_each(|one| set_times(one, request.now, now));
    Ok(answer(all, found.and_then(|found| found.note)))
}

/// Adds the withdrawn scopes: an endpoint that no source lists may belong to one of them.
fn name_withdrawn(one: &mut Explanation, withdrawn: &Withdrawn) {
    for step in one.steps.iter_mut().filter(|step| step.code == Code::NO_SUCH_ENDPOINT) {
        withdrawn.values().for_each(|of| step.detail.push_str(&format!("; {of}")));
    }
}

/// Converts the core's times to timestamps. Details do not repeat them: a reader that shows a step computes its age.
fn set_times(one: &mut Explanation, mono: Mono, now: Timestamp) {
    one.as_of = Some(timestamp(now));
    for step in &mut one.steps {
        let Some(time) = step.time else { continue };
        match time {
            StepTime::Confirmed(at) => step.confirmed_at = dated(at, mono, now),
            StepTime::Since(at) => step.since = dated(at, mono, now),
        }
    }
}

/// Converts the times of excluded and held candidates.
fn date_reasons(out: &mut WhyNot, mono: Mono, now: Timestamp) {
    let reasons = out.reasons.iter_mut().chain(&mut out.held);
    for refused in reasons.flat_map(|reason| &mut reason.dropped) {
        let Some(StepTime::Since(at)) = refused.time else { continue };
        refused.since = dated(at, mono, now);
    }
}

/// Returns a time of the core's clock as a timestamp.
fn dated(at: Mono, mono: Mono, now: Timestamp) -> Option<String> {
    let ago = jiff::SignedDuration::try_from(mono.since(at)).ok()?;
    now.checked_sub(ago).ok().map(timestamp)
}

fn is_of_host(one: &Explanation, host: &str) -> bool {
    one.host.as_ref().is_some_and(|own| same_host(host, own.as_str()))
}

/// Returns the host of the service that serves a host: another one for an alias.
fn served_by(catalog: &Catalog, host: &str, found: Option<&Found>) -> String {
    let class = found.map(|found| &found.client.class);
    let scope = class.map(ClientClass::scope).unwrap_or_default();
    let view =
        resolve(catalog, host, scope, &mut ()).and_then(|view| concrete(catalog, view, scope, &mut ()));
    view.map_or_else(|| host.to_owned(), |view| view.key.host.to_string())
}

/// Adds the delivery state of the client, and what its listeners and routes lead to.
fn deliver(
    catalog: &Arc<Catalog>,
    (found, subset): (&Found, Option<&Subset>),
    tables: Option<&mut Routed<'_>>,
    one: &mut Explanation,
) {
    let served = one.steps.iter().all(|step| step.verdict != Verdict::Drop);
    let Some((host, number)) = one.host.clone().zip(one.port).filter(|_| served) else { return };
    let view = resolve(catalog, host.as_str(), found.client.class.scope(), &mut ());
    let Some((view, port)) = view.and_then(|view| Some((view, view.port(number)?))) else { return };
    let delivery = PortDelivery::new(catalog, (found, subset), view, (port, Some(&one.endpoint)));
    let tables = tables.filter(|_| subset.is_none() && !delivery.rejections.on_path);
    let to = (&host, port, &*one.endpoint);
    let of_sent = |tables: &mut Routed<'_>| match tables.unrequested(port) {
        Some(step) => Ways { steps: vec![step], contradict_plan: true, ..Ways::default() },
        None => ways::to_endpoint(tables, found, to),
    };
    let ways = tables.map(of_sent).unwrap_or_default();
    if delivery.rejections.closed || ways.contradict_plan {
        one.forget_reach();
    }
    one.forget_routes(&ways.overruled);
    let mut steps = delivery.rejections.steps;
    steps.extend(delivery.carriers);
    steps.extend(delivery.left_out);
    steps.extend(ways.steps);
    steps.extend(unrouted(catalog, found, view, port).filter(|_| subset.is_none()));
    let endpoint = one.endpoint.clone();
    one.add(steps.into_iter().map(|step| TraceStep { endpoint: endpoint.clone(), ..step }));
}

/// Delivery of a port to a client.
struct PortDelivery<'v> {
    port: &'v PortView,
    rejections: Rejections,
    /// Delivery state of each resource that carries endpoints, except where rejected resources are the cause of it.
    carriers: Vec<TraceStep>,
    /// A warning for each patch that was left out of what leads to the port.
    left_out: Vec<TraceStep>,
}

impl<'v> PortDelivery<'v> {
    /// Reads the delivery of a port, or of one of its endpoints.
    fn new(
        catalog: &Arc<Catalog>,
        (found, subset): (&Found, Option<&Subset>),
        view: &ServiceView,
        (port, endpoint): (&'v PortView, Option<&str>),
    ) -> Self {
        let subsets = carrying(found, subset, (port, endpoint));
        let mut rejections = Rejections::new(catalog, (found, &subsets), view, port);
        if subset.is_none() {
            let own = ClusterName::new(port.number, &view.key.host);
            rejections.steps.extend(lost_clusters::of_grpc(catalog, found, &own));
        }
        // A client requests nothing behind a resource that it rejected.
        let is_effect = |step: &TraceStep| rejections.closed && step.code == Code::NOT_DELIVERED;
        let carriers = subsets.iter().filter_map(|of| delivered(catalog, (found, of.as_ref()), view, port));
        let carriers = carriers.filter(|step| !is_effect(step)).collect();
        let left_out = left_out::steps(catalog, (found, &subsets), view, port);
        Self { port, rejections, carriers, left_out }
    }
    fn is_known(&self) -> bool {
        self.rejections.closed || !self.carriers.is_empty()
    }
    fn is_delivered(&self) -> bool {
        !self.rejections.closed && self.carriers.iter().any(|step| step.verdict != Verdict::Drop)
    }
    /// Returns the steps, with each rejected resource as a removal.
    fn steps(self) -> impl Iterator<Item = TraceStep> {
        let rejected = self.rejections.steps.into_iter().map(TraceStep::dropping);
        rejected.chain(self.carriers).chain(self.left_out)
    }
}

/// Returns the subsets by which a client receives a port, or one of its endpoints; `None` stands for all endpoints.
fn carrying(
    found: &Found,
    subset: Option<&Subset>,
    (port, endpoint): (&PortView, Option<&str>),
) -> Vec<Option<Subset>> {
    let received = received_subsets(port, &found.client.class);
    if subset.is_some() || received.is_empty() {
        return vec![subset.cloned()];
    }
    let has = |of: &Subset| endpoint.is_none_or(|at| is_in_subset(port, &found.client, of, at));
    received.into_iter().filter(has).map(Some).collect()
}

/// Returns the delivery state of the resource that carries a port's endpoints; `None` if the client receives none for
/// the port.
fn delivered(
    catalog: &Arc<Catalog>,
    (found, subset): (&Found, Option<&Subset>),
    view: &ServiceView,
    port: &PortView,
) -> Option<TraceStep> {
    let name = ClusterName { subset: subset.cloned(), ..ClusterName::new(port.number, &view.key.host) };
    let name = name.of(Some(found.client.class.kind)).to_string();
    if let Some(removed) = removed(catalog, found, (ResourceType::Cluster, &name)) {
        return Some(removed);
    }
    let kind = match carrier(port, subset, &found.client.class)? {
        Carrier::Endpoints => ResourceType::Endpoints,
        Carrier::Cluster | Carrier::Destination => ResourceType::Cluster,
    };
    let delivery = found.delivery(kind, &name);
    let filters = match delivery.refused {
        Some(_) => changed_by(catalog, found, kind, &name),
        None => String::new(),
    };
    Some(deliver_step(outcome(&delivery, kind, (&name, &filters))))
}

/// Returns the step of a resource that an EnvoyFilter removed.
fn removed(catalog: &Catalog, found: &Found, (kind, name): (ResourceType, &str)) -> Option<TraceStep> {
    let by = found.removed_by(kind, name)?;
    let detail = format!("{by} removes {} {name} from what the client is sent", kind.as_str().to_uppercase());
    let step = deliver_step((Verdict::Drop, Code::REMOVED_BY_FILTER, detail));
    Some(TraceStep { object: reference(catalog, &by), ..step })
}

fn outcome(
    delivery: &Delivery,
    kind: ResourceType,
    (name, filters): (&str, &str),
) -> (Verdict, Code, String) {
    let what = format!("{} {name}", kind.as_str().to_uppercase());
    match (delivery, &delivery.refused, delivery.version) {
        (Delivery { subscribed: false, .. }, _, _) => {
            (Verdict::Drop, Code::NOT_DELIVERED, format!("the client does not subscribe to {what}"))
        }
        (Delivery { is_suspected: true, .. }, Some(text), _) => {
            (Verdict::Warn, Code::NACKED, format!("the client may have rejected {what}{filters}: {text}"))
        }
        (_, Some(text), _) => {
            (Verdict::Drop, Code::NACKED, format!("the client rejected {what}{filters}: {text}"))
        }
        (_, None, None) => {
            (Verdict::Drop, Code::NOT_DELIVERED, format!("{what} was not sent to the client yet"))
        }
        (_, None, Some(version)) if delivery.status == SyncStatus::Synced => {
            (Verdict::Pass, Code::DELIVERED, format!("{what} version {version} was sent and acknowledged"))
        }
        (_, None, Some(version)) => {
            (Verdict::Warn, Code::NOT_ACKED, format!("{what} version {version} was sent and is unanswered"))
        }
    }
}

/// Explains why a client does not receive a host's endpoints, and what leads it to those that it receives.
pub fn why_not(
    catalog: &Arc<Catalog>,
    sessions: &Sessions,
    (host, subset): (&str, Option<&Subset>),
    client: &str,
    (problems, removed, withdrawn): (&[ProblemView], &Removed, &Withdrawn),
    now: Mono,
) -> Explained {
    let found = sessions.find(catalog, client)?;
    let class = &found.client.class;
    let namespace = class.namespace.as_ref().map(|namespace| namespace.as_str());
    let host = short_name::host(catalog, host, namespace)?;
    let mut out = tributary_answer::why_not_in(catalog, &host, subset, &found.client);
    invalid::add_declaring(&mut out, problems);
    if out.reasons.iter().any(|reason| reason.code == Code::NO_SUCH_HOST) {
        out.add(empty_federated(catalog, &out.host));
    }
    let is_missing =
        |code: Code| matches!(code, Code::NO_SUCH_HOST | Code::NO_ENDPOINTS | Code::NO_SUCH_PORT);
    if out.reasons.iter().any(|reason| is_missing(reason.code)) {
        let steps = match catalog.has_service(&out.host) {
            true => removed.of_declared_host(&out.host, out.port),
            false => removed.of_host(&out.host, out.port),
        };
        out.add(steps.into_iter().map(|step| removed::unless_withdrawn(step, withdrawn)));
    }
    let view = resolve(catalog, &out.host, class.scope(), &mut ());
    let view = view.and_then(|view| concrete(catalog, view, class.scope(), &mut ()));
    if let Some(view) = view.filter(|_| out.served > 0 || out.any_destination) {
        add_delivery(catalog, &found, view, &mut out);
    }
    if out.service.is_none() && is_led(&found) {
        let host = Hostname::new(&out.host).ok();
        let steps = host.into_iter().flat_map(|host| Routed::new(catalog, &found).steps_of_host(&host));
        out.add(steps.map(TraceStep::dropping));
    }
    out.conclude();
    date_reasons(&mut out, now, Timestamp::now());
    Ok(answer(vec![out], found.note))
}

/// Returns the condition of a federated service of this host of which no member can be joined: the configuration declares it.
fn empty_federated(catalog: &Catalog, host: &str) -> Option<TraceStep> {
    let conditions = catalog.registries.values().flat_map(|registry| registry.conditions.iter());
    let mut missing = conditions.filter(|one| one.code == Code::FEDERATED_MEMBER_MISSING);
    let is_host = |object: &&ObjectRef| same_host(host, &object.id.name);
    let object = missing.find_map(|condition| condition.objects.iter().find(is_host))?;
    Some(TraceStep {
        stage: Stage::Merge,
        verdict: Verdict::Drop,
        code: Code::FEDERATED_MEMBER_MISSING,
        registry: None,
        object: Some(object.clone()),
        endpoint: String::new(),
        detail:
            "the configuration declares it as a federated service, and no source has a service of its members"
                .to_owned(),
        time: None,
    })
}

/// Adds what the client was not sent, and what its listeners and routes lead to.
fn add_delivery(catalog: &Arc<Catalog>, found: &Found, view: &ServiceView, out: &mut WhyNot) {
    let class = &found.client.class;
    let (wanted, subset) = (out.port, out.subset.clone());
    let subset = subset.as_ref();
    let ports = || {
        let ports = class.scope().ports(view, PortSet::Reached);
        ports.filter(move |port| wanted.is_none_or(|number| port.number == number))
    };
    let all: Vec<PortDelivery<'_>> =
        ports().map(|port| PortDelivery::new(catalog, (found, subset), view, (port, None))).collect();
    // What was not sent, or is behind a rejected resource, is not served, whatever the answer contains.
    if !all.iter().any(PortDelivery::is_delivered) && all.iter().any(PortDelivery::is_known) {
        (out.served, out.any_destination) = (0, false);
        out.reached.retain(|step| step.code != Code::REACHED);
        return out.add(all.into_iter().flat_map(PortDelivery::steps));
    }
    all.iter().filter(|of| of.rejections.closed).for_each(|of| out.forget_reach(of.port.number));
    let led: Vec<&PortView> = all.iter().filter(|of| !of.rejections.on_path).map(|of| of.port).collect();
    out.add(all.into_iter().flat_map(PortDelivery::steps));
    if is_led(found) {
        let mut tables = Routed::new(catalog, found);
        let host = Hostname::new(&out.host).unwrap_or_else(|_| view.key.host.clone());
        for port in led {
            if let Some(step) = tables.unrequested(port) {
                out.forget_reach(port.number);
                out.add([step]);
                continue;
            }
            let ways = ways::to_port(&mut tables, (found, subset), (&host, view, port));
            if ways.contradict_plan || subset.is_some() {
                out.forget_reach(port.number);
            }
            out.forget_routes(port.number, &ways.overruled);
            let unrouted = unrouted(catalog, found, view, port).filter(|_| subset.is_none());
            out.add(ways.steps.into_iter().chain(unrouted).map(TraceStep::dropping));
        }
    }
}

/// Whether a client is a sidecar that was sent routes, and listeners unless they are its own.
fn is_led(found: &Found) -> bool {
    found.client.class.kind == ClientKind::Sidecar && found.client.takes >= Takes::Routes
}

/// Returns the step of a port whose endpoints a sidecar receives while none of its routes leads to them.
fn unrouted(catalog: &Catalog, found: &Found, view: &ServiceView, port: &PortView) -> Option<TraceStep> {
    let class = &found.client.class;
    if is_led(found) { not_routed(catalog, view, port, class.scope()) } else { None }
}

fn answer<T: serde::Serialize>(items: Vec<T>, note: Option<String>) -> Answer<Value> {
    let items = items.into_iter().filter_map(|item| serde_json::to_value(item).ok()).collect();
    Answer { items, more: 0, notes: note.into_iter().collect() }
}
