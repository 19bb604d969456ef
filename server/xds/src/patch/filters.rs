//! Patches of lists of filters: insertions, replacements and removals in order, then merges. It serves network filters, HTTP
//! filters and listener filters.

use prost_reflect::{DynamicMessage, Value};
use tributary_descriptors::Types;
use tributary_model::Operation;

use super::Patch;
use super::message::{Merged, child, merge_config, set_text, text, type_of};

/// Types of filters behind which Envoy accepts no other one.
const LAST: [&str; 3] = [
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.filters.http.router.v3.Router",
];

/// A patch with the name of the filter that it matches; absent for every filter.
pub(super) type Targeted<'p> = (&'p Patch, Option<&'p str>);

/// Applies patches to a list of filters. Returns whether it changed.
pub(super) fn patch(types: &Types, patches: &[Targeted<'_>], filters: &mut Vec<Value>) -> bool {
    let mut changed = false;
    for (patch, target) in patches.iter().filter(|(patch, _)| !patch.is(Operation::Merge)) {
        if rearrange(patch, *target, filters) {
            patch.apply();
            changed = true;
        }
    }
    for (patch, target) in patches.iter().filter(|(patch, _)| patch.is(Operation::Merge)) {
        let Some(value) = &patch.value else { continue };
        for filter in filters.iter_mut().filter_map(Value::as_message_mut) {
            if target.is_none_or(|target| text(filter, "name") == target) {
                changed |= patch.take(merge_filter(types, filter, value));
            }
        }
    }
    changed
}

fn rearrange(patch: &Patch, target: Option<&str>, filters: &mut Vec<Value>) -> bool {
    let is_target = |filter: &Value| {
        let name = filter.as_message().map(|filter| text(filter, "name"));
        target.is_some_and(|target| name.as_deref() == Some(target))
    };
    let found = filters.iter().position(is_target);
    match (patch.of.operation, &patch.value) {
        (Operation::Remove, _) => {
            let before = filters.len();
            filters.retain(|filter| !is_target(filter));
            filters.len() < before
        }
        (Operation::Replace, Some(value)) => match found.and_then(|at| filters.get_mut(at)) {
            Some(filter) => {
                *filter = Value::Message(value.clone());
                true
            }
            None => false,
        },
        (operation, Some(value)) if operation.adds() => {
            let at = match (operation, target) {
                (Operation::InsertFirst, _) | (Operation::InsertBefore, None) => Some(0),
                (Operation::InsertBefore, _) => found,
                (Operation::InsertAfter, Some(_)) => found.map(|at| at + 1),
                _ => Some(filters.len()),
            };
            // Envoy would refuse the whole listener
            let Some(at) = at.filter(|at| !filters.iter().take(*at).any(is_last)) else { return false };
            filters.insert(at, Value::Message(value.clone()));
            true
        }
        _ => false,
    }
}

fn is_last(filter: &Value) -> bool {
    let config = filter.as_message().and_then(|filter| child(filter, "typed_config"));
    config.is_some_and(|config| LAST.contains(&&*type_of(config)))
}

/// Merges the configuration of a filter of the same type, and takes the name; nothing else counts.
fn merge_filter(types: &Types, filter: &mut DynamicMessage, value: &DynamicMessage) -> Merged {
    if !merge_config(types, filter, value)? {
        return Ok(false);
    }
    let name = text(value, "name");
    if !name.is_empty() {
        set_text(filter, "name", &name);
    }
    Ok(true)
}
