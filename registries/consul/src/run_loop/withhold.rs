//! Scopes that cannot be read while others can: they are withheld, so that one of them neither keeps the registry
//! from being ready nor loses what is known of it.
//!
//! Called by the rim after every step. While no scope can be read the server is to blame, and nothing is withheld.

use tributary_model::{RegistryUpdate, Scope, Withheld};
use tributary_registry_api::Reason;

use super::scope_run::collections;
use super::{RunLoop, parts};
use crate::answer::RequestFailure;
use crate::client::Fault;

/// Status of the lists of a datacenter's scopes.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Why they cannot be had.
    pub(super) fault: Option<Fault>,
    /// Whether they were reported as withheld since they could be had last.
    pub(super) withheld: bool,
}

impl RunLoop {
    /// Withholds what cannot be read, once each.
    pub(super) fn withhold(&mut self) {
        if !self.places.values().any(|place| place.machine.can_be_read()) {
            return;
        }
        let mut out = Vec::new();
        for place in self.places.values_mut().filter(|place| !place.withheld) {
            if let Some(failure) = place.machine.unreadable() {
                place.withheld = true;
                push(&place.area.scope, failure, place.fault.as_ref(), &mut out);
            }
        }
        for (datacenter, lists) in &mut self.listed {
            if let Some(fault) = lists.fault.as_ref().filter(|_| !lists.withheld)
                && let Some(scope) = parts::lists(datacenter)
            {
                lists.withheld = true;
                push(&scope, fault.failure, Some(&fault.reason), &mut out);
            }
        }
        if !out.is_empty() {
            self.out.send_all(out);
        }
    }
}

fn push(scope: &Scope, failure: RequestFailure, reason: Option<&Reason>, out: &mut Vec<RegistryUpdate>) {
    let why = reason.map_or_else(|| "it cannot be read".into(), Reason::shared);
    let withheld =
        if failure == RequestFailure::Auth { Withheld::forbidden(why) } else { Withheld::failing(why) };
    out.extend(collections(scope).map(|collection| RegistryUpdate::Withheld(collection, withheld.clone())));
}
