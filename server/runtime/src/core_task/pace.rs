//! Decides when a batch is published: two deadlines for one state, instead of two queues.
//!
//! Pure; the core task calls it after every change and sleeps until the deadline. A single event is
//! published at once. Under sustained churn publications are paced, by 20 ms or by the cost of a
//! fan-out. A pending removal or health change is published as soon as the pace allows; additions alone
//! also wait for an unfinished fan-out, up to a bound. A policy that leaves a route without its subset waits for the change that
//! completes it, up to a bound.

use std::time::Duration;

use tributary_model::Mono;

/// Limits on the rate of publications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacePolicy {
    /// The shortest time between two publications under sustained churn.
    pub pace: Duration,
    /// Upper bound of the pace with a costly fan-out: every removal must reach clients within 100 ms, and
    /// sending it takes time too.
    pub longest: Duration,
    /// Longest time that additions alone wait for a busy fan-out.
    pub additions: Duration,
    /// Longest time that a policy waits for the change that completes it: the time between two objects of one `kubectl apply`, with
    /// a margin.
    pub completion: Duration,
    /// Number of publications without a pace before churn counts as sustained.
    pub burst: u32,
}

impl Default for PacePolicy {
    fn default() -> Self {
        Self {
            pace: Duration::from_millis(20),
            longest: Duration::from_millis(60),
            additions: Duration::from_millis(200),
            completion: Duration::from_millis(100),
            burst: 2,
        }
    }
}

/// Pace of one core task.
#[derive(Debug)]
pub(crate) struct Pace {
    policy: PacePolicy,
    /// When the allowance of publications is full again.
    whole_at: Mono,
    urgent: bool,
    dirty_since: Option<Mono>,
    /// Until when an incomplete change waits.
    incomplete_until: Option<Mono>,
}

impl Pace {
    pub(crate) const fn new(policy: PacePolicy) -> Self {
        Self { policy, whole_at: Mono(0), urgent: false, dirty_since: None, incomplete_until: None }
    }
    /// Records an unpublished change.
    pub(crate) fn changed(&mut self, now: Mono, urgent: bool, incomplete: bool) {
        self.dirty_since.get_or_insert(now);
        self.urgent |= urgent;
        if incomplete {
            self.incomplete_until.get_or_insert_with(|| now.plus(self.policy.completion));
        }
    }
    /// Returns when to publish; `None` if there is no unpublished change.
    pub(crate) fn due(&self, cost: Duration, busy: bool) -> Option<Mono> {
        let since = self.dirty_since?;
        let allowance = self.step(cost) * self.policy.burst;
        let paced = Mono(self.whole_at.0.saturating_sub(Mono::from_elapsed(allowance).0)).max(since);
        if self.urgent {
            return Some(paced);
        }
        let complete = self.incomplete_until.map_or(paced, |until| paced.max(until));
        Some(if busy { complete.max(since.plus(self.policy.additions)) } else { complete })
    }
    /// Records a publication. Returns whether it contained an urgent change.
    pub(crate) fn published(&mut self, now: Mono, cost: Duration) -> bool {
        self.whole_at = self.whole_at.max(now).plus(self.step(cost));
        (self.dirty_since, self.incomplete_until) = (None, None);
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

    /// Publishes changes that arrive at the given times; returns the times of publication.
    fn publications(pace: &mut Pace, changes: &[u64], urgent: bool, cost: Duration) -> Vec<u64> {
        let mut at = Vec::new();
        for now in 0..=changes.last().copied().unwrap_or(0) + 1000 {
            if changes.contains(&now) {
                pace.changed(Mono(now), urgent, false);
            }
            if pace.due(cost, false).is_some_and(|due| due <= Mono(now)) {
                pace.published(Mono(now), cost);
                at.push(now);
            }
        }
        at
    }

    #[test]
    fn single_event_is_due_at_once() {
        assert_eq!(publications(&mut mk_pace(), &[5000], false, CHEAP), [5000]);
        assert_eq!(publications(&mut mk_pace(), &[5000, 5007], true, CHEAP), [5000, 5007]);
    }

    #[test]
    fn sustained_churn_is_paced() {
        let churn: Vec<u64> = (0..200).map(|i| 5000 + i * 5).collect();
        let published = publications(&mut mk_pace(), &churn, true, CHEAP);
        assert!((48..=56).contains(&published.len()), "{} publications in a second", published.len());
        assert!(published.iter().skip(4).zip(published.iter().skip(5)).all(|(a, b)| b - a >= 20));
    }

    #[test]
    fn a_costly_fan_out_stretches_the_pace_up_to_its_bound() {
        let churn: Vec<u64> = (0..1000).map(|i| 5000 + i).collect();
        let published = publications(&mut mk_pace(), &churn, true, Duration::from_secs(3));
        assert!(
            published.iter().skip(4).zip(published.iter().skip(5)).all(|(a, b)| b - a == 60),
            "{published:?}"
        );
    }

    #[test]
    fn additions_wait_for_a_busy_fan_out_and_removals_do_not() {
        let mut pace = mk_pace();
        pace.changed(Mono(1000), false, false);
        assert_eq!(pace.due(CHEAP, true), Some(Mono(1200)), "up to the bound");
        assert_eq!(pace.due(CHEAP, false), Some(Mono(1000)), "the fan-out is idle");
        pace.changed(Mono(1050), true, false);
        assert_eq!(pace.due(CHEAP, true), Some(Mono(1000)), "a removal publishes the additions too");
        assert!(pace.published(Mono(1050), CHEAP));
        assert_eq!(pace.due(CHEAP, false), None, "no change is left");
    }

    /// A subset is renamed in two objects: the second one publishes both.
    #[test]
    fn incomplete_policy_waits_for_the_change_that_completes_it() {
        let mut pace = mk_pace();
        pace.changed(Mono(1000), false, true);
        pace.changed(Mono(1060), false, true);
        assert_eq!(pace.due(CHEAP, false), Some(Mono(1100)), "up to the bound, from the first");
        pace.changed(Mono(1070), true, false);
        assert_eq!(pace.due(CHEAP, false), Some(Mono(1000)), "the change that completes it, or a removal");
        pace.published(Mono(1070), CHEAP);
        pace.changed(Mono(5000), false, false);
        assert_eq!(pace.due(CHEAP, false), Some(Mono(5000)));
    }

    proptest! {
        #[test]
        fn no_removal_waits_longer_than_the_longest_pace(
            mut changes in prop::collection::vec(0..3000_u64, 1..200),
            cost in 0..500_u64,
        ) {
            changes.sort_unstable();
            let published = publications(&mut mk_pace(), &changes, true, Duration::from_millis(cost));
            for change in changes {
                let when = published.iter().find(|t| **t >= change);
                prop_assert!(when.is_some_and(|t| t - change <= 60), "{change} was published at {when:?}");
            }
        }
    }
}
