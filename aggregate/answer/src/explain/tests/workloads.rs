//! Explanations of workloads: one that no service selects, and the freshness of a selected one.

use super::*;

/// A WorkloadEntry of the registry `crd` at 10.0.0.9 that these services select.
fn with_workload(mut catalog: Catalog, services: &[ServiceKey]) -> Catalog {
    let key = WorkloadKey::from(WorkloadName {
        namespace: mk_ns("shop"),
        kind: WorkloadKind::Entry,
        name: "vm".into(),
        cluster: ClusterId::new("c1").unwrap(),
    });
    let workload = Workload::new(Source::new(mk_object()));
    let view = WorkloadView { shard: mk_shard("crd"), workload: workload.into(), services: services.into() };
    catalog.workload_ips.insert("10.0.0.9".parse().unwrap(), Shared::new(vec![key.clone()].into()));
    catalog.workloads.insert(key, Shared::new(view));
    catalog
}
fn mk_object() -> ObjectId {
    ObjectId::new("WorkloadEntry", "shop", "vm")
}

#[test]
fn workload_that_no_service_selects_is_explained_with_its_object() {
    for text in ["10.0.0.9", "10.0.0.9:80"] {
        let explanation = explain_one(&with_workload(Catalog::default(), &[]), text, None);
        let step = &explanation.steps[0];
        assert_eq!((step.code, step.verdict), (Code::WORKLOAD_NOT_SELECTED, Verdict::Drop));
        let object = step.object.as_ref().unwrap();
        assert_eq!((&*object.kind, &*object.name), ("WorkloadEntry", "vm"));
        assert_eq!(object.registry.as_ref().unwrap().as_str(), "crd");
        assert_eq!(explanation.verdict, Outcome::Dropped);
    }
    let selected = with_workload(Catalog::default(), &[mk_key("pay.shop", "shop")]);
    assert_eq!(explain_one(&selected, "10.0.0.9", None).steps[0].code, Code::NO_SUCH_ENDPOINT);
}

#[test]
fn selected_endpoint_is_as_fresh_as_its_workload() {
    let origin = Origin { object: mk_object(), workload: "vm".into() };
    let address = Address { origin: Some(Arc::new(origin)), ..mk_address("10.0.0.9") };
    let mut source = mk_source("east", mk_group("a", &[], vec![address.clone()]));
    let listed = source.clone();
    let mut group = (*source.group).clone();
    group.source = source.declaration.source.clone();
    source.group = Arc::new(group);
    let mut catalog = with_workload(Catalog::default(), &[mk_key("pay.shop", "shop")]);
    let stale = Freshness::Stale { since: SinceMono::default(), why: "403".into() };
    for (name, groups, workloads) in
        [("east", Freshness::Live, Freshness::Live), ("crd", Freshness::Live, stale.clone())]
    {
        let shard = mk_shard(name);
        let of = |kind| Collection { scope: shard.scope.clone(), kind };
        let collections =
            [(of(CollectionKind::Groups), groups), (of(CollectionKind::Workloads), workloads)].into();
        let registry = RegistryView { collections, ..mk_registry_view(name) };
        catalog.registries.insert(shard.registry.name.clone(), Shared::new(registry));
    }
    assert_eq!(endpoint_freshness(&catalog, &source, &address), Some(&stale));
    assert_eq!(endpoint_freshness(&catalog, &listed, &address), Some(&Freshness::Live), "a listed one");
}

#[test]
fn policies_that_decide_what_a_workload_accepts_are_named() {
    let served = mk_served(mk_one(vec![mk_address("10.0.0.9")]), Visibility::Public);
    let mut catalog = with_workload(served, &[]);
    let client = mk_client("web");
    let named = |catalog: &Catalog| {
        let explanation = explain_one(catalog, "10.0.0.9:8080", Some(&client));
        let step = explanation.steps.into_iter().find(|step| step.code == Code::AUTHORIZATION_APPLIES);
        step.map(|step| (step.verdict, step.detail))
    };
    assert_eq!(named(&catalog), None);
    let put = |catalog: &mut Catalog, namespace: &str, name: &str, change: fn(&mut AuthorizationPolicy)| {
        let mut policy = AuthorizationPolicy::stand_in(Labels::default());
        change(&mut policy);
        let (key, view) = mk_policy(namespace, name, Policy::AuthorizationPolicy(policy));
        catalog.policies.insert(key, view);
    };
    put(&mut catalog, "shop", "a", |policy| policy.ignored = Arc::default());
    put(&mut catalog, "shop", "b", |policy| {
        (policy.ignored, policy.is_dry_run) = (Arc::default(), true);
        policy.action = AuthorizationAction::Allow;
    });
    put(&mut catalog, "web", "c", |_| {});
    let decide = "AuthorizationPolicies decide what it accepts: shop/a DENY; dry runs, which refuse nothing: shop/b ALLOW";
    assert_eq!(named(&catalog), Some((Verdict::Pass, format!("workload shop/vm: {decide}"))));
    put(&mut catalog, "istio-system", "d", |_| {});
    let refuse = "it refuses every request, because no version is valid of: istio-system/d DENY (TRB0472)";
    assert_eq!(named(&catalog), Some((Verdict::Warn, format!("workload shop/vm: {refuse}; {decide}"))));
}

#[test]
fn policies_that_check_tokens_of_a_workload_are_named() {
    let served = mk_served(mk_one(vec![mk_address("10.0.0.9")]), Visibility::Public);
    let mut catalog = with_workload(served, &[]);
    let named = |catalog: &Catalog| {
        let explanation = explain_one(catalog, "10.0.0.9:8080", Some(&mk_client("web")));
        let step = explanation.steps.into_iter().find(|step| step.code == Code::AUTHORIZATION_APPLIES);
        step.map(|step| (step.verdict, step.detail))
    };
    let put = |catalog: &mut Catalog, at: (&str, &str), is_valid: bool| {
        let mut policy = RequestAuthentication::stand_in(Labels::default());
        if is_valid {
            policy.ignored = Arc::default();
        }
        let (key, view) = mk_policy(at.0, at.1, Policy::RequestAuthentication(policy));
        catalog.policies.insert(key, view);
    };
    put(&mut catalog, ("shop", "a"), true);
    put(&mut catalog, ("web", "b"), true);
    let check = "RequestAuthentications check tokens of requests: shop/a";
    assert_eq!(named(&catalog), Some((Verdict::Pass, format!("workload shop/vm: {check}"))));
    put(&mut catalog, ("istio-system", "c"), false);
    let refuse = "it refuses every request, because no version is valid of the RequestAuthentications: istio-system/c (TRB0476)";
    assert_eq!(named(&catalog), Some((Verdict::Warn, format!("workload shop/vm: {refuse}; {check}"))));
}
