//! Properties for any two sets of services: differences are exact, resources do not depend on
//! history, and clients of every kind accept the encoded output.

use std::collections::HashSet;

use proptest::prelude::*;
use tributary_answer::{
    ClientSidecar, Listener, PortSet, RouteClaim, VirtualHostPlan, compose_listeners, compose_routes, key,
    members, route_claims, route_table_name, scoped_listener,
};
use tributary_fixtures::mk_sidecar;
use tributary_model::{
    Distribution, FailoverLabel, ForwardingServer, HostImport, HostPattern, Hostname, ImportNamespace,
    LocalityBalancing, PortNumber, Sidecar, TrafficDistribution, Visibility,
};

use super::scopes::some_sidecar;
use super::*;
use crate::answers::ClientClass;
use crate::answers::fold::unclaimed;
use crate::encode;
use crate::encode::defaults::Defaults;
use crate::encode::route::{Unclaimed, append_host, empty_table, table_head, table_tail, virtual_host};

fn some_protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![
        Just(Protocol::Http),
        Just(Protocol::Grpc),
        Just(Protocol::Tcp),
        Just(Protocol::Tls),
        Just(Protocol::Udp)
    ]
}
fn some_resolution() -> impl Strategy<Value = Resolution> {
    prop_oneof![
        4 => Just(Resolution::ClientSide),
        1 => Just(Resolution::Passthrough),
        1 => Just(Resolution::DnsStrict),
        1 => Just(Resolution::DnsLogical),
        1 => "[a-d]".prop_map(|host| Resolution::Alias(Hostname::new(format!("{host}.shop")).unwrap())),
    ]
}
pub(super) fn some_visibility() -> impl Strategy<Value = Visibility> {
    let named = mk_svc("x.y").seen_by(&["web"]).visibility;
    prop_oneof![
        4 => Just(Visibility::Public),
        1 => Just(Visibility::Own),
        1 => Just(named),
        1 => Just(Visibility::Hidden)
    ]
}
fn some_traffic() -> impl Strategy<Value = TrafficDistribution> {
    prop_oneof![3 => Just(TrafficDistribution::Any), 1 => Just(TrafficDistribution::SameZone)]
}
/// Orders that a rule sets: none, by locality, by label, by both, and shares.
fn some_order() -> impl Strategy<Value = Option<LocalityBalancing>> {
    let tier = || FailoverLabel { key: "tier".into(), value: None };
    let failover = |regions: &[(&str, &str)], labels: Vec<FailoverLabel>| LocalityBalancing::Failover {
        regions: regions.iter().map(|(from, to)| ((*from).into(), (*to).into())).collect(),
        labels: labels.into(),
    };
    let shares = [Distribution { from: "eu/1a".into(), to: [("eu/*".into(), 100)].into() }];
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(failover(&[("ap", "us")], vec![]))),
        1 => Just(Some(failover(&[], vec![tier()]))),
        1 => Just(Some(failover(&[("eu", "us")], vec![tier()]))),
        1 => Just(Some(LocalityBalancing::Distribute(shares.into()))),
    ]
}
prop_compose! {
    fn some_service()(
        host in "[a-d]",
        namespace in prop_oneof![Just("shop"), Just("web")],
        ports in prop::collection::vec((prop_oneof![Just(80u32), Just(81)], some_protocol()), 1..3),
        endpoints in prop::collection::vec(1u8..6, 0..6),
        address in prop::option::of(1u8..4),
        (visibility, resolution, traffic) in (some_visibility(), some_resolution(), some_traffic()),
        (created, mtls, order) in (prop::option::of(0i64..3), any::<bool>(), some_order()),
        account in prop::option::of(prop_oneof![Just("a"), Just("b")]),
    ) -> Svc {
        Svc {
            host: format!("{host}.shop"),
            namespace: namespace.into(),
            ports,
            endpoints: endpoints.iter().map(|n| format!("10.0.0.{n}")).collect(),
            names: Vec::new(),
            addresses: address.iter().map(|n| format!("10.9.0.{n}")).collect(),
            visibility,
            resolution,
            target: None,
            traffic,
            order,
            created,
            mtls,
            account: account.map(str::to_owned),
            virtual_services: Arc::default(),
        }
    }
}
prop_compose! {
    fn some_rule()(
        name in "[a-d]",
        namespace in prop_oneof![Just("shop"), Just("web")],
        hosts in prop::collection::btree_set(prop::sample::select(vec![
            // those of services, names of none, and wildcards over both
            "a.shop", "b.shop", "c.shop", "d.shop", "e.shop", "f.test", "*.shop", "*.test", "*.b.shop",
        ]), 1..4),
        visibility in some_visibility(),
    ) -> Rule {
        let hosts = hosts.into_iter().map(str::to_owned).collect();
        Rule { name, namespace: namespace.into(), hosts, visibility }
    }
}
/// VirtualServices in order of precedence; half of the worlds have none.
fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    let rules = prop::collection::vec(some_rule(), 1..5).prop_map(|mut rules| {
        rules.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
        rules.dedup_by(|a, b| (&a.name, &a.namespace) == (&b.name, &b.namespace));
        rules
    });
    prop_oneof![Just(Vec::new()), rules]
}
/// Services and VirtualServices.
type Facts = (Vec<Svc>, Vec<Rule>);
fn some_facts() -> impl Strategy<Value = Facts> {
    (some_services(), some_rules())
}
pub(super) fn some_services() -> impl Strategy<Value = Vec<Svc>> {
    prop::collection::vec(some_service(), 0..7).prop_map(|mut services| {
        services.sort_by(|a, b| (&a.host, &a.namespace).cmp(&(&b.host, &b.namespace)));
        services.dedup_by(|a, b| (&a.host, &a.namespace) == (&b.host, &b.namespace));
        services
    })
}
pub(super) fn some_class() -> impl Strategy<Value = ClientClassKey> {
    let kind = prop::sample::select(vec![
        ClientKind::Envoy,
        ClientKind::Sidecar,
        ClientKind::Grpc,
        ClientKind::Router,
    ]);
    let namespace = prop_oneof![Just(""), Just("shop"), Just("web")];
    (kind, namespace, any::<bool>(), some_sidecar()).prop_map(|(kind, namespace, binds, sidecar)| {
        let class = (*mk_class(kind, namespace)).clone();
        let sidecar = sidecar.filter(|_| class.namespace.is_some() && kind != ClientKind::Envoy);
        let sidecar = if kind == ClientKind::Router { forwarding(sidecar.as_deref()) } else { sidecar };
        ClientClassKey::alone(ClientClass { binds, sidecar, ..class })
    })
}
/// Returns what a router has that forwards to these hosts: those of a Sidecar, or all.
pub(super) fn forwarding(reach: Option<&ClientSidecar>) -> Option<Arc<ClientSidecar>> {
    let import = HostImport { namespace: ImportNamespace::Any, host: HostPattern::new("*").unwrap() };
    let port = PortNumber::new(15_443).unwrap();
    let servers = Arc::from([ForwardingServer { port, bind: None, hosts: [import].into() }]);
    let all = Sidecar::default();
    let reach = reach.cloned().unwrap_or_else(|| {
        let (key, _) = mk_sidecar("web", "all", all.clone());
        ClientSidecar::new(&key, &all)
    });
    Some(Arc::new(ClientSidecar { servers: Some(servers), ..reach }))
}

/// Every name that could exist in these catalogs.
fn all_names() -> Arc<Subscription> {
    let names = ["a", "b", "c", "d"].iter().flat_map(|h| [80, 81].map(|p| format!("outbound|{p}||{h}.shop")));
    let tables = ["80", "81", "82"].map(str::to_owned);
    let forwarded = names.clone().map(|name| name.replace('|', "_."));
    Arc::new(Subscription::new(names.chain(forwarded).chain(tables).map(Arc::from)))
}
/// Returns the versions of a class without sharing or caches.
fn versions_without_caches(
    (services, rules): &Facts,
    class: &ClientClassKey,
    kind: ResourceType,
) -> BTreeMap<Arc<str>, Version> {
    let catalog = World::default().routed(services, rules);
    full(&CatalogAnswers::default(), &catalog, class, kind)
}
fn full(
    answers: &CatalogAnswers,
    catalog: &Arc<Catalog>,
    class: &ClientClassKey,
    kind: ResourceType,
) -> BTreeMap<Arc<str>, Version> {
    if kind.has_wildcard() {
        return versions(&answers.all(catalog, class, kind));
    }
    let subscription = all_names();
    let names = subscription.iter();
    names
        .filter_map(|name| answers.one(catalog, class, kind, name))
        .map(|e| (e.name.clone(), e.version))
        .collect()
}
fn mk_generations(worlds: &[Facts]) -> Vec<Arc<Catalog>> {
    let mut world = World::default();
    worlds.iter().map(|(services, rules)| world.routed(services, rules)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_difference_is_the_difference_of_the_sets(
        worlds in prop::collection::vec(some_facts(), 2..5),
        class in some_class(),
    ) {
        let (generations, answers) = (mk_generations(&worlds), CatalogAnswers::default());
        let mut held = ResourceType::ALL.map(|kind| full(&answers, &generations[0], &class, kind));
        for step in generations.windows(2) {
            for (kind, held) in ResourceType::ALL.into_iter().zip(&mut held) {
                let changed = answers.changed(&step[0], &step[1], &class, kind);
                for upserted in &changed.upserted {
                    let before = held.insert(upserted.name.clone(), upserted.version);
                    prop_assert_ne!(before, Some(upserted.version), "{} was sent although unchanged", upserted.name);
                }
                for name in &changed.removed {
                    prop_assert!(held.remove(name).is_some(), "{} was removed but never existed", name);
                }
                prop_assert_eq!(&*held, &full(&answers, &step[1], &class, kind));
            }
        }
    }

    #[test]
    fn a_jump_over_forgotten_generations_misses_nothing(
        worlds in prop::collection::vec(some_facts(), 2..8),
        class in some_class(),
    ) {
        let (generations, answers) = (mk_generations(&worlds), CatalogAnswers::default());
        let (first, last) = (&generations[0], &generations[worlds.len() - 1]);
        let mut held = ResourceType::ALL.map(|kind| full(&answers, first, &class, kind));
        for catalog in &generations {
            ResourceType::ALL.iter().for_each(|&kind| drop(full(&answers, catalog, &class, kind)));
        }
        for (kind, held) in ResourceType::ALL.into_iter().zip(&mut held) {
            let changed = answers.changed(first, last, &class, kind);
            held.extend(changed.upserted.iter().map(|e| (e.name.clone(), e.version)));
            held.retain(|name, _| !changed.removed.contains(name));
            prop_assert_eq!(&*held, &full(&answers, last, &class, kind));
        }
    }

    #[test]
    fn answers_do_not_depend_on_history(
        worlds in prop::collection::vec(some_facts(), 1..4),
        class in some_class(),
        jumps in prop::collection::vec(0usize..4, 0..6),
    ) {
        let (generations, answers) = (mk_generations(&worlds), CatalogAnswers::default());
        let order = jumps.iter().map(|j| j % worlds.len()).chain(0..worlds.len());
        for at in order {
            for kind in ResourceType::ALL {
                let got = full(&answers, &generations[at], &class, kind);
                prop_assert_eq!(got, versions_without_caches(&worlds[at], &class, kind));
            }
        }
    }

    #[test]
    fn encoded_assignments_satisfy_the_strict_rules(services in some_services(), class in some_class()) {
        let (catalog, answers) = (World::default().next(&services), CatalogAnswers::default());
        for name in all_names().iter() {
            let Some(found) = answers.one(&catalog, &class, ResourceType::Endpoints, name) else { continue };
            let body = ClusterLoadAssignment::decode(found.body().unwrap()).unwrap();
            strict(&body)?;
        }
    }

    #[test]
    fn permuted_inputs_give_the_same_bytes(
        facts in some_facts(),
        class in some_class(),
        by in 0usize..7,
    ) {
        let mut permuted = facts.clone();
        permuted.0.rotate_left(if facts.0.is_empty() { 0 } else { by % facts.0.len() });
        for kind in ResourceType::ALL {
            prop_assert_eq!(versions_without_caches(&facts, &class, kind), versions_without_caches(&permuted, &class, kind));
        }
    }
}

/// Composes the tables of all services from scratch, with the reference function.
fn composed_tables(
    catalog: &Catalog,
    class: &ClientClassKey,
    unclaimed: &Unclaimed,
) -> BTreeMap<String, Vec<u8>> {
    let ports = route_claims(catalog, class);
    let namespace =
        |claim: &RouteClaim<'_>| Some((claim.plan.as_ref()?.cluster.clone(), claim.namespace.clone()));
    let table = |(number, claims): (PortNumber, Vec<RouteClaim<'_>>)| {
        let namespaces: BTreeMap<_, _> = claims.iter().filter_map(namespace).collect();
        let (mut hosts, _) = compose_routes(claims);
        hosts.sort_by_key(|plan: &VirtualHostPlan| (namespaces[&plan.cluster].clone(), plan.cluster.clone()));
        (!hosts.is_empty()).then(|| {
            let name = route_table_name(number);
            let mut out = table_head(&name);
            hosts.iter().for_each(|host| append_host(&mut out, &virtual_host(host)));
            out.extend(table_tail(unclaimed));
            (name, out)
        })
    };
    ports.into_iter().filter_map(table).collect()
}
fn composed_listeners(
    catalog: &Catalog,
    class: &ClientClassKey,
    unclaimed: &Unclaimed,
) -> BTreeMap<String, Vec<u8>> {
    let mut parts = Vec::new();
    for (_, view) in members(catalog, class.scope()) {
        for port in class.scope().ports(view, PortSet::Imported) {
            let inputs = &port.listener;
            let plans = scoped_listener(&inputs.inputs, &key(inputs, class), class.scope(), &mut ());
            parts.extend(plans.into_iter().map(|plan| (view, plan)));
        }
    }
    let defaults = Defaults::new(unclaimed.clone());
    let body = |l: &Listener| encode::listener::listener(l, &Default::default(), &defaults);
    compose_listeners(parts).0.iter().map(|l| (l.name.clone(), body(l))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn folded_composites_equal_those_of_the_reference(
        worlds in prop::collection::vec(some_facts(), 1..5),
        namespace in prop_oneof![Just(""), Just("shop"), Just("web")],
        sidecar in some_sidecar(),
    ) {
        let (generations, answers) = (mk_generations(&worlds), CatalogAnswers::default());
        let class = (*mk_class(ClientKind::Sidecar, namespace)).clone();
        let sidecar = sidecar.filter(|_| !namespace.is_empty());
        let class = ClientClassKey::alone(ClientClass { sidecar, ..class });
        let unclaimed = unclaimed(&generations[0], &class);
        for catalog in &generations {
            let bodies = |kind| {
                let set = answers.folded(catalog, &class, kind).set;
                let body = |m: &Arc<EncodedResource>| answers.bytes(catalog, &class, kind, m).unwrap().to_vec();
                set.members().iter().map(|m| (m.name.to_string(), body(m))).collect::<BTreeMap<_, _>>()
            };
            prop_assert_eq!(bodies(ResourceType::Route), composed_tables(catalog, &class, &unclaimed));
            let mut listeners = bodies(ResourceType::Listener);
            prop_assert!(listeners.remove("virtualOutbound").is_some());
            prop_assert_eq!(listeners, composed_listeners(catalog, &class, &unclaimed));
        }
    }

    #[test]
    fn every_body_comes_back_after_eviction(facts in some_facts(), class in some_class()) {
        let (catalog, answers) = (World::default().routed(&facts.0, &facts.1), CatalogAnswers::new(0));
        for kind in ResourceType::ALL {
            let one = |name: &str| answers.one(&catalog, &class, kind, name);
            let (named, all) = (all_names(), answers.folded(&catalog, &class, kind).set);
            let named = named.iter().filter_map(|name| one(name));
            for member in named.chain(all.members().iter().cloned()).filter(|m| is_of_services(m)) {
                let first = answers.bytes(&catalog, &class, kind, &member);
                prop_assert!(first.is_some(), "{} is missing", member.name);
                member.evict();
                prop_assert_eq!(answers.bytes(&catalog, &class, kind, &member), first, "{}", member.name);
            }
        }
        prop_assert_eq!(answers.counters().lost.get(), 0);
    }
}

/// Whether the budget holds the resource; resources that are few or built per request are exempt.
fn is_of_services(resource: &EncodedResource) -> bool {
    let name = &*resource.name;
    let is_empty = |unclaimed: &Unclaimed| resource.body().is_some_and(|b| b == empty_table(name, unclaimed));
    let proxy = Unclaimed::To("outbound|80||a.shop".parse().unwrap());
    let empty_table = [Unclaimed::Pass, Unclaimed::Block, proxy].iter().any(is_empty);
    !name.ends_with("Cluster") && name != "virtualOutbound" && !empty_table
}

/// Checks the rules of gRPC's C core for assignments (docs/reference/xds.md#endpoints).
fn strict(body: &ClusterLoadAssignment) -> Result<(), TestCaseError> {
    let mut addresses = HashSet::new();
    let mut localities = HashSet::new();
    let mut priorities = Vec::new();
    for group in &body.endpoints {
        let locality = group.locality.as_ref();
        prop_assert!(locality.is_some(), "a locality is missing");
        prop_assert!(localities.insert((group.priority, format!("{locality:?}"))), "duplicate locality");
        prop_assert!(group.load_balancing_weight.is_some_and(|w| w.value >= 1));
        priorities.push(group.priority);
        for endpoint in &group.lb_endpoints {
            prop_assert!(endpoint.load_balancing_weight.is_some_and(|w| w.value >= 1));
            let text = format!("{:?}", endpoint.host_identifier);
            prop_assert!(addresses.insert(text), "duplicate address");
        }
    }
    priorities.dedup();
    let expected: Vec<u32> = (0..u32::try_from(priorities.len()).unwrap()).collect();
    prop_assert_eq!(priorities, expected, "priorities have a gap");
    Ok(())
}
