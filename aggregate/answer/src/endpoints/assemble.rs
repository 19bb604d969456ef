//! Groups the selected endpoints by priority and locality, with weights whose sums fit 32 bits.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Code, Locality, Preference, Projection, Recorder, ShardPriority, Stage, Verdict, WeightUnit,
};

use super::distribute::Shares;
use super::gateways::{self, StoodIn, Via};
use super::select::{Candidate, Refusal};
use super::{Assignment, Endpoint, LocalityEndpoints, federation, priority};

/// Clients reject a sum of weights over 32 bits; half of that leaves room for rounding up to 1.
const MAX_SUM: u64 = 1 << 31;

type Bins<'a> = BTreeMap<(u32, &'a Locality), Vec<Candidate<'a>>>;

/// Builds the assignment. Candidates are sorted by destination and keep that order.
pub(super) fn assemble<'a, R: Recorder>(
    preference: Preference<'_>,
    client: &Projection,
    mut candidates: Vec<Candidate<'a>>,
    r: &mut R,
) -> Assignment<'a> {
    let raw: Vec<u32> = candidates.iter().map(|c| priority::raw(preference, client, c)).collect();
    let unit = convert_weights(&mut candidates);
    federation::split(&mut candidates, &raw);
    let shares = Shares::of(preference, client);
    let StoodIn { sent, behind } = gateways::stand_in(candidates, raw, shares, r);
    let distinct: BTreeSet<u32> = sent.iter().map(|(_, raw)| *raw).collect();
    let distinct: Vec<u32> = distinct.into_iter().collect();
    let compact = |raw| u32::try_from(distinct.partition_point(|&p| p < raw)).unwrap_or(u32::MAX);
    let mut bins = Bins::new();
    for (candidate, raw) in sent {
        bins.entry((compact(raw), &candidate.address.topology.locality)).or_default().push(candidate);
    }
    let scales = scales(&bins);
    let scale = |priority: u32| {
        let scale = scales.get(&priority).copied().unwrap_or(1);
        (scale, Some(unit).filter(|unit| scale == 1 && *unit != WeightUnit::ONE))
    };
    for one in &behind {
        let (priority, (scale, unit)) = (compact(one.raw()), scale(compact(one.raw())));
        let weight = scaled(&one.candidate, scale);
        let locality = &one.candidate.address.topology.locality;
        record(&one.candidate, (priority, locality), (weight, unit), &one.shared(), r);
    }
    let locality = |((priority, locality), members): ((u32, &Locality), Vec<Candidate<'a>>)| {
        let (scale, unit) = scale(priority);
        if shares.is_some_and(|shares| !shares.include(locality)) {
            return without_share(priority, locality, &members, scale, r);
        }
        locality_endpoints(priority, locality, members, (scale, unit), r)
    };
    let mut localities: Vec<_> = bins.into_iter().map(locality).collect();
    if let Some(shares) = shares {
        shares.apply(&mut localities);
    }
    Assignment { localities }
}

/// Converts all weights to one unit, which it returns: endpoints of all groups compare by it, and gateways share it.
fn convert_weights(candidates: &mut [Candidate<'_>]) -> WeightUnit {
    let of_gateways = |c: &Candidate<'_>| c.via.map_or(WeightUnit::ONE, Via::unit);
    let units = candidates.iter().map(|c| c.source.group.weight_unit.common(of_gateways(c)));
    let unit = units.reduce(WeightUnit::common).unwrap_or_default();
    for candidate in candidates {
        candidate.weight = candidate.source.group.weight_unit.convert(candidate.address.weight, unit);
    }
    unit
}

/// Returns the divisor per priority that makes the sum of its weights fit.
fn scales(bins: &Bins<'_>) -> BTreeMap<u32, u64> {
    let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
    for ((priority, _), members) in bins {
        let sum: u64 = members.iter().fold(0, |sum, c| sum.saturating_add(c.weight));
        let total = sums.entry(*priority).or_default();
        *total = total.saturating_add(sum);
    }
    sums.values_mut().for_each(|sum| *sum = sum.div_ceil(MAX_SUM).max(1));
    sums
}

fn locality_endpoints<'a, R: Recorder>(
    priority: u32,
    locality: &Locality,
    members: Vec<Candidate<'a>>,
    (scale, unit): (u64, Option<WeightUnit>),
    r: &mut R,
) -> LocalityEndpoints<'a> {
    let endpoints: Vec<Endpoint<'a>> = members
        .into_iter()
        .map(|candidate| {
            let weight = scaled(&candidate, scale);
            // the steps of endpoints behind gateways are those of the endpoints
            if !candidate.is_gateway {
                record(&candidate, (priority, locality), (weight, unit), "", r);
            }
            let mtls = candidate.accepts_mesh_tls();
            let Candidate { target, source, address, health, is_gateway, .. } = candidate;
            Endpoint { target, health, weight, address, mtls, source, is_gateway }
        })
        .collect();
    let weight = endpoints.iter().fold(0_u32, |sum, e| sum.saturating_add(e.weight));
    LocalityEndpoints { priority, locality: locality.clone(), weight, endpoints }
}

/// Returns a locality whose endpoints the client does not use, with the weight that they had.
fn without_share<'a, R: Recorder>(
    priority: u32,
    locality: &Locality,
    members: &[Candidate<'a>],
    scale: u64,
    r: &mut R,
) -> LocalityEndpoints<'a> {
    members.iter().for_each(|candidate| candidate.refuse(&Refusal::NoLocalityShare, r));
    let weight = members.iter().fold(0_u32, |sum, c| sum.saturating_add(scaled(c, scale)));
    LocalityEndpoints { priority, locality: locality.clone(), weight, endpoints: Vec::new() }
}

fn scaled(candidate: &Candidate<'_>, scale: u64) -> u32 {
    u32::try_from(candidate.weight / scale).unwrap_or(u32::MAX).max(1)
}

fn record<R: Recorder>(
    c: &Candidate<'_>,
    (priority, locality): (u32, &Locality),
    (weight, unit): (u32, Option<WeightUnit>),
    shared: &str,
    r: &mut R,
) {
    if c.source.priority == ShardPriority::Demoted {
        let step = (Stage::Weight, Verdict::Warn, Code::DEMOTED);
        c.record(step, || "its facts are stale or its cluster leaves: one priority lower".into(), r);
    }
    let detail = || {
        let at = if locality.is_empty() { "no locality".to_owned() } else { format!("locality {locality}") };
        // the weights of a share have no unit
        let has_share = c.source.federation.as_ref().is_some_and(|federation| federation.share.is_some());
        let unit = unit.filter(|_| !has_share);
        let unit = unit.map(|unit| format!(" (an ordinary endpoint has {})", unit.get()));
        format!("weight {weight}{}{shared}, priority {priority}, {at}", unit.unwrap_or_default())
    };
    c.record((Stage::Weight, Verdict::Pass, Code::WEIGHT), detail, r);
}
