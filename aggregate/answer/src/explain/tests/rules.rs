//! DestinationRules in explanations: which apply, which has the subset, what gRPC does not use.

use super::*;

/// `pay.shop` with an endpoint of version v1 and one of version v2, and these rules for all clients, in precedence.
fn mk_ruled(rules: Vec<(&str, &str, DestinationRule)>) -> Catalog {
    mk_ruled_in(rules, None)
}

/// As [`mk_ruled`], with the setting of the mesh on localities.
fn mk_ruled_in(rules: Vec<(&str, &str, DestinationRule)>, mesh: Option<LocalityBalancing>) -> Catalog {
    let locality = mesh.map(Arc::new);
    let labelled = |ip: &str, version: &str| Address {
        labels: [("version", version)].into_iter().collect(),
        ..mk_address(ip)
    };
    let facts = mk_one(vec![labelled("10.0.0.1", "v1"), labelled("10.0.0.2", "v2"), mk_address("10.0.0.3")]);
    let port = mk_port(80);
    let all: Vec<&SubsetRule> = rules.iter().flat_map(|(.., rule)| rule.subsets.iter()).collect();
    let whole = rules.first().map(|(.., rule)| rule.policies.of(port).clone()).unwrap_or_default();
    let key = |(namespace, name, _): &(&str, &str, DestinationRule)| PolicyKey {
        kind: PolicyKind::DestinationRule,
        namespace: mk_ns(namespace),
        name: (*name).into(),
    };
    let clusters = ClusterPolicy {
        subsets: all.iter().map(|of| (of.name.clone(), of.policies.of_under(port, &whole))).collect(),
        whole,
        from: rules.iter().map(key).collect(),
    };
    let endpoints = EndpointPolicy {
        subsets: all.iter().map(|of| (of.name.clone(), of.labels.clone(), <_>::default())).collect(),
        ..EndpointPolicy::default()
    };
    let is_ruled = !rules.is_empty();
    let facts = EndpointInputs {
        policy: is_ruled.then(|| Arc::new(ByNamespace::new(Some(Arc::new(endpoints)), []))),
        locality: locality.clone(),
        ..facts
    };
    let mut port = mk_port_view(facts);
    let cluster = ClusterInputs {
        policy: is_ruled.then(|| Arc::new(ByNamespace::new(Some(Arc::new(clusters)), []))),
        locality,
        ..port.cluster.inputs.clone()
    };
    port.cluster = Shared::new(ResourceInputs::new(cluster, ClientDimensions::NONE));
    let view = mk_view("pay.shop", "shop", &[Visibility::Public]);
    let view = ServiceView { ports: [port].into(), ..Arc::into_inner(view).unwrap() };
    let published = |(namespace, name, rule)| mk_policy(namespace, name, Policy::DestinationRule(rule));
    let policies = rules.into_iter().map(published).collect();
    Catalog { complete: true, policies, ..mk_catalog(vec![Arc::new(view)]) }
}

fn mk_subset(name: &str) -> Subset {
    Subset::new(name).unwrap()
}

fn mk_versions(names: &[&'static str]) -> DestinationRule {
    let subsets: Vec<_> = names.iter().map(|name| (*name, ("version", *name))).collect();
    mk_rule("*.shop", &subsets)
}

/// Returns the steps of these codes as `CODE object: detail`.
fn shown(steps: &[StepDocument], codes: &[Code]) -> Vec<String> {
    let name = |step: &StepDocument| step.object.as_ref().map(|of| of.name.clone()).unwrap_or_default();
    let found = steps.iter().filter(|step| codes.contains(&step.code));
    found.map(|step| format!("{} {}: {}", step.code, name(step), step.detail)).collect()
}

#[test]
fn rules_of_a_client_are_named_with_what_each_adds() {
    let balanced = || {
        let all = TrafficPolicy { balancer: Some(Arc::default()), ..TrafficPolicy::default() };
        DestinationRule {
            policies: PortPolicies { all, ..PortPolicies::default() },
            ..mk_versions(&["v1", "v2"])
        }
    };
    let catalog = mk_ruled(vec![
        ("web", "a", balanced()),
        ("web", "b", mk_versions(&["v2", "v3"])),
        ("web", "c", balanced()),
    ]);
    let explanation = explain_one(&catalog, "10.0.0.1:8080", Some(&mk_client("web")));
    let want = [
        "TRB0543 a: port 80: it sets loadBalancer, subsets v1, v2, as the rule of the client's namespace for *.shop",
        "TRB0543 b: port 80: it sets subset v3, beside DestinationRule web/a",
        "TRB0543 c: port 80: it sets nothing, beside DestinationRule web/a",
    ];
    assert_eq!(shown(&explanation.steps, &[Code::RULE_APPLIES]), want);
    let reached = why_not(&catalog, "pay.shop", &mk_client("web")).reached;
    assert_eq!(shown(&reached, &[Code::RULE_APPLIES]), want);
    for (namespace, whose) in
        [("shop", "the namespace of the service"), ("istio-system", "the root namespace")]
    {
        let catalog = mk_ruled(vec![(namespace, "a", mk_versions(&[]))]);
        let explanation = explain_one(&catalog, "10.0.0.1:8080", Some(&mk_client("web")));
        let want = format!("TRB0543 a: port 80: it sets nothing, as the rule of {whose} for *.shop");
        assert_eq!(shown(&explanation.steps, &[Code::RULE_APPLIES]), [want]);
    }
}

#[test]
fn endpoint_outside_the_subset_names_its_label() {
    let catalog = mk_ruled(vec![("shop", "a", mk_versions(&["v1"]))]);
    let answer = why_not_in(&catalog, "pay.shop", Some(&mk_subset("v1")), &mk_client("web"));
    assert_eq!((answer.served, answer.reasons.len()), (1, 1), "{:?}", answer.reasons);
    let details: Vec<&str> = answer.reasons[0].dropped.iter().map(|of| of.detail.as_str()).collect();
    let want = [
        "its label version is v2, and the subset has version=v1",
        "it has no label version, and the subset has version=v1",
    ];
    assert_eq!((answer.reasons[0].code, details), (Code::NOT_IN_SUBSET, want.to_vec()));
    let chosen = "TRB0543 a: port 80: subset v1 has the endpoints with version=v1";
    assert!(
        shown(&answer.reached, &[Code::RULE_APPLIES]).contains(&chosen.to_owned()),
        "{:?}",
        answer.reached
    );
    // the name of the xDS cluster is the same question
    let named = why_not(&catalog, "outbound|80|v1|pay.shop", &mk_client("web"));
    assert_eq!(WhyNot { port: None, ..named }, answer);
    let explained = |ip: &str| {
        let subset = mk_subset("v1");
        let of = (&ip.parse().unwrap(), Some(&subset));
        explain_with(&catalog, of, Some(&mk_client("web")), &|_| Vec::new()).remove(0).verdict
    };
    assert_eq!([explained("10.0.0.1"), explained("10.0.0.2")], [Outcome::Served, Outcome::Dropped]);
}

#[test]
fn subset_that_no_rule_of_the_client_has_is_named_with_those_it_has() {
    let answer = |rules| {
        let answer = why_not_in(&mk_ruled(rules), "pay.shop", Some(&mk_subset("v9")), &mk_client("web"));
        assert_eq!((answer.served, answer.any_destination), (0, false));
        let reason = &answer.reasons[0];
        assert_eq!((answer.reasons.len(), reason.code), (1, Code::NO_SUCH_SUBSET));
        reason.dropped[0].detail.clone()
    };
    assert_eq!(
        answer(vec![("shop", "a", mk_versions(&["v1", "v2"]))]),
        "port 80: no subset v9; DestinationRule shop/a, which applies to the client, has v1, v2"
    );
    assert_eq!(answer(vec![]), "port 80: no subset v9, because no DestinationRule applies to the client");
}

#[test]
fn settings_that_grpc_does_not_use_are_a_warning_for_grpc_alone() {
    let pool =
        ConnectionPool { max_connections: Some(3), max_requests: Some(4), ..ConnectionPool::default() };
    let balancer = LoadBalancer { algorithm: Algorithm::Random, ..LoadBalancer::default() };
    let all = TrafficPolicy {
        balancer: Some(Arc::new(balancer)),
        pool: Some(Arc::new(pool)),
        outliers: Some(Arc::default()),
        tls: None,
    };
    let rule =
        DestinationRule { policies: PortPolicies { all, ..PortPolicies::default() }, ..mk_versions(&[]) };
    let catalog = mk_ruled(vec![("shop", "a", rule)]);
    let of = |kind| {
        let mut client = mk_client("web");
        client.class.kind = kind;
        shown(&why_not(&catalog, "pay.shop", &client).reached, &[Code::NOT_FOR_GRPC])
    };
    let want = "TRB0545 a: port 80: gRPC does not use loadBalancer.simple RANDOM (round robin applies), \
                connectionPool.tcp.maxConnections, outlierDetection";
    assert_eq!((of(ClientKind::Grpc), of(ClientKind::Sidecar)), (vec![want.to_owned()], vec![]));
}

#[test]
fn mesh_that_decides_localities_is_named() {
    let shares = |from: &str| {
        let share = Distribution { from: from.into(), to: [("*".into(), 100)].into() };
        LocalityBalancing::Distribute([share].into())
    };
    let failover = LocalityBalancing::Failover { regions: Arc::default(), labels: Arc::default() };
    let ejecting = || {
        let all = TrafficPolicy { outliers: Some(Arc::default()), ..TrafficPolicy::default() };
        let policies = PortPolicies { all, ..PortPolicies::default() };
        vec![("shop", "a", DestinationRule { policies, ..mk_versions(&[]) })]
    };
    let named = |rules, mesh| {
        let explanation = explain_one(&mk_ruled_in(rules, mesh), "10.0.0.1:8080", Some(&mk_client("web")));
        shown(&explanation.steps, &[Code::MESH_LOCALITY])
    };
    let want = |how: &str| vec![format!("TRB0549 : port 80: {how}, by localityLbSetting of the mesh")];
    assert_eq!(named(vec![], Some(shares("*"))), want("clients in * use * 100 %"));
    assert!(named(vec![], Some(shares("ap/*"))).is_empty(), "no entry is for the client");
    let reached = why_not(&mk_ruled_in(vec![], Some(shares("*"))), "pay.shop", &mk_client("web")).reached;
    assert_eq!(shown(&reached, &[Code::MESH_LOCALITY]), want("clients in * use * 100 %"));
    // failover without ejection, and the failover that ejection has by default, are no decision of the mesh
    assert!(named(vec![], Some(failover.clone())).is_empty());
    assert!(named(ejecting(), Some(failover)).is_empty());
    assert_eq!(named(ejecting(), Some(LocalityBalancing::Off)), want("localities do not count"));
    assert!(named(ejecting(), None).is_empty());
}

#[test]
fn destination_that_receives_nothing_has_a_reason() {
    let catalog = mk_ruled(vec![("shop", "a", mk_versions(&["v1", "v4"]))]);
    let lost = |name: &str| {
        let lost = lost_destination(&catalog, &name.parse().unwrap(), &mk_client("web"));
        lost.map(|(code, why)| format!("{code} {why}"))
    };
    let cases = [
        ("outbound|80||pay.shop", None),
        ("outbound|80|v1|pay.shop", None),
        (
            "outbound|80|v4|pay.shop",
            Some("TRB0457 the client may use no endpoint with the labels of subset v4"),
        ),
        (
            "outbound|80|v9|pay.shop",
            Some("TRB0541 no DestinationRule that applies to the client declares subset v9"),
        ),
        ("outbound|81||pay.shop", Some("TRB0450 no service that the client may use has it")),
        ("outbound|80||pya.shop", Some("TRB0450 no service that the client may use has it")),
    ];
    for (name, want) in cases {
        assert_eq!(lost(name).as_deref(), want, "{name}");
    }
}

#[test]
fn service_whose_endpoints_are_unread_is_not_called_empty() {
    let mut catalog = mk_ruled(vec![("shop", "a", mk_versions(&["v4"]))]);
    let to = "outbound|80|v4|pay.shop".parse().unwrap();
    add_unread(&mut catalog, CollectionKind::Groups);
    assert_eq!(lost_destination(&catalog, &to, &mk_client("web")), None);
}
