//! Explain uses the merge that serves.

use super::fixtures::*;
use tributary_model::{Code, Declaration, Evidence, Mono, ProviderId, Stage, StepTime, Trace, Verdict};

fn trace(world: &World, service: &str) -> Trace {
    let mut trace = Trace::default();
    world.core.trace(&mk_key(service), &mut trace);
    trace
}

#[test]
fn source_step_has_registry_object_endpoint_and_time() {
    let mut world = World::of_files();
    world.list(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080"),
        ],
    );
    let now = world.now;
    world.list(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("pay", "80 http")),
            mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080"),
        ],
    );
    let trace = trace(&world, "shop/pay.shop");
    let step = trace.steps.iter().find(|s| s.stage == Stage::Source).unwrap();
    assert_eq!(
        (step.code, step.verdict, &*step.endpoint),
        (Code::SOURCE_ENDPOINT, Verdict::Pass, "10.0.0.1:8080")
    );
    assert_eq!(step.registry.as_ref().unwrap().as_str(), "file");
    assert_eq!(step.object.as_ref().unwrap().to_string(), "Slice shop/a");
    assert_eq!(step.time, Some(StepTime::Confirmed(Mono(now))), "{}", step.detail);
    let merged = trace.steps.iter().find(|s| s.code == Code::MERGED).unwrap();
    assert_eq!(merged.object.as_ref().unwrap().to_string(), "ServiceEntry shop/pay");
}

#[test]
fn selected_endpoint_is_explained_with_its_workload() {
    let mut world = World::of_files();
    let decl = Declaration { selector: Some(mk_selector("app=pay")), ..mk_decl("pay", "80 http") };
    world.put("file", [mk_service("shop/pay.shop", decl), mk_workload("w", "10.0.0.7", "app=pay")]);
    let trace = trace(&world, "shop/pay.shop");
    let step = trace.steps.iter().find(|s| s.stage == Stage::Source).unwrap();
    assert_eq!(step.object.as_ref().unwrap().to_string(), "ServiceEntry shop/pay");
    assert!(step.detail.ends_with("for WorkloadEntry shop/w"), "{}", step.detail);
    assert!(matches!(step.time, Some(StepTime::Confirmed(_))), "{:?}", step.time);
}

#[test]
fn conditions_are_trace_steps() {
    let mut world =
        World::with(&[mk_spec("east", ProviderId::KUBERNETES), mk_spec("file", ProviderId::SERVICE_ENTRY)]);
    world.put("east", [mk_service("shop/pay.shop", mk_decl("pay", "80 http"))]);
    world.put(
        "file",
        [
            mk_service("shop/pay.shop", mk_decl("other", "80 web")),
            mk_group("shop/pay.shop", "gone", "a", "10.0.0.1:http=8080"),
        ],
    );
    let codes: Vec<Code> = trace(&world, "shop/pay.shop").steps.iter().map(|s| s.code).collect();
    assert!(
        codes.contains(&Code::PORT_CONFLICT) && codes.contains(&Code::GROUP_WITHOUT_DECLARATION),
        "{codes:?}"
    );
    assert!(trace(&world, "shop/none.shop").steps.is_empty());
}

#[test]
fn held_endpoint_is_explained_with_a_warning() {
    let mut world = World::confirming();
    let group = mk_group("shop/pay.shop", "pay", "a", "10.0.0.1:http=8080");
    world.put("east", [mk_service("shop/pay.shop", mk_decl("pay", "80 http")), group.clone()]);
    world.report("east", [mk_drop(&group, Evidence::AbsentFromList)]);
    let trace = trace(&world, "shop/pay.shop");
    let step = trace.steps.iter().find(|s| s.stage == Stage::Source).unwrap();
    assert_eq!((step.code, step.verdict), (Code::HELD_ENDPOINT, Verdict::Warn));
}
