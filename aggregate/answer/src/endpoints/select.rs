//! Selects the addresses that a client may have: by visibility, node, cluster, network and kind of
//! address. Keeps the order of the inputs.

use std::borrow::Cow;

use tributary_model::{
    Address, AddressRef, ClientKind, Code, EndpointInputs, EndpointSource, Health, Namespace, NetworkId,
    ObjectId, Projection, Recorder, ShardPriority, Stage, Timestamp, Verdict, Visibility, labels,
};

use super::gateways::{Crossing, Via};
use super::{Destination, Names};
use crate::steps::endpoint_step;

/// Maximum number of namespaces in a step.
const MAX_NAMED: usize = 8;

/// Address that may become an endpoint.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'a> {
    pub(super) target: Destination<'a>,
    pub(super) source: &'a EndpointSource,
    pub(super) address: &'a Address,
    /// Position of its shard in the order of precedence.
    pub(super) shard: usize,
    /// Position in its group.
    pub(super) index: usize,
    /// Health that its source reports; after dedup, the worst of all shards.
    pub(super) health: Health,
    /// Whether it is a standby of a federated service; after dedup, whether it is one in every listing.
    pub(super) standby: bool,
    /// Weight within its priority, at least 1; in the unit of its group until all are known.
    pub(super) weight: u64,
    /// Network that the client enters through gateways to reach it.
    pub(super) via: Option<Via<'a>>,
    /// Whether it is a gateway that stands in for endpoints of its network; the rest is that of one of them.
    pub(super) is_gateway: bool,
}

/// Order of candidates: shard, then age and name of the declaration, then the listing object, then
/// the position in it. It does not depend on the order of sources within a shard.
pub(super) type Precedence<'a> =
    (usize, bool, Option<Timestamp>, &'a ObjectId, &'a ObjectId, usize, Destination<'a>);

/// Declaration part of a [`Precedence`].
type Declared<'a> = (usize, bool, Option<Timestamp>, &'a ObjectId);

/// Order of candidates if a client accepts only one.
pub(super) type RankAlone<'a> = (Health, ShardPriority, Declared<'a>, Option<&'a ObjectId>, Precedence<'a>);

impl<'a> Candidate<'a> {
    /// Whether it has a port for that of the service.
    pub(super) fn has_port(&self) -> bool {
        let is_pipe = matches!(self.address.at, AddressRef::Unix(_));
        group_port(self.source, self.address).is_some()
            && (is_pipe || port(self.source, self.address).is_some())
    }
    pub(super) fn network(&self) -> Option<&'a NetworkId> {
        self.address.topology.network.as_ref()
    }
    /// Whether it accepts mesh TLS: it is of the mesh, and no policy disables it.
    pub(super) fn accepts_mesh_tls(&self) -> bool {
        let at = u32::try_from(self.index).unwrap_or(u32::MAX);
        self.address.mtls && self.source.plain.binary_search(&at).is_err()
    }
    /// Returns the sort key for clients that accept only one endpoint: healthy ones of normal priority come first.
    /// Among selected workloads the name decides, because their position in a bucket depends on a hash.
    pub(super) fn rank_alone(&self) -> RankAlone<'a> {
        let (shard, is_ageless, created, declaration, ..) = self.precedence();
        let workload = self.address.origin.as_ref().map(|origin| &origin.object);
        let declared = (shard, is_ageless, created, declaration);
        (self.health, self.source.priority, declared, workload, self.precedence())
    }
    pub(super) fn precedence(&self) -> Precedence<'a> {
        let declaration = &self.source.declaration;
        (
            self.shard,
            declaration.created.is_none(),
            declaration.created,
            &declaration.source.object,
            &self.source.group.source.object,
            self.index,
            self.target,
        )
    }
}

/// Reason for the removal of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Refusal<'a> {
    NoPort,
    NotVisible,
    OtherNode,
    OtherCluster,
    /// Why gateways do not stand in for it.
    OtherNetwork(&'static str),
    NotAnIp,
    UnixForGrpc,
    /// A router passes mesh TLS on, which it does not accept.
    PlainForRouter,
    Duplicate(&'a EndpointSource),
    OnlyOne,
    /// Key and value of a label of the requested subset that it does not have.
    NotInSubset(&'a str, &'a str),
    NoShare,
    /// A rule distributes the client's requests among other localities.
    NoLocalityShare,
    /// Number of healthy active endpoints, and the number that is enough.
    Waiting(usize, usize),
}

impl Refusal<'_> {
    pub(super) const fn stage(&self) -> Stage {
        match self {
            Self::NotVisible | Self::OtherNode | Self::OtherCluster => Stage::Visibility,
            Self::OtherNetwork(_) | Self::PlainForRouter => Stage::Network,
            Self::NoPort
            | Self::NotAnIp
            | Self::UnixForGrpc
            | Self::Duplicate(_)
            | Self::OnlyOne
            | Self::NotInSubset(..) => Stage::Merge,
            Self::NoShare | Self::NoLocalityShare | Self::Waiting(..) => Stage::Weight,
        }
    }
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::NoPort => Code::UNMATCHED_PORT,
            Self::NotVisible => Code::NOT_VISIBLE,
            Self::OtherNode => Code::OTHER_NODE,
            Self::OtherCluster => Code::OTHER_CLUSTER,
            Self::OtherNetwork(_) => Code::OTHER_NETWORK,
            Self::NotAnIp => Code::NOT_AN_IP,
            Self::UnixForGrpc => Code::UNIX_NOT_FOR_GRPC,
            Self::PlainForRouter => Code::PLAIN_BEHIND_ROUTER,
            Self::Duplicate(_) => Code::DUPLICATE_ADDRESS,
            Self::OnlyOne => Code::DNS_RESOLVED,
            Self::NotInSubset(..) => Code::NOT_IN_SUBSET,
            Self::NoShare => Code::FEDERATED,
            Self::NoLocalityShare => Code::NO_LOCALITY_SHARE,
            Self::Waiting(..) => Code::STANDBY,
        }
    }
    pub(super) fn detail(&self, candidate: &Candidate<'_>) -> String {
        let topology = &candidate.address.topology;
        match self {
            Self::NoPort => "it has no port for this port of the service".into(),
            Self::NotVisible => format!(
                "{} is not exported to the client's namespace",
                candidate.source.declaration.source.object
            ),
            Self::OtherNode => {
                let node = topology.node.as_ref().map_or("no known node", |n| n.as_str());
                format!("only endpoints of the client's own node are served; this one runs on {node}")
            }
            Self::OtherCluster => {
                let cluster = topology.cluster.as_ref().map_or("no known cluster", |c| c.as_str());
                format!("only endpoints of the client's own cluster are served; this one is of {cluster}")
            }
            Self::OtherNetwork(why) => {
                let network = topology.network.as_ref().map_or("", |n| n.as_str());
                format!("it is in network {network}, which is entered through gateways only: {why}")
            }
            Self::NotAnIp => "EDS carries IP addresses only".into(),
            Self::UnixForGrpc => "gRPC is not given unix paths".into(),
            Self::PlainForRouter => "a router passes mesh TLS on, which the endpoint does not accept".into(),
            Self::Duplicate(owner) => {
                format!("already served by {} of {}", owner.group.source.object, owner.shard.registry)
            }
            Self::NotInSubset(key, value) => match candidate.label(key) {
                Some(own) => format!("its label {key} is {own}, and the subset has {key}={value}"),
                None => format!("it has no label {key}, and the subset has {key}={value}"),
            },
            Self::NoShare => "its member of the federated service has a share of 0".into(),
            Self::NoLocalityShare => format!(
                "its locality {} has no share of this client's requests",
                if topology.locality.is_empty() {
                    "(none)".to_owned()
                } else {
                    topology.locality.to_string()
                }
            ),
            Self::Waiting(healthy, enough) => {
                format!(
                    "standby: the number of healthy active endpoints is {healthy}, and {enough} is enough"
                )
            }
            Self::OnlyOne => "this DNS type has one endpoint, and another precedes this one".into(),
        }
    }
}

/// Selects the addresses of the port that this client may have; records a step for each address.
pub(super) fn select<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    client: &Projection,
    (names, crossing): (Names, &Crossing),
    r: &mut R,
) -> Vec<Candidate<'a>> {
    let mut out = Vec::new();
    for candidate in candidates(facts, client, crossing) {
        match refusal(&candidate, facts, client, (names, crossing)) {
            Some(why) => candidate.refuse(&why, r),
            None => {
                record_pass(&candidate, r);
                out.push(candidate);
            }
        }
    }
    out
}

/// Returns all addresses, in the order of the inputs.
pub(super) fn candidates<'a>(
    facts: &'a EndpointInputs,
    client: &Projection,
    crossing: &Crossing,
) -> impl Iterator<Item = Candidate<'a>> {
    let mut shards: Vec<&tributary_model::ShardRef> = Vec::new();
    let sources = facts.sources.iter().map(move |source| {
        let shard = shards.iter().position(|s| **s == *source.shard).unwrap_or_else(|| {
            shards.push(&source.shard);
            shards.len() - 1
        });
        (shard, source)
    });
    sources.flat_map(move |(shard, source)| {
        source.group.addresses.iter().enumerate().map(move |(index, address)| {
            let via = crossing.via(address, facts, client);
            Candidate { via, ..candidate(source, address, shard, index, facts) }
        })
    })
}

fn candidate<'a>(
    source: &'a EndpointSource,
    address: &'a Address,
    shard: usize,
    index: usize,
    facts: &EndpointInputs,
) -> Candidate<'a> {
    let number = group_port(source, address).and_then(|p| p.number);
    // `refusal` removes addresses without a port at once, so the service's number only appears in steps.
    let target =
        Destination::of(&source.group, address, number.or(Some(facts.port))).unwrap_or(Destination::Pipe(""));
    let standby = source.federation.as_ref().is_some_and(|federation| federation.standby);
    let weight = u64::from(address.weight.max(1));
    Candidate {
        target,
        source,
        address,
        shard,
        index,
        health: health(address),
        standby,
        weight,
        via: None,
        is_gateway: false,
    }
}

/// Returns the health of an address. The draining label applies to any health that the source reports
/// (`docs/explanation/model.md`).
fn health(address: &Address) -> Health {
    let labelled = address.labels.get(labels::DRAINING).is_some_and(|value| !value.is_empty());
    if labelled { address.health.max(Health::Draining) } else { address.health }
}

fn group_port<'a>(source: &'a EndpointSource, address: &Address) -> Option<&'a tributary_model::GroupPort> {
    let set = source.group.port_sets.get(usize::from(address.port_set))?;
    let at = (*source.ports.get(usize::from(address.port_set))?)?;
    set.get(usize::from(at))
}

fn port(source: &EndpointSource, address: &Address) -> Option<u16> {
    group_port(source, address)?.number.map(tributary_model::PortNumber::get)
}

fn refusal<'a>(
    candidate: &Candidate<'a>,
    facts: &EndpointInputs,
    client: &Projection,
    (names, crossing): (Names, &Crossing),
) -> Option<Refusal<'a>> {
    let Candidate { source, address, .. } = candidate;
    let is_pipe = matches!(address.at, AddressRef::Unix(_));
    let rules = [
        (!candidate.has_port(), Refusal::NoPort),
        (!is_visible(source, facts, client), Refusal::NotVisible),
        (is_elsewhere(source, address, client), Refusal::OtherNode),
        (is_foreign(source, address, client), Refusal::OtherCluster),
        (names == Names::Refused && matches!(address.at, AddressRef::Name(_)), Refusal::NotAnIp),
        (is_pipe && client.kind == Some(ClientKind::Grpc), Refusal::UnixForGrpc),
    ];
    let first = rules.into_iter().find_map(|(holds, why)| holds.then_some(why));
    let is_plain = || client.kind == Some(ClientKind::Router) && !candidate.accepts_mesh_tls();
    let other = || crossing.refusal(candidate, names).map(Refusal::OtherNetwork);
    first.or_else(other).or_else(|| is_plain().then_some(Refusal::PlainForRouter))
}

/// Whether the client sees the source. Without a namespace in the projection all sources have the same
/// visibility, and the resolution of the host already checked it.
fn is_visible(source: &EndpointSource, facts: &EndpointInputs, client: &Projection) -> bool {
    let Some(namespace) = &client.namespace else { return true };
    source.visibility.admits(&facts.service.namespace, namespace.as_ref())
}

fn is_elsewhere(source: &EndpointSource, address: &Address, client: &Projection) -> bool {
    source.declaration.attributes.node_local
        && client.node.as_ref().is_some_and(|n| *n != address.topology.node)
}

/// Whether a rule restricts the address to its own cluster. A cluster-local service excludes clients of an
/// unknown cluster; the discoverability rule treats an unknown cluster, on either side, as equal
/// (`docs/explanation/model.md`).
fn is_foreign(source: &EndpointSource, address: &Address, client: &Projection) -> bool {
    let Some(own) = &client.cluster else { return false };
    let theirs = &address.topology.cluster;
    let attributes = &source.declaration.attributes;
    let strict = attributes.cluster_local && own != theirs;
    let known = own.is_some() && theirs.is_some();
    strict || (attributes.own_cluster_only && known && own != theirs)
}

fn record_pass<R: Recorder>(candidate: &Candidate<'_>, r: &mut R) {
    if !r.is_on() {
        return;
    }
    let object = &candidate.source.declaration.source.object;
    let held = u32::try_from(candidate.index).is_ok_and(|i| candidate.source.held.binary_search(&i).is_ok());
    if held {
        let detail = "its removal is not confirmed";
        record(candidate, (Stage::Source, Verdict::Warn, Code::HELD_ENDPOINT), detail.into(), r);
    }
    record(
        candidate,
        (Stage::Visibility, Verdict::Pass, Code::VISIBLE),
        format!("{object} is exported to {}", exported_to(&candidate.source.visibility)),
        r,
    );
    let (code, detail) = match candidate.via {
        None => (Code::SAME_NETWORK, format!("reached directly ({})", network_detail(candidate))),
        Some(via) => {
            let detail =
                format!("reached through the gateways of network {}: {}", via.network.id, via.named());
            (Code::THROUGH_GATEWAY, detail)
        }
    };
    record(candidate, (Stage::Network, Verdict::Pass, code), detail, r);
}

/// Returns whom a declaration is exported to. Whether the client's Sidecar imports it is decided for the whole service.
fn exported_to(visibility: &Visibility) -> Cow<'static, str> {
    match visibility {
        Visibility::Public => "every namespace".into(),
        Visibility::Own => "its own namespace".into(),
        Visibility::Hidden => "no namespace".into(),
        Visibility::Namespaces(all) => {
            let named: Vec<&str> = all.iter().take(MAX_NAMED).map(Namespace::as_str).collect();
            let more = all.len().saturating_sub(MAX_NAMED);
            let end = if more > 0 { format!(" and {more} more") } else { String::new() };
            let noun = if all.len() == 1 { "namespace" } else { "namespaces" };
            format!("{noun} {}{end}", named.join(", ")).into()
        }
    }
}

/// The network of an endpoint; without one, why its label does not count.
fn network_detail(candidate: &Candidate<'_>) -> String {
    match (candidate.network(), candidate.address.labels.get(labels::NETWORK)) {
        (Some(network), _) => network.to_string(),
        (None, Some(label)) => format!(
            "no network: its object sets none, and its label {} {label} is for selectors only",
            labels::NETWORK
        ),
        (None, None) => "no network named".to_owned(),
    }
}

fn record<R: Recorder>(candidate: &Candidate<'_>, step: (Stage, Verdict, Code), detail: String, r: &mut R) {
    r.step(|| endpoint_step(step, candidate.source, candidate.target.to_string(), detail));
}
