//! Version of all subscribed resources, kept beside the base of a state-of-the-world session.
//!
//! A response with a part of the resources still has the version of all. It follows from that of the base at the cost of
//! what changed, so that one assignment more or less reads no other name. Sessions with few names record the version
//! of each instead.

use std::sync::Arc;

use tributary_model::{Version, VersionSum};

use super::Session;
use super::changes::{between, holding};
use super::client_snapshot::ClientSnapshot;
use super::held_versions::Holding;
use crate::answers::{ClientClassKey, ResourceType, Subscription};

/// Sum over the versions of all subscribed resources in one generation.
#[derive(Debug)]
pub(super) struct SubscribedSum {
    names: Arc<Subscription>,
    class: ClientClassKey,
    generation: u64,
    sum: VersionSum,
}

impl SubscribedSum {
    fn is_of(&self, at: &ClientSnapshot) -> bool {
        self.generation == at.catalog.generation && self.class == at.class
    }
}

impl Session {
    /// Returns the version of all subscribed names in a generation.
    pub(super) fn version_of_all(&mut self, kind: ResourceType, to: &ClientSnapshot) -> Option<Version> {
        let names = Arc::clone(&self.kinds[kind].watch.as_ref()?.names);
        if !to.private(kind).is_empty() {
            return Some(to.many(&self.env, kind, &names).version());
        }
        let sum = self.sum_at(kind, to).unwrap_or_else(|| {
            let all = to.many(&self.env, kind, &names);
            all.iter().map(|resource| resource.version).collect()
        });
        let (class, generation) = (to.class.clone(), to.catalog.generation);
        self.state(kind).sum = Some(SubscribedSum { names, class, generation, sum });
        Some(sum.version())
    }
    /// Whether [`Session::version_of_all`] reads only what changed since the base.
    pub(super) fn has_sum(&self, kind: ResourceType, to: &ClientSnapshot) -> bool {
        self.summed(kind).is_some_and(|held| held.is_of(to) || self.base_of(kind, held, to).is_some())
    }
    /// Moves the sums to the generation that becomes the base, and forgets those that cannot follow.
    pub(super) fn keep_sums(&mut self, to: &ClientSnapshot) {
        for kind in ResourceType::ALL {
            if self.kinds[kind].sum.is_some() && self.sum_at(kind, to).is_none() {
                self.state(kind).sum = None;
            } else if self.kinds[kind].sum.is_some() {
                self.version_of_all(kind, to);
            }
        }
    }
    fn summed(&self, kind: ResourceType) -> Option<&SubscribedSum> {
        let (held, watch) = (self.kinds[kind].sum.as_ref()?, self.kinds[kind].watch.as_ref()?);
        Arc::ptr_eq(&held.names, &watch.names).then_some(held)
    }
    /// Returns the base if a sum is of it and comparable with a generation.
    fn base_of(
        &self,
        kind: ResourceType,
        held: &SubscribedSum,
        to: &ClientSnapshot,
    ) -> Option<&ClientSnapshot> {
        let has_own = |at: &ClientSnapshot| !at.private(kind).is_empty();
        self.base
            .as_deref()
            .filter(|base| held.is_of(base) && base.class == to.class && !has_own(base) && !has_own(to))
    }
    fn sum_at(&self, kind: ResourceType, to: &ClientSnapshot) -> Option<VersionSum> {
        let held = self.summed(kind)?;
        if held.is_of(to) {
            return Some(held.sum);
        }
        let (base, watch) = (self.base_of(kind, held, to)?, self.kinds[kind].watch.as_ref()?);
        let version = |at: &ClientSnapshot, name: &str| match holding(
            kind,
            name,
            at.one(&self.env, kind, name).as_deref(),
        ) {
            Holding::Version(version) => Some(version),
            Holding::NotSent | Holding::Absent => None,
        };
        let (mut sum, changed) = (held.sum, between(&self.env, base, to, kind, watch));
        for name in changed.upserted.keys().chain(&changed.removed) {
            version(base, name).into_iter().for_each(|old| sum.remove(old));
            version(to, name).into_iter().for_each(|new| sum.add(new));
        }
        Some(sum)
    }
}
