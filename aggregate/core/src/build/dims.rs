//! Client attributes that the resources of each kind depend on: one function per kind.
//!
//! Called when resource inputs are built. Fewer dimensions allow more sharing: each is declared only
//! if the inputs can make the resources of two clients differ.

use std::ops::BitOr;

use tributary_model::{
    ByNamespace, ClientDimensions, ClientMatch, ClusterInputs, EndpointInputs, HttpCandidate, L4Candidate,
    ListenerInputs, Preference, ResolvedDestination, ResourceInputs, RouteCandidate, RouteInputs,
    ServiceAddress, Shared, TrafficDistribution, TrafficPolicy, Visibility,
};

/// Returns the dimensions of an xDS cluster: the kind of client, and where it resolves names its IP families and the
/// dimensions of inline endpoints.
pub(crate) fn cluster(facts: &ClusterInputs) -> ClientDimensions {
    let resolves = |e: &Shared<ResourceInputs<EndpointInputs>>| e.dimensions | ClientDimensions::FAMILIES;
    ClientDimensions::KIND
        | facts.inline.as_ref().map_or(ClientDimensions::NONE, resolves)
        | ruled(facts.policy.as_deref())
        | secured(facts)
}

/// Returns the dimension that decides whether connections have mesh TLS.
fn secured(facts: &ClusterInputs) -> ClientDimensions {
    let policies = facts.policy.iter().flat_map(|by| by.values()).flatten();
    let is_required = || policies.flat_map(|policy| policy.all()).any(TrafficPolicy::is_mutual);
    if facts.automatic_tls || is_required() { ClientDimensions::CERTIFICATES } else { ClientDimensions::NONE }
}

/// Returns the dimensions of rules that differ between clients.
fn ruled<T: PartialEq>(rules: Option<&ByNamespace<T>>) -> ClientDimensions {
    let differ = rules.is_some_and(|rules| rules.namespaces().next().is_some());
    if differ { ClientDimensions::NAMESPACE } else { ClientDimensions::NONE }
}

/// Returns the dimensions of an assignment: of its endpoints, and of their order.
pub(crate) fn endpoints(facts: &EndpointInputs, one_audience: bool) -> ClientDimensions {
    let order = facts.preferences().map(ordered).fold(ClientDimensions::NONE, BitOr::bitor);
    admitted(facts, one_audience) | order | ruled(facts.policy.as_deref())
}

/// Returns the dimensions that an order of endpoints compares.
fn ordered(preference: Preference<'_>) -> ClientDimensions {
    let near = ClientDimensions::LOCALITY | ClientDimensions::NETWORK;
    match preference {
        Preference::Alike | Preference::Near(TrafficDistribution::Any) => ClientDimensions::NONE,
        Preference::Near(TrafficDistribution::SameZone) => near,
        Preference::Near(TrafficDistribution::SameNode) => near | ClientDimensions::NODE,
        Preference::Distribute(_) => ClientDimensions::LOCALITY,
        Preference::Failover { labels, .. } => {
            let by_label = if labels.is_empty() { ClientDimensions::NONE } else { ClientDimensions::LABELS };
            let by_place = preference.compares_localities();
            by_label | if by_place { ClientDimensions::LOCALITY } else { ClientDimensions::NONE }
        }
    }
}

/// What decides whether a client uses gateways, and which: its network, its kind and certificates, and the families of its addresses.
fn gated() -> ClientDimensions {
    let of_client = ClientDimensions::KIND | ClientDimensions::CERTIFICATES | ClientDimensions::FAMILIES;
    ClientDimensions::NETWORK | of_client
}

/// Returns the dimensions that decide which endpoints a client may have. `one_audience`: all declarations of the
/// service have one visibility, so a client that sees the service sees all of its sources.
fn admitted(facts: &EndpointInputs, one_audience: bool) -> ClientDimensions {
    let any = |test: fn(&tributary_model::EndpointSource) -> bool| facts.sources.iter().any(test);
    let mut out = ClientDimensions::NONE;
    let mut need = |when: bool, dims: ClientDimensions| {
        if when {
            out = out | dims;
        }
    };
    // Envoy receives pipes, gRPC does not
    need(any(|s| s.group.summary.unix), ClientDimensions::KIND);
    need(any(|s| s.declaration.attributes.node_local), ClientDimensions::NODE);
    need(
        any(|s| s.declaration.attributes.cluster_local || s.declaration.attributes.own_cluster_only),
        ClientDimensions::CLUSTER,
    );
    need(!one_audience && !facts.sources.is_empty(), ClientDimensions::NAMESPACE);
    need(!facts.gated.is_empty(), gated());
    out
}

/// Returns the dimensions of a port's part in listeners. It matches endpoints whichever the client prefers.
pub(crate) fn listener(facts: &ListenerInputs, one_audience: bool) -> ClientDimensions {
    let matched =
        |endpoints: &Shared<ResourceInputs<EndpointInputs>>| admitted(&endpoints.inputs, one_audience);
    let matched = facts.endpoints.as_ref().map_or(ClientDimensions::NONE, matched);
    // the wildcard address has the client's own family
    ClientDimensions::KIND
        | ClientDimensions::BINDS
        | ClientDimensions::FAMILIES
        | matched
        | facts.policies().map(|by| ruled(Some(by))).fold(ClientDimensions::NONE, BitOr::bitor)
        | virtual_addresses(&facts.addresses)
        | chosen(&facts.virtual_services, L4Candidate::clients)
}

/// Returns the dimensions of a port's part in route tables: the client's DNS domain completes short names.
pub(crate) fn route(facts: &RouteInputs) -> ClientDimensions {
    // without a service, a host has no short names
    let domain = if facts.has_service { ClientDimensions::DOMAIN } else { ClientDimensions::NONE };
    ClientDimensions::KIND
        | domain
        | ruled(facts.hash.as_deref())
        | virtual_addresses(&facts.addresses)
        | chosen(&facts.virtual_services, HttpCandidate::clients)
        | hashed(&facts.destinations)
}

/// Returns the dimensions that decide the hashes of destinations.
fn hashed(destinations: &[ResolvedDestination]) -> ClientDimensions {
    let hashes = destinations.iter().flat_map(|to| to.hash_of_ports.values().chain([&to.hash]));
    hashes.fold(ClientDimensions::NONE, |out, hash| out | ruled(hash.as_deref()))
}

/// Returns the dimensions that decide which VirtualService serves a client, and which of its routes.
fn chosen<'a, R, I: Iterator<Item = &'a ClientMatch>>(
    candidates: &'a [RouteCandidate<R>],
    clients: impl Fn(&'a RouteCandidate<R>) -> I,
) -> ClientDimensions {
    let mut out = ClientDimensions::NONE;
    if candidates.iter().any(|candidate| candidate.of.visibility != Visibility::Public) {
        out = out | ClientDimensions::NAMESPACE;
    }
    for found in candidates.iter().flat_map(clients) {
        if found.namespace.is_some() {
            out = out | ClientDimensions::NAMESPACE;
        }
        if !found.labels.is_empty() {
            out = out | ClientDimensions::LABELS;
        }
    }
    out
}

/// Returns the dimensions of virtual addresses: a client uses those of its own cluster and families,
/// and allocated ones if it captures DNS.
fn virtual_addresses(addresses: &[ServiceAddress]) -> ClientDimensions {
    let mut out = ClientDimensions::NONE;
    if addresses.iter().any(|a| a.cluster.is_some()) {
        out = out | ClientDimensions::CLUSTER;
    }
    if !addresses.is_empty() {
        out = out | ClientDimensions::FAMILIES;
    }
    if addresses.iter().any(|a| a.allocated) {
        out = out | ClientDimensions::DNS_CAPTURE;
    }
    out
}
