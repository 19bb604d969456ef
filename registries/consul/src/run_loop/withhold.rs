//! Withholds scopes that cannot be read while others can, so that one of them neither delays the registry's readiness
//! nor loses its facts.
//!
//! The run loop calls it after every step. While no scope can be read, the server is at fault, and nothing is
//! withheld.

use tributary_model::{RegistryUpdate, Scope, Withheld};
use tributary_registry_api::Reason;

use super::scope_run::collections;
use super::{RunLoop, parts};
use crate::answer::RequestFailure;
use crate::client::Fault;

/// State of the lists of a datacenter's scopes.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Why they cannot be read.
    pub(super) fault: Option<Fault>,
    /// Whether they were withheld since they could last be read.
    pub(super) withheld: bool,
}

impl RunLoop {
    /// Withholds each scope and list that cannot be read, once.
    pub(super) fn withhold(&mut self) {
        if !self.runs.values().any(|run| run.machine.can_be_read()) {
            return;
        }
        let mut out = Vec::new();
        for run in self.runs.values_mut().filter(|run| !run.withheld) {
            if let Some(failure) = run.machine.unreadable() {
                run.withheld = true;
                push(&run.area.scope, failure, run.fault.as_ref(), &mut out);
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
