//! Split-horizon EDS: gateways that stand in for endpoints of other networks (`docs/reference/xds.md#networks`).
//!
//! `select` asks whether a client reaches an endpoint through gateways, `assemble` puts the gateways in the place of the endpoints
//! behind them. A gateway forwards TLS of the mesh by its server name, so client and endpoint have to use that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tributary_model::{
    Address, AddressRef, CertificateSource, ClientKind, ClusterId, Code, EndpointInputs, EndpointUse,
    GatedNetwork, GatewaySocket, Health, Locality, NetworkId, Projection, Recorder, Resolution, Stage,
    Verdict, WeightUnit,
};

use super::distribute::Shares;
use super::select::{self, Candidate, Refusal};
use super::{Destination, Names};
use crate::steps::named;

/// What a client may use to reach endpoints of other networks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing {
    /// Why it uses no gateways.
    closed: Option<&'static str>,
    /// Whether it uses IPv4, and whether it uses IPv6.
    families: (bool, bool),
}

impl Crossing {
    /// Decides by the client, and by the use that a rule sets.
    pub(super) fn of(facts: &EndpointInputs, used: Option<&EndpointUse>, client: &Projection) -> Self {
        let has_certificates = client.certificates.as_ref().is_some_and(CertificateSource::is_known);
        let keeps = facts.resolution == Resolution::Passthrough || used.is_some_and(|used| used.passes);
        let is_router = client.kind == Some(ClientKind::Router);
        let closed = match used.and_then(|used| used.mesh_tls) {
            _ if is_router => Some("a router forwards into its own network alone"),
            _ if keeps => Some("connections keep their destination, which is no gateway"),
            _ if client.kind == Some(ClientKind::Grpc) => Some("gRPC does not use gateways between networks"),
            Some(false) => {
                Some("gateways need mesh TLS, and the DestinationRule of the client sets another mode")
            }
            None if !facts.automatic_tls => Some(
                "gateways need mesh TLS, and the service is outside the mesh, or automatic mesh TLS is off",
            ),
            _ if !has_certificates => {
                Some("gateways need mesh TLS, and the client's node names no certificates of the mesh")
            }
            _ => None,
        };
        Self { closed, families: client.families.unwrap_or((true, true)) }
    }
    /// Returns how the client enters the network of an address, if gateways separate it from the client.
    pub(super) fn via<'a>(
        &self,
        address: &'a Address,
        facts: &'a EndpointInputs,
        client: &Projection,
    ) -> Option<Via<'a>> {
        let network = address.topology.network.as_ref()?;
        let is_own = client.network.as_ref().and_then(Option::as_ref) == Some(network);
        let gated = facts.gated(network).filter(|_| !is_own)?;
        Some(Via::of(gated, address.topology.cluster.as_ref(), self.families))
    }
    /// Returns why a client does not reach an endpoint in a network with gateways.
    pub(super) fn refusal(&self, candidate: &Candidate<'_>, names: Names) -> Option<&'static str> {
        let via = candidate.via?;
        let is_ip = matches!(candidate.address.at, AddressRef::Ip(_));
        match self.closed {
            Some(why) => Some(why),
            None if names == Names::Taken || !is_ip => Some("gateways stand in for IP addresses in EDS only"),
            None if !candidate.accepts_mesh_tls() => {
                Some("gateways need mesh TLS, which the endpoint does not accept")
            }
            None if via.network.gateways.is_empty() => {
                Some("no gateway of it has a known address with a port for mesh TLS")
            }
            None if via.count == 0 => Some("no gateway of it has an address of the client's IP families"),
            None => None,
        }
    }
}

/// How a client enters the network of an endpoint: by the gateways of its cluster, else by all of its network, of the client's IP
/// families.
#[derive(Debug, Clone, Copy)]
pub(super) struct Via<'a> {
    pub(super) network: &'a GatedNetwork,
    families: (bool, bool),
    /// Cluster whose gateways alone stand in.
    own: Option<&'a ClusterId>,
    /// Number of gateways that stand in.
    count: usize,
}

impl<'a> Via<'a> {
    fn of(network: &'a GatedNetwork, cluster: Option<&'a ClusterId>, families: (bool, bool)) -> Self {
        let of = |own| Self { network, families, own, count: 0 };
        let [own, all] = [of(cluster), of(None)].map(|via| Self { count: via.gateways().count(), ..via });
        if cluster.is_some() && own.count > 0 { own } else { all }
    }
    /// Returns the gateways that stand in for the endpoint.
    fn gateways(self) -> impl Iterator<Item = Destination<'static>> + use<'a> {
        self.sockets().map(socket)
    }
    fn sockets(self) -> impl Iterator<Item = &'a GatewaySocket> + use<'a> {
        let (v4, v6) = self.families;
        let is_used = move |at: &&GatewaySocket| if at.address.is_ipv4() { v4 } else { v6 };
        let is_own = move |at: &&GatewaySocket| self.own.is_none() || at.cluster.as_ref() == self.own;
        self.network.gateways.iter().filter(is_used).filter(is_own)
    }
    /// Names the gateways that stand in for the endpoint, with their host names.
    pub(super) fn named(self) -> String {
        let all: BTreeSet<String> = self.sockets().map(name_of).collect();
        named(all.iter().map(String::as_str))
    }
    /// Returns the unit in which the weight of the endpoint is divided among its gateways without a remainder.
    pub(super) fn unit(self) -> WeightUnit {
        WeightUnit::new(u32::try_from(self.count).unwrap_or(u32::MAX))
    }
    /// Returns the part of a weight that each gateway has.
    fn share(self, weight: u64) -> u64 {
        (weight / u64::try_from(self.count).unwrap_or(u64::MAX).max(1)).max(1)
    }
}

fn name_of(gateway: &GatewaySocket) -> String {
    let at = socket(gateway);
    gateway.name.as_ref().map_or_else(|| at.to_string(), |name| format!("{at} ({name})"))
}

fn socket(gateway: &GatewaySocket) -> Destination<'static> {
    Destination::Ip(gateway.address, gateway.port.get())
}

/// Gateway with what is behind it at its priority.
struct StandIn<'a> {
    raw: u32,
    /// First endpoint of each locality, and the weight of all.
    places: BTreeMap<&'a Locality, (Candidate<'a>, u64)>,
}

impl<'a> StandIn<'a> {
    const fn at(raw: u32) -> Self {
        Self { raw, places: BTreeMap::new() }
    }
    fn add(&mut self, candidate: &Candidate<'a>, raw: u32, weight: u64) {
        if raw < self.raw {
            *self = Self::at(raw);
        }
        if raw > self.raw {
            return;
        }
        let place = &candidate.address.topology.locality;
        let (_, sum) = self.places.entry(place).or_insert_with(|| (candidate.clone(), 0));
        *sum = sum.saturating_add(weight);
    }
    /// Returns the gateway in the locality with most of the weight, of equal ones the first.
    fn finish(self, target: Destination<'a>) -> Option<(Candidate<'a>, u32)> {
        let weight = self.places.values().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
        let most = self.places.into_values().rev().max_by_key(|(_, weight)| *weight);
        most.map(|(first, _)| (Candidate { target, weight, is_gateway: true, ..first }, self.raw))
    }
}

/// Endpoint behind gateways, for its step.
pub(super) struct Behind<'a> {
    pub(super) candidate: Candidate<'a>,
    via: Via<'a>,
    /// Its own priority, and the first of its gateways.
    raw: (u32, u32),
    /// Gateway that the client has as a direct endpoint.
    direct: Option<Destination<'a>>,
}

/// Endpoints that are sent, and those behind the gateways among them, if steps are recorded.
#[derive(Default)]
pub(super) struct StoodIn<'a> {
    pub(super) sent: Vec<(Candidate<'a>, u32)>,
    pub(super) behind: Vec<Behind<'a>>,
}

/// Replaces endpoints of other networks by their gateways, each once in the whole assignment: at the first priority of the endpoints
/// behind it, with the sum of their weights there, in the locality with most of it. Direct endpoints keep their order, gateways
/// follow. `raw` are the priorities of the candidates. Endpoints in localities without a share have no gateway. A gateway at the
/// address of a direct endpoint is left out.
pub(super) fn stand_in<'a, R: Recorder>(
    candidates: Vec<Candidate<'a>>,
    raw: Vec<u32>,
    shares: Option<Shares<'_>>,
    r: &mut R,
) -> StoodIn<'a> {
    let (mut out, mut behind) = (StoodIn::default(), Vec::new());
    for (candidate, raw) in candidates.into_iter().zip(raw) {
        match candidate.via {
            None => out.sent.push((candidate, raw)),
            Some(via) => behind.push(Behind { candidate, via, raw: (raw, raw), direct: None }),
        }
    }
    if behind.is_empty() {
        return out;
    }
    let direct: BTreeSet<Destination<'a>> = out.sent.iter().map(|(candidate, _)| candidate.target).collect();
    behind.retain_mut(|one| one.meet(&direct, shares, r));
    let mut gateways: BTreeMap<Destination<'a>, StandIn<'a>> = BTreeMap::new();
    for Behind { candidate, via, raw, .. } in &behind {
        for at in via.gateways().filter(|at| !direct.contains(at)) {
            let of = gateways.entry(at).or_insert_with(|| StandIn::at(raw.0));
            of.add(candidate, raw.0, via.share(candidate.weight));
        }
    }
    if r.is_on() {
        for one in &mut behind {
            let first = one.via.gateways().filter_map(|at| Some(gateways.get(&at)?.raw)).min();
            one.raw.1 = first.unwrap_or(one.raw.0);
        }
        out.behind = behind;
    }
    out.sent.extend(gateways.into_iter().filter_map(|(target, of)| of.finish(target)));
    out
}

/// Reason for an endpoint whose gateways are all endpoints of the service.
const IS_DIRECT: &str = "the client reaches each of its gateways directly as an endpoint of the service, and an address is sent once";

impl<'a> Behind<'a> {
    /// Notes a gateway that is a direct endpoint. Returns whether others stand in for the endpoint.
    fn meet<R: Recorder>(
        &mut self,
        direct: &BTreeSet<Destination<'a>>,
        shares: Option<Shares<'_>>,
        r: &mut R,
    ) -> bool {
        self.direct = self.via.gateways().find(|at| direct.contains(at));
        let has_share = shares.is_none_or(|shares| shares.include(&self.candidate.address.topology.locality));
        let refusal = if !has_share {
            Some(Refusal::NoLocalityShare)
        } else {
            let is_direct = self.direct.is_some() && self.via.gateways().all(|at| direct.contains(&at));
            is_direct.then_some(Refusal::OtherNetwork(IS_DIRECT))
        };
        if let Some(why) = &refusal {
            self.candidate.refuse(why, r);
        }
        refusal.is_none()
    }
    /// Returns its priority before gaps are closed: that of its gateways.
    pub(super) const fn raw(&self) -> u32 {
        self.raw.1
    }
    /// Describes how its gateways have its weight.
    pub(super) fn shared(&self) -> String {
        let (mut out, has) = match self.via.count {
            1 => (", through its gateway".to_owned(), "which has"),
            count => (format!(", shared by {count} gateways"), "which have"),
        };
        if self.raw.1 < self.raw.0 {
            out.push_str(&format!(", {has} the weight of nearer endpoints instead"));
        }
        if let Some(direct) = self.direct {
            out.push_str(&format!(
                ", of which {direct} is left out: the client reaches it directly as an endpoint"
            ));
        }
        out
    }
}

/// Returns how a client of another network reaches what is in networks with gateways; without a client, one with certificates whose rules set no
/// mode.
fn crossed<'a>(
    facts: &'a EndpointInputs,
    client: Option<&Projection>,
) -> (Crossing, impl Iterator<Item = Candidate<'a>> + use<'a>) {
    let certificates = Some(CertificateSource::Files);
    let any = || Projection { certificates, ..Projection::default() };
    let client = client.cloned().unwrap_or_else(any);
    let used =
        facts.policy_of(client.namespace.as_ref().and_then(Option::as_ref)).map(|policy| &policy.whole);
    let crossing = Crossing::of(facts, used, &client);
    let behind: Vec<Candidate<'a>> = select::candidates(facts, &client, &crossing)
        .filter(|one| one.via.is_some() && one.has_port())
        .collect();
    (crossing, behind.into_iter())
}

const fn names_in(facts: &EndpointInputs) -> Names {
    if facts.resolution.is_dns() { Names::Taken } else { Names::Refused }
}

/// Records how clients reach the endpoints in networks with gateways, whichever network they are in.
pub(crate) fn record_networks<R: Recorder>(facts: &EndpointInputs, r: &mut R) {
    let (crossing, behind) = crossed(facts, None);
    for candidate in behind {
        let Some(via) = candidate.via else { continue };
        let own = format!("clients of network {} reach it directly", via.network.id);
        match crossing.refusal(&candidate, names_in(facts)) {
            Some(why) => {
                let step = (Stage::Network, Verdict::Warn, Code::OTHER_NETWORK);
                candidate.record(step, || format!("{own}; others do not receive it: {why}"), r);
            }
            None => {
                let step = (Stage::Network, Verdict::Pass, Code::THROUGH_GATEWAY);
                candidate.record(step, || format!("{own}, others through its gateways: {}", via.named()), r);
            }
        }
    }
}

/// Returns the healthy endpoints for which a gateway of a network stands in.
pub(crate) fn behind<'a>(
    facts: &'a EndpointInputs,
    (network, at): (&NetworkId, SocketAddr),
    client: Option<&Projection>,
) -> Vec<Destination<'a>> {
    let (crossing, behind) = crossed(facts, client);
    let at = Destination::Ip(at.ip(), at.port());
    let is_behind = |candidate: &Candidate<'_>| {
        candidate.health == Health::Healthy
            && candidate
                .via
                .is_some_and(|via| via.network.id == *network && via.gateways().any(|own| own == at))
            && crossing.refusal(candidate, names_in(facts)).is_none()
    };
    let mut out: Vec<Destination<'a>> = behind.filter(is_behind).map(|candidate| candidate.target).collect();
    out.sort_unstable();
    out.dedup();
    out
}
