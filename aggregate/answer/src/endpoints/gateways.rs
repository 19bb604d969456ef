//! Split-horizon EDS: gateways that stand in for endpoints of other networks (`docs/reference/xds.md#networks`).
//!
//! `select` asks whether a client reaches an endpoint through gateways, `assemble` puts the gateways in the place of the endpoints
//! behind them. A gateway forwards TLS of the mesh by its server name, so client and endpoint have to use that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tributary_model::{
    AddressRef, CertificateSource, ClientKind, Code, EndpointInputs, EndpointOrder, GatedNetwork,
    GatewaySocket, Locality, Projection, Recorder, Resolution, Stage, Verdict, WeightUnit,
};

use super::distribute::Shares;
use super::select::{Candidate, Refusal};
use super::{Destination, Names};

/// Most gateways that are named in a step.
const MAX_NAMED: usize = 8;

/// What a client may use to reach endpoints of other networks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing {
    /// Why it uses no gateways.
    closed: Option<&'static str>,
    /// Whether it uses IPv4, and whether it uses IPv6.
    families: (bool, bool),
}

impl Crossing {
    /// Decides by the client, and by the order that a rule sets.
    pub(super) fn of(facts: &EndpointInputs, order: Option<&EndpointOrder>, client: &Projection) -> Self {
        let has_certificates = client.certificates.as_ref().is_some_and(CertificateSource::is_known);
        let keeps = facts.resolution == Resolution::Passthrough || order.is_some_and(|order| order.passes);
        let closed = match order.and_then(|order| order.mesh_tls) {
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
    /// Returns why a client does not reach an endpoint in a network with gateways.
    pub(super) fn refusal(&self, candidate: &Candidate<'_>, names: Names) -> Option<&'static str> {
        let network = candidate.via?;
        let is_ip = matches!(candidate.address.at, AddressRef::Ip(_));
        match self.closed {
            Some(why) => Some(why),
            None if names == Names::Taken || !is_ip => Some("gateways stand in for IP addresses in EDS only"),
            None if !candidate.accepts_mesh_tls() => {
                Some("gateways need mesh TLS, which the endpoint does not accept")
            }
            None if network.gateways.is_empty() => {
                Some("no gateway of it has an IP address with a port for mesh TLS")
            }
            None if self.gateways(candidate).next().is_none() => {
                Some("no gateway of it has an address of the client's IP families")
            }
            None => None,
        }
    }
    /// Returns the gateways that stand in for an endpoint: those of its cluster, else all of its network, of the client's IP families.
    pub(super) fn gateways<'a>(
        &self,
        candidate: &Candidate<'a>,
    ) -> impl Iterator<Item = &'a GatewaySocket> + Clone + use<'a> {
        let cluster = candidate.address.topology.cluster.as_ref();
        let (v4, v6) = self.families;
        let is_used = move |gateway: &GatewaySocket| if gateway.address.is_ipv4() { v4 } else { v6 };
        let is_own = move |gateway: &GatewaySocket| cluster.is_some() && gateway.cluster.as_ref() == cluster;
        let all = candidate.via.map(|network| network.gateways.iter()).into_iter().flatten();
        let has_own = all.clone().any(|gateway| is_used(gateway) && is_own(gateway));
        all.filter(move |gateway| is_used(gateway) && (!has_own || is_own(gateway)))
    }
    /// Names the gateways that stand in for an endpoint.
    pub(super) fn named(&self, candidate: &Candidate<'_>) -> String {
        let all: BTreeSet<String> = self.gateways(candidate).map(|at| socket(at).to_string()).collect();
        let shown: Vec<&str> = all.iter().take(MAX_NAMED).map(String::as_str).collect();
        let more = all.len().saturating_sub(MAX_NAMED);
        let end = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{end}", shown.join(", "))
    }
    /// Returns the unit in which the weight of an endpoint is divided among its gateways without a remainder.
    pub(super) fn unit(&self, candidate: &Candidate<'_>) -> WeightUnit {
        let count = self.gateways(candidate).count();
        WeightUnit::new(u32::try_from(count).unwrap_or(u32::MAX))
    }
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

/// Replaces endpoints of other networks by their gateways, each once in the whole assignment: at the first priority of the endpoints
/// behind it, with the sum of their weights there, in the locality with most of it. Direct endpoints keep their order, gateways
/// follow. `raw` are the priorities of the candidates. Endpoints in localities without a share have no gateway.
pub(super) fn stand_in<'a, R: Recorder>(
    candidates: Vec<Candidate<'a>>,
    raw: Vec<u32>,
    (crossing, shares): (&Crossing, Option<Shares<'_>>),
    r: &mut R,
) -> Vec<(Candidate<'a>, u32)> {
    let (mut out, mut gateways) = (Vec::with_capacity(candidates.len()), BTreeMap::new());
    for (candidate, raw) in candidates.into_iter().zip(raw) {
        if candidate.via.is_none() {
            out.push((candidate, raw));
            continue;
        }
        if shares.is_some_and(|shares| !shares.include(&candidate.address.topology.locality)) {
            candidate.refuse(&Refusal::NoLocalityShare, r);
            continue;
        }
        let count = crossing.gateways(&candidate).count();
        record(&candidate, count, r);
        let weight = (candidate.weight / u64::try_from(count).unwrap_or(u64::MAX).max(1)).max(1);
        for at in crossing.gateways(&candidate) {
            let of = gateways.entry((at.address, at.port.get())).or_insert_with(|| StandIn::at(raw));
            of.add(&candidate, raw, weight);
        }
    }
    if !gateways.is_empty() {
        let direct: BTreeSet<Destination<'_>> = out.iter().map(|(candidate, _)| candidate.target).collect();
        gateways.retain(|at: &(IpAddr, u16), _| !direct.contains(&Destination::Ip(at.0, at.1)));
    }
    let finished = gateways.into_iter().filter_map(|((ip, port), of)| of.finish(Destination::Ip(ip, port)));
    out.extend(finished);
    out
}

fn record<R: Recorder>(candidate: &Candidate<'_>, count: usize, r: &mut R) {
    let through =
        if count == 1 { "through its gateway".to_owned() } else { format!("shared by {count} gateways") };
    let step = (Stage::Weight, Verdict::Pass, Code::WEIGHT);
    candidate.record(step, || format!("weight {}, {through}", candidate.address.weight.max(1)), r);
}

/// Returns the network of an address if gateways separate it from the client.
pub(super) fn network_of<'a>(
    network: Option<&tributary_model::NetworkId>,
    facts: &'a EndpointInputs,
    client: &Projection,
) -> Option<&'a GatedNetwork> {
    let network = network?;
    let is_own = client.network.as_ref().and_then(Option::as_ref) == Some(network);
    facts.gated(network).filter(|_| !is_own).map(|gated| &**gated)
}
