//! The owner's state: facts in, one immutable [`Catalog`](tributary_model::Catalog) out.
//!
//! One task owns a [`Core`] and calls it with `&mut self`; nothing here reads a clock, waits, locks
//! or does I/O. [`Core::apply`] takes what the inlets returned, whole, as one turn;
//! [`Core::publish`] hands out the catalog that it led to. The order in which different facts
//! arrive does not matter: the state is a function of the facts that hold, plus the removals that
//! are held back until a source confirms them.

mod adopt;
mod alias;
mod assemble;
mod bucket;
mod conditions;
mod core;
mod counters;
mod dims;
mod gate;
mod gateways;
mod intake;
mod joins;
mod merge;
mod names;
mod parts;
mod precedence;
mod publish;
mod registry;
mod select;
mod service;
mod settings;
mod shards;
mod silence;
mod status;
mod store;
mod target;
#[cfg(test)]
mod tests;
mod unsure;
mod witness;
mod workloads;

pub use crate::core::{Core, CoreConfig, JoinError, Turn};
pub use crate::counters::{Counters, Sweeping};
pub use crate::status::{CollectionStatus, HeldView, ProblemView, RegistryStatus, SourceView, WaitingGroup};
