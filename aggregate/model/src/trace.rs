//! How the serving functions tell why (law 12).
//!
//! Every function that selects, merges, resolves, filters or orders takes a [`Recorder`] as a type
//! parameter. `()` records nothing and costs nothing; [`Trace`] keeps every step.

use crate::code::Code;
use crate::id::RegistryName;
use crate::object::ObjectRef;

/// Which part of the way a step belongs to; the order is the way's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Who says that it exists.
    Source,
    /// Which declarations and shards take part.
    Merge,
    /// Who may see it.
    Visibility,
    /// How its network is reached.
    Network,
    /// Whether its health admits it.
    Health,
    /// Its weight and priority.
    Weight,
    /// What the client was sent.
    Deliver,
}

/// What a step decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on, with a remark.
    Warn,
    /// It ends here.
    Drop,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TraceStep {
    /// The part of the way.
    pub stage: Stage,
    /// The decision.
    pub verdict: Verdict,
    /// The rule.
    pub code: Code,
    /// The registry concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryName>,
    /// The source object concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// The endpoint concerned (`10.0.0.1:80`, `[::1]:80`, `unix:/x`, `name:80`); empty where the
    /// step is about the service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// The decision in words.
    pub detail: String,
}

/// Keeps steps, or not.
pub trait Recorder {
    /// Takes a step; `make` is called only by recorders that keep it.
    fn step(&mut self, make: impl FnOnce() -> TraceStep);
    /// Whether steps are kept, for callers that would otherwise gather what nobody reads.
    fn is_on(&self) -> bool;
}

impl Recorder for () {
    fn step(&mut self, _: impl FnOnce() -> TraceStep) {}
    fn is_on(&self) -> bool {
        false
    }
}

/// Keeps every step, up to a bound.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Trace {
    /// The steps, in the order in which they were taken.
    pub steps: Vec<TraceStep>,
}

impl Trace {
    /// How many steps are kept; what follows is dropped.
    pub const MAX: usize = 100_000;
}

impl Recorder for Trace {
    fn step(&mut self, make: impl FnOnce() -> TraceStep) {
        if self.steps.len() < Self::MAX {
            self.steps.push(make());
        }
    }
    fn is_on(&self) -> bool {
        true
    }
}
