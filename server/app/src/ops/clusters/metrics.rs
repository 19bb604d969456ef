//! Metrics of clusters, from the same table as `get clusters`. Those of a cluster end with its removal.

use jiff::Timestamp;

use super::state::ClusterState;
use crate::admin::metrics::{self as m, Sample};
use crate::document::ClusterItem;

/// Results of declarations.
const OUTCOMES: [&str; 4] = ["Used", "Conflict", "NotUsed", "Refused"];

/// Adds the samples of every cluster at `now`.
pub fn add(clusters: &[ClusterItem], now: Timestamp, out: &mut Vec<Sample>) {
    clusters.iter().for_each(|one| of_cluster(one, now, out));
}

fn of_cluster(one: &ClusterItem, now: Timestamp, out: &mut Vec<Sample>) {
    let name = one.name.as_str();
    for state in ClusterState::ALL.map(ClusterState::as_str) {
        let value = f64::from(u8::from(one.state == state));
        out.push(Sample::new(m::CLUSTER_STATE, &[name, state], value));
    }
    if let Some(ago) = one.confirmed_millis_ago {
        let at = now.as_millisecond().saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX));
        out.push(Sample::new(m::CLUSTER_CONFIRMED, &[name], at as f64 / 1000.0));
    }
    let objects = [("services", one.services), ("workloads", one.workloads), ("gateways", one.gateways)];
    out.extend(objects.map(|(kind, count)| Sample::new(m::CLUSTER_OBJECTS, &[name, kind], count as f64)));
    if let Some(at) = one.credential_expires {
        out.push(Sample::new(m::CLUSTER_EXPIRY, &[name], at.as_second() as f64));
    }
    if one.claims.is_empty() {
        return;
    }
    out.push(Sample::new(m::CLUSTER_ROTATIONS, &[name], one.rotations as f64));
    for outcome in OUTCOMES {
        let count = one.claims.iter().filter(|claim| claim.outcome == outcome).count();
        out.push(Sample::new(m::CLUSTER_CLAIMS, &[name, outcome], count as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::clusters::ClaimItem;

    #[test]
    fn cluster_has_one_state_and_its_times_and_claims() {
        let claim = |outcome: &str| ClaimItem { outcome: outcome.into(), ..ClaimItem::default() };
        let one = ClusterItem {
            name: "east".into(),
            state: "Stale".into(),
            confirmed_millis_ago: Some(4_000),
            credential_expires: Some(Timestamp::from_second(77).unwrap()),
            rotations: 3,
            services: 5,
            workloads: 9,
            claims: vec![claim("Used"), claim("Conflict"), claim("Conflict")],
            ..ClusterItem::default()
        };
        let mut out = Vec::new();
        add(&[one], Timestamp::from_second(10).unwrap(), &mut out);
        let text = m::encode(out, m::Format::OpenMetrics).unwrap();
        for line in [
            "tributary_cluster_state{cluster=\"east\",state=\"Stale\"} 1.0",
            "tributary_cluster_state{cluster=\"east\",state=\"Live\"} 0.0",
            "tributary_cluster_last_confirmed_timestamp_seconds{cluster=\"east\"} 6.0",
            "tributary_cluster_credential_expiry_timestamp_seconds{cluster=\"east\"} 77.0",
            "tributary_cluster_objects{cluster=\"east\",kind=\"services\"} 5.0",
            "tributary_cluster_objects{cluster=\"east\",kind=\"workloads\"} 9.0",
            "tributary_cluster_objects{cluster=\"east\",kind=\"gateways\"} 0.0",
            "tributary_cluster_rotations_total{cluster=\"east\"} 3.0",
            "tributary_cluster_claims{cluster=\"east\",outcome=\"Conflict\"} 2.0",
            "tributary_cluster_claims{cluster=\"east\",outcome=\"Refused\"} 0.0",
        ] {
            assert!(text.contains(line), "no {line} in {text}");
        }
        let states = text.lines().filter(|line| line.contains("cluster_state{") && line.ends_with(" 1.0"));
        assert_eq!(states.count(), 1);
    }
}
