//! Finds everything that a client does not receive of a host.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, Code, ExcludedObject, Hostname, PortNumber, PortView, ServiceView, Stage, Subset,
    Trace, TraceStep, Verdict,
};

use super::reach::{Carrier, carrier, reach};
use super::subsets::{self, received_subsets};
use super::{WhyNot, assigned, destinations, pending, routes, rules, security, unread, weighed};
use crate::client::{Client, ClientClass};
use crate::names::ClusterName;
use crate::resolve::{concrete, resolve};
use crate::scope::trace::reaches;
use crate::steps::service_step;
use crate::vip::long_forms;

/// Returns every candidate that a rule removed for this client, grouped by rule. Expands a short name with
/// the client's own search list. `HOST:PORT` and the name of an xDS cluster stand for that port alone, the
/// latter also for its subset.
#[must_use]
pub fn why_not(catalog: &Catalog, host: &str, client: &Client) -> WhyNot {
    why_not_in(catalog, host, None, client)
}

/// Returns what [`why_not`] does, for a subset if one is given.
#[must_use]
pub fn why_not_in(catalog: &Catalog, host: &str, subset: Option<&Subset>, client: &Client) -> WhyNot {
    let name = host.trim().parse::<ClusterName>().ok();
    let (host, port) = match &name {
        Some(name) => (name.host.as_str(), Some(name.port)),
        None => with_port(host).map_or((host, None), |(host, port)| (host, Some(port))),
    };
    let subset = name.as_ref().and_then(|name| name.subset.as_ref()).or(subset);
    let host = host.trim().trim_end_matches('.').to_ascii_lowercase();
    let candidates = long_forms(&host, client.class.domain.as_deref());
    let known = candidates.iter().find(|name| catalog.has_service(name));
    let waits = || candidates.iter().find(|name| catalog.pending.contains_key(name.as_str()));
    let host = known.or_else(waits).unwrap_or(&host);
    let mut trace = Trace::default();
    let wildcard = if known.is_none() { longest_wildcard(catalog, host) } else { None };
    let has_target = wildcard.is_none() || client.class.kind != ClientKind::Grpc;
    if let Some(wildcard) = wildcard {
        trace.steps.push(matched(host, wildcard));
        trace.steps.extend((!has_target).then(|| without_target(host)));
    }
    let host = wildcard.map_or(host.as_str(), Hostname::as_str);
    let mut out = WhyNot::new(catalog, host, client);
    (out.port, out.subset) = (port, subset.cloned());
    if known.is_none() && wildcard.is_none() {
        // Skips full names with a search suffix appended.
        let plausible = candidates.iter().filter(|name| name.matches(".svc.").count() <= 1);
        trace.steps.extend(plausible.flat_map(|name| excluded(catalog, name)));
        trace.steps.extend(unread::of_services(catalog));
    }
    let scope = client.class.scope();
    let named = has_target.then(|| resolve(catalog, host, scope, &mut trace)).flatten();
    let found = named
        .and_then(|view| concrete(catalog, view, scope, &mut trace))
        .and_then(|view| catalog.service(&view.key));
    if let Some((named, view)) = named.zip(found) {
        out.service = Some(view.key.to_string());
        trace.steps.extend(separate(view));
        trace.steps.extend(unread::of_service(catalog, view));
        ports(catalog, (named, view), client, &mut out, &mut trace);
    }
    out.add(trace.steps);
    out.add(hosts(host, found).iter().flat_map(|host| pending::of_host(catalog, host)));
    out.conclude();
    out
}

/// Returns host and port of `HOST:PORT`; `None` without a port.
fn with_port(text: &str) -> Option<(&str, PortNumber)> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let port = PortNumber::new(port.parse().ok()?).ok()?;
    (!host.contains(':')).then_some((host, port))
}

fn no_such_port(view: &ServiceView, number: PortNumber) -> TraceStep {
    let detail = format!("{} has no port {number}", view.key.host);
    service_step(Stage::Merge, Verdict::Drop, Code::NO_SUCH_PORT, None, detail)
}

/// Returns the longest wildcard host that matches a host which no source declares.
#[must_use]
pub fn longest_wildcard<'c>(catalog: &'c Catalog, host: &str) -> Option<&'c Hostname> {
    // `*` sorts before every character that begins another host.
    let wildcards = catalog.hosts.iter().take_while(|(known, _)| known.is_wildcard());
    let wildcards = wildcards.filter(|(_, entry)| entry.has_service()).map(|(known, _)| known);
    let matching = wildcards.filter(|known| host.ends_with(&known.as_str()[1..]) && known.as_str() != host);
    matching.max_by_key(|known| known.as_str().len())
}

fn matched(host: &str, wildcard: &Hostname) -> TraceStep {
    let detail = format!("no source declares {host} itself; {wildcard} matches it");
    service_step(Stage::Merge, Verdict::Pass, Code::WILDCARD, None, detail)
}

/// Returns why a gRPC client has nothing for a host that only a wildcard matches.
fn without_target(host: &str) -> TraceStep {
    let detail = format!("gRPC requests the listener of {host} by name, and only a declared host has one");
    service_step(Stage::Merge, Verdict::Drop, Code::NO_TARGET_OF_WILDCARD, None, detail)
}

/// Returns the requested host, and the hosts of its members if it is a federated service.
fn hosts<'a>(host: &'a str, found: Option<&'a Arc<ServiceView>>) -> BTreeSet<&'a str> {
    let sources = found.into_iter().flat_map(|view| view.ports.iter());
    let sources = sources.flat_map(|port| port.endpoints.inputs.sources.iter());
    let members = sources.filter_map(|source| Some(source.federation.as_ref()?.host.as_str()));
    std::iter::once(host).chain(found.map(|view| view.key.host.as_str())).chain(members).collect()
}

/// Returns why services of the same name are not merged into this one.
fn separate(view: &ServiceView) -> impl Iterator<Item = TraceStep> {
    let same_name = view.conditions.iter().filter(|condition| condition.code == Code::SAME_NAME);
    same_name.map(|condition| TraceStep {
        stage: Stage::Merge,
        verdict: Verdict::Drop,
        code: condition.code,
        registry: view.first().map(|first| first.shard.registry.name.clone()),
        object: condition.objects.first().cloned(),
        endpoint: String::new(),
        detail: condition.message.to_string(),
        time: None,
    })
}

/// Returns the excluded objects that would have declared this host.
fn excluded(catalog: &Catalog, host: &str) -> Vec<TraceStep> {
    let Ok(host) = Hostname::new(host) else { return Vec::new() };
    let lists = catalog.registries.values().flat_map(|r| r.excluded.iter().map(move |list| (r, list)));
    let objects = lists.flat_map(|(r, list)| list.iter().map(move |object| (r, object)));
    let step = |excluded: &ExcludedObject| TraceStep {
        stage: Stage::Source,
        verdict: Verdict::Drop,
        code: excluded.code,
        registry: None,
        object: Some(excluded.object.clone()),
        endpoint: String::new(),
        detail: excluded.message.to_string(),
        time: None,
    };
    objects
        .filter(|(_, excluded)| excluded.explains(&host))
        .map(|(r, excluded)| TraceStep { registry: Some(r.id.name.clone()), ..step(excluded) })
        .take(WhyNot::MAX_NAMED)
        .collect()
}

/// Returns the port by whose routes a client's requests for a host are served: that of an alias if it has routes of its own.
/// A gRPC client has the routes of the service at its end.
fn routing<'c>(named: &'c ServiceView, port: &'c PortView, class: &ClientClass) -> &'c PortView {
    let own = named.port(port.number).filter(|_| class.kind == ClientKind::Sidecar);
    own.filter(|own| routes::applied_routes(own, class).requests.is_some()).unwrap_or(port)
}

fn ports(
    catalog: &Catalog,
    (named, view): (&ServiceView, &Arc<ServiceView>),
    client: &Client,
    out: &mut WhyNot,
    trace: &mut Trace,
) {
    let (wanted, host, subset) = (out.port, out.host.clone(), out.subset.clone());
    let subset = subset.as_ref();
    if let Some(number) = wanted.filter(|number| view.port(*number).is_none()) {
        trace.steps.push(no_such_port(view, number));
    }
    for port in view.ports.iter().filter(|port| wanted.is_none_or(|number| port.number == number)) {
        if !reaches(catalog, view, port, client.class.scope(), trace) {
            continue;
        }
        trace.steps.extend(rules::steps(catalog, view, port, &client.class, subset));
        trace.steps.extend(routes::steps(catalog, (view, routing(named, port, &client.class)), client));
        let lost = destinations::steps(catalog, port, client);
        trace.steps.extend(lost.into_iter().map(TraceStep::dropping));
        trace.steps.extend(security::step(port, subset, &client.class, None));
        let before = trace.steps.len();
        assigned(&port.endpoints.inputs, (Some(client), subset), port, trace);
        let carrier = carrier(port, subset, &client.class);
        if carrier.is_some() {
            let received = if subset.is_none() { received_subsets(port, &client.class) } else { Vec::new() };
            out.served += match &received[..] {
                [] => weighed(trace.steps.get(before..).unwrap_or_default()).count(),
                received => subsets::count(port, client, received),
            };
        }
        let reached = reach(catalog, view, port, client, (&host, subset));
        let steps: Vec<_> = reached.into_iter().map(TraceStep::dropping).collect();
        let is_reached = steps.iter().any(|step| step.verdict == Verdict::Pass);
        out.any_destination |= is_reached && carrier == Some(Carrier::Destination);
        trace.steps.extend(steps);
    }
}
