//! The Kubernetes registry: one cluster's Services, EndpointSlices, Pods and Nodes become facts.
//!
//! A pure part and a rim. The rim watches kinds and hands every event to the [`Index`]; the index holds the
//! [`ClusterObjects`], notes which outputs an event touches ([`invalidate`]), and derives those again when it is flushed
//! ([`derive`]). What differs from what was said leaves as deltas. Nothing here but the rim does I/O.
//!
//! ```text
//! Event -> Input -> Index::apply: tables, then marks   Index::flush: derive marked outputs, say what differs
//! ```
//!
//! # To add an input kind
//! 1. a [`Kind`] in `input.rs` (with its name for people) and an [`Object`] variant;
//! 2. its projection in `project/`, with `decode` and the checks that keep impossible values out;
//! 3. its table in [`ClusterObjects`] (`inputs.rs`, `tables!`);
//! 4. in `touch.rs`, which outputs a change of it touches;
//! 5. in `part.rs` ([`Listing`]), which collections join it and which are made of it.
//!
//! # To add an output
//! 1. an [`DerivedKey`] in `index/output.rs`, with the collection that holds it;
//! 2. a pure function in `derive/`: `(&ClusterObjects, &mut Interner, &Name) -> Derived`;
//! 3. its line in `derive.rs`;
//! 4. the inputs that touch it, in `touch.rs`.

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
