//! The core as its owner sees it: facts in, catalogs out.

mod aliases;
mod costs;
mod explain;
mod gate;
mod generations;
mod joins;
mod journal;
mod merge;
pub(crate) mod mk;
mod naive;
mod names;
mod parts;
mod pending;
mod properties;
mod rotation;
mod selection;
mod silence;
mod storms;
mod sweeps;
mod visibility;
mod witness;
