//! Health and weight of an instance, from its checks.

use tributary_model::Health;

use crate::wire::{Check, Weights};

/// Combined result of an instance's and its node's checks, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All checks pass, or there are none.
    Passing,
    /// At least one check is in warning state.
    Warning,
    /// At least one check is critical or has an unknown status.
    Critical,
    /// The operator put the instance or its node into maintenance.
    Maintenance,
}

/// Returns the worst outcome of all checks.
#[must_use]
pub fn outcome(checks: &[Check]) -> Outcome {
    checks.iter().map(one).max().unwrap_or(Outcome::Passing)
}

/// Returns whether a check has an unknown status and therefore counts as critical.
#[must_use]
pub fn is_unknown(check: &Check) -> bool {
    !matches!(check.status.as_str(), "passing" | "warning" | "critical" | "maintenance")
}

fn one(check: &Check) -> Outcome {
    let by_id = check.check_id == "_node_maintenance" || check.check_id.starts_with("_service_maintenance:");
    match check.status.as_str() {
        // an enabled maintenance check is critical
        "passing" => Outcome::Passing,
        _ if by_id => Outcome::Maintenance,
        "maintenance" => Outcome::Maintenance,
        "warning" => Outcome::Warning,
        _ => Outcome::Critical,
    }
}

/// Returns health and weight. Weight 0 means that the state receives no traffic.
#[must_use]
pub fn health_and_weight(outcome: Outcome, weights: Option<&Weights>) -> (Health, u32) {
    let weight = weights.map_or(1, |weights| match outcome {
        Outcome::Warning => weights.warning,
        _ => weights.passing,
    });
    let weight = u32::try_from(weight.clamp(0, 65_535)).unwrap_or(0);
    let health = match outcome {
        Outcome::Passing | Outcome::Warning if weight == 0 => Health::Unhealthy,
        Outcome::Passing | Outcome::Warning => Health::Healthy,
        Outcome::Critical => Health::Unhealthy,
        Outcome::Maintenance => Health::Draining,
    };
    (health, weight.max(1))
}

/// Returns the weight of an instance whose checks pass, at least 1.
#[must_use]
pub fn passing_weight(weights: Option<&Weights>) -> u16 {
    let (_, weight) = health_and_weight(Outcome::Passing, weights);
    u16::try_from(weight).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_check(id: &str, status: &str) -> Check {
        Check { check_id: id.into(), status: status.into() }
    }

    #[test]
    fn the_worst_check_decides_in_any_order() {
        let (ok, warn) = (mk_check("serfHealth", "passing"), mk_check("c", "warning"));
        let (bad, odd) = (mk_check("c", "critical"), mk_check("c", "tired"));
        let (node, own) =
            (mk_check("_node_maintenance", "critical"), mk_check("_service_maintenance:w", "critical"));
        let cases: [(Vec<Check>, Outcome); 7] = [
            (vec![], Outcome::Passing),
            (vec![ok.clone()], Outcome::Passing),
            (vec![ok.clone(), warn.clone()], Outcome::Warning),
            (vec![warn.clone(), bad.clone(), ok.clone()], Outcome::Critical),
            (vec![ok.clone(), odd], Outcome::Critical),
            (vec![bad.clone(), node, ok], Outcome::Maintenance),
            (vec![own, bad, warn], Outcome::Maintenance),
        ];
        for (mut checks, want) in cases {
            assert_eq!(outcome(&checks), want, "{checks:?}");
            checks.reverse();
            assert_eq!(outcome(&checks), want, "{checks:?}");
        }
    }

    #[test]
    fn weights_follow_the_state() {
        let weights = Weights { passing: 10, warning: 2 };
        let mute = Weights { passing: 10, warning: 0 };
        let cases = [
            (Outcome::Passing, None, (Health::Healthy, 1)),
            (Outcome::Passing, Some(&weights), (Health::Healthy, 10)),
            (Outcome::Warning, Some(&weights), (Health::Healthy, 2)),
            (Outcome::Warning, Some(&mute), (Health::Unhealthy, 1)),
            (Outcome::Critical, Some(&weights), (Health::Unhealthy, 10)),
            (Outcome::Maintenance, Some(&weights), (Health::Draining, 10)),
            (Outcome::Passing, Some(&Weights { passing: -4, warning: 1 }), (Health::Unhealthy, 1)),
            (Outcome::Passing, Some(&Weights { passing: 1 << 40, warning: 1 }), (Health::Healthy, 65_535)),
        ];
        for (outcome, weights, want) in cases {
            assert_eq!(health_and_weight(outcome, weights), want, "{outcome:?} {weights:?}");
        }
    }
}
