//! Any VirtualServices give a client the parts of listeners that a walk over every condition gives it, and clients with one
//! key have the same.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tributary_model::{ByNamespace, ClientDimensions, GatewayMatch, ResourceInputs};

use super::*;
use crate::client::ClientClass;
use crate::key::key;

const NAMESPACES: [&str; 3] = ["shop", "web", "far"];
const NAMES: [&str; 3] = ["pay.shop", "x.shop", "*.deep.shop"];
const SUBNETS: [&str; 3] = ["10.97.0.0/16", "10.98.0.0/16", "fd00::/64"];
const HOSTS: [&str; 3] = ["a.test", "b.test", "c.test"];

prop_compose! {
    fn some_match()(
        subnets in subsequence(&SUBNETS[..], 0..3),
        here in prop::option::weighted(0.2, any::<bool>()),
        namespace in prop::option::weighted(0.2, select(&NAMESPACES[..])),
        label in prop::option::weighted(0.2, select(&["a", "b"][..])),
        gateways in prop_oneof![
            8 => Just(GatewayMatch::Undeclared), 1 => Just(GatewayMatch::Mesh), 1 => Just(GatewayMatch::Other)
        ],
    ) -> L4Match {
        let clients = ClientMatch {
            labels: label.map(|label| ("app", label)).into_iter().collect(),
            namespace: namespace.map(mk_ns),
            gateways,
        };
        let port = here.map(|here| mk_port(if here { 80 } else { 81 }));
        L4Match { port, clients, ..mk_match(&subnets) }
    }
}
fn some_destinations() -> impl Strategy<Value = Arc<[L4Destination]>> {
    prop::collection::vec((select(&HOSTS[..]), 0_u32..3), 1..3)
        .prop_map(|all| all.into_iter().map(|(host, weight)| mk_to(host, weight)).collect())
}
prop_compose! {
    fn some_tcp()(
        matches in prop_oneof![
            1 => Just(Vec::new()), 6 => prop::collection::vec(some_match(), 1..3)
        ],
        destinations in some_destinations(),
    ) -> TcpRoute {
        TcpRoute { matches: matches.into(), destinations }
    }
}
prop_compose! {
    fn some_tls()(
        matches in prop::collection::vec((subsequence(&NAMES[..], 1..3), some_match()), 1..3),
        destinations in some_destinations(),
    ) -> TlsRoute {
        let found = |(names, connection): (Vec<&str>, L4Match)| {
            TlsMatch { names: names.into_iter().map(|name| HostPattern::new(name).unwrap()).collect(), connection }
        };
        TlsRoute { matches: matches.into_iter().map(found).collect(), destinations }
    }
}
prop_compose! {
    fn some_candidate()(
        tls in prop::collection::vec(some_tls(), 0..4),
        tcp in prop::collection::vec(some_tcp(), 0..4),
        visible in prop_oneof![6 => Just(Visibility::Public), 2 => Just(Visibility::Own), 1 => Just(Visibility::Hidden)],
        owner in select(&NAMESPACES[..]),
    ) -> L4Candidate {
        let mut out = mk_candidate(&tls, &tcp);
        let of = Arc::make_mut(&mut out.of);
        of.visibility = visible;
        of.key.namespace = mk_ns(owner);
        out
    }
}
prop_compose! {
    fn some_facts()(
        candidates in prop::collection::vec(some_candidate(), 1..4),
        protocol in prop_oneof![
            5 => Just(Protocol::Tcp), 5 => Just(Protocol::Tls), 3 => Just(Protocol::Unspecified), 1 => Just(Protocol::Http)
        ],
        is_addressed in prop::bool::weighted(0.7),
        ruled in prop::option::of(select(&NAMESPACES[..])),
    ) -> ListenerInputs {
        let rule = |namespace| {
            let policy = Arc::new(ConnectionPolicy { by_source: true, ..ConnectionPolicy::default() });
            Arc::new(ByNamespace::new(None, [(mk_ns(namespace), Some(policy))]))
        };
        let destination = mk_to("b.test", 0).destination;
        let target = ConnectionTarget {
            host: destination.host.clone(),
            destination,
            port: Some(mk_port(9)),
            policy: ruled.map(rule),
        };
        ListenerInputs {
            virtual_services: candidates.into(),
            destinations: [target].into(),
            ..mk_facts_of(protocol, if is_addressed { ADDRESS } else { &[] })
        }
    }
}
prop_compose! {
    fn some_client()(
        namespace in prop::option::of(select(&NAMESPACES[..])),
        label in prop::option::of(select(&["a", "b", "c"][..])),
    ) -> ClientClass {
        ClientClass {
            namespace: namespace.map(mk_ns),
            labels: label.map(|label| ("app", label)).into_iter().collect(),
            ..ClientClass::new(ClientKind::Sidecar)
        }
    }
}

/// Returns where destinations lead a client, as [`naive`] shows it.
fn target(facts: &ListenerInputs, client: &ClientClass, destinations: &[L4Destination]) -> String {
    let cluster = |to: &L4Destination| {
        let port = if to.destination.host.as_str() == "b.test" { 9 } else { 80 };
        format!("outbound|{port}||{}", to.destination.host)
    };
    let policy = facts.destinations[0].policy.as_ref();
    let first = &destinations[0];
    let is_ruled = first.destination.host.as_str() == "b.test"
        && policy.is_some_and(|by| by.get(client.namespace.as_ref()).is_some());
    let with = if is_ruled { " by source" } else { "" };
    let shares: Vec<String> = destinations
        .iter()
        .filter(|to| to.weight > 0)
        .map(|to| format!("{}={}", cluster(to), to.weight))
        .collect();
    if destinations.len() == 1 || shares.is_empty() {
        return format!("{}{with}", cluster(first));
    }
    format!("{}{with}", shares.join("+"))
}

/// Returns the parts of a client's listeners without HTTP: range, server name and target.
fn naive(facts: &ListenerInputs, client: &ClientClass) -> Vec<String> {
    let (labels, own) = (&client.labels, client.namespace.as_ref());
    let admits = |found: &L4Match| found.admits(facts.port, labels, own);
    let mut seen: Vec<&L4Candidate> = facts.virtual_services.iter().collect();
    seen.retain(|one| one.of.tier(own).is_some());
    seen.sort_by_key(|one| one.of.tier(own));
    let is_tls = facts.protocol == Protocol::Tls;
    let is_addressed = !facts.addresses.is_empty();
    let mut out: Vec<(String, String)> = Vec::new();
    let mut is_taken = false;
    for candidate in seen {
        for route in candidate.routes.tls.iter().filter(|_| is_tls) {
            for found in route.matches.iter().filter(|found| admits(&found.connection)) {
                is_taken = true;
                for name in found.names.iter() {
                    let subnets: Vec<String> =
                        found.connection.subnets.iter().map(ToString::to_string).collect();
                    let subnets = if subnets.is_empty() { vec!["*".to_owned()] } else { subnets };
                    let matches = subnets.into_iter().map(|to| format!("{to} {}", name.as_str()));
                    out.extend(matches.map(|at| (at, target(facts, client, &route.destinations))));
                }
            }
        }
        // nothing finds the connections of a service without an address
        for route in candidate.routes.tcp.iter().filter(|_| !is_tls && is_addressed) {
            let fitting: Vec<&L4Match> = route.matches.iter().filter(|found| admits(found)).collect();
            let to = target(facts, client, &route.destinations);
            if route.matches.is_empty() || fitting.iter().any(|found| found.subnets.is_empty()) {
                out.extend((!is_taken).then(|| ("* *".to_owned(), to)));
                is_taken = true;
            } else if !is_taken {
                let subnets = fitting.iter().flat_map(|found| found.subnets.iter());
                out.extend(subnets.map(|to| format!("{to} *")).map(|at| (at, to.clone())));
            }
        }
    }
    let usual = if is_addressed { "* *" } else { "* pay.shop" };
    if !is_taken && (is_addressed || is_tls) {
        out.push((usual.to_owned(), "outbound|80||pay.shop".to_owned()));
    }
    let mut at = BTreeSet::new();
    out.retain(|(matches, _)| at.insert(matches.clone()));
    out.into_iter().map(|(at, to)| format!("{at} {to}")).collect()
}

fn planned(facts: &ListenerInputs, client: &Projection) -> Vec<String> {
    let line = |part: ListenerPlan| {
        let range =
            part.matches.range.map_or_else(|| "*".to_owned(), |(ip, prefix)| format!("{ip}/{prefix}"));
        let sni = part.matches.sni.as_deref().unwrap_or("*");
        let ruled = |policy: &Option<Arc<ConnectionPolicy>>| if policy.is_some() { " by source" } else { "" };
        let serves = match &part.serves {
            Serves::Cluster(cluster, policy) => format!("{cluster}{}", ruled(policy)),
            Serves::Weighted(all, policy) => {
                let shares: Vec<_> = all.iter().map(|(to, weight)| format!("{to}={weight}")).collect();
                format!("{}{}", shares.join("+"), ruled(policy))
            }
            Serves::Routes | Serves::Http(..) => return None,
        };
        Some(format!("{range} {sni} {serves}"))
    };
    listener(facts, client, &mut ()).into_iter().filter_map(line).collect()
}

fn dims() -> ClientDimensions {
    ClientDimensions::KIND | ClientDimensions::NAMESPACE | ClientDimensions::LABELS
}

proptest! {
    #[test]
    fn any_client_has_the_routes_of_a_walk_over_every_condition(facts in some_facts(), client in some_client()) {
        let node = ResourceInputs::new(facts, dims());
        let want = if node.inputs.protocol == Protocol::Http { Vec::new() } else { naive(&node.inputs, &client) };
        prop_assert_eq!(planned(&node.inputs, &key(&node, &client)), want);
    }
}

#[test]
fn clients_have_keys_of_their_own_only_where_a_route_concerns_them() {
    let keys = |tcp: &[TcpRoute]| {
        let facts = ListenerInputs {
            virtual_services: [mk_candidate(&[], tcp)].into(),
            ..mk_facts_of(Protocol::Tcp, ADDRESS)
        };
        let node = ResourceInputs::new(facts, dims());
        let client = |n: usize| ClientClass {
            namespace: Some(mk_ns(&format!("n{n}"))),
            labels: [("app", &*format!("a{}", n % 100))].into_iter().collect(),
            ..ClientClass::new(ClientKind::Sidecar)
        };
        (0..1_000).map(|n| key(&node, &client(n))).collect::<std::collections::HashSet<_>>().len()
    };
    let labelled = || {
        let clients = ClientMatch { labels: [("app", "a7")].into_iter().collect(), ..ClientMatch::default() };
        L4Match { clients, ..L4Match::default() }
    };
    assert_eq!(keys(&[]), 1);
    assert_eq!(keys(&[mk_tcp(&[], "b.test")]), 1);
    assert_eq!(keys(&[mk_tcp(&[labelled()], "b.test")]), 2);
    assert_eq!(keys(&[mk_tcp(&[labelled()], "b.test"), mk_tcp(&[of_namespace("n8")], "c.test")]), 3);
    assert_eq!(
        keys(&[mk_tcp(&[], "b.test"), mk_tcp(&[labelled()], "c.test")]),
        1,
        "a route behind all others"
    );
    let elsewhere = L4Match { port: Some(mk_port(1)), ..labelled() };
    assert_eq!(keys(&[mk_tcp(&[elsewhere], "b.test")]), 1, "a route of another port");
}
