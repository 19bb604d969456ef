//! The removal guard: absence alone does not empty a host (law 2).
//!
//! Ingest proposes removals; [`State::judge`] decides once per batch, after all of the batch's updates.
//! The guard judges only removals that rest on absence (`AbsentFromList`, or endpoints missing from a
//! `PossiblyPartial` or `KnownPartial` Put), and only of registries that can confirm. It doubts the
//! removal of a host's last endpoint, of a service, and of more than 30 % of a scope within ten
//! seconds. A doubted removal is held: the fact stays served and visible, and the source receives
//! confirm requests until it answers. Ports of held endpoints stay declared.

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
    /// Removes a fact, or proposes the removal if it rests on absence and the source can confirm it.
    pub(crate) fn withdraw(&mut self, shard: ShardId, item: &FactId, evidence: &Evidence) {
        if evidence.is_absence() && self.can_confirm(shard) {
            self.guard.propose((shard, item.clone()), Proposal::Absent(evidence.clone()));
        } else {
            self.remove(shard, item, evidence.clone());
        }
    }

    /// Decides the removals that this batch proposed.
    pub(crate) fn judge(&mut self) {
        let now = self.now;
        self.judge_proposals(now);
        for (key, (reported, at)) in std::mem::take(&mut self.guard.redeclared) {
            self.redeclare(key, &reported, at);
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
                self.context.shards.lose(key.0, lost);
            }
            match proposal {
                Proposal::Fewer { reported, at, doubted } => {
                    let reason = reason.or_else(|| doubted.then_some(reason::SHORT_ANSWER));
                    self.settle_fewer(key, &reported, at, reason, now);
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

    /// Takes the confirm requests that are due, at most as many as configured.
    pub(crate) fn take_confirms(
        &mut self,
        config: &CoreConfig,
        registries: &Registries,
    ) -> Vec<ConfirmRequest> {
        let (mut confirms, now) = (Vec::new(), self.now);
        while confirms.len() < config.confirms_per_batch {
            let due = self.guard.take_due(now, config.confirm_backoff_min, config.confirm_backoff_max);
            let Some((shard, item)) = due else { break };
            let Some(info) = self.context.shards.get(shard) else { continue };
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

    /// Records the holds that began or ended in this batch.
    pub(crate) fn record_holds(&mut self) {
        for key in self.guard.take_changed() {
            let Some((name, scope)) = self.source_of(key.0) else { continue };
            let hold = self
                .guard
                .holds
                .get(&key)
                .map(|hold| HoldRecord { since: hold.since, reason: hold.reason.into() });
            self.dirty.records.push(Record::Hold(name, FactKey { scope, item: key.1 }, hold));
        }
    }
}
