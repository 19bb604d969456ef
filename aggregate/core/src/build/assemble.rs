//! Assembles a view from a merged service; resource inputs are kept while they are equal (law 5).
//!
//! Called by the build for each changed service. If every part is equal, the old view itself is
//! returned: readers detect a change by identity.

use std::sync::Arc;

use tributary_model::{
    Address, Attributes, ByNamespace, ClientDimensions, ClusterInputs, ClusterPolicy, Code, Condition,
    ConnectionTarget, EndpointInputs, EndpointSource, GatedNetwork, HostEntry, Hostname, HttpCandidate,
    IdentitySet, L4Candidate, ListenerInputs, Namespace, PortNumber, PortView, Protocol, Resolution,
    ResolvedDestination, ResourceInputs, RouteInputs, ServiceAddress, ServiceKey, ServiceView, Shared,
    Target, TrafficDistribution, TrafficPolicy, Visibility,
};

use crate::build::dims;
use crate::build::rules::ServiceRules;
use crate::counters::Counters;
use crate::merge::destinations::{connected, resolved};
use crate::merge::identities::expanded;
use crate::merge::virtual_services::{candidates, naming};
use crate::merge::{Merged, MergedPort, gated};
use crate::state::MergeContext;
use crate::state::identity_sets::IdentitySets;
use crate::state::services::Hosts;

/// Parts that all ports of a service share; equal parts keep the old handle.
struct Common {
    resolution: Resolution,
    attributes: Arc<Attributes>,
    identities: Arc<IdentitySet>,
    addresses: Arc<[ServiceAddress]>,
    traffic: TrafficDistribution,
    one_audience: bool,
    has_selector: bool,
    automatic_tls: bool,
    rules: ServiceRules,
    http_candidates: Arc<[HttpCandidate]>,
    l4_candidates: Arc<[L4Candidate]>,
    destinations: Arc<[ResolvedDestination]>,
    connections: Arc<[ConnectionTarget]>,
}

/// What outlives a build of one view.
pub(crate) struct Kept<'a> {
    /// Counts of what was done.
    pub(crate) counters: &'a mut Counters,
    /// Sets of identities that services share.
    pub(crate) identity_sets: &'a mut IdentitySets,
}

/// Builds a view; `None` if nothing declares the service.
pub(crate) fn assemble(
    context: &MergeContext,
    hosts: &Hosts,
    key: &ServiceKey,
    merged: Merged,
    old: Option<&Arc<ServiceView>>,
    kept: &mut Kept<'_>,
) -> Option<Arc<ServiceView>> {
    let Merged { declarations, ports, conditions, identities, addresses, aliases, size, .. } = merged;
    let Merged { is_join, one_audience, audiences, .. } = merged;
    let first = &declarations.first()?.declaration;
    let before = old.and_then(|v| v.ports.first());
    let found = candidates(context, key);
    let common = Common {
        resolution: if is_join { Resolution::ClientSide } else { first.resolution.clone() },
        attributes: keep_one(before.map(|p| &p.cluster.inputs.attributes), &first.attributes),
        identities: kept.identity_sets.share(
            before.map(|p| &p.cluster.inputs.identities),
            expanded(identities, &context.settings.effective),
        ),
        automatic_tls: context.settings.effective.auto_mtls() && !first.attributes.mesh_external,
        addresses: keep(before.map(|p| &p.listener.inputs.addresses), addresses),
        traffic: first.attributes.traffic,
        rules: ServiceRules::of(context, key),
        destinations: keep(
            before.map(|p| &p.route.inputs.destinations),
            resolved(context, hosts, &found.http),
        ),
        connections: keep(
            before.map(|p| &p.listener.inputs.destinations),
            connected(context, hosts, &found.l4),
        ),
        http_candidates: keep(before.map(|p| &p.route.inputs.virtual_services), found.http),
        l4_candidates: keep(before.map(|p| &p.listener.inputs.virtual_services), found.l4),
        has_selector: declarations.iter().any(|d| d.declaration.selector.is_some()),
        one_audience: one_audience || declarations.windows(2).all(|w| w[0].visibility == w[1].visibility),
    };
    let build = |(number, port): (PortNumber, MergedPort)| {
        let old = old.and_then(|v| v.port(number));
        assemble_port(context, key, number, port, &common, old, kept.counters)
    };
    let ports: Vec<PortView> = ports.into_iter().map(build).collect();
    kept.counters.views += 1;
    let view = ServiceView {
        key: key.clone(),
        declarations: keep(old.map(|v| &v.declarations), declarations),
        ports: ports.into(),
        conditions: keep(old.map(|v| &v.conditions), with_claims(old, conditions.finish())),
        aliases: keep(old.map(|v| &v.aliases), aliases),
        addresses: size,
        audiences: keep(old.map(|v| &v.audiences), audiences),
    };
    Some(unless_same(old, view))
}

/// Keeps the old conflict with the host's other claimants: the build updates it afterwards, and until
/// then it must not count as a change.
fn with_claims(old: Option<&Arc<ServiceView>>, mut conditions: Vec<Condition>) -> Vec<Condition> {
    let known = old.into_iter().flat_map(|v| v.conditions.iter());
    conditions.extend(known.filter(|c| c.code == Code::HOST_CONFLICT).cloned());
    conditions.sort();
    conditions
}

/// Returns the old view if the new one is equal, else the new one.
fn unless_same(old: Option<&Arc<ServiceView>>, new: ServiceView) -> Arc<ServiceView> {
    let same = |old: &&Arc<ServiceView>| {
        Arc::ptr_eq(&old.declarations, &new.declarations)
            && Arc::ptr_eq(&old.conditions, &new.conditions)
            && Arc::ptr_eq(&old.aliases, &new.aliases)
            && Arc::ptr_eq(&old.audiences, &new.audiences)
            && old.addresses == new.addresses
            && old.ports.len() == new.ports.len()
            && old.ports.iter().zip(new.ports.iter()).all(|(a, b)| same_port(a, b))
    };
    old.filter(same).map_or_else(|| Arc::new(new), Arc::clone)
}

fn same_port(a: &PortView, b: &PortView) -> bool {
    a.number == b.number
        && a.name == b.name
        && a.protocol == b.protocol
        && a.cluster == b.cluster
        && a.endpoints == b.endpoints
        && a.listener == b.listener
        && a.route == b.route
}

/// Returns the view with these conditions; the same handle if they are equal.
pub(crate) fn with_conditions(view: &Arc<ServiceView>, conditions: Vec<Condition>) -> Arc<ServiceView> {
    if *view.conditions == *conditions {
        return Arc::clone(view);
    }
    Arc::new(ServiceView { conditions: conditions.into(), ..ServiceView::clone(view) })
}

fn assemble_port(
    context: &MergeContext,
    key: &ServiceKey,
    number: PortNumber,
    port: MergedPort,
    common: &Common,
    old: Option<&PortView>,
    counters: &mut Counters,
) -> PortView {
    let (protocol, gated) =
        (port.protocol, gated(context, port.sources.iter().flat_map(|s| s.group.summary.networks.iter())));
    let policy =
        common.rules.of_endpoints(number, !gated.is_empty(), old.map(|p| &p.endpoints.inputs.policy));
    let locality = context.settings.effective.locality.clone();
    let facts = EndpointInputs {
        policy,
        locality: locality.clone(),
        ..endpoint_facts(key, number, port.sources, gated, common)
    };
    let dims = dims::endpoints(&facts, common.one_audience);
    let endpoints = keep_inputs(old.map(|p| &p.endpoints), facts, dims, counters);
    let policy = common.rules.of_clusters(number, old.map(|p| &p.cluster.inputs.policy));
    let facts = ClusterInputs {
        service: key.clone(),
        port: number,
        protocol,
        resolution: common.resolution.clone(),
        target: target(common, number, &port.target),
        attributes: Arc::clone(&common.attributes),
        identities: Arc::clone(&common.identities),
        automatic_tls: common.automatic_tls,
        all_meshed: keeps_destination(common, policy.as_deref()) && all_meshed(&endpoints.inputs.sources),
        connect_timeout: context.settings.effective.connect_timeout(),
        locality,
        inline: common.resolution.is_dns().then(|| endpoints.clone()),
        policy,
    };
    let dims = dims::cluster(&facts);
    let cluster = keep_inputs(old.map(|p| &p.cluster), facts, dims, counters);
    let facts = ListenerInputs {
        service: key.clone(),
        port: number,
        protocol,
        resolution: common.resolution.clone(),
        addresses: Arc::clone(&common.addresses),
        endpoints: matches_endpoints(common, protocol, endpoints.inputs.sources.is_empty())
            .then(|| endpoints.clone()),
        policy: (!protocol.is_http())
            .then(|| common.rules.of_connections(number, old.map(|p| &p.listener.inputs.policy)))
            .flatten(),
        virtual_services: Arc::clone(&common.l4_candidates),
        destinations: Arc::clone(&common.connections),
    };
    let dims = dims::listener(&facts, common.one_audience);
    let listener = keep_inputs(old.map(|p| &p.listener), facts, dims, counters);
    let facts = RouteInputs {
        service: key.clone(),
        port: number,
        protocol,
        addresses: Arc::clone(&common.addresses),
        resolution: common.resolution.clone(),
        headless: common.attributes.headless,
        retries: context.settings.effective.http_retries.clone(),
        hash: common.rules.of_routes(number, old.map(|p| &p.route.inputs.hash)),
        virtual_services: Arc::clone(&common.http_candidates),
        destinations: Arc::clone(&common.destinations),
        has_service: true,
    };
    let dims = dims::route(&facts);
    let route = keep_inputs(old.map(|p| &p.route), facts, dims, counters);
    PortView { number, name: port.name, protocol, cluster, endpoints, listener, route }
}

/// Returns the routes of requests of the VirtualServices that name a host, for clients for which no service has it;
/// `None` if none of them has any. Most hosts have a service, whose VirtualServices are often the same: the list is shared
/// with `service` then.
pub(crate) fn routes_without_service(
    context: &MergeContext,
    hosts: &Hosts,
    host: &Hostname,
    (old, service): (Option<&HostEntry>, Option<&ServiceView>),
    counters: &mut Counters,
) -> Option<Shared<ResourceInputs<RouteInputs>>> {
    let found = naming(context, host);
    let namespace = found.first()?.of.key.namespace.clone();
    let old = old.and_then(|entry| entry.routes.as_ref());
    let before = old.map(|routes| &routes.inputs);
    let of_service =
        service.and_then(|view| view.ports.first()).map(|port| &port.route.inputs.virtual_services);
    let of_service = of_service.filter(|list| ***list == *found);
    let facts = RouteInputs {
        service: ServiceKey { host: host.clone(), namespace },
        port: PortNumber::HTTP,
        protocol: Protocol::Http,
        resolution: Resolution::ClientSide,
        addresses: Arc::default(),
        headless: false,
        retries: context.settings.effective.http_retries.clone(),
        hash: None,
        destinations: keep(before.map(|own| &own.destinations), resolved(context, hosts, &found)),
        virtual_services: match of_service {
            Some(list) => Arc::clone(list),
            None => keep(before.map(|own| &own.virtual_services), found),
        },
        has_service: false,
    };
    let dims = dims::route(&facts);
    Some(keep_inputs(old, facts, dims, counters))
}

fn endpoint_facts(
    key: &ServiceKey,
    port: PortNumber,
    sources: Vec<EndpointSource>,
    gated: Vec<Arc<GatedNetwork>>,
    common: &Common,
) -> EndpointInputs {
    EndpointInputs {
        service: key.clone(),
        port,
        resolution: common.resolution.clone(),
        traffic: common.traffic,
        sources: shared(sources),
        automatic_tls: common.automatic_tls && !gated.is_empty(),
        gated: shared(gated),
        locality: None,
        policy: None,
    }
}

/// Whether connections of some clients keep their destination.
fn keeps_destination(common: &Common, policy: Option<&ByNamespace<Option<Arc<ClusterPolicy>>>>) -> bool {
    let policies = policy.into_iter().flat_map(ByNamespace::values).flatten();
    common.resolution == Resolution::Passthrough
        || policies.flat_map(|of| of.all()).any(TrafficPolicy::passes)
}

/// Whether there are endpoints, and all of them accept mesh TLS.
fn all_meshed(sources: &[EndpointSource]) -> bool {
    let serves = |source: &EndpointSource, address: &Address| {
        source.ports.get(usize::from(address.port_set)).is_some_and(Option::is_some)
    };
    let is_meshed = |source: &EndpointSource| {
        let mut own = source.group.addresses.iter().filter(|address| serves(source, address));
        source.plain.is_empty() && (!source.group.summary.plain || own.all(|address| address.mtls))
    };
    !sources.is_empty() && sources.iter().all(is_meshed)
}

/// Returns the target port of a ServiceEntry whose connections keep their destination. Clients of a headless Service
/// connect to the target port themselves.
fn target(common: &Common, number: PortNumber, target: &Target) -> Option<PortNumber> {
    match (&common.resolution, target) {
        (Resolution::Passthrough, Target::NamedOr(other)) => other.filter(|other| *other != number),
        _ => None,
    }
}

/// Whether listeners match connections for the port by the addresses of its endpoints: neither host, SNI nor virtual
/// address identifies it. An allocated address does so only for clients that capture DNS.
fn matches_endpoints(common: &Common, protocol: Protocol, has_no_sources: bool) -> bool {
    let (headless, addresses) = (common.attributes.headless, &common.addresses);
    let has_name = protocol.is_http() || protocol == Protocol::Udp || (protocol.is_tls() && !headless);
    let has_endpoints = match &common.resolution {
        Resolution::ClientSide | Resolution::DnsStrict | Resolution::DnsLogical => true,
        // without a selector and without endpoints, any destination belongs to it
        Resolution::Passthrough => headless || common.has_selector || !has_no_sources,
        Resolution::Dynamic | Resolution::Alias(_) => false,
    };
    !has_name && has_endpoints && (headless || addresses.iter().all(|address| address.allocated))
}

/// Returns the old resource inputs, with their cached encodings, if they are equal; else new ones.
fn keep_inputs<T: PartialEq>(
    old: Option<&Shared<ResourceInputs<T>>>,
    facts: T,
    dims: ClientDimensions,
    counters: &mut Counters,
) -> Shared<ResourceInputs<T>> {
    if let Some(old) = old.filter(|old| old.dimensions == dims && old.inputs == facts) {
        return old.clone();
    }
    counters.resource_inputs += 1;
    Shared::new(ResourceInputs::new(facts, dims))
}

fn keep<T: PartialEq>(old: Option<&Arc<[T]>>, new: Vec<T>) -> Arc<[T]> {
    match old {
        Some(old) if **old == *new => Arc::clone(old),
        _ => shared(new),
    }
}

/// Returns a shared slice; all empty ones share one allocation, and most are empty.
fn shared<T>(list: Vec<T>) -> Arc<[T]> {
    if list.is_empty() { Arc::default() } else { list.into() }
}

fn keep_one<T: PartialEq + Clone>(old: Option<&Arc<T>>, new: &T) -> Arc<T> {
    match old {
        Some(old) if **old == *new => Arc::clone(old),
        _ => Arc::new(new.clone()),
    }
}

/// Returns the namespaces whose clients may see a view differently from a client without a namespace.
pub(crate) fn audiences(view: &ServiceView) -> impl Iterator<Item = &Namespace> {
    let lists = view.declarations.iter().filter_map(|d| match &d.visibility {
        Visibility::Namespaces(list) => Some(list),
        _ => None,
    });
    std::iter::once(&view.key.namespace).chain(lists.flat_map(|list| list.iter()))
}
