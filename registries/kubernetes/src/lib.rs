//! Kubernetes registry: one cluster's Services, EndpointSlices, Pods and Nodes become facts.
//!
//! A pure part and a run loop. The run loop watches kinds and passes every event to the [`Index`]; the index holds the
//! [`ClusterObjects`], marks the outputs that an event touches ([`invalidate`]) and derives them again when it is
//! flushed ([`derive`]). It publishes the differences as registry updates. Only the run loop does I/O.
//!
//! ```text
//! Event -> Input -> Index::apply: tables, then marks   Index::flush: derive marked outputs, publish differences
//! ```
//!
//! # Add an input kind
//! 1. Add a [`Kind`] in `input.rs`, with its name, and an [`Object`] variant.
//! 2. Add its projection in `project/`, with `decode` and the checks that reject impossible values.
//! 3. Add its table to [`ClusterObjects`] (`objects.rs`, `tables!`).
//! 4. Mark the outputs that it touches in `invalidate.rs`.
//! 5. State in `part.rs` ([`Listing`]) which collections join it and which are made of it.
//!
//! # Add an output
//! 1. Add a [`DerivedKey`] in `index/derived_key.rs`, with the collection that holds it.
//! 2. Write a pure function in `derive/`: `(&ClusterObjects, &mut Interner, &Name) -> Derived`.
//! 3. Call it in `derive.rs`.
//! 4. Mark it in `invalidate.rs` for each input that it reads.

pub mod derive;
pub mod export;
pub mod factory;
pub mod index;
pub mod input;
pub mod interner;
pub mod invalidate;
pub mod memory;
pub mod mesh;
pub mod namespace_selector;
pub mod network;
pub mod objects;
pub mod options;
pub mod part;
pub mod plan;
pub mod project;
pub mod registry;
mod run_loop;

#[cfg(test)]
mod fixtures;

pub use factory::KubernetesFactory;
pub use index::{Counts, DerivedKey, Index};
pub use input::{Input, Kind, Name, Object, WatchScope};
pub use interner::Interner;
pub use memory::Memory;
pub use objects::ClusterObjects;
pub use options::{Mcs, Options};
pub use part::{Listing, Part};
pub use plan::{Planned, watch_plan};
pub use registry::KubernetesRegistry;
