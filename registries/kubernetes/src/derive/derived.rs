//! Result of a derivation.

use std::sync::Arc;

use tributary_model::{Fact, Problem};

use crate::kind::{Kind, Name};

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
