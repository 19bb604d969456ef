//! DestinationRules: which one applies to the clients of which namespace, and what a change builds.
//!
//! The cases of [`CHOICES`] are those that pilot-discovery 1.30 was recorded with.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{
    Algorithm, ClientDimensions, ConnectionPool, Distribution, Fact, FailoverLabel, HashKey, LoadBalancer,
    LocalityBalancing, Policy, PortNumber, PortPolicies, ServiceView, Settings, TrafficPolicy,
};

use super::fixtures::*;

const PAY: &str = "svc/pay.test";

/// Rules, such as `cli/a@2 pay.test * v1,v2`, each a name, second of creation, host, namespaces and subsets.
fn mk_rules(texts: &[&str]) -> Vec<Fact> {
    let rule = |text: &&str| {
        let mut parts = text.split(' ');
        let mut next = || parts.next().unwrap_or_default();
        let (name, created) = next().split_once('@').unwrap();
        let (host, export, subsets) = (next(), next(), next());
        mk_rule(name, created.parse().unwrap(), host, if export == "-" { "" } else { export }, subsets)
    };
    texts.iter().map(rule).collect()
}

/// Returns the subsets that clients of a namespace have; `-` without a rule.
fn subsets(world: &mut World, service: &str, namespace: &str) -> String {
    let view = world.view(service).unwrap();
    let inputs = &view.ports[0].cluster.inputs;
    let Some(policy) = inputs.policy_of(Some(&mk_ns(namespace))) else { return "-".into() };
    let names: Vec<&str> = policy.subsets.iter().map(|(name, _)| name.as_str()).collect();
    names.join(",")
}

/// Rules, and the subsets that clients of the namespaces cli, oth, svc and istio-system have.
const CHOICES: &[(&[&str], [&str; 4])] = &[
    (&["svc/a@1 pay.test - v1"], ["v1", "v1", "v1", "v1"]),
    (&["svc/a@1 pay.test . v1"], ["-", "-", "v1", "-"]),
    (&["svc/a@1 pay.test cli v1"], ["v1", "-", "-", "-"]),
    (&["oth/a@1 pay.test * v1"], ["-", "v1", "-", "-"]),
    // the client's namespace precedes the service's, that precedes the root namespace
    (
        &["cli/a@9 pay.test - c", "svc/a@1 pay.test - s", "istio-system/a@0 pay.test - r"],
        ["c", "s", "s", "s"],
    ),
    (&["istio-system/a@1 *.test * r"], ["r", "r", "r", "r"]),
    (&["istio-system/a@1 pay.test . r", "svc/a@1 pay.test - s"], ["s", "s", "s", "r"]),
    (&["cli/a@1 pay.test oth c", "svc/a@1 pay.test - s"], ["s", "s", "s", "s"]),
    // the most specific host within a namespace; any host of a namespace precedes that of the next one
    (&["svc/a@1 *.test - wide", "svc/b@2 pay.test - exact"], ["exact", "exact", "exact", "exact"]),
    (&["cli/a@1 * - wide", "svc/b@2 pay.test - exact"], ["wide", "exact", "exact", "exact"]),
    (&["svc/a@1 pay.test . own", "svc/b@2 *.test - wide"], ["wide", "wide", "own", "wide"]),
    (&["svc/a@1 pay.test cli c", "svc/b@2 *.test - wide", "istio-system/r@1 * - r"], ["c", "r", "wide", "r"]),
    // rules of one host and the same exports add their subsets
    (
        &["svc/a@2 pay.test - v1,v2", "svc/b@1 pay.test - v2,v3"],
        ["v2,v3,v1", "v2,v3,v1", "v2,v3,v1", "v2,v3,v1"],
    ),
    // other exports: the last that the client sees
    (&["svc/a@1 pay.test cli c", "svc/b@2 pay.test * all"], ["all", "all", "all", "all"]),
    (&["svc/a@1 pay.test cli c", "svc/b@2 pay.test cli,oth more"], ["c,more", "-", "-", "-"]),
    (&["svc/a@1 pay.test * a", "svc/b@2 pay.test cli b", "svc/c@3 pay.test * c"], ["c", "c", "a,c", "c"]),
];

#[test]
fn rule_of_each_client_is_that_of_istio() {
    for (rules, want) in CHOICES {
        let mut world = World::of_files();
        let service = mk_service(PAY, mk_decl("pay", "80 http"));
        world.list("file", mk_rules(rules).into_iter().chain([service]));
        let got = ["cli", "oth", "svc", "istio-system"].map(|namespace| subsets(&mut world, PAY, namespace));
        assert_eq!(got.each_ref().map(String::as_str), *want, "{rules:?}");
    }
}

#[test]
fn rules_that_add_something_are_named() {
    let cases: &[(&[&str], &str)] = &[
        (&["svc/a@2 pay.test - v1,v2", "svc/b@1 pay.test - v2"], "b,a"),
        (&["svc/a@1 pay.test - v1,v2", "svc/b@2 pay.test - v2"], "a"),
        (&["svc/a@1 pay.test - ", "svc/b@2 pay.test - "], "a"),
        (&["svc/a@1 pay.test cli c", "svc/b@2 pay.test * all"], "b"),
    ];
    for (rules, want) in cases {
        let mut world = World::of_files();
        let service = mk_service(PAY, mk_decl("pay", "80 http"));
        world.list("file", mk_rules(rules).into_iter().chain([service]));
        let view = world.view(PAY).unwrap();
        let policy = view.ports[0].cluster.inputs.policy_of(Some(&mk_ns("oth"))).unwrap();
        let names: Vec<&str> = policy.from.iter().map(|key| &*key.name).collect();
        assert_eq!(names.join(","), *want, "{rules:?}");
    }
    // the settings of a younger rule apply where older ones have none
    let mut world = World::of_files();
    let rules = ["svc/a", "svc/b", "svc/c"].map(|name| mk_rule(name, 1, "pay.test", "", ""));
    let [first, second, third] = rules;
    let set = [second, third].map(|rule| mk_balanced(rule, Algorithm::Random));
    let service = mk_service(PAY, mk_decl("pay", "80 http"));
    world.list("file", [first, service].into_iter().chain(set));
    let view = world.view(PAY).unwrap();
    let policy = view.ports[0].cluster.inputs.policy_of(None).unwrap();
    assert_eq!(policy.from.iter().map(|key| &*key.name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn short_host_is_a_service_of_the_rules_namespace() {
    let mut world = World::of_files();
    let full = "svc/pay.svc.svc.cluster.local";
    let all = [mk_service(full, mk_decl("pay", "80 http")), mk_rule("svc/a", 1, "pay", "", "v1")];
    world.list("file", all);
    assert_eq!(subsets(&mut world, full, "cli"), "v1");
    world.put("file", [mk_rule("svc/a", 1, "pay.svc", "", "v1")]);
    assert_eq!(subsets(&mut world, full, "cli"), "-", "a host with a dot is a whole name");
}

fn mk_balanced(rule: Fact, algorithm: Algorithm) -> Fact {
    mk_with(rule, PortPolicies { all: mk_policy(Some(algorithm), None), ..PortPolicies::default() })
}

/// Sets the policies of a rule.
fn mk_with(mut rule: Fact, policies: PortPolicies) -> Fact {
    let Fact::Policy(_, declared) = &mut rule else { panic!("not a policy") };
    let Policy::DestinationRule(rule_mut) = &mut Arc::make_mut(declared).policy else { panic!("not a rule") };
    rule_mut.policies = policies;
    rule
}
fn mk_policy(algorithm: Option<Algorithm>, tcp: Option<u64>) -> TrafficPolicy {
    let balancer = algorithm.map(|algorithm| Arc::new(LoadBalancer { algorithm, ..LoadBalancer::default() }));
    let pool = tcp.map(Duration::from_secs).map(|time| {
        let (tcp_idle_timeout, max_duration) = (Some(time), Some(time * 2));
        Arc::new(ConnectionPool { tcp_idle_timeout, max_duration, ..ConnectionPool::default() })
    });
    TrafficPolicy { balancer, pool, ..TrafficPolicy::default() }
}
/// Returns the view of a service with an HTTP port and a TCP port that a rule concerns.
fn ruled(all: TrafficPolicy, ports: &[(u32, TrafficPolicy)]) -> Arc<ServiceView> {
    let mut world = World::of_files();
    let ports = ports.iter().map(|(port, policy)| (PortNumber::new(*port).unwrap(), policy.clone()));
    let policies = PortPolicies { all, ports: Arc::new(ports.collect()) };
    let rule = mk_with(mk_rule("svc/a", 1, "pay.test", "", ""), policies);
    world.list("file", [mk_service(PAY, mk_decl("pay", "80 http http, 81 tcp tcp")), rule]);
    world.view(PAY).unwrap()
}

#[test]
fn hash_of_a_port_precedes_that_of_the_rule() {
    let header = |name: &str| Algorithm::RingHash(HashKey::Header(name.into()), None);
    let hash = |view: &ServiceView| match view.ports[0].route.inputs.hash_of(None).map(|key| &**key) {
        Some(HashKey::Header(name)) => name.to_string(),
        other => format!("{other:?}"),
    };
    let all = mk_policy(Some(header("all")), None);
    assert_eq!(hash(&ruled(all.clone(), &[])), "all");
    assert_eq!(hash(&ruled(all.clone(), &[(80, mk_policy(Some(header("port")), None))])), "port");
    let random = mk_policy(Some(Algorithm::Random), None);
    assert_eq!(hash(&ruled(all, &[(80, random.clone())])), "all", "as in Istio");
    assert_eq!(hash(&ruled(random, &[])), "None");
}

#[test]
fn durations_of_tcp_are_those_of_all_ports() {
    let source = Algorithm::RingHash(HashKey::SourceIp, None);
    let view = ruled(mk_policy(Some(source), Some(3)), &[(81, mk_policy(None, Some(9)))]);
    let policy = |port: usize| view.ports[port].listener.inputs.policy_of(None).cloned();
    let tcp = policy(1).unwrap();
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    assert_eq!((seconds(tcp.idle_timeout), seconds(tcp.max_duration)), (Some(3), Some(6)));
    assert!(tcp.by_source);
    assert_eq!(policy(0), None, "HTTP has them in its route table and cluster");
}

#[test]
fn change_of_a_rule_builds_only_what_it_concerns() {
    let mut world = World::of_files();
    let other = "svc/other.test";
    let services = [PAY, other].map(|name| mk_service(name, mk_decl(name, "80 http")));
    world.list("file", services);
    let before = (world.view(PAY).unwrap(), world.view(other).unwrap());
    // a rule for a host that no service has
    let outcome = world.put("file", [mk_rule("svc/none", 1, "none.test", "", "v1")]);
    assert!(outcome.changed.hosts.is_empty(), "{:?}", outcome.changed.hosts);
    // load balancing concerns the xDS cluster alone
    let rule = || mk_rule("svc/a", 1, "pay.test", "", "");
    let outcome = world.put("file", [mk_balanced(rule(), Algorithm::Random)]);
    assert_eq!(outcome.changed.hosts.len(), 1);
    let after = world.view(PAY).unwrap();
    let (was, is) = (&before.0.ports[0], &after.ports[0]);
    assert!(was.cluster != is.cluster && was.endpoints == is.endpoints && was.route == is.route);
    assert!(Arc::ptr_eq(&before.1, &world.view(other).unwrap()));
    // subsets concern endpoints too
    world.put("file", [mk_rule("svc/a", 1, "pay.test", "", "v1")]);
    assert!(world.view(PAY).unwrap().ports[0].endpoints != is.endpoints);
    world.report("file", [mk_deleted(&rule())]);
    let gone = world.view(PAY).unwrap();
    assert!(
        gone.ports[0].cluster.inputs == was.cluster.inputs
            && gone.ports[0].endpoints.inputs == was.endpoints.inputs
    );
}

#[test]
fn rule_for_no_service_builds_nothing_and_an_edit_builds_the_inputs_that_it_concerns() {
    let mut world = World::of_files();
    let name = |i: usize| format!("svc/s{i}.test");
    let services = (0..20).map(|i| mk_service(&name(i), mk_decl(&name(i), "80 http, 81 admin")));
    world.put("file", services.collect::<Vec<_>>());
    let mut built = |facts: Vec<Fact>| {
        let before = world.core.counters();
        let outcome = world.put("file", facts);
        let after = world.core.counters();
        (
            after.views - before.views,
            after.resource_inputs - before.resource_inputs,
            outcome.changed.hosts.len(),
        )
    };
    let rule = |host: &str, subsets: &str| mk_rule("svc/a", 1, host, "", subsets);
    assert_eq!(built(vec![rule("none.test", "v1")]), (0, 0, 0));
    assert_eq!(built(vec![rule("none.test", "v1,v2")]), (0, 0, 0), "neither does an edit");
    // clusters of two ports, then also their endpoints
    assert_eq!(built(vec![mk_balanced(rule("s3.test", ""), Algorithm::Random)]), (1, 2, 1));
    assert_eq!(built(vec![mk_balanced(rule("s3.test", ""), Algorithm::RoundRobin)]), (1, 2, 1));
    assert_eq!(built(vec![mk_balanced(rule("s3.test", "v1"), Algorithm::RoundRobin)]), (1, 4, 1));
    // from one host to another: both
    assert_eq!(built(vec![mk_balanced(rule("s4.test", "v1"), Algorithm::RoundRobin)]), (2, 8, 2));
    // a rule that adds nothing to another changes no input
    assert_eq!(built(vec![mk_rule("svc/b", 2, "s4.test", "", "v1")]).1, 0);
    assert_eq!(built(vec![mk_rule("svc/w", 2, "*.test", "", "v1")]).2, 19, "all but the exact one");
}

/// Checks how many views a list builds.
fn builds(views: u64, facts: impl Iterator<Item = Fact>) {
    let mut world = World::of_files();
    world.list("file", facts.collect::<Vec<_>>());
    assert_eq!(world.core.counters().views, views);
}

#[test]
fn many_rules_build_each_service_once() {
    let services =
        || (0..10_000).map(|i| mk_service(&format!("svc/s{i}.test"), mk_decl(&format!("s{i}"), "80 http")));
    let rule = |i: usize, host: &str, export: &str, subsets: &str| {
        mk_rule(&format!("svc/r{i}"), 1, host, export, subsets)
    };
    // one for each of 10,000 services, by name and by a wildcard
    builds(10_000, services().chain((0..10_000).map(|i| rule(i, &format!("s{i}.test"), "", "v1,v2"))));
    builds(10_000, services().chain((0..10_000).map(|i| rule(i, &format!("*s{i}.test"), "", "v1,v2"))));
    // of one host, with one subset each
    let one = || std::iter::once(mk_service(PAY, mk_decl("pay", "80 http")));
    builds(1, one().chain((0..10_000).map(|i| rule(i, "pay.test", "", &format!("v{i}")))));
    // of one host, each exported to 256 other namespaces
    let export = |i: usize| (0..256).map(|j| format!("n{}", i * 256 + j)).collect::<Vec<_>>().join(",");
    builds(1, one().chain((0..100).map(|i| rule(i, "pay.test", &export(i), "v1"))));
}

#[test]
fn localities_of_the_mesh_reach_every_service_and_its_clients() {
    let mut world = World::of_files();
    let settings = |locality: Option<LocalityBalancing>| {
        let locality = locality.map(Arc::new);
        Fact::Settings(Arc::new(Settings { locality, ..Settings::default() }))
    };
    let group = mk_group(PAY, "pay", "g", "10.0.0.1:http=80");
    world.put("file", [mk_service(PAY, mk_decl("pay", "80 http")), group]);
    let dimensions = |world: &mut World| world.view(PAY).unwrap().ports[0].endpoints.dimensions;
    let usual = dimensions(&mut world);
    // shares need no rule
    let share = Distribution { from: "eu".into(), to: [("us".into(), 100)].into() };
    let outcome = world.put("file", [settings(Some(LocalityBalancing::Distribute([share].into())))]);
    assert!(outcome.changed.hosts.contains(&mk_host("pay.test")));
    assert_eq!(dimensions(&mut world), usual | ClientDimensions::LOCALITY);
    // failover by a label needs ejection, and the label of clients
    let labels = [FailoverLabel::read("tier"), FailoverLabel::read("site=a")].into();
    world.put("file", [settings(Some(LocalityBalancing::Failover { regions: Arc::default(), labels }))]);
    assert_eq!(dimensions(&mut world), usual);
    assert_eq!(*world.catalog().compared_labels, ["tier".into()]);
    world.put("file", [settings(None)]);
    assert!(world.catalog().compared_labels.is_empty());
    let inputs = &world.view(PAY).unwrap().ports[0];
    assert_eq!((&inputs.cluster.inputs.locality, &inputs.endpoints.inputs.locality), (&None, &None));
}
