//! Computes priorities (`docs/reference/xds.md`): near endpoints first, then endpoints of demoted
//! shards. A traffic distribution is a list of labels, the most important first; the first that differs
//! decides. All endpoints of other networks follow all endpoints of the client's own network.

use tributary_model::{EndpointInputs, Projection, ShardPriority, Topology, TrafficDistribution};

use super::federation::standby_offset;
use super::select::Candidate;

/// Known location of a client or endpoint.
struct Position<'p> {
    network: Option<&'p str>,
    region: &'p str,
    zone: &'p str,
    subzone: &'p str,
    node: Option<&'p str>,
}

impl<'p> Position<'p> {
    fn of_client(client: &'p Projection) -> Self {
        let locality = client.locality.as_ref();
        Self {
            network: client.network.as_ref().and_then(Option::as_ref).map(|n| n.as_str()),
            region: locality.map_or("", |l| &*l.region),
            zone: locality.map_or("", |l| &*l.zone),
            subzone: locality.map_or("", |l| &*l.subzone),
            node: client.node.as_ref().and_then(Option::as_ref).map(|n| n.as_str()),
        }
    }
    fn of_topology(topology: &'p Topology) -> Self {
        Self {
            network: topology.network.as_ref().map(|n| n.as_str()),
            region: &topology.locality.region,
            zone: &topology.locality.zone,
            subzone: &topology.locality.subzone,
            node: topology.node.as_ref().map(|n| n.as_str()),
        }
    }
    /// Whether all labels that the distribution compares are unknown.
    fn is_unknown(&self, traffic: TrafficDistribution) -> bool {
        let node = traffic == TrafficDistribution::SameNode && self.node.is_some();
        self.network.is_none() && self.region.is_empty() && !node
    }
}

/// Returns the priority of a candidate before gaps are closed.
pub(super) fn raw(facts: &EndpointInputs, client: &Projection, candidate: &Candidate<'_>) -> u32 {
    let demoted = u32::from(candidate.source.priority == ShardPriority::Demoted);
    distance(facts.traffic, client, &candidate.address.topology) + demoted + standby_offset(candidate)
}

fn distance(traffic: TrafficDistribution, client: &Projection, topology: &Topology) -> u32 {
    let (own, their) = (Position::of_client(client), Position::of_topology(topology));
    // For a client without a known location all endpoints are equally near.
    if own.is_unknown(traffic) {
        return 0;
    }
    let (region, zone) = (own.region == their.region, own.zone == their.zone);
    let (subzone, node) = (own.subzone == their.subzone, own.node == their.node);
    let same_network = own.network == their.network;
    match traffic {
        TrafficDistribution::Any => 0,
        TrafficDistribution::SameZone => ordered(same_network, &[region, zone]),
        TrafficDistribution::SameNode => ordered(same_network, &[region, zone, subzone, node]),
    }
}

/// Computes a distance from `same`, which is in order of importance, after the network. With n labels in total,
/// a first difference at j gives n - j; a different network adds n, and the other labels still count.
fn ordered(same_network: bool, same: &[bool]) -> u32 {
    let labels = 1 + same.len();
    let near = same.iter().position(|same| !same).map_or(0, |at| labels - (1 + at));
    let far = if same_network { 0 } else { labels };
    u32::try_from(near + far).unwrap_or(u32::MAX - 1)
}
