//! Builds the endpoint assignment of one service port for one client (EDS; `docs/reference/xds.md`).
//!
//! For any inputs the result stays in the strict set that every known client accepts: unique
//! addresses, unique localities per priority, priorities 0..n without a gap, weights of at least 1
//! whose sums fit 32 bits, IP addresses only (and unix paths for Envoy). Everything is sorted, so equal
//! inputs give equal assignments.
//!
//! A candidate passes `select` (may this client have it?), `dedup` (is it a duplicate?), health,
//! `federation` (role of its member), `priority`, `distribute`, `gateways` (what stands in for it) and `assemble` (localities and
//! weights). Each
//! rejection and each pass is a step.

mod assemble;
mod dedup;
mod distribute;
mod federation;
mod gateways;
mod priority;
mod select;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    Address, AddressRef, ClientKind, Code, EndpointGroup, EndpointInputs, EndpointSource, EndpointUse,
    Health, Labels, Locality, PortNumber, Preference, Projection, Recorder, Stage, Subset, Topology, Verdict,
    labels,
};

use crate::steps::{about, endpoint_step};
use gateways::Crossing;
pub(crate) use gateways::{behind, record_networks};
use select::{Candidate, Refusal};

/// Destination that a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination<'a> {
    /// IP address and port.
    Ip(IpAddr, u16),
    /// DNS name and port; only inside an xDS cluster of a DNS type.
    Name(&'a str, u16),
    /// Unix socket path.
    Pipe(&'a str),
}

impl<'a> Destination<'a> {
    /// Builds the destination of an address with this port; `None` for an IP or a name without a port.
    #[must_use]
    pub fn of(group: &'a EndpointGroup, address: &Address, port: Option<PortNumber>) -> Option<Self> {
        let name = group.name(address);
        match address.at {
            AddressRef::Ip(ip) => Some(Self::Ip(ip, port?.get())),
            AddressRef::Name(_) => Some(Self::Name(name?, port?.get())),
            AddressRef::Unix(_) => name.map(Self::Pipe),
        }
    }
}

impl fmt::Display for Destination<'_> {
    /// Formats as explain shows it: `10.0.0.1:80`, `[::1]:80`, `name:80`, `unix:/x`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip, port) => std::net::SocketAddr::new(*ip, *port).fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Pipe(path) => write!(f, "unix:{path}"),
        }
    }
}

/// Endpoint of an assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint<'a> {
    /// Destination.
    pub target: Destination<'a>,
    /// Health that the client receives: never [`Health::Terminating`].
    pub health: Health,
    /// Weight within its locality, at least 1.
    pub weight: u32,
    /// Address, for its labels, topology and identity.
    pub address: &'a Address,
    /// Whether it accepts mesh TLS.
    pub mtls: bool,
    /// Source of the endpoint.
    pub source: &'a EndpointSource,
    /// Whether it is a gateway that stands in for endpoints of its network. Address and source are those of one of them.
    pub is_gateway: bool,
}

impl Endpoint<'_> {
    /// Returns a label of the endpoint; labels of the federated service precede its own.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        label(self.source, self.address, key)
    }
    /// Formats the workload as Istio does: `name;namespace;canonical name;canonical revision;cluster`; `None` if
    /// it is unknown. Omits the revision "latest" and empty trailing parts.
    #[must_use]
    pub fn workload(&self) -> Option<String> {
        let origin = self.address.origin.as_ref().filter(|_| !self.is_gateway)?;
        let label = |key| self.address.labels.get(key).unwrap_or_default();
        let revision = Some(label(labels::CANONICAL_REVISION)).filter(|r| *r != "latest");
        let cluster = self.address.topology.cluster.as_ref().map_or("", |c| c.as_str());
        let parts = [
            &*origin.workload,
            &*origin.object.namespace,
            label(labels::CANONICAL_NAME),
            revision.unwrap_or_default(),
            cluster,
        ];
        let text = parts.join(";");
        Some(text.trim_end_matches(';').to_owned()).filter(|t| !t.is_empty())
    }
}

/// Whether an endpoint has labels, such as those of a subset.
pub(crate) fn has_labels(source: &EndpointSource, address: &Address, labels: &Labels) -> bool {
    labels.pairs().all(|(key, value)| label(source, address, key) == Some(&**value))
}

fn label<'a>(source: &'a EndpointSource, address: &'a Address, key: &str) -> Option<&'a str> {
    let federated = source.federation.as_ref().and_then(|federation| federation.labels.get(key));
    federated.or_else(|| address.labels.get(key))
}

/// Returns the label that orders an endpoint; empty if it has none. Its location counts as labels.
pub(crate) fn label_of<'a>(source: &'a EndpointSource, address: &'a Address, key: &str) -> &'a str {
    let Topology { cluster, network, locality, node } = &*address.topology;
    let place = || match key {
        labels::REGION => Some(&*locality.region),
        labels::ZONE => Some(&*locality.zone),
        labels::SUBZONE => Some(&*locality.subzone),
        labels::NETWORK => network.as_ref().map(|network| network.as_str()),
        labels::CLUSTER => cluster.as_ref().map(|cluster| cluster.as_str()),
        labels::NODE => node.as_ref().map(|node| node.as_str()),
        _ => None,
    };
    label(source, address, key).or_else(place).unwrap_or_default()
}

/// Endpoints of one locality at one priority.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalityEndpoints<'a> {
    /// Priority; clients use 0 first.
    pub priority: u32,
    /// Locality.
    pub locality: Locality,
    /// Sum of their weights, or the share that a rule sets.
    pub weight: u32,
    /// Endpoints, sorted by destination; empty only where a rule gives the locality no share.
    pub endpoints: Vec<Endpoint<'a>>,
}

/// Endpoint assignment of one port, sorted by priority, then locality.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assignment<'a> {
    /// Localities.
    pub localities: Vec<LocalityEndpoints<'a>>,
}

impl<'a> Assignment<'a> {
    /// Whether the assignment has no localities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.localities.is_empty()
    }
    /// Iterates over all endpoints, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint<'a>> {
        self.localities.iter().flat_map(|l| l.endpoints.iter())
    }
}

/// Builds the EDS assignment of a port. It is empty for a service that clients resolve by DNS, whose endpoints are
/// inside its xDS cluster ([`inline`]).
pub fn endpoints<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    client: &Projection,
    r: &mut R,
) -> Assignment<'a> {
    endpoints_of(facts, None, client, r).unwrap_or_default()
}

/// Builds the EDS assignment of a subset, or of all endpoints; `None` for a subset that no rule of the client declares.
pub fn endpoints_of<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    subset: Option<&Subset>,
    client: &Projection,
    r: &mut R,
) -> Option<Assignment<'a>> {
    let part = Part::of(facts, subset, client)?;
    if facts.resolution.is_dns() {
        let step = (Stage::Merge, Verdict::Drop, Code::DNS_RESOLVED);
        about(r, step, &facts.service, "its endpoints stand inside its xDS cluster, not in EDS");
        return Some(Assignment::default());
    }
    Some(assign(facts, part, client, Names::Refused, r))
}

/// Builds the assignment inside an xDS cluster of a DNS type. It may contain names. Where only one endpoint
/// is allowed (LOGICAL_DNS, and every DNS type for gRPC) it contains the first healthy one in precedence.
pub fn inline<'a, R: Recorder>(facts: &'a EndpointInputs, client: &Projection, r: &mut R) -> Assignment<'a> {
    inline_of(facts, None, client, r).unwrap_or_default()
}

/// Builds the assignment inside the xDS cluster of a subset, or of all endpoints, as [`endpoints_of`].
pub fn inline_of<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    subset: Option<&Subset>,
    client: &Projection,
    r: &mut R,
) -> Option<Assignment<'a>> {
    Some(assign(facts, Part::of(facts, subset, client)?, client, Names::Taken, r))
}

/// Part of the endpoints: labels that they must have, and what a rule sets for their use.
#[derive(Debug, Clone, Copy, Default)]
struct Part<'a> {
    labels: Option<&'a Labels>,
    used: Option<&'a EndpointUse>,
}

impl<'a> Part<'a> {
    /// Returns the part of a subset, or of all endpoints; `None` if no rule of the client declares the subset.
    fn of(facts: &'a EndpointInputs, subset: Option<&Subset>, client: &Projection) -> Option<Self> {
        let namespace = client.namespace.as_ref().and_then(Option::as_ref);
        let policy = facts.policy_of(namespace);
        let Some(subset) = subset else {
            return Some(Self { labels: None, used: policy.map(|policy| &policy.whole) });
        };
        let (_, labels, used) = policy?.subsets.iter().find(|(name, ..)| name == subset)?;
        Some(Self { labels: Some(labels), used: Some(used) })
    }
    /// Returns the first label of the subset that an endpoint does not have, as key and value.
    fn missing(self, candidate: &Candidate<'_>) -> Option<(&'a str, &'a str)> {
        let lacks = |(key, value): &(&Arc<str>, &Arc<str>)| candidate.label(key) != Some(&***value);
        let (key, value) = self.labels?.pairs().find(lacks)?;
        Some((key, value))
    }
    fn admits<R: Recorder>(self, candidate: &Candidate<'_>, r: &mut R) -> bool {
        let missing = self.missing(candidate);
        if let Some((key, value)) = missing {
            candidate.refuse(&Refusal::NotInSubset(key, value), r);
        }
        missing.is_none()
    }
}

/// Returns the sockets of all endpoints that the client may reach, whichever it prefers.
pub(crate) fn sockets<R: Recorder>(
    facts: &EndpointInputs,
    client: &Projection,
    r: &mut R,
) -> BTreeSet<(IpAddr, u16)> {
    let socket = |candidate: &Candidate<'_>| match candidate.target {
        Destination::Ip(ip, port) => Some((ip, port)),
        Destination::Name(..) | Destination::Pipe(_) => None,
    };
    let crossing = Crossing::of(facts, None, client);
    let all = admitted(facts, (Part::default(), &crossing), client, Names::Taken, r);
    all.iter().filter_map(socket).collect()
}

/// Whether endpoints may be DNS names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Not allowed, in EDS.
    Refused,
    /// Allowed, inside an xDS cluster that resolves names.
    Taken,
}

fn assign<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    part: Part<'_>,
    client: &Projection,
    names: Names,
    r: &mut R,
) -> Assignment<'a> {
    let crossing = Crossing::of(facts, part.used, client);
    let mut candidates = admitted(facts, (part, &crossing), client, names, r);
    if names == Names::Taken && takes_one(facts, client) {
        keep_first(&mut candidates, r);
        // clients reject an xDS cluster without its only endpoint
        return assemble::assemble(Preference::Alike, client, candidates, r);
    }
    assemble::assemble(facts.preference(part.used), client, candidates, r)
}

/// Returns the endpoints that the client may have, without duplicates.
fn admitted<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    (part, crossing): (Part<'_>, &Crossing),
    client: &Projection,
    names: Names,
    r: &mut R,
) -> Vec<Candidate<'a>> {
    let mut candidates = select::select(facts, client, (names, crossing), r);
    dedup::dedup(facts, &mut candidates, client, r);
    candidates.retain(|candidate| part.admits(candidate, r));
    candidates.retain(|c| admit_health(c, r));
    federation::admit(&mut candidates, r);
    candidates
}

/// Whether the client accepts exactly one endpoint: for LOGICAL_DNS, which is the only DNS type of gRPC.
fn takes_one(facts: &EndpointInputs, client: &Projection) -> bool {
    facts.resolution == tributary_model::Resolution::DnsLogical || client.kind == Some(ClientKind::Grpc)
}

fn keep_first<R: Recorder>(candidates: &mut Vec<Candidate<'_>>, r: &mut R) {
    let Some(first) = candidates.iter().map(Candidate::rank_alone).min() else { return };
    candidates.retain(|c| {
        let keep = c.rank_alone() == first;
        if !keep {
            c.refuse(&Refusal::OnlyOne, r);
        }
        keep
    });
}

/// Decides by health. Terminating endpoints are never sent, draining ones only if sessions are bound to
/// them. Unhealthy ones are sent as unhealthy, so a client without healthy endpoints can report the reason;
/// its xDS cluster disables panic mode, so it does not use them (`docs/reference/xds.md`).
fn admit_health<R: Recorder>(candidate: &Candidate<'_>, r: &mut R) -> bool {
    let persistent = candidate.source.declaration.attributes.persistent_sessions;
    let is_behind = candidate.via.is_some();
    let (verdict, code, detail) = match candidate.health {
        Health::Healthy => (Verdict::Pass, Code::HEALTHY, "healthy"),
        Health::Unhealthy if is_behind => {
            (Verdict::Drop, Code::UNHEALTHY, "unhealthy, and gateways stand in for healthy endpoints")
        }
        Health::Unhealthy => (Verdict::Warn, Code::UNHEALTHY, "sent as unhealthy: clients do not use it"),
        Health::Draining if persistent && !is_behind => {
            (Verdict::Warn, Code::DRAINING, "kept for the sessions bound to it")
        }
        Health::Draining => (Verdict::Drop, Code::DRAINING, "draining, and its service binds no sessions"),
        Health::Terminating => (Verdict::Drop, Code::TERMINATING, "going away"),
    };
    candidate.record((Stage::Health, verdict, code), || detail.to_owned(), r);
    verdict != Verdict::Drop
}

impl Candidate<'_> {
    /// Returns a label of the endpoint; labels of the federated service precede its own.
    fn label(&self, key: &str) -> Option<&str> {
        label(self.source, self.address, key)
    }
    fn record<R: Recorder>(&self, step: (Stage, Verdict, Code), detail: impl FnOnce() -> String, r: &mut R) {
        r.step(|| endpoint_step(step, self.source, self.target.to_string(), detail()));
    }
    fn refuse<R: Recorder>(&self, why: &Refusal<'_>, r: &mut R) {
        self.record((why.stage(), Verdict::Drop, why.code()), || why.detail(self), r);
    }
}

#[cfg(test)]
mod tests;
