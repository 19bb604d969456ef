//! Derivation: pure functions from `(&ClusterObjects, name)` to facts, one file per output.
//!
//! The index calls them for every output that a change touched. They change nothing except which copy of equal values is
//! held ([`Interner`]) and depend only on their arguments, so any order of events ends in the facts of a fresh build.
//! One of them reads the result of another: groups read workloads of pods, which the index derives first
//! ([`DerivedKey`]).

pub mod gateway;
pub mod group;
pub mod mcs;
pub mod mirror;
pub mod service;
pub mod settings;
pub mod workload;
pub mod workload_attributes;

use std::sync::Arc;

use tributary_model::{Fact, Problem};

pub use workload_attributes::WorkloadAttributes;

use crate::index::DerivedKey;
use crate::input::{Kind, Name};
use crate::interner::Interner;
use crate::objects::ClusterObjects;

/// Result of deriving one output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Derived {
    /// Facts; empty if the object contributes none.
    pub facts: Vec<Fact>,
    /// Fault of the object, although it could be decoded.
    pub problem: Option<Problem>,
    /// First object that the derivation needed and did not find, possibly because its kind cannot be read.
    pub lacks: Option<(Kind, Name)>,
}

impl Derived {
    /// Builds a result with one fact.
    #[must_use]
    pub fn one(fact: Fact) -> Self {
        Self { facts: vec![fact], ..Self::default() }
    }
    /// Builds a result without facts, with a problem for operators.
    #[must_use]
    pub fn refused(code: tributary_model::Code, message: impl Into<Arc<str>>) -> Self {
        Self { problem: Some(Problem { code, message: message.into() }), ..Self::default() }
    }
}

/// Derives an output.
#[must_use]
pub fn derive(inputs: &ClusterObjects, shared: &mut Interner, output: &DerivedKey) -> Derived {
    match output {
        DerivedKey::Service(name) => service::derive(inputs, shared, name),
        DerivedKey::Group(name) => group::derive(inputs, shared, name),
        DerivedKey::Import(name) => mcs::import(inputs, shared, name),
        DerivedKey::ServiceGateways(name) => gateway::of_service(inputs, name),
        DerivedKey::Gateways(name) => gateway::of_gateway(inputs, name),
        DerivedKey::MeshGateways(_) => gateway::of_mesh(inputs),
        DerivedKey::Settings(_) => settings::derive(inputs),
        DerivedKey::Contested(_) => settings::contested(inputs),
        DerivedKey::Workload(name) => workload::derive(inputs, shared, name),
    }
}
