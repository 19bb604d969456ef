//! Patches of the routes of one virtual host: merges and removals first, then additions in order. [`super::tables`] calls it.

use prost_reflect::{DynamicMessage, Value};
use tributary_descriptors::Types;
use tributary_model::{Operation, RouteAction, RouteMatch, RoutesMatch};

use super::Patch;
use super::message::{get, merge_valid, set_list, take_list, text, texts};
use super::tables::{Table, is_host};

const ROUTES: &str = "routes";

/// What patches changed of the routes of a virtual host. Filters are positions.
#[derive(Debug, Default)]
pub(super) struct RouteChanges {
    pub(super) is_changed: bool,
    /// Filters that changed or added each route that is left.
    pub(super) by: Vec<Vec<usize>>,
    /// Filters that changed routes which are removed, or removed them.
    pub(super) removed_by: Vec<usize>,
}

/// A route, or the gap that a removed one left, with the filters that changed it.
struct Slot {
    route: Option<Value>,
    by: Vec<usize>,
}

/// Applies patches of routes to a virtual host.
pub(super) fn patch(
    types: &Types,
    table: Table<'_>,
    patches: &[&Patch],
    host: &mut DynamicMessage,
) -> RouteChanges {
    let here: Vec<(&Patch, Option<&RouteMatch>)> = {
        let (name, domains): (_, Vec<&str>) = (text(host, "name"), texts(host, "domains").collect());
        let fits = |of: Option<&RoutesMatch>| is_host(of, &name, domains.iter().copied());
        let of = |patch: &&Patch| table.of(patch).is_some_and(fits);
        patches.iter().copied().filter(of).map(|patch| (patch, route(table, patch))).collect()
    };
    let mut out = RouteChanges::default();
    let slot = |route| Slot { route: Some(route), by: Vec::new() };
    let mut slots: Vec<Slot> = take_list(host, ROUTES).into_iter().map(slot).collect();
    for slot in &mut slots {
        out.is_changed |= change(types, slot, &here);
    }
    for (patch, of) in here.iter().filter(|(patch, _)| patch.of.operation.adds()) {
        if let (Some(at), Some(value)) = (place(patch, *of, &slots), &patch.value) {
            patch.apply();
            let route = Some(Value::Message(value.clone()));
            slots.insert(at, Slot { route, by: vec![patch.filter] });
            out.is_changed = true;
        }
    }
    let mut routes = Vec::with_capacity(slots.len());
    for Slot { route, by } in slots {
        match route {
            Some(route) => {
                routes.push(route);
                out.by.push(by);
            }
            None => out.removed_by.extend(by),
        }
    }
    set_list(host, ROUTES, routes);
    out
}

fn route<'p>(table: Table<'_>, patch: &'p Patch) -> Option<&'p RouteMatch> {
    table.of(patch).flatten()?.host.as_ref()?.route.as_ref()
}

/// Merges values into a route, or removes it.
fn change(types: &Types, slot: &mut Slot, patches: &[(&Patch, Option<&RouteMatch>)]) -> bool {
    let mut changed = false;
    for (patch, of) in patches {
        let operation = patch.of.operation;
        let is_for_routes = matches!(operation, Operation::Merge | Operation::Remove);
        if !is_for_routes || !is_route(*of, slot.route.as_ref()) {
            continue;
        }
        if operation == Operation::Remove {
            patch.apply();
            slot.by.push(patch.filter);
            slot.route = None;
            return true;
        }
        if let (Some(Value::Message(route)), Some(value)) = (slot.route.as_mut(), &patch.value)
            && patch.take(merge_valid(types, route, value))
        {
            slot.by.push(patch.filter);
            changed = true;
        }
    }
    changed
}

/// Returns where a value is added; `None` if the route is not there beside which it is added.
fn place(patch: &Patch, of: Option<&RouteMatch>, slots: &[Slot]) -> Option<usize> {
    let found = || slots.iter().position(|slot| is_route(of, slot.route.as_ref()));
    match patch.of.operation {
        Operation::InsertFirst if of.is_some() => found().map(|_| 0),
        Operation::InsertBefore if of.is_some() => found(),
        Operation::InsertAfter if of.is_some() => found().map(|at| at + 1),
        Operation::InsertFirst | Operation::InsertBefore => Some(0),
        _ => Some(slots.len()),
    }
}

/// Whether a route, or the gap that a removed one left, is one that a patch matches.
fn is_route(of: Option<&RouteMatch>, route: Option<&Value>) -> bool {
    let Some(of) = of else { return true };
    let Some(route) = route.and_then(Value::as_message) else {
        return of.name.is_none() && of.action == RouteAction::Any;
    };
    let has = |field: &str| get(route, field).is_some();
    of.name.as_deref().is_none_or(|name| text(route, "name") == name)
        && match of.action {
            RouteAction::Any => true,
            RouteAction::Route => has("route"),
            RouteAction::Redirect => has("redirect"),
            RouteAction::DirectResponse => has("direct_response"),
        }
}
