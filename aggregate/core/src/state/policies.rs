//! Policies of all shards, and the workloads that several of them select.
//!
//! Written by apply; the build publishes the first value of each key in precedence. A staleness policy never
//! withdraws a policy: without it, clients would receive more.

pub(crate) mod overlaps;

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{DeclaredPolicy, Labels, Namespace, PolicyKey, PolicyKind, PrecedenceKey};

use crate::state::shards::{ShardId, ShardInfo, Shards};
use overlaps::Overlaps;

/// One shard's value of a policy.
#[derive(Debug)]
pub(crate) struct PolicyFact {
    /// Shard that reports it.
    pub(crate) shard: ShardId,
    /// Value.
    pub(crate) declared: Arc<DeclaredPolicy>,
    /// Whether its removal is held.
    pub(crate) held: bool,
}

/// Value of a policy with its shard.
pub(crate) type Ranked<'a> = (&'a ShardInfo, &'a Arc<DeclaredPolicy>);

/// All policies.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    reported: BTreeMap<PolicyKey, Vec<PolicyFact>>,
    /// Workloads that several policies select.
    pub(crate) overlaps: Overlaps,
}

impl Policies {
    /// Returns a shard's value.
    pub(crate) fn get(&self, shard: ShardId, key: &PolicyKey) -> Option<&PolicyFact> {
        self.reported.get(key)?.iter().find(|fact| fact.shard == shard)
    }
    /// Returns a shard's value, mutable.
    pub(crate) fn get_mut(&mut self, shard: ShardId, key: &PolicyKey) -> Option<&mut PolicyFact> {
        self.reported.get_mut(key)?.iter_mut().find(|fact| fact.shard == shard)
    }
    /// Adds the value of a shard that has none for the key yet.
    pub(crate) fn add(&mut self, key: &PolicyKey, fact: PolicyFact) {
        // almost every policy has one value
        self.reported.entry(key.clone()).or_insert_with(|| Vec::with_capacity(1)).push(fact);
    }
    /// Removes a shard's value. Returns whether there was one.
    pub(crate) fn remove(&mut self, shard: ShardId, key: &PolicyKey) -> bool {
        let Some(facts) = self.reported.get_mut(key) else { return false };
        let before = facts.len();
        facts.retain(|fact| fact.shard != shard);
        let removed = facts.len() < before;
        if facts.is_empty() {
            self.reported.remove(key);
        }
        removed
    }
    /// Returns the values of a policy with their shards, the first in precedence first. One that stands in for a policy without
    /// a valid version comes after all valid ones: of other kinds, a shard without a valid version has no value.
    pub(crate) fn ranked<'a>(&'a self, key: &PolicyKey, shards: &'a Shards) -> Vec<Ranked<'a>> {
        let facts = self.reported.get(key).into_iter().flatten();
        let known = facts.filter_map(|fact| Some((shards.get(fact.shard)?, &fact.declared)));
        let mut ranked: Vec<_> = known.collect();
        let stands_in = |(_, declared): &Ranked<'_>| declared.policy.is_stand_in();
        ranked.sort_by(|a, b| stands_in(a).cmp(&stands_in(b)).then_with(|| rank(*a).order(&rank(*b))));
        ranked
    }
    /// Returns the policies of a kind and namespace, the first in precedence first.
    pub(crate) fn in_order<'a>(
        &'a self,
        kind: PolicyKind,
        namespace: &Namespace,
        shards: &'a Shards,
    ) -> Vec<(&'a PolicyKey, &'a Arc<DeclaredPolicy>)> {
        let first = PolicyKey { kind, namespace: namespace.clone(), name: "".into() };
        let keys = self.reported.range(first..).map(|(key, _)| key);
        let keys = keys.take_while(|key| key.kind == kind && key.namespace == *namespace);
        let mut served: Vec<_> =
            keys.filter_map(|key| Some((key, *self.ranked(key, shards).first()?))).collect();
        served.sort_by(|(_, a), (_, b)| rank(*a).order(&rank(*b)));
        served.into_iter().map(|(key, (_, declared))| (key, declared)).collect()
    }
    /// Returns the policies of a kind and namespace that apply to every workload, the first in precedence first.
    pub(crate) fn wide(&self, kind: PolicyKind, namespace: &Namespace, shards: &Shards) -> Vec<PolicyKey> {
        let all = self.in_order(kind, namespace, shards).into_iter();
        let wide = all.filter(|(_, value)| value.policy.selector().is_some_and(Labels::is_empty));
        wide.map(|(key, _)| key.clone()).collect()
    }
}

/// Returns the precedence key of a value.
pub(crate) fn rank((info, declared): Ranked<'_>) -> PrecedenceKey<'_> {
    info.precedence(declared.created, &declared.source.object)
}

#[cfg(test)]
impl Policies {
    /// Returns every shard's value.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (ShardId, PolicyKey, Arc<DeclaredPolicy>)> {
        let all = self.reported.iter().flat_map(|(key, facts)| facts.iter().map(move |fact| (key, fact)));
        all.map(|(key, fact)| (fact.shard, key.clone(), Arc::clone(&fact.declared)))
    }
    /// Returns whether every index is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.overlaps.is_empty()
    }
}
