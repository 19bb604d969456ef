//! Short ways to say a step. Nothing here decides anything.

use tributary_model::{Code, EndpointSource, Recorder, ServiceKey, ShardRef, Stage, TraceStep, Verdict};

/// A step about a service as a whole.
pub(crate) fn service_step(
    stage: Stage,
    verdict: Verdict,
    code: Code,
    shard: Option<&ShardRef>,
    detail: String,
) -> TraceStep {
    let registry = shard.map(|s| s.registry.name.clone());
    TraceStep { stage, verdict, code, registry, object: None, endpoint: String::new(), detail }
}

/// A step about one endpoint of a source.
pub(crate) fn endpoint_step(
    (stage, verdict, code): (Stage, Verdict, Code),
    source: &EndpointSource,
    endpoint: String,
    detail: String,
) -> TraceStep {
    TraceStep {
        stage,
        verdict,
        code,
        registry: Some(source.shard.registry.name.clone()),
        object: Some(source.group.source.reference()),
        endpoint,
        detail,
    }
}

/// Says something about a service by its key.
pub(crate) fn about(
    r: &mut impl Recorder,
    (stage, verdict, code): (Stage, Verdict, Code),
    key: &ServiceKey,
    words: &str,
) {
    r.step(|| service_step(stage, verdict, code, None, format!("{key}: {words}")));
}
