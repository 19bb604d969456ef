//! Records of a registry's served facts, in slices.
//!
//! Called by the core task to write a registry to the journal again after the journal lost records.

use std::collections::BTreeSet;

use tributary_model::{FactId, FactKey, HoldRecord, ProblemRecord, Record, RegistryName, Scope};

use super::Core;
use crate::ledger::Scoped;
use crate::state::shards::ShardId;

impl Core {
    /// Returns the records of at most `most` facts of a registry after a key, ordered by key, and whether
    /// they are the last. The first slice begins with identity, lists and problems; the last ends with
    /// holds. Facts that change between two slices reach the journal as ordinary records.
    #[must_use]
    pub fn snapshot(&self, name: &RegistryName, after: Option<&FactKey>, most: usize) -> (Vec<Record>, bool) {
        let Some(registry) = self.registries.get(name) else { return (Vec::new(), true) };
        let mut out = Vec::new();
        if after.is_none() {
            out.extend(
                registry.ledger.identity.clone().map(|identity| Record::Identity(name.clone(), identity)),
            );
            out.extend(self.state.list_records(registry));
            for (scope, scoped) in &registry.ledger.scopes {
                out.extend(scoped.problems.iter().map(|problem| problem_record(name, scope, problem)));
            }
        }
        let keys = self.keys_after(name, after, most.saturating_add(1));
        let last = keys.len() <= most;
        for key in keys.into_iter().take(most) {
            let shard = self.state.context.shards.find(name, &key.scope);
            if let Some(fact) = shard.and_then(|shard| self.state.fact(shard, &key.item)) {
                out.push(Record::Put(name.clone(), key.scope, fact));
            }
        }
        if last {
            out.extend(self.hold_records(name));
        }
        (out, last)
    }

    /// Returns the keys of a registry's served facts after a key; waiting addresses have no record.
    fn keys_after(&self, name: &RegistryName, after: Option<&FactKey>, most: usize) -> Vec<FactKey> {
        let Some(registry) = self.registries.get(name) else { return Vec::new() };
        let mut out = Vec::new();
        for (scope, scoped) in &registry.ledger.scopes {
            if out.len() >= most || after.is_some_and(|after| *scope < after.scope) {
                continue;
            }
            let shard = self.state.context.shards.find(name, scope);
            let own = after.filter(|after| after.scope == *scope);
            let most = most - out.len();
            let items = self.items_after(shard, scoped, own.map(|own| &own.item), most);
            out.extend(items.into_iter().map(|item| FactKey { scope: scope.clone(), item }));
        }
        out
    }

    /// Returns at most `most` facts after one, reported or with a held removal, in order.
    fn items_after(
        &self,
        shard: Option<ShardId>,
        scoped: &Scoped,
        after: Option<&FactId>,
        most: usize,
    ) -> Vec<FactId> {
        let held = shard.map(|shard| self.state.guard.of_shard(shard)).unwrap_or_default();
        let held = held.into_iter().filter(|item| after.is_none_or(|after| item > after));
        let items: BTreeSet<FactId> = scoped.tables.items_after(after).take(most).chain(held).collect();
        items.into_iter().take(most).collect()
    }

    fn hold_records(&self, name: &RegistryName) -> Vec<Record> {
        let of = |(shard, item): &(ShardId, FactId)| {
            let (registry, scope) = self.state.source_of(*shard)?;
            (registry == *name).then(|| FactKey { scope, item: item.clone() })
        };
        let holds = self.state.guard.holds().filter_map(|(key, hold)| Some((of(key)?, hold)));
        let record = |(key, hold): (FactKey, &crate::removal::guard::Hold)| {
            let hold = HoldRecord { since: hold.since, reason: hold.reason.into() };
            Record::Hold(name.clone(), key, Some(hold))
        };
        holds.map(record).collect()
    }
}

fn problem_record(name: &RegistryName, scope: &Scope, problem: &ProblemRecord) -> Record {
    Record::Problem(name.clone(), scope.clone(), problem.object.id.clone(), Some(problem.clone()))
}
