//! One address, one endpoint. An address listed twice in a network is one thing said twice: within a
//! shard the best health stands (a pod that two slices list), across shards the first in precedence
//! owns it with the worst health. An address that two networks use is two things of which a client
//! can be given one: where networks are kept apart that of its own, else the first.

use std::cmp::Reverse;

use tributary_model::{EndpointInputs, Projection, Recorder};

use super::select::{Candidate, Refusal};

/// Leaves one candidate per target, sorted by target.
pub(super) fn dedup<R: Recorder>(
    facts: &EndpointInputs,
    candidates: &mut Vec<Candidate<'_>>,
    client: &Projection,
    r: &mut R,
) {
    // Without gateways all networks are one to a client, and its own is not asked for.
    let own = client.network.as_ref().and_then(Option::as_ref).filter(|_| !facts.gated.is_empty());
    candidates.sort_by(|a, b| {
        let near = |c: &Candidate<'_>| Reverse(own.is_some() && c.network() == own);
        (a.target, near(a))
            .cmp(&(b.target, near(b)))
            .then_with(|| (a.shard, a.health).cmp(&(b.shard, b.health)))
            .then_with(|| a.precedence().cmp(&b.precedence()))
    });
    let mut kept: Vec<Candidate<'_>> = Vec::with_capacity(candidates.len());
    let mut last_shard = usize::MAX;
    for candidate in candidates.drain(..) {
        match kept.last_mut().filter(|owner| owner.target == candidate.target) {
            None => {
                last_shard = candidate.shard;
                kept.push(candidate);
            }
            Some(owner) => {
                // The first word of each shard is its best; only it counts against the owner.
                let same_thing = owner.network() == candidate.network();
                owner.standby &= candidate.standby || !same_thing;
                if same_thing && candidate.shard != last_shard {
                    owner.health = owner.health.max(candidate.health);
                    last_shard = candidate.shard;
                }
                candidate.refuse(&Refusal::Duplicate(owner.source), r);
            }
        }
    }
    *candidates = kept;
}
