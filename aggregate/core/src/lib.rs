//! The owner's state: facts in, one immutable [`Catalog`](tributary_model::Catalog) out.
//!
//! One task owns a [`Core`] and calls it with `&mut self`; nothing here reads a clock, waits, locks
//! or does I/O. [`Core::apply`] takes what the inlets returned, whole, as one turn;
//! [`Core::publish`] hands out the catalog that it led to. The order in which different facts
//! arrive does not matter: the state is a function of the facts that hold, plus the removals that
//! are held back until a source confirms them.

mod apply;
mod build;
mod config;
mod core;
mod counters;
mod ingest;
mod ledger;
mod merge;
mod policy;
mod removal;
mod report;
mod state;
#[cfg(test)]
mod tests;

pub use crate::build::registries::WaitingGroup;
pub use crate::config::CoreConfig;
pub use crate::core::{AddRegistryError, ApplyOutcome, Begun, Core, EndPlan, OrderRefused, RunOrder};
pub use crate::counters::{Counters, FullPasses};
pub use crate::report::{CollectionStatus, EndedScope, HeldView, ProblemView, RegistryStatus, SourceView};
