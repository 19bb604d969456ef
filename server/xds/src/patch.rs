//! Applies the patches of EnvoyFilters to encoded resources.
//!
//! [`answers::patched`](crate::answers) calls it with whole resources. Parts that no patch matches are neither decoded nor
//! changed. Every function is pure: equal patches and equal bytes give equal bytes. The rules are those of
//! `docs/reference/envoy-filter.md`.

mod chains;
mod clusters;
mod filters;
mod listeners;
mod message;
mod routes;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use prost_reflect::DynamicMessage;
use tributary_answer::ClientPatches;
use tributary_descriptors::Types;
use tributary_model::{ApplyTo, ConfigPatch, Operation, PatchContext, PolicyKey};

use message::Merged;
pub use tables::HostSources;

/// Patches of one client, with their values decoded.
#[derive(Debug)]
pub struct Patches {
    types: &'static Types,
    all: Vec<Patch>,
    filters: Vec<PolicyKey>,
}

/// One patch.
#[derive(Debug)]
pub(crate) struct Patch {
    of: ConfigPatch,
    value: Option<DynamicMessage>,
    /// Position of its filter.
    filter: usize,
    /// Its position in the filter.
    at: usize,
    /// Whether it changed something since [`Patches::take_sources`].
    applied: AtomicBool,
    /// Whether it ever changed something.
    is_used: AtomicBool,
    /// Rule that a part would break with it, the first since [`Patches::take_left_out`].
    breaks: Mutex<Option<Arc<str>>>,
}

/// Direction of the connections that a resource is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Connections to the workload.
    Inbound,
    /// Connections of the workload to others.
    Outbound,
}

/// A resource that a patch adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// Name.
    pub name: Box<str>,
    /// Encoded resource.
    pub body: Vec<u8>,
    /// Filter of the patch.
    pub by: PolicyKey,
    /// Position of the patch among those of the client.
    pub patch: usize,
}

/// A patch that was left out of a part of a resource, because Envoy would refuse the part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPatch {
    /// Filter of the patch.
    pub by: PolicyKey,
    /// Position of the patch in the filter.
    pub at: usize,
    /// Place in the value, and the rule that the part would break there.
    pub rule: Arc<str>,
}

/// What patches make of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No patch changes it.
    Same,
    /// It does not exist for the client.
    Removed,
    /// It has this body.
    Changed(Vec<u8>),
}

impl Patches {
    /// Decodes the patches of a client; `None` if the types of Envoy's API cannot be read.
    #[must_use]
    pub fn new(patches: &ClientPatches) -> Option<Self> {
        let types = Types::shared().ok()?;
        let filters: Vec<PolicyKey> = patches.keys().cloned().collect();
        let decode = |(key, at, patch): (&PolicyKey, usize, &ConfigPatch)| Patch {
            value: patch.value.as_ref().and_then(|value| types.decode(patch.apply_to.message(), value)),
            of: ConfigPatch { value: None, ..patch.clone() },
            filter: filters.iter().position(|known| known == key).unwrap_or_default(),
            at,
            applied: AtomicBool::default(),
            is_used: AtomicBool::default(),
            breaks: Mutex::default(),
        };
        let all = patches.iter().map(decode).collect();
        Some(Self { types, all, filters })
    }
    /// Returns the filters whose patches changed something since the last call. Exact if one caller at a time applies patches.
    #[must_use]
    pub fn take_sources(&self) -> Vec<PolicyKey> {
        let applied = self.all.iter().filter(|patch| patch.applied.swap(false, Ordering::Relaxed));
        let mut filters: Vec<usize> = applied.map(|patch| patch.filter).collect();
        filters.dedup();
        filters.into_iter().filter_map(|at| self.filters.get(at).cloned()).collect()
    }
    /// Returns the patches that were left out of a part since the last call. Exact if one caller at a time applies patches.
    #[must_use]
    pub fn take_left_out(&self) -> Vec<RefusedPatch> {
        let broken = self.all.iter().filter_map(|patch| Some((patch, patch.breaks.lock().take()?)));
        let of = |(patch, rule): (&Patch, _)| {
            Some(RefusedPatch { by: self.filters.get(patch.filter)?.clone(), at: patch.at, rule })
        };
        broken.filter_map(of).collect()
    }
    /// Iterates over the patches that ever changed something: the filter of each, and its position there.
    pub fn used(&self) -> impl Iterator<Item = (&PolicyKey, usize)> {
        let used = self.all.iter().filter(|patch| patch.is_used.load(Ordering::Relaxed));
        used.filter_map(|patch| Some((self.filters.get(patch.filter)?, patch.at)))
    }
    /// Iterates over the patches of a kind of part and a direction, in order. One that merges nothing changes nothing.
    fn of(&self, apply_to: ApplyTo, side: Side) -> impl Iterator<Item = &Patch> + Clone {
        let is_of = move |patch: &&Patch| patch.of.apply_to == apply_to && patch.is_for(side);
        self.all.iter().filter(is_of).filter(|patch| !patch.merges_nothing())
    }
    /// Records that a patch added its resource.
    pub fn use_added(&self, patch: usize) {
        if let Some(patch) = self.all.get(patch) {
            patch.is_used.store(true, Ordering::Relaxed);
        }
    }
    /// Returns the resources of a kind that are added, by name; of one name the first. None counts as used before a client
    /// has it: one whose name exists already is not added.
    fn added(&self, apply_to: ApplyTo) -> Vec<Added> {
        let mut out: Vec<Added> = Vec::new();
        // those of outbound traffic come first
        for side in [Side::Outbound, Side::Inbound] {
            let is_of = |patch: &Patch| {
                patch.of.apply_to == apply_to && patch.is_for(side) && patch.of.operation.adds()
            };
            for (at, patch) in self.all.iter().enumerate().filter(|(_, patch)| is_of(patch)) {
                let Some(value) = &patch.value else { continue };
                let name = message::text(value, "name");
                let by = self.filters.get(patch.filter).cloned();
                let by = by.filter(|_| !name.is_empty() && out.iter().all(|known| *known.name != *name));
                let body = || tributary_descriptors::encode(value);
                out.extend(by.map(|by| Added { name: name.into(), body: body(), by, patch: at }));
            }
        }
        out
    }
}

impl Patch {
    /// Whether it concerns connections of a direction.
    fn is_for(&self, side: Side) -> bool {
        match self.of.context {
            PatchContext::Any => true,
            PatchContext::Inbound => side == Side::Inbound,
            PatchContext::Outbound => side == Side::Outbound,
            PatchContext::Gateway | PatchContext::Waypoint => false,
        }
    }
    /// Records that it changed something.
    fn apply(&self) {
        self.applied.store(true, Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
    }
    /// Records what became of its value at a part. Returns whether it was merged.
    fn take(&self, merged: Merged) -> bool {
        match &merged {
            Ok(true) => self.apply(),
            Ok(false) => {}
            Err(broken) => {
                let rule = || format!("{} {}", broken.at, broken.why).trim_start().into();
                self.breaks.lock().get_or_insert_with(rule);
            }
        }
        merged.is_ok_and(|is_merged| is_merged)
    }
    /// Whether its value has no field that is known, or could not be decoded.
    fn merges_nothing(&self) -> bool {
        let is_empty = |value: &DynamicMessage| value.fields().next().is_none();
        self.is(Operation::Merge) && self.value.as_ref().is_none_or(is_empty)
    }
    fn is(&self, operation: Operation) -> bool {
        self.of.operation == operation
    }
}

#[cfg(test)]
pub(crate) mod tests;
