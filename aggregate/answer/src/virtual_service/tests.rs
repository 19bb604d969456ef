//! Tables from the recorded worlds, and properties: equal keys give equal routes.

use proptest::prelude::*;
use tributary_model::{
    ClientDimensions, HostPattern, HttpAction, L4Routes, Namespace, PolicyKey, PolicyKind, ResourceInputs,
    RouteDestination, RouteOwner, RoutePosition, RouteSettings, TcpRoute, TextMatch, Visibility,
    WeightedDestination,
};

use super::*;
use crate::fixtures::*;
use crate::key::{Outcomes, attrs, base, key};
use crate::scope::ClientSidecar;

fn mk_owner(name: &str, visibility: Visibility, hosts: &[&str]) -> Arc<RouteOwner> {
    let (namespace, name) = name.split_once('/').unwrap();
    let key = PolicyKey { kind: PolicyKind::VirtualService, namespace: mk_ns(namespace), name: name.into() };
    let hosts = hosts.iter().map(|host| HostPattern::new(host).unwrap()).collect();
    Arc::new(RouteOwner { key, visibility, hosts, delegates: Arc::default() })
}

fn mk_visibility(text: &str) -> Visibility {
    match text {
        "*" => Visibility::Public,
        list => Visibility::Namespaces(list.split(',').map(mk_ns).collect()),
    }
}

/// Returns a route to a host with these matches, each such as `/path x=1 @ns :81 mesh`.
fn mk_route(name: &str, matches: &[&str]) -> HttpRoute {
    let found = |text: &&str| {
        let mut out = HttpMatch::default();
        for part in text.split(' ').filter(|part| !part.is_empty()) {
            match part.split_at(1) {
                ("/", _) => out.uri = Some(TextMatch::Prefix(part.into())),
                ("@", namespace) => out.clients.namespace = Some(mk_ns(namespace)),
                (":", port) => out.port = Some(mk_port(port.parse().unwrap())),
                _ if part == "mesh" => out.clients.gateways = GatewayMatch::Mesh,
                _ if part == "gateway" => out.clients.gateways = GatewayMatch::Other,
                _ => out.clients.labels = part.split(',').filter_map(|pair| pair.split_once('=')).collect(),
            }
        }
        out
    };
    let destination = RouteDestination { host: mk_host("a.test"), subset: None, port: None };
    HttpRoute {
        name: name.into(),
        matches: matches.iter().map(found).collect(),
        action: HttpAction::Route([WeightedDestination { destination, weight: 0, headers: None }].into()),
        settings: RouteSettings::default(),
        delegate: None,
        position: RoutePosition::default(),
    }
}

/// Returns a candidate such as `shop/a * pay.test`: name, namespaces, hosts of which the first matches.
fn mk_candidate(text: &str, routes: Vec<HttpRoute>) -> HttpCandidate {
    let parts: Vec<&str> = text.split(' ').collect();
    let hosts: Vec<&str> = parts[2].split(',').collect();
    let host = HostPattern::new(hosts[0]).unwrap();
    RouteCandidate { of: mk_owner(parts[0], mk_visibility(parts[1]), &hosts), host, routes: routes.into() }
}

fn mk_facts(candidates: Vec<HttpCandidate>) -> RouteInputs {
    let port = mk_port_view(mk_one(Vec::new()));
    RouteInputs { virtual_services: candidates.into(), ..port.route.inputs.clone() }
}

fn mk_client(namespace: &str, labels: &str) -> ClientClass {
    ClientClass {
        namespace: Namespace::new(namespace).ok(),
        labels: labels.split(',').filter_map(|pair| pair.split_once('=')).collect(),
        ..ClientClass::new(ClientKind::Sidecar)
    }
}

fn dims() -> ClientDimensions {
    ClientDimensions::KIND | ClientDimensions::NAMESPACE | ClientDimensions::LABELS | ClientDimensions::DOMAIN
}

/// Returns the routes of a client such as `shop/a: r[/x,/y] s`; `-` for the usual route.
fn routes_of(facts: &RouteInputs, client: &ClientClass) -> String {
    let node = ResourceInputs::new(facts.clone(), dims());
    let projection = key(&node, client);
    let Some(routes) = chosen(facts, &projection) else { return "-".to_owned() };
    let at = usize::from(projection.choices.as_ref().unwrap()[0].candidate);
    let uri = |found: &HttpMatch| match &found.uri {
        Some(TextMatch::Prefix(path)) => path.to_string(),
        _ => "*".to_owned(),
    };
    let route = |(route, matches): &(HttpRoute, Vec<HttpMatch>)| {
        let uris: Vec<String> = matches.iter().map(uri).collect();
        if uris.is_empty() { route.name.to_string() } else { format!("{}[{}]", route.name, uris.join(",")) }
    };
    let routes = owned(&routes);
    let key = &facts.virtual_services[at].of.key;
    let routes: Vec<String> = routes.iter().map(route).collect();
    format!("{}/{}: {}", key.namespace, key.name, routes.join(" "))
}

fn chosen_name(candidates: &[&str], client: &ClientClass) -> String {
    let facts =
        mk_facts(candidates.iter().map(|text| mk_candidate(text, vec![mk_route("r", &[])])).collect());
    let routes = routes_of(&facts, client);
    routes.split(':').next().unwrap().to_owned()
}

/// Candidates in order of age, and which one clients of shop, other and without a namespace have.
const ORDER: &[(&[&str], [&str; 3])] = &[
    (&["shop/a * pay.test", "shop/b * pay.test"], ["shop/a"; 3]),
    (&["shop/a shop pay.test"], ["shop/a", "-", "-"]),
    (&["other/a shop pay.test"], ["other/a", "-", "-"]),
    // a private younger one precedes a public older one, one that is exported by name too
    (&["other/a * pay.test", "shop/b shop pay.test"], ["shop/b", "other/a", "other/a"]),
    (&["shop/a * pay.test", "other/b shop pay.test"], ["other/b", "shop/a", "shop/a"]),
    (&["other/a shop pay.test", "shop/b other,shop pay.test"], ["shop/b", "shop/b", "-"]),
    (&["other/a * pay.test", "shop/b * pay.test"], ["other/a"; 3]),
    // the host itself precedes wildcards, and the longest wildcard
    (&["shop/a * *.test", "shop/b * pay.test"], ["shop/b"; 3]),
    (&["shop/a * *.test", "shop/b * *y.test"], ["shop/b"; 3]),
    (&["shop/a * *.test", "shop/b other *y.test"], ["shop/a", "shop/b", "shop/a"]),
];

#[test]
fn virtual_service_of_each_client_is_that_of_istio() {
    for (candidates, want) in ORDER {
        let clients = [mk_client("shop", ""), mk_client("other", ""), mk_client("", "")];
        let got = clients.map(|client| chosen_name(candidates, &client));
        assert_eq!(got.each_ref().map(String::as_str), *want, "{candidates:?}");
    }
}

#[test]
fn plain_envoys_and_ports_of_other_protocols_have_usual_routes() {
    let candidates = vec![mk_candidate("shop/a * pay.test", vec![mk_route("r", &[])])];
    let facts = mk_facts(candidates);
    let of_kind = |kind| routes_of(&facts, &ClientClass { kind, ..mk_client("shop", "") });
    assert_eq!([ClientKind::Envoy, ClientKind::Grpc].map(of_kind), ["-", "shop/a: r"]);
    let tcp = RouteInputs { protocol: Protocol::Tcp, ..facts };
    assert_eq!(routes_of(&tcp, &mk_client("shop", "")), "-");
}

/// Routes of a VirtualService with their matches, labels of a client in namespace shop, and what it has on port 80.
type Matched = (&'static [(&'static str, &'static [&'static str])], &'static str, &'static str);

const MATCHED: &[Matched] = &[
    (&[("a", &["/x x=1,y=2", "/y x=2"]), ("b", &["/z"])], "x=1,y=2", "shop/a: a[/x] b[/z]"),
    (&[("a", &["/x x=1,y=2", "/y x=2"]), ("b", &["/z"])], "x=2", "shop/a: a[/y] b[/z]"),
    (&[("a", &["/x x=1,y=2", "/y x=2"]), ("b", &["/z"])], "", "shop/a: b[/z]"),
    (&[("a", &["/x @shop"]), ("b", &["/y @other"])], "", "shop/a: a[/x]"),
    (&[("a", &["/x :80", "/y :81"])], "", "shop/a: a[/x]"),
    // gateways with sidecars make the other conditions void, those without them exclude sidecars
    (&[("a", &["/x mesh x=1 @other", "/y gateway"])], "", "shop/a: a[/x]"),
    // routes behind one that takes everything
    (&[("a", &["/x", "/", "/y"]), ("b", &[])], "", "shop/a: a[/x,/]"),
    (&[("a", &["x=1"]), ("b", &["/y"]), ("c", &[]), ("d", &[])], "x=1", "shop/a: a[*]"),
    (&[("a", &["x=1"]), ("b", &["/y"]), ("c", &[]), ("d", &[])], "", "shop/a: b[/y] c"),
    // without any route, it does not count
    (&[("a", &["/x x=1"])], "x=2", "shop/b: next"),
    (&[("a", &["/x :81"])], "", "shop/b: next"),
    (&[], "", "shop/b: next"),
];

#[test]
fn routes_of_each_client_are_those_of_istio() {
    for (routes, labels, want) in MATCHED {
        let routes = routes.iter().map(|(name, matches)| mk_route(name, matches)).collect();
        let next = mk_candidate("shop/b * pay.test", vec![mk_route("next", &[])]);
        let facts = mk_facts(vec![mk_candidate("shop/a * pay.test", routes), next]);
        assert_eq!(routes_of(&facts, &mk_client("shop", labels)), *want);
    }
}

#[test]
fn only_the_first_of_the_longest_wildcard_counts() {
    let of = |text, matches: &[&str]| mk_candidate(text, vec![mk_route("r", matches)]);
    let facts = mk_facts(vec![of("shop/a * *.test", &["x=1"]), of("shop/b * *.test", &[])]);
    assert_eq!(routes_of(&facts, &mk_client("shop", "")), "-");
    let facts = mk_facts(vec![of("shop/a * pay.test", &["x=1"]), of("shop/b * *.test", &[])]);
    assert_eq!(routes_of(&facts, &mk_client("shop", "")), "-", "a wildcard does not stand in for the host");
}

fn with_imports(client: ClientClass, listeners: &[(Option<u32>, &[&str])]) -> ClientClass {
    let sidecar = tributary_model::Sidecar { egress: mk_egress(listeners), ..<_>::default() };
    let key = PolicyKey { kind: PolicyKind::Sidecar, namespace: mk_ns("shop"), name: "s".into() };
    ClientClass { sidecar: Some(Arc::new(ClientSidecar::new(&key, &sidecar))), ..client }
}

#[test]
fn sidecar_imports_by_namespace_and_host_of_the_virtual_service() {
    let imported = |candidate: &str, imports: &[&str]| {
        chosen_name(&[candidate], &with_imports(mk_client("shop", ""), &[(None, imports)])) != "-"
    };
    assert!(imported("shop/a * pay.test", &["shop/pay.test"]) && imported("shop/a * pay.test", &["./*"]));
    assert!(!imported("other/a * pay.test", &["shop/pay.test"]), "the service is imported, not this");
    assert!(
        imported("other/a * pay.test", &["*/pay.test"]) && imported("other/a * pay.test", &["other/*.test"])
    );
    assert!(imported("shop/a * pay.test,b.test", &["shop/b.test"]), "one host imports all");
    // a wildcard on either side
    assert!(
        imported("shop/a * *.test", &["shop/pay.test"]) && imported("shop/a * *.test", &["shop/*.b.test"])
    );
    assert!(
        imported("shop/a * *.b.test", &["shop/*.test"]) && !imported("shop/a * *.b.test", &["shop/pay.test"])
    );
    assert!(!imported("shop/a * pay.test", &["~/*"]));
    // a listener for the port decides alone
    let client = |port| with_imports(mk_client("shop", ""), &[(Some(port), &["./b.test"]), (None, &["./*"])]);
    let of_port = |port| chosen_name(&["shop/a * pay.test"], &client(port));
    assert_eq!([of_port(80), of_port(81)], ["-", "shop/a"]);
}

#[test]
fn service_without_virtual_services_has_the_key_of_before() {
    let facts = mk_facts(Vec::new());
    let node = ResourceInputs::new(facts, ClientDimensions::KIND | ClientDimensions::DOMAIN);
    let client = mk_client("shop", "x=1");
    assert_eq!(key(&node, &client), client.project(node.dimensions));
}

#[test]
fn a_thousand_namespaces_have_a_key_per_outcome() {
    let facts = mk_facts(vec![
        mk_candidate("shop/a shop,n7 pay.test", vec![mk_route("r", &["/x x=1", "/y @n8", "/z"])]),
        mk_candidate("shop/b * pay.test", vec![mk_route("r", &["/x x=1", "/y @n8", "/z"])]),
    ]);
    let node = ResourceInputs::new(facts, dims());
    let clients =
        (0..1000).flat_map(|n| ["x=1", "x=2", "x=3"].map(|labels| mk_client(&format!("n{n}"), labels)));
    let keys: std::collections::HashSet<Projection> = clients.map(|client| key(&node, &client)).collect();
    assert_eq!(keys.len(), 6, "n7, n8 and the others, each with and without the label");
}

fn mk_l4(candidates: Vec<(&str, Vec<L4Match>)>, protocol: Protocol) -> ListenerInputs {
    let candidate = |(text, matches): (&str, Vec<L4Match>)| {
        let of = mk_candidate(text, Vec::new());
        let tcp = [TcpRoute { matches: matches.into(), destinations: Arc::default() }].into();
        RouteCandidate { of: of.of, host: of.host, routes: L4Routes { tcp, ..L4Routes::default() } }
    };
    let virtual_services = candidates.into_iter().map(candidate).collect();
    ListenerInputs { virtual_services, ..mk_facts_of(protocol, &[]) }
}

#[test]
fn listeners_have_every_virtual_service_with_a_route_for_the_client() {
    let of = |labels: &str, namespace: Option<&str>| {
        let labels = labels.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let clients = ClientMatch { labels, namespace: namespace.map(mk_ns), gateways: GatewayMatch::Mesh };
        L4Match { clients, ..L4Match::default() }
    };
    let ranged = L4Match { subnets: ["10.97.0.0/16".parse().unwrap()].into(), ..L4Match::default() };
    let all = || {
        vec![
            ("other/a * pay.test", vec![of("x=1", None), of("", Some("shop"))]),
            ("shop/b shop *.test", vec![ranged.clone()]),
            ("shop/c * pay.test", vec![of("x=2", None)]),
        ]
    };
    let shown = |protocol, client: &ClientClass| {
        let node = ResourceInputs::new(mk_l4(all(), protocol), dims());
        let choices = key(&node, client).choices.unwrap();
        let bits = |choice: &RouteChoice| {
            choice.fulfilled.iter().map(|is| if *is { '1' } else { '0' }).collect::<String>()
        };
        choices
            .iter()
            .map(|choice| format!("{}:{}", choice.candidate, bits(choice)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(shown(Protocol::Tcp, &mk_client("shop", "x=1")), "1: 0:11");
    assert_eq!(shown(Protocol::Tcp, &mk_client("shop", "x=2")), "1: 0:01", "nothing is left for the last");
    assert_eq!(shown(Protocol::Tcp, &mk_client("web", "x=2")), "2:1");
    assert_eq!(shown(Protocol::Tcp, &mk_client("web", "x=3")), "");
    assert_eq!(shown(Protocol::Https, &mk_client("shop", "x=1")), "", "routes of TCP are not for TLS");
}

fn some_candidate() -> impl Strategy<Value = HttpCandidate> {
    let owner = prop::sample::select(vec![
        "shop/a * pay.test",
        "shop/a shop pay.test",
        "web/a shop,web *.test",
        "web/b * *.test",
    ]);
    let matches = prop::sample::select(vec![
        "/x x=1",
        "/y x=1,y=2",
        "/z @shop",
        "/w",
        ":81",
        "mesh @web",
        "/v y= @web",
    ]);
    let route = prop::collection::vec(matches, 0..3).prop_map(|matches| mk_route("r", &matches));
    (owner, prop::collection::vec(route, 0..4)).prop_map(|(owner, routes)| mk_candidate(owner, routes))
}

fn some_client() -> impl Strategy<Value = ClientClass> {
    let namespace = prop::sample::select(vec!["", "shop", "web", "pay"]);
    let labels = prop::sample::select(vec!["x=,y=", "x=1,y=", "x=1,y=2", "x=2,y=3"]);
    let imports = prop::sample::select(vec!["", "shop/*", "*/pay.test", "web/x.test"]);
    (namespace, labels, imports).prop_map(|(namespace, labels, imports)| {
        let client = mk_client(namespace, labels);
        if imports.is_empty() { client } else { with_imports(client, &[(None, &[imports])]) }
    })
}

/// Chooses by comparing every candidate, and keeps every match that admits the client.
fn naive(facts: &RouteInputs, client: &ClientClass) -> Option<Vec<(HttpRoute, Vec<HttpMatch>)>> {
    let own = client.namespace.as_ref();
    let mut seen: Vec<_> = facts
        .virtual_services
        .iter()
        .filter(|candidate| {
            let imports = |host: &HostPattern, candidate: &HttpCandidate| {
                let Some(egress) = client.scope().egress() else { return true };
                let mut all = egress.listeners().iter().flat_map(|listener| listener.hosts.iter());
                all.any(|import| {
                    let of_namespace = match own {
                        Some(own) => import.namespace.admits(own, &candidate.of.key.namespace),
                        None => {
                            import.namespace.admits(&candidate.of.key.namespace, &candidate.of.key.namespace)
                        }
                    };
                    let within =
                        |a: &str, b: &str| a == b || b.strip_prefix('*').is_some_and(|end| a.ends_with(end));
                    of_namespace
                        && (within(host.as_str(), import.host.as_str())
                            || within(import.host.as_str(), host.as_str()))
                })
            };
            let visible = candidate.of.visibility.admits(&candidate.of.key.namespace, own);
            visible && candidate.of.hosts.iter().any(|host| imports(host, candidate))
        })
        .collect();
    seen.sort_by_key(|candidate| match &candidate.of.visibility {
        Visibility::Public => 2,
        _ => u8::from(Some(&candidate.of.key.namespace) != own),
    });
    let exact: Vec<_> = seen.iter().filter(|candidate| candidate.is_exact()).collect();
    let found = if exact.is_empty() { seen.iter().take(1).collect() } else { exact };
    found.into_iter().find_map(|candidate| {
        let mut out = Vec::new();
        for route in candidate.routes.iter() {
            let admits = |found: &&HttpMatch| found.admits(facts.port, &client.labels, own);
            let mut matches: Vec<HttpMatch> = route.matches.iter().filter(admits).cloned().collect();
            let all = matches.iter().position(HttpMatch::is_catch_all);
            matches.truncate(all.map_or(matches.len(), |at| at + 1));
            if route.matches.is_empty() || !matches.is_empty() {
                out.push((route.clone(), matches));
            }
            if route.matches.is_empty() || all.is_some() {
                break;
            }
        }
        (!out.is_empty()).then_some(out)
    })
}

/// Returns the routes that apply, each with the matches that do, up to one that takes every request.
fn owned(chosen: &Chosen<'_>) -> Vec<(HttpRoute, Vec<HttpMatch>)> {
    let mut applies = chosen.applies.iter();
    let mut out = Vec::new();
    for route in chosen.routes {
        let matches: Vec<HttpMatch> =
            route.matches.iter().filter(|_| *applies.next().unwrap()).cloned().collect();
        let is_last = route.matches.is_empty() || matches.iter().any(HttpMatch::is_catch_all);
        if is_last || !matches.is_empty() {
            out.push((route.clone(), matches));
        }
        if is_last {
            break;
        }
    }
    out
}

proptest! {
    #[test]
    fn routes_by_the_key_are_those_of_the_whole_client(
        candidates in prop::collection::vec(some_candidate(), 0..4),
        client in some_client(),
    ) {
        let facts = mk_facts(candidates);
        let node = ResourceInputs::new(facts.clone(), dims());
        let got = chosen(&facts, &key(&node, &client)).map(|found| owned(&found));
        prop_assert_eq!(got, naive(&facts, &client));
    }

    #[test]
    fn values_that_are_not_mentioned_change_no_key(
        candidates in prop::collection::vec(some_candidate(), 1..4),
        client in some_client(),
    ) {
        let node = ResourceInputs::new(mk_facts(candidates), dims());
        let mut mentioned = std::collections::BTreeSet::new();
        RouteInputs::mentions(&node, &mut |attr| { mentioned.insert(attr); });
        let reduced = base(&client, |attr| mentioned.contains(attr));
        prop_assert_eq!(key(&node, &reduced).choices, key(&node, &client).choices);
        prop_assert!(attrs(&reduced).iter().all(|attr| !matches!(attr, Attr::Label(..)) || mentioned.contains(attr)));
    }
}
