//! One test per stage, on the returned document.

mod gateways;
mod pending;
mod routes;
mod rules;
mod workloads;

use tributary_model::*;

use super::*;
use crate::fixtures::*;

/// `pay.shop` in `shop` with these endpoints and this visibility.
fn mk_served(facts: EndpointInputs, visibility: Visibility) -> Catalog {
    let view = mk_view("pay.shop", "shop", &[visibility]);
    let view = ServiceView { ports: [mk_port_view(facts)].into(), ..Arc::into_inner(view).unwrap() };
    Catalog { complete: true, ..mk_catalog(vec![Arc::new(view)]) }
}
fn mk_client(namespace: &str) -> Client {
    let mut client = Client::new(&format!("sidecar~10.9.9.9~web.{namespace}~x"), ClientKind::Sidecar);
    client.class.namespace = Some(mk_ns(namespace));
    client
}
fn explain_one(catalog: &Catalog, text: &str, client: Option<&Client>) -> Explanation {
    let mut all = explain(catalog, &text.parse().unwrap(), client);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}
fn decided(explanation: &Explanation) -> Vec<(Stage, Verdict, u16)> {
    explanation.steps.iter().map(|s| (s.stage, s.verdict, s.code.number())).collect()
}

#[test]
fn served_endpoint_shows_every_stage_in_order() {
    let facts =
        mk_one(vec![Address { weight: 3, ..mk_address_at("10.0.0.1", mk_topology("", "eu/1b", "")) }]);
    let catalog = mk_served(facts, Visibility::Public);
    let explanation = explain_one(&catalog, "10.0.0.1:8080", Some(&mk_client("web")));
    assert_eq!(explanation.verdict, Outcome::Served);
    assert_eq!(explanation.service.as_deref(), Some("pay.shop:80"));
    let stages: Vec<Stage> = explanation.steps.iter().map(|s| s.stage).collect();
    assert!(stages.is_sorted());
    let want = [Stage::Source, Stage::Merge, Stage::Visibility, Stage::Network, Stage::Health, Stage::Weight];
    assert!(want.iter().all(|s| stages.contains(s)), "{stages:?}");
    let weight = explanation.steps.iter().find(|s| s.stage == Stage::Weight).unwrap();
    assert_eq!(weight.detail, "weight 3, priority 0, locality eu/1b");
}

#[test]
fn core_trace_replaces_the_source_steps_of_the_view() {
    let mut source = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
    source.held = [0].into();
    let catalog = mk_served(mk_facts(vec![source]), Visibility::Public);
    let step = |endpoint: &str| TraceStep {
        stage: Stage::Source,
        verdict: Verdict::Warn,
        code: Code::HELD_ENDPOINT,
        registry: None,
        object: None,
        endpoint: endpoint.to_owned(),
        detail: format!("traced {endpoint}"),
        time: None,
    };
    let history = |_: &ServiceKey| vec![step("10.0.0.1:8080"), step("10.0.0.2:8080")];
    let all = explain_with(&catalog, (&"10.0.0.1".parse().unwrap(), None), None, &history);
    let source_steps: Vec<&str> =
        all[0].steps.iter().filter(|s| s.stage < Stage::Visibility).map(|s| s.detail.as_str()).collect();
    assert_eq!(source_steps, ["traced 10.0.0.1:8080"]);
}

#[test]
fn unknown_address_ends_at_the_stage_source() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    for text in ["10.0.0.2", "10.0.0.1:9999", "db.example.com"] {
        let explanation = explain_one(&catalog, text, None);
        assert_eq!(explanation.verdict, Outcome::Dropped);
        assert_eq!(decided(&explanation), [(Stage::Source, Verdict::Drop, 502)], "{text}");
    }
}

#[test]
fn invisible_endpoint_ends_at_the_stage_visibility() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Own);
    let explanation = explain_one(&catalog, "10.0.0.1", Some(&mk_client("web")));
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert!(decided(&explanation).contains(&(Stage::Visibility, Verdict::Drop, 506)));
    assert_eq!(explain_one(&catalog, "10.0.0.1", Some(&mk_client("shop"))).verdict, Outcome::Served);
    assert_eq!(
        explain_one(&catalog, "10.0.0.1", None).verdict,
        Outcome::Served,
        "without a client it is left open"
    );
}

/// Returns the details of the steps about the visibility of the endpoint's own declaration.
fn exported(explanation: &Explanation) -> Vec<&str> {
    let steps = explanation.steps.iter().filter(|step| step.code == Code::VISIBLE);
    let of_object = |step: &&StepDocument| step.detail.starts_with("ServiceEntry ");
    steps.filter(of_object).map(|step| step.detail.as_str()).collect()
}

#[test]
fn endpoint_outside_of_the_sidecar_is_exported_not_visible() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let sidecar = Sidecar { egress: mk_egress(&[(None, &["./*"])]), ..Sidecar::default() };
    let mut client = mk_client("web");
    let narrow = crate::scope::ClientSidecar::new(&mk_sidecar("web", "narrow", sidecar.clone()).0, &sidecar);
    client.class.sidecar = Some(Arc::new(narrow));
    let explanation = explain_one(&catalog, "10.0.0.1", Some(&client));
    assert!(decided(&explanation).contains(&(Stage::Visibility, Verdict::Drop, 530)), "{explanation:?}");
    assert_eq!(exported(&explanation), ["ServiceEntry shop/pay is exported to every namespace"]);
    let without = explain_one(&catalog, "10.0.0.1", None);
    assert_eq!(exported(&without), ["ServiceEntry shop/pay is exported to every namespace"]);
}

#[test]
fn exported_namespaces_are_named() {
    let mut source = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
    source.visibility = Visibility::Namespaces([mk_ns("shop"), mk_ns("web")].into());
    let catalog = mk_served(mk_facts(vec![source]), Visibility::Public);
    let want = "ServiceEntry shop/pay is exported to namespaces shop, web";
    assert_eq!(exported(&explain_one(&catalog, "10.0.0.1", Some(&mk_client("web")))), [want]);
    assert_eq!(exported(&explain_one(&catalog, "10.0.0.1", None)), [want]);
}

#[test]
fn terminating_endpoint_ends_at_the_stage_health() {
    let gone = Address { health: Health::Terminating, ..mk_address("10.0.0.1") };
    let catalog = mk_served(mk_one(vec![gone]), Visibility::Public);
    let explanation = explain_one(&catalog, "10.0.0.1", None);
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert_eq!(decided(&explanation).last(), Some(&(Stage::Health, Verdict::Drop, 513)));
}

#[test]
fn endpoint_of_a_gated_network_ends_at_the_stage_network() {
    let mut facts = mk_one(vec![mk_address_at("10.0.0.1", mk_topology("net2", "", ""))]);
    facts.gated = mk_gated(&[("net2", &[])]);
    let catalog = mk_served(facts, Visibility::Public);
    let explanation = explain_one(&catalog, "10.0.0.1", Some(&mk_client("web")));
    assert_eq!(decided(&explanation).last(), Some(&(Stage::Network, Verdict::Drop, 510)));
    assert_eq!(
        explain_one(&catalog, "10.0.0.1", None).verdict,
        Outcome::Served,
        "without a client it is left open"
    );
}

#[test]
fn second_source_of_an_address_is_a_duplicate() {
    let group = |name| mk_group(name, &[], vec![mk_address("10.0.0.1")]);
    let facts = mk_facts(vec![mk_source("east", group("a")), mk_source("west", group("b"))]);
    let explanation = explain_one(&mk_served(facts, Visibility::Public), "10.0.0.1", None);
    assert_eq!(explanation.verdict, Outcome::Served);
    let drop = explanation.steps.iter().find(|s| s.verdict == Verdict::Drop).unwrap();
    let registry = drop.object.as_ref().and_then(|o| o.registry.clone()).unwrap();
    assert_eq!((drop.stage, drop.code, registry.as_str()), (Stage::Merge, Code::DUPLICATE_ADDRESS, "west"));
}

#[test]
fn stale_sources_and_held_endpoints_give_warnings() {
    let mut source = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
    source.held = [0].into();
    let shard = source.shard.clone();
    let mut catalog = mk_served(mk_facts(vec![source]), Visibility::Public);
    let collection = Collection { scope: shard.scope.clone(), kind: CollectionKind::Groups };
    let stale = Freshness::Stale { since: SinceMono::default(), why: "unreachable".into() };
    let registry = RegistryView { collections: [(collection, stale)].into(), ..mk_registry_view("east") };
    catalog.registries.insert(shard.registry.name.clone(), Shared::new(registry));
    let explanation = explain_one(&catalog, "10.0.0.1", None);
    let source_codes: Vec<u16> =
        explanation.steps.iter().filter(|s| s.stage == Stage::Source).map(|s| s.code.number()).collect();
    assert_eq!(source_codes, [501, 206, 527]);
    assert_eq!(explanation.verdict, Outcome::Served);
}

#[test]
fn delivery_failure_decides_the_outcome() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let mut explanation = explain_one(&catalog, "10.0.0.1", Some(&mk_client("web")));
    explanation.add([TraceStep {
        stage: Stage::Deliver,
        verdict: Verdict::Drop,
        code: Code::NACKED,
        registry: None,
        object: None,
        endpoint: String::new(),
        detail: "refused".into(),
        time: None,
    }]);
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert_eq!(explanation.steps.last().map(|s| s.stage), Some(Stage::Deliver));
}

#[test]
fn explain_document_has_the_contract_fields() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let document = serde_json::to_value(explain_one(&catalog, "10.0.0.1", Some(&mk_client("web")))).unwrap();
    for field in ["endpoint", "service", "client", "verdict", "steps", "asOf", "partial"] {
        assert!(document.get(field).is_some(), "{field} is missing from {document}");
    }
    let first = &document["steps"][0];
    assert_eq!(
        (&first["stage"], &first["verdict"], &first["code"]),
        (&"source".into(), &"pass".into(), &"TRB0501".into())
    );
    assert_eq!(first["object"]["registry"], "east");
    assert_eq!(first["object"]["name"], "a");
    assert_eq!(document["verdict"], "served");
}

#[test]
fn why_not_groups_removed_endpoints_by_rule() {
    let with = |ip, health| Address { health, ..mk_address(ip) };
    let facts = mk_one(vec![
        with("10.0.0.1", Health::Terminating),
        with("10.0.0.2", Health::Terminating),
        with("10.0.0.3", Health::Draining),
        mk_address("10.0.0.4"),
    ]);
    let catalog = mk_served(facts, Visibility::Public);
    let answer = why_not(&catalog, "Pay.Shop.", &mk_client("web"));
    assert_eq!((answer.served, answer.service.as_deref()), (1, Some("shop/pay.shop")));
    let groups: Vec<(u16, usize)> = answer.reasons.iter().map(|r| (r.code.number(), r.count)).collect();
    assert_eq!(groups, [(513, 2), (514, 1)]);
    assert_eq!(answer.reasons[0].dropped[0].endpoint, "10.0.0.1:8080");
    assert!(!answer.reasons[0].title.is_empty());
}

#[test]
fn why_not_uses_the_search_list_and_reports_unknown_hosts() {
    let facts = mk_one(vec![mk_address("10.0.0.1")]);
    let mut client = mk_client("web");
    client.class.domain = Some("shop".into());
    let answer = why_not(&mk_served(facts, Visibility::Public), "pay", &client);
    assert_eq!((answer.host.as_str(), answer.served), ("pay.shop", 1));
    let none = why_not(&Catalog::default(), "pay", &client);
    assert_eq!(none.reasons[0].code, Code::NO_SUCH_HOST);
    assert!(none.partial, "an incomplete catalog is marked as partial");
}

#[test]
fn why_not_takes_the_name_of_an_xds_cluster() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let answer = |name: &str| why_not(&catalog, name, &mk_client("web"));
    let whole = answer("outbound|80||pay.shop");
    assert_eq!((whole.host.as_str(), whole.served, whole.reasons.len()), ("pay.shop", 1, 0));
    let part = answer("outbound|80|v1|pay.shop");
    assert_eq!(
        (part.host.as_str(), part.served, part.reasons[0].code),
        ("pay.shop", 0, Code::NO_SUCH_SUBSET)
    );
    assert_eq!(
        part.reasons[0].dropped[0].detail,
        "port 80: no subset v1, because no DestinationRule applies to the client"
    );
    let none = answer("outbound|9999||pay.shop");
    assert_eq!((none.port.map(|port| port.get()), none.served), (Some(9999), 0));
    assert_eq!(none.reasons[0].code, Code::NO_SUCH_PORT);
    assert_eq!(none.reasons[0].dropped[0].detail, "pay.shop has no port 9999");
}

#[test]
fn why_not_takes_a_host_with_a_port() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let answer = |name: &str| {
        let answer = why_not(&catalog, name, &mk_client("web"));
        (answer.host, answer.port.map(|port| port.get()), answer.reasons.first().map(|reason| reason.code))
    };
    let whole = answer("outbound|80||pay.shop");
    let port = whole.1;
    assert_eq!((answer("Pay.shop:80"), Some(80)), (whole, port));
    assert_eq!(answer("pay.shop.:9999"), ("pay.shop".to_owned(), Some(9999), Some(Code::NO_SUCH_PORT)));
    let unknown = Some(Code::NO_SUCH_HOST);
    assert_eq!(answer("no.shop:80"), ("no.shop".to_owned(), Some(80), unknown));
    for bad in ["pay.shop:0", "pay.shop:x", "fd00::1:80"] {
        assert_eq!(answer(bad), (bad.to_owned(), None, unknown), "{bad}");
    }
}

#[test]
fn why_not_names_unread_declarations_of_an_unknown_host() {
    let mut catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    add_unread(&mut catalog, CollectionKind::Services);
    let codes = |host: &str| -> Vec<Code> {
        why_not(&catalog, host, &mk_client("web")).reasons.iter().map(|reason| reason.code).collect()
    };
    assert!(codes("other.shop").contains(&Code::SERVICES_UNREAD));
    assert!(!codes("pay.shop").contains(&Code::SERVICES_UNREAD), "it is declared");
}

#[test]
fn queries_parse_every_form_of_an_endpoint() {
    let read = |text: &str| text.parse::<Query>().unwrap();
    assert_eq!(read("10.0.0.1"), Query::Ip("10.0.0.1".parse().unwrap()));
    assert_eq!(read("[::1]:80"), Query::Socket("[::1]:80".parse().unwrap()));
    assert_eq!(read("::1"), read("[::1]"));
    assert_eq!(read("unix:/x").to_string(), "unix:/x");
}

#[test]
fn excluded_objects_explain_missing_hosts() {
    let mk_excluded = |name: &str, pattern: &str, code| ExcludedObject {
        object: ObjectRef::new(ObjectId::new("Namespace", "", name)),
        code,
        message: format!("{name} is excluded").into(),
        hosts: [HostPattern::new(pattern).unwrap()].into(),
    };
    let list: Arc<[ExcludedObject]> = [
        mk_excluded("shop", "*.shop.svc.cluster.local", Code::NAMESPACE_NOT_SELECTED),
        mk_excluded("web", "*.web.svc.cluster.local", Code::OTHER_REVISION),
    ]
    .into();
    let mut catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let name = RegistryName::new("east").unwrap();
    let view = RegistryView { excluded: [list].into(), ..mk_registry_view("east") };
    catalog.registries.insert(name, Shared::new(view));
    let mut client = mk_client("shop");
    client.class.domain = Some("shop.svc.cluster.local".into());
    let codes = |host: &str| {
        let reasons = why_not(&catalog, host, &client).reasons;
        reasons.iter().map(|r| (r.code, r.dropped[0].object.clone().map(|o| o.name))).collect::<Vec<_>>()
    };
    let gone = (Code::NO_SUCH_HOST, None);
    let because = (Code::NAMESPACE_NOT_SELECTED, Some("shop".to_owned()));
    assert_eq!(codes("pay.shop.svc.cluster.local"), [because.clone(), gone.clone()]);
    assert_eq!(codes("cart"), [because, gone.clone()], "a short name is looked up as the client means it");
    assert_eq!(codes("pay.other.svc.cluster.local"), [gone]);
    assert_eq!(codes("pay.shop"), [], "a served host has no reasons");
}
