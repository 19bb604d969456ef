//! One test per stage, on the document that people read.

mod pending;
mod workloads;

use tributary_model::*;

use super::*;
use crate::fixtures::*;

/// `pay.shop` in `shop` with these endpoints, seen by whom `visibility` says.
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
fn mk_registry_view(name: &str) -> RegistryView {
    RegistryView {
        id: mk_shard(name).registry.clone(),
        generation: Generation(1),
        collections: Arc::from([]),
        standing: ShardPriority::Normal,
        conditions: Arc::from([]),
        excluded: Arc::from([]),
    }
}
fn ask(catalog: &Catalog, text: &str, client: Option<&Client>) -> Explanation {
    let mut all = explain(catalog, &text.parse().unwrap(), client);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}
fn decided(explanation: &Explanation) -> Vec<(Stage, Verdict, u16)> {
    explanation.steps.iter().map(|s| (s.stage, s.verdict, s.code.number())).collect()
}

#[test]
fn a_served_endpoint_shows_its_whole_way_in_order() {
    let facts = mk_one(vec![Address { weight: 3, ..mk_address_at("10.0.0.1", mk_place("", "eu/1b", "")) }]);
    let catalog = mk_served(facts, Visibility::Public);
    let explanation = ask(&catalog, "10.0.0.1:8080", Some(&mk_client("web")));
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
fn what_the_core_traced_stands_instead_of_the_views_word() {
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
    };
    let history = |_: &ServiceKey| vec![step("10.0.0.1:8080"), step("10.0.0.2:8080")];
    let all = explain_with(&catalog, &"10.0.0.1".parse().unwrap(), None, &history);
    let source_steps: Vec<&str> =
        all[0].steps.iter().filter(|s| s.stage < Stage::Visibility).map(|s| s.detail.as_str()).collect();
    assert_eq!(source_steps, ["traced 10.0.0.1:8080"]);
}

#[test]
fn an_unknown_address_ends_at_the_source() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    for text in ["10.0.0.2", "10.0.0.1:9999", "db.example.com"] {
        let explanation = ask(&catalog, text, None);
        assert_eq!(explanation.verdict, Outcome::Dropped);
        assert_eq!(decided(&explanation), [(Stage::Source, Verdict::Drop, 502)], "{text}");
    }
}

#[test]
fn what_the_client_may_not_see_ends_at_the_scope() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Own);
    let explanation = ask(&catalog, "10.0.0.1", Some(&mk_client("web")));
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert!(decided(&explanation).contains(&(Stage::Visibility, Verdict::Drop, 506)));
    assert_eq!(ask(&catalog, "10.0.0.1", Some(&mk_client("shop"))).verdict, Outcome::Served);
    assert_eq!(ask(&catalog, "10.0.0.1", None).verdict, Outcome::Served, "without a client it is left open");
}

#[test]
fn a_terminating_endpoint_ends_at_its_health() {
    let gone = Address { health: Health::Terminating, ..mk_address("10.0.0.1") };
    let catalog = mk_served(mk_one(vec![gone]), Visibility::Public);
    let explanation = ask(&catalog, "10.0.0.1", None);
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert_eq!(decided(&explanation).last(), Some(&(Stage::Health, Verdict::Drop, 513)));
}

#[test]
fn a_gated_network_ends_at_the_network() {
    let mut facts = mk_one(vec![mk_address_at("10.0.0.1", mk_place("net2", "", ""))]);
    facts.gated = [NetworkId::new("net2").unwrap()].into();
    let catalog = mk_served(facts, Visibility::Public);
    let explanation = ask(&catalog, "10.0.0.1", Some(&mk_client("web")));
    assert_eq!(decided(&explanation).last(), Some(&(Stage::Network, Verdict::Drop, 510)));
    assert_eq!(ask(&catalog, "10.0.0.1", None).verdict, Outcome::Served, "without a client it is left open");
}

#[test]
fn the_second_lister_of_an_address_is_shown_as_such() {
    let group = |name| mk_group(name, &[], vec![mk_address("10.0.0.1")]);
    let facts = mk_facts(vec![mk_source("east", group("a")), mk_source("west", group("b"))]);
    let explanation = ask(&mk_served(facts, Visibility::Public), "10.0.0.1", None);
    assert_eq!(explanation.verdict, Outcome::Served);
    let drop = explanation.steps.iter().find(|s| s.verdict == Verdict::Drop).unwrap();
    let registry = drop.object.as_ref().and_then(|o| o.registry.clone()).unwrap();
    assert_eq!((drop.stage, drop.code, registry.as_str()), (Stage::Merge, Code::DUPLICATE_ADDRESS, "west"));
}

#[test]
fn stale_sources_and_held_endpoints_are_remarked() {
    let mut source = mk_source("east", mk_group("a", &[], vec![mk_address("10.0.0.1")]));
    source.held = [0].into();
    let shard = source.shard.clone();
    let mut catalog = mk_served(mk_facts(vec![source]), Visibility::Public);
    let collection = Collection { scope: shard.scope.clone(), kind: CollectionKind::Groups };
    let stale = Freshness::Stale { since: SinceMono::default(), why: "unreachable".into() };
    let registry = RegistryView { collections: [(collection, stale)].into(), ..mk_registry_view("east") };
    catalog.registries.insert(shard.registry.name.clone(), Shared::new(registry));
    let explanation = ask(&catalog, "10.0.0.1", None);
    let source_codes: Vec<u16> =
        explanation.steps.iter().filter(|s| s.stage == Stage::Source).map(|s| s.code.number()).collect();
    assert_eq!(source_codes, [501, 206, 527]);
    assert_eq!(explanation.verdict, Outcome::Served);
}

#[test]
fn what_delivery_says_is_the_last_word() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let mut explanation = ask(&catalog, "10.0.0.1", Some(&mk_client("web")));
    explanation.add([TraceStep {
        stage: Stage::Deliver,
        verdict: Verdict::Drop,
        code: Code::NACKED,
        registry: None,
        object: None,
        endpoint: String::new(),
        detail: "refused".into(),
    }]);
    assert_eq!(explanation.verdict, Outcome::Dropped);
    assert_eq!(explanation.steps.last().map(|s| s.stage), Some(Stage::Deliver));
}

#[test]
fn the_document_has_the_fields_of_the_contract() {
    let catalog = mk_served(mk_one(vec![mk_address("10.0.0.1")]), Visibility::Public);
    let document = serde_json::to_value(ask(&catalog, "10.0.0.1", Some(&mk_client("web")))).unwrap();
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
fn why_not_groups_what_was_left_out_by_rule() {
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
fn why_not_tries_the_clients_search_list_and_names_unknown_hosts() {
    let facts = mk_one(vec![mk_address("10.0.0.1")]);
    let mut client = mk_client("web");
    client.class.domain = Some("shop".into());
    let answer = why_not(&mk_served(facts, Visibility::Public), "pay", &client);
    assert_eq!((answer.host.as_str(), answer.served), ("pay.shop", 1));
    let none = why_not(&Catalog::default(), "pay", &client);
    assert_eq!(none.reasons[0].code, Code::NO_SUCH_HOST);
    assert!(none.partial, "an incomplete catalog must say so");
}

#[test]
fn queries_read_every_form_of_an_endpoint() {
    let read = |text: &str| text.parse::<Query>().unwrap();
    assert_eq!(read("10.0.0.1"), Query::Ip("10.0.0.1".parse().unwrap()));
    assert_eq!(read("[::1]:80"), Query::Socket("[::1]:80".parse().unwrap()));
    assert_eq!(read("::1"), read("[::1]"));
    assert_eq!(read("unix:/x").to_string(), "unix:/x");
}

#[test]
fn what_a_registry_leaves_out_is_why_its_hosts_are_not_there() {
    let left_out = |name: &str, pattern: &str, code| ExcludedObject {
        object: ObjectRef::new(ObjectId::new("Namespace", "", name)),
        code,
        message: format!("{name} is left out").into(),
        hosts: [HostPattern::new(pattern).unwrap()].into(),
    };
    let list: Arc<[ExcludedObject]> = [
        left_out("shop", "*.shop.svc.cluster.local", Code::NAMESPACE_NOT_SELECTED),
        left_out("web", "*.web.svc.cluster.local", Code::OTHER_REVISION),
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
    assert_eq!(codes("pay.shop"), [], "what is there is not left out");
}
