//! What the inputs come to: pure functions from `(&Inputs, name)` to facts, one file per output.
//!
//! Called by the index for every output that a change touched. They change nothing but whose copy of equal
//! values is held ([`Shared`]), and depend on nothing but the inputs, so any order of events ends in the facts
//! of a fresh build. One of them reads what another came to: groups read pods' workloads, which the index derives
//! before them ([`Output`]).

pub mod gateway;
pub mod ground;
pub mod group;
pub mod mcs;
pub mod mirror;
pub mod service;
pub mod settings;
pub mod workload;

use std::sync::Arc;

use tributary_model::{Fact, Problem};

pub use ground::Ground;

use crate::index::Output;
use crate::input::{Kind, Name};
use crate::inputs::Inputs;
use crate::shared::Shared;

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
pub fn derive(inputs: &Inputs, shared: &mut Shared, output: &Output) -> Derived {
    match output {
        Output::Service(name) => service::derive(inputs, shared, name),
        Output::Group(name) => group::derive(inputs, shared, name),
        Output::Import(name) => mcs::import(inputs, shared, name),
        Output::ServiceGateways(name) => gateway::of_service(inputs, name),
        Output::Gateways(name) => gateway::of_gateway(inputs, name),
        Output::MeshGateways(_) => gateway::of_mesh(inputs),
        Output::Settings(_) => settings::derive(inputs),
        Output::Contested(_) => settings::contested(inputs),
        Output::Workload(name) => workload::derive(inputs, shared, name),
    }
}
