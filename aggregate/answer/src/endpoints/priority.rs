//! Computes priorities (`docs/reference/xds.md`): near endpoints first, then endpoints of demoted
//! shards. A traffic distribution is a list of labels, the most important first; the first that differs
//! decides. All endpoints of other networks follow all endpoints of the client's own network. A rule's failover compares
//! localities, labels, or labels and then localities.

use std::sync::Arc;

use tributary_model::{
    FailoverLabel, Labels, Locality, Preference, Projection, ShardPriority, Topology, TrafficDistribution,
};

use super::federation::standby_offset;
use super::label_of;
use super::select::Candidate;

/// Distances of localities; labels come before them.
const PLACES: u32 = 5;

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
pub(super) fn raw(preference: Preference<'_>, client: &Projection, candidate: &Candidate<'_>) -> u32 {
    let demoted = u32::from(candidate.source.priority == ShardPriority::Demoted);
    let distance = match preference {
        Preference::Alike | Preference::Distribute(_) => 0,
        Preference::Near(traffic) => distance(traffic, client, &candidate.address.topology),
        Preference::Failover { regions, labels } => {
            let by_label = mismatch(labels, client.labels.as_ref(), candidate);
            let by_place = if preference.compares_localities() {
                place(regions, client.locality.as_ref(), &candidate.address.topology.locality)
            } else {
                0
            };
            by_label * PLACES + by_place
        }
    };
    distance + demoted + standby_offset(candidate)
}

/// Returns 0 for an endpoint whose labels all agree with the client's, and more the earlier one differs. An absent label
/// agrees with an absent one. A different network adds the number of labels, and the others still count.
fn mismatch(list: &[FailoverLabel], own: Option<&Labels>, candidate: &Candidate<'_>) -> u32 {
    let differs = |label: &FailoverLabel| {
        let wanted = label.value.as_deref().or_else(|| own.map_or(Some(""), |own| own.get(&label.key)));
        wanted != Some(label_of(candidate.source, candidate.address, &label.key))
    };
    let by_network = list.first().is_some_and(FailoverLabel::is_network);
    let other_network = by_network && list.first().is_some_and(differs);
    let first = list.iter().skip(usize::from(by_network)).position(differs);
    let near = first.map_or(0, |at| list.len() - usize::from(by_network) - at);
    u32::try_from(near + if other_network { list.len() } else { 0 }).unwrap_or(u32::MAX / (2 * PLACES))
}

/// Returns the distance of an endpoint's locality. Unknown parts are equal.
fn place(regions: &[(Arc<str>, Arc<str>)], own: Option<&Locality>, their: &Locality) -> u32 {
    let unknown = Locality::default();
    let own = own.unwrap_or(&unknown);
    if own.region != their.region {
        let replaces = regions.iter().find(|(from, _)| *from == own.region);
        return if replaces.is_none_or(|(_, to)| *to == their.region) { 3 } else { 4 };
    }
    match (own.zone == their.zone, own.subzone == their.subzone) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    }
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
