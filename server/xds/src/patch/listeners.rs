//! Patches of listeners: tables within them first, then the listener, its listener filters, its chains with their filters, and
//! chains that are added.

use prost_reflect::{DynamicMessage, Value};
use tributary_descriptors::encode;
use tributary_model::{ApplyTo, ObjectMatch, Operation};

use super::chains::{Kept, Place};
use super::filters::{self, Targeted};
use super::message::{child, child_mut, get, list, merge_valid, number, set_list, set_text, take_list};
use super::{Added, Outcome, Patch, Patches, Side};
use crate::encode::listener::{VIRTUAL_INBOUND, VIRTUAL_OUTBOUND};

const CHAINS: &str = "filter_chains";
const DEFAULT_CHAIN: &str = "default_filter_chain";
const LISTENER_FILTERS: &str = "listener_filters";

/// Parts of listeners.
const PARTS: [ApplyTo; 5] = [
    ApplyTo::Listener,
    ApplyTo::FilterChain,
    ApplyTo::ListenerFilter,
    ApplyTo::NetworkFilter,
    ApplyTo::HttpFilter,
];

impl Patches {
    /// Applies the patches to a listener.
    #[must_use]
    pub fn listener(&self, name: &str, side: Side, body: &[u8]) -> Outcome {
        if !self.may_change_listener(name, side) {
            return Outcome::Same;
        }
        let Some(mut listener) = self.types.decode(ApplyTo::Listener.message(), body) else {
            return Outcome::Same;
        };
        match self.change_listener(name, side, &mut listener) {
            Kept::Same => Outcome::Same,
            Kept::Removed => Outcome::Removed,
            Kept::Changed => Outcome::Changed(encode(&listener)),
        }
    }
    /// Returns the listeners that are added.
    #[must_use]
    pub fn added_listeners(&self) -> Vec<Added> {
        self.added(ApplyTo::Listener)
    }
    /// Whether any patch may concern a listener or a part of it.
    #[must_use]
    pub fn may_change_listener(&self, name: &str, side: Side) -> bool {
        let fits = |patch: &Patch| match &patch.of.object {
            ObjectMatch::Listener(of) => of.name.as_deref().is_none_or(|wanted| wanted == name),
            _ => true,
        };
        PARTS.iter().any(|part| self.of(*part, side).any(fits)) || self.has_inline(side)
    }
    fn change_listener(&self, name: &str, side: Side, listener: &mut DynamicMessage) -> Kept {
        let is_virtual = [VIRTUAL_INBOUND, VIRTUAL_OUTBOUND].contains(&name);
        let place = Place { name, side, port: port(listener), is_virtual };
        let mut changed = self.has_inline(side)
            && each_chain(listener, |chain| match self.inline_tables(side, chain) {
                true => Kept::Changed,
                false => Kept::Same,
            });
        for patch in self.of(ApplyTo::Listener, side).filter(|patch| place.is(patch)) {
            match (patch.of.operation, &patch.value) {
                (Operation::Remove, _) => {
                    patch.apply();
                    return Kept::Removed;
                }
                (Operation::Merge, Some(value)) => {
                    changed |= patch.take(merge_valid(self.types, listener, value));
                    set_text(listener, "name", name);
                }
                _ => {}
            }
        }
        changed |= self.listener_filters(place, listener);
        changed |= each_chain(listener, |chain| self.chain(place, chain));
        changed |= self.add_chains(place, listener);
        // Envoy refuses a listener without chains, and with it the whole answer
        let is_empty = list(listener, CHAINS).is_empty() && get(listener, DEFAULT_CHAIN).is_none();
        match (changed, is_empty) {
            (false, _) => Kept::Same,
            (true, true) => Kept::Removed,
            (true, false) => Kept::Changed,
        }
    }
    fn listener_filters(&self, place: Place<'_>, listener: &mut DynamicMessage) -> bool {
        let target = |patch: &'_ Patch| match &patch.of.object {
            ObjectMatch::Listener(of) => of.listener_filter.clone(),
            _ => None,
        };
        let here: Vec<&Patch> =
            self.of(ApplyTo::ListenerFilter, place.side).filter(|patch| place.takes(patch)).collect();
        if here.is_empty() {
            return false;
        }
        let targets: Vec<_> = here.iter().map(|patch| target(patch)).collect();
        let here: Vec<Targeted<'_>> =
            here.into_iter().zip(&targets).map(|(patch, target)| (patch, target.as_deref())).collect();
        let mut filters = take_list(listener, LISTENER_FILTERS);
        let changed = filters::patch(self.types, &here, &mut filters);
        set_list(listener, LISTENER_FILTERS, filters);
        changed
    }
    /// Appends the chains that are added; one without filters is left out.
    fn add_chains(&self, place: Place<'_>, listener: &mut DynamicMessage) -> bool {
        let adds = self.of(ApplyTo::FilterChain, place.side).filter(|patch| patch.of.operation.adds());
        let adds = adds.filter(|patch| place.takes(patch));
        let values = adds.filter_map(|patch| Some((patch, patch.value.as_ref()?)));
        let more: Vec<Value> = values
            .filter(|(_, value)| !list(value, "filters").is_empty())
            .inspect(|(patch, _)| patch.apply())
            .map(|(_, value)| Value::Message(value.clone()))
            .collect();
        if more.is_empty() {
            return false;
        }
        let mut chains = take_list(listener, CHAINS);
        chains.extend(more);
        set_list(listener, CHAINS, chains);
        true
    }
}

/// Returns the port on which a listener listens.
fn port(listener: &DynamicMessage) -> Option<u32> {
    number(child(child(listener, "address")?, "socket_address")?, "port_value")
}

/// Changes each chain, that for all others last. Returns whether one changed.
fn each_chain(listener: &mut DynamicMessage, mut change: impl FnMut(&mut DynamicMessage) -> Kept) -> bool {
    let mut changed = false;
    let mut chains = take_list(listener, CHAINS);
    chains.retain_mut(|chain| {
        let kept = chain.as_message_mut().map_or(Kept::Same, &mut change);
        changed |= kept != Kept::Same;
        kept != Kept::Removed
    });
    set_list(listener, CHAINS, chains);
    if let Some(chain) = child_mut(listener, DEFAULT_CHAIN) {
        let kept = change(chain);
        changed |= kept != Kept::Same;
        if kept == Kept::Removed {
            listener.clear_field_by_name(DEFAULT_CHAIN);
        }
    }
    changed
}
