//! State of the cluster as read: objects, their references, the mesh context, and what a change invalidates.
//!
//! Owned by the index of a run, which alone changes it; derivations read it. Depends on the projections, never on
//! derivations.

pub mod derived_key;
pub mod invalidate;
pub mod links;
mod mesh_context;
pub mod namespace_selector;
pub mod objects;

pub use derived_key::DerivedKey;
pub use objects::ClusterObjects;
