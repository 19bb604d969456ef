//! Conditions of a service whose name another service has too. Called by merge, for services that are served by themselves.

use tributary_model::{Code, NameOutcome, Recorder, SeparateReason, ServiceKey, Stage, TraceStep, Verdict};

use super::Merged;
use crate::state::MergeContext;

/// Shows a service whose name another service has too, unless the configuration decided about it.
pub(super) fn note<R: Recorder>(world: &MergeContext, key: &ServiceKey, out: &mut Merged, rec: &mut R) {
    let Some(same) = world.names.same_name(key) else { return };
    let others: Vec<String> =
        same.services.iter().filter(|s| s.key != *key).map(|service| service.key.to_string()).collect();
    let others = others.join(", ");
    let message = match &same.outcome {
        NameOutcome::Merged
        | NameOutcome::Apart { why: SeparateReason::Aliased | SeparateReason::Unsynced, .. } => return,
        NameOutcome::Possible => format!("could be served as one with {others}, which has its name"),
        NameOutcome::Apart { message, .. } => {
            format!("is not served as one with {others}, which has its name: {message}")
        }
    };
    let first = out.declarations.first().map(|first| first.declaration.source.reference());
    rec.step(|| TraceStep {
        stage: Stage::Merge,
        verdict: Verdict::Warn,
        code: Code::SAME_NAME,
        registry: out.declarations.first().map(|first| first.shard.registry.name.clone()),
        object: first.clone(),
        endpoint: String::new(),
        detail: format!("{key} {message}"),
    });
    out.conditions.push(Code::SAME_NAME, first.into_iter().collect(), format!("{key} {message}"));
}
