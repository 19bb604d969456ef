//! Derivation: pure functions from `(&ClusterObjects, name)` to facts, one file per output.
//!
//! The index calls them for every output that a change touched. They change nothing except which copy of equal values is
//! held ([`Interner`]) and depend only on their arguments, so any order of events ends in the facts of a fresh build.
//! One of them reads the result of another: groups read workloads of pods, which the index derives first
//! ([`DerivedKey`]).

mod derived;
pub mod exports;
pub mod gateway;
pub mod group;
pub mod mcs;
pub mod mirror;
pub mod service;
pub mod settings;
pub mod workload;
pub mod workload_attributes;

pub use derived::Derived;

use crate::interner::Interner;
use crate::state::{ClusterObjects, DerivedKey};

/// Derives an output.
#[must_use]
pub fn derive(objects: &ClusterObjects, shared: &mut Interner, output: &DerivedKey) -> Derived {
    match output {
        DerivedKey::Service(name) => service::derive(objects, shared, name),
        DerivedKey::Group(name) => group::derive(objects, shared, name),
        DerivedKey::Import(name) => mcs::import(objects, shared, name),
        DerivedKey::ServiceGateways(name) => gateway::of_service(objects, name),
        DerivedKey::Gateways(name) => gateway::of_gateway(objects, name),
        DerivedKey::MeshGateways(_) => gateway::of_mesh(objects),
        DerivedKey::Settings(_) => settings::derive(objects),
        DerivedKey::Contested(_) => settings::contested(objects),
        DerivedKey::Workload(name) => workload::derive(objects, shared, name),
    }
}
