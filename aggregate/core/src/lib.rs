//! Aggregated state of all registries: facts in, one immutable [`Catalog`](tributary_model::Catalog) out.
//!
//! The runtime's core task owns a [`Core`] and calls it with `&mut self`; nothing here reads a
//! clock, waits, locks or does I/O. [`Core::apply`] applies the received updates as one batch;
//! [`Core::publish`] returns the resulting catalog. The order in which different facts arrive does
//! not matter: the state is a function of the current facts and of the removals that are held until
//! a source confirms them.

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

pub use crate::config::CoreConfig;
pub use crate::core::{AddRegistryError, ApplyOutcome, Begun, Core, EndPlan, OrderRefused, RunOrder};
pub use crate::counters::{Counters, FullPasses};
pub use crate::ledger::RunGroup;
pub use crate::report::{CollectionStatus, EndedScope, HeldView, ProblemView, RegistryStatus, SourceView};
