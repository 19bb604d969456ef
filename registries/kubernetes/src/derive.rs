//! What the inputs come to: pure functions from `(&ClusterObjects, name)` to facts, one file per output.
//!
//! Called by the index for every output that a change touched. They change nothing but whose copy of equal
//! values is held ([`Interner`]), and depend on nothing but the inputs, so any order of events ends in the facts
//! of a fresh build. One of them reads what another came to: groups read pods' workloads, which the index derives
//! before them ([`DerivedKey`]).

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

/// What one output comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Derived {
    /// The facts; none where the object states none.
    pub facts: Vec<Fact>,
    /// What is wrong with the object that the output is about, although it could be read.
    pub problem: Option<Problem>,
    /// The first object that the derivation read and missed, where that may be because its kind cannot be read.
    pub lacks: Option<(Kind, Name)>,
}

impl Derived {
    /// One fact.
    #[must_use]
    pub fn one(fact: Fact) -> Self {
        Self { facts: vec![fact], ..Self::default() }
    }
    /// No fact, for a reason that people should see.
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
