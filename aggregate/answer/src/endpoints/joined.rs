//! What an alias makes of its members' endpoints: who waits as a standby, and how traffic is split by share.
//!
//! Decided among the endpoints that this client may have, after duplicates are one: what a client cannot reach
//! keeps no standby out, and an endpoint that an active and a standby member share is active.

use std::collections::BTreeMap;

use tributary_model::{Health, Recorder, ShardPriority};

use super::select::{Candidate, Refusal};

/// What a share of 1 comes to, so that shares of many endpoints stay apart after rounding.
const UNIT: u128 = 10_000;

/// Leaves out standby endpoints that wait, and members without a share.
pub(super) fn admit<R: Recorder>(candidates: &mut Vec<Candidate<'_>>, r: &mut R) {
    if candidates.iter().all(|c| c.source.federation.is_none()) {
        return;
    }
    let healthy = candidates.iter().filter(|c| is_active(c)).count();
    candidates.retain(|c| {
        let Some(joined) = &c.source.federation else { return true };
        let enough = joined.min_healthy.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let refusal = match enough {
            _ if joined.share == Some(0) => Some(Refusal::NoShare),
            Some(enough) if c.standby && healthy >= enough => Some(Refusal::Waiting(healthy, enough)),
            _ => None,
        };
        if let Some(why) = &refusal {
            c.refuse(why, r);
        }
        refusal.is_none()
    });
}

/// Whether an endpoint counts for keeping standby ones out. What its operator demoted does not, and neither does what
/// a registry said that has been silent for too long.
fn is_active(candidate: &Candidate<'_>) -> bool {
    let is_silent = candidate.source.federation.as_ref().is_some_and(|joined| joined.stale);
    let counts = !is_silent && candidate.source.priority == ShardPriority::Normal;
    !candidate.standby && candidate.health == Health::Healthy && counts
}

/// How many priorities lower a standby endpoint stands whose alias lets clients decide: below all active ones,
/// however far.
pub(super) fn lowered(candidate: &Candidate<'_>) -> u32 {
    let decided_here = candidate.source.federation.as_ref().is_none_or(|joined| joined.min_healthy.is_some());
    if candidate.standby && !decided_here { 1_000 } else { 0 }
}

/// Splits each priority's traffic among members by their shares: what a member has is divided among its healthy
/// endpoints by their own weights.
pub(super) fn split(candidates: &mut [Candidate<'_>], priorities: &[u32]) {
    let mut sums: BTreeMap<(u32, u16), (u128, u128)> = BTreeMap::new();
    for (candidate, priority) in candidates.iter().zip(priorities) {
        let Some(joined) = candidate.source.federation.as_ref().filter(|j| j.share.is_some()) else {
            continue;
        };
        let (healthy, all) = sums.entry((*priority, joined.member)).or_default();
        *all += u128::from(candidate.weight);
        *healthy += if candidate.health == Health::Healthy { u128::from(candidate.weight) } else { 0 };
    }
    for (candidate, priority) in candidates.iter_mut().zip(priorities) {
        let Some(joined) = &candidate.source.federation else { continue };
        let Some(share) = joined.share else { continue };
        let (healthy, all) = sums.get(&(*priority, joined.member)).copied().unwrap_or((1, 1));
        let of = if healthy == 0 { all } else { healthy };
        let weight = u128::from(candidate.weight) * u128::from(share) * UNIT / of.max(1);
        candidate.weight = u64::try_from(weight.max(1)).unwrap_or(u64::MAX);
    }
}
