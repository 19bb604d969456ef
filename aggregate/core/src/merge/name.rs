//! Condition of a service whose name a different service has too.
//!
//! Called by merge for services that are not merged by name.

use tributary_model::{Code, NameOutcome, Recorder, SeparateReason, ServiceKey, Stage, TraceStep, Verdict};

use super::Merged;
use crate::state::MergeContext;

/// Adds the condition, unless the configuration decided about the name or a registry is not known yet.
pub(super) fn note<R: Recorder>(context: &MergeContext, key: &ServiceKey, out: &mut Merged, rec: &mut R) {
    let Some(same) = context.names.same_name(key) else { return };
    let others: Vec<String> =
        same.services.iter().filter(|s| s.key != *key).map(|service| service.key.to_string()).collect();
    let others = others.join(", ");
    let message = match &same.outcome {
        NameOutcome::Merged
        | NameOutcome::Separate { why: SeparateReason::Federated | SeparateReason::Unsynced, .. } => return,
        NameOutcome::Possible => format!("could be merged with {others}, which has the same name"),
        NameOutcome::Separate { message, .. } => {
            format!("is not merged with {others}, which has the same name: {message}")
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
        time: None,
    });
    out.conditions.push(Code::SAME_NAME, first.into_iter().collect(), format!("{key} {message}"));
}
