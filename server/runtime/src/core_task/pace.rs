//! When a turn ends: two deadlines for publishing one state, never two queues.
//!
//! Pure; the pump asks it after every change and sleeps until the answer. A lone event is published
//! at once. Under sustained churn publications are paced, by 20 ms or by what a fan-out costs. With
//! a removal or a health change pending the turn ends as soon as the pace allows; additions alone
//! wait while the last fan-out is still being written, up to a bound.

use std::time::Duration;

use tributary_model::Mono;

/// How publications are paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacePolicy {
    /// The shortest time between two publications under sustained churn.
    pub pace: Duration,
    /// The longest that a costly fan-out may stretch the pace to: every removal must be told within
    /// 100 ms, and telling it takes time too.
    pub longest: Duration,
    /// How long additions alone may wait for a busy fan-out.
    pub additions: Duration,
    /// How many publications may follow each other without a pace before churn counts as sustained.
    pub burst: u32,
}

impl Default for PacePolicy {
    fn default() -> Self {
        Self {
            pace: Duration::from_millis(20),
            longest: Duration::from_millis(60),
            additions: Duration::from_millis(200),
            burst: 2,
        }
    }
}

/// The pace of one pump.
#[derive(Debug)]
pub(crate) struct Pace {
    policy: PacePolicy,
    /// When the allowance of publications would be whole again.
    whole_at: Mono,
    urgent: bool,
    dirty_since: Option<Mono>,
}

impl Pace {
    pub(crate) const fn new(policy: PacePolicy) -> Self {
        Self { policy, whole_at: Mono(0), urgent: false, dirty_since: None }
    }
    /// The core has something that is not published.
    pub(crate) fn changed(&mut self, now: Mono, urgent: bool) {
        self.dirty_since.get_or_insert(now);
        self.urgent |= urgent;
    }
    /// When the turn ends, as things stand; `None` where there is nothing to publish.
    pub(crate) fn due(&self, cost: Duration, busy: bool) -> Option<Mono> {
        let since = self.dirty_since?;
        let allowance = self.step(cost) * self.policy.burst;
        let paced = Mono(self.whole_at.0.saturating_sub(Mono::from_elapsed(allowance).0)).max(since);
        if self.urgent || !busy {
            return Some(paced);
        }
        Some(paced.max(since.plus(self.policy.additions)))
    }
    /// Counts a publication; whether something urgent was in it.
    pub(crate) fn published(&mut self, now: Mono, cost: Duration) -> bool {
        self.whole_at = self.whole_at.max(now).plus(self.step(cost));
        self.dirty_since = None;
        std::mem::take(&mut self.urgent)
    }
    fn step(&self, cost: Duration) -> Duration {
        cost.clamp(self.policy.pace, self.policy.longest.max(self.policy.pace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHEAP: Duration = Duration::ZERO;

    fn mk_pace() -> Pace {
        Pace::new(PacePolicy::default())
    }

    /// Publishes whatever is due while changes arrive at the given times; returns when.
    fn publications(pace: &mut Pace, changes: &[u64], urgent: bool, cost: Duration) -> Vec<u64> {
        let mut at = Vec::new();
        for now in 0..=changes.last().copied().unwrap_or(0) + 1000 {
            if changes.contains(&now) {
                pace.changed(Mono(now), urgent);
            }
            if pace.due(cost, false).is_some_and(|due| due <= Mono(now)) {
                pace.published(Mono(now), cost);
                at.push(now);
            }
        }
        at
    }

    #[test]
    fn a_lone_event_waits_for_nothing() {
        assert_eq!(publications(&mut mk_pace(), &[5000], false, CHEAP), [5000]);
        assert_eq!(publications(&mut mk_pace(), &[5000, 5007], true, CHEAP), [5000, 5007]);
    }

    #[test]
    fn sustained_churn_is_paced() {
        let churn: Vec<u64> = (0..200).map(|i| 5000 + i * 5).collect();
        let told = publications(&mut mk_pace(), &churn, true, CHEAP);
        assert!((48..=56).contains(&told.len()), "{} publications in a second", told.len());
        assert!(told.iter().skip(4).zip(told.iter().skip(5)).all(|(a, b)| b - a >= 20));
    }

    #[test]
    fn a_costly_fan_out_stretches_the_pace_up_to_its_bound() {
        let churn: Vec<u64> = (0..1000).map(|i| 5000 + i).collect();
        let told = publications(&mut mk_pace(), &churn, true, Duration::from_secs(3));
        assert!(told.iter().skip(4).zip(told.iter().skip(5)).all(|(a, b)| b - a == 60), "{told:?}");
    }

    #[test]
    fn additions_wait_for_a_busy_fan_out_and_removals_do_not() {
        let mut pace = mk_pace();
        pace.changed(Mono(1000), false);
        assert_eq!(pace.due(CHEAP, true), Some(Mono(1200)), "up to the bound");
        assert_eq!(pace.due(CHEAP, false), Some(Mono(1000)), "it has become free");
        pace.changed(Mono(1050), true);
        assert_eq!(pace.due(CHEAP, true), Some(Mono(1000)), "a removal takes the additions along");
        assert!(pace.published(Mono(1050), CHEAP));
        assert_eq!(pace.due(CHEAP, false), None, "nothing is left");
    }

    proptest! {
        #[test]
        fn no_removal_waits_longer_than_the_longest_pace(
            mut changes in prop::collection::vec(0..3000_u64, 1..200),
            cost in 0..500_u64,
        ) {
            changes.sort_unstable();
            let told = publications(&mut mk_pace(), &changes, true, Duration::from_millis(cost));
            for change in changes {
                let when = told.iter().find(|t| **t >= change);
                prop_assert!(when.is_some_and(|t| t - change <= 60), "{change} was told at {when:?}");
            }
        }
    }
}
