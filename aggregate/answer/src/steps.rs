//! Constructors of trace steps.

use tributary_model::{Code, EndpointSource, Recorder, ServiceKey, ShardRef, Stage, TraceStep, Verdict};

/// Creates a step about a whole service.
pub(crate) fn service_step(
    stage: Stage,
    verdict: Verdict,
    code: Code,
    shard: Option<&ShardRef>,
    detail: String,
) -> TraceStep {
    let registry = shard.map(|s| s.registry.name.clone());
    TraceStep { stage, verdict, code, registry, object: None, endpoint: String::new(), detail, time: None }
}

/// Creates a step about one endpoint of a source.
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
        time: None,
    }
}

/// Records a step about a service, identified by its key.
pub(crate) fn about(
    r: &mut impl Recorder,
    (stage, verdict, code): (Stage, Verdict, Code),
    key: &ServiceKey,
    detail: &str,
) {
    r.step(|| service_step(stage, verdict, code, None, format!("{key}: {detail}")));
}

/// Most names in a message.
const MAX_NAMED: usize = 8;

/// Joins names for a message; beyond [`MAX_NAMED`] only their number.
pub fn named<'t>(all: impl IntoIterator<Item = &'t str>) -> String {
    let all: Vec<&str> = all.into_iter().collect();
    let shown = all.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(MAX_NAMED);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// Returns where a route is declared: its list, its position and its name.
pub(crate) fn place(list: &str, at: usize, name: &str) -> String {
    if name.is_empty() { format!("{list}[{at}]") } else { format!("{list}[{at}] {name}") }
}
