//! Records why the serving functions decide as they do (law 12).
//!
//! Every function that selects, merges, resolves, filters or orders takes a [`Recorder`] as a type
//! parameter. `()` records nothing at no cost; [`Trace`] keeps every step.

use crate::code::Code;
use crate::id::RegistryName;
use crate::object::ObjectRef;
use crate::time::Mono;

/// Stage of a decision, in the order from source to client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Which source lists the object.
    Source,
    /// Which declarations and shards are merged.
    Merge,
    /// Which clients may see it.
    Visibility,
    /// How clients reach its network.
    Network,
    /// Whether its health allows serving it.
    Health,
    /// Weight and priority.
    Weight,
    /// What the server sent to the client.
    Deliver,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Kept.
    Pass,
    /// Kept, with a warning.
    Warn,
    /// Removed at this stage.
    Drop,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TraceStep {
    /// Stage of the decision.
    pub stage: Stage,
    /// Result.
    pub verdict: Verdict,
    /// Rule that decided.
    pub code: Code,
    /// Registry concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryName>,
    /// Source object concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// Endpoint concerned (`10.0.0.1:80`, `[::1]:80`, `unix:/x`, `name:80`); empty for a step about
    /// the whole service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Decision as text, without times.
    pub detail: String,
    /// Time of the decision's cause; not serialised, because only the application knows the wall time.
    #[serde(skip)]
    pub time: Option<StepTime>,
}

impl TraceStep {
    /// Returns the step with a warning as a removal: for a client that receives endpoints to which nothing leads.
    #[must_use]
    pub fn dropping(self) -> Self {
        match self.verdict {
            Verdict::Warn => Self { verdict: Verdict::Drop, ..self },
            Verdict::Pass | Verdict::Drop => self,
        }
    }
}

/// Time of a step's cause, by the core's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepTime {
    /// The source's last confirmation.
    Confirmed(Mono),
    /// The start of a wait or a hold.
    Since(Mono),
}

/// Sink for steps.
pub trait Recorder {
    /// Records a step. Recorders that keep no steps never call `make`.
    fn step(&mut self, make: impl FnOnce() -> TraceStep);
    /// Whether the recorder keeps steps. Callers skip expensive preparation otherwise.
    fn is_on(&self) -> bool;
}

impl Recorder for () {
    fn step(&mut self, _: impl FnOnce() -> TraceStep) {}
    fn is_on(&self) -> bool {
        false
    }
}

/// Recorder that keeps every step, up to [`Trace::MAX`].
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Trace {
    /// Steps, in the order of recording.
    pub steps: Vec<TraceStep>,
}

impl Trace {
    /// Maximum number of kept steps; later steps are discarded.
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
