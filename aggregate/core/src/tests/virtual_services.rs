//! VirtualServices: which ones a service has in which order, with which routes, and what a change builds.
//!
//! The cases of [`CANDIDATES`] and [`DELEGATES`] follow the rules that pilot-discovery 1.30 was recorded with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::{
    Catalog, ConnectionTarget, DeclaredPolicy, DelegateRef, ExportTo, Fact, HostPattern, HttpAction,
    HttpMatch, HttpRoute, L4Destination, ObjectId, Policy, PolicyKey, PolicyKind, ResolvedDestination,
    RouteDestination, RoutePosition, RouteSettings, Settings, Source, Subset, TcpRoute, TextMatch, Timestamp,
    VirtualService, WeightedDestination,
};

use super::fixtures::*;

mod destinations;
mod hosts;
mod subsets;

const PAY: &str = "svc/pay.test";

/// Returns a route such as `name /prefix to` or `name /prefix to|subset`; `^` begins an exact path, `~` a pattern; `>ns/name` is a delegate.
fn mk_http(text: &str) -> HttpRoute {
    let mut parts = text.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    let (name, uri, to) = (next(), next(), next());
    let found = |uri: &str| {
        let uri = match uri.split_at(1) {
            ("^", exact) => TextMatch::Exact(exact.into()),
            ("~", pattern) => TextMatch::Regex(pattern.into()),
            _ => TextMatch::Prefix(uri.into()),
        };
        HttpMatch { uri: Some(uri), ..HttpMatch::default() }
    };
    let action = match to.strip_prefix('>') {
        Some(to) => {
            let (namespace, name) = to.split_once('/').unwrap();
            HttpAction::Delegate(DelegateRef { name: name.into(), namespace: mk_ns(namespace) }, None)
        }
        None => {
            let (host, subset) = to.split_once('|').map_or((to, None), |(host, subset)| (host, Some(subset)));
            let subset = subset.map(|name| Subset::new(name).unwrap());
            let destination = RouteDestination { host: mk_host(host), subset, port: None };
            HttpAction::Route([WeightedDestination { destination, weight: 0, headers: None }].into())
        }
    };
    HttpRoute {
        name: if name == "-" { "".into() } else { name.into() },
        matches: uri.split(',').filter(|uri| *uri != "*").map(found).collect(),
        action,
        settings: RouteSettings::default(),
        delegate: None,
        position: RoutePosition::default(),
    }
}

fn mk_http_at(at: usize, text: &str) -> HttpRoute {
    HttpRoute { position: RoutePosition::of(at), ..mk_http(text) }
}

/// Returns a VirtualService such as `shop/a@1 pay.test,*.test cli`: name, second of creation, hosts and namespaces, each
/// `-` for none.
fn mk_vs(text: &str, routes: &[&str]) -> Fact {
    let mut parts = text.split(' ');
    let mut next = || parts.next().filter(|part| *part != "-").unwrap_or_default();
    let (name, created) = next().split_once('@').unwrap();
    let (namespace, name) = name.split_once('/').unwrap();
    let (hosts, export) = (next(), next());
    let namespace = mk_ns(namespace);
    let service = VirtualService {
        hosts: hosts.split(',').filter(|h| !h.is_empty()).map(|h| HostPattern::new(h).unwrap()).collect(),
        export: ExportTo::parse(export.split(','), &namespace),
        mesh: true,
        http: routes.iter().enumerate().map(|(at, route)| mk_http_at(at, route)).collect(),
        tls: Arc::default(),
        tcp: Arc::default(),
        ignored: Arc::default(),
    };
    let declared = DeclaredPolicy {
        source: Source::new(ObjectId::new("VirtualService", namespace.as_str(), name)),
        created: Timestamp::from_second(created.parse().unwrap()).ok(),
        policy: Policy::VirtualService(service),
    };
    let key = PolicyKey { kind: PolicyKind::VirtualService, namespace, name: name.into() };
    Fact::Policy(key, Arc::new(declared))
}

fn edited(mut fact: Fact, edit: impl FnOnce(&mut VirtualService)) -> Fact {
    let Fact::Policy(_, declared) = &mut fact else { panic!("not a policy") };
    let Policy::VirtualService(service) = &mut Arc::make_mut(declared).policy else { panic!("not one") };
    edit(service);
    fact
}

/// Returns the VirtualServices of each service's first port, such as `shop/a` or `shop/b*` for a wildcard, each with its
/// routes.
fn read(catalog: &Catalog) -> BTreeMap<String, Vec<(String, Vec<String>)>> {
    let of_service = |view: &Arc<tributary_model::ServiceView>| {
        let candidates = view.ports[0].route.inputs.virtual_services.iter().map(|candidate| {
            let PolicyKey { namespace, name, .. } = &candidate.of.key;
            let wild = if candidate.is_exact() { "" } else { "*" };
            (format!("{namespace}/{name}{wild}"), candidate.routes.iter().map(shown).collect())
        });
        (format!("{}/{}", view.key.namespace, view.key.host), candidates.collect())
    };
    catalog.services().map(of_service).collect()
}

/// Returns a route in the form of [`mk_http`].
fn shown(route: &HttpRoute) -> String {
    let uri = |found: &HttpMatch| match &found.uri {
        Some(TextMatch::Exact(text)) => format!("^{text}"),
        Some(TextMatch::Regex(text)) => format!("~{text}"),
        Some(TextMatch::Prefix(text)) => text.to_string(),
        Some(TextMatch::Present) | None => "*".to_owned(),
    };
    let uris: Vec<String> = route.matches.iter().map(uri).collect();
    let uris = if uris.is_empty() { "*".to_owned() } else { uris.join(",") };
    let to = route.action.destinations().first().map(|to| to.destination.host.to_string());
    let name = if route.name.is_empty() { "-" } else { &*route.name };
    format!("{name} {uris} {}", to.unwrap_or_else(|| "?".to_owned()))
}

/// VirtualServices, a service, and those that it has in order.
const CANDIDATES: &[(&[&str], &str, &str)] = &[
    (&["svc/a@1 pay.test"], PAY, "svc/a"),
    (&["svc/a@1 other.test"], PAY, ""),
    // by creation, name and namespace
    (
        &["svc/a@2 pay.test", "svc/b@1 pay.test", "oth/b@1 pay.test", "oth/z@0 pay.test"],
        PAY,
        "oth/z oth/b svc/b svc/a",
    ),
    // wildcards match below them only, and the most specific host of each is shown
    (&["svc/a@1 *.test", "svc/b@2 pay.test", "svc/c@3 *.pay.test"], PAY, "svc/a* svc/b"),
    (&["svc/a@1 pay.test,*.deep.test"], "svc/x.deep.test", "svc/a*"),
    // a short name is a service of the namespace, a name with a dot is whole
    (&["svc/a@1 pay"], "svc/pay.svc.svc.cluster.local", "svc/a"),
    (&["oth/a@1 pay", "svc/b@1 pay.svc"], "svc/pay.svc.svc.cluster.local", ""),
    (&["svc/a@1 *.svc.svc.cluster.local"], "svc/pay.svc.svc.cluster.local", "svc/a*"),
    // a wildcard service
    (&["svc/a@1 *.wild.test", "svc/b@2 x.wild.test", "svc/c@3 *.x.wild.test"], "svc/*.wild.test", "svc/a*"),
];

#[test]
fn services_have_the_virtual_services_of_their_host_in_order() {
    for (all, service, want) in CANDIDATES {
        let mut world = World::of_files();
        let declared = mk_service(service, mk_decl("pay", "80 http"));
        world.list("file", all.iter().map(|text| mk_vs(text, &["- * a.test"])).chain([declared]));
        let found = &read(&world.catalog())[*service];
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.join(" "), *want, "{all:?}");
    }
}

#[test]
fn those_for_gateways_and_those_without_routes_concern_no_one() {
    let mut world = World::of_files();
    let gateway = edited(mk_vs("svc/a@1 pay.test", &["- * a.test"]), |own| own.mesh = false);
    let empty = mk_vs("svc/b@1 pay.test", &[]);
    world.list("file", [gateway, empty, mk_service(PAY, mk_decl("pay", "80 http"))]);
    assert!(read(&world.catalog())[PAY].is_empty());
    // beside another one, it still takes the host from wildcards
    world.put("file", [mk_vs("svc/c@2 *.test", &["- * a.test"])]);
    let found = &read(&world.catalog())[PAY];
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["svc/b", "svc/c*"]);
}

/// Routes of a VirtualService of namespace svc, delegates, and the routes that result.
type Delegated =
    (&'static [&'static str], &'static [(&'static str, &'static [&'static str])], &'static [&'static str]);

const DELEGATES: &[Delegated] = &[
    // short destinations mean services of the namespace of the delegate
    (
        &["r /a >oth/d", "- * b.test"],
        &[("oth/d@1 -", &["d /a/x pay"])],
        &["r-d /a/x pay.oth.svc.cluster.local", "- * b.test"],
    ),
    (&["r * >svc/d"], &[("svc/d@1 -", &["- /x a.test", "d * b.test"])], &["r /x a.test", "r-d * b.test"]),
    (&["- /a >svc/d"], &[("svc/d@1 -", &["d * a.test"])], &["d /a a.test"]),
    // each condition lies within one of the root
    (
        &["r /a,/b >svc/d"],
        &[("svc/d@1 -", &["x /b/1,^/a a.test", "y /c a.test", "z /a,/c a.test", "w ~/a a.test"])],
        &["r-x /b/1,^/a a.test"],
    ),
    (
        &["r ^/a >svc/d"],
        &[("svc/d@1 -", &["x ^/a a.test", "y /a a.test", "z ^/b a.test"])],
        &["r-x ^/a a.test"],
    ),
    (
        &["r ~/a.* >svc/d"],
        &[("svc/d@1 -", &["x ~/a.* a.test", "y ^/a a.test", "z * a.test"])],
        &["r-z ~/a.* a.test"],
    ),
    (&["r /,/a >svc/d"], &[("svc/d@1 -", &["x /a/b a.test"])], &["r-x /a/b,/a/b a.test"]),
    // unknown ones, those that are not for the namespace, those with hosts, and delegates of delegates are left out
    (&["r * >svc/none", "s * b.test"], &[], &["s * b.test"]),
    (&["r * >oth/d", "s * b.test"], &[("oth/d@1 - .", &["d * a.test"])], &["s * b.test"]),
    (&["r * >oth/d", "s * b.test"], &[("oth/d@1 - svc", &["d * a.test"])], &["r-d * a.test", "s * b.test"]),
    (&["r * >svc/d", "s * b.test"], &[("svc/d@1 x.test", &["d * a.test"])], &["s * b.test"]),
    (
        &["r * >svc/d"],
        &[("svc/d@1 -", &["d * >svc/e", "f * a.test"]), ("svc/e@1 -", &["e * a.test"])],
        &["r-f * a.test"],
    ),
];

#[test]
fn routes_of_delegates_take_the_place_of_the_route_that_names_them() {
    for (routes, delegates, want) in DELEGATES {
        let mut world = World::of_files();
        let declared = mk_service(PAY, mk_decl("pay", "80 http"));
        let delegates = delegates.iter().map(|(text, routes)| mk_vs(text, routes));
        world.list("file", delegates.chain([mk_vs("svc/a@1 pay.test", routes), declared]));
        let found = &read(&world.catalog())[PAY];
        assert_eq!(found[0].1, *want, "{routes:?}");
    }
}

#[test]
fn routes_of_delegates_name_them() {
    let mut world = World::of_files();
    let root = mk_vs("svc/a@1 pay.test", &["- /none >oth/none", "r /a >oth/d", "- * b.test"]);
    let delegate = mk_vs("oth/d@1 -", &["outside /b a.test", "d /a/x a.test"]);
    world.list("file", [root, delegate, mk_service(PAY, mk_decl("pay", "80 http"))]);
    let view = world.view(PAY).unwrap();
    let routes = &view.ports[0].route.inputs.virtual_services[0].routes;
    let named: Vec<(Option<&str>, RoutePosition)> =
        routes.iter().map(|route| (route.delegate.as_ref().map(|to| &*to.name), route.position)).collect();
    let of_delegate = RoutePosition { own: 1, in_delegate: 1 };
    assert_eq!(named, [(Some("d"), of_delegate), (None, RoutePosition::of(2))]);
}

#[test]
fn change_builds_only_the_routes_of_the_services_concerned() {
    let mut world = World::of_files();
    let other = "svc/other.test";
    let services = [PAY, other].map(|name| mk_service(name, mk_decl(name, "80 http")));
    world.list("file", services);
    let before = (world.view(PAY).unwrap(), world.view(other).unwrap());
    let outcome = world.put("file", [mk_vs("svc/n@1 none.test", &["- * a.test"])]);
    assert_eq!(outcome.changed.hosts, [mk_host("none.test")].into(), "its own host, and no service");
    // a root and its delegate
    world.put("file", [mk_vs("svc/a@1 pay.test", &["r * >svc/d", "- * b.test"])]);
    let with_root = world.view(PAY).unwrap();
    let (was, is) = (&before.0.ports[0], &with_root.ports[0]);
    assert!(was.route != is.route && was.listener == is.listener);
    assert!(was.cluster == is.cluster && was.endpoints == is.endpoints);
    let outcome = world.put("file", [mk_vs("svc/d@1 -", &["d * a.test"])]);
    assert_eq!(outcome.changed.hosts.len(), 1);
    assert!(world.view(PAY).unwrap().ports[0].route != is.route);
    assert!(world.put("file", [mk_vs("svc/e@1 -", &["d * a.test"])]).changed.hosts.is_empty());
    // routes of connections concern listeners alone
    let root = || mk_vs("svc/a@1 pay.test", &["- * b.test"]);
    world.put("file", [root()]);
    let routed = world.view(PAY).unwrap();
    let tcp = edited(root(), |own| own.tcp = [mk_tcp(&[("a.test", None)])].into());
    world.put("file", [tcp.clone()]);
    let view = world.view(PAY).unwrap();
    assert!(
        view.ports[0].listener != routed.ports[0].listener && view.ports[0].route == routed.ports[0].route
    );
    assert!(Arc::ptr_eq(&before.1, &world.view(other).unwrap()));
    // the order changes with the creation time alone
    world.report("file", [mk_deleted(&tcp)]);
    let gone = world.view(PAY).unwrap();
    assert!(
        gone.ports[0].route.inputs == was.route.inputs
            && gone.ports[0].listener.inputs == was.listener.inputs
    );
}

#[test]
fn creation_time_alone_changes_the_order() {
    let mut world = World::of_files();
    let of = |text| mk_vs(text, &["- * a.test"]);
    let service = mk_service(PAY, mk_decl("pay", "80 http"));
    world.list("file", [of("svc/a@2 pay.test"), of("svc/b@3 pay.test"), service]);
    world.put("file", [of("svc/b@1 pay.test")]);
    let names: Vec<String> = read(&world.catalog())[PAY].iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["svc/b", "svc/a"]);
}

const SERVICES: [&str; 4] =
    [PAY, "svc/pay.svc.svc.cluster.local", "svc/pay.svc.svc.mesh.test", "oth/x.pay.test"];

const NAMES: [&str; 4] = ["svc/a", "svc/b", "oth/a", "oth/b"];
const HOSTS: [&str; 7] = ["-", "-", "pay.test", "*.test", "pay", "*.pay.test,pay.test", "*.svc.mesh.test"];
const ROUTES: [&str; 4] = ["- * a", "r /a >svc/a", "r /a,/b >oth/b", "- /a/b b"];

fn any_vs() -> impl Strategy<Value = Fact> {
    let routes = proptest::collection::vec(select(&ROUTES[..]), 0..3);
    let named = (select(&NAMES[..]), 0..3_u8, select(&HOSTS[..]), select(&["-", ".", "svc"][..]));
    (named, routes, proptest::option::of(select(&["a", "end.test"][..]))).prop_map(
        |((name, created, hosts, export), routes, tcp)| {
            edited(mk_vs(&format!("{name}@{created} {hosts} {export}"), &routes), |own| {
                own.tcp = tcp.map(|to| mk_tcp(&[(to, None)])).into_iter().collect();
            })
        },
    )
}

fn any_edit() -> impl Strategy<Value = (Fact, bool)> {
    let domain = select(&["cluster.local", "mesh.test"][..]);
    let settings = domain.prop_map(|domain| {
        Fact::Settings(Arc::new(Settings { domain: Some(domain.into()), ..Settings::default() }))
    });
    let service = select(&SERVICES[..]).prop_map(|name| mk_service(name, mk_decl("pay", "80 http")));
    prop_oneof![
        8 => (any_vs(), proptest::bool::weighted(0.8)),
        1 => settings.prop_map(|fact| (fact, true)),
        3 => (service, proptest::bool::weighted(0.8)),
        2 => (destinations::any_leading(), proptest::bool::weighted(0.8)),
    ]
}

/// What the destinations of a service's routes of requests and of connections lead to.
type Ends = (Arc<[ResolvedDestination]>, Arc<[ConnectionTarget]>);

/// Returns what the destinations of each service lead to.
fn destinations(catalog: &Catalog) -> Vec<Ends> {
    let of = |view: &Arc<tributary_model::ServiceView>| {
        let port = &view.ports[0];
        (Arc::clone(&port.route.inputs.destinations), Arc::clone(&port.listener.inputs.destinations))
    };
    catalog.services().map(of).collect()
}

/// Returns the VirtualServices that lead to each host.
fn leaders(catalog: &Catalog) -> BTreeMap<String, Vec<PolicyKey>> {
    let led = catalog.hosts.iter().filter(|(_, entry)| !entry.led_by.is_empty());
    let led = led.map(|(host, entry)| {
        (host.to_string(), entry.led_by.iter().map(|owner| owner.key.clone()).collect())
    });
    let found: BTreeMap<String, Vec<PolicyKey>> = led.collect();
    let listed = catalog
        .led_to
        .iter()
        .flat_map(|(namespace, hosts)| hosts.iter().map(move |host| (host.to_string(), namespace.clone())));
    let owners = found
        .iter()
        .flat_map(|(host, owners)| owners.iter().map(move |owner| (host.clone(), owner.namespace.clone())));
    let named = catalog.hosts.iter().flat_map(|(host, entry)| {
        let naming = entry.routes.iter().flat_map(|routes| routes.inputs.virtual_services.iter());
        naming.map(move |candidate| (host.to_string(), candidate.of.key.namespace.clone()))
    });
    assert_eq!(listed.collect::<BTreeSet<_>>(), owners.chain(named).collect::<BTreeSet<_>>());
    found
}

/// Returns a route of every connection to these hosts and subsets.
fn mk_tcp(to: &[(&str, Option<&str>)]) -> TcpRoute {
    let destination = |(host, subset): &(&str, Option<&str>)| {
        let subset = subset.map(|subset| Subset::new(subset).unwrap());
        L4Destination { destination: RouteDestination { host: mk_host(host), subset, port: None }, weight: 1 }
    };
    TcpRoute { matches: Arc::default(), destinations: to.iter().map(destination).collect() }
}

type Ordered<'f> = (Option<Timestamp>, &'f Arc<str>, &'f tributary_model::Namespace, &'f VirtualService);

/// Returns all VirtualServices in order of precedence.
fn ordered(facts: &[Fact]) -> Vec<Ordered<'_>> {
    let all = facts.iter().filter_map(|fact| match fact {
        Fact::Policy(key, declared) => match &declared.policy {
            Policy::VirtualService(own) => Some((declared.created, &key.name, &key.namespace, own)),
            _ => None,
        },
        _ => None,
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(created, name, namespace, _)| (*created, *name, *namespace));
    all
}

fn domain(facts: &[Fact]) -> Option<&str> {
    facts.iter().find_map(|fact| match fact {
        Fact::Settings(settings) => settings.domain.as_deref(),
        _ => None,
    })
}

/// Returns the VirtualServices of each service by comparing every pair.
fn naive(facts: &[Fact]) -> BTreeMap<String, Vec<String>> {
    let domain = domain(facts);
    let all = ordered(facts);
    let of = |key: &tributary_model::ServiceKey| {
        let found = all.iter().filter_map(|(_, name, namespace, own)| {
            let hosts = own.hosts.iter();
            let mut hosts =
                hosts.map(|host| host.completed(namespace.as_str(), domain.unwrap_or("cluster.local")));
            hosts.any(|host| host.matches(&key.host)).then(|| format!("{namespace}/{name}"))
        });
        found.collect()
    };
    let services = facts.iter().filter_map(|fact| match fact {
        Fact::Service(key, _) => Some(&key.service),
        _ => None,
    });
    services.map(|key| (format!("{}/{}", key.namespace, key.host), of(key))).collect()
}

proptest! {
    #[test]
    fn any_order_of_changes_ends_in_the_naive_answer(
        edits in proptest::collection::vec(any_edit(), 1..30),
        shuffle in any::<u8>(),
    ) {
        let mut world = World::of_files();
        world.list("file", []);
        let mut last = BTreeMap::new();
        for (fact, put) in &edits {
            world.report("file", [if *put { mk_put(fact.clone()) } else { mk_deleted(fact) }]);
            last.insert(fact.item(), put.then(|| fact.clone()));
        }
        let mut facts: Vec<Fact> = last.into_values().flatten().collect();
        let (walked, naive) = (read(&world.catalog()), naive(&facts));
        // one without routes is no candidate, unless another one has routes
        for (service, found) in &walked {
            let names: Vec<&str> = found.iter().map(|(name, _)| name.trim_end_matches('*')).collect();
            prop_assert!(names.is_empty() || names == naive[service], "{service}: {names:?} {:?}", naive[service]);
            prop_assert_eq!(found.is_empty(), found.iter().all(|(_, routes)| routes.is_empty()));
        }
        let at = usize::from(shuffle) % facts.len().max(1);
        facts.rotate_left(at);
        let mut fresh = World::of_files();
        fresh.list("file", facts.clone());
        prop_assert_eq!(walked, read(&fresh.catalog()));
        prop_assert_eq!(destinations(&world.catalog()), destinations(&fresh.catalog()));
        prop_assert_eq!(leaders(&world.catalog()), leaders(&fresh.catalog()));
        prop_assert_eq!(hosts::routes(&world.catalog()), hosts::routes(&fresh.catalog()));
        hosts::have_those_that_name_them(&world.catalog(), &facts);
        fresh.core.remove_registry(&mk_name("file"), &tributary_model::Evidence::Operator);
        fresh.catalog();
        prop_assert!(fresh.core.is_empty(), "{:?}", fresh.core);
    }
}
