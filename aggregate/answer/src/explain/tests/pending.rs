//! Pending entries are found by address and by host, with code, source and reason.

use super::*;

const SINCE: Mono = Mono(7);

fn mk_pending(object: &str, cause: PendingCause) -> Pending {
    let object = ObjectRef::new(ObjectId::new("Slice", "shop", object));
    Pending { shard: mk_shard("east"), namespace: mk_ns("shop"), object, cause, since: SINCE }
}
fn mk_waiting(ip: &str, pod: &str) -> PendingCause {
    let waits_for = Arc::new(ObjectId::new("Pod", "shop", pod));
    PendingCause::Objects([WaitingAddress { ip: ip.parse().unwrap(), waits_for }].into())
}
fn with(mut catalog: Catalog, host: &str, pending: Vec<Pending>) -> Catalog {
    catalog.pending.insert(mk_host(host), Shared(pending.into()));
    catalog
}
/// `pay.shop` serves 10.0.0.1; 10.0.0.7 waits for its pod, 10.0.0.8 for a declaration.
fn mk_catalog_with_pending() -> Catalog {
    let undeclared = mk_group("b", &[], vec![mk_address("10.0.0.8")]);
    let declaration = ObjectId::new("Service", "shop", "pay2");
    let pending = vec![
        mk_pending("a", mk_waiting("10.0.0.7", "pay-1")),
        mk_pending("b", PendingCause::Declaration(declaration, undeclared)),
    ];
    let served = mk_one(vec![mk_address("10.0.0.1")]);
    with(mk_served(served, Visibility::Public), "pay.shop", pending)
}
fn only(explanation: &Explanation) -> (&StepDocument, &StepObject) {
    let [step] = &*explanation.steps else { panic!("{explanation:?}") };
    (step, step.object.as_ref().unwrap())
}

#[test]
fn waiting_address_is_explained_with_pod_and_slice() {
    let catalog = mk_catalog_with_pending();
    for text in ["10.0.0.7", "10.0.0.7:8080"] {
        let explanation = explain_one(&catalog, text, Some(&mk_client("web")));
        let (step, object) = only(&explanation);
        assert_eq!((step.stage, step.verdict, step.code), (Stage::Source, Verdict::Drop, Code::POD_NOT_SEEN));
        let why = "listed for shop/pay.shop, waits for Pod shop/pay-1, which has not been seen";
        assert_eq!(step.detail, why);
        assert_eq!((object.kind.as_str(), object.name.as_str()), ("Slice", "a"));
        assert_eq!(object.registry.as_ref().unwrap().as_str(), "east");
        assert_eq!(explanation.verdict, Outcome::Dropped);
        assert_eq!((&*explanation.endpoint, explanation.service.as_deref()), ("10.0.0.7", Some("pay.shop")));
    }
}

#[test]
fn address_without_declaration_is_explained_with_it() {
    let catalog = mk_catalog_with_pending();
    for text in ["10.0.0.8", "10.0.0.8:8080"] {
        let explanation = explain_one(&catalog, text, None);
        let (step, object) = only(&explanation);
        assert_eq!((step.code, &*object.name), (Code::GROUP_WITHOUT_DECLARATION, "b"));
        let why = "listed for shop/pay.shop, waits for the declaration Service shop/pay2";
        assert_eq!(step.detail, why);
        assert_eq!(explanation.endpoint, "10.0.0.8:8080");
    }
    assert_eq!(
        explain_one(&catalog, "10.0.0.8:9", None).steps[0].code,
        Code::NO_SUCH_ENDPOINT,
        "it has no such port"
    );
}

#[test]
fn address_served_and_waiting_gets_two_explanations() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let catalog = with(catalog, "cart.shop", vec![mk_pending("a", mk_waiting("10.0.0.1", "pay-1"))]);
    let all = explain(&catalog, &"10.0.0.1".parse().unwrap(), None);
    let all: Vec<_> = all.iter().map(|one| (one.service.as_deref().unwrap(), one.verdict)).collect();
    assert_eq!(all, [("pay.shop:80", Outcome::Served), ("cart.shop", Outcome::Dropped)]);
}

#[test]
fn held_endpoint_is_explained_with_the_hold_reason() {
    let held = |kind, object: &str| {
        let mut one = mk_pending("a", PendingCause::Held(kind, "the host would be empty"));
        let (of, name) = object.split_once(' ').unwrap();
        one.object =
            ObjectRef::new(ObjectId::new(if of == "Slice" { "Slice" } else { "ServiceEntry" }, "shop", name));
        one
    };
    let two = vec![mk_address("10.0.0.1"), mk_address("10.0.0.2")];
    let mut source = mk_source("east", mk_group("a", &[], two));
    source.held = [1].into();
    let list = vec![
        held(CollectionKind::Groups, "Slice other"),
        held(CollectionKind::Groups, "Slice a"),
        held(CollectionKind::Services, "ServiceEntry pay"),
    ];
    let catalog = with(mk_served(mk_facts(vec![source]), Visibility::Public), "pay.shop", list);
    let reasons = |endpoint: &str| -> Vec<String> {
        let explanation = explain_one(&catalog, endpoint, None);
        assert_eq!(explanation.verdict, Outcome::Served, "held endpoints are served");
        let steps = explanation.steps.iter().filter(|step| step.code == Code::REMOVAL_HELD);
        steps.map(|step| format!("{:?} {}", step.verdict, step.detail)).collect()
    };
    let why = |what: &str| {
        let why = "is held: the host would be empty";
        format!("Warn missing from the last answer for shop/pay.shop; the removal of its {what} {why}")
    };
    assert_eq!(reasons("10.0.0.2"), [why("endpoints"), why("declaration")]);
    assert_eq!(reasons("10.0.0.1"), [why("declaration")], "only the other endpoint is held");
}

#[test]
fn endpoint_of_a_held_workload_is_explained_with_it() {
    let object = ObjectId::new("WorkloadEntry", "shop", "w");
    let origin = Some(Arc::new(Origin { object: object.clone(), workload: "w".into() }));
    let mut source =
        mk_source("west", mk_group("a", &[], vec![Address { origin, ..mk_address("10.0.0.1") }]));
    source.held = [0].into();
    let mut held = mk_pending("a", PendingCause::Held(CollectionKind::Workloads, "too many at once"));
    held.object = ObjectRef::new(object);
    let catalog = with(mk_served(mk_facts(vec![source]), Visibility::Public), "pay.shop", vec![held]);
    let explanation = explain_one(&catalog, "10.0.0.1", None);
    assert!(explanation.steps.iter().any(|step| step.code == Code::REMOVAL_HELD), "{explanation:?}");
}

#[test]
fn why_not_lists_waiting_and_held_endpoints() {
    let mut catalog = mk_catalog_with_pending();
    let held = mk_pending("c", PendingCause::Held(CollectionKind::Groups, "too many at once"));
    let list = catalog.pending["pay.shop"].iter().cloned().chain([held]).collect();
    catalog = with(catalog, "pay.shop", list);
    let answer = why_not(&catalog, "pay.shop", &mk_client("web"));
    let rows = |list: &[Reason]| -> Vec<(Code, usize, String, String)> {
        let name = |one: &Refused| one.object.as_ref().unwrap().name.clone();
        list.iter().map(|r| (r.code, r.count, r.dropped[0].endpoint.clone(), name(&r.dropped[0]))).collect()
    };
    let waits = [
        (Code::POD_NOT_SEEN, 1, "10.0.0.7".to_owned(), "a".to_owned()),
        (Code::GROUP_WITHOUT_DECLARATION, 1, "10.0.0.8:8080".to_owned(), "b".to_owned()),
    ];
    assert_eq!((answer.served, rows(&answer.reasons)), (1, waits.to_vec()));
    assert_eq!(rows(&answer.held), [(Code::REMOVAL_HELD, 1, String::new(), "c".to_owned())]);
}

#[test]
fn host_that_only_waits_is_found_by_its_short_name() {
    let waits = vec![mk_pending("a", mk_waiting("10.0.0.7", "pay-1"))];
    let catalog = with(Catalog::default(), "cart.shop", waits);
    let mut client = mk_client("web");
    client.class.domain = Some("shop".into());
    let answer = why_not(&catalog, "cart", &client);
    let codes: Vec<Code> = answer.reasons.iter().map(|reason| reason.code).collect();
    assert_eq!(answer.host, "cart.shop");
    assert_eq!(codes, [Code::POD_NOT_SEEN, Code::NO_SUCH_HOST]);
}
