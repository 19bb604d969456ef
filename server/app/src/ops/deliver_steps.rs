//! Steps about what a client was sent, for explanations.

use tributary_model::{Catalog, Code, ObjectRef, PolicyKey, Stage, TraceStep, Verdict};

/// Returns the source object of a policy.
pub(super) fn reference(catalog: &Catalog, key: &PolicyKey) -> Option<ObjectRef> {
    catalog.policies.get(key).map(|view| view.declared.source.reference())
}

/// Returns a step about what the client was sent.
pub(super) fn deliver_step((verdict, code, detail): (Verdict, Code, String)) -> TraceStep {
    TraceStep {
        stage: Stage::Deliver,
        verdict,
        code,
        registry: None,
        object: None,
        endpoint: String::new(),
        detail,
        time: None,
    }
}
