//! Naive conditions of policies: every pair of policies is compared on every workload.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    Code, DeclaredPolicy, Fact, PolicyKey, RegistrySpec, Timestamp, Workload, WorkloadKey,
};

use super::{Catalog, Facts};

/// Registry that serves each policy, and the codes of its conditions.
pub(crate) type Policies = BTreeMap<PolicyKey, (String, BTreeSet<u16>)>;

/// Reads the policies of a catalog.
pub(crate) fn read(catalog: &Catalog) -> Policies {
    let view = |view: &tributary_model::PolicyView| {
        let codes = view.conditions.iter().map(|condition| condition.code.number()).collect();
        (view.shard.registry.name.to_string(), codes)
    };
    catalog.policies.iter().map(|(key, one)| (key.clone(), view(one))).collect()
}

/// Computes the policies from facts.
pub(crate) fn answer(specs: &[RegistrySpec], facts: &Facts) -> Policies {
    let mut declared: BTreeMap<&PolicyKey, Vec<(usize, &DeclaredPolicy)>> = BTreeMap::new();
    for ((registry, _), fact) in facts {
        if let Fact::Policy(key, value) = fact {
            declared.entry(key).or_default().push((*registry, value));
        }
    }
    for values in declared.values_mut() {
        values.sort_by_key(|(registry, value)| rank(specs, *registry, value.created));
    }
    let conflict = |key: &PolicyKey| {
        let (_, own) = declared[key][0];
        let beside = declared.iter().any(|(other, values)| {
            *other != key
                && (other.kind, &other.namespace) == (key.kind, &key.namespace)
                && collide(own, values[0].1, key, specs, facts)
        });
        beside || declared[key].len() > 1
    };
    let codes = |key: &PolicyKey| {
        let all = conflict(key).then_some(Code::POLICY_CONFLICT.number());
        all.into_iter().collect()
    };
    let named = |key: &PolicyKey| specs[declared[key][0].0].id.name.to_string();
    declared.keys().map(|key| ((*key).clone(), (named(key), codes(key)))).collect()
}

/// Returns the precedence of a value of a registry, of this age.
pub(super) fn rank(specs: &[RegistrySpec], registry: usize, created: Option<Timestamp>) -> impl Ord + use<> {
    let spec = &specs[registry];
    let age = created.map_or(i64::MAX, |t| t.as_second());
    let position = (spec.precedence.provider, spec.id.provider.clone(), spec.precedence.rank, age);
    (position, spec.id.cluster.clone(), spec.id.name.clone())
}

/// Returns whether two policies of a namespace apply to one workload, or both to the namespace.
fn collide(
    one: &DeclaredPolicy,
    other: &DeclaredPolicy,
    key: &PolicyKey,
    specs: &[RegistrySpec],
    facts: &Facts,
) -> bool {
    let (Some(one), Some(other)) = (one.policy.selector(), other.policy.selector()) else { return false };
    if one.is_empty() || other.is_empty() {
        return one.is_empty() && other.is_empty();
    }
    let mut workloads = workloads(specs, facts).into_iter().filter(|(w, _)| w.namespace == key.namespace);
    workloads.any(|(_, w)| {
        let matches =
            |l: &tributary_model::Labels| l.pairs().all(|p| w.augmented.pairs().any(|own| own == p));
        matches(one) && matches(other)
    })
}

/// Returns the effective value of each workload.
fn workloads<'a>(specs: &[RegistrySpec], facts: &'a Facts) -> BTreeMap<&'a WorkloadKey, &'a Workload> {
    let mut out: BTreeMap<&WorkloadKey, (usize, &Workload)> = BTreeMap::new();
    for ((registry, _), fact) in facts {
        let Fact::Workload(key, value) = fact else { continue };
        let known = out.entry(key).or_insert((*registry, value));
        if rank(specs, *registry, None) < rank(specs, known.0, None) {
            *known = (*registry, value);
        }
    }
    out.into_iter().map(|(key, (_, value))| (key, value)).collect()
}
