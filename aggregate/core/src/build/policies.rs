//! Policies in the catalog, with the conditions that concern them.
//!
//! The build calls it before it publishes workloads. A policy is built again if it, a policy of its namespace,
//! or the workloads that it shares with another policy changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    CatalogChanges, Code, Condition, DeclaredPolicy, Namespace, ObjectRef, Policy, PolicyKey, PolicyKind,
    PolicyView, Shared,
};

use crate::state::State;
use crate::state::policies::{Ranked, rank};
use crate::state::shards::ShardInfo;

/// Policies of a kind and namespace that apply to every workload, the first in precedence first.
type Wide = BTreeMap<(PolicyKind, Namespace), Vec<PolicyKey>>;

/// How the view of a policy differs from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Built {
    /// It is equal.
    Same,
    /// Only its conditions differ.
    ServedTheSame,
    /// Clients may be served differently.
    Changed,
}

/// Message about a policy that stands in for one that is not valid.
const STANDS_IN: &str = "the workloads that it selects refuse every request until a version of it is valid";
/// Most objects that one condition names.
const NAMED: usize = 16;

impl State {
    /// Publishes changed policies.
    pub(super) fn build_policies(&mut self, changed: &mut CatalogChanges) {
        let dirty = std::mem::take(&mut self.dirty.policies);
        let mut again = self.follow_policies(&dirty);
        let mut wide = Wide::new();
        // of other kinds, one does not take the place of another
        for key in dirty.iter().filter(|key| key.kind.is_exclusive()) {
            wide.entry((key.kind, key.namespace.clone())).or_insert_with(|| {
                self.context.policies.wide(key.kind, &key.namespace, &self.context.shards)
            });
        }
        again.extend(wide.values().flatten().cloned());
        again.extend(dirty);
        for key in again {
            match self.build_policy(&key, &wide) {
                Built::Same => {}
                Built::ServedTheSame => changed.policy_facts = true,
                Built::Changed => drop(changed.policies.insert(key)),
            }
        }
    }

    /// Updates which policies select the same workloads. Returns those concerned.
    fn follow_policies(&mut self, dirty: &BTreeSet<PolicyKey>) -> BTreeSet<PolicyKey> {
        let context = &mut self.context;
        let mut again = BTreeSet::new();
        for key in dirty {
            let first = context.policies.ranked(key, &context.shards).first().copied();
            // several of the other kinds apply to one workload
            let first = first.filter(|_| key.kind.is_exclusive());
            let selector = first.and_then(|(_, declared)| declared.policy.selector().cloned());
            let overlaps = &mut context.policies.overlaps;
            again.extend(overlaps.set(key, selector.as_ref(), &context.selection, &context.workloads));
            again.extend(overlaps.rivals(key).cloned());
        }
        if context.policies.overlaps.is_idle() {
            return again;
        }
        for id in &self.dirty.workloads {
            for kind in PolicyKind::ALL {
                again.extend(context.policies.overlaps.follow(kind, *id, &context.workloads));
            }
        }
        again
    }

    /// Builds one policy.
    fn build_policy(&mut self, key: &PolicyKey, wide: &Wide) -> Built {
        let now = self.policy_view(key, wide);
        let old = self.draft.policies.get(key);
        if old.map(|old| &**old) == now.as_ref() {
            return Built::Same;
        }
        let same = old.zip(now.as_ref()).is_some_and(|(old, now)| old.is_served_as(now));
        match now {
            Some(view) => self.draft.policies.insert(key.clone(), Shared::new(view)),
            None => self.draft.policies.remove(key),
        };
        if same { Built::ServedTheSame } else { Built::Changed }
    }

    fn policy_view(&self, key: &PolicyKey, wide: &Wide) -> Option<PolicyView> {
        let (policies, shards) = (&self.context.policies, &self.context.shards);
        let ranked = policies.ranked(key, shards);
        let (info, declared) = ranked.first().copied()?;
        let mut conditions: Vec<Condition> = Vec::new();
        conditions.extend(ignored(declared));
        conditions.extend(not_served(declared));
        conditions.extend(declared_twice(&ranked));
        conditions.extend(self.same_namespace(key, declared, wide));
        conditions.extend(self.same_workloads(key));
        conditions.sort();
        Some(PolicyView {
            shard: Arc::clone(&info.shard),
            precedence: info.precedence,
            declared: Arc::clone(declared),
            conditions: conditions.into(),
        })
    }

    /// Returns the condition of a policy that is not alone in applying to every workload of its namespace.
    fn same_namespace(&self, key: &PolicyKey, declared: &DeclaredPolicy, wide: &Wide) -> Option<Condition> {
        if declared.policy.selector().is_none_or(|labels| !labels.is_empty()) {
            return None;
        }
        let all = wide.get(&(key.kind, key.namespace.clone()))?;
        let first = all.first().filter(|_| all.len() > 1)?;
        let message = if first == key {
            format!(
                "it applies to the namespace; other {} objects without a selector have no effect",
                key.kind
            )
        } else {
            format!("it has no effect: {first} applies to the namespace")
        };
        let others = all.iter().filter(|other| if first == key { *other != key } else { *other == key });
        Some(self.policy_conflict(std::iter::once(first).chain(others), message))
    }

    /// Returns the condition of a policy that selects workloads that another one also selects.
    fn same_workloads(&self, key: &PolicyKey) -> Option<Condition> {
        let (policies, shards) = (&self.context.policies, &self.context.shards);
        let all = policies.overlaps.rivals(key).chain(std::iter::once(key));
        let mut ranked: Vec<_> =
            all.filter_map(|one| Some((one, *policies.ranked(one, shards).first()?))).collect();
        ranked.sort_by(|(_, a), (_, b)| rank(*a).order(&rank(*b)));
        let (first, _) = ranked.first().filter(|_| ranked.len() > 1)?;
        let message = if *first == key {
            "it applies to workloads that another one also selects".to_owned()
        } else {
            format!("{first} applies to workloads that it also selects")
        };
        Some(self.policy_conflict(ranked.iter().map(|(one, _)| *one), message))
    }

    fn policy_conflict<'a>(&self, keys: impl Iterator<Item = &'a PolicyKey>, message: String) -> Condition {
        let (policies, shards) = (&self.context.policies, &self.context.shards);
        let first = |key| policies.ranked(key, shards).first().map(|(_, d)| d.source.reference());
        let objects = keys.filter_map(first).take(NAMED).collect();
        Condition { code: Code::POLICY_CONFLICT, objects, message: message.into() }
    }
}

/// Returns the condition of a policy with fields that have no effect.
fn ignored(declared: &DeclaredPolicy) -> Option<Condition> {
    let fields = declared.policy.ignored();
    if fields.is_empty() {
        return None;
    }
    let (code, message) = if declared.policy.is_stand_in() {
        let is_of_tokens = declared.policy.kind() == PolicyKind::RequestAuthentication;
        let code = if is_of_tokens { Code::TOKENS_UNREADABLE } else { Code::AUTHORIZATION_UNREADABLE };
        (code, STANDS_IN.to_owned())
    } else {
        (Code::POLICY_FIELD_IGNORED, format!("these fields have no effect: {}", fields.join(", ")))
    };
    let objects = [declared.source.reference()].into();
    Some(Condition { code, objects, message: message.into() })
}

/// Returns the conditions of an EnvoyFilter with patches that are applied to no client, or not in full, and of a Gateway with
/// servers that no router has.
fn not_served(declared: &DeclaredPolicy) -> Vec<Condition> {
    let condition = |code, about: &str, all: String| Condition {
        code,
        objects: [declared.source.reference()].into(),
        message: format!("{about}: {all}").into(),
    };
    let filter = match &declared.policy {
        Policy::EnvoyFilter(filter) => filter,
        Policy::Gateway(gateway) if !gateway.unserved.is_empty() => {
            let about = "of Gateways, servers of mode AUTO_PASSTHROUGH are served, not these";
            let named = gateway.unserved.iter().take(NAMED).map(|server| &**server).collect::<Vec<_>>();
            return vec![condition(Code::SERVERS_NOT_SERVED, about, named.join(", "))];
        }
        _ => return Vec::new(),
    };
    let unserved = by_reason(filter.not_served())
        .map(|all| condition(Code::PATCH_NOT_SERVED, "patches are applied to no client", all));
    let partly = by_reason(filter.partly_served())
        .map(|all| condition(Code::PATCH_PARTLY_SERVED, "parts of values have no effect", all));
    unserved.into_iter().chain(partly).collect()
}

/// Lists patches by the reason that they share; `None` if there are none.
fn by_reason(patches: impl Iterator<Item = (usize, &'static str)>) -> Option<String> {
    let mut reasons: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, why) in patches {
        reasons.entry(why).or_default().push(i);
    }
    let named = |patches: &[usize]| {
        let more = patches.len().saturating_sub(NAMED);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        let paths: Vec<String> =
            patches.iter().take(NAMED).map(|i| format!("spec.configPatches[{i}]")).collect();
        format!("{}{tail}", paths.join(", "))
    };
    let all: Vec<String> = reasons.iter().map(|(why, of)| format!("{}: {why}", named(of))).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the condition of a policy that several registries or scopes declare.
fn declared_twice(ranked: &[Ranked<'_>]) -> Option<Condition> {
    let (first, _) = ranked.first().filter(|_| ranked.len() > 1)?;
    let objects: Vec<ObjectRef> = ranked.iter().take(NAMED).map(|(_, d)| d.source.reference()).collect();
    let in_one = ranked.iter().all(|(info, _)| info.shard.registry.name == first.shard.registry.name);
    let owner = |info: &ShardInfo| match in_one {
        true => format!("scope {} of registry {}", info.shard.scope, info.shard.registry.name),
        false => format!("registry {}", info.shard.registry.name),
    };
    let owners: BTreeSet<String> = ranked.iter().map(|(info, _)| owner(info)).collect();
    let shown = owners.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let why = if ranked.iter().any(|(_, declared)| declared.policy.is_stand_in()) {
        ", because one without a valid version comes last"
    } else {
        ""
    };
    let message =
        format!("{} sources declare it: {shown}; that of {} applies{why}", ranked.len(), owner(first));
    Some(Condition { code: Code::POLICY_CONFLICT, objects: objects.into(), message: message.into() })
}
