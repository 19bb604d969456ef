//! Applies the rules of a federated service to its members' endpoints: standby members, and traffic shares.
//!
//! Runs on the endpoints that this client may have, without duplicates: unreachable endpoints do not exclude
//! standby endpoints, and an endpoint of both an active and a standby member is active.

use std::collections::BTreeMap;

use tributary_model::{Health, Recorder, ShardPriority};

use super::select::{Candidate, Refusal};

/// Weight of a share of 1; large, so shares divided among many endpoints stay distinct after rounding.
const UNIT: u128 = 10_000;

/// Offset of a standby's priority, beyond any distance.
const STANDBY: u32 = 1 << 20;

/// Removes endpoints of waiting standby members and of members with a share of 0.
pub(super) fn admit<R: Recorder>(candidates: &mut Vec<Candidate<'_>>, r: &mut R) {
    if candidates.iter().all(|c| c.source.federation.is_none()) {
        return;
    }
    let healthy = candidates.iter().filter(|c| is_active(c)).count();
    candidates.retain(|c| {
        let Some(federation) = &c.source.federation else { return true };
        let enough = federation.min_healthy.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let refusal = match enough {
            _ if federation.share == Some(0) => Some(Refusal::NoShare),
            Some(enough) if c.standby && healthy >= enough => Some(Refusal::Waiting(healthy, enough)),
            _ => None,
        };
        if let Some(why) = &refusal {
            c.refuse(why, r);
        }
        refusal.is_none()
    });
}

/// Whether an endpoint counts as active. Endpoints of demoted shards, and of registries that are stale for too long,
/// do not count.
fn is_active(candidate: &Candidate<'_>) -> bool {
    let is_stale = candidate.source.federation.as_ref().is_some_and(|federation| federation.stale);
    let counts = !is_stale && candidate.source.priority == ShardPriority::Normal;
    !candidate.standby && candidate.health == Health::Healthy && counts
}

/// Returns the offset that puts a standby endpoint below all active ones, if the federated service lets clients
/// decide; else 0.
pub(super) fn standby_offset(candidate: &Candidate<'_>) -> u32 {
    let decided_here = candidate.source.federation.as_ref().is_none_or(|f| f.min_healthy.is_some());
    if candidate.standby && !decided_here { STANDBY } else { 0 }
}

/// Splits the traffic of each priority among members by their shares; a member's share is divided among its
/// healthy endpoints by their own weights.
pub(super) fn split(candidates: &mut [Candidate<'_>], priorities: &[u32]) {
    let mut sums: BTreeMap<(u32, u16), (u128, u128)> = BTreeMap::new();
    for (candidate, priority) in candidates.iter().zip(priorities) {
        let Some(federation) = candidate.source.federation.as_ref().filter(|f| f.share.is_some()) else {
            continue;
        };
        let (healthy, all) = sums.entry((*priority, federation.member)).or_default();
        *all += u128::from(candidate.weight);
        *healthy += if candidate.health == Health::Healthy { u128::from(candidate.weight) } else { 0 };
    }
    for (candidate, priority) in candidates.iter_mut().zip(priorities) {
        let Some(federation) = &candidate.source.federation else { continue };
        let Some(share) = federation.share else { continue };
        let (healthy, all) = sums.get(&(*priority, federation.member)).copied().unwrap_or((1, 1));
        let of = if healthy == 0 { all } else { healthy };
        let weight = u128::from(candidate.weight) * u128::from(share) * UNIT / of.max(1);
        candidate.weight = u64::try_from(weight.max(1)).unwrap_or(u64::MAX);
    }
}
