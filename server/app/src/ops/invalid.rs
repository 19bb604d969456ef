//! Documents that are not valid, and what clients may miss because of them.
//!
//! `why-not` asks for a host that no source declares, the readiness page for policies of which no version is served. Pure.

use tributary_answer::{Explanation, StepDocument, WhyNot};
use tributary_core::ProblemView;
use tributary_model::{Catalog, Code, Stage, TraceStep, Verdict};

use crate::document::ObjectItem;
use crate::document::policies::of_problem;

/// Whether an object with this problem may declare services; a document or file without identity may contain any object.
#[must_use]
pub fn may_declare(problem: &ProblemView) -> bool {
    matches!(problem.object.id.kind, "ServiceEntry" | "Document" | "File")
}

/// Adds the invalid documents that may declare the host, if no source declares it.
pub fn add_declaring(out: &mut WhyNot, problems: &[ProblemView]) {
    if out.reasons.iter().any(|reason| reason.code == Code::NO_SUCH_HOST) {
        out.add(problems.iter().filter(|problem| may_declare(problem)).map(step));
    }
}

fn step(view: &ProblemView) -> TraceStep {
    let detail = format!("not valid, and may declare this host: {}", view.problem.message);
    problem_step(view, Verdict::Drop, detail)
}

fn problem_step(view: &ProblemView, verdict: Verdict, detail: String) -> TraceStep {
    TraceStep {
        stage: Stage::Source,
        verdict,
        code: view.problem.code,
        registry: Some(view.registry.clone()),
        object: Some(view.object.clone()),
        endpoint: String::new(),
        detail,
        time: None,
    }
}

/// Adds the problems of the objects that list an endpoint, and of the workloads behind it: what their sources contain now may not be what
/// is served.
pub fn add_of_sources(out: &mut Explanation, workloads: &[ObjectItem], problems: &[ProblemView]) {
    let lists = |step: &StepDocument, view: &ProblemView| {
        let id = &view.object.id;
        step.stage == Stage::Source
            && step.object.as_ref().is_some_and(|object| {
                object.registry.as_ref() == Some(&view.registry)
                    && (object.kind.as_str(), object.namespace.as_str(), object.name.as_str())
                        == (id.kind, &*id.namespace, &*id.name)
            })
    };
    let is_workload = |view: &ProblemView| workloads.iter().any(|workload| workload.is(&view.object.id));
    let concerned =
        problems.iter().filter(|view| is_workload(view) || out.steps.iter().any(|step| lists(step, view)));
    let detail = |view: &ProblemView| format!("the object has a problem now: {}", view.problem.message);
    let steps: Vec<_> = concerned.map(|view| problem_step(view, Verdict::Warn, detail(view))).collect();
    out.add(steps);
}

/// Returns the policies of which no version is served, because none was valid since the start, each with its problem.
#[must_use]
pub fn policies_not_served(catalog: &Catalog, problems: &[ProblemView]) -> Vec<(String, String)> {
    let is_served = |problem: &ProblemView| {
        of_problem(problem).is_none_or(|(_, key)| catalog.policies.contains_key(&key))
    };
    let missing = problems.iter().filter(|problem| !is_served(problem));
    let named = missing.map(|problem| {
        let why = format!(
            "not valid, and no version of it is served: {} {}",
            problem.problem.code, problem.problem.message
        );
        (problem.object.id.to_string(), why)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use tributary_model::{ObjectId, ObjectRef, Problem, RegistryName};

    use super::*;

    fn mk_problem(kind: &'static str) -> ProblemView {
        ProblemView {
            registry: RegistryName::new("file").unwrap(),
            object: ObjectRef::new(ObjectId::new(kind, "shop", "a")),
            problem: Problem { code: Code::WRONG_TYPE, message: "a.yaml:1:1: wrong".into() },
            since: 0,
        }
    }

    #[test]
    fn documents_without_identity_may_declare_any_host() {
        for (kind, may) in [("ServiceEntry", true), ("Document", true), ("File", true), ("Sidecar", false)] {
            assert_eq!(may_declare(&mk_problem(kind)), may, "{kind}");
        }
    }

    #[test]
    fn policy_without_a_valid_version_is_named_with_its_problem() {
        let problems = [mk_problem("ServiceEntry"), mk_problem("Sidecar")];
        let missing = policies_not_served(&Catalog::default(), &problems);
        assert_eq!(missing.len(), 1);
        assert!(
            missing[0].0.contains("Sidecar") && missing[0].1.contains("TRB0305 a.yaml:1:1: wrong"),
            "{missing:?}"
        );
    }
}
