//! The assignment that a client gets for one port of one service (`xds.md` 4).
//!
//! Whatever the facts, the outcome is in the strict set of `xds.md` 4.7, which every known client
//! takes: unique addresses, unique localities per priority, priorities 0..n without a gap, weights
//! of at least 1 whose sums fit 32 bits, IP addresses only (and unix paths for Envoy). Everything
//! is sorted, so that equal facts give equal assignments.
//!
//! The way of a candidate: `select` (may this client have it?), `dedup` (is it the same as another?),
//! health, `joined` (what an alias says), `priority`, `assemble` (localities and weights). Each refusal and each passing is a step.

mod assemble;
mod dedup;
mod joined;
mod priority;
mod select;

use std::fmt;
use std::net::IpAddr;

use tributary_model::{
    Address, AddressRef, ClientKind, Code, EndpointGroup, EndpointInputs, EndpointSource, Health, Locality,
    PortNumber, Projection, Recorder, Stage, Verdict, labels,
};

use crate::note::{about, endpoint_step};
use select::{Candidate, Refusal};

/// Where an endpoint is, as a client connects to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination<'a> {
    /// An IP address and port.
    Ip(IpAddr, u16),
    /// A DNS name and port; only inside an xDS cluster of a DNS type.
    Name(&'a str, u16),
    /// A unix path.
    Pipe(&'a str),
}

impl<'a> Destination<'a> {
    /// Where an address of a group is with this port; `None` for an IP or a name without a port.
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
    /// As people and explain write it: `10.0.0.1:80`, `[::1]:80`, `name:80`, `unix:/x`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip, port) => std::net::SocketAddr::new(*ip, *port).fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Pipe(path) => write!(f, "unix:{path}"),
        }
    }
}

/// One endpoint of an assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint<'a> {
    /// Where.
    pub target: Destination<'a>,
    /// As the client is told: never [`Health::Terminating`].
    pub health: Health,
    /// Its share of its locality's traffic, at least 1.
    pub weight: u32,
    /// The address, for its labels, place, identity and mesh TLS.
    pub address: &'a Address,
    /// Whose word it is.
    pub source: &'a EndpointSource,
}

impl Endpoint<'_> {
    /// A label of it: its own, or what its alias labels it with.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let joined = self.source.federation.as_ref().and_then(|joined| joined.labels.get(key));
        joined.or_else(|| self.address.labels.get(key))
    }
    /// `name;namespace;canonical name;canonical revision;cluster` (`xds.md` 4.3), where the
    /// workload is known. The revision "latest" is left out, and so are empty ends.
    #[must_use]
    pub fn workload(&self) -> Option<String> {
        let origin = self.address.origin.as_ref()?;
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

/// The endpoints of one locality at one priority.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalityEndpoints<'a> {
    /// 0 is used first.
    pub priority: u32,
    /// Where they run.
    pub locality: Locality,
    /// The sum of their weights.
    pub weight: u32,
    /// The endpoints, sorted by target. Never empty.
    pub endpoints: Vec<Endpoint<'a>>,
}

/// What EDS serves for one port; sorted by priority, then locality.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assignment<'a> {
    /// The localities.
    pub localities: Vec<LocalityEndpoints<'a>>,
}

impl<'a> Assignment<'a> {
    /// Whether there is no endpoint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.localities.is_empty()
    }
    /// All endpoints, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint<'a>> {
        self.localities.iter().flat_map(|l| l.endpoints.iter())
    }
}

/// What EDS serves. A service that clients resolve by DNS has its endpoints inside its xDS cluster
/// ([`inline`]) and none here.
pub fn endpoints<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    client: &Projection,
    r: &mut R,
) -> Assignment<'a> {
    if facts.resolution.is_dns() {
        let said = (Stage::Merge, Verdict::Drop, Code::DNS_RESOLVED);
        about(r, said, &facts.service, "its endpoints stand inside its xDS cluster, not in EDS");
        return Assignment::default();
    }
    assign(facts, client, Names::Refused, r)
}

/// What an xDS cluster of a DNS type carries inside: names are taken, and where only one endpoint
/// is allowed (DNS round robin, and every DNS type for gRPC) the first healthy one in precedence is.
pub fn inline<'a, R: Recorder>(facts: &'a EndpointInputs, client: &Projection, r: &mut R) -> Assignment<'a> {
    assign(facts, client, Names::Taken, r)
}

/// Whether endpoints may be DNS names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// In EDS they may not.
    Refused,
    /// Inside an xDS cluster that resolves names.
    Taken,
}

fn assign<'a, R: Recorder>(
    facts: &'a EndpointInputs,
    client: &Projection,
    names: Names,
    r: &mut R,
) -> Assignment<'a> {
    let mut candidates = select::select(facts, client, names, r);
    dedup::dedup(facts, &mut candidates, client, r);
    candidates.retain(|c| admit_health(c, r));
    joined::admit(&mut candidates, r);
    if names == Names::Taken && takes_one(facts, client) {
        keep_first(&mut candidates, r);
    }
    assemble::assemble(facts, client, candidates, r)
}

/// LOGICAL_DNS has exactly one endpoint, and gRPC knows no other DNS type.
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

/// Terminating endpoints are never sent; draining ones only where sessions are bound to them;
/// unhealthy ones are sent as such, so that a client that finds no healthy one can say why, and its
/// xDS cluster turns panic off so that it does not use them (`xds.md` 4.1.4).
fn admit_health<R: Recorder>(candidate: &Candidate<'_>, r: &mut R) -> bool {
    let persistent = candidate.source.declaration.attributes.persistent_sessions;
    let (verdict, code, words) = match candidate.health {
        Health::Healthy => (Verdict::Pass, Code::HEALTHY, "healthy"),
        Health::Unhealthy => (Verdict::Warn, Code::UNHEALTHY, "sent as unhealthy: clients do not use it"),
        Health::Draining if persistent => {
            (Verdict::Warn, Code::DRAINING, "kept for the sessions bound to it")
        }
        Health::Draining => (Verdict::Drop, Code::DRAINING, "draining, and its service binds no sessions"),
        Health::Terminating => (Verdict::Drop, Code::TERMINATING, "going away"),
    };
    candidate.say((Stage::Health, verdict, code), || words.to_owned(), r);
    verdict != Verdict::Drop
}

impl Candidate<'_> {
    fn say<R: Recorder>(&self, said: (Stage, Verdict, Code), detail: impl FnOnce() -> String, r: &mut R) {
        r.step(|| endpoint_step(said, self.source, self.target.to_string(), detail()));
    }
    fn refuse<R: Recorder>(&self, why: &Refusal<'_>, r: &mut R) {
        self.say((why.stage(), Verdict::Drop, why.code()), || why.detail(self), r);
    }
}

#[cfg(test)]
mod tests;
