//! Which endpoints a client uses first (`xds.md` 4.5): what is near, then what a staleness policy has
//! not demoted. Traffic distribution is a list of labels, the most important first; the first that
//! differs decides. A different network counts apart: all of it comes after all of the client's own.

use tributary_model::{EndpointInputs, Projection, ShardPriority, Topology, TrafficDistribution};

use super::joined::lowered;
use super::select::Candidate;

/// Where a client is, as far as it is known.
struct Position<'p> {
    network: Option<&'p str>,
    region: &'p str,
    zone: &'p str,
    subzone: &'p str,
    node: Option<&'p str>,
}

impl<'p> Position<'p> {
    fn of_client(client: &'p Projection) -> Self {
        let place = client.locality.as_ref();
        Self {
            network: client.network.as_ref().and_then(Option::as_ref).map(|n| n.as_str()),
            region: place.map_or("", |l| &*l.region),
            zone: place.map_or("", |l| &*l.zone),
            subzone: place.map_or("", |l| &*l.subzone),
            node: client.node.as_ref().and_then(Option::as_ref).map(|n| n.as_str()),
        }
    }
    fn of_place(place: &'p Topology) -> Self {
        Self {
            network: place.network.as_ref().map(|n| n.as_str()),
            region: &place.locality.region,
            zone: &place.locality.zone,
            subzone: &place.locality.subzone,
            node: place.node.as_ref().map(|n| n.as_str()),
        }
    }
    /// Only what the distribution looks at counts as knowing.
    fn is_unknown(&self, traffic: TrafficDistribution) -> bool {
        let node = traffic == TrafficDistribution::SameNode && self.node.is_some();
        self.network.is_none() && self.region.is_empty() && !node
    }
}

/// The priority of a candidate before gaps are closed.
pub(super) fn raw(facts: &EndpointInputs, client: &Projection, candidate: &Candidate<'_>) -> u32 {
    let demoted = u32::from(candidate.source.priority == ShardPriority::Demoted);
    distance(facts.traffic, client, &candidate.address.topology) + demoted + lowered(candidate)
}

fn distance(traffic: TrafficDistribution, client: &Projection, place: &Topology) -> u32 {
    let (own, their) = (Position::of_client(client), Position::of_place(place));
    // Nothing known of the client: no endpoint is nearer than another.
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

/// `same` in order of importance, after the network. With n labels in all, the first that differs,
/// j, gives n - j; a different network adds n and the rest is looked at all the same.
fn ordered(same_network: bool, same: &[bool]) -> u32 {
    let labels = 1 + same.len();
    let near = same.iter().position(|same| !same).map_or(0, |at| labels - (1 + at));
    let far = if same_network { 0 } else { labels };
    u32::try_from(near + far).unwrap_or(u32::MAX - 1)
}
