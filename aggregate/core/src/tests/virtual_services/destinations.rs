//! What the destinations of routes lead to, through aliases and with the hash of DestinationRules.

use tributary_model::{
    Algorithm, ByClient, ConnectionPolicy, ConnectionPool, Declaration, HashKey, LoadBalancer, PortPolicies,
    Resolution, SubsetRule, TrafficPolicy,
};

use super::*;

/// Facts that change what the host `a` of the namespaces svc and oth leads to.
pub(super) fn any_leading() -> impl Strategy<Value = Fact> {
    let host = select(&["a.svc.svc.cluster.local", "a.oth.svc.cluster.local", "end.test"][..]);
    let namespace = select(&["svc", "oth"][..]);
    (host, namespace, 0..4_u8).prop_map(|(host, namespace, kind)| {
        let name = format!("{namespace}/{host}");
        match kind {
            0 => mk_service(&name, mk_decl(&format!("{namespace}-{host}"), "80 http")),
            3 => mk_service(&name, mk_decl(&format!("{namespace}-{host}"), "80 http, 81 web")),
            1 => mk_service(&name, mk_alias(&format!("{namespace}-{host}"), "end.test")),
            _ => mk_hashed(&format!("{namespace}/r"), host, namespace, &[], None),
        }
    })
}

pub(super) fn mk_alias(object: &str, to: &str) -> Declaration {
    Declaration { resolution: Resolution::Alias(mk_host(to)), ..mk_decl(object, "80 http") }
}

/// Returns what the destinations of a service's first port lead to for clients of namespace cli: host, subset and port,
/// the host at its end, and the header by which it chooses an endpoint, on ports with a header of their own too.
fn led_to(world: &mut World, service: &str) -> Vec<String> {
    let view = world.view(service).unwrap();
    let inputs = &view.ports[0].route.inputs;
    let of = |resolved: &ResolvedDestination| {
        let RouteDestination { host, subset, port } = &resolved.destination;
        let subset = subset.as_ref().map(|subset| format!("|{}", subset.as_str())).unwrap_or_default();
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let own = resolved.hash_of_ports.iter().map(|(port, hash)| format!(" {port}={}", header(hash)));
        let own: String = own.collect();
        format!("{host}{subset}{port} {} {}{own}", resolved.host, header(&resolved.hash))
    };
    inputs.destinations.iter().map(of).collect()
}

fn header(hash: &ByClient<HashKey>) -> String {
    let key = hash.as_ref().and_then(|by| by.get(Some(&mk_ns("cli"))).as_deref());
    match key {
        Some(HashKey::Header(name)) => name.to_string(),
        _ => "-".to_owned(),
    }
}

fn mk_hash(header: &str) -> TrafficPolicy {
    let algorithm = Algorithm::RingHash(HashKey::Header(header.into()), None);
    let balancer = Some(Arc::new(LoadBalancer { algorithm, ..LoadBalancer::default() }));
    TrafficPolicy { balancer, ..TrafficPolicy::default() }
}

/// Returns a rule with a hash for everything, for ports, and for a subset.
fn mk_hashed(name: &str, host: &str, all: &str, ports: &[(u32, &str)], subset: Option<&str>) -> Fact {
    let mut rule = mk_rule(name, 1, host, "", if subset.is_some() { "v1" } else { "" });
    let Fact::Policy(_, declared) = &mut rule else { panic!("not a policy") };
    let Policy::DestinationRule(own) = &mut Arc::make_mut(declared).policy else { panic!("not a rule") };
    let policy = |header: &str| if header.is_empty() { TrafficPolicy::default() } else { mk_hash(header) };
    let ports = ports.iter().map(|(port, header)| (mk_port(*port), policy(header)));
    own.policies = PortPolicies { all: policy(all), ports: Arc::new(ports.collect()) };
    if let Some(header) = subset {
        let policies = PortPolicies { all: policy(header), ..PortPolicies::default() };
        own.subsets =
            own.subsets.iter().map(|one| SubsetRule { policies: policies.clone(), ..one.clone() }).collect();
    }
    rule
}

fn mk_to(destinations: &[(&str, Option<&str>, Option<u32>)]) -> Fact {
    edited(mk_vs("svc/a@1 pay.test", &["- * a.test"]), |own| {
        let weighted = |(host, subset, port): &(&str, Option<&str>, Option<u32>)| {
            let subset = subset.map(|subset| Subset::new(subset).unwrap());
            let destination = RouteDestination { host: mk_host(host), subset, port: port.map(mk_port) };
            WeightedDestination { destination, weight: 1, headers: None }
        };
        let action = HttpAction::Route(destinations.iter().map(weighted).collect());
        own.http =
            own.http.iter().map(|route| HttpRoute { action: action.clone(), ..route.clone() }).collect();
    })
}

#[test]
fn hash_of_a_route_is_that_of_its_destination() {
    let mut world = World::of_files();
    let routes = mk_to(&[
        ("a.test", None, None),
        ("a.test", None, Some(80)),
        ("a.test", Some("v1"), None),
        ("a.test", Some("v2"), None),
        ("b.test", None, None),
    ]);
    let services =
        [PAY, "svc/a.test", "svc/b.test"].map(|name| mk_service(name, mk_decl(name, "80 http, 81 web")));
    world.list("file", services.into_iter().chain([routes]));
    assert!(led_to(&mut world, PAY).is_empty());
    // a destination without a port has that of the route table, and a subset precedes its rule
    world.put("file", [mk_hashed("svc/r", "a.test", "all", &[(80, "port")], Some("subset"))]);
    let want = [
        "a.test a.test all 80=port",
        "a.test:80 a.test port",
        "a.test|v1 a.test subset",
        "a.test|v2 a.test all 80=port",
    ];
    assert_eq!(led_to(&mut world, PAY), want);
    world.put("file", [mk_hashed("svc/r", "a.test", "", &[(80, "port"), (81, "")], None)]);
    let want = ["a.test a.test - 80=port", "a.test:80 a.test port", "a.test|v1 a.test - 80=port"];
    assert_eq!(led_to(&mut world, PAY)[..3], want);
    world.put("file", [mk_hashed("svc/r", "*.test", "all", &[(80, "")], Some(""))]);
    let want = [
        "a.test a.test all",
        "a.test:80 a.test all",
        "a.test|v1 a.test all",
        "a.test|v2 a.test all",
        "b.test b.test all",
    ];
    assert_eq!(led_to(&mut world, PAY), want);
    world.put("file", [mk_hashed("svc/r", "other.test", "all", &[], None)]);
    assert!(led_to(&mut world, PAY).is_empty());
}

#[test]
fn destination_that_is_an_alias_leads_to_its_end() {
    let mut world = World::of_files();
    let alias = |to| mk_service("svc/alias.test", mk_alias("alias", to));
    let services = ["svc/a.test", "svc/b.test", PAY].map(|name| mk_service(name, mk_decl(name, "80 http")));
    world.list("file", services.into_iter().chain([mk_to(&[("alias.test", None, None)])]));
    assert!(led_to(&mut world, PAY).is_empty());
    world.put("file", [alias("a.test")]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test a.test -"]);
    // a rule for the alias has no effect
    let rules =
        [mk_hashed("svc/x", "alias.test", "x", &[], None), mk_hashed("svc/y", "b.test", "y", &[], None)];
    world.put("file", rules);
    world.put("file", [alias("b.test")]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test b.test y"]);
    world.put("file", [mk_hashed("svc/y", "b.test", "z", &[], None)]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test b.test z"], "a rule for the end of an alias");
    let elder = Declaration { created: Timestamp::from_second(1).ok(), ..mk_decl("oth-b", "80 http") };
    world
        .put("file", [mk_hashed("oth/y", "b.test", "o", &[], None), mk_service("oth/b.test", elder.clone())]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test b.test o"], "another claimant of the end of an alias");
    world.report("file", [mk_deleted(&mk_service("oth/b.test", elder))]);
    world.put("file", [alias("none.test")]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test none.test -"]);
    world.report("file", [mk_deleted(&alias("none.test"))]);
    assert!(led_to(&mut world, PAY).is_empty());
    world.put("file", [alias("b.test")]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test b.test z"]);
    world.put("file", [mk_service("svc/alias.test", mk_decl("alias", "80 http"))]);
    assert_eq!(led_to(&mut world, PAY), ["alias.test alias.test x"], "the service is no alias any more");
}

#[test]
fn first_claimant_of_a_destination_decides_its_rules() {
    let mut world = World::of_files();
    let of = |name: &str, created| {
        let created = Timestamp::from_second(created).ok();
        mk_service(name, Declaration { created, ..mk_decl(&name.replace('/', "-"), "80 http") })
    };
    let rules =
        [mk_hashed("svc/r", "a.test", "svc", &[], None), mk_hashed("oth/r", "a.test", "oth", &[], None)];
    world.list(
        "file",
        rules.into_iter().chain([of(PAY, 1), of("svc/a.test", 2), mk_to(&[("a.test", None, None)])]),
    );
    assert_eq!(led_to(&mut world, PAY), ["a.test a.test svc"]);
    world.put("file", [of("oth/a.test", 1)]);
    assert_eq!(led_to(&mut world, PAY), ["a.test a.test oth"]);
    world.report("file", [mk_deleted(&of("oth/a.test", 1))]);
    world.report("file", [mk_deleted(&of("svc/a.test", 2))]);
    assert!(led_to(&mut world, PAY).is_empty());
}

/// Returns what the destinations of connections of a service's first port lead to for clients of namespace cli: host and
/// subset, the host at its end with its only port, and what a rule sets.
fn connected_to(world: &mut World, service: &str) -> Vec<String> {
    let view = world.view(service).unwrap();
    let shown = |policy: Option<&ConnectionPolicy>| {
        policy.map_or_else(
            || "-".to_owned(),
            |policy| {
                let idle =
                    policy.idle_timeout.map(|time| format!(" {}s", time.as_secs())).unwrap_or_default();
                format!("{}{idle}", if policy.by_source { "source" } else { "any" })
            },
        )
    };
    let of = |target: &ConnectionTarget| {
        let RouteDestination { host, subset, .. } = &target.destination;
        let subset = subset.as_ref().map(|subset| format!("|{}", subset.as_str())).unwrap_or_default();
        let port = target.port.map(|port| format!(":{port}")).unwrap_or_default();
        let policy = target.policy.as_ref().and_then(|by| by.get(Some(&mk_ns("cli"))).as_deref());
        format!("{host}{subset} {}{port} {}", target.host, shown(policy))
    };
    view.ports[0].listener.inputs.destinations.iter().map(of).collect()
}

/// Returns a rule of `a.test` by which the client's address decides for everything, or for the subset v1, with an idle
/// timeout.
fn mk_by_source(all: bool, subset: bool) -> Fact {
    let mut rule = mk_rule("svc/r", 1, "a.test", "", "v1,v2");
    let Fact::Policy(_, declared) = &mut rule else { panic!("not a policy") };
    let Policy::DestinationRule(own) = &mut Arc::make_mut(declared).policy else { panic!("not a rule") };
    let balancer = |by_source: bool| {
        let algorithm =
            if by_source { Algorithm::RingHash(HashKey::SourceIp, None) } else { Algorithm::RoundRobin };
        Some(Arc::new(LoadBalancer { algorithm, ..LoadBalancer::default() }))
    };
    let idle = Some(std::time::Duration::from_secs(9));
    let pool = Some(Arc::new(ConnectionPool { tcp_idle_timeout: idle, ..ConnectionPool::default() }));
    own.policies.all = TrafficPolicy { balancer: balancer(all), pool, ..TrafficPolicy::default() };
    let set = TrafficPolicy { balancer: balancer(subset), ..TrafficPolicy::default() };
    let of = |one: &SubsetRule| match one.name.as_str() {
        "v1" => SubsetRule {
            policies: PortPolicies { all: set.clone(), ..PortPolicies::default() },
            ..one.clone()
        },
        _ => one.clone(),
    };
    own.subsets = own.subsets.iter().map(of).collect();
    rule
}

#[test]
fn connections_have_the_only_port_and_the_rule_of_their_destination() {
    let mut world = World::of_files();
    let routes = [
        mk_tcp(&[("a.test", None)]),
        mk_tcp(&[("a.test", Some("v1"))]),
        mk_tcp(&[("b.test", Some("v1")), ("a.test", Some("v2"))]),
    ];
    let vs = edited(mk_vs("svc/a@1 pay.test", &[]), |own| own.tcp = routes.into());
    let service = |name: &str, ports: &str| mk_service(name, mk_decl(&name.replace('/', "-"), ports));
    world.list("file", [service(PAY, "80 http"), service("svc/a.test", "5000 tcp"), vs]);
    let want = ["a.test a.test:5000 -", "a.test|v1 a.test:5000 -", "a.test|v2 a.test:5000 -"];
    assert_eq!(connected_to(&mut world, PAY), want);
    world.put("file", [service("svc/a.test", "5000 tcp, 5001 http")]);
    assert!(connected_to(&mut world, PAY).is_empty(), "several ports");
    world.put("file", [service("svc/a.test", "5001 http"), service("svc/b.test", "7 tcp")]);
    // the first of several destinations is here without its subset, too
    let want = [
        "a.test a.test:5001 -",
        "a.test|v1 a.test:5001 -",
        "a.test|v2 a.test:5001 -",
        "b.test b.test:7 -",
        "b.test|v1 b.test:7 -",
    ];
    assert_eq!(connected_to(&mut world, PAY), want);
    world.put("file", [mk_by_source(true, false)]);
    let found = |world: &mut World| connected_to(world, PAY)[..3].join(", ");
    assert_eq!(
        found(&mut world),
        "a.test a.test:5001 source 9s, a.test|v1 a.test:5001 any 9s, a.test|v2 a.test:5001 source 9s"
    );
    world.put("file", [mk_by_source(false, true)]);
    assert_eq!(
        found(&mut world),
        "a.test a.test:5001 any 9s, a.test|v1 a.test:5001 source 9s, a.test|v2 a.test:5001 any 9s"
    );
    world.put("file", [mk_service("svc/b.test", mk_alias("svc-b.test", "a.test"))]);
    assert_eq!(connected_to(&mut world, PAY)[3], "b.test a.test:5001 any 9s");
}

/// Returns the VirtualServices that lead to a host, by name.
fn led_by(world: &mut World, host: &str) -> Vec<String> {
    let catalog = world.catalog();
    let entry = &catalog.hosts[&mk_host(host)];
    let listed = catalog.led_to.values().any(|hosts| hosts.contains(&mk_host(host)));
    assert_eq!(listed, !entry.led_by.is_empty());
    entry.led_by.iter().map(|owner| owner.key.name.to_string()).collect()
}

#[test]
fn host_names_the_virtual_services_that_lead_to_it() {
    let mut world = World::of_files();
    let services = ["svc/a.test", "svc/b.test"].map(|name| mk_service(name, mk_decl(name, "80 http")));
    world.list("file", services);
    // hosts without a service lead to services, too
    let vs = |name: &str, to: &str| mk_vs(&format!("svc/{name}@1 none.test"), &[&format!("- * {to}")]);
    let outcome = world.put("file", [vs("v", "a.test"), vs("w", "a.test")]);
    assert_eq!(outcome.changed.hosts, ["a.test", "none.test"].map(mk_host).into());
    assert_eq!(
        (led_by(&mut world, "a.test"), led_by(&mut world, "b.test").len()),
        (vec!["v".into(), "w".into()], 0)
    );
    let outcome = world.put("file", [vs("v", "b.test")]);
    assert_eq!(outcome.changed.hosts, ["a.test", "b.test", "none.test"].map(mk_host).into());
    assert_eq!(
        (led_by(&mut world, "a.test"), led_by(&mut world, "b.test")),
        (vec!["w".into()], vec!["v".into()])
    );
    assert!(world.put("file", [vs("v", "b.test")]).changed.hosts.is_empty());
    // through an alias
    world.put("file", [mk_service("svc/alias.test", mk_alias("alias", "b.test")), vs("w", "alias.test")]);
    assert_eq!(led_by(&mut world, "b.test"), ["v", "w"]);
    world.put("file", [edited(vs("v", "b.test"), |own| own.mesh = false)]);
    assert_eq!(led_by(&mut world, "b.test"), ["w"]);
    world.report("file", [mk_deleted(&mk_service("svc/alias.test", mk_alias("alias", "b.test")))]);
    assert!(led_by(&mut world, "b.test").is_empty());
}

#[test]
fn host_names_the_virtual_services_that_lead_to_an_alias_of_any_claimant() {
    let mut world = World::of_files();
    let alias = mk_service("svc/both.test", mk_alias("alias", "end.test"));
    let other = mk_service("oth/both.test", mk_decl("a", "80 http"));
    world.list("file", [mk_service("svc/end.test", mk_decl("end", "80 http")), alias.clone(), other]);
    let first = world.catalog().hosts[&mk_host("both.test")].claimants[0].key.namespace.to_string();
    assert_eq!(first, "oth", "the alias is not the first claimant");
    let vs = |to: &str| mk_vs("svc/v@1 none.test", &[&format!("- * {to}")]);
    world.put("file", [vs("both.test")]);
    assert_eq!(led_by(&mut world, "end.test"), ["v"]);
    world.put("file", [vs("none.test")]);
    assert!(led_by(&mut world, "end.test").is_empty());
    world.put("file", [vs("both.test")]);
    world.report("file", [mk_deleted(&alias)]);
    assert!(led_by(&mut world, "end.test").is_empty());
}
