//! Which attributes of a client each kind of facet's answers read: one function per kind.
//!
//! Called when a facet is built. Fewer dimensions are more sharing, so each is declared only where
//! the facts can make two clients' answers differ.

use tributary_model::{
    AliasHost, ClientDimensions, ClusterInputs, EndpointInputs, ListenerInputs, RouteInputs, ServiceAddress,
    TrafficDistribution, Visibility,
};

/// What an xDS cluster's answer reads: how it is built depends on the kind of client; where its
/// endpoints stand inside, all that they read too.
pub(crate) fn cluster(facts: &ClusterInputs) -> ClientDimensions {
    let inline = facts.inline.as_ref().map_or(ClientDimensions::NONE, |e| e.dimensions);
    ClientDimensions::KIND | inline
}

/// What an assignment reads. `one_audience`: all declarations of the service have one visibility,
/// so that whoever sees the service sees all of its sources.
pub(crate) fn endpoints(facts: &EndpointInputs, one_audience: bool) -> ClientDimensions {
    let any = |test: fn(&tributary_model::EndpointSource) -> bool| facts.sources.iter().any(test);
    let mut out = ClientDimensions::NONE;
    let mut need = |when: bool, dims: ClientDimensions| {
        if when {
            out = out | dims;
        }
    };
    // Pipes go to Envoy and are left out for gRPC.
    need(any(|s| s.group.summary.unix), ClientDimensions::KIND);
    need(any(|s| s.declaration.attributes.node_local), ClientDimensions::NODE);
    need(
        any(|s| s.declaration.attributes.cluster_local || s.declaration.attributes.own_cluster_only),
        ClientDimensions::CLUSTER,
    );
    match facts.traffic {
        TrafficDistribution::Any => {}
        TrafficDistribution::SameZone => need(true, ClientDimensions::LOCALITY | ClientDimensions::NETWORK),
        TrafficDistribution::SameNode => {
            need(true, ClientDimensions::LOCALITY | ClientDimensions::NETWORK | ClientDimensions::NODE)
        }
    }
    need(!one_audience && !facts.sources.is_empty(), ClientDimensions::NAMESPACE);
    need(!facts.gated.is_empty(), ClientDimensions::NETWORK);
    out
}

/// What a port's part in listeners reads.
pub(crate) fn listener(facts: &ListenerInputs) -> ClientDimensions {
    let inline = facts.inline.as_ref().map_or(ClientDimensions::NONE, |e| e.dimensions);
    // The address that means all of them is of the client's own family.
    ClientDimensions::KIND
        | ClientDimensions::BINDS
        | ClientDimensions::FAMILIES
        | inline
        | virtual_addresses(&facts.addresses)
}

/// What a port's part in route tables reads: the client's namespace, where a host that leads here is not for all.
pub(crate) fn route(facts: &RouteInputs) -> ClientDimensions {
    let is_public = |alias: &AliasHost| alias.visibility == Visibility::Public;
    let named = if facts.aliases.iter().all(is_public) {
        ClientDimensions::NONE
    } else {
        ClientDimensions::NAMESPACE
    };
    ClientDimensions::KIND | ClientDimensions::DOMAIN | named | virtual_addresses(&facts.addresses)
}

/// Which virtual addresses a client uses: its own cluster's, of its families, and allocated ones
/// where it captures DNS.
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
