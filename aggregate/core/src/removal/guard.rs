//! What was proposed to be removed in this turn, what is held, and when sources are asked.
//!
//! Part of the state: removals are proposed by ingest, judged at the end of a turn, and shown by the build.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tributary_model::{Declaration, EndpointGroup, Evidence, FactId, Mono};

use crate::state::shards::ShardId;

/// Why removals are doubted, as operators read it.
pub(crate) mod reason {
    pub(crate) const SERVICE_VANISHES: &str = "the service would vanish";
    pub(crate) const HOST_EMPTIED: &str = "the host would have no endpoint left";
    pub(crate) const LARGE_LOSS: &str = "more than 30 % of the scope would go at once";
    pub(crate) const SHORT_ANSWER: &str = "the source's answer was short or old";
    const RESTORED: &str = "its removal was held before the restart";

    /// The reason of a hold that a journal kept.
    pub(crate) fn restored(text: &str) -> &'static str {
        let all = [SERVICE_VANISHES, HOST_EMPTIED, LARGE_LOSS, SHORT_ANSWER];
        all.into_iter().find(|known| *known == text).unwrap_or(RESTORED)
    }
}

/// What a hold is about.
pub(crate) type HoldKey = (ShardId, FactId);

/// A removal that rests on absence.
#[derive(Debug)]
pub(crate) enum Proposal {
    /// A list did not hold it; the evidence that its removal carries.
    Absent(Evidence),
    /// An unsure answer named these endpoints only; `doubted`: what it lacks proves nothing.
    Fewer { said: Arc<EndpointGroup>, at: Mono, doubted: bool },
}

/// A removal that waits for proof.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    /// Since when.
    pub(crate) since: Mono,
    /// Why it is doubted.
    pub(crate) reason: &'static str,
    /// How often the source was asked.
    pub(crate) asked: u32,
    /// When it is asked next.
    pub(crate) next: Mono,
}

/// What was proposed in this turn, what is held, and when to ask.
#[derive(Debug, Default)]
pub(crate) struct RemovalGuard {
    pub(crate) proposals: BTreeMap<HoldKey, Proposal>,
    pub(crate) holds: BTreeMap<HoldKey, Hold>,
    due: BTreeSet<(Mono, HoldKey)>,
    /// Holds that began or ended in this turn.
    changed: BTreeSet<HoldKey>,
    /// Declarations that unsure answers gave fewer ports, until the groups behind them are judged.
    pub(crate) redeclared: BTreeMap<HoldKey, (Arc<Declaration>, Mono)>,
}

impl RemovalGuard {
    /// A source no longer reports this fact, or reports less of it.
    pub(crate) fn propose(&mut self, key: HoldKey, proposal: Proposal) {
        // an answer of earlier in this turn is contradicted: applied after the judgement, it would end the hold
        self.redeclared.remove(&key);
        self.proposals.insert(key, proposal);
    }
    /// An unsure answer declares fewer ports.
    pub(crate) fn redeclare(&mut self, key: HoldKey, said: Arc<Declaration>, at: Mono) {
        // the declaration is there: a list that lacked it earlier in this turn is contradicted
        self.proposals.remove(&key);
        self.redeclared.insert(key, (said, at));
    }
    /// Whether nothing is proposed or held, as nearly always.
    pub(crate) fn is_idle(&self) -> bool {
        self.proposals.is_empty() && self.redeclared.is_empty() && self.holds.is_empty()
    }
    /// Whatever was proposed or held of this is settled.
    pub(crate) fn end(&mut self, key: &HoldKey) {
        self.proposals.remove(key);
        self.redeclared.remove(key);
        if let Some(hold) = self.holds.remove(key) {
            self.due.remove(&(hold.next, key.clone()));
            self.changed.insert(key.clone());
        }
    }
    /// Holds that began or ended since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<HoldKey> {
        std::mem::take(&mut self.changed)
    }
    /// Whatever is held of a shard, or proposed in this turn.
    pub(crate) fn of_shard(&self, shard: ShardId) -> Vec<FactId> {
        let all = self.holds.keys().chain(self.proposals.keys()).chain(self.redeclared.keys());
        all.filter(|(of, _)| *of == shard).map(|(_, item)| item.clone()).collect()
    }
    /// Every hold.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (&HoldKey, &Hold)> {
        self.holds.iter()
    }
    /// Whether any removal is held.
    pub(crate) fn has_holds(&self) -> bool {
        !self.holds.is_empty()
    }
    /// What is held of this.
    pub(crate) fn held(&self, key: &HoldKey) -> Option<&Hold> {
        self.holds.get(key)
    }
    /// Whether this is held.
    pub(crate) fn is_held(&self, key: &HoldKey) -> bool {
        self.holds.contains_key(key)
    }
    /// When the next question is due.
    pub(crate) fn due(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }
    /// Holds a removal; whether it was not held before. A source that cannot confirm is not asked.
    pub(crate) fn hold(&mut self, key: HoldKey, now: Mono, reason: &'static str, confirms: bool) -> bool {
        if self.holds.contains_key(&key) {
            return false;
        }
        if confirms {
            self.due.insert((now, key.clone()));
        }
        self.changed.insert(key.clone());
        self.holds.insert(key, Hold { since: now, reason, asked: 0, next: now });
        true
    }
    /// A new run of a registry serves: it is asked again at once.
    pub(crate) fn ask_again(&mut self, shards: &[ShardId], now: Mono) {
        for (key, hold) in self.holds.iter_mut().filter(|((shard, _), _)| shards.contains(shard)) {
            if !self.due.remove(&(hold.next, key.clone())) {
                continue;
            }
            (hold.next, hold.asked) = (now, 0);
            self.due.insert((now, key.clone()));
        }
    }
    /// The next hold that is to be asked about, if its time has come.
    pub(crate) fn take_due(&mut self, now: Mono, first: Duration, most: Duration) -> Option<HoldKey> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(hold) = self.holds.get_mut(&key) {
            let wait = first.saturating_mul(1_u32 << hold.asked.min(16)).min(most);
            hold.asked = hold.asked.saturating_add(1);
            hold.next = now.plus(wait.max(Duration::from_millis(1)));
            self.due.insert((hold.next, key.clone()));
        }
        Some(key)
    }
}
