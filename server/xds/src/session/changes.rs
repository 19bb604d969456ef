//! Computes what a response must carry for one type: the difference between what the client holds
//! and a generation.
//!
//! Rounds call it. With a base, the provider computes the difference (shared, at the cost of the change). Without a
//! base, or after a change of class, names are compared one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::EncodedResource;

use super::TypeState;
use super::client_snapshot::ClientSnapshot;
use super::env::Env;
use super::held_versions::{HeldVersions, Holding};
use super::subscription::TypeSubscription;
use crate::answers::{ResourceType, empty_assignment};

/// Difference for one type: resources by name, and removed names.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) upserted: BTreeMap<Arc<str>, Arc<EncodedResource>>,
    pub(crate) removed: Vec<Arc<str>>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.upserted.is_empty() && self.removed.is_empty()
    }
    pub(crate) fn upsert(&mut self, resource: Arc<EncodedResource>) {
        self.upserted.insert(Arc::clone(&resource.name), resource);
    }
}

/// Returns what a client holds after it received all of a generation.
pub(crate) fn known_at(
    env: &Env,
    at: &ClientSnapshot,
    kind: ResourceType,
    watch: &TypeSubscription,
) -> HeldVersions {
    if !watch.is_wildcard() {
        let mut known = HeldVersions::none_sent(Arc::clone(&watch.names));
        for name in watch.names.iter() {
            known.set(name, holding(kind, name, at.one(env, kind, name).as_deref()));
        }
        return known;
    }
    let whole = at.all(env, kind, &watch.names);
    let names = env.intern(whole.iter().map(|e| &*e.name));
    let mut known = HeldVersions::none_sent(names);
    whole.iter().for_each(|e| known.set(&e.name, Holding::Version(e.version)));
    known
}

/// Returns what a client holds after it was sent a name: an absent assignment is an empty one.
pub(super) fn holding(kind: ResourceType, name: &str, resource: Option<&EncodedResource>) -> Holding {
    match resource {
        Some(resource) => Holding::Version(resource.version),
        None if kind == ResourceType::Endpoints => Holding::Version(empty_assignment(name).version),
        None => Holding::Absent,
    }
}

/// Returns the difference between two generations for one class.
pub(crate) fn between(
    env: &Env,
    from: &ClientSnapshot,
    to: &ClientSnapshot,
    kind: ResourceType,
    watch: &TypeSubscription,
) -> Changes {
    let mut out = Changes::default();
    for name in to.rejected_names(kind).filter(|name| watch.wants(name)) {
        let now = to.one(env, kind, name);
        if now.as_ref().map(|now| now.version) != from.one(env, kind, name).map(|before| before.version) {
            now.into_iter().for_each(|now| out.upsert(now));
        }
    }
    if Arc::ptr_eq(&from.catalog, &to.catalog) {
        return out;
    }
    let changed = env.answers.changed(&from.catalog, &to.catalog, &to.class, kind);
    let hidden = |name: &str| to.private(kind).iter().any(|e| *e.name == *name);
    let shared = changed.upserted.iter().filter(|e| watch.wants(&e.name) && !hidden(&e.name));
    shared.for_each(|e| out.upsert(Arc::clone(e)));
    let removed = changed.removed.iter().filter(|name| watch.wants(name) && !hidden(name));
    out.removed.extend(removed.cloned());
    private_between(env, from, to, kind, watch, &mut out);
    out
}

fn private_between(
    env: &Env,
    from: &ClientSnapshot,
    to: &ClientSnapshot,
    kind: ResourceType,
    watch: &TypeSubscription,
    out: &mut Changes,
) {
    let held = |name: &str| from.private(kind).iter().find(|e| *e.name == *name);
    for new in to.private(kind).iter().filter(|e| watch.wants(&e.name)) {
        if held(&new.name).is_none_or(|old| old.version != new.version) {
            out.upsert(Arc::clone(new));
        }
    }
    for old in from.private(kind).iter().filter(|e| watch.wants(&e.name)) {
        if !to.private(kind).iter().any(|new| new.name == old.name) {
            match to.one(env, kind, &old.name) {
                Some(shared) => out.upsert(shared),
                None => out.removed.push(Arc::clone(&old.name)),
            }
        }
    }
}

/// Returns the difference between held versions and a generation.
pub(crate) fn against(
    env: &Env,
    known: &HeldVersions,
    to: &ClientSnapshot,
    kind: ResourceType,
    watch: &TypeSubscription,
) -> Changes {
    let mut out = Changes::default();
    if watch.is_wildcard() {
        env.counters.full_comparisons.inc();
        let whole = to.all(env, kind, &watch.names);
        let mut held = known.walk();
        let new = whole.iter().filter(|e| held(&e.name) != Holding::Version(e.version));
        new.for_each(|e| out.upsert(Arc::clone(e)));
        let held = known.iter().filter(|(_, holding)| matches!(holding, Holding::Version(_)));
        out.removed
            .extend(held.filter(|(name, _)| whole.get(name).is_none()).map(|(name, _)| Arc::from(name)));
        return out;
    }
    if kind == ResourceType::Endpoints && watch.names.len() > FEW {
        return shared(env, known, to, watch);
    }
    of(env, known, to, kind, watch.names.iter().map(|name| &**name))
}

/// Most names that are looked up one by one; a longer list is compared with the set that equal
/// subscriptions share.
const FEW: usize = 64;

/// Compares assignments with a shared set, which has one for each name in the same order.
fn shared(env: &Env, known: &HeldVersions, to: &ClientSnapshot, watch: &TypeSubscription) -> Changes {
    let mut out = Changes::default();
    let whole = to.many(env, ResourceType::Endpoints, &watch.names);
    let mut held = known.walk();
    for new in whole.iter().filter(|new| held(&new.name) != Holding::Version(new.version)) {
        if to.one(env, ResourceType::Endpoints, &new.name).is_some() {
            out.upsert(Arc::clone(new));
        } else {
            out.removed.push(Arc::clone(&new.name));
        }
    }
    out
}

/// Returns the difference for some names.
pub(crate) fn of<'n>(
    env: &Env,
    known: &HeldVersions,
    to: &ClientSnapshot,
    kind: ResourceType,
    names: impl Iterator<Item = &'n str>,
) -> Changes {
    let mut out = Changes::default();
    for name in names {
        let held = known.get(name);
        match to.one(env, kind, name) {
            Some(new) if held != Holding::Version(new.version) => out.upsert(new),
            None if held != holding(kind, name, None) && held != Holding::Absent => {
                out.removed.push(name.into())
            }
            _ => {}
        }
    }
    out
}

/// Holds back removals of names that only the client knows while the catalog is incomplete (law 1;
/// docs/reference/xds.md#removals-while-sources-are-unknown),
/// and resolves them when it is complete. Assignments whose endpoints were never read are held as well. A held name that appears as the client holds it is not
/// sent again.
pub(crate) fn hold(
    env: &Env,
    state: &mut TypeState,
    to: &ClientSnapshot,
    kind: ResourceType,
    changes: &mut Changes,
) {
    settle(env, state, to, kind, changes);
    if kind == ResourceType::Endpoints && to.catalog.is_partial() {
        hold_emptied(env, state, to, changes);
    }
    if to.catalog.complete {
        return;
    }
    let (known, held) = (state.known.as_ref(), &mut state.held);
    let claimed = known.is_some_and(|known| known.claimed);
    changes.removed.retain(|name| {
        let holding = known.map_or(Holding::NotSent, |k| k.get(name));
        let theirs = if holding == Holding::NotSent { state.reconnected } else { claimed };
        if theirs {
            held.entry((&**name).into()).or_insert(holding);
        }
        !held.contains_key(&**name)
    });
}

/// Whether the assignment is empty only because this server has never been able to read its endpoints.
pub(crate) fn is_unread(env: &Env, to: &ClientSnapshot, kind: ResourceType, name: &str) -> bool {
    kind == ResourceType::Endpoints && env.answers.lacks_endpoints(&to.catalog, &to.class, name)
}

/// Holds back assignments that would take away endpoints which the client claims and this server cannot read.
fn hold_emptied(env: &Env, state: &mut TypeState, to: &ClientSnapshot, changes: &mut Changes) {
    let Some(known) = state.known.as_ref().filter(|known| known.claimed) else { return };
    let held = &mut state.held;
    changes.upserted.retain(|name, _| {
        let holding = known.get(name);
        let is_kept = holding != Holding::NotSent && is_unread(env, to, ResourceType::Endpoints, name);
        if is_kept {
            held.insert((&**name).into(), holding);
        }
        !is_kept
    });
}

/// Releases held names that exist by now or that are known to be removed.
fn settle(env: &Env, state: &mut TypeState, to: &ClientSnapshot, kind: ResourceType, changes: &mut Changes) {
    for (name, holding) in std::mem::take(&mut state.held) {
        match to.one(env, kind, &name) {
            Some(_) if is_unread(env, to, kind, &name) => {
                changes.upserted.remove(&*name);
                state.held.insert(name, holding);
            }
            Some(new) if holding == Holding::Version(new.version) => drop(changes.upserted.remove(&*name)),
            Some(new) => changes.upsert(new),
            None if !to.catalog.complete => drop(state.held.insert(name, holding)),
            None if changes.removed.iter().any(|removed| **removed == *name) => {}
            None => changes.removed.push(name.into()),
        }
    }
}
