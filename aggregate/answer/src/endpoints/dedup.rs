//! Removes duplicate addresses. Two listings of an address in one network are the same endpoint: within a
//! shard it gets the best health (a pod in two slices); across shards the first in precedence owns it,
//! with the worst health. An address used in two networks means two endpoints. A client has each that it reaches through gateways, and
//! one of the others: that of its own network if gateways separate networks, else the first.

use std::cmp::Reverse;

use tributary_model::{EndpointInputs, NetworkId, Projection, Recorder};

use super::select::{Candidate, Refusal};

/// Returns the network behind gateways in which a destination is.
fn behind<'a>(candidate: &Candidate<'a>) -> Option<&'a NetworkId> {
    candidate.via.map(|via| &via.network.id)
}

/// Keeps one candidate per destination and network behind gateways, sorted by destination.
pub(super) fn dedup<R: Recorder>(
    facts: &EndpointInputs,
    candidates: &mut Vec<Candidate<'_>>,
    client: &Projection,
    r: &mut R,
) {
    // Without gateways all networks count as one, and the client's own network has no influence.
    let own = client.network.as_ref().and_then(Option::as_ref).filter(|_| !facts.gated.is_empty());
    candidates.sort_by(|a, b| {
        let near = |c: &Candidate<'_>| Reverse(own.is_some() && c.network() == own);
        (a.target, behind(a), near(a))
            .cmp(&(b.target, behind(b), near(b)))
            .then_with(|| (a.shard, a.health).cmp(&(b.shard, b.health)))
            .then_with(|| a.precedence().cmp(&b.precedence()))
    });
    let mut kept: Vec<Candidate<'_>> = Vec::with_capacity(candidates.len());
    let mut last_shard = usize::MAX;
    for candidate in candidates.drain(..) {
        match kept
            .last_mut()
            .filter(|owner| owner.target == candidate.target && behind(owner) == behind(&candidate))
        {
            None => {
                last_shard = candidate.shard;
                kept.push(candidate);
            }
            Some(owner) => {
                // The first candidate of each shard has its best health; only that one affects the owner.
                let is_same_endpoint = owner.network() == candidate.network();
                owner.standby &= candidate.standby || !is_same_endpoint;
                if is_same_endpoint && candidate.shard != last_shard {
                    owner.health = owner.health.max(candidate.health);
                    last_shard = candidate.shard;
                }
                candidate.refuse(&Refusal::Duplicate(owner.source), r);
            }
        }
    }
    *candidates = kept;
}
