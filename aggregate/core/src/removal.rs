//! The removal gate: absence alone does not empty a host (law 2).
//!
//! Intake proposes, [`State::judge`] decides once per turn, when all of the turn is known. The gate
//! judges only what rests on absence (`AbsentFromList`, or endpoints missing from an `Unsure` Put)
//! and only of registries that can confirm. It doubts an emptied host, a vanished service, and more
//! than 30 % of a scope within ten seconds. What it doubts is held: served, shown, and asked about
//! until the source answers. Ports that lead to held endpoints stay declared with them.

pub(crate) mod audit;
pub(crate) mod difference;
mod doubts;
pub(crate) mod guard;
mod holds;

use std::collections::BTreeMap;

use tributary_model::{ConfirmRequest, Evidence, FactId, FactKey, HoldRecord, Mono, Record};

use crate::config::CoreConfig;
use crate::ledger::Registries;
use crate::state::State;
use crate::state::shards::ShardId;
use guard::{HoldKey, Proposal, reason};

type Proposals = BTreeMap<HoldKey, Proposal>;

impl State {
    /// Takes a fact away, or has its removal judged where absence is all there is.
    pub(crate) fn withdraw(&mut self, shard: ShardId, item: &FactId, evidence: &Evidence) {
        if evidence.is_absence() && self.can_confirm(shard) {
            self.guard.propose((shard, item.clone()), Proposal::Absent(evidence.clone()));
        } else {
            self.remove(shard, item, evidence.clone());
        }
    }

    /// Decides what was proposed in this turn.
    pub(crate) fn judge(&mut self) {
        let now = self.now;
        self.judge_proposals(now);
        for (key, (said, at)) in std::mem::take(&mut self.guard.redeclared) {
            self.redeclare(key, &said, at);
        }
    }

    fn judge_proposals(&mut self, now: Mono) {
        let proposals = std::mem::take(&mut self.guard.proposals);
        if proposals.is_empty() {
            return;
        }
        let doubts = self.doubts(&proposals);
        for (key, proposal) in proposals {
            let reason = self.reason(&doubts, &key);
            if reason.is_none() {
                let lost = self.weight(&key, &proposal);
                self.world.shards.lose(key.0, lost);
            }
            match proposal {
                Proposal::Fewer { said, at, doubted } => {
                    let reason = reason.or_else(|| doubted.then_some(reason::SHORT_ANSWER));
                    self.settle_fewer(key, &said, at, reason, now);
                }
                Proposal::Absent(evidence) => match reason {
                    _ if self.guard.is_held(&key) => self.hold_all(key, "", now),
                    Some(reason) => self.hold_all(key, reason, now),
                    None => {
                        self.remove(key.0, &key.1, evidence);
                    }
                },
            }
        }
    }

    /// The questions whose time has come.
    pub(crate) fn take_asks(&mut self, config: &CoreConfig, registries: &Registries) -> Vec<ConfirmRequest> {
        let (mut confirms, now) = (Vec::new(), self.now);
        while confirms.len() < config.confirms_per_batch {
            let due = self.guard.take_due(now, config.confirm_backoff_min, config.confirm_backoff_max);
            let Some((shard, item)) = due else { break };
            let Some(info) = self.world.shards.get(shard) else { continue };
            let name = &info.shard.registry.name;
            let Some(registry) = registries.get(name) else { continue };
            confirms.push(ConfirmRequest {
                registry: name.clone(),
                generation: registry.ledger.generation,
                confirm: FactKey { scope: info.shard.scope.clone(), item },
            });
        }
        self.counters.confirms += confirms.len() as u64;
        confirms
    }

    /// Records which removals began or ceased to be held in this turn.
    pub(crate) fn record_holds(&mut self) {
        for key in self.guard.take_changed() {
            let Some((name, scope)) = self.place_of(key.0) else { continue };
            let hold = self
                .guard
                .holds
                .get(&key)
                .map(|hold| HoldRecord { since: hold.since, reason: hold.reason.into() });
            self.dirty.records.push(Record::Hold(name, FactKey { scope, item: key.1 }, hold));
        }
    }
}
