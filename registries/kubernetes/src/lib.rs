//! Kubernetes registry: one cluster's Services, EndpointSlices, Pods and Nodes become facts.
//!
//! A pure part and a run loop. The run loop watches kinds and passes every event to the [`Index`]; the index holds the
//! [`ClusterObjects`], marks the outputs that an event touches ([`state::invalidate`]) and derives them again when it is
//! flushed ([`derive`]). It publishes the differences as registry updates. Only the run loop does I/O.
//!
//! ```text
//! Event -> Index::apply: tables, then marks   Index::flush: derive marked outputs, publish differences
//! ```
//!
//! # Add an input kind
//! 1. Add a [`Kind`] in `kind.rs`, with its name, and an [`Object`] variant in `project/object.rs`.
//! 2. Add its projection in `project/`, with `decode` and the checks that reject impossible values.
//! 3. Add its table to [`ClusterObjects`] (`state/objects.rs`, `tables!`).
//! 4. Mark the outputs that it touches in `state/invalidate.rs`.
//! 5. State in `collections.rs` ([`Listing`]) which collections join it and which are made of it.
//!
//! # Add an output
//! 1. Add a [`DerivedKey`] in `state/derived_key.rs`, with the collection that holds it.
//! 2. Write a pure function in `derive/`: `(&ClusterObjects, &mut Interner, &Name) -> Derived`.
//! 3. Call it in `derive.rs`.
//! 4. Mark it in `state/invalidate.rs` for each input that it reads.

pub mod attributes;
pub mod collections;
pub mod config;
pub mod derive;
pub mod factory;
pub mod interner;
pub mod kind;
pub mod label_selector;
pub mod mesh;
pub mod mesh_link;
pub mod network;
pub mod options;
pub mod project;
pub mod publish;
pub mod registry;
mod run_loop;
pub mod state;

#[cfg(test)]
mod fixtures;

pub use collections::{Listing, Part};
pub use config::KubernetesFields;
pub use factory::KubernetesFactory;
pub use interner::Interner;
pub use kind::{Kind, Name, WatchScope};
pub use mesh_link::{MeshLink, MeshReceiver, MeshSender};
pub use options::{Mcs, Options};
pub use project::{Object, ObjectEvent};
pub use publish::{Counts, Index};
pub use registry::KubernetesRegistry;
pub use run_loop::{Planned, RunMemory, remote_kinds, watch_plan};
pub use state::{ClusterObjects, DerivedKey};
